"""Which processes there are and what they have open, by /proc: looks, and ends nothing (`supervisor` does)."""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_PF_KTHREAD = 0x00200000
"""include/linux/sched.h"""
_COLUMNS = 52
_LONGEST = 4096
"""Bytes of a line: its numbers have 20 digits at most, and a kernel thread's name 64."""
_STATUS_FIELD = re.compile(r"^(State|SigPnd|ShdPnd|SigBlk):\s+(\w+)", re.MULTILINE)
_STOPS = sum(1 << number - 1 for number in (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU))


def members(group: int) -> tuple[int, ...]:
    """Ids of the living (not zombie) processes of a group."""
    return tuple(pid for pid in everyone() if group_of(pid) == group)


def everyone() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


@dataclass(frozen=True)
class Status:
    """The line of /proc/<pid>/stat (proc_pid_stat(5)), in part."""

    name: str
    """At most 15 characters. A process chooses it, so what is not printable is '?': it may reach a terminal."""
    state: str
    parent: int
    group: int
    session: int
    flags: int
    """PF_* of include/linux/sched.h."""
    user_ticks: int
    system_ticks: int
    start_ticks: int
    """When it began: its number may be given again, and kernel threads change their names."""
    virtual_bytes: int
    wait_status: int
    """As of wait(2), of a process that has ended; 0 where it may not be read."""

    @property
    def is_alive(self) -> bool:
        """Return True if it is more than an entry that waits to be reaped."""
        return self.state not in "ZXx"

    @property
    def is_kernel_thread(self) -> bool:
        return bool(self.flags & _PF_KTHREAD)


def status(pid: int | str, root: Path = Path("/")) -> Status | None:
    """What the kernel says of a process, also of one that is not reaped; None when it is gone."""
    try:
        file = os.open(f"{root}/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)  # half the time of a file object's
        try:
            text = os.read(file, _LONGEST).decode(errors="replace")
        finally:
            os.close(file)
        name, _, rest = text.partition("(")[2].rpartition(")")  # the name may hold any character
        state, *columns = rest.split()
        number = [0, *map(int, columns)] + [0] * _COLUMNS
    except (OSError, ValueError):
        return None
    return Status(
        name=name if name.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in name),
        state=state,
        parent=number[1],
        group=number[2],
        session=number[3],
        flags=number[6],
        user_ticks=number[11],
        system_ticks=number[12],
        start_ticks=number[19],
        virtual_bytes=number[20],
        wait_status=number[49],
    )


def statuses(root: Path = Path("/")) -> dict[int, Status]:
    pids = [int(path.name) for path in root.glob("proc/[0-9]*")]  # none of a machine without /proc
    return {pid: found for pid in pids if (found := status(pid, root)) is not None}


def descendants(processes: Mapping[int, Status], roots: Iterable[int]) -> set[int]:
    """Those of the processes that are among `roots`, and all that descend from them as far as their parents live."""
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    family, ahead = set(), list(roots)
    while ahead:
        pid = ahead.pop()
        if pid in processes and pid not in family:
            family.add(pid)
            ahead += children.get(pid, ())
    return family


def leader(task: int) -> int:
    """The process whose thread it is; itself where that cannot be read."""
    with suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{task}/status").read_text(errors="replace")
        return int(text.partition("Tgid:")[2].split()[0])
    return task


