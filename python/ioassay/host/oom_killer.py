"""What the kernel's out-of-memory killer ended while a trial ran, outside of the trial's own control group.

The kernel counts its victims for the whole host (/proc/vmstat) and names each in its log, which only root may read
where kernel.dmesg_restrict is 1. A victim is taken for the trial's where it bears the name of the trial's program, or
where that program itself was ended by SIGKILL. Any other makes the trial suspicious: the host was out of memory. Who
exceeded the limit of a control group that the trial is not in is nobody of the trial's, whatever its name.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ioassay.host import cgroup
from ioassay.host.block_devices import text_of
from ioassay.process import process_table

_KILLED = re.compile(r"Killed process \d+ \((?P<name>.*?)\)(?:,| total-vm)")
"""mm/oom_kill.c, __oom_kill_process."""
_LIMIT = re.compile(r"oom-kill:constraint=CONSTRAINT_MEMCG,.*?,oom_memcg=(?P<group>/.*?),task_memcg=")
"""mm/oom_kill.c, dump_oom_victim: the control group whose limit was exceeded, before its victim is named."""
_FIRST_NAMESPACE = "cgroup:[4026531835]"
"""PROC_CGROUP_INIT_INO of include/linux/proc_ns.h: where paths of groups are those of the kernel's log."""
_RECORD_BYTES = 8192
"""No record of the log is longer (Documentation/ABI/testing/dev-kmsg)."""
_NAME_BYTES = 15
"""Of a program's name, which its children lengthen or keep (TASK_COMM_LEN of linux/sched.h, less its end)."""


class Watch:
    """Opened before a trial's program runs, asked when it has ended and is not reaped yet.

    `program` is its name where another one starts it (strace).
    """

    def __init__(self, program: str = "", root: Path = Path("/")) -> None:
        self._program, self._root = program, root
        self._before = self._killed()
        self._log = _opened(root / "dev/kmsg")
        self.of_trial = ""
        """That processes of the trial were ended, for a record's reason."""
        self.of_others = ""
        """That others were, or somebody of whom nobody can say."""

    def ended(self, pid: int) -> None:
        count = self._killed() - self._before
        own, names = _memory_group(self._root), []
        for name, group in self._victims():
            # Those whose group's limit, if one was exceeded, is one for our processes as well.
            if group is None or own is None or f"{own}/".startswith(f"{group.rstrip('/')}/"):
                names.append(name)
            else:
                count -= 1
        if count <= 0:
            return
        leader = text_of(self._root / f"proc/{pid}/comm")
        programs = tuple(name[:_NAME_BYTES] for name in (self._program, leader) if name)
        ours = [name for name in names if programs and name.startswith(programs)]
        status = process_table.status(pid, self._root)  # not reaped yet
        end = status.wait_status if status is not None else 0
        if ours or (os.WIFSIGNALED(end) and os.WTERMSIG(end) == signal.SIGKILL):
            self.of_trial = f"the host ran out of memory, and the kernel ended {_listed(ours or [leader])}"
        else:
            said = f" ({_listed(names)})" if names else ""
            were = "a process" if count == 1 else f"{count} processes"
            self.of_others = f"the host ran out of memory during the trial, and the kernel ended {were}{said}"

    def close(self) -> None:
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def _killed(self) -> int:
        """Victims since the host started; 0 where the kernel does not count them (before 4.13)."""
        lines = text_of(self._root / "proc/vmstat").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)

    def _victims(self) -> Iterator[tuple[str, str | None]]:
        """Victims since the log was opened: the name, and the control group whose limit was exceeded, if one was."""
        group = None
        while self._log is not None:
            try:
                record = os.read(self._log, _RECORD_BYTES)
            except BrokenPipeError:
                continue  # records were overwritten before they were read: the next is the oldest that is there
            except OSError:
                return
            if not record:
                return
            text = record.decode(errors="replace")
            if limit := _LIMIT.search(text):
                group = limit["group"]
            if victim := _KILLED.search(text):
                yield victim["name"], group
                group = None


def _opened(path: Path) -> int | None:
    """The kernel's log from its end on; None where this user may not read it."""
    try:
        log = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with suppress(OSError):
        os.lseek(log, 0, os.SEEK_END)
    return log


def _memory_group(root: Path) -> str | None:
    """Path of the control group of this process, which the trial's group is or lies in; None where it is not known."""
    try:
        if str((root / "proc/self/ns/cgroup").readlink()) != _FIRST_NAMESPACE:
            return None
    except OSError:
        return None
    paths = cgroup.paths_of(root)
    return paths.get("memory", paths.get(""))


def _listed(names: list[str]) -> str:
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    return ", ".join(name if count == 1 else f"{name} {count} times" for name, count in counts.items())
