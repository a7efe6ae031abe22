"""Claims set against what the drive itself counted: which verdict follows, and the three side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from ioassay.analysis import claim_verdicts
from ioassay.narrative.pipeline import analyse_study
from ioassay.packs.virtual_drive.questions.drive import agreement, finding
from ioassay.records.observation import Observation
from ioassay.records.record import Claim
from ioassay.store.dataset import Dataset
from ioassay.verify.drive_counters import Count, counts, set_against
from ioassay.verify.judge import judge
from ioassay.verify.verdict import Property, Verdict

from ...narrative import golden

MIB = 2**20
SIZE = 64 * MIB


def claim(engine: str = "nbd", *, direct: bool = True, kind: str = "read", size: int = SIZE) -> Claim:
    return Claim(
        "fio", kind, operations=size // 4096, bytes=size, seconds=1.0, engine=engine, direct=direct,
        latency_ns={"mean": 30_000.0},
    )  # fmt: skip


def drive(size: int, kind: str = "read") -> dict[str, float]:
    return {
        f"drive.{kind}.ios": size / 4096,
        f"drive.{kind}.bytes": float(size),
        f"drive.{kind}.lat.mean": 10_000.0,
    }


def after(category: str, reason: str, own: Claim, counted: int) -> tuple[str, str]:
    """Category and reason once the drive's counts are known."""
    [found] = set_against([Verdict(category, reason, "as the kernel has it", claim=own)], counts(drive(counted)))
    assert found.numbers["drive_bytes"] == counted
    return found.category, found.reason


@pytest.mark.parametrize(
    ("category", "reason"),
    [
        ("UNSUBSTANTIATED", "PAST-THE-KERNEL"),
        ("UNSUBSTANTIATED", "NOTHING-SEEN"),
        ("UNSUBSTANTIATED", "NO-DEVICE-IO"),
        ("CONFIRMED-CACHED", "NO-DEVICE-IO"),
        ("INCOMPLETE", "CALLS-NOT-OBSERVED"),
    ],
)
def test_what_only_the_drive_saw_is_confirmed_by_the_drive(category: str, reason: str) -> None:
    assert after(category, reason, claim(), SIZE) == ("CONFIRMED", "BY-DRIVE")
    assert after(category, reason, claim(), SIZE + 50_000) == ("CONFIRMED", "BY-DRIVE")


@pytest.mark.parametrize(
    "kept",
    [
        ("CONFIRMED", "BY-TOTALS"),
        ("CONTRADICTED", "OTHER-TIME"),
        ("PERTURBED", "PROBE-EFFECT"),
        ("UNSUBSTANTIATED", "NULL-ENGINE"),
        ("INCOMPLETE", "STONEWALLED"),
        ("CONFIRMED-DEFERRED", "NO-SYNC"),
    ],
)
def test_agreement_of_the_drive_mends_no_other_verdict(kept: tuple[str, str]) -> None:
    assert after(*kept, claim(), SIZE) == kept


@pytest.mark.parametrize(("evidence", "category"), [("process", "CONFIRMED"), ("files", "CONTRADICTED")])
def test_the_drive_outweighs_totals_and_not_the_claims_own_files(evidence: str, category: str) -> None:
    fewer = Verdict("CONTRADICTED", "FEWER-SEEN", "", {"evidence": evidence}, claim("libaio"))
    [found] = set_against([fewer], counts(drive(SIZE)))
    assert found.category == category


def test_without_a_drive_that_counts_engines_past_the_kernel_are_unsubstantiated() -> None:
    nothing = Observation("bpf", "block", ("counters", "block", "uring"), held_ns=1, ended_ns=4 * 10**9)
    [found] = judge([claim("/opt/spdk/build/fio/spdk_bdev")], nothing)
    assert (found.category, found.reason) == ("UNSUBSTANTIATED", "PAST-THE-KERNEL")
    assert found.explanation[0]["engine"] == "spdk_bdev"


