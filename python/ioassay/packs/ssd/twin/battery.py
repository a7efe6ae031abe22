"""Which loads tell what a drive is like, in stages: a stage sees the readings of those before it.

Stages are deterministic functions of the readings, so that an interrupted battery can go on where it ended. The reads
are for a target that was written in sequence. Nothing here measures, and only `reads` concludes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Stage:
    name: str
    writes: bool
    loads: Callable[[Known], tuple[Load, ...]]


def learn(target: Target, *, writes: bool, budget_s: float) -> list[Reading]:
    """The readings of all stages, one after the other; without `writes`, of those that only read."""
    readings: list[Reading] = []
    for stage in STAGES:
        if stage.writes and not writes:
            continue
        known = Known(target.capacity_bytes, by_name(readings), budget_s, writes)
        loads = [load for load in stage.loads(known) if load.name not in known.readings]
        readings += target.run(loads) if loads else []
    return readings


def _read(known: Known, stage: str, name: str, size: int, depth: int = 1, requests: int = 2000, **keys: object) -> Load:
    requests = min(max(requests, 12 * depth), max(_MOST_BYTES // size, 8 * depth, 100))
    return Load(name, stage, "read", size, depth, requests=requests, seconds=known.seconds, **keys)  # type: ignore[arg-type]


# Structure: which addresses are on one element


def _page_types(known: Known) -> tuple[Load, ...]:
    single = {"align_bytes": PAIR_DEPTH * SMALL, "span_bytes": PAIR_DEPTH * SMALL}
    return (
        _read(known, "types", "small-depth-1", SMALL, align_bytes=4 * KIB),
        _read(known, "types", "read-4KiB-depth-1", 4 * KIB),
        _read(known, "types", reads.SINGLE, SMALL, requests=500, **single),
        _read(known, "types", reads.SINGLE + reads.QUEUED, SMALL, PAIR_DEPTH, 800, **single),
    )


def _pairs(known: Known, stage: str, distances: list[int]) -> tuple[Load, ...]:
    """Two addresses that far apart: of one element, or of two. Alone, they tell the page types of both."""
    loads = []
    for distance in distances:
        name = reads.pair(distance)
        where = {"align_bytes": distance, "span_bytes": distance + 4 * KIB}
        loads.append(_read(known, stage, name + reads.QUEUED, SMALL, PAIR_DEPTH, 800, **where))
        if reads.has_page_types(known.readings):
            loads.append(_read(known, stage, name, SMALL, requests=400, **where))
    return tuple(loads)


def _unit_coarse(known: Known) -> tuple[Load, ...]:
    most = min(_LARGEST_UNIT, known.capacity_bytes // 8)
    distances = [4 * KIB << power for power in range(20) if 4 * KIB << power <= most]
    return _pairs(known, "unit", distances)


def _unit_fine(stage: str) -> Callable[[Known], tuple[Load, ...]]:
    def loads(known: Known) -> tuple[Load, ...]:
        low, high = reads.unit_bounds(known.readings)
        between = (high - low) // (4 * KIB) - 1 if high else 0
        steps = min(between, 7)
        places = [low + (between + 1) * (step + 1) // (steps + 1) * 4 * KIB for step in range(steps)]
        return _pairs(known, stage, sorted(set(places)))

    return loads


def _elements(known: Known) -> tuple[Load, ...]:
    unit = reads.unit_bytes(known.readings)
    if not unit:
        return ()
    chosen = group_tests(_MOST_ELEMENTS // 2, min(known.capacity_bytes // (2 * unit), 1024))
    return _pairs(known, "elements", [unit * distance for distance in chosen])


def group_tests(most: int, farthest: int) -> list[int]:
    """Few distances in units, so that each count of elements from 2 to `most` divides at least one."""
    left = {count for count in range(2, most + 1) if count <= farthest}
    chosen = []
    while left:
        best = max(range(farthest, 1, -1), key=lambda distance: sum(distance % count == 0 for count in left))
        chosen.append(best)
        left = {count for count in left if best % count}
    return chosen


def _elements_fine(known: Known) -> tuple[Load, ...]:
    unit = reads.unit_bytes(known.readings)
    counts = reads.possible_elements(known.readings, unit) if unit else []
    return _pairs(known, "elements-fine", [unit * count for count in counts]) if len(counts) > 1 else ()


# Times


def _sizes(known: Known) -> tuple[Load, ...]:
    """Within the first unit, at multiples of the size and at any page; then whole units."""
    unit = reads.unit_bytes(known.readings) or 64 * KIB
    elements = reads.elements(known.readings) or 8
    sizes = [size * KIB for size in (4, 8, 12, 16, 24, 32, 64, 128) if size * KIB <= unit]
    within = {"span_bytes": unit, "requests": 800}
    loads = [_read(known, "sizes", f"size-{_text(size)}", size, **within) for size in (SMALL, *sizes)]
    loads += [
        _read(known, "sizes", f"size-{_text(size)}-any", size, align_bytes=4 * KIB, **within)
        for size in sizes
        if 4 * KIB < size <= 32 * KIB and size < unit
    ]
    whole = {unit * count for count in (1, 2, 4, max(elements // 2, 1), elements)}
    loads += [
        _read(known, "sizes", f"units-{size // unit}", size, requests=600, align_bytes=unit)
        for size in sorted(whole)
        if size <= min(4096 * KIB, known.capacity_bytes // 4)
    ]
    return tuple(loads)


def _page_type_order(known: Known) -> tuple[Load, ...]:
    """The first pages of the first element, each with the first one in turn."""
    if not reads.has_page_types(known.readings) or not reads.elements(known.readings):
        return ()
    unit, elements = reads.unit_bytes(known.readings), reads.elements(known.readings)
    page, _ = reads.flash_page_bytes(known.readings, unit)
    step = unit if reads.types_by_unit(known.readings) else page
    places = [reads.row_address(row, step, unit, elements) for row in range(1, 5)]
    return tuple(
        _read(known, "order", reads.pair(place), SMALL, requests=400, align_bytes=place, span_bytes=place + 4 * KIB)
        for place in places
        if 2 * place <= known.capacity_bytes
    )


def _one_element(known: Known) -> tuple[Load, ...]:
    unit, elements = reads.unit_bytes(known.readings), reads.elements(known.readings)
    if not unit or not elements:
        return ()
    sizes = sorted({SMALL, 4 * KIB, min(16 * KIB, unit), unit})
    return tuple(
        _read(known, "one-element", f"one-{_text(size)}", size, 16, 1000, align_bytes=unit * elements) for size in sizes
    )


def _depths(known: Known) -> tuple[Load, ...]:
    depths = (2, 4, 8, 16, 32, 64, 128, 256)
    loads = [_read(known, "depths", f"read-4KiB-depth-{depth}", 4 * KIB, depth) for depth in depths]
    loads += [_read(known, "depths", f"small-depth-{depth}", SMALL, depth, 3000) for depth in (32, 256)]
    return tuple(loads)


def _channels(known: Known) -> tuple[Load, ...]:
    unit, elements = reads.unit_bytes(known.readings), reads.elements(known.readings)
    loads = [
        _read(known, "channels", f"read-{_text(size)}-depth-{depth}", size, depth, 1500)
        for size, depth in ((16 * KIB, 32), (64 * KIB, 4), (64 * KIB, 32), (1024 * KIB, 4))
    ]
    if unit and elements:
        strides = [stride for stride in range(2, elements) if elements % stride == 0 or stride in (3, 4, 5, 6, 8)]
        size = min(unit, 64 * KIB)
        loads += [
            _read(known, "channels", f"stride-{stride}", size, 32, 1000, align_bytes=unit * stride)
            for stride in strides[:10]
        ]
    return tuple(loads)


def _text(size: int) -> str:
    return f"{size}B" if size % KIB else f"{size // KIB}KiB"


def _written(loads: Callable[[Known, int, int], tuple[Load, ...]]) -> Callable[[Known], tuple[Load, ...]]:
    """Loads that depend on the program unit and the number of elements."""

    def of_structure(known: Known) -> tuple[Load, ...]:
        unit, elements = reads.unit_bytes(known.readings), reads.elements(known.readings)
        return loads(known, unit or 64 * KIB, elements or 1)

    return of_structure


STAGES: tuple[Stage, ...] = (
    Stage("types", False, _page_types),
    Stage("unit", False, _unit_coarse),
    Stage("unit-fine", False, _unit_fine("unit-fine")),
    Stage("unit-finer", False, _unit_fine("unit-finer")),
    Stage("unit-finest", False, _unit_fine("unit-finest")),
    Stage("elements", False, _elements),
    Stage("elements-fine", False, _elements_fine),
    Stage("sizes", False, _sizes),
    Stage("order", False, _page_type_order),
    Stage("one-element", False, _one_element),
    Stage("depths", False, _depths),
    Stage("channels", False, _channels),
    Stage("durable", True, _written(writes.first_loads)),
    Stage("rates", True, _written(writes.rate_loads)),
    Stage("steady", True, _written(writes.steady_loads)),
)
