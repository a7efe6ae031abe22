"""Percentiles of a condition are those of the merged histograms of its repetitions, never a mean of percentiles.

The mean of five repetitions' 99th percentiles is the 99th percentile of nothing: where one repetition has the slow
requests, it may lie far from the latency that 99 % of all requests keep. Each repetition enters statistics as one
pseudo-value of the jackknife over repetitions, centred on the percentile of all: `q + q (n - 1) (m - ln q_i)`, where
q_i is the percentile of all repetitions but the i-th and m the mean of their logarithms. The mean of the pseudo-values
is q itself, and their variation the jackknife's of ln q, from which the interval is made (`stats.sample`). One
repetition has its own percentile and no interval.

Tukey, "Bias and confidence in not-quite large samples" (Annals of Mathematical Statistics 29, 1958); Shao and Wu, "A
general theory for jackknife variance estimation" (Annals of Statistics 17, 1989), after whom leaving out whole groups
of requests is consistent for quantiles. A bootstrap over repetitions is too narrow for few of them: of three it covers
the true percentile in 7 of 10 experiments where this interval does in 9 (docs/METHOD.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ioassay.analysis.measurements import memoized
from ioassay.stats.result import Floats, Interval, Undefined
from ioassay.stats.sample import mean_interval
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

    from ioassay._core import Histogram

_ALL_JOBS = -1


@memoized
def of_trials(records: Dataset, study: Study, direction: str, kind: str) -> dict[str, Histogram]:
    """Trial -> the latencies of all its jobs; trials without such requests are left out."""
    if records.hist.is_empty():
        return {}
    return of_rows(records.hist.filter(study=study.name), direction, kind)


def of_rows(hist: pl.DataFrame, direction: str, kind: str) -> dict[str, Histogram]:
    """The same of the rows of `hist.parquet`, of one study."""
    import polars as pl

    from ioassay._core import Histogram

    rows = hist.filter(direction=direction, kind=kind)
    whole = rows.filter(job=_ALL_JOBS)["trial"].unique().to_list()
    kept = rows.filter((pl.col("job") == _ALL_JOBS) | ~pl.col("trial").is_in(whole))
    histograms = {
        str(trial): Histogram.from_buckets(part["value_ns"].to_numpy(), part["count"].to_numpy())
        for (trial,), part in kept.partition_by("trial", as_dict=True).items()
    }
    return {trial: histogram for trial, histogram in histograms.items() if histogram.count > 0}


def merged(parts: Sequence[Histogram]) -> Histogram:
    from ioassay._core import Histogram

    whole = Histogram()
    for part in parts:
        whole.merge(part)
    return whole


def pseudo_values(repetitions: Sequence[Histogram], percents: Sequence[float]) -> Floats:
    """One row a percentile, one column a repetition: the mean of a row is the percentile of all requests."""
    shares = [percent / 100 for percent in percents]
    number = len(repetitions)
    following = [merged(())]
    for part in reversed(repetitions):
        following.append(merged([following[-1], part]))
    whole = np.array(following[-1].quantiles(shares))[:, None]
    if number == 1:
        return whole
    left_out, before = [], merged(())
    for place, part in enumerate(repetitions):
        left_out.append(merged([before, following[number - 1 - place]]).quantiles(shares))
        before.merge(part)
    without = np.array(left_out).T
    if without.min() > 0:  # a percentile of 0 ns has no logarithm
        without = whole * np.log(without)
    return np.asarray(whole + (number - 1) * (without.mean(axis=1, keepdims=True) - without), dtype=np.float64)


def intervals(rows: Floats, confidence: float) -> list[Interval | Undefined]:
    """The interval of each percentile, whose pseudo-values are a row; the percentiles ascend.

    A percentile is not below a smaller one. So no interval begins below one of a smaller percentile, or ends above
    one of a larger.
    """
    found = [mean_interval(row, confidence, (0.0, np.inf)) for row in rows]
    known = [one for one in found if isinstance(one, Interval)]
    if len(known) < len(found):
        return found
    lows = np.maximum.accumulate([one.low for one in known])
    highs = np.minimum.accumulate([one.high for one in reversed(known)])[::-1]
    return [replace(one, low=float(low), high=float(high)) for one, low, high in zip(known, lows, highs, strict=True)]
