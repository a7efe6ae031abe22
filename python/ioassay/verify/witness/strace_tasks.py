"""Tasks and their descriptors: shared by threads, copied by fork, thinned out by exec (clone(2), execve(2)).

What is done through a descriptor is not known here, only which open file it leads to at the time.
"""

from __future__ import annotations

from collections.abc import Iterator

from ioassay.verify.witness.strace_files import Opened


class Descriptors:
    """Numbers to open files, of all tasks that share them."""

    def __init__(self) -> None:
        self.users = 1
        self._open: dict[int, Opened | None] = {}
        self._close_on_exec: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return number in self._open

    def get(self, number: int) -> Opened | None:
        return self._open.get(number)

    def put(self, number: int, opened: Opened | None, close_on_exec: bool, at_ns: int) -> None:
        """`number` leads to `opened` now (None: one that is not tracked), and to nothing else any more."""
        if opened is not None:
            opened.holders += 1
        self.close(number, at_ns)
        self._open[number] = opened
        self.mark(number, close_on_exec)

    def mark(self, number: int, close_on_exec: bool) -> None:
        """fcntl(F_SETFD)."""
        (self._close_on_exec.add if close_on_exec else self._close_on_exec.discard)(number)

    def close(self, number: int, at_ns: int) -> None:
        """Take a number away; `at_ns` is 0 when its process ended."""
        opened = self._open.pop(number, None)
        if opened is not None:
            opened.holders -= 1
            if not opened.holders:
                opened.closed_ns = at_ns

    def between(self, first: int, last: int) -> Iterator[int]:
        """The open numbers from `first` to `last`."""
        return iter([number for number in self._open if first <= number <= last])

    def copy(self) -> Descriptors:
        """What a forked child has."""
        child = Descriptors()
        for number, opened in self._open.items():
            child.put(number, opened, number in self._close_on_exec, 0)
        return child

    def leave(self, at_ns: int = 0) -> None:
        """One task less uses them; after the last all are closed."""
        self.users -= 1
        for number in list(self._open) if not self.users else ():
            self.close(number, at_ns)

    def thinned(self, at_ns: int) -> Descriptors:
        """What the task has that executes another program: its own, without those marked for it."""
        own = self.copy()
        self.leave(at_ns)
        for number in list(own._close_on_exec):
            own.close(number, at_ns)
        own._close_on_exec.clear()
        return own


class Task:
    """A thread or a process. Tasks of one `space` share their memory, and so the meaning of an address."""

    def __init__(self, descriptors: Descriptors, space: object) -> None:
        self.descriptors = descriptors
        self.space = space

    def child(self, shares_files: bool, shares_memory: bool) -> Task:
        """What clone makes of it."""
        descriptors = self.descriptors if shares_files else self.descriptors.copy()
        descriptors.users += shares_files
        return Task(descriptors, self.space if shares_memory else object())

    def execute(self, at_ns: int) -> None:
        """Another program begins in it."""
        self.descriptors = self.descriptors.thinned(at_ns)
        self.space = object()
