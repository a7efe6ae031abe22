"""The reference drive a second time, for tests to hold the simulator against: slow, short, and written apart from it.

These are the rules of DiskSim 4.0 with its SSD extension as docs/simulator.md has them, in integers of picoseconds,
with one heap of events, dictionaries and lists. There are no timer tables, no fast path, and nothing is shared with
the simulator. Of events at the same time, the end of a page's work comes first, then the end of a transfer, then an
arrival, and of each kind the one that began first.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

SECTOR_BYTES, PAGE_SECTORS = 512, 8
PAGE_END, TRANSFER_END, ARRIVAL = range(3)
READ_PS, PROGRAM_PS, ERASE_PS = 25_000_000, 200_000_000, 1_500_000_000
CHANNEL_PS, PINS_PS = 238_400, (SECTOR_BYTES + 16) * 25_000
"""For each sector."""


@dataclass(frozen=True)
class Geometry:
    """Of one element; `low`: free blocks of a plane at which it is cleaned."""

    planes: int
    rows: int
    pages: int
    usable: int
    low: int

    @property
    def exported(self) -> int:
        return self.usable * self.planes * (self.pages - 1)


@dataclass(frozen=True)
class Request:
    at_ps: int
    sector: int
    sectors: int
    is_read: bool

    def pages(self) -> Iterator[tuple[int, int]]:
        """Each page that it touches, and how many of its sectors."""
        end = self.sector + self.sectors
        for page in range(self.sector // PAGE_SECTORS, -(-end // PAGE_SECTORS)):
            first = page * PAGE_SECTORS
            yield page, min(end, first + PAGE_SECTORS) - max(self.sector, first)


class Flash:
    """The log of one element: where its pages are, and what it costs to write one more."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.data = geometry.pages - 1
        self.born = {(plane, row): row * geometry.planes + plane for plane, row in self._blocks(0, geometry.usable)}
        self.content: dict[tuple[int, int], list[int]] = {}
        for block, number in self.born.items():
            self.content[block] = [number * self.data + page for page in range(self.data)]
        self.place = {page: (block, at) for block, held in self.content.items() for at, page in enumerate(held)}
        self.valid = dict.fromkeys(self.content, self.data)
        self.pinned = (geometry.planes - 1, geometry.usable - 1)
        self.free = {plane: set(range(geometry.usable + 1, geometry.rows)) for plane in range(geometry.planes)}
        self.open = {}
        self.opened = len(self.born)
        self.turn = self.cleaned = self.moved = self.cleaning_turn = 0
        for plane in range(geometry.planes):
            self._open(plane, geometry.usable)

    def _blocks(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        return ((plane, row) for row in range(first, end) for plane in range(self.geometry.planes))

    def _open(self, plane: int, row: int) -> None:
        self.open[plane] = (plane, row)
        self.opened += 1
        self.born[plane, row] = self.opened
        self.content[plane, row], self.valid[plane, row] = [], 0

    def _room(self, plane: int) -> int:
        return (len(self.free[plane]) + 1) * self.geometry.pages - len(self.content[self.open[plane]])

    def _append(self, plane: int, page: int) -> int:
        """The time beyond the page's own."""
        if len(self.content[self.open[plane]]) == self.data:
            rows, last = self.geometry.rows, self.open[plane][1]
            row = next(row % rows for row in range(last + 1, last + 1 + rows) if row % rows in self.free[plane])
            self.free[plane].remove(row)
            self._open(plane, row)
        block = self.open[plane]
        self.place[page] = block, len(self.content[block])
        self.content[block].append(page)
        self.valid[block] += 1
        return PROGRAM_PS + PINS_PS if len(self.content[block]) == self.data else 0

    def write(self, page: int) -> int:
        """The time that it takes."""
        old, planes = self.place[page][0], self.geometry.planes
        in_turn = [(self.turn + step) % planes for step in range(planes)]
        young = [plane for plane in in_turn if self.born[self.open[plane]] >= self.born[old]]
        plane = max(young, key=self._room)
        self.turn = (plane + 1) % planes
        self.valid[old] -= 1
        return PROGRAM_PS + PAGE_SECTORS * PINS_PS + self._append(plane, page)

    def clean(self) -> int:
        """The time that it takes, 0 where no plane is low on free blocks, or none that is would gain a page."""
        planes = self.geometry.planes
        in_turn = [(self.cleaning_turn + step) % planes for step in range(planes)]
        low = [plane for plane in in_turn if len(self.free[plane]) <= self.geometry.low]
        victims = {plane: victim for plane in low if (victim := self._victim(plane)) is not None}
        if not victims:
            return 0
        plane, victim = next(iter(victims.items()))
        self.cleaning_turn = (plane + 1) % planes
        spent_ps = ERASE_PS
        for at, page in enumerate(self.content[victim]):
            if self.place[page] == (victim, at):
                spent_ps += READ_PS + PROGRAM_PS + self._append(plane, page)
                self.moved += 1
        del self.content[victim], self.valid[victim]
        self.free[plane].add(victim[1])
        self.cleaned += 1
        return spent_ps

    def _victim(self, plane: int) -> tuple[int, int] | None:
        full = [block for block in self.content if block[0] == plane and len(self.content[block]) == self.data]
        room = len(self.free[plane]) * self.data + self.data - len(self.content[self.open[plane]])
        won = [block for block in full if block != self.pinned and self.valid[block] <= min(self.data - 1, room)]
        return min(won, key=lambda block: (self.valid[block], -block[1]), default=None)


@dataclass
class Element:
    flash: Flash
    queue: deque[tuple[int, int, int]] = field(default_factory=deque)
    """Request, page of the element, sectors (0: a write)."""
    is_busy: bool = False


class ReferenceDrive:
    """`run` gives the response time of each request, in the order of the requests."""

    def __init__(self, elements: int, geometry: Geometry, window: int | None, *, in_order: bool) -> None:
        self.elements = [Element(Flash(geometry)) for _ in range(elements)]
        self.window = window
        self.in_order = in_order
        """Requests leave the host's queue as they came; else by C-LOOK."""

    def run(self, requests: Sequence[Request]) -> list[int]:
        self.requests = requests
        self.responses_ps = [0] * len(requests)
        self.parts = [sum(1 for _ in request.pages()) for request in requests]
        self.events = [(request.at_ps, ARRIVAL, number, number, 0) for number, request in enumerate(requests)]
        self.begun = len(requests)
        self.waiting: list[int] = []
        self.head = self.in_drive = 0
        self.queue: deque[int] = deque()
        self.done: deque[int] = deque()
        self.channel_is_busy = False
        heapq.heapify(self.events)
        while self.events:
            self.now_ps, kind, _, number, served = heapq.heappop(self.events)
            (self._page_ends, self._transfer_ends, self._arrives)[kind](number, served)
            self._use_channel()
        return self.responses_ps

    def _arrives(self, number: int, _: int) -> None:
        self.waiting.append(number)
        self._admit()

    def _admit(self) -> None:
        """What the host's queue has goes to the drive, as far as there is room."""
        while self.waiting and (self.window is None or self.in_drive < self.window):
            number = self.waiting[0]
            if not self.in_order:
                sectors = [(self.requests[number].sector, place) for place, number in enumerate(self.waiting)]
                ahead = [each for each in sectors if each[0] >= self.head]
                number = self.waiting[min(ahead or sectors)[1]]
            self.waiting.remove(number)
            self.head = self.requests[number].sector
            self.in_drive += 1
            self.queue.append(number)

    def _use_channel(self) -> None:
        """A free channel takes completions first, then the head of the drive's one queue."""
        while not self.channel_is_busy and (self.done or self.queue):
            if self.done:
                number = self.done.popleft()
                if self.requests[number].is_read:
                    self._transfer(number)
                else:
                    self._complete(number)
                continue
            number = self.queue.popleft()
            if self.requests[number].is_read:
                self._split(number)
            else:
                self._transfer(number)

    def _transfer(self, number: int) -> None:
        self.channel_is_busy = True
        took_ps = self.requests[number].sectors * CHANNEL_PS
        self._ends_after(took_ps, TRANSFER_END, number)

    def _ends_after(self, took_ps: int, kind: int, number: int, request: int = 0) -> None:
        self.begun += 1
        heapq.heappush(self.events, (self.now_ps + took_ps, kind, self.begun, number, request))

    def _transfer_ends(self, number: int, _: int) -> None:
        self.channel_is_busy = False
        if self.requests[number].is_read:
            self._complete(number)
        else:
            self._split(number)

    def _split(self, number: int) -> None:
        request = self.requests[number]
        for page, sectors in request.pages():
            local, element = divmod(page, len(self.elements))
            self.elements[element].queue.append((number, local, sectors if request.is_read else 0))
            self._begin(element)

    def _begin(self, number: int) -> None:
        element = self.elements[number]
        if element.is_busy or not element.queue:
            return
        element.is_busy = True
        request, page, sectors = element.queue.popleft()
        took_ps = 0
        while spent_ps := element.flash.clean():
            took_ps += spent_ps
        took_ps += READ_PS + sectors * PINS_PS if sectors else element.flash.write(page)
        self._ends_after(took_ps, PAGE_END, number, request)

    def _page_ends(self, number: int, request: int) -> None:
        self.elements[number].is_busy = False
        self._begin(number)
        self.parts[request] -= 1
        if not self.parts[request]:
            self.done.append(request)

    def _complete(self, number: int) -> None:
        self.responses_ps[number] = self.now_ps - self.requests[number].at_ps
        self.in_drive -= 1
        self._admit()
