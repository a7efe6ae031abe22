"""fio's time logs: the series of a load's jobs, and what logs that were made elsewhere say of a whole load.

Logs are named `<prefix>_<kind>.<job>.log`, with `.<host>` behind it where they were gathered from hosts (CBT); those of
one prefix and host are one load. A log with a line for each request gives
the latency distribution; one that fio averaged (`log_avg_msec`) gives a series only, because percentiles of averages
mean nothing. In a series bandwidths and IOPS of jobs add up; latencies are weighted by the requests of each job's
window where these are known. Lines are read by the crate `fiolog`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ioassay._core import CoreError, Histogram, fio_bin_ns, read_histogram_log, read_log
from ioassay.errors import InputError
from ioassay.metrics import PERCENTILES, percentile_name
from ioassay.records.record import Buckets, LatencyWindow, Series, Warning_

if TYPE_CHECKING:
    from ioassay._core import DirectionSummary, Histogram, LogSummary

LATENCIES = ("lat", "clat", "slat")
_NAME = re.compile(
    r"^(?P<prefix>.*?)_(?P<kind>(?:[cs]?lat|bw|iops|clat_hist))(?:\.(?P<job>\d+))?\.log(?:\.(?P<host>.+))?$"
)
_LINE = re.compile(rb"\d+, ?\d+, ?[012], ?\d+")
_HISTOGRAM = "clat_hist"
_DIRECTIONS = ("read", "write", "trim")
_WINDOW_MS = 100

_Windows = dict[float, float]
"""Middle of a window in s -> value, for one direction of one job."""


@dataclass
class LogResults:
    """What the logs of one load say, in the units of the metrics."""

    metrics: dict[str, float] = field(default_factory=dict)
    buckets: list[Buckets] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    warnings: dict[Warning_, None] = field(default_factory=dict)
    """Each once, in their order."""

    def distribution(self, direction: str, kind: str, histogram: Histogram) -> None:
        """Keep a distribution, and the statistics of it that are metrics."""
        values_ns, counts = histogram.buckets()
        self.buckets.append(Buckets(direction, kind, values_ns, counts))
        statistics = {name: getattr(histogram, name) for name in ("mean", "stddev", "min", "max")}
        found = {name: float(value) for name, value in statistics.items() if value is not None}
        quantiles = histogram.quantiles([percent / 100 for percent in PERCENTILES])
        found |= dict(zip(map(percentile_name, PERCENTILES), quantiles, strict=True))
        self.metrics |= {f"{direction}.{kind}.{name}": value for name, value in found.items()}
        ios = f"{direction}.ios"
        self.metrics[ios] = max(self.metrics.get(ios, 0.0), float(histogram.count))


@dataclass(frozen=True)
class Logs:
    """The logs of one load: kind -> one path a job."""

    prefix: str
    kinds: Mapping[str, Sequence[Path]]
    host: str = ""
    """Behind the names of the files; '' where they have none."""

    @property
    def paths(self) -> list[Path]:
        """All files."""
        return [path for paths in self.kinds.values() for path in paths]

    def read(self) -> LogResults:
        """Everything the logs say; InputError names file, line and fault."""
        results = LogResults()
        try:
            for kind, paths in self.kinds.items():
                if kind != _HISTOGRAM:
                    _read_values(kind, paths, results)
            _read_histograms(self.kinds.get(_HISTOGRAM, ()), results)
        except (CoreError, OSError) as error:
            raise InputError(str(error)) from None
        return results


def histogram_logs(folder: Path) -> list[Path]:
    """The histogram logs in a folder, in the order of their jobs."""
    return [path for logs in grouped(sorted(folder.glob("*.log"))) for path in logs.kinds.get(_HISTOGRAM, ())]


def latency_windows(paths: Sequence[Path]) -> dict[str, list[LatencyWindow]]:
    """Direction -> the windows of histogram logs, log by log; InputError names file, line and fault."""
    found: dict[str, list[LatencyWindow]] = {}
    for path in paths:
        try:
            layout = read_histogram_log(path)  # checks every line
            joined, unit_ns = 2 ** (layout.coarseness or 0), layout.unit_ns or 1
            firsts = range(0, (layout.bins or 0) * joined, joined)
            # What stands for each bin of a log: the middle of the finest bins that it joins.
            middles = [(fio_bin_ns(at) + fio_bin_ns(at + joined - 1)) // 2 * unit_ns for at in firsts]
            for line in filter(str.strip, path.read_text(encoding="ascii").splitlines()):
                end_ms, direction, _, *counts = map(int, line.split(","))
                kept = [place for place, count in enumerate(counts) if count]
                window = LatencyWindow(end_ms / 1e3, [middles[at] for at in kept], [counts[at] for at in kept])
                found.setdefault(_DIRECTIONS[direction], []).append(window)
        except (CoreError, OSError, ValueError) as error:
            raise InputError(str(error)) from None
    return found


def is_log(path: Path) -> bool:
    """Whether a file is one of fio's logs by its name, and by its first line where that ends as no name of fio's."""
    return _named(path) is not None


def _named(path: Path) -> re.Match[str] | None:
    match = _NAME.match(path.name)
    if match is None or not match["host"]:
        return match
    try:
        with path.open("rb") as file:
            line = file.readline(100)
        return match if _LINE.match(line) or not line else None
    except OSError:
        return None


def grouped(paths: Sequence[Path]) -> list[Logs]:
    """Logs by folder, prefix and host, jobs in the order of their numbers."""
    groups: dict[tuple[Path, str, str], dict[str, list[tuple[int, Path]]]] = {}
    for path in paths:
        if match := _named(path):
            kinds = groups.setdefault((path.parent, match["prefix"], match["host"] or ""), {})
            kinds.setdefault(match["kind"], []).append((int(match["job"] or 0), path))
    return [
        Logs(prefix, {kind: [path for _, path in sorted(found)] for kind, found in kinds.items()}, host)
        for (_, prefix, host), kinds in groups.items()
    ]


def _read_values(kind: str, paths: Sequence[Path], results: LogResults) -> None:
    summaries = [read_log(path, kind, window_ms=_WINDOW_MS) for path in paths]
    doubts = []
    for path, summary in zip(paths, summaries, strict=True):
        if summary.unterminated:
            doubts.append(Warning_("log-cut", f"{path.name} ends within a line: fio was stopped while it wrote"))
        if summary.columns == 4 and kind in LATENCIES:
            text = f"{path.name} has four columns, as fio 2 wrote them with microseconds; it is read as nanoseconds"
            doubts.append(Warning_("log-unit", text, "check the latencies against another source"))
        if any(part.time_reversals for part in summary.directions.values()):
            doubts.append(Warning_("log-time", f"{path.name}: time goes back, as where several jobs share one log"))
    results.warnings |= dict.fromkeys(doubts)
    for direction, parts in _by_direction(summaries):
        single = all(_per_request(part) for part in parts)
        if kind in LATENCIES and single:
            results.distribution(direction, kind, _merged([part.histogram for part in parts]))
        elif single:
            results.metrics |= _rates(direction, parts)
        else:
            text = f"the {kind} log holds averages over windows: its mean weights all windows alike, and it has no "
            remedy = "for percentiles import fio's JSON+ or a log made without log_avg_msec"
            results.warnings[Warning_("log-averaged", f"{text}percentiles", remedy)] = None
    single_in = {name for name, parts in _by_direction(summaries) if any(map(_per_request, parts))}
    for series in series_of(kind, paths, _WINDOW_MS):
        if kind in LATENCIES or series.metric.partition(".")[0] not in single_in:
            results.series.append(series)
            if series.job == -1 and series.value:
                results.metrics.setdefault(series.metric, sum(series.value) / len(series.value))


def _read_histograms(paths: Sequence[Path], results: LogResults) -> None:
    """Histogram logs, where no log of single requests said more: fio leaves out their last, unfinished window."""
    summaries = [read_histogram_log(path) for path in paths]
    for direction in sorted({name for summary in summaries for name in summary.directions}):
        parts = [summary.directions[direction] for summary in summaries if direction in summary.directions]
        if any(part.looks_cumulative for part in parts):
            text = f"the {direction} lines of the histogram log look like running totals, as fio up to 2.14 wrote them"
            results.warnings[Warning_("histogram-log-cumulative", text, "make the log anew with fio 3")] = None
        if all((item.direction, item.kind) != (direction, "clat") for item in results.buckets):
            results.distribution(direction, "clat", _merged([part.histogram for part in parts]))


def _by_direction(summaries: Sequence[LogSummary]) -> Iterator[tuple[str, list[DirectionSummary]]]:
    for direction in sorted({name for summary in summaries for name in summary.directions}):
        yield direction, [summary.directions[direction] for summary in summaries if direction in summary.directions]


def _merged(histograms: Sequence[Histogram]) -> Histogram:
    whole = Histogram()
    for histogram in histograms:
        whole.merge(histogram)
    return whole


def _per_request(part: DirectionSummary) -> bool:
    """fio writes the block size of each request, and 0 for an average over a window."""
    return part.bytes > 0


def _rates(direction: str, parts: Sequence[DirectionSummary]) -> dict[str, float]:
    """Volume and rates of a log with a line for each request: its values are the rates of single requests."""
    volume = sum(part.bytes for part in parts)
    requests = sum(part.count for part in parts)
    elapsed_s = max(part.last_ms for part in parts) / 1e3
    found: dict[str, float] = {f"{direction}.bytes": volume, f"{direction}.ios": requests}
    if elapsed_s > 0:
        found |= {f"{direction}.bw": volume / elapsed_s, f"{direction}.iops": requests / elapsed_s}
    return found


def series_of(kind: str, paths: Sequence[Path], interval_ms: int, weights: Sequence[Path] = ()) -> list[Series]:
    """The series of one kind of log, a path a job: merged and, where there are several jobs, of each.

    `weights` are the same jobs' IOPS logs. CoreError names the first line that is none; OSError an unreadable file.
    """
    jobs = [_windows(path, kind, interval_ms) for path in paths]
    weighting = [_windows(path, "iops", interval_ms) for path in weights]
    made = []
    for direction in sorted({direction for job in jobs for direction in job}):
        metric = f"{direction}.{kind}.mean" if kind in LATENCIES else f"{direction}.{kind}"
        of_jobs = [job.get(direction, {}) for job in jobs]
        of_weights = [weight.get(direction, {}) for weight in weighting] if len(weighting) == len(jobs) else []
        merged: _Windows = {}
        for at_s in set().union(*of_jobs):
            pairs = [(job[at_s], number) for number, job in enumerate(of_jobs) if at_s in job]
            weighed = [of_weights[number].get(at_s, 1.0) if of_weights else 1.0 for _, number in pairs]
            whole = sum(weighed)
            if kind not in LATENCIES:  # a job that logged nothing in a window completed nothing in it
                merged[at_s] = sum(value for value, _ in pairs)
            elif whole:
                merged[at_s] = sum(value * weight for (value, _), weight in zip(pairs, weighed, strict=True)) / whole
            else:
                merged[at_s] = pairs[0][0]
        made.append(_as_series(metric, merged, -1))
        if len(jobs) > 1:
            made += [_as_series(metric, windows, number) for number, windows in enumerate(of_jobs)]
    return made


def _as_series(metric: str, windows: _Windows, job: int) -> Series:
    times_s = sorted(windows)
    return Series(metric, times_s, [windows[time_s] for time_s in times_s], job)


def _windows(path: Path, kind: str, interval_ms: int) -> dict[str, _Windows]:
    """Direction -> windows of one job's log, in the unit of its metric (bandwidth in bytes/s)."""
    return {
        direction: {
            (start_ms + interval_ms / 2) / 1e3: mean
            for start_ms, mean in zip(part.series.start_ms, part.series.mean, strict=True)
        }
        for direction, part in read_log(path, kind, window_ms=interval_ms).directions.items()
    }
