"""The null driver: a known truth, drawn from the seed."""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path
from typing import Any

import pytest

from ioassay.drivers.null import Null
from ioassay.roles import Parsed

from .trials import trial


def result(params: dict[str, Any], seed: int = 1, order: int = 0) -> Parsed:
    return Null().parse(trial("null", params, seed=seed, order=order), None, Path("unused"))


def test_the_same_seed_gives_the_same_record_and_another_seed_another() -> None:
    params = {"samples": 5, "latencies": {"read.lat": 1e5}}
    assert result(params, seed=3) == result(params, seed=3)
    assert result(params, seed=3) != result(params, seed=4)


def test_noise_is_relative_to_the_value() -> None:
    values = [result({"value": 1000, "noise": 0.02}, seed).metrics["value"] for seed in range(400)]
    assert statistics.mean(values) == pytest.approx(1000, rel=0.005)
    assert statistics.stdev(values) == pytest.approx(20, rel=0.15)


def test_effects_multiply_and_interactions_name_both_factors() -> None:
    params = {
        "noise": 0,
        "bs": "8k",
        "rw": "write",
        "effects": {"bs": {"8k": 2.0}, "rw": {"read": 7.0}, "bs:rw": {"8k:write": 1.5}},
    }
    assert result(params).metrics == {"value": pytest.approx(300)}


def test_drift_grows_with_the_order_of_the_run() -> None:
    assert result({"noise": 0, "drift": 0.01}, order=50).metrics["value"] == pytest.approx(150)


def test_metrics_have_the_names_that_the_study_gives() -> None:
    found = result({"noise": 0, "metrics": {"read.bw": 1e8, "write.bw": 5e7}}).metrics
    assert found == {"read.bw": 1e8, "write.bw": 5e7}


def test_a_series_has_the_metrics_value_as_its_mean_and_the_asked_autocorrelation() -> None:
    found = result({"samples": 4000, "autocorrelation": 0.8, "sample_interval": "10ms"})
    (series,) = found.series
    assert statistics.mean(series.value) == pytest.approx(found.metrics["value"])
    assert series.time_s[:2] == pytest.approx([0.01, 0.02])
    deviations = [value - found.metrics["value"] for value in series.value]
    neighbours = sum(a * b for a, b in itertools.pairwise(deviations))
    assert neighbours / sum(a * a for a in deviations) == pytest.approx(0.8, abs=0.06)


def test_latencies_are_distributions_around_their_median() -> None:
    (buckets,) = result({"latencies": {"write.clat": 20000}, "requests": 5000}).buckets
    assert (buckets.direction, buckets.kind, sum(buckets.counts)) == ("write", "clat", 5000)
    assert list(buckets.values_ns) == sorted(buckets.values_ns)
    below = sum(n for value, n in zip(buckets.values_ns, buckets.counts, strict=True) if value <= 20000)
    assert below / 5000 == pytest.approx(0.5, abs=0.1)


def test_trials_fail_and_are_skipped_in_the_asked_shares() -> None:
    found = [result({"fail_share": 0.3, "skip_share": 0.2}, seed).status for seed in range(1000)]
    assert found.count("failed") / 1000 == pytest.approx(0.3, abs=0.06)
    assert found.count("skipped") / 1000 == pytest.approx(0.2, abs=0.06)
    assert "fail_share" in result({"fail_share": 1.0}).reason
