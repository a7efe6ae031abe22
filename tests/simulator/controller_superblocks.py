"""The superblocks of the second drive with a controller (`controller_drive`): where pages are, how space is gained.

These are the rules of docs/simulator.md, "Drives of today" and "An SLC region", as pages in lists of superblocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

PAGE_SECTORS = 8


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
    program_ps: tuple[int, ...]
    """By page type of the unit, if there are several."""
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
    typed_units: bool
    """A unit has one page type."""
    mapped: int
    """Pages that are mapped at first."""
    slc: Slc | None = None


@dataclass(frozen=True)
class Slc:
    """The SLC region."""

    superblocks: int
    """Of a group."""
    dynamic: bool
    unit: int
    rows: int
    program_ps: int
    read_ps: int
    folding: str
    idle_ps: int


@dataclass(eq=False)
class Superblock:
    number: int
    content: list[int | None]
    opened: int
    state: str = "free"
    valid: int = 0
    rows: list[int] = field(default_factory=list)
    erasing: int = 0
    slc: bool = False
    apart: bool = False
    """Of an SLC region that is not dynamic."""


@dataclass(eq=False)
class Group:
    number: int
    superblocks: list[Superblock]
    free: deque[Superblock]
    opened: int
    open: dict[str, Superblock] = field(default_factory=dict)
    turn: int = 0
    active: bool = False
    slc_free: deque[Superblock] = field(default_factory=deque)
    victim: Superblock | None = None
    folds: bool = False
    offset: int = 0
    rest: list[tuple[Superblock, int]] = field(default_factory=list)
    emptied: list[Superblock] = field(default_factory=list)
    jobs: int = 0
    erasing: list[Superblock] = field(default_factory=list)


@dataclass(eq=False)
class Operation:
    kind: str
    array_ps: int
    sectors: int
    done: Callable[[], None]
    suspensions: int = 0
    in_array: bool = False


class Superblocks:
    """Groups of superblocks; what they make elements do is queued by the drive that derives from this."""

    def __init__(self, spec: Controller) -> None:
        self.spec = spec
        self.moved = self.folded = self.in_slc = self.erased = 0
        self.is_idle = False
        self.size = spec.span * spec.planes * spec.block_pages
        self.rows = spec.planes * spec.block_pages // spec.unit
        self.where: dict[int, tuple[Superblock, int]] = {}
        self.groups = [self._group(number) for number in range(spec.elements // spec.span)]

    def _queue(self, number: int, operation: Operation) -> None:
        raise NotImplementedError

    def _place_units(self) -> None:
        raise NotImplementedError

    def _has_unit(self, number: int) -> bool:
        raise NotImplementedError

    def _group(self, number: int) -> Group:
        spec = self.spec
        superblocks = [Superblock(each, [None] * self.size, each + 1) for each in range(spec.blocks)]
        for superblock in superblocks[: spec.usable]:
            for index in range(self.size):
                unit, within = divmod(index, spec.unit)
                row, element = divmod(unit, spec.span)
                across = (superblock.number * self.rows + row) * spec.elements + number * spec.span + element
                page = across * spec.unit + within
                if page < spec.mapped:
                    superblock.content[index] = page
                    self.where[page] = superblock, index
                    superblock.state, superblock.valid = "sealed", superblock.valid + 1
        apart = spec.slc.superblocks if spec.slc and not spec.slc.dynamic else 0
        for superblock in superblocks[spec.blocks - apart :]:
            superblock.slc = superblock.apart = True
        free = deque(each for each in superblocks if each.state == "free" and not each.apart)
        return Group(number, superblocks, free, spec.usable, slc_free=deque(superblocks[spec.blocks - apart :]))

    def _spot(self, group: Group, superblock: Superblock, index: int) -> tuple[int, tuple[int, int, int], int]:
        unit, within = divmod(index, self._unit_pages(superblock.slc))
        row, element = divmod(unit, self.spec.span)
        in_block = row if self.spec.typed_units else (row * self.spec.unit + within) // self.spec.flash_page
        flash_page = (group.number, superblock.number, index // self.spec.flash_page)
        return group.number * self.spec.span + element, flash_page, in_block

    def _unit_pages(self, slc: bool) -> int:
        return self.spec.slc.unit if slc and self.spec.slc else self.spec.unit

    def _rows(self, slc: bool) -> int:
        return self.spec.slc.rows if slc and self.spec.slc else self.rows

    def _read_ps(self, slc: bool, in_block: int, sectors: int) -> int:
        if slc and self.spec.slc:
            return self.spec.slc.read_ps
        times = self.spec.small_read_ps if sectors <= 8 else self.spec.read_ps
        return times[in_block % len(times)]

    # Superblocks

    def _needs_collection(self, group: Group, gained: int = 0) -> bool:
        needed = 1 if group.rest and self._stream("moved") not in group.open else 0
        return len(group.free) + gained <= self.spec.background + needed

    def _stream(self, pages: str) -> str:
        return pages if self.spec.hot_cold or pages == "slc" else "all"

    def _has_row(self, number: int, pages: str) -> bool:
        group = self.groups[number // self.spec.span]
        superblock = group.open.get(self._stream(pages))
        if superblock is None:
            return bool(self._slc_free(group) if pages == "slc" else group.free)
        return superblock.rows[number % self.spec.span] < self._rows(superblock.slc)

    def _takes(self, number: int) -> str | None:
        """Which pages of the host go to the element now: to the SLC region, or others."""
        spec, group = self.spec, self.groups[number // self.spec.span]
        valid = sum(superblock.valid for superblock in group.superblocks)
        spare = spec.blocks - spec.usable - spec.low - 2
        if spec.slc:
            spare -= 1 if spec.slc.dynamic else spec.slc.superblocks
        most = spec.usable * self.size + spare * self.size // 2
        kind = self._kind_of_host(group)
        if self._has_unit(number) or valid > most or kind is None or not self._has_row(number, kind):
            return None
        return kind if kind == "slc" or len(group.free) > spec.low else None

    # The SLC region

    def _slc_free(self, group: Group, gained: Sequence[Superblock] = ()) -> int:
        """Superblocks that can be opened in SLC mode."""
        slc = self.spec.slc
        if slc is None:
            return 0
        if not slc.dynamic:
            return len(group.slc_free) + sum(each.slc for each in gained)
        used = self._slc_used(group) - sum(each.slc for each in gained)
        return max(0, min(slc.superblocks - used, len(group.free) + len(gained) - self.spec.background - 1))

    @property
    def slc_free_share(self) -> float | None:
        """Share of the region that can be written now."""
        if self.spec.slc is None:
            return None
        size = self.spec.slc.rows * self.spec.span
        free = sum(self._slc_free(group) * size for group in self.groups)
        free += sum(size - sum(group.open["slc"].rows) for group in self.groups if "slc" in group.open)
        return free / (self.spec.slc.superblocks * size * len(self.groups))

    def _slc_used(self, group: Group) -> int:
        return sum(each.slc and each.state != "free" for each in group.superblocks)

    def _kind_of_host(self, group: Group) -> str | None:
        """Where the host's next unit goes; None while it waits for folding."""
        if "slc" in group.open or self._slc_free(group):
            return "slc"
        waits = self.spec.slc and self.spec.slc.folding != "idle" and self._slc_used(group)
        return None if waits else "host"

    def _folds(self, group: Group) -> bool:
        """Whether there is a reason to fold."""
        slc = self.spec.slc
        if slc is None or len(group.free) <= self.spec.low:
            return False
        is_full = self._slc_free(group, group.emptied + group.erasing) == 0
        return (self.is_idle and slc.folding != "full") or (is_full and slc.folding != "idle")

    def _foldable(self, group: Group) -> list[Superblock]:
        return [each for each in group.superblocks if each.slc and each.state == "sealed"]

    def _write(self, number: int, pages: Sequence[int], kind: str) -> int:
        """Write pages as the next unit of an element; return the time to program it."""
        group = self.groups[number // self.spec.span]
        stream = self._stream(kind)
        if stream not in group.open:
            is_apart = stream == "slc" and bool(group.slc_free)
            group.open[stream] = superblock = (group.slc_free if is_apart else group.free).popleft()
            superblock.slc = stream == "slc"
            group.opened += 1
            superblock.opened, superblock.state, superblock.valid = group.opened, "open", 0
            superblock.content, superblock.rows = [None] * self.size, [0] * self.spec.span
        superblock = group.open[stream]
        within = number % self.spec.span
        row = superblock.rows[within]
        first = (row * self.spec.span + within) * self._unit_pages(superblock.slc)
        superblock.rows[within] += 1
        if sum(superblock.rows) == self._rows(superblock.slc) * self.spec.span:
            superblock.state = "sealed"
            del group.open[stream]
        for index, page in enumerate(pages, first):
            if page in self.where:
                self.where[page][0].valid -= 1
            superblock.content[index] = page
            superblock.valid += 1
            self.where[page] = superblock, index
        if superblock.slc and self.spec.slc:
            self.in_slc += len(pages)
            return self.spec.slc.program_ps
        return self.spec.program_ps[row % len(self.spec.program_ps)]

    def _holds(self, superblock: Superblock, index: int) -> int | None:
        page = superblock.content[index]
        return page if page is not None and self.where.get(page) == (superblock, index) else None

    # Garbage collection

    def _start_collections(self) -> None:
        for group in self.groups:
            folds = self._foldable(group) and self._folds(group)
            if not group.active and (self._needs_collection(group) or folds):
                group.active = True
                self._collect(group)

    def _collect(self, group: Group) -> None:
        while True:
            hurries = len(group.free) <= self.spec.low or self.is_idle or self._kind_of_host(group) is None
            while group.victim and group.jobs < (self.spec.span if hurries else 1):
                if group.folds and not self._folds(group):
                    break
                self._fill_rest(group, group.victim)
                if len(group.rest) < self.spec.unit:
                    group.emptied.append(group.victim)
                    group.victim = None
                else:
                    self._start_job(group)
            if group.jobs:
                return
            if group.victim:
                for superblock in (group.victim, *group.emptied):
                    superblock.state = "sealed"
                group.victim, group.rest, group.emptied = None, [], []
            if not group.rest:
                emptied, group.emptied = group.emptied, []
                for superblock in emptied:
                    self._erase(group, superblock)
            gained = sum(not each.apart for each in group.emptied + group.erasing)
            if self._needs_collection(group, gained):
                sealed = [each for each in group.superblocks if each.state == "sealed" and each.valid < self.size]
                sealed = [each for each in sealed if not each.apart]
                if (gained or group.rest) and not sealed:
                    break
                group.victim, group.folds = self._victim(group, sealed), False
            elif self._foldable(group) and self._folds(group):
                group.victim, group.folds = min(self._foldable(group), key=lambda each: each.opened), True
            else:
                break
            group.victim.state, group.offset = "victim", 0
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
        reads: dict[tuple[int, int, int], list[Any]] = {}
        for superblock, index in rest:
            element, flash_page, in_block = self._spot(group, superblock, index)
            reads.setdefault(flash_page, [element, superblock.slc, in_block, 0])[3] += 1
        left = len(reads)

        def read() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._move(group, rest, emptied)

        for element, slc, in_block, pages in reads.values():
            sectors = 0 if self.spec.copy_back else pages * PAGE_SECTORS
            array_ps = self._read_ps(slc, in_block, pages * PAGE_SECTORS)
            self._queue(element, Operation("collect", array_ps, sectors, read))

    def _move(self, group: Group, rest: list[tuple[Superblock, int]], emptied: list[Superblock]) -> None:
        def done() -> None:
            group.jobs -= 1
            for superblock in emptied:
                self._erase(group, superblock)
            self._collect(group)

        pages = [page for spot in rest if (page := self._holds(*spot)) is not None]
        self.folded += sum(self.where[page][0].slc for page in pages)
        if not pages:
            done()
            return
        first = group.number * self.spec.span
        turns = [(group.turn + step) % self.spec.span for step in range(self.spec.span)]
        within = next(each for each in turns if self._has_row(first + each, "moved"))
        group.turn = (within + 1) % self.spec.span
        program_ps = self._write(first + within, pages, "moved")
        self.moved += len(pages)
        sectors = 0 if self.spec.copy_back else len(pages) * PAGE_SECTORS
        self._queue(
            first + within,
            Operation("program of moved", program_ps, sectors, done, self.spec.program_suspensions),
        )

    def _erase(self, group: Group, superblock: Superblock) -> None:
        group.erasing.append(superblock)
        superblock.erasing = self.spec.span

        def done() -> None:
            superblock.erasing -= 1
            if superblock.erasing:
                return
            superblock.state = "free"
            if superblock.apart:
                group.slc_free.append(superblock)
            else:
                superblock.slc = False
                group.free.append(superblock)
            self.erased += self.spec.span * self.spec.planes
            group.erasing.remove(superblock)
            self._place_units()
            self._collect(group)

        for number in range(group.number * self.spec.span, (group.number + 1) * self.spec.span):
            self._queue(number, Operation("erase", self.spec.erase_ps, 0, done, self.spec.erase_suspensions))
