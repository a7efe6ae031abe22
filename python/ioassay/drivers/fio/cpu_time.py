"""Processor time of a request, with that of threads which fio does not count.

fio asks the kernel for the time of each job's own thread (getrusage(2), RUSAGE_THREAD). What the kernel does for
io_uring in threads of its own is not in it: SQPOLL's, and workers for requests that would block. The time of the whole
process tree has both; of that is taken what fio itself needs to start. It is known to a tick of the kernel's clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ioassay.drivers.fio.fio_results import Job

if TYPE_CHECKING:
    from resource import struct_rusage

_START_S = 0.16
"""fio 3.33 with 1 to 4 jobs of one request: nearly all of it the calibration of its clock, which takes a fixed time."""
_LEAST_S = 0.05
"""Less than this is how far the start varies on busy processors."""


def cpu_metrics(jobs: Sequence[Job], found: Mapping[str, float], usage: struct_rusage | None) -> dict[str, float]:
    """`cpu.per_io` (ns) and `cpu.uncounted` (% of one processor); `found` are the metrics of all jobs together."""
    ios, elapsed_s = found.get("total.ios", 0.0), found.get("total.runtime", 0.0)
    if usage is None or not ios or not elapsed_s:
        return {}
    own_s = sum(job.cpu.get(state, 0.0) / 100 * job.runtime_s for job in jobs for state in ("usr", "sys"))
    beside_s = usage.ru_utime + usage.ru_stime - own_s - _START_S
    beside_s = beside_s if beside_s >= _LEAST_S else 0.0
    return {"cpu.per_io": (own_s + beside_s) / ios * 1e9, "cpu.uncounted": beside_s / elapsed_s * 100}
