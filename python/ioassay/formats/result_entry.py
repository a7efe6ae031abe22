"""What `ioassay import` takes in: a load that was measured elsewhere, as every reader of results returns it.

Metrics are in SI units under the names of `ioassay.metrics`. Only what a file states is in an entry: a percentile that
a tool does not give is not made of others. Deliberately not here: which format a file has, and the run that the
entries become (`ioassay import`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioassay.errors import naming
from ioassay.formats.number_parsing import real
from ioassay.pack import listed
from ioassay.records.record import Buckets, Series, Warning_
from ioassay.registry import Contract, Registry

FORMATS: dict[str, str] = listed("formats", {})
"""Tool -> what has `looks_like(text)` and `read(text, source)`, which returns entries, where no claims are read of it.

What has claims is imported by them (`claim_entries`), or by the `RESULTS` of its parser. It may have `WANTED`, what
file of the tool it reads; `grouped(files)`, the entries of files that are told by their names and read together; and
`resembles(text)`, whether a text that no format reads is refused in its words.
"""
REGISTRY = Registry("formats", "format of results", FORMATS, Contract("looks_like", "read"))

MIB = 2**20


@dataclass(frozen=True)
class Entry:
    """One load that was measured: a group of jobs, one test or phase, or the logs of one prefix."""

    label: str
    files: Sequence[Path] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    """What the file states of the load. Options that differ between entries become factors."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    buckets: Sequence[Buckets] = ()
    series: Sequence[Series] = ()
    parts: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[Warning_] = ()
    problem: str = ""
    started_unix_s: float = 0.0
    format: str = ""
    """Of its file, which its reader need not say; the driver of the run's study, which has metrics of that name's
    plugin where there is one."""
    responses: Sequence[str] | None = None
    """Metrics to answer, in addition to rates and latencies of reads, writes and trims; None: all but amounts."""
    is_sum: bool = False
    """It is other entries together, and no condition that could be chosen over these."""


@dataclass(frozen=True)
class ResultFile:
    """An entry of `FORMATS`, or `RESULTS` of a parser of claims."""

    WANTED: str
    looks_like: Callable[[str], object]
    entries: Callable[[str], Iterable[Entry]]
    """What a text holds; InputError says what is wrong with it."""

    def read(self, text: str, source: str) -> list[Entry]:
        """The loads in their order; InputError names `source`."""
        with naming(source):
            return list(self.entries(text))


def quantities(row: Mapping[str, str], names: Mapping[str, tuple[str, float]], tool: str) -> dict[str, float]:
    """Metrics from named cells of a table: `names` has each metric's cell and the factor of its unit.

    Cells that are missing or empty are left out, and so are zeros, which stand for what did not happen or is below a
    tool's digits. InputError names the tool's cell that holds no number.
    """
    found = {}
    for metric, (cell, factor) in names.items():
        if (text := row.get(cell, "").strip()) and (value := real(text, f"{tool}'s {cell}") * factor):
            found[metric] = value
    return found


def size_level(size_bytes: int) -> str:
    """A size as the level of a factor, exact: `65536` is `64KiB`."""
    unit = next((power for power in (3, 2, 1) if size_bytes and size_bytes % 1024**power == 0), 0)
    return f"{size_bytes // 1024**unit}{('', 'KiB', 'MiB', 'GiB')[unit]}"
