"""A drive with a controller a second time, for tests to hold the simulator against: slow and written apart from it.

These are the rules of docs/simulator.md, "Drives of today", in integers of picoseconds. Pages are objects in lists of
superblocks, events are functions in one heap, and nothing is shared with the simulator.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .reference_drive import PAGE_SECTORS, Request


@dataclass(frozen=True)
class Controller:
    """All numbers of a drive; times in picoseconds, sizes in pages, rates as time for a sector."""

    elements: int
    planes: int
    blocks: int
    block_pages: int
    usable: int
    low: int
    unit: int
    flash_page: int
    span: int
    cache: int
    read_ps: tuple[int, ...]
    small_read_ps: tuple[int, ...]
    program_ps: int
    erase_ps: int
    command_ps: tuple[int, int]
    """Fixed: of a write, of a read."""
    command_ps_per_4k: tuple[int, int]
    interval_ps: int
    channels: int
    channel_ps: int
    link_ps: int
    duplex: bool
    copy_back: bool
    read_priority: bool
    greedy: bool
    program_suspensions: int
    erase_suspensions: int
    suspend_ps: int
    background: int
    hot_cold: bool


@dataclass(eq=False)
class Superblock:
    number: int
    content: list[int | None]
    opened: int
    state: str = "free"
    valid: int = 0
    rows: list[int] = field(default_factory=list)
    erasing: int = 0


@dataclass(eq=False)
class Group:
    number: int
    superblocks: list[Superblock]
    free: deque[Superblock]
    opened: int
    open: dict[str, Superblock] = field(default_factory=dict)
    turn: int = 0
    active: bool = False
    victim: Superblock | None = None
    offset: int = 0
    rest: list[tuple[Superblock, int]] = field(default_factory=list)
    emptied: list[Superblock] = field(default_factory=list)
    jobs: int = 0
    erasing: int = 0


@dataclass(eq=False)
class Operation:
    kind: str
    array_ps: int
    sectors: int
    done: Callable[[], None]
    suspensions: int = 0
    in_array: bool = False


@dataclass(eq=False)
class Element:
    busy: bool = False
    array: tuple[Operation, int, int] | None = None
    """An operation whose array is busy, since when the element has been busy with it, and until when."""
    epoch: int = 0
    suspended: Operation | None = None
    reads: deque[Operation] = field(default_factory=deque)
    others: deque[Operation] = field(default_factory=deque)
    has_unit: bool = False
    busy_ps: int = 0


@dataclass(eq=False)
class Version:
    """A page on its way to flash."""

    page: int
    request: InFlight | None
    stage: str = "staged"
    older: Version | None = None
    newer: Version | None = None


@dataclass(eq=False)
class InFlight:
    request: Request
    parts: int = 0


class ControllerDrive:
    def __init__(self, spec: Controller, window: int | None = None) -> None:
        self.spec, self.window = spec, window or 10**9
        self.now = 0
        self.heap: list[tuple[int, int, Callable[[], None]]] = []
        self.at_once: deque[Callable[[], None]] = deque()
        self.sequence = 0
        self.waiting_requests: deque[InFlight] = deque()
        self.in_drive = self.next_command = 0
        self.link_free = [0, 0]
        self.channel_free = [0] * spec.channels
        self.elements = [Element() for _ in range(spec.elements)]
        self.turn = 0
        self.newest: dict[int, Version] = {}
        self.staged: deque[Version] = deque()
        self.waiting_pages: deque[tuple[InFlight, int]] = deque()
        self.used = 0
        self.responses: list[int] = []
        self.moved = self.erased = self.hits = 0
        self.size = spec.span * spec.planes * spec.block_pages
        self.rows = spec.planes * spec.block_pages // spec.unit
        self.where: dict[int, tuple[Superblock, int]] = {}
        self.groups = [self._group(number) for number in range(spec.elements // spec.span)]

    def _group(self, number: int) -> Group:
        spec = self.spec
        superblocks = [Superblock(each, [None] * self.size, each + 1) for each in range(spec.blocks)]
        for superblock in superblocks[: spec.usable]:
            superblock.state, superblock.valid = "sealed", self.size
            for index in range(self.size):
                unit, within = divmod(index, spec.unit)
                row, element = divmod(unit, spec.span)
                across = (superblock.number * self.rows + row) * spec.elements + number * spec.span + element
                superblock.content[index] = page = across * spec.unit + within
                self.where[page] = superblock, index
        return Group(number, superblocks, deque(superblocks[spec.usable :]), spec.usable)

    # Time

    def at(self, at_ps: int, event: Callable[[], None]) -> None:
        if at_ps <= self.now:
            self.at_once.append(event)
        else:
            self.sequence += 1
            heapq.heappush(self.heap, (at_ps, self.sequence, event))

    def run(self, requests: Sequence[Request]) -> list[int]:
        """Response times, in the order of completion."""
        begin = requests[0].at_ps
        arrivals = deque(requests)
        while self.at_once or self.heap or arrivals:
            if self.at_once:
                self.at_once.popleft()()
            elif self.heap and (not arrivals or self.heap[0][0] <= arrivals[0].at_ps - begin):
                self.now, _, event = heapq.heappop(self.heap)
                event()
            else:
                request = arrivals.popleft()
                self.now = request.at_ps - begin
                self._issue(InFlight(Request(self.now, request.sector, request.sectors, request.is_read)))
        return self.responses

    # Commands

    def _issue(self, flight: InFlight) -> None:
        if self.in_drive < self.window:
            self.in_drive += 1
            self._dispatch(flight)
        else:
            self.waiting_requests.append(flight)

    def _dispatch(self, flight: InFlight) -> None:
        start = max(self.now, self.next_command)
        self.next_command = start + self.spec.interval_ps
        is_read = flight.request.is_read
        size_ps = flight.request.sectors * 512 * self.spec.command_ps_per_4k[is_read] // 4096
        self.at(start + self.spec.command_ps[is_read] + size_ps, lambda: self._start(flight))

    def _start(self, flight: InFlight) -> None:
        if flight.request.is_read:
            self._read(flight)
            return
        pages = list(flight.request.pages())
        flight.parts = len(pages)
        for page, sectors in pages:
            self.at(self._link(0, sectors), lambda page=page: self._receive(flight, page))

    def _link(self, direction: int, sectors: int) -> int:
        way = direction if self.spec.duplex else 0
        self.link_free[way] = max(self.now, self.link_free[way]) + sectors * self.spec.link_ps
        return self.link_free[way]

    def _part_done(self, flight: InFlight) -> None:
        flight.parts -= 1
        if flight.parts == 0:
            self.responses.append(self.now - flight.request.at_ps)
            if self.waiting_requests:
                self._dispatch(self.waiting_requests.popleft())
            else:
                self.in_drive -= 1

    # Reads

    def _place(self, page: int) -> tuple[int, tuple[int, int, int], int]:
        """Element, flash page, and number of the flash page in its block."""
        superblock, index = self.where[page]
        return self._spot(self._group_of(page), superblock, index)

    def _group_of(self, page: int) -> Group:
        superblock, _ = self.where[page]
        return next(group for group in self.groups if superblock is group.superblocks[superblock.number])

    def _spot(self, group: Group, superblock: Superblock, index: int) -> tuple[int, tuple[int, int, int], int]:
        unit, within = divmod(index, self.spec.unit)
        row, element = divmod(unit, self.spec.span)
        in_block = (row * self.spec.unit + within) // self.spec.flash_page
        flash_page = (group.number, superblock.number, index // self.spec.flash_page)
        return group.number * self.spec.span + element, flash_page, in_block

    def _read_ps(self, in_block: int, sectors: int) -> int:
        times = self.spec.small_read_ps if sectors <= 8 else self.spec.read_ps
        return times[in_block % len(times)]

    def _read(self, flight: InFlight) -> None:
        runs: list[list[Any]] = []
        hits, order = [], []
        for page, sectors in flight.request.pages():
            if page in self.newest:
                order.append(("hit", sectors))
                hits.append(sectors)
                continue
            element, flash_page, in_block = self._place(page)
            if runs and runs[-1][1] == flash_page:
                runs[-1][3] += sectors
            else:
                runs.append([element, flash_page, in_block, sectors])
                order.append(("run", len(runs) - 1))
        flight.parts = len(runs) + len(hits)
        # A run is queued when the next one begins, or behind all; what the cache has goes at once.
        pending: int | None = None
        for kind, what in order:
            if kind == "hit":
                self.at(self._link(1, what), lambda: self._part_done(flight))
            else:
                if pending is not None:
                    self._queue_run(flight, runs[pending])
                pending = what
        if pending is not None:
            self._queue_run(flight, runs[pending])

    def _queue_run(self, flight: InFlight, run: list[Any]) -> None:
        element, _, in_block, sectors = run

        def send() -> None:
            self.at(self._link(1, sectors), lambda: self._part_done(flight))

        self._queue(element, Operation("read", self._read_ps(in_block, sectors), sectors, send))

    # Elements

    def _queue(self, number: int, operation: Operation) -> None:
        element = self.elements[number]
        first = self.spec.read_priority and operation.kind == "read"
        (element.reads if first else element.others).append(operation)
        if not element.busy:
            self._begin(number)
        elif first and element.array:
            self._suspend(number, *element.array)

    def _suspend(self, number: int, operation: Operation, since: int, end: int) -> None:
        """Stop the array for a read: the operation is a shorter one from now on."""
        element = self.elements[number]
        if not operation.suspensions or end - self.now <= self.spec.suspend_ps:
            return
        left = Operation("resumed " + operation.kind, end - self.now, 0, operation.done, operation.suspensions - 1)
        element.suspended, element.array = left, None
        element.epoch += 1
        element.busy_ps += self.now - since
        pause = Operation("pause", self.spec.suspend_ps, 0, lambda: None)
        self._advance(number, self._phases(number, pause), pause, self.now)

    def _begin(self, number: int) -> None:
        element = self.elements[number]
        if element.suspended and not element.reads:
            operation, element.suspended = element.suspended, None
        elif element.reads or element.others:
            operation = element.reads.popleft() if element.reads else element.others.popleft()
        else:
            return
        element.busy = True
        self._advance(number, self._phases(number, operation), operation, self.now)

    def _phases(self, number: int, operation: Operation) -> Iterator[int]:
        """When each phase of an operation ends."""
        if "program" not in operation.kind or "resumed" in operation.kind:
            operation.in_array = True
            yield self.now + operation.array_ps
            if operation.sectors:
                yield self._channel(number, operation.sectors)
            return
        piece = self.spec.flash_page * PAGE_SECTORS
        left = operation.sectors
        yield self._channel(number, min(left, piece))
        left -= min(left, piece)
        while left:
            yield self._channel(number, min(left, piece))
            left -= min(left, piece)
        operation.in_array = True
        yield self.now + operation.array_ps

    def _channel(self, number: int, sectors: int) -> int:
        channel = number % self.spec.channels
        self.channel_free[channel] = max(self.now, self.channel_free[channel]) + sectors * self.spec.channel_ps
        return self.channel_free[channel]

    def _advance(self, number: int, phases: Iterator[int], operation: Operation, since: int) -> None:
        end = next(phases, None)
        element = self.elements[number]
        if end is not None:
            rests = operation.suspensions and operation.in_array
            element.array = (operation, since, end) if rests else None
            element.epoch += 1
            epoch = element.epoch
            self.at(end, lambda: self._advance(number, phases, operation, since) if element.epoch == epoch else None)
            return
        element.array = None
        element.busy_ps += self.now - since
        element.busy = False
        if operation.kind.endswith("program"):
            element.has_unit = False
        self._begin(number)
        operation.done()

    # Writes

    def _receive(self, flight: InFlight, page: int) -> None:
        if self.spec.cache == 0:
            self._store(page, flight)
        elif (newest := self.newest.get(page)) and newest.stage == "staged":
            self.hits += 1
            self._part_done(flight)
        elif self.used == self.spec.cache:
            self.waiting_pages.append((flight, page))
            return
        else:
            self.used += 1
            self._store(page, None)
            self._part_done(flight)
        self._place_units()

    def _store(self, page: int, flight: InFlight | None) -> None:
        version = Version(page, flight, older=self.newest.get(page))
        if version.older:
            version.older.newer = version
        self.newest[page] = version
        self.staged.append(version)

    def _admit(self) -> None:
        while self.waiting_pages:
            flight, page = self.waiting_pages[0]
            newest = self.newest.get(page)
            is_hit = newest is not None and newest.stage == "staged"
            if not is_hit and self.used == self.spec.cache:
                return
            self.waiting_pages.popleft()
            if not is_hit:
                self.used += 1
                self._store(page, None)
            self._part_done(flight)

    def _place_units(self) -> None:
        spec = self.spec
        while len(self.staged) >= spec.unit or (self.staged and spec.cache == 0):
            takers = [(self.turn + step) % spec.elements for step in range(spec.elements)]
            number = next((each for each in takers if self._takes_unit(each)), None)
            if number is None:
                self._start_collections()
                return
            self.turn = (number + 1) % spec.elements
            versions = [self.staged.popleft() for _ in range(min(spec.unit, len(self.staged)))]
            self._write(number, [version.page for version in versions], "host")
            for version in versions:
                version.stage = "placed"
            self.elements[number].has_unit = True
            sectors = len(versions) * PAGE_SECTORS

            def done(versions: list[Version] = versions) -> None:
                self._programmed(versions)

            self._queue(number, Operation("program", spec.program_ps, sectors, done, spec.program_suspensions))
            self._start_collections()

    def _programmed(self, versions: list[Version]) -> None:
        out: list[Version] = []
        for version in versions:
            version.stage = "done"
            each: Version | None = version
            while each and each.stage == "done" and each.older is None:
                if each.newer:
                    each.newer.older = None
                else:
                    del self.newest[each.page]
                if each.request is None:
                    self.used -= 1
                out.append(each)
                each = each.newer
        for version in out:
            if version.request:
                self._part_done(version.request)
        self._admit()
        self._place_units()

    # Superblocks

    def _needs_collection(self, group: Group, gained: int = 0) -> bool:
        needed = 1 if group.rest and self._stream("moved") not in group.open else 0
        return len(group.free) + gained <= self.spec.background + needed

    def _stream(self, pages: str) -> str:
        return pages if self.spec.hot_cold else "all"

    def _has_row(self, number: int, pages: str) -> bool:
        group = self.groups[number // self.spec.span]
        superblock = group.open.get(self._stream(pages))
        return bool(group.free) if superblock is None else superblock.rows[number % self.spec.span] < self.rows

    def _takes_unit(self, number: int) -> bool:
        spec, group = self.spec, self.groups[number // self.spec.span]
        valid = sum(superblock.valid for superblock in group.superblocks)
        most = spec.usable * self.size + (spec.blocks - spec.usable - spec.low - 2) * self.size // 2
        return (
            not self.elements[number].has_unit
            and len(group.free) > spec.low
            and valid <= most
            and self._has_row(number, "host")
        )

    def _write(self, number: int, pages: Sequence[int], kind: str) -> None:
        group = self.groups[number // self.spec.span]
        stream = self._stream(kind)
        if stream not in group.open:
            group.open[stream] = superblock = group.free.popleft()
            group.opened += 1
            superblock.opened, superblock.state, superblock.valid = group.opened, "open", 0
            superblock.content, superblock.rows = [None] * self.size, [0] * self.spec.span
        superblock = group.open[stream]
        within = number % self.spec.span
        first = (superblock.rows[within] * self.spec.span + within) * self.spec.unit
        superblock.rows[within] += 1
        if sum(superblock.rows) == self.rows * self.spec.span:
            superblock.state = "sealed"
            del group.open[stream]
        for index, page in enumerate(pages, first):
            old, _ = self.where[page]
            old.valid -= 1
            superblock.content[index] = page
            superblock.valid += 1
            self.where[page] = superblock, index

    def _holds(self, superblock: Superblock, index: int) -> int | None:
        page = superblock.content[index]
        return page if page is not None and self.where[page] == (superblock, index) else None

    # Garbage collection

    def _start_collections(self) -> None:
        for group in self.groups:
            if not group.active and self._needs_collection(group):
                group.active = True
                self._collect(group)

    def _collect(self, group: Group) -> None:
        while True:
            is_low = len(group.free) <= self.spec.low
            while group.victim and group.jobs < (self.spec.span if is_low else 1):
                self._fill_rest(group, group.victim)
                if len(group.rest) < self.spec.unit:
                    group.emptied.append(group.victim)
                    group.victim = None
                else:
                    self._start_job(group)
            if group.jobs:
                return
            if not group.rest:
                emptied, group.emptied = group.emptied, []
                for superblock in emptied:
                    self._erase(group, superblock)
            gained = len(group.emptied) + group.erasing
            if not self._needs_collection(group, gained):
                break
            sealed = [each for each in group.superblocks if each.state == "sealed" and each.valid < self.size]
            if gained and not sealed:
                break
            group.victim, group.offset = self._victim(group, sealed), 0
            group.victim.state = "victim"
        if group.rest:
            self._start_job(group)
        elif not group.erasing:
            group.active = False
            self._place_units()

    def _victim(self, group: Group, sealed: list[Superblock]) -> Superblock:
        if self.spec.greedy:
            return min(sealed, key=lambda each: (each.valid, each.opened))
        return max(sealed, key=lambda each: self._benefit(group, each))

    def _benefit(self, group: Group, superblock: Superblock) -> float:
        if superblock.valid == 0:
            return float("inf")
        age = group.opened - superblock.opened
        return (self.size - superblock.valid) / (2.0 * superblock.valid) * (age + 1)

    def _fill_rest(self, group: Group, victim: Superblock) -> None:
        while group.offset < self.size and len(group.rest) < self.spec.unit:
            if self._holds(victim, group.offset) is not None:
                group.rest.append((victim, group.offset))
            group.offset += 1

    def _start_job(self, group: Group) -> None:
        rest, group.rest = group.rest, []
        emptied, group.emptied = group.emptied, []
        group.jobs += 1
        reads: dict[tuple[int, int, int], list[int]] = {}
        for superblock, index in rest:
            element, flash_page, in_block = self._spot(group, superblock, index)
            reads.setdefault(flash_page, [element, in_block, 0])[2] += 1
        left = len(reads)

        def read() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._move(group, rest, emptied)

        for element, in_block, pages in reads.values():
            sectors = 0 if self.spec.copy_back else pages * PAGE_SECTORS
            array_ps = self._read_ps(in_block, pages * PAGE_SECTORS)
            self._queue(element, Operation("collect", array_ps, sectors, read))

    def _move(self, group: Group, rest: list[tuple[Superblock, int]], emptied: list[Superblock]) -> None:
        def done() -> None:
            group.jobs -= 1
            for superblock in emptied:
                self._erase(group, superblock)
            self._collect(group)

        pages = [page for spot in rest if (page := self._holds(*spot)) is not None]
        if not pages:
            done()
            return
        first = group.number * self.spec.span
        turns = [(group.turn + step) % self.spec.span for step in range(self.spec.span)]
        within = next(each for each in turns if self._has_row(first + each, "moved"))
        group.turn = (within + 1) % self.spec.span
        self._write(first + within, pages, "moved")
        self.moved += len(pages)
        sectors = 0 if self.spec.copy_back else len(pages) * PAGE_SECTORS
        self._queue(
            first + within,
            Operation("program of moved", self.spec.program_ps, sectors, done, self.spec.program_suspensions),
        )

    def _erase(self, group: Group, superblock: Superblock) -> None:
        group.erasing += 1
        superblock.erasing = self.spec.span

        def done() -> None:
            superblock.erasing -= 1
            if superblock.erasing:
                return
            superblock.state = "free"
            group.free.append(superblock)
            self.erased += self.spec.span * self.spec.planes
            group.erasing -= 1
            self._place_units()
            self._collect(group)

        for number in range(group.number * self.spec.span, (group.number + 1) * self.spec.span):
            self._queue(number, Operation("erase", self.spec.erase_ps, 0, done, self.spec.erase_suspensions))
