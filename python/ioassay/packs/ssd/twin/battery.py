"""Which loads tell what a drive is like, in stages: a stage sees the readings of those before it.

Stages are deterministic functions of the readings, so that an interrupted battery can go on where it ended. The reads
are for a target that was written in sequence. Nothing here measures, and only `reads` concludes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ioassay.packs.ssd.twin import reads, writes
from ioassay.packs.ssd.twin.loads import Load, Reading, Target, by_name

KIB = 1024
START_S = 0.7
"""What a run of fio takes beyond its load."""
LOADS = 120
"""Of the battery, about: the budget is shared by them."""
SMALL = 512
PAIR_DEPTH = 16
"""As many requests as fio has in flight of two pages in a row: at most those that its `size` has."""
_LARGEST_UNIT = 1024 * KIB
_MOST_ELEMENTS = 128
_MOST_BYTES = 32 << 20
"""That a load of large reads moves."""


@dataclass(frozen=True)
class Known:
    """What a stage may look at."""

    capacity_bytes: int
    readings: Mapping[str, Reading]
    budget_s: float
    writes: bool

    @property
    def seconds(self) -> float:
        """The longest that a load of the battery takes."""
        return min(max(self.budget_s / LOADS - START_S, 0.2), 5.0)


def learn(target: Target, *, writes: bool, budget_s: float) -> list[Reading]:
    """The readings of all stages, one after the other; without `writes`, of those that only read."""
    readings: list[Reading] = []
    for stage, stage_loads in (READ_STAGES | (WRITE_STAGES if writes else {})).items():
        known = Known(target.capacity_bytes, by_name(readings), budget_s, writes)
        unit, elements = reads.unit_bytes(known.readings), reads.elements(known.readings)
        if stage in WRITE_STAGES:  # they need no structure
            unit, elements = unit or 64 * KIB, elements or 1
        loads = [load for load in stage_loads(known, unit, elements) if load.name not in known.readings]
        readings += target.run([replace(load, stage=stage) for load in loads]) if loads else []
    return readings


def _read(known: Known, name: str, size: int, depth: int = 1, requests: int = 2000, **keys: object) -> Load:
    requests = min(max(requests, 12 * depth), max(_MOST_BYTES // size, 8 * depth, 100))
    return Load(name, "", "read", size, depth, requests=requests, seconds=known.seconds, **keys)  # type: ignore[arg-type]


# Structure: which addresses are on one element. Of stages, `unit` and `elements` are 0 where no reading tells them.


def _page_types(known: Known, *_: int) -> Iterator[Load]:
    single = {"align_bytes": PAIR_DEPTH * SMALL, "span_bytes": PAIR_DEPTH * SMALL}
    yield _read(known, "small-depth-1", SMALL, align_bytes=4 * KIB)
    yield _read(known, "read-4KiB-depth-1", 4 * KIB)
    yield _read(known, reads.SINGLE, SMALL, requests=500, **single)
    yield _read(known, reads.SINGLE + reads.QUEUED, SMALL, PAIR_DEPTH, 800, **single)


def _pairs(known: Known, distances: Iterable[int]) -> Iterator[Load]:
    """Two addresses that far apart: of one element, or of two. Alone, they tell the page types of both."""
    for distance in distances:
        where = {"align_bytes": distance, "span_bytes": distance + 4 * KIB}
        yield _read(known, reads.pair(distance) + reads.QUEUED, SMALL, PAIR_DEPTH, 800, **where)
        if reads.has_page_types(known.readings):
            yield _read(known, reads.pair(distance), SMALL, requests=400, **where)


def _unit_coarse(known: Known, *_: int) -> Iterator[Load]:
    most = min(_LARGEST_UNIT, known.capacity_bytes // 8)
    return _pairs(known, [4 * KIB << power for power in range(20) if 4 * KIB << power <= most])


def _unit_fine(known: Known, *_: int) -> Iterator[Load]:
    low, high = reads.unit_bounds(known.readings)
    between = (high - low) // (4 * KIB) - 1 if high else 0
    steps = min(between, 7)
    places = {low + (between + 1) * (step + 1) // (steps + 1) * 4 * KIB for step in range(steps)}
    return _pairs(known, sorted(places))


def _elements(known: Known, unit: int, _: int) -> Iterator[Load]:
    farthest = min(known.capacity_bytes // (2 * unit), 1024) if unit else 0
    return _pairs(known, [unit * distance for distance in group_tests(_MOST_ELEMENTS // 2, farthest)])


def group_tests(most: int, farthest: int) -> list[int]:
    """Few distances in units, so that each count of elements from 2 to `most` divides at least one."""
    left = {count for count in range(2, most + 1) if count <= farthest}
    chosen = []
    while left:
        best = max(range(farthest, 1, -1), key=lambda distance: sum(distance % count == 0 for count in left))
        chosen.append(best)
        left = {count for count in left if best % count}
    return chosen


def _elements_fine(known: Known, unit: int, _: int) -> Iterator[Load]:
    counts = reads.possible_elements(known.readings, unit) if unit else []
    return _pairs(known, [unit * count for count in counts] if len(counts) > 1 else ())


# Times


def _sizes(known: Known, unit: int, elements: int) -> Iterator[Load]:
    """Within the first unit, at multiples of the size and at any page; then whole units."""
    unit, elements = unit or 64 * KIB, elements or 8
    sizes = [size * KIB for size in (4, 8, 12, 16, 24, 32, 64, 128) if size * KIB <= unit]
    for size in (SMALL, *sizes):
        yield _read(known, f"size-{_text(size)}", size, requests=800, span_bytes=unit)
    for size in sizes:
        if 4 * KIB < size <= 32 * KIB and size < unit:
            yield _read(known, f"size-{_text(size)}-any", size, requests=800, align_bytes=4 * KIB, span_bytes=unit)
    for count in sorted({1, 2, 4, max(elements // 2, 1), elements}):
        if unit * count <= min(4096 * KIB, known.capacity_bytes // 4):
            yield _read(known, f"units-{count}", unit * count, requests=600, align_bytes=unit)


def _page_type_order(known: Known, unit: int, elements: int) -> Iterator[Load]:
    """The first pages of the first element, each with the first one in turn."""
    if not elements or not reads.has_page_types(known.readings):
        return
    page, _ = reads.flash_page_bytes(known.readings, unit)
    step = unit if reads.types_by_unit(known.readings) else page
    for place in (reads.row_address(row, step, unit, elements) for row in range(1, 5)):
        if 2 * place <= known.capacity_bytes:
            where = {"align_bytes": place, "span_bytes": place + 4 * KIB}
            yield _read(known, reads.pair(place), SMALL, requests=400, **where)


def _one_element(known: Known, unit: int, elements: int) -> Iterator[Load]:
    for size in sorted({SMALL, 4 * KIB, min(16 * KIB, unit), unit}) if elements else ():
        yield _read(known, f"one-{_text(size)}", size, 16, 1000, align_bytes=unit * elements)


def _depths(known: Known, *_: int) -> Iterator[Load]:
    for depth in (2, 4, 8, 16, 32, 64, 128, 256):
        yield _read(known, f"read-4KiB-depth-{depth}", 4 * KIB, depth)
    for depth in (32, 256):
        yield _read(known, f"small-depth-{depth}", SMALL, depth, 3000)


def _channels(known: Known, unit: int, elements: int) -> Iterator[Load]:
    for size, depth in ((16 * KIB, 32), (64 * KIB, 4), (64 * KIB, 32), (1024 * KIB, 4)):
        yield _read(known, f"read-{_text(size)}-depth-{depth}", size, depth, 1500)
    strides = [stride for stride in range(2, elements) if elements % stride == 0 or stride in (3, 4, 5, 6, 8)]
    for stride in strides[:10]:
        yield _read(known, f"stride-{stride}", min(unit, 64 * KIB), 32, 1000, align_bytes=unit * stride)


def _text(size: int) -> str:
    return f"{size}B" if size % KIB else f"{size // KIB}KiB"


Stages = dict[str, Callable[[Known, int, int], Iterable[Load]]]
"""Name -> the loads, of a program unit and a number of elements."""
READ_STAGES: Stages = {
    "types": _page_types,
    "unit": _unit_coarse,
    **dict.fromkeys(("unit-fine", "unit-finer", "unit-finest"), _unit_fine),
    "elements": _elements,
    "elements-fine": _elements_fine,
    "sizes": _sizes,
    "order": _page_type_order,
    "one-element": _one_element,
    "depths": _depths,
    "channels": _channels,
}
WRITE_STAGES: Stages = {"durable": writes.first_loads, "rates": writes.rate_loads, "steady": writes.steady_loads}
