"""Results of elbencho's --csvfile for `ioassay import`: each row is a phase, and each phase an entry.

Written after elbencho's own description of the file (the page csv-docs of its repository, version 3), without a file of
our own. Columns are found by their names, with `[first]`, `[last]`, `[min]` or without the brackets of older versions.
Of the two columns of a quantity that of the last thread to end is taken: the first is a part of it. Rates are rounded
down to whole ones by elbencho. Of a mix (--rwmixpct) the plain columns are the writes. Minima and maxima of latency are
in the file, percentiles are not.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping

from ioassay.errors import InputError
from ioassay.formats.number_parsing import whole_number
from ioassay.formats.result_entry import MIB, Entry, quantities, size_level

WANTED = "elbencho's --csvfile"
_LEVELS = {
    "operation": "operation",
    "hosts": "hosts",
    "threads": "workers",
    "block size": "bs",
    "file size": "file_size",
    "dirs": "dirs",
    "files": "files",
    "direct io": "direct",
    "random": "random",
    "io depth": "iodepth",
    "shared paths": "shared_paths",
    "truncate": "truncate",
    "label": "label",
}
"""What elbencho states of a phase -> the name of the factor."""
_SIZES = {"bs", "file_size"}
_DIRECTIONS = (("RWMIX", "write"), ("WRITE", "write"), ("READ", "read"))
_MIXED_READ = "rwmix read "
_NEEDED = ("operation", "time ms last")
_MICROSECOND_NS, _MILLISECOND_S = 1e3, 1e-3
_MOST_COLUMNS = 500


def looks_like(text: str) -> bool:
    """Whether its first line has the names of elbencho's columns."""
    return set(_NEEDED) <= set(_names(text.lstrip("\ufeff").partition("\n")[0].split(",")[:_MOST_COLUMNS]))


def read(text: str, source: str) -> list[Entry]:
    """The phases in their order; the same phase again is a repetition. InputError names `source` and the row."""
    try:
        head, *rows = csv.reader(text.lstrip("\ufeff").splitlines())
    except csv.Error as error:
        raise InputError(f"{source}: is no CSV that elbencho wrote: {error}") from None
    names = _names(head)
    entries = []
    for number, cells in enumerate(rows, 2):
        if not cells or _names(cells) == names:  # the head again, where two files were put together
            continue
        if len(cells) != len(names):
            raise InputError(f"{source}: row {number} has {len(cells)} cells; wanted {len(names)}, as its head has")
        try:
            entries.append(_entry(dict(zip(names, cells, strict=True))))
        except InputError as error:
            raise InputError(f"{source}: row {number}: {error}") from None
    return entries


def _names(cells: list[str]) -> list[str]:
    """Without brackets and capitals: `IO lat us [avg]` is `io lat us avg`."""
    return [re.sub(r"[\[\]]", "", cell).strip().lower() for cell in cells]


def _entry(row: Mapping[str, str]) -> Entry:
    operation = row["operation"].strip()
    if not operation:
        raise InputError("has no operation; wanted READ, WRITE, …")
    metrics = quantities(row, _OF_ENTRIES, "elbencho")
    problem = ""
    if direction := next((way for name, way in _DIRECTIONS if operation.upper().startswith(name)), None):
        requests = {
            **quantities(row, _of_requests(direction, ""), "elbencho"),
            **quantities(row, _of_requests("read", _MIXED_READ), "elbencho"),
        }
        for way in dict.fromkeys(name.partition(".")[0] for name in requests):
            requests |= quantities(row, {f"{way}.runtime": ("time ms last", _MILLISECOND_S)}, "elbencho")
        metrics |= requests
        problem = "" if requests else "no request was done"
    levels = {factor: text for column, factor in _LEVELS.items() if (text := row.get(column, "").strip())}
    for factor in _SIZES & levels.keys():
        levels[factor] = size_level(whole_number(levels[factor], f"elbencho's {factor}"))
    return Entry(operation, options=levels, metrics=metrics, problem=problem)


_OF_ENTRIES = {
    "entry.rate": ("entries/s last", 1.0),
    "entry.time.min": ("ent lat us min", _MICROSECOND_NS),
    "entry.time.mean": ("ent lat us avg", _MICROSECOND_NS),
    "entry.time.max": ("ent lat us max", _MICROSECOND_NS),
}


def _of_requests(direction: str, prefix: str) -> dict[str, tuple[str, float]]:
    return {
        f"{direction}.iops": (f"{prefix}iops last", 1.0),
        f"{direction}.bw": (f"{prefix}mib/s last", float(MIB)),
        f"{direction}.lat.min": (f"{prefix}io lat us min", _MICROSECOND_NS),
        f"{direction}.lat.mean": (f"{prefix}io lat us avg", _MICROSECOND_NS),
        f"{direction}.lat.max": (f"{prefix}io lat us max", _MICROSECOND_NS),
    }
