"""Up to which load requests do not wait, of made-up queues whose answer is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ioassay.analysis import load_saturation
from ioassay.analysis.load_saturation import Saturation
from ioassay.narrative import storage_text
from ioassay.narrative.pipeline import analyse_all
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
