"""Asynchronous I/O in strace's lines: which submission an event of io_getevents(2) completes.

strace shows the control blocks of io_submit(2) without their addresses, so an event is matched by its `data` and its
size, the oldest first. Where a short or failed event could belong to several files or kinds, that is counted: the
sums stay exact, their shares may be off by it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from ioassay.records.observation import OTHER, READ, SYNC, WRITE
from ioassay.verify.witness.call_counts import Tally
from ioassay.verify.witness.strace_files import Opened
from ioassay.verify.witness.strace_line import Target, target

_KINDS = {
    "IOCB_CMD_PREAD": READ,
    "IOCB_CMD_PREADV": READ,
    "IOCB_CMD_PWRITE": WRITE,
    "IOCB_CMD_PWRITEV": WRITE,
    "IOCB_CMD_FSYNC": SYNC,
    "IOCB_CMD_FDSYNC": SYNC,
}
_BLOCK_BEGINS = "{aio_data="
_OPERATION = re.compile(r"aio_lio_opcode=(\w+)")
_FILE = re.compile(r"aio_fildes=")
_SIZE = re.compile(r"aio_nbytes=(\d+)")
_VECTOR = re.compile(r"iov_len=(\d+)")
_EVENT = re.compile(r"\{data=(\w+), obj=\w+, res=(-?\d+)")


@dataclass(frozen=True, slots=True)
class Block:
    """One control block as it was submitted."""

    data: str
    kind: str
    file: Target | None
    requested_bytes: int


@dataclass(frozen=True, slots=True)
class Issued:
    """A call that was entered, and where its end is to be counted."""

    kind: str
    opened: Opened | None
    tallies: tuple[Tally, ...]
    requested_bytes: int
    entry_ns: int

    def complete(self, result: int, exit_ns: int) -> None:
        for tally in self.tallies:
            tally.complete(self.requested_bytes, result, self.entry_ns, exit_ns)
        if self.opened is not None:
            self.opened.ended_ns = max(self.opened.ended_ns, exit_ns)


def blocks(arguments: str) -> Iterator[Block]:
    """The control blocks of an io_submit, in their order."""
    for text in arguments.split(_BLOCK_BEGINS)[1:]:
        operation, file = _OPERATION.search(text), _FILE.search(text)
        name = operation[1] if operation else ""
        sizes = (_VECTOR if name.endswith("V") else _SIZE).findall(text)
        yield Block(
            data=text.partition(",")[0],
            kind=_KINDS.get(name, OTHER),
            file=target(text[file.end() :]) if file else None,
            requested_bytes=sum(map(int, sizes)) if _KINDS.get(name) != SYNC else 0,
        )


def events(arguments: str) -> Iterator[tuple[str, int]]:
    """`data` and result of what an io_getevents returned."""
    for found in _EVENT.finditer(arguments):
        result = int(found[2])
        yield found[1], result - (1 << 64) if result >= 1 << 63 else result


class Contexts:
    """What is in flight in every context (io_setup(2)), by the memory and the address that name it."""

    def __init__(self) -> None:
        self.unmatched = 0
        self._waiting: dict[tuple[object, str, str], deque[Issued]] = {}

    @property
    def in_flight(self) -> int:
        return sum(map(len, self._waiting.values()))

    def submit(self, context: tuple[object, str], data: str, issued: Issued) -> None:
        self._waiting.setdefault((*context, data), deque()).append(issued)

    def complete(self, context: tuple[object, str], data: str, result: int, at_ns: int) -> None:
        """One event arrived."""
        waiting = self._waiting.get((*context, data))
        if not waiting:
            self.unmatched += 1
            return
        place = _place(waiting, result)
        found = waiting[place]
        if result != found.requested_bytes and any(_differs(found, other) for other in waiting):
            self.unmatched += 1
        del waiting[place]
        if not waiting:
            del self._waiting[*context, data]
        found.complete(result, at_ns)


def _place(waiting: deque[Issued], result: int) -> int:
    """The oldest that asked for exactly this, else the oldest that asked for more, else the oldest."""
    for fits in (result.__eq__, result.__lt__):
        for place, issued in enumerate(waiting):
            if result >= 0 and fits(issued.requested_bytes):
                return place
    return 0


def _differs(one: Issued, other: Issued) -> bool:
    return one.opened is not other.opened or one.kind != other.kind
