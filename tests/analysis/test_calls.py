"""Which system calls the load makes: dominant ones, rates, calls per bogo operation, and the counting tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from ioassay.analysis import system_calls
from ioassay.analysis.system_calls import Outcome, SystemCalls
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


def found(run: Dataset) -> SystemCalls:
    (answer,) = system_calls.analyse(run, run.studies[0])
    return answer


def test_dominant_calls_and_the_rates_of_each_point(lab: Any) -> None:
    answer = found(
        records(lab, {1: {"read": 50_000, "write": 49_000, "mmap": 1000}, 4: {"read": 110_000, "write": 90_000}})
    )
    assert (answer.dominant, answer.outcome, answer.ordered) == (["read", "write"], Outcome.VARIES, True)
    one, four = answer.points
    assert (one.rate, one.per_work, one.speed) == (100_000, 200, 0.5)
    assert (four.levels, four.rate, four.per_work) == ({"workers": 4}, 200_000, 400)


def test_policies_have_no_order(lab: Any) -> None:
    counted = {"fifo:99": {"futex": 90_000}, "other": {"futex": 30_000}, "idle": {"futex": 60_000}}
    answer = found(records(lab, counted, factor="run.scheduler"))
    assert (answer.dominant, answer.outcome, answer.ordered) == (["futex"], Outcome.VARIES, False)


def test_rates_that_hardly_differ_are_constant(lab: Any) -> None:
    assert found(records(lab, {1: {"read": 10_000}, 2: {"read": 10_500}})).outcome == Outcome.CONSTANT


def test_many_different_calls_do_not_dominate(lab: Any) -> None:
    even = dict.fromkeys("abcdefgh", 5000)
    assert found(records(lab, {1: even, 2: even})).dominant == []


def test_the_counting_tool_and_its_slowdown_are_known(lab: Any) -> None:
    answer = found(records(lab, {1: {"read": 100_000}, 2: {"read": 90_000}}, by="strace", speed=0.05))
    assert [(point.by, point.speed) for point in answer.points] == [("strace", 0.05)] * 2


def test_a_load_may_make_hardly_any_calls(lab: Any) -> None:
    answer = found(records(lab, {1: {"read": 900, "mmap": 200}, 2: {"read": 1300}}))
    assert answer.outcome == Outcome.HARDLY_ANY and [point.total for point in answer.points] == [1100, 1300]


def test_where_nothing_could_be_run_calls_are_not_asked_for(lab: Any) -> None:
    run = records(lab, {1: {}, 2: {}})
    assert run.counting is not None
    skipped = replace(
        run,
        trials=run.trials.with_columns(status=pl.lit("skipped")),
        counting=run.counting.with_columns(status=pl.lit("skipped")),
    )
    assert system_calls.analyse(skipped, skipped.studies[0]) == []


def test_trials_that_were_skipped_have_their_reason(lab: Any) -> None:
    run = records(lab, {1: {}, 2: {}})
    assert run.counting is not None
    skipped = replace(
        run, counting=run.counting.with_columns(status=pl.lit("skipped"), reason=pl.lit("no strace here"))
    )
    answer = found(skipped)
    assert (answer.outcome, answer.uncounted, answer.reasons) == (Outcome.UNCOUNTED, 2, ["no strace here"])


def test_studies_that_do_not_count_have_no_finding(lab: Any) -> None:
    study = lab.study("s", factors={"workers": [1]}, responses=[RATE])
    run = lab.records(lab.run(study, lambda *_: {RATE: 1.0}, repetitions=2))
    assert system_calls.analyse(run, study) == []
    assert run.calls.columns == ["study", "trial", "name", "count", "errors", "per_second", "by"]


def test_the_finding_is_among_those_of_a_study(lab: Any) -> None:
    run = records(lab, {1: {"read": 50_000}, 4: {"read": 110_000}})
    assert "calls" in [finding.question for finding in analyse_study(run, run.studies[0])]
