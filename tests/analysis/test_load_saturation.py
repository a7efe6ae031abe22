"""Up to which load requests do not wait, of made-up queues whose answer is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ioassay.analysis import load_saturation
from ioassay.analysis.condition_comparison import Verdict, judged_pairs
from ioassay.analysis.descriptive import headline
from ioassay.analysis.load_saturation import Saturation
from ioassay.analysis.measurements.cells import cells
from ioassay.metrics import LowerBound
from ioassay.narrative import storage_text
from ioassay.narrative.finding import Finding, cell_text, premises
from ioassay.narrative.pipeline import analyse_all
from ioassay.store.dataset import Dataset
from narrative import golden

RATES = [1000, 2000, 4000, 8000, 16000, 32000]


def queue(capacity: float = 20000.0, service_us: float = 80.0) -> Callable[[float], tuple[float, float]]:
    """Offered rate -> served rate and mean latency in us, as of an M/M/1 queue that holds 50 requests at most."""
    return lambda rate: (
        min(rate, capacity),
        service_us / (1 - rate / capacity) if rate < 0.98 * capacity else 50 * service_us,
    )


def answer(lab: Any, model: Callable[[float], tuple[float, float]], scatter: float = 0.01, **keys: Any) -> Saturation:
    repetitions = keys.pop("repetitions", 5)
    rng = np.random.default_rng(4)
    study = lab.study(factors={"rate_iops": RATES}, responses=["read.iops", "read.lat.p99"], **keys)

    def measure(point: Any, _: int) -> dict[str, Any]:
        jobs = float(keys.get("params", {}).get("numjobs", 1))
        served, latency_us = model(point["rate_iops"] * jobs)
        values = np.round(1e3 * latency_us * rng.exponential(1.0, 4000) * rng.lognormal(0, scatter)).astype(int) + 1
        row = {"read.iops": served * rng.lognormal(0, 0.002), "read.lat.p99": float(np.percentile(values, 99))}
        return row | {"_hist": [("read", "lat", *np.unique(values, return_counts=True))]}

    records = lab.records(lab.run(study, measure, repetitions))
    (one,) = load_saturation.analyse(records, study)
    (said,) = [finding for finding in analyse_all(records) if finding.question == "load"]
    assert said.statement == storage_text.saturation(one).statement
    return one


def test_the_load_before_the_queue_and_what_is_served_at_most(lab: Any) -> None:
    one = answer(lab, queue())
    assert one.calm is not None and one.waits is not None and one.saturates is not None
    # 80 us / (1 - 4/20) is 1.19 times that of 1000 IOPS, of 8000 1.58, of 16000 4.75.
    assert (RATES[one.calm], RATES[one.waits], RATES[one.saturates]) == (4000, 8000, 32000)
    assert one.levels[one.most].served == pytest.approx(20000, rel=0.01)
    asleep = answer(lab, lambda rate: (rate, {1000: 150.0, 2000: 90.0, 4000: 80.0}.get(rate, rate / 10)))
    always = answer(lab, lambda rate: (rate, rate / 10))
    each = [one, answer(lab, queue(1e6)), answer(lab, queue(), 0.5), asleep, always]
    each += [answer(lab, queue(), repetitions=1), answer(lab, queue(500.0)), answer(lab, queue(1500.0, 20.0))]
    golden.check("load", map(storage_text.saturation, each))


def test_the_rates_of_jobs_are_added(lab: Any) -> None:
    one = answer(lab, queue(), params={"rw": "randread", "numjobs": 2})
    assert [level.offered for level in one.levels] == [2.0 * rate for rate in RATES]
    assert one.calm is not None and one.levels[one.calm].offered == 4000


def test_a_drive_that_sleeps_between_few_requests_does_not_end_the_search(lab: Any) -> None:
    one = answer(lab, lambda rate: (rate, 200.0 if rate == 1000 else 80.0))
    assert one.lowest and one.calm == len(RATES) - 1 and one.waits is None and one.saturates is None


def test_a_study_that_offers_no_rate_is_not_asked(lab: Any) -> None:
    study = lab.study(factors={"iodepth": [1, 2, 4]}, responses=["read.iops"])
    assert load_saturation.analyse(lab.records(lab.run(study, lambda *_: {"read.iops": 1.0}, 2)), study) == []


def saturated(
    lab: Any, *, levels: Any = (1000, 8000), capacity: float = 4000.0, slow: float = 1.0, **keys: Any
) -> Dataset:
    """Reads, whose latency is that of a full queue where more is offered than `capacity`."""
    rng = np.random.default_rng(7)
    factors = {"rate_iops": list(levels)} if levels else {"bs": ["4KiB", "8KiB"]}
    study = lab.study(
        factors=factors, responses=["read.iops", "read.lat.p99", "read.clat.mean", "read.slat.mean"], **keys
    )

    def measure(point: Any, _: int) -> dict[str, Any]:
        offered = point.get("rate_iops", 8000)
        served = min(offered, capacity) * rng.lognormal(0, 0.002)
        latency = 1e5 * slow * (20 if offered > capacity else 1) * rng.lognormal(0, 0.01)
        return {"read.iops": served, **dict.fromkeys(("read.lat.p99", "read.clat.mean", "read.slat.mean"), latency)}

    return lab.records(lab.run(study, measure, 5))


def sentences(records: Dataset, question: str, response: str) -> str:
    found = [one for one in analyse_all(records) if (one.question, one.response) == (question, response)]
    return " ".join(
        [one.statement for one in found] + [str(cell_text(*cell)) for one in found for cell in cells_of(one)]
    )


def cells_of(finding: Finding) -> list[tuple[Any, str]]:
    tables = finding.tables
    return [
        (value, name) for table in tables for row in table.rows for value, name in zip(row, table.metrics, strict=True)
    ]


@pytest.mark.parametrize("question", ["effect", "peak", "describe"])
def test_a_latency_beyond_saturation_is_a_lower_bound_wherever_it_is_said(lab: Any, question: str) -> None:
    records = saturated(lab, levels=(1000, 2000, 8000))
    for response in ("read.lat.p99", "read.clat.mean"):
        assert "\u2265\u00a0" in sentences(records, question, response)
    for response in ("read.slat.mean", "read.iops"):
        assert "\u2265" not in sentences(records, question, response)
    bounds = {(row.metric, row.workload): row.as_dict()["lower_bound"] for row in headline(records, records.studies)}
    assert {key for key, bound in bounds.items() if bound} == {
        (metric, "rate_iops=8000") for metric in ("read.lat.p99", "read.clat.mean")
    }
    (premise,) = premises(analyse_all(records))
    assert premise.startswith(
        "In 1 condition fewer requests are served than are offered, first 3.99 k IOPS of 8 k IOPS."
    )


@pytest.mark.parametrize(
    ("keys", "is_bound"),
    [
        ({}, True),
        ({"levels": ()}, False),
        ({"levels": (), "params": {"rate_iops": 8000}}, True),
        ({"levels": (), "params": {"rate_iops": 2000, "numjobs": 2}}, False),
        ({"levels": (), "params": {"rate_iops": 2500, "numjobs": 2}}, True),
        ({"levels": (), "params": {"rate_iops": "8000,100"}}, False),
        ({"driver": "replay"}, False),
        ({"capacity": 7700.0}, False),
    ],
)
def test_what_is_offered_follows_from_level_parameters_and_jobs(lab: Any, keys: Any, is_bound: bool) -> None:
    records = saturated(lab, **keys)
    cell = cells(records, records.studies[0], "read.lat.p99").cells[-1]
    assert isinstance(cell.mean, LowerBound) == is_bound
    assert bool(premises(analyse_all(records))) == is_bound


@pytest.mark.parametrize(
    ("capacity_a", "capacity_b", "slow", "verdict"),
    [
        (9000.0, 9000.0, 2.0, Verdict.SLOWER),
        (4000.0, 4000.0, 2.0, Verdict.UNDECIDED),
        (4000.0, 4000.0, 1.0, Verdict.UNDECIDED),
        (9000.0, 4000.0, 1.0, Verdict.SLOWER),
        (9000.0, 4000.0, 0.01, Verdict.UNDECIDED),
        (4000.0, 9000.0, 1.0, Verdict.FASTER),
        (4000.0, 9000.0, 40.0, Verdict.UNDECIDED),
    ],
)
def test_a_comparison_claims_only_what_lower_bounds_allow(
    lab: Any, capacity_a: float, capacity_b: float, slow: float, verdict: Verdict
) -> None:
    a, b = (saturated(lab, capacity=capacity_a), saturated(lab, capacity=capacity_b, slow=slow))
    last = [cells(one, one.studies[0], "read.lat.p99").cells[-1] for one in (a, b)]
    (row,) = judged_pairs("study", "read.lat.p99", [(last[0], last[1])])
    assert row.verdict == verdict and (row.needed is None or verdict != Verdict.UNDECIDED)


def test_nothing_is_certainly_above_a_lower_bound_and_none_is_the_lowest(lab: Any) -> None:
    """A load that wakes a drive up: the latency of what is let in falls, and nobody knows that of what waits."""
    study = lab.study(factors={"rate_iops": [1000, 2000, 8000]}, responses=["read.lat.mean"])
    seen, random = {1000: 9e5, 2000: 4e5, 8000: 2e5}, np.random.default_rng(1)

    def measure(point: Any, _: int) -> dict[str, Any]:
        rate = point["rate_iops"]
        return {"read.iops": min(rate, 4000), "read.lat.mean": seen[rate] * random.normal(1, 0.01)}

    records = lab.records(lab.run(study, measure, 5))
    found = {one.question: one for one in analyse_all(records) if one.response == "read.lat.mean"}
    (effect,) = found["effect"].statistics["slices"]
    assert (effect["best"], effect["worst"], effect["shape"]) == (2000, 1000, "unclear")
    assert found["peak"].statistics["best"] == 2000 and 8000 in found["peak"].statistics["not_worse"]
    assert found["peak"].statistics["probability_of_being_best"][2] == 0
