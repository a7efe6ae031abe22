"""The second drive with a controller, with a mapping cache: the rules of docs/simulator.md, "Mapping cache"."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .controller_drive import ControllerDrive, InFlight, Operation, Version
from .controller_superblocks import Controller
from .reference_drive import PAGE_SECTORS


@dataclass
class Fetch:
    """A translation page on its way: what is missing, and what goes on when it is there."""

    pages: list[int] = field(default_factory=list)
    waiting: list[Callable[[], None]] = field(default_factory=list)


class MappedDrive(ControllerDrive):
    """`entries` of the mapping are in memory at most; a translation page has `per_page` of them."""

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
