"""Question `hosts`: which of several hosts is slow, on made-up fleets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ioassay.analysis import one_factor
from ioassay.analysis.machine_conditions import Disturbance, Grade
from ioassay.packs.hosts.questions import host_comparison, hosts_text
from ioassay.packs.hosts.questions.host_comparison import HostComparison, Standing
from ioassay.records.record import Environment
from ioassay.stats.condition_means import Scale
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

Fails = Callable[[Mapping[str, Any], int], bool]


def never(_: Mapping[str, Any], __: int) -> bool:
    return False


def fleet(
    lab: Any,
    hosts: Sequence[str],
    speeds: Mapping[str, float] | None = None,
    *,
    repetitions: int = 5,
    factors: Mapping[str, Sequence[Any]] | None = None,
    fails: Fails = never,
    responses: Sequence[str] = ("read.iops",),
    measure: Callable[[Mapping[str, Any], int, float, np.random.Generator], Mapping[str, Any]] | None = None,
    **keys: Any,
) -> tuple[Dataset, Study]:
    """`speeds`: hosts that differ, as a share of the others' rate; the scatter of repetitions is 2 %."""
    rng = np.random.default_rng(1)
    run = {"hosts": list(hosts), **keys.pop("run", {})}
    study = lab.study("fleet", factors=factors, responses=responses, run=run, repetitions=repetitions, **keys)

    def of(point: Mapping[str, Any], repetition: int) -> dict[str, Any] | None:
        speed = (speeds or {}).get(point["host"], 1.0)
        if fails(point, repetition):
            return None
        if measure:
            return dict(measure(point, repetition, speed, rng))
        return {"read.iops": 1e4 * speed * point.get("iodepth", 1) ** 0.5 * rng.lognormal(0, 0.02)}

    return lab.records(lab.run(study, of, repetitions)), study


def compared(records: Dataset, study: Study) -> HostComparison:
    return host_comparison.comparison(records, study)


TWENTY = [f"n{number:02}" for number in range(20)]


def test_one_slow_host_of_twenty_is_named_with_its_deviation(lab: Any) -> None:
    (response,) = compared(*fleet(lab, TWENTY, {"n07": 0.88}, factors={"iodepth": [1, 16]})).responses
    (slow,) = response.of(Standing.SLOW)
    assert slow.host == response.hosts[0].host == "n07"
    assert response.points == 2
    assert slow.interval.low < 0.88 < slow.interval.high
    assert slow.p < 0.001
    assert set(response.reference) == set(TWENTY) - {"n07"}
    assert not response.of(Standing.FAST)


def test_what_is_slow_follows_from_the_direction_of_the_metric(lab: Any) -> None:
    def latency(point: Any, _: int, speed: float, rng: Any) -> dict[str, Any]:
        return {"read.lat.mean": 1e5 / speed * rng.lognormal(0, 0.02)}

    records, study = fleet(lab, ["a", "b", "c"], {"c": 0.7}, responses=["read.lat.mean"], measure=latency)
    (response,) = compared(records, study).responses
    assert [one.host for one in response.of(Standing.SLOW)] == ["c"]
    assert response.of(Standing.SLOW)[0].estimate > 1


def test_a_difference_below_the_margin_is_not_called_slow(lab: Any) -> None:
    def exact(point: Any, repetition: int, speed: float, _: Any) -> dict[str, Any]:
        return {"read.iops": 1e4 * speed * (1 + 1e-4 * repetition)}

    (response,) = compared(*fleet(lab, ["a", "b", "c"], {"b": 0.98}, measure=exact)).responses
    assert {one.standing for one in response.hosts} == {Standing.EQUAL}


def test_of_two_hosts_each_is_against_the_other(lab: Any) -> None:
    (response,) = compared(*fleet(lab, ["a", "b"], {"b": 0.8})).responses
    slow, fast = response.hosts
    assert (slow.host, slow.standing, fast.standing) == ("b", Standing.SLOW, Standing.FAST)
    assert slow.estimate == pytest.approx(1 / fast.estimate)
    assert slow.estimate == pytest.approx(0.8, rel=0.05)


def test_one_repetition_shows_nothing(lab: Any) -> None:
    comparison = compared(*fleet(lab, ["a", "b", "c"], {"c": 0.5}, repetitions=1))
    assert comparison.repetitions == 1
    assert not comparison.compared
    assert comparison.responses[0].undefined is not None


def test_a_host_that_ends_fails_its_own_trials_and_is_left_out(lab: Any) -> None:
    records, study = fleet(
        lab,
        ["a", "b", "c"],
        factors={"iodepth": [1, 4]},
        fails=lambda point, repetition: point["host"] == "b" and (repetition > 2 or point["iodepth"] == 4),
    )
    comparison = compared(records, study)
    b = next(tally for tally in comparison.hosts if tally.host == "b")
    assert (b.ok, b.failed, b.planned, b.complete) == (3, 7, 10, False)
    (response,) = comparison.responses
    assert response.lacking == ("b",)
    assert sorted(one.host for one in response.hosts) == ["a", "c"]


