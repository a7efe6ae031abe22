"""Micro-benchmarks of a drive, and what they gave: the border between what measures and what infers.

A `Load` is a closed loop of equal requests; a `Reading` is what it gave, whether fio measured it on a device, an
imported result has it, or a simulated drive answered it. Loads run in their order, because writes change the drive that
the next ones see. Nothing here measures or simulates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

Operation = Literal["read", "write", "mixed", "durable"]
"""`durable`: writes each of which is complete when its data are in flash (O_DSYNC)."""
Pattern = Literal["random", "sequential"]


@dataclass(frozen=True)
class Load:
    """A closed loop: `depth` equal requests are outstanding."""

    name: str
    """Unique within a battery, such as `align-48KiB`."""
    stage: str
    operation: Operation
    size_bytes: int
    depth: int = 1
    pattern: Pattern = "random"
    align_bytes: int = 0
    """Random requests begin at multiples of it; 0: of their size."""
    read_share: float = 1.0
    """Of the requests of a `mixed` load."""
    zipf: float = 0.0
    """Exponent of Zipf's law over the blocks; 0: uniform."""
    begin_bytes: int = 0
    span_bytes: int = 0
    """The range of addresses; 0: to the end of the target."""
    requests: int = 0
    """How many there are; 0: as many as fit into `seconds`."""
    seconds: float = 0.0
    """After which a measurement ends; 0: when all requests are done."""
    rest_s: float = 0.0
    """Idle time before it, in which a drive may flush, fold and collect."""
    in_order: bool = False
    """Whether the latencies are wanted in order: where a buffer fills, or garbage collection begins."""


@dataclass(frozen=True)
class Reading:
    """What a load gave. Times in microseconds, from the issue of a request to its completion."""

    load: Load
    requests: int
    seconds: float
    statistics: Mapping[str, float]
    """`mean_us`, `p50_us`, `p99_us`, `iops`; those that are known. Of a mixed load those of its reads, and the same
    with the prefix `write_`."""
    noise: Mapping[str, float] = field(default_factory=dict)
    """Relative standard error of a statistic."""
    latencies_us: np.ndarray | None = None
    """Shape (requests,), float64, in order of issue; None unless `load.in_order`."""
    bins_us: np.ndarray | None = None
    """Shape (bins,): latencies, ascending; None where only statistics are known."""
    counts: np.ndarray | None = None
    """Shape (bins,): how many requests had each."""
    is_host_bound: bool = False
    """Whether the host, not the drive, may have limited it."""


class Target(Protocol):
    """What loads can be run on, one after the other: a device under fio, or a simulated drive."""

    @property
    def capacity_bytes(self) -> int: ...

    def run(self, loads: Sequence[Load]) -> list[Reading]: ...


Identified = Literal["yes", "combination", "no", "assumed"]


@dataclass(frozen=True)
class Parameter:
    """An option of the simulated drive, or a combination of some, as the readings tell it."""

    name: str
    """Of an option (`read_us`), or of a combination (`spare share`)."""
    value: float | str | bool | list[float]
    unit: str
    identified: Identified
    low: float | None = None
    high: float | None = None
    """Bounds of a 90 % interval, in the unit of `value`."""
    options: tuple[str, ...] = ()
    """Of a combination: the options that it ties together."""
    evidence: tuple[str, ...] = ()
    """Names of the loads that tell it."""
    needs: str = ""
    """Of one that is not told: the measurement that would tell it."""


@dataclass(frozen=True)
class Residual:
    load: Load
    statistic: str
    measured: float
    modelled: float
    is_fitted: bool
    """Whether the fit saw it; the others are held out."""


@dataclass(frozen=True)
class Fit:
    """A description of the drive, and how far it holds."""

    options: Mapping[str, object]
    """All options of the simulated drive, as `ioassay.simulate` takes them."""
    parameters: tuple[Parameter, ...]
    residuals: tuple[Residual, ...]
    misfit: str = ""
    """Why the drive is of another kind than the model; empty where it is not."""


def plain(loads: Iterable[Load]) -> set[Load]:
    """Those that are uniform or sequential over the whole range, whose requests follow each other: a drive's sheet."""
    loads = list(loads)
    widest = max((load.span_bytes for load in loads), default=0)
    one_kind = (load for load in loads if load.operation in ("read", "write") and not (load.zipf or load.rest_s))
    anywhere = (load for load in one_kind if load.align_bytes in (0, load.size_bytes) and not load.begin_bytes)
    return {load for load in anywhere if not load.span_bytes or load.span_bytes >= _WHOLE * widest}


_WHOLE = 0.9
"""Share of the widest range from which on a load counts as one over all of it: fio's ranges are whole requests."""


def by_name(readings: Iterable[Reading]) -> dict[str, Reading]:
    return {reading.load.name: reading for reading in readings}
