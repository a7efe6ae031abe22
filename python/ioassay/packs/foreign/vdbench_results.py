"""Results of vdbench's flat file (flatfile.html) for `ioassay import`: the average of each run is an entry.

Its intervals become the entry's series. Of volumes (SD, WD) reads and writes have one rate together: it is that of
reads or of writes where there is nothing else, and else of the total, beside the mean latencies of both. Of files (FSD)
both have their own. vdbench has no percentiles here. What the columns mean: `vdbench_flat_file`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ioassay.errors import InputError
from ioassay.formats.number_parsing import real, whole_number
from ioassay.formats.result_entry import MIB, Entry, quantities, size_level
from ioassay.packs.foreign import vdbench as vdbench_flat_file
from ioassay.packs.foreign.vdbench import AVERAGE, EVERY
from ioassay.records.record import Series

_LEVELS = {
    "xfersize": "bs",
    "threads": "workers",
    "rdpct": "rwmixread",
    "seekpct": "seek_share",
    "rhpct": "read_hit_share",
    "whpct": "write_hit_share",
    "reqrate": "requested_rate",
}
"""Columns that a user sets -> the name of the factor."""
_MILLISECOND_NS = 1e6
_RATES = (".iops", ".bw")
_DAY_S = 86400.0
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2}(?:\.[0-9]{1,6})?)")
WANTED = "vdbench's flatfile.html"
looks_like = vdbench_flat_file.looks_like


def read(text: str, source: str) -> list[Entry]:
    """The runs in their order; InputError names `source` when none ended, or a row does not fit its head."""
    entries: list[Entry] = []
    intervals: list[dict[str, str]] = []
    try:
        for row in vdbench_flat_file.rows(text, EVERY):
            if intervals and intervals[0].get("run") != row.get("run"):
                intervals = []  # of a run that was interrupted
            if AVERAGE.fullmatch(f" {row.get('interval', '')} "):
                entries.append(_entry(row, intervals))
                intervals = []
            else:
                intervals.append(row)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    if not entries:
        raise InputError(f"{source}: {vdbench_flat_file.nothing(text)}")
    return entries


def _entry(row: Mapping[str, str], intervals: Sequence[Mapping[str, str]]) -> Entry:
    cells = _cells(row)
    metrics = quantities(row, cells, "vdbench")
    levels = {factor: _plain(row[column]) for column, factor in _LEVELS.items() if column in row}
    if levels.get("bs", "").isdecimal():  # the mean of several sizes is no size
        levels["bs"] = size_level(whole_number(levels["bs"], "vdbench's xfersize"))
    worked = any(name.endswith(_RATES) for name in metrics)
    return Entry(
        row.get("run", ""),
        options=levels,
        metrics=metrics if worked else {},
        series=_series(intervals, {name: cell for name, cell in cells.items() if name in metrics}) if worked else (),
        problem="" if worked else "no request was done",
    )


def _cells(row: Mapping[str, str]) -> dict[str, tuple[str, float]]:
    """Metric -> the column that has it and the factor of its unit, for a run with this average."""
    if "mb_read" in row or "mb_write" in row:
        return _of_files("read") | _of_files("write")
    share = real(row["read%"], "vdbench's read%") if "read%" in row else -1.0
    way = {100.0: "read", 0.0: "write"}.get(share, "total")
    parts = {f"{one}.lat.mean": (f"{one}_resp", _MILLISECOND_NS) for one in ("read", "write")}
    return _of_volumes(way) | (parts if way == "total" else {})


def _of_files(way: str) -> dict[str, tuple[str, float]]:
    return {
        f"{way}.iops": (f"{way}_rate", 1.0),
        f"{way}.bw": (f"mb_{way}", float(MIB)),
        f"{way}.lat.mean": (f"{way}_resp", _MILLISECOND_NS),
    }


def _of_volumes(way: str) -> dict[str, tuple[str, float]]:
    return {
        f"{way}.iops": ("rate", 1.0),
        f"{way}.bw": ("mb/sec", float(MIB)),
        f"{way}.lat.mean": ("resp", _MILLISECOND_NS),
        f"{way}.lat.max": ("resp_max", _MILLISECOND_NS),
        f"{way}.lat.stddev": ("resp_std", _MILLISECOND_NS),
    }


def _series(intervals: Sequence[Mapping[str, str]], cells: Mapping[str, tuple[str, float]]) -> list[Series]:
    """One of each metric, by the time after the first interval; a rate of 0 is a point of it, a time of 0 none."""
    points: dict[str, list[tuple[float, float]]] = {}
    timed = [(time_s, row) for row in intervals if (time_s := _time_s(row)) is not None]
    for time_s, row in timed:
        for name, (cell, factor) in cells.items():
            if cell in row and ((value := real(row[cell], f"vdbench's {cell}")) or name.endswith(_RATES)):
                points.setdefault(name, []).append(((time_s - timed[0][0]) % _DAY_S, value * factor))
    return [Series(name, [at for at, _ in found], [value for _, value in found]) for name, found in points.items()]


def _time_s(row: Mapping[str, str]) -> float | None:
    match = _TIME.fullmatch(row.get("tod", ""))
    return int(match[1]) * 3600 + int(match[2]) * 60 + float(match[3]) if match else None


def _plain(text: str) -> str:
    """`100.0000` is 100, `70.1000` is 70.1."""
    return re.sub(r"(\.[0-9]*?)0+$", r"\1", text).removesuffix(".")