def test_a_host_ended_where_all_trials_from_one_on_failed(lab: Any) -> None:
    def ended(fails: Fails) -> bool:
        comparison = compared(*fleet(lab, ["a", "b"], fails=lambda p, r: p["host"] == "b" and fails(p, r)))
        return next(tally.ended for tally in comparison.hosts if tally.host == "b")

    assert ended(lambda _, repetition: repetition > 1)
    assert not ended(lambda _, repetition: repetition == 1)
    assert not ended(lambda *_: True)


def test_a_host_without_a_record_is_counted(lab: Any) -> None:
    records, study = fleet(lab, ["a", "b"])
    alone = records.trials.filter(records.trials["host"] == "a")
    comparison = compared(Dataset(**{**vars_of(records), "trials": alone}), study)
    assert [(tally.host, tally.ok, tally.planned) for tally in comparison.hosts] == [("a", 5, 5), ("b", 0, 5)]
    assert not comparison.compared


def test_trials_that_are_analysed_apart_are_not_missed(lab: Any) -> None:
    """Twins and trials that count system calls are planned as well."""
    records, study = fleet(lab, ["a", "b"], watch={"twins": True, "witness": "syscalls"})
    planned = Dataset(**{**vars_of(records), "planned": {"fleet": 20}})
    assert all(tally.complete for tally in compared(planned, study).hosts)


def vars_of(records: Dataset) -> dict[str, Any]:
    return {name: value for name, value in vars(records).items() if not name.startswith("_")}


def test_a_response_that_restates_another_does_not_share_the_risk(lab: Any) -> None:
    def both(point: Any, _: int, speed: float, rng: Any) -> dict[str, Any]:
        iops = 1e4 * rng.lognormal(0, 0.02)
        return {"read.iops": iops, "read.bw": 4096 * point["iodepth"] * iops, "read.lat.mean": 1e9 / iops}

    names = ("read.iops", "read.bw", "read.lat.mean")
    records, study = fleet(lab, ["a", "b", "c"], factors={"iodepth": [1, 16]}, responses=names, measure=both)
    assert [one.response for one in compared(records, study).responses] == ["read.iops", "read.lat.mean"]


def test_what_each_instant_differs_by_is_taken_out_where_hosts_measure_together(lab: Any) -> None:
    shocks = np.random.default_rng(5).lognormal(0, 0.2, (2, 6))

    def shared(point: Any, repetition: int, speed: float, rng: Any) -> dict[str, Any]:
        shock = shocks[0 if point["iodepth"] == 1 else 1, repetition]
        return {"read.iops": 1e4 * speed * shock * rng.lognormal(0, 0.01)}

    def limit(run: Mapping[str, Any]) -> float:
        records, study = fleet(
            lab, list("abcd"), {"d": 0.93}, repetitions=6, factors={"iodepth": [1, 16]}, measure=shared, run=run
        )
        (response,) = compared(records, study).responses
        return next(one.limits[1] - 1 for one in response.hosts if one.host == "a")

    assert limit({"together": True}) < 0.03 < limit({"together": False})


def test_means_that_are_not_above_zero_are_compared_by_difference(lab: Any) -> None:
    def signed(point: Any, _: int, speed: float, rng: Any) -> dict[str, Any]:
        return {"extra.nanosecs_per_loop": (-50.0 if point["host"] == "a" else 100.0) + rng.normal(0, 1)}

    records, study = fleet(lab, ["a", "b", "c"], responses=["extra.nanosecs_per_loop"], measure=signed)
    (response,) = compared(records, study).responses
    assert response.scale == Scale.RAW
    assert response.hosts[-1].estimate == pytest.approx(-150, abs=3)
    assert [one.host for one in response.of(Standing.FAST)] == ["a"]


def test_a_disturbed_host_is_named_and_makes_the_run_doubtful_only(lab: Any) -> None:
    quiet, busy = (Environment(1.0, 4, 0.2, others_share=share, kernel_share=0, steal_share=0) for share in (0, 0.5))

    def measure(point: Any, _: int, speed: float, rng: Any) -> dict[str, Any]:
        return {"read.iops": 1e4 * rng.lognormal(0, 0.02), "_environment": busy if point["host"] == "c" else quiet}

    records, study = fleet(lab, ["a", "b", "c"], measure=measure)
    found = {tally.host: tally.conditions for tally in compared(records, study).hosts}
    assert found["c"] is not None and found["c"].disturbance == Disturbance.PROGRAMS
    assert found["a"] is not None and found["a"].grade == Grade.FIT
    (whole,) = host_comparison.machine_conditions.analyse(records, study)
    assert (whole.grade, whole.hosts) == (Grade.DOUBTFUL, ["c"])


def test_other_questions_do_not_compare_hosts(lab: Any) -> None:
    records, study = fleet(lab, ["a", "b", "c"], {"c": 0.5}, factors={"iodepth": [1, 16]})
    assert list(one_factor.families(records, study, "read.iops")) == ["iodepth"]


def test_a_study_of_one_machine_has_no_such_question(lab: Any) -> None:
    study = lab.study(factors={"bs": [4096, 8192]}, responses=["read.iops"])
    records = lab.records(lab.run(study, lambda *_: {"read.iops": 1.0}))
    assert hosts_text.analyse(records, study) == []
