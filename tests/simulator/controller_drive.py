"""A drive with a controller a second time, for tests to hold the simulator against: slow and written apart from it.

These are the rules of docs/simulator.md, "Drives of today", in integers of picoseconds. Pages are objects in lists of
superblocks, events are functions in one heap, and nothing is shared with the simulator.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .controller_superblocks import PAGE_SECTORS, Controller, Group, Operation, Request, Superblocks


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


class ControllerDrive(Superblocks):
    def __init__(self, spec: Controller, window: int | None = None) -> None:
        super().__init__(spec)
        self.window = window or 10**9
        self.arrivals: deque[Request] = deque()
        self.rests = 0
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
        self.hits = 0

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
        self.arrivals = arrivals = deque(requests)
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
        self.is_idle = False
        self.rests += 1
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
            slc = self.spec.slc
            if slc and slc.folding != "full" and self.arrivals and not self.in_drive:
                rest = self.rests
                self.at(self.now + slc.idle_ps, lambda: self._rest(rest))

    def _rest(self, rest: int) -> None:
        """The host is idle if no request came since."""
        if rest == self.rests:
            self.is_idle = True
            self._start_collections()

    # Reads

    def _place(self, page: int) -> tuple[int, tuple[int, int, int], int]:
        """Element, flash page, and number of the flash page in its block."""
        superblock, index = self.where[page]
        return self._spot(self._group_of(page), superblock, index)

    def _group_of(self, page: int) -> Group:
        superblock, _ = self.where[page]
        return next(group for group in self.groups if superblock is group.superblocks[superblock.number])

    def _read(self, flight: InFlight) -> None:
        runs: list[list[Any]] = []
        hits, order = [], []
        for page, sectors in flight.request.pages():
            if page in self.newest or page not in self.where:
                order.append(("hit", sectors))
                hits.append(sectors)
                continue
            element, flash_page, in_block = self._place(page)
            if runs and runs[-1][1] == flash_page:
                runs[-1][3] += sectors
            else:
                runs.append([element, flash_page, in_block, sectors, self.where[page][0].slc])
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
        element, _, in_block, sectors, slc = run

        def send() -> None:
            self.at(self._link(1, sectors), lambda: self._part_done(flight))

        self._queue(element, Operation("read", self._read_ps(slc, in_block, sectors), sectors, send))

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
        while self._has_pages(min(spec.unit, self._unit_pages(True))):
            takers = [(self.turn + step) % spec.elements for step in range(spec.elements)]
            kinds = {each: kind for each in takers if (kind := self._takes(each))}
            units = {each: self._unit_pages(kind == "slc") for each, kind in kinds.items()}
            number = next((each for each in takers if each in units and self._has_pages(units[each])), None)
            if number is None:
                self._start_collections()
                return
            self.turn = (number + 1) % spec.elements
            versions = [self.staged.popleft() for _ in range(min(units[number], len(self.staged)))]
            program_ps = self._write(number, [version.page for version in versions], kinds[number])
            for version in versions:
                version.stage = "placed"
            self.elements[number].has_unit = True
            sectors = len(versions) * PAGE_SECTORS

            def done(versions: list[Version] = versions) -> None:
                self._programmed(versions)

            self._queue(number, Operation("program", program_ps, sectors, done, spec.program_suspensions))
            self._start_collections()

    def _has_pages(self, unit: int) -> bool:
        return len(self.staged) >= unit or bool(self.staged and self.spec.cache == 0)

    def _has_unit(self, number: int) -> bool:
        return self.elements[number].has_unit

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


@dataclass
class Fetch:
    """A translation page on its way: what is missing, and what goes on when it is there."""

    pages: list[int] = field(default_factory=list)
    waiting: list[Callable[[], None]] = field(default_factory=list)


class MappedDrive(ControllerDrive):
    """The same with the rules of "Mapping cache": `entries` are in memory, a translation page has `per_page`."""

    def __init__(self, spec: Controller, window: int | None, entries: int, per_page: int) -> None:
        super().__init__(spec, window)
        self.entries, self.per_page = entries, per_page
        self.changed: OrderedDict[int, bool] = OrderedDict()
        """Whether an entry has changed, from the least recently used one on."""
        self.fetches: dict[int, Fetch] = {}
        self.moving: Sequence[int] = ()
        self.lookups = {"mapping_hits": 0, "mapping_misses": 0, "translation_reads": 0, "translation_writes": 0}

    def _read(self, flight: InFlight) -> None:
        missing: dict[int, list[int]] = {}
        for page, _ in flight.request.pages():
            if page in self.newest:
                continue
            if page in self.changed:
                self.changed.move_to_end(page)
                self.lookups["mapping_hits"] += 1
            else:
                missing.setdefault(page // self.per_page, []).append(page)
                self.lookups["mapping_misses"] += 1
        left = len(missing)
        if not left:
            super()._read(flight)
            return

        def there() -> None:
            nonlocal left
            left -= 1
            if not left:
                ControllerDrive._read(self, flight)

        new = [number for number in missing if number not in self.fetches]
        for number, pages in missing.items():
            fetch = self.fetches.setdefault(number, Fetch())
            fetch.pages += pages
            fetch.waiting.append(there)
        for number in new:
            self._read_translation(number, "read", lambda number=number: self._fetched(number))

    def _fetched(self, number: int) -> None:
        fetch = self.fetches.pop(number)
        for page in fetch.pages:
            self._keep(page, changed=False)
        for go_on in fetch.waiting:
            go_on()

    def _keep(self, page: int, *, changed: bool) -> None:
        if page not in self.changed and len(self.changed) == self.entries:
            oldest, has_changed = self.changed.popitem(last=False)
            if has_changed:
                self._write_back(oldest // self.per_page)
        self.changed[page] = changed or self.changed.get(page, False)
        self.changed.move_to_end(page)

    def _write_back(self, number: int) -> None:
        for page in range(number * self.per_page, (number + 1) * self.per_page):
            if page in self.changed:
                self.changed[page] = False

        def write() -> None:
            self.lookups["translation_writes"] += 1
            row, element = divmod(number, self.spec.elements)
            program_ps = self.spec.program_ps[row % len(self.spec.program_ps)]
            program = Operation("program of mapping", program_ps, sectors, lambda: None, self.spec.program_suspensions)
            self._queue(element, program)

        sectors = self.spec.flash_page * PAGE_SECTORS
        self._read_translation(number, "change", write)

    def _read_translation(self, number: int, kind: str, done: Callable[[], None]) -> None:
        self.lookups["translation_reads"] += 1
        row, element = divmod(number, self.spec.elements)
        sectors = self.spec.flash_page * PAGE_SECTORS
        self._queue(element, Operation(kind, self._read_ps(False, row, sectors), sectors, done))

    # Changes of the mapping

    def _programmed(self, versions: list[Version]) -> None:
        for version in versions:
            self._keep(version.page, changed=True)
        super()._programmed(versions)

    def _write(self, number: int, pages: Sequence[int], kind: str) -> int:
        if kind == "moved":
            self.moving = tuple(pages)
        return super()._write(number, pages, kind)

    def _queue(self, number: int, operation: Operation) -> None:
        if operation.kind == "program of moved":
            pages, done = self.moving, operation.done

            def moved() -> None:
                for page in pages:
                    self._keep(page, changed=True)
                done()

            operation.done = moved
        super()._queue(number, operation)
