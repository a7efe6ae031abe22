"""vdbench's flat file (output/flatfile.html): the averages of each run, by the columns' own names.

Written after vdbench's documentation and the source of its flat file (Flat.java), without an output of our own. A line
of names comes first; each row is an interval of a run, and the last of a run is its average, whose interval is called
`avg_2-10`: it leaves out the first interval. Of volumes and counts there are only averages a second, and no row has the
length of an interval, so that rates and response times are all that is claimed. MB are 2**20 bytes, response times
milliseconds, numbers have four decimals.

For `ioassay import` the average of each run is an entry, and its intervals are the entry's series. Of volumes (SD, WD)
reads and writes have one rate together: it is that of reads or of writes where there is nothing else, and else of the
total, beside the mean latencies of both. Of files (FSD) both have their own. vdbench has no percentiles here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ioassay.errors import InputError
from ioassay.formats.number_parsing import last_line, lines_with, real, step_of, whole_number
from ioassay.formats.result_entry import MIB, Entry, ResultFile, quantities, size_level
from ioassay.formats.text_rules import Tool
from ioassay.records.record import Claim, Series

_HEAD = re.compile(r"^ *tod +timestamp +Run +Interval +reqrate +rate +.*$", re.M)
_AVERAGE = re.compile(r" avg_[0-9]{1,9}(?:-[0-9]{1,9})? ")
_EVERY = re.compile(r"(?<![0-9])[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]")
"""Which rows are wanted: the averages of runs, or these and every interval."""
_NOTHING = "vdbench's flat file has no run that ended ('avg_')"
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
_MS_NS = 1e6
_RATES = (".iops", ".bw")
_DAY_S = 86400.0
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2}(?:\.[0-9]{1,6})?)")


def _rows(text: str, wanted: re.Pattern[str]) -> Iterator[dict[str, str]]:
    """The rows that have `wanted`, by their columns' names in lower case; InputError for one that does not fit.

    A name that stands twice has its first value; what is not available is left out.
    """
    heads = list(_HEAD.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=False):
        names = [name.lower() for name in head[0].split()]
        for _, line in lines_with(text[:end], wanted, head.end()):
            words = line.split()
            if len(words) != len(names):
                raise InputError(f"vdbench's flat file has a row of {len(words)} columns; expected {len(names)}")
            pairs = reversed(list(zip(names, words, strict=True)))
            yield {name: word for name, word in pairs if word != "n/a"}


def _has_files(row: Mapping[str, str]) -> bool:
    return "mb_read" in row or "mb_write" in row


def _way(row: Mapping[str, str], both: str) -> str:
    """What is done to volumes: reads, writes or both."""
    share = real(row["read%"], "vdbench's read%") if "read%" in row else None
    return {100.0: "read", 0.0: "write"}.get(share, both) if share is not None else both


def _outputs(argv: Sequence[str]) -> list[str]:
    """The flat file in the folder of -o, which is `output` without it."""
    words = CLAIMS.words(argv)
    folders = [word for option, word in pairwise(words) if option == "-o"]
    joined = [word[2:] for word in words[1:] if re.match(r"-o\w", word)]
    return [posixpath.join(*([*folders, *joined] or ["output"])[-1:], "flatfile.html")] if words else []


def _claims(text: str, words: Sequence[str]) -> Iterator[Claim]:
    """Of files (FSD) a read and a write; of devices one claim, whose kind is known where there is only one."""
    for row in _rows(text, _AVERAGE):
        cells = {kind: (f"mb_{kind}", f"{kind}_resp") for kind in ("read", "write")}
        if not _has_files(row):
            cells = {_way(row, "mixed"): ("mb/sec", "resp")}
        for kind, (rate, response) in cells.items():
            numbers = {
                name: real(row[name], f"vdbench's {name}") for name in (rate, response, "xfersize") if name in row
            }
            requested = numbers.get("xfersize", 0.0)
            if numbers.get(rate):
                yield Claim(
                    source="vdbench",
                    kind=kind,
                    test=row.get("run", ""),
                    rate_bytes_per_s=numbers[rate] * MIB,
                    rate_unit_bytes=step_of(row[rate]) * MIB,
                    latency_ns={"mean": numbers[response] * _MS_NS} if numbers.get(response) else {},
                    record_bytes=round(requested) if requested and requested.is_integer() else None,
                    unreported=("ramp",),
                )


def _entries(text: str) -> Iterator[Entry]:
    """The runs in their order."""
    intervals: list[dict[str, str]] = []
    ended = False
    for row in _rows(text, _EVERY):
        if intervals and intervals[0].get("run") != row.get("run"):
            intervals = []  # of a run that was interrupted
        if _AVERAGE.fullmatch(f" {row.get('interval', '')} "):
            yield _entry(row, intervals)
            intervals, ended = [], True
        else:
            intervals.append(row)
    if not ended:
        raise InputError(f"{_NOTHING}; it ends with {last_line(text)}")


def _entry(row: Mapping[str, str], intervals: Sequence[Mapping[str, str]]) -> Entry:
    cells = _cells(row)
    metrics = quantities(row, cells, "vdbench")
    levels = {  # `100.0000` is 100, `70.1000` is 70.1
        factor: re.sub(r"(\.[0-9]*?)0+$", r"\1", row[column]).removesuffix(".")
        for column, factor in _LEVELS.items()
        if column in row
    }
    if levels.get("bs", "").isdecimal():  # the mean of several sizes is no size
        levels["bs"] = size_level(whole_number(levels["bs"], "vdbench's xfersize"))
    if not any(name.endswith(_RATES) for name in metrics):
        return Entry(row.get("run", ""), options=levels, problem="no request was done")
    series = _series(intervals, {name: cell for name, cell in cells.items() if name in metrics})
    return Entry(row.get("run", ""), options=levels, metrics=metrics, series=series)


def _cells(row: Mapping[str, str]) -> dict[str, tuple[str, float]]:
    """Metric -> the column that has it and the factor of its unit, for a run with this average."""
    if _has_files(row):
        own = {"iops": ("{}_rate", 1.0), "bw": ("mb_{}", float(MIB)), "lat.mean": ("{}_resp", _MS_NS)}
        ways = ("read", "write")
        return {f"{way}.{name}": (cell.format(way), factor) for way in ways for name, (cell, factor) in own.items()}
    way = _way(row, "total")
    return {
        f"{way}.iops": ("rate", 1.0),
        f"{way}.bw": ("mb/sec", float(MIB)),
        f"{way}.lat.mean": ("resp", _MS_NS),
        f"{way}.lat.max": ("resp_max", _MS_NS),
        f"{way}.lat.stddev": ("resp_std", _MS_NS),
        **({f"{one}.lat.mean": (f"{one}_resp", _MS_NS) for one in ("read", "write")} if way == "total" else {}),
    }


def _series(intervals: Sequence[Mapping[str, str]], cells: Mapping[str, tuple[str, float]]) -> list[Series]:
    """One of each metric, by the time after the first interval; a rate of 0 is a point of it, a time of 0 none."""
    points: dict[str, list[tuple[float, float]]] = {}
    begin_s = None
    for row in intervals:
        if match := _TIME.fullmatch(row.get("tod", "")):
            time_s = int(match[1]) * 3600 + int(match[2]) * 60 + float(match[3])
            begin_s = time_s if begin_s is None else begin_s
            for name, (cell, factor) in cells.items():
                if cell in row and ((value := real(row[cell], f"vdbench's {cell}")) or name.endswith(_RATES)):
                    points.setdefault(name, []).append(((time_s - begin_s) % _DAY_S, value * factor))
    return [Series(name, [at for at, _ in found], [value for _, value in found]) for name, found in points.items()]


CLAIMS = Tool(
    "vdbench",
    *("vdbench", "vdbench.sh", "vdbench.bash"),
    sign=_HEAD.pattern,
    claims=_claims,
    missing=_NOTHING,
    outputs=_outputs,
)
RESULTS = ResultFile("vdbench's flatfile.html", CLAIMS.looks_like, _entries)