@pytest.mark.parametrize("engine", ["nbd", "/opt/spdk/build/fio/spdk_bdev"])
def test_a_lie_past_the_kernel_is_contradicted_by_the_drive(engine: str) -> None:
    unseen = ("UNSUBSTANTIATED", "NOTHING-SEEN")
    assert after(*unseen, claim(engine), SIZE // 2) == ("CONTRADICTED", "DRIVE-FEWER")
    assert after(*unseen, claim(engine), 0) == unseen


def test_less_at_the_drive_contradicts_direct_io_and_not_a_cache() -> None:
    assert after("CONFIRMED", "", claim("psync"), SIZE // 2) == ("CONTRADICTED", "DRIVE-FEWER")
    assert after("CONFIRMED", "", claim("psync", direct=False), SIZE // 2) == ("CONFIRMED", "")
    holes = ("UNSUBSTANTIATED", "NO-DEVICE-IO")
    assert after(*holes, claim("psync"), SIZE // 2) == holes


def test_more_at_the_drive_is_amplified_unless_the_tool_leaves_it_out() -> None:
    unseen = ("UNSUBSTANTIATED", "NOTHING-SEEN")
    assert after(*unseen, claim(), 2 * SIZE) == ("AMPLIFIED", "DRIVE-MORE")
    assert after(*unseen, replace(claim(), unreported=("ramp",)), 2 * SIZE) == ("CONFIRMED", "BY-DRIVE")


@pytest.mark.parametrize(
    ("counted", "wanted"),
    [
        (SIZE - 171_967, ("CONTRADICTED", "DRIVE-FEWER")),  # 0.1 % and 0.1 MiB
        (SIZE - 171_966, ("CONFIRMED", "BY-DRIVE")),
        (73_991_716, ("CONFIRMED", "BY-DRIVE")),  # 10 % and the same
        (73_991_717, ("AMPLIFIED", "DRIVE-MORE")),
    ],
)
def test_the_drive_agrees_within_bounds(counted: int, wanted: tuple[str, str]) -> None:
    assert after("UNSUBSTANTIATED", "NOTHING-SEEN", claim(), counted) == wanted


def test_both_directions_of_a_drive_are_one_mixed_count() -> None:
    both = counts({**drive(8192), **drive(4096, "write"), "drive.write.lat.mean": 40_000.0})
    assert both == {"read": Count(2, 8192, 10e3), "write": Count(1, 4096, 40e3), "mixed": Count(3, 12288, 20e3)}
    untimed = counts({**drive(8192), "drive.write.ios": 6, "drive.write.bytes": 1})
    assert untimed["mixed"] == Count(8, 8193, 10e3) and untimed["write"] == Count(6, 1, None)
    assert set(counts({**drive(8192), "drive.write.ios": 6})) == {"read"}


def test_the_drive_stands_for_what_the_kernel_did_not_see_and_for_nothing_else() -> None:
    def after_all(counted: int, *others: Property) -> tuple[str, dict[str, str]]:
        unseen = [Property(name, "UNSUBSTANTIATED", "NOTHING-SEEN") for name in ("operations", "bytes", "files")]
        before = Verdict("UNSUBSTANTIATED", "NOTHING-SEEN", claim=claim(), properties=(*unseen, *others))
        [found] = set_against([before], counts(drive(counted)))
        return found.category, {each.name: each.category for each in found.properties}

    counted = dict.fromkeys(("operations", "bytes"), "CONFIRMED") | {"files": "NOT-JUDGED", "device": "CONFIRMED"}
    assert after_all(SIZE) == ("CONFIRMED", counted)
    assert after_all(2 * SIZE) == ("AMPLIFIED", {**counted, "device": "AMPLIFIED"})
    never = Property("sync", "CONTRADICTED", "FEWER-SEEN")
    assert after_all(SIZE, never) == ("CONTRADICTED", {**counted, "sync": "CONTRADICTED"})


def test_claims_of_one_kind_are_set_against_it_together() -> None:
    unseen = Verdict("UNSUBSTANTIATED", "NOTHING-SEEN", "", claim=claim(size=SIZE // 2))
    found = set_against([unseen, unseen], counts(drive(SIZE)))
    assert [one.reason for one in found] == ["BY-DRIVE", "BY-DRIVE"]


def test_other_kinds_of_claims_and_storage_that_does_not_count_change_nothing() -> None:
    keys = Verdict("UNSUPPORTED", "NOT-IO", "", claim=claim(kind="keys"))
    assert set_against([keys], counts(drive(SIZE))) == [keys]
    unseen = Verdict("UNSUBSTANTIATED", "NOTHING-SEEN", "", claim=claim())
    assert set_against([unseen], counts({"read.bw": 1.0, "drive.read.ios": None})) == [unseen]
    assert set_against([unseen], counts(drive(SIZE, "write"))) == [unseen]


def run(lab: Any, counted: dict[str, int]) -> tuple[Dataset, Any]:
    study = lab.study(case=[{"name": name, "ioengine": "nbd"} for name in counted], factors={})
    records = lab.records(
        lab.run(study, lambda point, _: {"read.bw": 1e6, **drive(counted[point["case"]])}, repetitions=3)
    )
    trials = records.trials["trial"].to_list()
    nothing = Observation("bpf", "block", ("counters", "block", "uring"), held_ns=1, ended_ns=4 * 10**9)
    return (
        replace(records, observations=dict.fromkeys(trials, nothing), claims={trial: [claim()] for trial in trials}),
        study,
    )


def test_claim_kernel_and_drive_are_compared(lab: Any) -> None:
    records, study = run(lab, {"nbd": SIZE, "other": SIZE})
    [answer] = agreement(records, study)
    assert (answer.differing, answer.claims, answer.by_drive) == ([], 6, 6)
    found = finding(answer)
    json.dumps(found.as_dict(), allow_nan=False)
    counted, timed = found.tables
    assert counted.rows[0][:4] == ["nbd", "read", 3, SIZE] and counted.rows[0][5:7] == [SIZE, 0.0]
    assert counted.rows[0][7] == "CONFIRMED (by the drive)"
    assert timed.rows[0][2:] == [30e3, 10e3, 20e3, pytest.approx(66.7, abs=0.1)]


def test_the_drive_reports_its_queue_and_deadlines(lab: Any) -> None:
    records, study = run(lab, {"iodepth=8": SIZE, "iodepth=32": SIZE})
    own = {"drive.depth": 7.456, "drive.late.p50": 800.0, "drive.late.p99": 12_000.0}
    told = replace(records, trials=records.trials.with_columns(**{name: pl.lit(value) for name, value in own.items()}))
    [found] = map(finding, agreement(told, study))
    assert found.tables[2].rows[0] == ["iodepth=8", 3, 7.456, 800.0, 12_000.0, None]
    json.dumps(found.as_dict(), allow_nan=False)


def test_a_condition_that_the_drive_contradicts_is_named(lab: Any) -> None:
    records, study = run(lab, {"nbd": SIZE, "liar": SIZE // 4})
    [answer] = agreement(records, study)
    assert {one.condition for one in answer.differing} == {"liar"}
    assert {one.verdict.numbers["drive_difference_percent"] for one in answer.differing} == {-75.0}
    same, _ = run(lab, {"nbd": SIZE, "other": SIZE})
    golden.check("drive", [*map(finding, [*agreement(same, study), answer])])
    [claims] = claim_verdicts.analyse(records, study)
    assert {one.verdict.category for one in claims.judged} == {"CONFIRMED", "CONTRADICTED"}
    [verdict] = [one for one in analyse_study(records, study) if one.question == "verdict"]
    assert verdict.statistics["contradicted"] == 3
    [claims] = claim_verdicts.analyse(records, study)
    assert (claims.true, claims.by_drive) == (3, 3)


def test_storage_that_does_not_count_is_not_asked(lab: Any) -> None:
    study = lab.study(factors={"bs": ["4KiB", "8KiB"]})
    records = lab.records(lab.run(study, lambda *_: {"read.bw": 1e6}, repetitions=2))
    assert agreement(records, study) == []
