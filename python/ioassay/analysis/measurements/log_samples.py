"""The log samples of every trial for one response, and latencies over time.

Samples are many and dependent: never the unit of a conclusion. Histograms over time stay in the raw folders of the
trials, since a log has a histogram for each interval, and are read when asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import polars as pl

from ioassay.analysis.measurements import memoized
from ioassay.analysis.measurements.cells import LARGEST, SMALLEST
from ioassay.pack import listed
from ioassay.records.record import LatencyWindow
from ioassay.stats.modes import Modes, modes
from ioassay.stats.result import Floats
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

MERGED = -1
_TOOLS: dict[str, str] = listed("histogram_logs", {})
"""A tool -> the module that reads its histogram logs."""


@dataclass(frozen=True)
class Samples:
    """Log samples of one trial, in order of time: `time_s` since its start and `value` in the response's unit."""

    time_s: Floats
    value: Floats


@memoized
def samples(records: Dataset, study: Study, response: str) -> dict[str, Samples]:
    """Trial id -> its log samples of `response`; trials without such a log are absent.

    Where only the jobs were logged, they are put together window by window: rates are added, latencies averaged.
    """
    rows = records.series.filter((pl.col("study") == study.name) & (pl.col("metric") == response))
    merged = pl.col("trial").is_in(rows.filter(job=MERGED)["trial"].unique().to_list())
    columns = ("trial", "time_s", "value")
    whole = rows.filter(merged, job=MERGED).select(columns)
    # Jobs log on one grid but a millisecond or two beside it: the usual distance is the width of a window.
    step = pl.col("time_s").sort().diff().median().over("trial", "job")
    window = (pl.col("time_s") / pl.col("step").median().over("trial")).round()
    joined = pl.col("value").sum() if response.rpartition(".")[2] in ("bw", "iops") else pl.col("value").mean()
    together = rows.filter(~merged).with_columns(step=step).with_columns(window=window).group_by("trial", "window")
    put_together = together.agg(pl.col("time_s").mean(), joined, pl.col("job").n_unique().alias("jobs"))
    # The first and last windows of some jobs may be missing; a sum of fewer jobs would look like a dip.
    complete = put_together.filter(pl.col("jobs") == pl.col("jobs").max().over("trial"))
    rows = pl.concat([whole, complete.select(columns)])
    size = pl.col("value").abs()
    kept = rows.filter((size == 0) | size.is_between(SMALLEST, LARGEST), pl.col("time_s").is_finite())
    return {
        str(trial): Samples(part["time_s"].to_numpy(), part["value"].to_numpy())
        for (trial,), part in kept.sort("trial", "time_s").partition_by("trial", as_dict=True).items()
    }


@dataclass(frozen=True)
class Rounds:
    """Averages over equal spans of one trial, in order of time: span i starts at start_s + i round_s. May be empty."""

    values: Floats
    start_s: float
    round_s: float


def within_trials(logged: Iterable[Samples]) -> Modes | None:
    """The two speeds between which trials switch while they run, by the rounds of their logs."""
    spans = [rounds(one).values for one in logged]
    return modes([one for one in spans if one.size and one.min() > 0])


def rounds(found: Samples, most: int = 25, least_s: float = 1.0) -> Rounds:
    """The rounds over which a trial's steady state is judged.

    A round lasts `least_s` seconds or more, and there are at most `most` (SNIA's PTS ends after 25 rounds); a trial
    shorter than five such rounds is cut into five, where every one of them has a sample. A log's time stamp ends the
    span that its value averages.
    """
    none = Rounds(np.empty(0), 0.0, 0.0)
    if found.time_s.size < 5 or found.time_s[-1] <= found.time_s[0]:
        return none
    start_s = max(float(found.time_s[0] - np.median(np.diff(found.time_s))), 0.0)
    span_s = float(found.time_s[-1]) - start_s
    # Stamps are late by a millisecond or two: ten seconds of log end at 10.002.
    count = min(most, found.value.size, max(5, int(span_s / least_s + 0.1)))
    edge = np.ceil((found.time_s - start_s) / span_s * count - 0.05).astype(np.int64) - 1
    edge = np.clip(edge, 0, count - 1)
    filled = np.bincount(edge, minlength=count)
    if not filled.all():
        return none
    return Rounds(np.bincount(edge, weights=found.value, minlength=count) / filled, start_s, span_s / count)


def histogram_logs(records: Dataset, trial: str) -> Sequence[Path]:
    """The histogram logs that a trial kept, readable or not."""
    raw, tools = records.root / "trials" / trial / "raw", map(import_module, _TOOLS.values())
    return [path for tool in tools for path in tool.histogram_logs(raw)]


def latency_windows(records: Dataset, trials: Iterable[str], direction: str) -> dict[str, list[LatencyWindow]]:
    """Trial -> its windows of one direction, of all its jobs together; trials without such a log are absent.

    InputError for a log that cannot be read.
    """
    return {
        trial: windows
        for trial in trials
        for tool in map(import_module, _TOOLS.values())
        if (windows := tool.latency_windows(histogram_logs(records, trial)).get(direction))
    }
