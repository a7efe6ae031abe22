"""fio's results as numbers in base units, whatever the version and format they came in.

`parse_json` reads JSON and JSON+ of fio 2 and 3 (and the list of jobs that `--client` writes); `terse` reads the
semicolon formats into the same shape. `merge` makes metrics of them, `verdict` judges them. Text that fio mixes into
its own output, before or after the JSON, is kept as messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ioassay.errors import InputError
from ioassay.formats import fio_json
from ioassay.formats.number_parsing import real, whole_number

DIRECTIONS = ("read", "write", "trim", "mixed")
KINDS = ("slat", "clat", "lat")


@dataclass(frozen=True)
class Latency:
    """One kind of latency of one direction of one job, in ns."""

    count: int
    mean_ns: float
    stddev_ns: float
    min_ns: float
    max_ns: float
    bins: Mapping[int, int] = field(default_factory=dict)
    """JSON+ only: latency in ns -> requests."""
    percentiles_ns: Mapping[float, float] = field(default_factory=dict)
    """fio's own, by percentage."""


@dataclass(frozen=True)
class Direction:
    """What one job did in one direction."""

    ios: int
    bytes: int
    runtime_s: float
    latencies: Mapping[str, Latency] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """One entry of fio's results: one process, or a whole group with group_reporting."""

    name: str
    group: int
    error: int
    directions: Mapping[str, Direction]
    options: Mapping[str, str] = field(default_factory=dict)
    """As in the job file, [global] ones included."""
    runtime_s: float = 0.0
    cpu: Mapping[str, float] = field(default_factory=dict)
    """usr and sys in % of one processor; context_switches, major_faults, minor_faults."""
    steady: Mapping[str, Any] | None = None

    @property
    def ios(self) -> int:
        """Requests in all directions."""
        return sum(direction.ios for direction in self.directions.values())


@dataclass(frozen=True)
class Results:
    """One run of fio. `version` is its version line; `disks` the raw disk_util entries; `messages` other text."""

    version: str
    jobs: Sequence[Job]
    disks: Sequence[Mapping[str, Any]] = ()
    messages: str = ""
    started_unix_s: float = 0.0
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The JSON itself, for what `ioassay.formats.fio_claims` reads of it; empty for terse output."""


def parse_json(text: str, source: str = "fio's output") -> Results:
    """The results in a JSON or JSON+ text with anything around it; the last ones where there are several.

    InputError names `source` when there is none, or when it is cut off.
    """
    documents = fio_json.documents(text, source)
    if not documents:
        raise InputError(_no_json(text, source))
    last = documents[-1]
    try:
        return _results(last.table, (text[: last.start] + text[last.end :]).strip())
    except KeyError as error:
        raise InputError(f"{source}: a latency has no {error}; wanted JSON as fio writes it") from None
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _no_json(text: str, source: str) -> str:
    if not text.strip():
        return f"{source}: is empty: fio ended before it wrote its results"
    if fault := fio_json.fault(text):
        return f"{source}: {fault}"
    return f"{source}: has no JSON; it begins with '{text.strip().splitlines()[0][:100]}'"


def _results(table: Mapping[str, Any], messages: str) -> Results:
    shared = table.get("global options") or {}
    entries = table.get("jobs") or [job for job in table.get("client_stats", []) if job.get("jobname") != "All clients"]
    return Results(
        version=table.get("fio version", ""),
        jobs=[_job(entry, shared) for entry in entries],
        disks=table.get("disk_util", []),
        messages=messages,
        started_unix_s=table.get("timestamp", 0.0),
        document=table,
    )


def _job(entry: Mapping[str, Any], shared: Mapping[str, str]) -> Job:
    directions = {name: _direction(entry[name]) for name in DIRECTIONS if name in entry}
    runtime_ms = entry.get("job_runtime") or max((1e3 * found.runtime_s for found in directions.values()), default=0)
    return Job(
        name=entry.get("jobname", ""),
        group=entry.get("groupid", 0),
        error=entry.get("error", 0),
        directions=directions,
        options={**shared, **(entry.get("job options") or {})},
        runtime_s=runtime_ms / 1e3,
        cpu={
            "usr": entry.get("usr_cpu", 0.0),
            "sys": entry.get("sys_cpu", 0.0),
            "context_switches": float(entry.get("ctx", 0)),
            "major_faults": float(entry.get("majf", 0)),
            "minor_faults": float(entry.get("minf", 0)),
        },
        steady=entry.get("steadystate"),
    )


def _direction(entry: Mapping[str, Any]) -> Direction:
    """fio 3 counts bytes and has `io_kbytes` beside them; fio 2 counts KiB in `io_bytes`."""
    runtime_s = entry.get("runtime", 0.0) / 1e3
    unit = 1 if "io_kbytes" in entry or "bw_bytes" in entry else 1024
    ios = entry.get("total_ios")
    return Direction(
        ios=whole_number(round(entry.get("iops", 0.0) * runtime_s), "iops times runtime") if ios is None else ios,
        bytes=whole_number(entry.get("io_bytes", 0) * unit, "io_bytes"),
        runtime_s=runtime_s,
        latencies={kind: found for kind in KINDS if (found := _latency(entry, kind)) is not None},
    )


def _latency(entry: Mapping[str, Any], kind: str) -> Latency | None:
    """`clat_ns` of fio 3, or `clat` in microseconds of fio 2. None when nothing was measured."""
    found, unit_ns = (entry[f"{kind}_ns"], 1) if f"{kind}_ns" in entry else (entry.get(kind), 1000)
    if not found:
        return None
    bins = {
        whole_number(whole_number(value, f"{kind} bin") * unit_ns, f"{kind} bin"): count
        for value, count in found.get("bins", {}).items()
        if count
    }
    count = found.get("N", sum(bins.values()) or (entry.get("total_ios", 0) if found.get("max") else 0))
    if not count:
        return None
    shares = {real(share, f"{kind} percentile"): value for share, value in found.get("percentile", {}).items()}
    return Latency(
        count=count,
        mean_ns=found["mean"] * unit_ns,
        stddev_ns=found["stddev"] * unit_ns,
        min_ns=found["min"] * unit_ns,
        max_ns=found["max"] * unit_ns,
        bins=bins,
        percentiles_ns={share: value * unit_ns for share, value in shares.items() if share > 0},
    )
