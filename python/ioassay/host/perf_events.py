"""Events that the kernel and the processor count for a process and all that it starts, by perf_event_open(2).

No program `perf` is needed. An event that this machine lacks is an absence with its reason, never a count of 0. Only
counts are read: nothing is sampled, no buffer is mapped, and the processes are not interrupted.
Deliberately not here: when events are read (`ioassay.monitors.process_monitors`), and what counts mean.
Sources: perf_event_open(2), include/uapi/linux/perf_event.h, Documentation/admin-guide/perf-security.rst.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from dataclasses import dataclass

HARDWARE, _SOFTWARE = 0, 1
_CALL_NUMBERS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
"""perf_event_open in each architecture's table of system calls."""
_ATTRIBUTES_BYTES = 64  # PERF_ATTR_SIZE_VER0
_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING
_DISABLED, _INHERIT, _ENABLE_ON_EXEC = 1 << 0, 1 << 1, 1 << 12
_CLOSE_ON_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
_READING_BYTES = 24
_REASONS = {
    errno.ENOENT: "the processor offers no such counter, as in most virtual machines",
    errno.EOPNOTSUPP: "the processor offers no such counter, as in most virtual machines",
    errno.ENODEV: "the processor offers no such counter, as in most virtual machines",
    errno.EACCES: "needs root, CAP_PERFMON or kernel.perf_event_paranoid of 1 or less",
    errno.EPERM: "needs root, CAP_PERFMON or kernel.perf_event_paranoid of 1 or less",
    errno.ENOSYS: "this kernel has no perf_event_open",
}


@dataclass(frozen=True)
class Event:
    """One thing to count. Hardware counters are few: the kernel takes turns where more are wanted than there are."""

    name: str
    kind: int
    config: int


EVENTS = (
    Event("cycles", HARDWARE, 0),
    Event("instructions", HARDWARE, 1),
    Event("cache_misses", HARDWARE, 3),
    Event("task_clock", _SOFTWARE, 1),
    Event("context_switches", _SOFTWARE, 3),
    Event("migrations", _SOFTWARE, 4),
    Event("minor_faults", _SOFTWARE, 5),
    Event("major_faults", _SOFTWARE, 6),
)


def open_counter(event: Event, pid: int, *, on_exec: bool = False) -> int | str:
    """A descriptor of a counter on a process that has started nothing yet, or why there can be none.

    With `on_exec` the count begins when it becomes its program.
    """
    number = _CALL_NUMBERS.get(platform.machine())
    if number is None:
        return f"the number of perf_event_open on {platform.machine()} is not known"
    flags = _INHERIT | (_DISABLED | _ENABLE_ON_EXEC if on_exec else 0)
    fields = struct.pack("=IIQQQQQ", event.kind, _ATTRIBUTES_BYTES, event.config, 0, 0, _TIMES, flags)
    attributes = ctypes.create_string_buffer(fields, _ATTRIBUTES_BYTES)
    call = ctypes.CDLL(None, use_errno=True).syscall
    descriptor: int = call(
        ctypes.c_long(number), attributes, ctypes.c_int(pid), ctypes.c_int(-1), ctypes.c_int(-1),
        ctypes.c_ulong(_CLOSE_ON_EXEC),
    )  # fmt: skip
    return descriptor if descriptor >= 0 else _REASONS.get(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def read(counter: int) -> tuple[int, int, int]:
    """What was counted so far, the time the event was wanted, and the time it had a counter, in nanoseconds.

    Of the process and of all that it started, those included that have ended.
    """
    value, enabled_ns, running_ns = struct.unpack("=QQQ", os.read(counter, _READING_BYTES))
    return value, enabled_ns, running_ns


def availability() -> dict[str, str]:
    """Event -> `available`, or `not available: ` with the reason; asked of this process."""
    found = {}
    for event in EVENTS:
        counter = open_counter(event, 0)
        if isinstance(counter, int):
            os.close(counter)
        found[event.name] = "available" if isinstance(counter, int) else f"not available: {counter}"
    return found
