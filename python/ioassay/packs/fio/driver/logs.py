"""fio's time logs, where a study wants `logs`: asking for them, and finding what a trial left.

fio averages over `log_interval` itself, so the logs stay small and the load undisturbed; the last, unfinished window
is not logged. Histograms over time are read again where they are shown. Single requests are not logged here: the
distributions come from JSON+.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ioassay import units
from ioassay.errors import IoassayError, StudyError
from ioassay.packs.fio.claims import fio_logs
from ioassay.packs.fio.claims.fio_logs import LATENCIES
from ioassay.packs.fio.driver.section import Section
from ioassay.records.record import Series, Warning_

SERIES = ("bw", "iops", "lat", "clat", "slat")
HISTOGRAMS = "hist"
"""Completion latencies over time: one histogram an interval. They stay in the trial's raw folder."""
KINDS = (*SERIES, HISTOGRAMS)
_COARSENESS = 2
"""fio's log_hist_coarseness: 16 bins for each power of two instead of 64, in a quarter of the space."""
_PREFIX = "log"
_DEFAULT_INTERVAL = "100ms"
_FASTEST_MS = 10
"""Below this fio's sampling thread, which also counts bandwidth, does not keep up."""


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
        "write_lat_log": bool(asked.intersection(LATENCIES)),
        "write_iops_log": "iops" in asked or (job.numjobs > 1 and bool(asked.intersection(LATENCIES))),
    }
    averaging = dict.fromkeys(("log_avg_msec", "bwavgtime", "iopsavgtime"), interval_ms)
    chosen = {name: prefix for name, is_wanted in wanted.items() if is_wanted}
    if HISTOGRAMS in asked:
        intervals = {"log_hist_msec": interval_ms, "log_hist_coarseness": str(_COARSENESS)}
        chosen |= {"write_hist_log": prefix, **intervals}
    return {**chosen, **averaging, "per_job_logs": "1"}


def series(params: Mapping[str, Any], raw: Path) -> tuple[list[Series], list[Warning_]]:
    """The series of all jobs merged and, where there are several, of each; with a warning for each missing log."""
    made: list[Series] = []
    warnings: list[Warning_] = []
    for kind in params.get("logs", []):
        try:
            if kind == HISTOGRAMS:
                fio_logs.latency_windows(_required(raw, "clat_hist"))
            else:
                made += _series_of(kind, raw, _interval_ms(params))
        except (OSError, IoassayError, ValueError) as error:
            warnings.append(Warning_("log-unreadable", f"{kind} log: {error}", "look into the trial's raw folder"))
    return made, warnings


def _series_of(kind: str, raw: Path, interval_ms: int) -> list[Series]:
    paths = _required(raw, kind)
    weights = _files(raw, "iops") if kind in LATENCIES and len(paths) > 1 else []
    return fio_logs.series_of(kind, paths, interval_ms, weights)


def _required(raw: Path, kind: str) -> list[Path]:
    paths = _files(raw, kind)
    if not paths:
        raise FileNotFoundError(f"fio wrote none: {_PREFIX}_{kind}.1.log is not there")
    return paths


def _files(raw: Path, kind: str) -> list[Path]:
    """`log_bw.1.log`, … in the order of fio's job numbers."""
    return sorted(raw.glob(f"{_PREFIX}_{kind}.*.log"), key=lambda path: int(path.name.split(".")[-2]))
