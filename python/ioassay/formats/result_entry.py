"""What `ioassay import` takes in: a load that was measured elsewhere, as every reader of results returns it.

Metrics are in SI units under the names of `ioassay.metrics`. Only what a file states is in an entry: a percentile that
a tool does not give is not made of others. Deliberately not here: which format a file has, and the run that the
entries become (`ioassay.store.importer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioassay.formats.number_parsing import real
from ioassay.records.record import Buckets, Series, Warning_

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
    """Metrics to answer, in addition to rates and latencies of reads, writes and trims; None: all that it has."""
    is_sum: bool = False
    """It is other entries together, and no condition that could be chosen over these."""


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
