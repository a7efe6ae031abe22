"""The question `accountings`: three timing definitions next to the claims, from sessions whose times were measured.

The rates of BUFFERED and DIRECT are of IOzone 3.471 under a tracing program (15 MiB, 4 KiB records, one run): what it
claimed, and the rates by three timing definitions, in KiB/s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from ioassay.analysis.measurements import passes
from ioassay.narrative.finding import Finding
from ioassay.packs.iozone.questions import timing_definitions
from ioassay.packs.iozone.questions.timing_definitions import Status, TimingDefinitions
from ioassay.records.observation import Calls, File, Observation, Session
from ioassay.records.record import Claim, Environment
from ioassay.store.dataset import Dataset

from ...corpora import cases
from ...narrative import golden

KIB, RECORD, FILE = 1024, 4096, 15 * 2**20
BUFFERED = {
    "write": (722103, 722358, 866104, 372901),
    "rewrite": (1493596, 1493890, 2145142, 557497),
    "read": (1554802, 1555290, 2311854, 1479503),
    "reread": (1418267, 1418543, 2073845, 1380522),
    "random-read": (1176191, 1176619, 2453638, 1152173),
    "random-write": (604965, 605063, 1226244, 358473),
    "backward-read": (1083916, 1084914, 2140934, 1038608),
}
"""Test -> claim, first to last call, sum of call times, open to close."""
DIRECT = {"write": (65040, 65043, 67584, 64644), "reread": (43077, 43078, 44571, 43032)}
EXPECTED_PERCENT = {
    "write": (0.04, 20, -48),
    "rewrite": (0.02, 44, -63),
    "read": (0.03, 49, -5),
    "random-read": (0.04, 109, -2),
    "backward-read": (0.09, 98, -4),
}

Rates = tuple[float, float, float, float]


def claim(test: str, rates: Rates, file_bytes: int = FILE, **more: Any) -> Claim:
    return Claim(
        source="iozone",
        kind="write" if "write" in test else "read",
        test=test,
        bytes=file_bytes,
        seconds=file_bytes / (rates[0] * KIB),
        rate_bytes_per_s=rates[0] * KIB,
        rate_unit_bytes=1024,
        clock_step_s=1e-6,
        file_bytes=file_bytes,
        primed=test in ("read", "reread"),
        silent_passes=int(test == "backward-read"),
        **{"direct": False, "record_bytes": RECORD, "operations": file_bytes // RECORD, **more},
    )


def session(one: Claim, rates: Rates, start_ns: int) -> Session:
    """Open, a priming read where there is one, all calls, and a close that makes open to close as long as measured."""
    size = one.bytes or 0
    span_ns, sum_ns, whole_ns = (round(size / (rate * KIB) * 1e9) for rate in rates[1:])
    number, first_ns = one.operations or 0, start_ns + 5000
    first = Calls(1, 1, bytes=RECORD, requested_bytes=RECORD, first_ns=first_ns, last_ns=first_ns + 900, sum_ns=900)
    extra = Calls() if not one.primed else replace(first, first_ns=first_ns - 2000, last_ns=first_ns - 1100)
    calls = Calls(
        number, number, bytes=size, requested_bytes=size, first_ns=first_ns, last_ns=first_ns + span_ns, sum_ns=sum_ns
    )
    done = {"write": calls} if one.kind == "write" else {"read": calls.plus(extra)}
    return Session(
        0,
        start_ns,
        start_ns + whole_ns,
        ["read", "write", *(["direct"] if one.direct else [])],
        **done,
        first=extra if one.primed else first,
        second_ns=first_ns,
        ended_ns=first_ns + span_ns,
    )


def observation(sessions: Sequence[Session], **more: Any) -> Observation:
    end = max(one.closed_ns for one in sessions) + 1000
    facts = {"files": [File(0, "8:1", 12, "/data/iozone.tmp", "regular", "ext4")], "sessions": list(sessions)}
    facts |= {"held_ns": 500, "ended_ns": end, "health": {"lost": 0}, "counters": {"rchar": 1.0}}
    return Observation("bpf", "syscalls", ["counters", "block", "syscalls"], **{**facts, **more})


def run_of(table: Mapping[str, Rates], scale: float = 1.0, **more: Any) -> tuple[list[Claim], Observation]:
    """Claims and sessions of one run; the backward read is gone through twice. `scale` makes all rates other ones."""
    claims, sessions, now_ns = [], [], 1000
    for test, found in table.items():
        rates = (found[0] * scale, found[1] * scale, found[2] * scale, found[3] * scale)
        claims.append(claim(test, rates, **more))
        for _ in range(1 + claims[-1].silent_passes):
            sessions.append(session(claims[-1], rates, now_ns))
            now_ns = sessions[-1].closed_ns + 10_000
    return claims, observation(sessions)


Measure = Callable[[Mapping[str, Any], int], tuple[list[Claim], Observation | None]]


def records(lab: Any, measure: Measure, repetitions: int = 3, twins: Measure | None = None, **factors: Any) -> Dataset:
    """A run whose trials claim and show what `measure` gives; `twins` those that count, where there are any."""
    study = lab.study("s", factors=factors, driver="filesuite", watch={"witness": "syscalls", "twins": bool(twins)})
    rows = lab.run(study, lambda point, repetition: {"value": 1.0}, repetitions)
    base = lab.records(rows)
    claims: dict[str, Any] = {}
    seen: dict[str, Any] = {}
    for row in base.trials.to_dicts():
        claims[row["trial"]], found = measure(row, row["repetition"])
        seen |= {row["trial"]: found} if found else {}
    made = replace(base, claims=claims, observations=seen)
    if twins is None:
        return made
    counted = base.trials.with_columns(trial=pl.col("trial") + "-twin")
    for row in counted.to_dicts():
        claims[row["trial"]] = twins(row, row["repetition"])[0]
    return replace(made, trials=counted, traced=base.trials)


def answer(found: Dataset) -> TimingDefinitions:
    (one,) = timing_definitions.compared(found, found.studies[0])
    return one


def analysed(found: Dataset) -> list[Finding]:
    return [*timing_definitions.findings(answer(found))]


def rows_of(finding: Finding, labels: int = 2) -> dict[str, dict[str, Any]]:
    """Label of a row, its last of `labels` -> column -> value."""
    (shown,) = finding.tables
    return {row[labels - 1]: dict(zip(shown.columns[labels:], row[labels:], strict=True)) for row in shown.rows}


def test_the_measured_sessions_give_the_measured_errors_of_each_accounting(lab: Any) -> None:
    table, *_ = analysed(records(lab, lambda *_: run_of(BUFFERED)))
    rows = rows_of(table)
    assert list(table.tables[0].columns[2:]) == [name.replace("-", " ") for name in BUFFERED]
    for test, rates in BUFFERED.items():
        name = test.replace("-", " ")
        labels = ("claim (KiB/s)", "first to last call (KiB/s)", "sum of call times (KiB/s)", "open to close (KiB/s)")
        for label, rate in zip(labels, rates, strict=True):
            assert rows[label][name] == pytest.approx(rate, rel=2e-4)
    for test, percents in EXPECTED_PERCENT.items():
        ways = (passes.SPAN, passes.SUM, passes.SESSION)
        found = [rows[f"{way}: difference (%)"][test.replace("-", " ")] for way in ways]
        assert found[0] == pytest.approx(percents[0], abs=0.01)
        assert found[1:] == [pytest.approx(percent, abs=0.7) for percent in percents[1:]]
    assert all(verdict.startswith("CONFIRMED") for verdict in rows["verdict"].values())


def test_a_direct_run_agrees_by_all_accountings_to_a_few_percent(lab: Any) -> None:
    table, *_ = analysed(records(lab, lambda *_: run_of(DIRECT, direct=True)))
    rows = rows_of(table)
    assert abs(rows["first to last call: difference (%)"]["write"]) <= 0.01
    assert rows["sum of call times: difference (%)"]["write"] == pytest.approx(3.9, abs=0.1)
    assert {row[0] for row in table.tables[0].rows} == {"direct"}


def test_first_to_last_call_is_nearest_to_the_claims(lab: Any) -> None:
    found = answer(records(lab, lambda *_: run_of(BUFFERED)))
    assert (found.counts, found.span_is_nearest) == ({Status.AGREES: 7}, True)
    assert max(abs(cell.difference() or 0) for cell in found.cells) == pytest.approx(0.00092, rel=0.01)
    sums, sessions = found.differences(passes.SUM), found.differences(passes.SESSION)
    assert (min(sums), max(sums)) == (pytest.approx(0.2, abs=0.01), pytest.approx(1.09, abs=0.01))
    assert (min(sessions), max(sessions)) == (pytest.approx(-0.63, abs=0.01), pytest.approx(-0.02, abs=0.01))


def test_the_priming_read_and_the_silent_pass_are_bytes_moved(lab: Any) -> None:
    table, *_ = analysed(records(lab, lambda *_: run_of(BUFFERED)))
    moved = rows_of(table)["moved through the file (KiB)"]
    assert [str(said) for said in table.details] == [
        "The read moves 15364 KiB for 15360 KiB claimed: it reads one record of 4 KiB before its clock starts.",
        "The backward read moves 30720 KiB for 15360 KiB claimed: it makes 1 unreported traversal of the file.",
    ]
    assert (moved["read"], moved["backward read"], moved["write"]) == (15364, 30720, 15360)


@cases("contradictions", "timing")
def test_it_is_counted_what_agrees_and_what_explains_the_rest(lab: Any, case: dict[str, Any]) -> None:
    astray = {test: (found[0] * case["astray"].get(test, 1.0), *found[1:]) for test, found in BUFFERED.items()}
    seen = records(lab, lambda _, repetition: run_of(astray if repetition in case["repetitions"] else BUFFERED))
    whole = analysed(seen)[0]
    assert {name: whole.statistics[name] for name in case["statistics"]} == case["statistics"]
    assert str(whole.statements[0]) == case["said"]
    assert (whole.severity == "warning") == (whole.statistics["unexplained"] > 0)


@pytest.mark.parametrize(
    ("factor", "others_share", "status"),
    [(0.5, 0.5, "held"), (0.5, 0.0, "unexplained"), (1.2, 0.5, "unexplained")],
)
def test_a_cell_that_is_longer_in_all_repetitions_was_delayed_where_others_used_the_processors(
    lab: Any, factor: float, others_share: float, status: str
) -> None:
    astray = {**BUFFERED, "read": (1554802 * factor, *BUFFERED["read"][1:])}
    made = records(lab, lambda *_: run_of(astray))
    busy = Environment(
        1.0, 2, own_share=0.5, others_share=others_share, kernel_share=0.0, steal_share=0.0, idle_share=0.0
    )
    made = replace(made, environments=dict.fromkeys(made.trials["trial"], busy))
    found = timing_definitions.cells(made, made.studies[0])
    (cell,) = (one for one in found if one.test == "read")
    assert cell.status == status
    contradicted = {one.verdict.category == "CONTRADICTED" for one in cell.passes if one.verdict}
    assert contradicted == {status == "unexplained"}


def matrix(*_: Any, gap_s: float = 3e-6) -> tuple[list[Claim], Observation]:
    """Writes of 64 KiB to 16 MiB at 1 GB/s, each claimed `gap_s` longer than its calls took."""
    claims, sessions, now_ns = [], [], 1000
    for power in range(16, 25):
        size = 2**power
        span_s = size / 1e9
        rates = tuple(size / seconds / KIB for seconds in (span_s + gap_s, span_s, 0.6 * span_s, 3 * span_s))
        claims.append(claim("write", rates, size))  # type: ignore[arg-type]
        sessions.append(session(claims[-1], rates, now_ns))  # type: ignore[arg-type]
        now_ns = sessions[-1].closed_ns + 10_000
    return claims, observation(sessions)


def test_small_files_are_explained_by_the_microseconds_around_their_calls(lab: Any) -> None:
    (whole,) = analysed(records(lab, matrix))
    assert whole.statistics["cells"] == 9
    assert whole.statistics["within_1_percent"] == 6
    assert whole.statistics["explained"] == {"short": 3}
    assert whole.severity == "info"
    rows = rows_of(whole, 1)
    assert rows["64 KiB"]["first to last call: median (%)"] == pytest.approx(4.58, abs=0.01)
    assert rows["64 KiB"]["short interval"] == 1
    assert rows["16 MiB"]["within 1 %"] == 1
    assert rows["16 MiB"]["median (µs)"] == pytest.approx(3, abs=0.01)


@pytest.mark.parametrize(
    ("gap_s", "status", "verdict"),
    [
        (90e-6, "record", "CONFIRMED-DEFERRED"),
        (700e-6, "unexplained", "CONFIRMED-DEFERRED"),
        (50e-3, "unexplained", "CONTRADICTED"),
        (-90e-6, "unexplained", "CONTRADICTED"),
    ],
)
def test_work_on_a_large_record_may_lie_between_clock_and_call(
    lab: Any, gap_s: float, status: str, verdict: str
) -> None:
    size, seconds = 16 * 2**20, 2e-3
    rates = tuple(size / span_s / KIB for span_s in (seconds + gap_s, seconds, 0.99 * seconds, 3 * seconds))
    one = claim("write", rates, size, record_bytes=size, operations=1)  # type: ignore[arg-type]
    seen = observation([session(one, rates, 1000)])  # type: ignore[arg-type]
    found = records(lab, lambda *_: ([one], seen))
    (cell,) = timing_definitions.cells(found, found.studies[0])
    assert cell.status == status
    assert {own.verdict.category for own in cell.passes if own.verdict} == {verdict}


def test_a_gap_that_no_clock_explains_is_not_explained_by_the_size(lab: Any) -> None:
    whole = analysed(records(lab, lambda *_: matrix(gap_s=3e-3)))[0]
    assert whole.statistics["unexplained"] > 5
    assert whole.severity == "warning"


@pytest.mark.parametrize("reservation", ["clock-clamp", "poor-timer", "whole-microseconds"])
def test_a_clock_that_the_tool_calls_coarse_is_an_explanation(lab: Any, reservation: str) -> None:
    def clamped(*_: Any) -> tuple[list[Claim], Observation]:
        claims, seen = matrix(gap_s=30e-6)
        return [replace(one, doubts=(reservation,)) for one in claims[:2]], seen

    assert analysed(records(lab, clamped))[0].statistics["explained"] == {"clock": 2}


def test_with_twins_the_definitions_are_of_the_watched_and_the_speeds_of_the_others(lab: Any) -> None:
    found = records(lab, lambda *_: run_of(BUFFERED), twins=lambda *_: run_of(BUFFERED, 1.25))
    table, *_ = analysed(found)
    rows = rows_of(table)
    assert rows["claim (KiB/s)"]["write"] == 722103
    assert rows["claim without the witness (KiB/s)"]["write"] == pytest.approx(722103 * 1.25, rel=1e-5)
    assert answer(found).twins
    alone = records(lab, lambda *_: run_of(BUFFERED))
    assert "claim without the witness (KiB/s)" not in rows_of(analysed(alone)[0])
    assert not answer(alone).twins


def two_folders(row: Mapping[str, Any], repetition: int) -> tuple[list[Claim], Observation]:
    speed = {".": 1.0, "/dev/shm": 3.0}[row["target.path"]] * (1 + 0.01 * repetition)
    direct = row.get("direct") in (1, "true", True)
    return run_of(DIRECT if direct else BUFFERED, speed, direct=direct)


def test_a_table_for_each_folder_and_mode_and_the_folders_compared(lab: Any) -> None:
    found = analysed(records(lab, two_folders, direct=[0, 1], **{"target.path": [".", "/dev/shm"]}))
    places = ("the current folder, buffered", "the current folder, direct", "/dev/shm, buffered", "/dev/shm, direct")
    assert {row[0] for row in found[0].tables[0].rows} == set(places)
    compared = next(finding for finding in found if finding.title.startswith("Folders compared"))
    assert len(compared.tables[0].rows) == 9
    for factor in compared.statistics["factors"]:
        assert factor["ratio"]["ratio"] == pytest.approx(3)
        assert factor["ratio"]["interval"]["low"] < 3 < factor["ratio"]["interval"]["high"]
        assert factor["outcome"] == "difference"


def test_one_repetition_gives_factors_without_an_interval(lab: Any) -> None:
    one = answer(records(lab, two_folders, 1, direct=[0], **{"target.path": [".", "/dev/shm"]}))
    assert (one.folders, one.changes) == ((".", "/dev/shm"), [])


def test_folders_that_differ_by_noise_are_undecided(lab: Any) -> None:
    random = np.random.default_rng(3)

    def noisy(row: Mapping[str, Any], _: int) -> tuple[list[Claim], Observation]:
        return run_of(DIRECT, random.lognormal(0, 0.2), direct=True)

    found = analysed(records(lab, noisy, 3, direct=[1], **{"target.path": [".", "/dev/shm"]}))
    (compared,) = [finding for finding in found if finding.title.startswith("Folders compared")]
    assert {factor["outcome"] for factor in compared.statistics["factors"]} == {"undecided"}


def test_published_numbers_stand_with_the_study_they_belong_to(lab: Any) -> None:
    base = records(lab, lambda *_: run_of(BUFFERED))
    study = base.studies[0].model_copy(update={"name": "active-iozone-15m"})
    renamed = base.trials.with_columns(study=pl.lit("active-iozone-15m"))
    (table,) = analysed(replace(base, studies=[study], trials=renamed))[-1].tables
    rows = [row[1:] for row in table.rows if row[0] == "SSD, ZFS (published)"]
    assert rows[0] == ["IOzone (KiB/s)", 204502, 400301, 1143884, 1292605, None, None, None]
    assert rows[1] == ["DTrace (KiB/s)", 233046, None, 1141390, None, None, None, None]


def test_a_study_without_passes_has_no_such_finding(lab: Any) -> None:
    study = lab.study("s")
    found = lab.records(lab.run(study, lambda *_: {"read.bw": 1e8}, 2))
    assert timing_definitions.compared(found, study) == []
    fio = replace(found, claims={"s-0": [Claim("fio", "read", bytes=1)]})
    assert timing_definitions.compared(fio, study) == []


@pytest.mark.parametrize("backend", ["none", "counters", "strace"])
def test_without_timed_calls_nothing_is_compared(lab: Any, backend: str) -> None:
    def seen(*_: Any) -> tuple[list[Claim], Observation | None]:
        claims, whole = run_of(BUFFERED)
        layers = ["counters"] if backend == "counters" else whole.layers
        return claims, None if backend == "none" else replace(whole, backend=backend, layers=layers)

    assert answer(records(lab, seen)).seen == []


def test_sessions_that_are_missing_leave_their_cells_empty_and_counted(lab: Any) -> None:
    def fewer(*_: Any) -> tuple[list[Claim], Observation]:
        claims, seen = run_of(BUFFERED)
        return claims, replace(seen, sessions=seen.sessions[:5])

    whole, *_ = analysed(records(lab, fewer))
    assert whole.statistics["unexplained"] == 2
    assert rows_of(whole)["first to last call (KiB/s)"]["backward read"] is None


def test_sentences(lab: Any) -> None:
    lying = {**BUFFERED, "reread": (1418267 * 1.2, *BUFFERED["reread"][1:])}
    astray = {**BUFFERED, "read": (1554802 * 0.8, *BUFFERED["read"][1:])}
    made = [
        records(lab, lambda *_: run_of(BUFFERED)),
        records(lab, lambda *_: run_of(lying)),
        records(lab, lambda _, repetition: run_of(astray if repetition == 1 else BUFFERED)),
        records(lab, matrix),
        records(lab, lambda *_: run_of(DIRECT), twins=lambda *_: run_of(DIRECT, 1.25)),
        records(lab, two_folders, direct=[0], **{"target.path": [".", "/dev/shm"]}),
        records(lab, lambda *_: (run_of(DIRECT)[0], None)),
    ]
    golden.check("timing_definitions", [finding for found in made for finding in analysed(found)])


def test_passes_are_trials_of_a_study_with_their_own_factors(lab: Any) -> None:
    found = records(lab, two_folders, direct=[0, 1], **{"target.path": [".", "/dev/shm"]})
    made = passes.expanded(found, found.studies[0])
    assert made is not None
    assert made.studies[0].factors["test"][:2] == ["write", "rewrite"]
    assert made.studies[0].factors["accounting"] == [
        "claim",
        "first to last call",
        "sum of call times",
        "open to close",
    ]
    one = made.trials.filter(
        (pl.col("test") == "write") & (pl.col("accounting") == "first to last call") & (pl.col("direct") == 0)
    )
    assert one.height == 6
    assert one["pass.difference"].to_list() == pytest.approx([0.035] * 6, abs=0.01)
    assert one["file_size"].unique().to_list() == [FILE]


def test_a_trial_that_failed_is_a_failed_pass_of_each_test(lab: Any) -> None:
    base = records(lab, two_folders, 1, direct=[0, 1], **{"target.path": [".", "/dev/shm"]})
    bad = (pl.col("target.path") == "/dev/shm") & (pl.col("direct") == 1)
    status = pl.when(bad).then(pl.lit("failed")).otherwise(pl.col("status"))
    found = replace(base, trials=base.trials.with_columns(status=status))
    made = passes.expanded(found, found.studies[0])
    assert made is not None
    assert made.trials.filter(pl.col("status") == "failed").height == 7
