"""Which system calls the load makes: what dominates, how it changes, per bogo operation, and who counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from ioassay.analysis.storage import system_calls
from ioassay.narrative.pipeline import analyse_study
from ioassay.store.dataset import Dataset

RATE = "bogo_ops_real_rate"


def records(
    lab: Any, counted: Mapping[Any, Mapping[str, int]], *, by: str = "bpf", speed: float = 0.5, factor: str = "workers"
) -> Dataset:
    """A run of three repetitions and, where calls were `counted` at a level, a trial of one second for it."""
    study = lab.study("s", factors={factor: list(counted)}, responses=[RATE], driver="stress_ng", watch={"calls": True})
    base = lab.records(lab.run(study, lambda point, _: {RATE: 1000.0, "bogo_ops": 1000.0}, repetitions=3))
    first = base.trials.filter(pl.col("repetition") == 0)
    counting = first.with_columns(pl.col(RATE) * speed, pl.col("bogo_ops") * speed, trial=pl.col("trial") + "-calls")
    rows = [
        {"study": "s", "trial": row["trial"], factor: row[factor], "name": name, "count": number,
         "errors": number // 10, "per_second": float(number), "by": by}
        for row in counting.iter_rows(named=True)
        for name, number in counted[row[factor]].items()
    ]  # fmt: skip
    return replace(base, counting=counting, calls=pl.DataFrame(rows) if rows else base.calls)


def found(run: Dataset) -> Any:
    (finding,) = system_calls.analyse(run, run.studies[0])
    return finding


def test_what_dominates_how_it_changes_and_what_an_operation_takes_are_told(lab: Any) -> None:
    run = records(lab, {1: {"read": 50_000, "write": 49_000, "mmap": 1000}, 4: {"read": 110_000, "write": 90_000}})
    finding = found(run)
    assert finding.statement == (
        "read and write make 99 % or more of all system calls. At 1 worker there are 100 k a second, at 4 workers "
        "200 k. A bogo operation takes 200 to 400 of them."
    )
    assert finding.statistics["dominant"] == ["read", "write"]
    one, four = finding.statistics["points"]
    assert (one["syscalls.rate"], one["calls_per_bogo_op"], one["speed"]) == (100_000, 200, 0.5)
    assert (four["point"], four["rate_at_full_speed"]) == ({"workers": 4}, 400_000)


def test_tables_have_a_row_a_point_and_the_names_with_all_others(lab: Any) -> None:
    many = {f"call{number}": 100 - number for number in range(20)}
    points, names = found(records(lab, {1: many, 2: {"read": 7}})).tables
    assert [row[0] for row in points.rows] == ["1 worker", "2 workers"]
    assert len(names.rows) == 9 and names.rows[-1][0] == "all others"
    assert names.columns == ["system call", "1 worker", "2 workers"]
    for column, total in ((1, sum(many.values())), (2, 7)):
        assert sum(row[column] for row in names.rows) == pytest.approx(total)


def test_policies_are_told_from_the_fewest_to_the_most(lab: Any) -> None:
    counted = {"fifo:99": {"futex": 90_000}, "other": {"futex": 30_000}, "idle": {"futex": 60_000}}
    statement = found(records(lab, counted, factor="run.scheduler")).statement
    assert "futex makes more than 99 % of all system calls." in statement or "futex makes 100 %" in statement
    assert "Under other there are 30 k a second, under fifo (priority 99) 90 k." in statement


def test_a_peak_between_the_ends_is_told_and_no_change_is_none(lab: Any) -> None:
    peaked = found(records(lab, {1: {"read": 10_000}, 2: {"read": 90_000}, 4: {"read": 50_000}})).statement
    assert "at 4 workers 50 k, and most at 2 workers: 90 k." in peaked
    same = found(records(lab, {1: {"read": 10_000}, 2: {"read": 10_500}})).statement
    assert "Their number hardly changes: 10 k to 10.5 k a second." in same


def test_many_different_calls_are_not_said_to_dominate(lab: Any) -> None:
    even = dict.fromkeys("abcdefgh", 5000)
    assert "No few system calls dominate" in found(records(lab, {1: even, 2: even})).statement


def test_who_counted_and_what_it_did_is_said(lab: Any) -> None:
    caveats = " ".join(
        found(records(lab, {1: {"read": 100_000}, 2: {"read": 90_000}}, by="strace", speed=0.05)).caveats
    )
    assert "Counted by strace in 2 trials of their own" in caveats
    assert "the load ran at 5 % of its speed" in caveats
    assert "does not count calls that never return" in caveats
    fast = found(records(lab, {1: {"read": 100_000}}, speed=1.0)).caveats
    assert fast == ["Counted by BPF programs in the kernel in 1 trial of their own, once a point; no speed is theirs."]
    few = found(records(lab, {1: {"read": 9000}, 2: {"read": 80_000}}, speed=1.0)).caveats
    assert any("start and end" in text for text in few)


def test_a_load_that_makes_hardly_any_is_told_as_that(lab: Any) -> None:
    finding = found(records(lab, {1: {"read": 900, "mmap": 200}, 2: {"read": 1300}}))
    assert finding.statement == (
        "The load makes hardly any system calls: 1100 to 1300 in a trial, most of the tool's own start and end."
    )
    assert len(finding.caveats) == 1 and len(finding.tables) == 2


def test_where_nothing_could_be_run_calls_are_not_asked_for(lab: Any) -> None:
    run = records(lab, {1: {}, 2: {}})
    assert run.counting is not None
    skipped = replace(
        run,
        trials=run.trials.with_columns(status=pl.lit("skipped")),
        counting=run.counting.with_columns(status=pl.lit("skipped")),
    )
    assert system_calls.analyse(skipped, skipped.studies[0]) == []


def test_trials_that_were_skipped_are_told_with_their_reason(lab: Any) -> None:
    run = records(lab, {1: {}, 2: {}})
    assert run.counting is not None
    skipped = replace(
        run, counting=run.counting.with_columns(status=pl.lit("skipped"), reason=pl.lit("no strace here"))
    )
    finding = found(skipped)
    assert finding.statement == "System calls were to be counted in 2 trials, and none was: no strace here."
    assert finding.severity == "warning"


def test_studies_that_do_not_count_have_no_finding(lab: Any) -> None:
    study = lab.study("s", factors={"workers": [1]}, responses=[RATE])
    run = lab.records(lab.run(study, lambda *_: {RATE: 1.0}, repetitions=2))
    assert system_calls.analyse(run, study) == []
    assert run.calls.columns == ["study", "trial", "name", "count", "errors", "per_second", "by"]


def test_the_finding_is_among_those_of_a_study(lab: Any) -> None:
    run = records(lab, {1: {"read": 50_000}, 4: {"read": 110_000}})
    assert "calls" in [finding.question for finding in analyse_study(run, run.studies[0])]