def threads(pid: int) -> list[int]:
    """Ids of the tasks of a process, its own included; none of one that has ended."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def group_of(pid: int) -> int | None:
    """Process group of a living process, None for a zombie or one that is gone."""
    found = status(pid)
    return found.group if found is not None and found.is_alive else None


def group_and_session(pid: int) -> tuple[int, int] | None:
    """Process group and session of a process, also of one that has ended and is not reaped; None when it is gone.

    While a process is not reaped, nobody else gets the number of its group.
    """
    found = status(pid)
    return (found.group, found.session) if found is not None else None


def has_yet_to_stop(pid: int) -> bool:
    """Whether the terminal has stopped a process of which a thread has not been scheduled since.

    Until then the thread is still in the call that it was in, and a read(2) takes what is typed next.
    """
    try:
        texts = [path.read_text(errors="replace") for path in Path(f"/proc/{pid}/task").glob("*/status")]
    except OSError:  # a thread has ended meanwhile
        return group_of(pid) is not None
    threads = [dict(_STATUS_FIELD.findall(text)) for text in texts]
    living = [fields for fields in threads if fields["State"] not in "ZX"]
    running = [fields for fields in living if fields["State"] not in "Tt"]
    if 0 < len(running) < len(living):
        return True  # the first thread to take the signal stops the others
    waiting = ((int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16), int(fields["SigBlk"], 16)) for fields in running)
    return any(pending & ~blocked & _STOPS for pending, blocked in waiting)


def offspring() -> list[int]:
    """Children of this process, the adopted and the ended ones among them; none without CONFIG_PROC_CHILDREN."""
    while True:
        lists = Path("/proc/self/task").glob("*/children")
        try:
            return sorted({int(text) for path in lists for text in path.read_text().split()})
        except OSError:
            continue  # a thread ended meanwhile, and its children are now those of another one


def foster_children() -> set[int]:
    """Children of the main thread, ended ones among them: the kernel gives it those whose parent has ended.

    A subreaper's first living thread gets them (`find_new_reaper` in kernel/exit.c). The main thread of Python lives as
    long as its process. None without CONFIG_PROC_CHILDREN.
    """
    try:
        return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))
    except OSError:
        return set()


def environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


Identity = tuple[str, int]
"""'major:minor' and inode."""


@dataclass
class OpenFiles:
    paths: dict[Identity, str] = field(default_factory=dict)
    descriptors: int = 0
    """Of files with a path."""
    uring_requests: int = 0
    """Submitted to io_uring and not completed."""
    unreadable: dict[int, str] = field(default_factory=dict)
    """Processes whose descriptors may not be looked at, and why."""


def read(pids: Iterable[int], root: Path = Path("/")) -> OpenFiles:
    """What the processes have open now; those that have ended have nothing."""
    found, rings = OpenFiles(), set[int]()
    for pid in pids:
        process = root / f"proc/{pid}"
        try:
            numbers = os.listdir(process / "fd")
            # Devices of the filesystems that the process can see, by the ids of their mounts (proc_pid_mountinfo(5)).
            lines = (process / "mountinfo").read_text(errors="replace").splitlines()
            mounts = (line.split(maxsplit=3) for line in lines)
            devices = {int(words[0]): words[2] for words in mounts if len(words) > 3}
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError as error:
            found.unreadable[pid] = error.strerror or str(error)
            continue
        for number in numbers:
            try:
                link = str((process / "fd" / number).readlink())
                # proc_pid_fdinfo(5)
                pairs = (line.partition(":") for line in (process / "fdinfo" / number).read_text().splitlines())
                told = {name: int(value) for name, _, value in pairs if value.strip().isdecimal()}
                status = (process / "fd" / number).stat() if link.startswith("/") else None
            except OSError:
                continue  # closed meanwhile
            if status is not None:
                is_block = stat.S_ISBLK(status.st_mode)
                device = status.st_rdev if is_block else status.st_dev
                number_of = f"{os.major(device)}:{os.minor(device)}"
                known = number_of if is_block else devices.get(told.get("mnt_id", -1), number_of)
                found.paths.setdefault((known, told.get("ino", status.st_ino)), link)  # its inode since Linux 5.14
                found.descriptors += 1
            elif link == "anon_inode:[io_uring]" and told.get("ino") not in rings:
                rings.add(told.get("ino", 0))
                found.uring_requests += max(told.get("CachedSqHead", 0) - told.get("CachedCqTail", 0), 0)
    return found
