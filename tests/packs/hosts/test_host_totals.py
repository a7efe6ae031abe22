"""Question `hosts`: sums and merged distributions of hosts that measured together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ioassay.metrics import LowerBound
from ioassay.packs.hosts.questions import host_totals
from ioassay.packs.hosts.questions.host_totals import HostTotals
from ioassay.stats.result import Interval
from ioassay.stats.sample import mean_interval
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

RATES = {"a": 100.0, "b": 100.0, "c": 40.0}
HOSTS = list(RATES)
MEDIANS_NS = {"a": 1000, "b": 1000, "c": 9000}


def measured(point: Mapping[str, Any], repetition: int) -> dict[str, Any]:
    """Exact numbers: each repetition is 1 faster; 1 % of the requests of c are slow, and c is a tenth of all."""
    host = str(point["host"])
    return {
        "read.iops": RATES[host] + repetition,
        "read.ios": RATES[host],
        "read.lat.p99": 1.0,
        "read.lat.p50": 1.0,
        "start.late": {"a": 0.0, "b": 1e5, "c": 4e5}[host] + 1e3 * repetition,
        "start.uncertainty": 2e4 + 1e3 * repetition,
        "_hist": [("read", "lat", [MEDIANS_NS[host]], [100 if host == "c" else 450])],
    }


def run(lab: Any, measure: Any = measured, repetitions: int = 4, **keys: Any) -> tuple[Dataset, Study]:
    study = lab.study(
        "shared",
        responses=["read.iops", "read.lat.p99", "read.lat.p50"],
        run={"hosts": HOSTS, "together": True},
        repetitions=repetitions,
        **keys,
    )
    return lab.records(lab.run(study, measure, repetitions)), study


def totals(records: Dataset, study: Study) -> HostTotals:
    found = host_totals.totals(records, study)
    assert found is not None
    return found


def test_rates_are_summed_within_each_repetition(lab: Any) -> None:
    (point,) = totals(*run(lab)).points
    assert point.all is not None and point.all.repetitions == 4
    total = point.all.values["read.iops"]
    sums = np.array([240.0 + 3 * repetition for repetition in range(4)])
    assert total.value == pytest.approx(sums.mean())
    assert total.interval == mean_interval(sums, 0.95, (0.0, np.inf))
    assert [one.host for one in point.clients] == HOSTS
    assert point.clients[2].values["read.iops"].value == pytest.approx(41.5)


def test_percentiles_of_all_are_of_all_requests_and_not_means_of_percentiles(lab: Any) -> None:
    (point,) = totals(*run(lab)).points
    assert point.all is not None
    median, tail = (point.all.values[f"read.lat.{name}"].value for name in ("p50", "p99"))
    assert median == pytest.approx(1000, rel=0.02)
    assert tail == pytest.approx(9000, rel=0.02)
    means = np.mean([one.values["read.lat.p50"].value for one in point.clients])
    assert means > 3000  # what averages would have said


def test_a_total_with_a_host_that_served_less_than_it_was_offered_is_a_lower_bound(lab: Any) -> None:
    (point,) = totals(*run(lab, params={"rate_iops": 105})).points
    assert point.all is not None
    bound = [isinstance(one.values["read.lat.p99"].value, LowerBound) for one in (*point.clients, point.all)]
    assert bound == [False, False, True, True]
    assert not isinstance(point.all.values["read.iops"].value, LowerBound)


def test_a_repetition_in_which_a_host_failed_has_no_sum(lab: Any) -> None:
    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, Any] | None:
        return None if point["host"] == "b" and repetition == 3 else measured(point, repetition)

    (point,) = totals(*run(lab, measure)).points
    assert point.all is not None
    assert (point.all.repetitions, point.left_out) == (3, 1)
    assert point.all.values["read.iops"].value == pytest.approx(243.0)
    assert [one.repetitions for one in point.clients] == [4, 3, 4]


def test_without_a_good_trial_of_every_host_there_is_no_total(lab: Any) -> None:
    found = totals(*run(lab, lambda point, r: None if point["host"] == "c" else measured(point, r)))
    (point,) = found.points
    assert point.all is None and not point.fairness and found.starts is None and point.left_out == 4


def test_fairness_is_jains_index(lab: Any) -> None:
    """Jain, Chiu and Hawe (1984): (Σx)² / (n Σx²); 1 for equal shares, 1 / n where one has all."""
    fair = totals(*run(lab)).points[0].fairness["read.iops"]
    means = np.array([101.5, 101.5, 41.5])
    assert fair.index == pytest.approx(means.sum() ** 2 / (3 * (means**2).sum()))
    assert (fair.slowest, fair.share) == ("c", pytest.approx(41.5 / 244.5))


def test_how_close_the_starts_were_is_the_largest_distance(lab: Any) -> None:
    starts = totals(*run(lab)).starts
    assert starts is not None
    assert starts.apart_ns == pytest.approx(4e5)
    assert starts.uncertainty_ns == pytest.approx(2.3e4)


def test_overlap_is_the_time_in_which_all_ran(lab: Any) -> None:
    records, study = run(lab, lambda point, r: {**measured(point, r), "start.late": 5e8 * (point["host"] == "b")})
    found = totals(records, study)  # a trial of the lab takes 1 s
    assert found.overlap == pytest.approx(0.5)
    late, _ = run(lab, lambda point, r: {**measured(point, r), "start.late": 2e9 * (point["host"] == "b")})
    assert totals(late, study).overlap == 0.0


def test_without_recorded_starts_nothing_is_said_of_them(lab: Any) -> None:
    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, Any]:
        return {name: value for name, value in measured(point, repetition).items() if not name.startswith("start.")}

    found = totals(*run(lab, measure))
    assert found.starts is None and found.overlap is None
    assert found.points[0].all is not None


def test_a_host_without_a_request_of_a_direction_leaves_it_without_a_sum(lab: Any) -> None:
    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, Any]:
        return {**measured(point, repetition), **({"read.ios": 0.0} if point["host"] == "a" else {})}

    (point,) = totals(*run(lab, measure)).points
    assert point.all is not None
    assert not point.all.values and "read.iops" in point.clients[1].values


def test_hosts_that_did_not_measure_together_have_no_total(lab: Any) -> None:
    study = lab.study(responses=["read.iops"], run={"hosts": HOSTS}, repetitions=3)
    assert host_totals.totals(lab.records(lab.run(study, measured, 3)), study) is None


def test_points_are_in_the_order_of_the_study_without_the_host(lab: Any) -> None:
    found = totals(*run(lab, factors={"bs": ["64KiB", "4KiB"]}))
    assert [dict(point.point) for point in found.points] == [{"bs": "64KiB"}, {"bs": "4KiB"}]
    assert all(isinstance(point.all.values["read.iops"].interval, Interval) for point in found.points if point.all)
