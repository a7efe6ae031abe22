"""Synchronisations that the kernel timed: metrics and distributions of a trial, whatever its tool says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ioassay.metrics import latency_percentile, metric
from ioassay.records.kernel_times import kernel_times
from ioassay.records.observation import Calls, Histogram, Observation, Operation

PROGRAM = """
import os
synchronous = os.open('data', os.O_WRONLY | os.O_DSYNC)
plain = os.open('data', os.O_RDWR)
for i in range(7): os.write(synchronous, bytes(512))
for i in range(5): os.pwritev(plain, [bytes(512)], 0, os.RWF_DSYNC)
for i in range(4): os.pwrite(plain, bytes(512), 0)
for i in range(3): os.fdatasync(plain)
for i in range(2): os.fsync(plain)
"""


@pytest.mark.bpf
def test_a_synchronous_write_is_a_write_and_no_synchronisation(watch: Any, look: Any, data: Path) -> None:
    seen = watch("syscalls", sys.executable, "-SIc", PROGRAM)
    found = {one.name: one.calls.completed for one in kernel_times(seen)}
    assert found == {"sync": 5, "fsync": 2, "fdatasync": 3, "synchronous_write": 12}
    assert look.on_file(seen, "data", "write").calls == 16
    (writes,) = [one for one in kernel_times(seen) if one.name == "synchronous_write"]
    assert sum(writes.latency.counts) == 12 and writes.calls.bytes == 12 * 512


def seen_of(*operations: tuple[str, str, list[int]], **changes: Any) -> Observation:
    made = [
        Operation(entry, kind, Calls(len(ns), len(ns), sum_ns=sum(ns), min_ns=min(ns), max_ns=max(ns)),
                  Histogram(sorted(set(ns)), [ns.count(one) for one in sorted(set(ns))]))
        for entry, kind, ns in operations
    ]  # fmt: skip
    fields: dict[str, Any] = {"backend": "bpf", "asked": "syscalls", "layers": ["syscalls"], **changes}
    return Observation(**fields, operations=made)


def test_metrics_are_those_of_each_call_and_of_all_together() -> None:
    calls = ("fdatasync", "sync", [100] * 98 + [200, 900]), ("uring", "sync", [50] * 100), ("pwrite64", "write", [7])
    found = {name: value for one in kernel_times(seen_of(*calls)) for name, value in one.metrics.items()}
    own = "kernel.fdatasync."
    assert [found[own + name] for name in ("ios", "lat.p50", "lat.p99", "lat.max")] == [100, 100, 200, 900]
    assert found[own + "lat.mean"] == pytest.approx((98 * 100 + 200 + 900) / 100)
    assert [found[f"kernel.sync.{name}"] for name in ("ios", "lat.p50", "lat.p99", "lat.min")] == [200, 50, 100, 50]
    assert {name.split(".")[1] for name in found} == {"fdatasync", "sync"}
    assert all(metric(name).label != name for name in found)


def test_the_distribution_is_that_of_a_direction() -> None:
    (every, own) = kernel_times(seen_of(("fsync", "sync", [100, 300])))
    assert (every.buckets.direction, own.buckets.direction, own.buckets.kind) == ("kernel.sync", "kernel.fsync", "lat")
    percentile = latency_percentile("kernel.fsync.lat.p99.9")
    assert percentile is not None and (percentile.direction, percentile.percent) == (own.buckets.direction, 99.9)


@pytest.mark.parametrize("changes", [{"backend": "strace"}, {"layers": ["block", "uring"]}])
def test_only_bpf_at_the_level_of_calls_times_them(changes: dict[str, Any]) -> None:
    assert list(kernel_times(seen_of(("fsync", "sync", [100]), **changes))) == []
