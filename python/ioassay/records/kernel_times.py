"""Synchronisations as the kernel timed them: metrics and distributions of any trial that the witness watched by BPF.

A call counts where it returned, an error too, on whatever file; requests of io_uring and libaio are in `kernel.sync`.
Deliberately not here: times that strace took, most of which are its own.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from ioassay.metrics import KERNEL_CALLS, PERCENTILES, percentile_name
from ioassay.records.observation import BPF, SYNC, SYNCHRONOUS, SYSCALLS, Calls, Histogram, Observation, merged
from ioassay.records.record import Buckets

_EXACT = 1e-6
"""Of a share in decimals, times a number."""
_ALL, _WRITES = "sync", "synchronous_write"


@dataclass(frozen=True)
class KernelTimes:
    """Calls of one name of KERNEL_CALLS that the process tree made, or block requests: all of them took `latency`."""

    name: str
    calls: Calls
    latency: Histogram

    @property
    def latency_ns(self) -> dict[str, float]:
        """Mean, ends and percentiles: mean and ends are exact, percentiles at most 3.2 % off.

        A percentile is the shortest time that this share of the calls does not exceed, as fio's are: of few calls an
        interpolated one (Hyndman and Fan's type 7) is far from it.
        """
        calls, up_to = self.calls, self.latency.up_to
        ranks = {percent: math.ceil(up_to[-1] * percent / 100 - _EXACT) for percent in PERCENTILES}
        times = {
            percentile_name(each): self.latency.values_ns[bisect_left(up_to, rank)] for each, rank in ranks.items()
        }
        within = {name: min(max(value, calls.min_ns), calls.max_ns) for name, value in times.items()}
        exact = {"mean": calls.sum_ns / calls.completed, "min": calls.min_ns, "max": calls.max_ns}
        return {name: float(value) for name, value in {**exact, **within}.items()}

    @property
    def metrics(self) -> dict[str, float]:
        """Their number, and their times in ns."""
        found = {f"lat.{name}": value for name, value in self.latency_ns.items()}
        return {
            f"kernel.{self.name}.{name}": value for name, value in {"ios": float(self.calls.completed), **found}.items()
        }

    @property
    def buckets(self) -> Buckets:
        """As that of a direction `kernel.fdatasync`."""
        return Buckets(f"kernel.{self.name}", "lat", self.latency.values_ns, self.latency.counts)


def kernel_times(seen: Observation) -> Iterator[KernelTimes]:
    """Of each name that occurred, in the order of KERNEL_CALLS; nothing where system calls were not watched by BPF."""
    if seen.backend != BPF or SYSCALLS not in seen.layers:
        return
    for name in KERNEL_CALLS:
        kind = SYNCHRONOUS if name == _WRITES else SYNC
        own = [
            each for each in seen.operations if each.kind == kind and (name in (_ALL, _WRITES) or each.entry == name)
        ]
        calls = reduce(Calls.plus, (each.calls for each in own), Calls())
        if calls.completed:
            yield KernelTimes(name, calls, merged(each.latency for each in own))
