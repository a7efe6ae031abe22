"""Which processes there are, by /proc: looks, and ends nothing (`process` does)."""

from __future__ import annotations

import os
from pathlib import Path


def members(group: int) -> tuple[int, ...]:
    """Ids of the living (not zombie) processes of a group."""
    return tuple(pid for pid in everyone() if group_of(pid) == group)


def everyone() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def group_of(pid: int) -> int | None:
    """Process group of a living process, None for a zombie or one that is gone (proc(5), /proc/pid/stat)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    state, _, group = text.rpartition(")")[2].split()[:3]
    return None if state in "ZX" else int(group)


def children() -> list[int]:
    """Living children of this process, the adopted ones among them; none without CONFIG_PROC_CHILDREN."""
    while True:
        lists = Path("/proc/self/task").glob("*/children")
        try:
            found = {int(text) for path in lists for text in path.read_text().split()}
        except OSError:
            continue  # a thread ended meanwhile, and its children are now those of another one
        return sorted(pid for pid in found if group_of(pid) is not None)


def environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
