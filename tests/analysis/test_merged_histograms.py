"""A percentile of a condition is that of all its requests, and it is one number wherever it is shown."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ioassay import metrics, report
from ioassay._core import Histogram
from ioassay.analysis.descriptive import headline
from ioassay.analysis.measurements.cells import cells, pooled
from ioassay.metrics import PERCENTILES, percentile_name
from ioassay.narrative import pipeline
from ioassay.packs.comparison import run_comparison
from ioassay.stats.percentiles import percentile_intervals, pseudo_values
from ioassay.store import packed_page

P99 = "read.lat.p99"
LEVELS = (1, 8, 32)
FIGURES = [
    {"kind": "bar", "name": "bars", "x": "iodepth", "y": P99},
    {"kind": "trend", "name": "trend", "x": "iodepth", "y": P99},
    {"kind": "heatmap", "name": "heat", "x": "iodepth", "y": "rw", "value": P99},
    {"kind": "lines", "name": "lines", "x": "iodepth", "y": P99, "color": "rw"},
    {"kind": "cdf", "name": "cdf", "direction": "read", "latency": "lat", "marks": [50, 99]},
    {"kind": "box", "name": "box", "x": "iodepth", "y": P99},
]


def requests_of(level: int, repetition: int) -> np.ndarray:
    """Of the third repetition alone many requests are slow: the mean of percentiles says nothing of all requests."""
    rng = np.random.default_rng([level, repetition])
    values = rng.lognormal(np.log(1.63e5 * level), 0.2, 2000)
    values[: 50 if repetition == 2 else 2] *= 40
    return np.round(values).astype(int)


def measured(lab: Any, root: Path, repetitions: int = 4) -> Any:
    study = lab.study(
        factors={"iodepth": list(LEVELS), "rw": ["randread"]}, responses=[P99, "read.lat.p50"], figures=FIGURES
    )

    def measure(point: Any, repetition: int) -> dict[str, Any]:
        values = requests_of(int(point["iodepth"]), repetition)
        histogram = Histogram()
        histogram.record_many(values)
        shares = np.array(PERCENTILES) / 100
        named = zip(map(percentile_name, PERCENTILES), histogram.quantiles(shares), strict=True)
        own = {f"read.lat.{name}": value for name, value in named}
        return {**own, "read.ios": 2000.0, "_hist": [("read", "lat", *histogram.buckets())]}

    return study, replace(lab.records(lab.run(study, measure, repetitions)), root=root)


def truth(level: int, repetitions: int = 4, percent: float = 99.0) -> float:
    everything = np.concatenate([requests_of(level, repetition) for repetition in range(repetitions)])
    return float(np.percentile(everything, percent))


def mean_of_percentiles(level: int, repetitions: int = 4) -> float:
    return float(np.mean([np.percentile(requests_of(level, each), 99) for each in range(repetitions)]))


def test_pseudo_values_have_the_percentile_of_all_requests_as_their_mean() -> None:
    rng = np.random.default_rng(3)
    samples = [np.round(rng.lognormal(12, 0.5, size)).astype(int) for size in (50, 500, 3000)]
    parts = [Histogram() for _ in samples]
    for part, sample in zip(parts, samples, strict=True):
        part.record_many(sample)
    found = pseudo_values(parts, PERCENTILES)
    assert found.shape == (len(PERCENTILES), 3)
    assert found.mean(axis=1) == pytest.approx(np.percentile(np.concatenate(samples), PERCENTILES), rel=0.002)
    without = [np.log(np.percentile(np.concatenate(samples[:i] + samples[i + 1 :]), 99)) for i in range(3)]
    error = np.sqrt(2 / 3 * np.sum((without - np.mean(without)) ** 2))
    assert found[3].std(ddof=1) / np.sqrt(3) / found[3].mean() == pytest.approx(error, rel=0.01)
    assert pseudo_values(parts[:1], [99.0]) == pytest.approx(np.percentile(samples[0], 99), rel=0.002)


def test_the_interval_covers_the_true_percentile_as_often_as_it_says() -> None:
    """Repetitions whose share of slow requests varies; 2.0 % are slow in the whole population."""
    from ioassay.stats.result import Interval

    rng = np.random.default_rng(7)

    def repetition(size: int = 2000) -> np.ndarray:
        slow = rng.random(size) < rng.beta(2, 98)
        return np.round(1e5 * np.where(slow, rng.lognormal(2, 0.4, size), rng.lognormal(0, 0.3, size))).astype(int)

    true = np.percentile(np.concatenate([repetition(5000) for _ in range(300)]), 99)
    hits, experiments = 0, 150
    for _ in range(experiments):
        parts = [Histogram() for _ in range(5)]
        for part in parts:
            part.record_many(repetition())
        (interval,) = percentile_intervals(pseudo_values(parts, [99.0]), 0.95)
        assert isinstance(interval, Interval)
        hits += interval.low <= true <= interval.high
    assert hits / experiments > 0.88


def test_conditions_taken_together_have_the_percentile_of_all_their_requests(lab: Any, tmp_path: Path) -> None:
    study, records = measured(lab, tmp_path)
    found = cells(records, study, P99).cells
    everything = np.concatenate([requests_of(level, repetition) for level in LEVELS for repetition in range(4)])
    assert pooled(found, P99).values.mean() == pytest.approx(np.percentile(everything, 99), rel=0.002)


def test_without_histograms_of_all_trials_the_mean_of_percentiles_is_labelled(lab: Any, tmp_path: Path) -> None:
    study, records = measured(lab, tmp_path)
    partly = replace(records, hist=records.hist.filter(records.hist["trial"] != "study-0"))
    found = cells(partly, study, P99)
    assert not found.merged
    assert found.cells[0].values.mean() == pytest.approx(mean_of_percentiles(1), rel=0.002)
    described, _ = (
        each for each in pipeline.analyse_study(partly, study) if (each.question, each.response) == ("describe", P99)
    )
    assert any("histograms were not kept" in caveat for caveat in described.caveats)


def test_one_repetition_has_a_percentile_and_no_interval(lab: Any, tmp_path: Path) -> None:
    study, records = measured(lab, tmp_path, repetitions=1)
    row = next(row for row in headline(records, [study]) if row.metric == P99)
    assert row.mean == pytest.approx(truth(1, 1), rel=0.002) and row.ci95 is None


# One number


def shown_values(records: Any, study: Any) -> Iterator[tuple[str, int, float]]:
    """Place, level and number of every 99th percentile that is shown for a condition."""
    for row in headline(records, [study]):
        if row.metric == P99:
            yield "headline", row.point["iodepth"], row.mean
    for finding in pipeline.analyse_all(records):
        points = finding.statistics.get("points", ())
        if finding.question == "describe" and finding.response == P99:
            yield from (("describe", p["point"]["iodepth"], p["percentiles"][3]["value"]) for p in points)
        elif finding.question == "peak" and finding.response == P99:
            yield from zip(("peak",) * 3, LEVELS, finding.statistics["means"], strict=True)
    compared = run_comparison.compare(records, records)
    for row in compared.rows:
        if row.response == P99:
            yield "compare", int(row.point["iodepth"]), row.mean_a


def test_all_analyses_show_one_number(lab: Any, tmp_path: Path) -> None:
    study, records = measured(lab, tmp_path)
    places = set()
    for place, level, value in shown_values(records, study):
        places.add(place)
        assert value == pytest.approx(truth(level), rel=0.002), place
        assert value != pytest.approx(mean_of_percentiles(level), rel=0.1), place
    assert places >= {"headline", "describe", "compare", "peak"}


def occurrences(text: str, number: str) -> int:
    return len(re.findall(rf"(?<![\d.]){re.escape(number)}\b", text))


def test_the_page_and_its_figures_show_one_number(lab: Any, tmp_path: Path) -> None:
    study, records = measured(lab, tmp_path)
    drawn = report.declare(records)
    written = report.build(records, pipeline.analyse_all(records), tmp_path / "report", title="t", drawn=drawn)
    page = html.unescape(re.sub(r"<[^>]+>", " ", packed_page.unpacked(written.page.read_text()))).replace("\xa0", " ")
    specs = "".join(json.dumps(each.spec, ensure_ascii=False) for each in drawn)
    assert all(not each.problem for each in drawn)
    rows = {row.point["iodepth"]: row for row in headline(records, [study]) if row.metric == P99}
    bounds = [metrics.format_metric(P99, end) for row in rows.values() for end in row.ci95]
    for level in LEVELS:
        right = metrics.format_metric(P99, rows[level].mean)
        wrong = metrics.format_metric(P99, mean_of_percentiles(level))
        for place in (page, specs):
            assert occurrences(place, right) >= 4, right
            assert wrong in bounds or not occurrences(place, wrong), wrong


def test_intervals_of_percentiles_are_above_nothing_and_ascend_as_the_percentiles_do() -> None:
    """One repetition of three has a stall: alone, the 90th percentile would begin below the median's interval."""
    rng = np.random.default_rng(2)
    parts = [Histogram() for _ in range(3)]
    for part, stalled in zip(parts, (0.0, 0.02, 0.3), strict=True):
        slow = rng.random(1000) < stalled
        part.record_many(np.round(np.where(slow, 4e6, rng.lognormal(12, 0.05, 1000))).astype(int))
    found = percentile_intervals(pseudo_values(parts, PERCENTILES), 0.95)
    lows, highs = [one.low for one in found], [one.high for one in found]
    assert lows[0] > 0 and lows == sorted(lows) and highs == sorted(highs)
    assert found[1].high > 10 * found[0].high and found[1].low == found[0].low
