"""fio's time logs as series: the windows of a load's jobs, merged and one by one.

Bandwidths and IOPS of jobs add up; latencies are weighted by the requests of each job's window where these are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ioassay.records.record import Series

LATENCIES = ("lat", "clat", "slat")

_Windows = dict[float, float]
"""Middle of a window in s -> value, for one direction of one job."""


def series_of(kind: str, paths: Sequence[Path], interval_ms: int, weights: Sequence[Path] = ()) -> list[Series]:
    """The series of one kind of log, a path a job: merged and, where there are several jobs, of each.

    `weights` are the same jobs' IOPS logs. CoreError names the first line that is none; OSError an unreadable file.
    """
    jobs = [_read(path, kind, interval_ms) for path in paths]
    weighting = [_read(path, "iops", interval_ms) for path in weights]
    made = []
    for direction in sorted({direction for job in jobs for direction in job}):
        metric = f"{direction}.{kind}.mean" if kind in LATENCIES else f"{direction}.{kind}"
        of_jobs = [job.get(direction, {}) for job in jobs]
        of_weights = [weight.get(direction, {}) for weight in weighting] if len(weighting) == len(jobs) else []
        merged = _average(of_jobs, of_weights) if kind in LATENCIES else _sum(of_jobs)
        made.append(_as_series(metric, merged, -1))
        if len(jobs) > 1:
            made += [_as_series(metric, windows, number) for number, windows in enumerate(of_jobs)]
    return made


def _as_series(metric: str, windows: _Windows, job: int) -> Series:
    times_s = sorted(windows)
    return Series(metric, times_s, [windows[time_s] for time_s in times_s], job)


def _sum(jobs: Sequence[_Windows]) -> _Windows:
    """A job that logged nothing in a window completed nothing in it."""
    return {time_s: sum(job.get(time_s, 0.0) for job in jobs) for time_s in set().union(*jobs)}


def _average(jobs: Sequence[_Windows], weights: Sequence[_Windows]) -> _Windows:
    merged: _Windows = {}
    for time_s in set().union(*jobs):
        pairs = [
            (job[time_s], weights[number].get(time_s, 1.0) if weights else 1.0)
            for number, job in enumerate(jobs)
            if time_s in job
        ]
        whole = sum(weight for _, weight in pairs)
        merged[time_s] = sum(value * weight for value, weight in pairs) / whole if whole else pairs[0][0]
    return merged


def _read(path: Path, kind: str, interval_ms: int) -> dict[str, _Windows]:
    """Direction -> windows of one job's log, in the unit of its metric (bandwidth in bytes/s)."""
    from ioassay._core import read_log

    found: dict[str, _Windows] = {}
    for direction, part in read_log(path, kind, window_ms=interval_ms).directions.items():
        windows = part.series
        middles_s = [(start_ms + interval_ms / 2) / 1e3 for start_ms in windows.start_ms]
        found[direction] = dict(zip(middles_s, windows.mean, strict=True))
    return found
