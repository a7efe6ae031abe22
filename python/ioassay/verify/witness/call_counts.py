"""Counts of one class of calls while they are still being seen; `observation.Calls` once they are.

A call is issued first and completed later or never: between the two lies what is in flight. Nothing is judged here.
"""

from __future__ import annotations

from ioassay.records.observation import Calls


class Tally:
    """Grows call by call; times in nanoseconds of whatever clock the caller has."""

    __slots__ = (
        *("calls", "completed", "errors", "short", "requested_bytes", "bytes"),
        *("first_ns", "last_ns", "sum_ns", "min_ns", "max_ns"),
    )

    def __init__(self) -> None:
        self.calls = self.completed = self.errors = self.short = self.requested_bytes = self.bytes = 0
        self.first_ns = self.last_ns = self.sum_ns = self.min_ns = self.max_ns = 0

    def issue(self, entry_ns: int, requested_bytes: int) -> None:
        """A call was entered."""
        if not self.calls or entry_ns < self.first_ns:
            self.first_ns = entry_ns
        self.calls += 1
        self.requested_bytes += requested_bytes

    def complete(self, requested_bytes: int, result: int, entry_ns: int, exit_ns: int) -> None:
        """It returned: bytes moved, or a negative error number."""
        if result < 0:
            self.errors += 1
        else:
            self.bytes += result
            self.short += result < requested_bytes
        took_ns = max(exit_ns - entry_ns, 0)
        self.min_ns = min(self.min_ns, took_ns) if self.completed else took_ns
        self.max_ns = max(self.max_ns, took_ns)
        self.sum_ns += took_ns
        self.last_ns = max(self.last_ns, exit_ns)
        self.completed += 1

    def calls_seen(self) -> Calls:
        """As it is now."""
        return Calls(**{name: getattr(self, name) for name in self.__slots__})
