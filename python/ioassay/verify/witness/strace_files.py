"""Files and open files as strace's lines name them: which file a path is, and what was done through each open of it.

A file is its device and inode where its path still leads to it when the lines are read; one that has gone by then is
its path. So a path under which one file was replaced by another counts as one file, but its sessions stay apart.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable

from ioassay.records.observation import READ, SYNC, WRITE, File, Session
from ioassay.verify.witness.call_counts import Tally
from ioassay.verify.witness.strace_line import Target

MOST = 1 << 16
"""Files, and sessions, that are kept apart; further ones are counted as untracked."""

_FLAGS = {
    "O_RDONLY": ("read",),
    "O_WRONLY": ("write",),
    "O_RDWR": ("read", "write"),
    "O_DIRECT": ("direct",),
    "O_SYNC": ("sync",),
    "O_DSYNC": ("dsync",),
    "O_APPEND": ("append",),
    "O_CREAT": ("create",),
    "O_TRUNC": ("truncate",),
}
_SETTABLE = ("direct", "append")
"""What fcntl(F_SETFL) can change of these (fcntl(2))."""


def flags_of(text: str) -> list[str]:
    """`O_RDWR|O_CREAT` in the words of `Session.flags`."""
    return [word for name in text.split("|") for word in _FLAGS.get(name, ())]


class Files:
    """Every file that was named, each once."""

    def __init__(self, look: Callable[[str], os.stat_result] = os.stat) -> None:
        self.untracked = 0
        self._look = look
        self._ids: dict[tuple[str, str], int] = {}
        self._same: dict[tuple[str, int], int] = {}
        self._files: list[File] = []

    def id_of(self, target: Target) -> int | None:
        """The id of what a descriptor is open to; None when there are too many."""
        key = target.kind, target.path
        if key not in self._ids:
            if len(self._ids) >= MOST:
                self.untracked += 1
                return None
            self._ids[key] = self._enter(target)
        return self._ids[key]

    def seen(self) -> list[File]:
        """All of them, by id."""
        return self._files

    def _enter(self, target: Target) -> int:
        dev, inode, kind = target.dev, 0, target.kind
        if kind == "regular" and target.path.startswith("/"):
            dev, inode, kind = self._identity(target.path)
        known = self._same.get((dev, inode)) if inode else None
        if known is not None:
            return known
        number = len(self._files)
        self._files.append(File(id=number, dev=dev, inode=inode, path=target.path, kind=kind))
        self._same[dev, inode] = number
        return number

    def _identity(self, path: str) -> tuple[str, int, str]:
        try:
            found = self._look(path)
        except (OSError, ValueError):
            return "", 0, "regular"
        kind = "directory" if stat.S_ISDIR(found.st_mode) else "regular"
        return f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}", found.st_ino, kind


class Opened:
    """One open file, which descriptors of several processes may share."""

    __slots__ = ("closed_ns", "ended_ns", "file", "first", "flags", "holders", "opened_ns", "second_ns", "tallies")

    def __init__(self, file: int, opened_ns: int, flags: Iterable[str]) -> None:
        self.file = file
        self.opened_ns = opened_ns
        self.closed_ns = self.second_ns = self.ended_ns = 0
        self.flags = list(flags)
        self.tallies = {kind: Tally() for kind in (READ, WRITE, SYNC)}
        self.first = Tally()
        self.holders = 0
        """Descriptors that lead here."""

    def tallies_of(self, kind: str, entry_ns: int) -> tuple[Tally, ...]:
        """Where a call of this kind is to be counted."""
        if kind == SYNC:
            return (self.tallies[kind],)
        if not self.first.calls:
            return self.tallies[kind], self.first
        self.second_ns = self.second_ns or entry_ns
        return (self.tallies[kind],)

    def change(self, flags: Iterable[str]) -> None:
        """fcntl(F_SETFL): a session is direct when it was so at any time."""
        self.flags += [flag for flag in flags if flag in _SETTABLE and flag not in self.flags]

    def session(self) -> Session:
        return Session(
            file=self.file,
            opened_ns=self.opened_ns,
            closed_ns=self.closed_ns,
            flags=self.flags,
            **{kind: tally.calls_seen() for kind, tally in self.tallies.items()},
            first=self.first.calls_seen(),
            second_ns=self.second_ns,
            ended_ns=self.ended_ns,
        )
