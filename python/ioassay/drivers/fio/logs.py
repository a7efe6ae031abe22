"""fio's time logs: asking for them where a study wants `logs`, and reading them as series.

fio averages over `log_interval` itself, so the logs stay small and the load undisturbed; the last, unfinished window
is not logged. Bandwidths and IOPS of jobs add up; latencies are weighted by the requests of each job's window.
Single requests are not logged here: the distributions come from JSON+.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay import units
from ioassay.drivers.fio.section import Section
from ioassay.errors import IoassayError, StudyError
from ioassay.record import Series, Warning_

KINDS = ("bw", "iops", "lat", "clat", "slat")
_LATENCIES = ("lat", "clat", "slat")
_PREFIX = "log"
_DEFAULT_INTERVAL = "100ms"
_FASTEST_MS = 10
"""Below this fio's sampling thread, which also counts bandwidth, does not keep up."""

_Windows = dict[float, float]
"""Middle of a window in s -> value, for one direction of one job."""


def check(params: Mapping[str, Any]) -> None:
    """StudyError when `logs` or `log_interval` cannot be."""
    asked = params.get("logs", [])
    if not isinstance(asked, list | tuple) or not all(kind in KINDS for kind in asked):
        raise StudyError(f"is {asked!r}; wanted a list of {', '.join(KINDS)}", key="params.logs")
    try:
        interval_ms = _interval_ms(params)
    except (ValueError, TypeError) as error:
        raise StudyError(str(error), key="params.log_interval") from None
    if interval_ms < _FASTEST_MS:
        raise StudyError(f"is {interval_ms} ms; wanted {_FASTEST_MS} ms or more", key="params.log_interval")


def _interval_ms(params: Mapping[str, Any]) -> int:
    return round(units.parse_duration_s(params.get("log_interval", _DEFAULT_INTERVAL)) * 1e3)


def options(params: Mapping[str, Any], job: Section, folder: str = "") -> dict[str, str]:
    """The options that make fio write the wanted logs to `folder` (with its slash; empty: the working folder)."""
    asked = set(params.get("logs", []))
    if not asked:
        return {}
    prefix, interval_ms = f"{folder}{_PREFIX}", str(_interval_ms(params))
    wanted = {
        "write_bw_log": "bw" in asked,
        "write_lat_log": bool(asked.intersection(_LATENCIES)),
        "write_iops_log": "iops" in asked or (job.numjobs > 1 and bool(asked.intersection(_LATENCIES))),
    }
    averaging = dict.fromkeys(("log_avg_msec", "bwavgtime", "iopsavgtime"), interval_ms)
    return {**{name: prefix for name, is_wanted in wanted.items() if is_wanted}, **averaging, "per_job_logs": "1"}


def series(params: Mapping[str, Any], raw: Path) -> tuple[list[Series], list[Warning_]]:
    """The series of all jobs merged and, where there are several, of each; with a warning for each missing log."""
    made: list[Series] = []
    warnings: list[Warning_] = []
    for kind in params.get("logs", []):
        try:
            made += _series_of(kind, raw, _interval_ms(params))
        except (OSError, IoassayError, ValueError) as error:
            warnings.append(Warning_("log-unreadable", f"{kind} log: {error}", "look into the trial's raw folder"))
    return made, warnings


def _series_of(kind: str, raw: Path, interval_ms: int) -> list[Series]:
    jobs = [_read(path, kind, interval_ms) for path in _files(raw, kind)]
    if not jobs:
        raise FileNotFoundError(f"fio wrote none: {_PREFIX}_{kind}.1.log is not there")
    weights: list[dict[str, _Windows]] = []
    if kind in _LATENCIES and len(jobs) > 1:
        weights = [_read(path, "iops", interval_ms) for path in _files(raw, "iops")]
    made = []
    for direction in sorted({direction for job in jobs for direction in job}):
        metric = f"{direction}.{kind}" if kind not in _LATENCIES else f"{direction}.{kind}.mean"
        of_jobs = [job.get(direction, {}) for job in jobs]
        of_weights = [weight.get(direction, {}) for weight in weights] if len(weights) == len(jobs) else []
        merged = _average(of_jobs, of_weights) if kind in _LATENCIES else _sum(of_jobs)
        made.append(_as_series(metric, merged, -1))
        if len(jobs) > 1:
            made += [_as_series(metric, windows, number) for number, windows in enumerate(of_jobs)]
    return made


def _files(raw: Path, kind: str) -> list[Path]:
    """`log_bw.1.log`, … in the order of fio's job numbers."""
    return sorted(raw.glob(f"{_PREFIX}_{kind}.*.log"), key=lambda path: int(path.name.split(".")[-2]))


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
