"""The verdicts of a study: its claims counted, the worst explained, one row for each condition and claim."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from ioassay.analysis.claim_verdicts import Outcome, analyse, together
from ioassay.narrative import conditions_text
from ioassay.narrative.finding import Finding
from ioassay.packs.comparison.run_comparison import compare
from ioassay.records.observation import Calls, File, Observation, Operation, Requests, Session
from ioassay.records.record import Claim
from ioassay.store.dataset import Dataset
from ioassay.store.frames import drivers_of
from narrative import golden

SECOND, MIB = 10**9, 2**20


def claim(operations: int = 256, **fields: Any) -> Claim:
    return Claim(
        "fio", "read", operations=operations, bytes=operations * 4096, seconds=1.0, clock_step_s=1e-3, engine="psync",
        direct=True, paths=("/data/big",), **fields,
    )  # fmt: skip


def seen() -> Observation:
    done = Calls(256, 256, 0, 0, MIB, MIB, SECOND, 2 * SECOND - 1, 256 * 3_000_000, 3_000_000, 3_000_000)
    return Observation(
        "bpf",
        "syscalls",
        ("counters", "block", "uring", "aio", "syscalls", "page-cache"),
        held_ns=1,
        ended_ns=4 * SECOND,
        operations=[Operation("pread64", "read", done)],
        files=[File(0, "254:1", 12, "/data/big", "regular", "ext4", 0)],
        sessions=[Session(0, 5, 3 * SECOND, ["read", "direct"], read=done)],
        block=[Requests("254:0", "vda", True, "read", done)],
        counters={"read_bytes": MIB},
    )


def run(lab: Any, repetitions: int = 3, **claims: Any) -> tuple[Dataset, Any]:
    study = lab.study(factors={"bs": ["4KiB", "8KiB"]})
    records = lab.records(lab.run(study, lambda *_: {"read.bw": 1e6}, repetitions))
    trials = records.trials["trial"].to_list()
    made = {trial: [claim()] for trial in trials} | claims
    return replace(records, observations=dict.fromkeys(trials, seen()), claims=made), study


def only(records: Dataset, study: Any) -> Finding:
    (found,) = map(conditions_text.claims_finding, analyse(records, study))
    json.dumps(found.as_dict(), allow_nan=False)
    return found


def test_true_claims_are_counted_by_condition(lab: Any) -> None:
    found = only(*run(lab))
    assert found.severity == "info" and found.statistics["categories"] == {"CONFIRMED": 6}
    assert found.statistics["contradicted"] == 0
    counted, each = found.tables
    assert [row[:2] for row in counted.rows] == [["CONFIRMED", 6]]
    assert [row[:3] for row in sorted(each.rows)] == [["bs=4KiB", "read", 3], ["bs=8KiB", "read", 3]]
    assert each.rows[0][3:7] == ["1.05 MB/s", "1.05 MB/s", 1e-07, "CONFIRMED"]


def test_one_lie_is_not_outweighed_and_is_explained(lab: Any) -> None:
    found = only(*run(lab, **{"study-3": [claim(512)]}))
    assert found.severity == "warning" and found.statistics["contradicted"] == 1
    assert found.statistics["categories"] == {"CONTRADICTED": 1, "CONFIRMED": 5}
    assert found.statistics["worst"]["explanation"] in found.statement
    worst = found.tables[1].rows
    assert [row[0] for row in worst] == ["CONTRADICTED"] and worst[0][4] == "1 of 3"


def test_one_lie_leaves_a_comparison_without_a_conclusion(lab: Any) -> None:
    true, lies = (run(lab, **claims)[0] for claims in ({}, {"study-3": [claim(512)]}))
    found = compare(true, lies)
    assert (found.outcome, found.contradicted, found.regression) == ("contradicted", ("B",), False)
    assert compare(true, true).contradicted == ()


def test_claims_that_are_not_about_io_are_counted_apart(lab: Any) -> None:
    records, study = run(lab)
    keys = Claim("db_bench", "keys", "fillseq", operations=1000, seconds=1.0)
    both = replace(records, claims={trial: [keys, *own] for trial, own in records.claims.items()})
    (answer,) = analyse(both, study)
    assert (len(answer.judged), len(answer.of_io), answer.true) == (12, 6, 6)
    (alone,) = analyse(replace(records, claims={trial: [keys] for trial in records.claims}), study)
    assert (len(alone.judged), len(alone.of_io), alone.true) == (6, 6, 0)
    golden.check("verdict_keys", map(conditions_text.claims_finding, [answer, alone]))


def test_what_was_not_witnessed_has_no_verdict(lab: Any) -> None:
    records, study = run(lab)
    (answer,) = analyse(replace(records, observations={}, claims={}), study)
    assert answer.outcome == Outcome.UNWITNESSED


def test_trials_without_claims_keep_what_the_kernel_saw(lab: Any) -> None:
    records, study = run(lab)
    (answer,) = analyse(replace(records, claims={}), study)
    assert (answer.outcome, answer.witnessed, answer.unclaimed) == (Outcome.UNCLAIMED, 6, seen())


def test_sentences(lab: Any) -> None:
    records, study = run(lab)
    lies = run(lab, **{"study-3": [claim(512)]})[0]
    made = [records, lies, replace(records, claims={}), replace(records, observations={}, claims={})]
    golden.check("verdict", [conditions_text.claims_finding(answer) for one in made for answer in analyse(one, study)])
    golden.check("unclaimed", map(conditions_text.claims_finding, together(replace(records, claims={}))))


def test_computed_trials_are_not_asked(lab: Any) -> None:
    records, study = run(lab)
    study = study.model_copy(update={"driver": "simulate"})
    assert analyse(replace(records, drivers=drivers_of([study])), study) == []


@pytest.mark.parametrize(("speed", "category"), [(0.5, "PERTURBED"), (1.0, "CONFIRMED")])
def test_twins_judge_the_effect_of_watching(lab: Any, speed: float, category: str) -> None:
    records, study = run(lab, 5)
    watched = records.trials.with_columns(
        pl.col("read.bw") * speed * (1 + pl.col("repetition") / 1000), pl.col("trial") + "-watched"
    )
    ids = watched["trial"].to_list()
    records = replace(
        records, traced=watched, observations=dict.fromkeys(ids, seen()), claims={trial: [claim()] for trial in ids}
    )
    found = only(records, study)
    assert found.statistics["categories"] == {category: 10}


def test_hundreds_of_trials_stay_readable(lab: Any) -> None:
    study = lab.study(factors={"n": list(range(250))})
    records = lab.records(lab.run(study, lambda *_: {"read.bw": 1e6}, 2))
    trials = records.trials["trial"].to_list()
    lies = {trial: [claim(512)] for trial in trials[::50]}
    records = replace(
        records,
        observations=dict.fromkeys(trials, seen()),
        claims={trial: [claim()] for trial in trials} | lies,
    )
    found = only(records, study)
    assert found.statistics["contradicted"] == 10 and len(found.statistics["rows"]) == 250
    assert [len(table.rows) for table in found.tables] == [2, 10, 120]
    assert found.statement.endswith("The table has the 120 worst of 250 rows.")
