"""Which processes there are, by /proc: looks, and ends nothing (`process` does)."""

from __future__ import annotations

import os
from pathlib import Path


def members(group: int) -> tuple[int, ...]:
    """Ids of the living (not zombie) processes of a group."""
    return tuple(pid for pid in everyone() if group_of(pid) == group)


def everyone() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def group_of(pid: int) -> int | None:
    """Process group of a living process, None for a zombie or one that is gone (proc(5), /proc/pid/stat)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    state, _, group = text.rpartition(")")[2].split()[:3]
    return None if state in "ZX" else int(group)


def group_and_session(pid: int) -> tuple[int, int] | None:
    """Process group and session of a process, also of one that has ended and is not reaped; None when it is gone.

    While a process is not reaped, nobody else gets the number of its group.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    _, _, group, session = text.rpartition(")")[2].split()[:4]
    return int(group), int(session)


def is_ending(pid: int) -> bool:
    """Whether a process that is still there has given back its memory: it does nothing any more, and tells nothing."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return int(text.rpartition(")")[2].split()[20]) == 0  # vsize, proc_pid_stat(5)


def offspring() -> list[int]:
    """Children of this process, the adopted and the ended ones among them; none without CONFIG_PROC_CHILDREN."""
    while True:
        lists = Path("/proc/self/task").glob("*/children")
        try:
            return sorted({int(text) for path in lists for text in path.read_text().split()})
        except OSError:
            continue  # a thread ended meanwhile, and its children are now those of another one


def children() -> list[int]:
    """The living ones of `offspring`."""
    return [pid for pid in offspring() if group_of(pid) is not None]


def environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
