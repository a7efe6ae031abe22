"""The backend that is always there: what the kernel counts anyway, read before and after. Unprivileged and free.

What a process tree did is read off its main process while that is a zombie: its own totals, those of its threads, and
those of every child that was waited for, however deep (proc(5), /proc/pid/io; kernel/exit.c adds them when a child is
reaped). What it left behind for others to reap is in no total, and said. Disks are counted whole, whoever used them.
Deliberately not here: single calls, times and files; nothing can be known of them this way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from io import FileIO
from pathlib import Path
from resource import struct_rusage
from typing import Any

from ioassay.host import block_devices

IO_FIELDS = ("rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes", "cancelled_write_bytes")
"""Of /proc/pid/io, as `Observation.counters` has them."""

_RUSAGE_FIELDS = {
    "ru_majflt": "major_faults",
    "ru_minflt": "minor_faults",
    "ru_utime": "user_s",
    "ru_stime": "system_s",
    "ru_inblock": "in_blocks",
    "ru_oublock": "out_blocks",
    "ru_nvcsw": "voluntary_switches",
    "ru_nivcsw": "involuntary_switches",
}


class Counters:
    """The counters of one command, and of `devices`: kernel names of what lies under the target, in any order.

    Everything that these are built on is counted as well, and of a partition its disk.
    """

    def __init__(self, devices: Sequence[str] = (), root: Path = block_devices.ROOT) -> None:
        self._root = root
        self._devices = block_devices.below(devices, root)
        self._io: tuple[Mapping[str, int], Mapping[str, int]] = {}, {}
        self._disks: tuple[Mapping[str, Mapping[str, int]], Mapping[str, Mapping[str, int]]] = {}, {}
        self._why = ""
        self._account: FileIO | None = None
        """The process's /proc/<pid>/io, open from its beginning: when it has ended, the file belongs to root."""

    def begin(self, pid: int) -> None:
        """Read everything while the command is held before its first instruction."""
        self._io = self._process(pid), {}
        self._disks = block_devices.disk_counters(self._devices, self._root), {}

    def end(self, pid: int) -> None:
        """Read everything again: the main process `pid` has ended and is not reaped yet."""
        self._io = self._io[0], self._process(pid)
        self.close()
        self._disks = self._disks[0], block_devices.disk_counters(self._devices, self._root)

    def close(self) -> None:
        if self._account is not None:
            self._account.close()
            self._account = None

    def result(self, rusage: struct_rusage | None, adopted: Collection[int] = ()) -> dict[str, Any]:
        """`counters` and `disks` of an Observation, and `why` something is missing of them.

        `rusage` is what wait4(2) said of the main process. `adopted` are the processes that outlived it: what they
        did is in nobody's total.
        """
        why = [self._why] if self._why else []
        if adopted:
            one = len(adopted) == 1
            who, they = ("1 process", "it") if one else (f"{len(adopted)} processes", "they")
            why.append(f"{who} outlived the command: what {they} did is not in its counters")
        process = growth(*self._io) if all(self._io) else {}
        disks = {}
        for name, was in self._disks[0].items():
            now = self._disks[1].get(name, {})
            # Only of the same device as before: the counters of another one start again.
            if was.keys() == now.keys() and all(now[field] >= was[field] for field in was):
                disks[name] = growth(was, now)
        return {"counters": {**process, **usage(rusage)}, "disks": disks, "why": "; ".join(why)}

    def _process(self, pid: int) -> Mapping[str, int]:
        path = self._root / "proc" / str(pid) / "io"
        try:
            self._account = self._account or path.open("rb", buffering=0)
            self._account.seek(0)
            return process_counters(self._account.read().decode())
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            self._why = f"/proc/{pid}/io cannot be read ({reason}): only rusage was counted; run as the command's user"
            return {}


def process_counters(text: str) -> dict[str, int]:
    """/proc/pid/io as numbers; ValueError when it is something else."""
    lines = (line.partition(":") for line in text.splitlines())
    found = {name: int(value) for name, _, value in lines if name in IO_FIELDS}
    if missing := [name for name in IO_FIELDS if name not in found]:
        raise ValueError(f"it has no {missing[0]}")
    return found


def usage(rusage: struct_rusage | None) -> dict[str, float]:
    """What wait4(2) says of a process and the children that it waited for; blocks are of 512 bytes (getrusage(2))."""
    return {name: getattr(rusage, field) for field, name in _RUSAGE_FIELDS.items()} if rusage is not None else {}


def growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """What was added between two readings of the same fields."""
    return {name: after[name] - before[name] for name in before}
