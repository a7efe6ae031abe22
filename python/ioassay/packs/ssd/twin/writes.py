"""What writes tell of a drive: times, superblocks, over-provisioned space, write cache, SLC region, garbage collection.

The first load writes a few pages over and over, each time into flash: every request is one program unit, and what it
overwrites leaves superblocks without valid pages. So where the first erasure delays it, all spare superblocks are
written; how far it is to the next one is the length of a superblock; how long it takes is the erase time; and what
changes from row to row are page types. These are counts, which noise does not touch. Times are then fitted by
simulation of all early loads, and the rules of garbage collection are those whose simulated overwrite is like the one
that was measured. Nothing here measures.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ioassay._core import CoreError
from ioassay.errors import UsageError
from ioassay.packs.ssd.twin import least_squares, simulated
from ioassay.packs.ssd.twin.least_squares import Term
from ioassay.packs.ssd.twin.loads import Load, Parameter, Reading, Residual

if TYPE_CHECKING:
    from ioassay.packs.ssd.twin.battery import Known

Options = dict[str, Any]
KIB, MIB = 2**10, 2**20
PAGE = 4 * KIB
DURABLE, SLOW, OVERWRITE, FILL, LATE_FILL = "durable", "durable-stripes", "overwrite", "write-fill", "late-fill"
SIZES = (4 * KIB, 16 * KIB, 64 * KIB)
_PAGES = 4
"""That the first load writes over and over: fewer than a superblock has units."""
_MOST_SPARE = 0.75
"""Of the capacity, that the first load writes at most: more than the over-provisioned space of a drive of 40 %."""
_MOST_REGION = 0.08
_OVERWRITE_REQUESTS = 2**17
_CACHED = 1.3
"""Ratio of a write into flash to one that a cache takes, at least."""


# Loads


def first_loads(known: Known, unit_bytes: int, elements: int) -> tuple[Load, ...]:
    """The first writes behind the layout."""
    units = int(_MOST_SPARE * known.capacity_bytes / unit_bytes)
    return (
        Load(
            DURABLE,
            "durable",
            "durable",
            PAGE,
            pattern="sequential",
            span_bytes=_PAGES * PAGE,
            requests=units,
            seconds=known.budget_s / 8,
            rest_s=1.0,
            in_order=True,
        ),
    )


def rate_loads(known: Known, unit_bytes: int, elements: int) -> tuple[Load, ...]:
    """Sequential writes: what a command and a cache take, and how fast they reach flash."""

    def load(name: str, size_bytes: int, requests: int, **how: Any) -> Load:
        how = {"operation": "write", "pattern": "sequential", "seconds": 3 * known.seconds, **how}
        return Load(name, "rates", size_bytes=size_bytes, requests=requests, **how)

    stripe = elements * unit_bytes if elements * unit_bytes <= 4 * MIB else MIB
    region = max(24, int(_MOST_REGION * known.capacity_bytes / stripe))
    return (
        load(SLOW, stripe, region, operation="durable", rest_s=1.0, in_order=True),
        *(load(f"write-{size // KIB}KiB", size, MIB // 2 // size, rest_s=0.3) for size in SIZES),
        load("write-4KiB-depth-16", PAGE, 120, depth=16, rest_s=0.3),
        load("write-64KiB-depth-32", 64 * KIB, 600, depth=32, rest_s=0.3),
        load("write-4KiB-depth-256", PAGE, 4000, depth=256, rest_s=0.1),
        load(FILL, 16 * KIB, 4096, depth=8, rest_s=0.3, in_order=True),
    )


def steady_loads(known: Known, unit_bytes: int, elements: int) -> tuple[Load, ...]:
    """Random overwrites of the whole range, then loads in steady state."""
    size = PAGE
    while known.capacity_bytes // size > _OVERWRITE_REQUESTS:
        size *= 2

    def load(name: str, requests: int, **how: Any) -> Load:
        how = {"operation": "write", "size_bytes": PAGE, "seconds": 4 * known.seconds, "rest_s": 0.1, **how}
        return Load(name, "steady", requests=requests, **how)

    several = {"depth": 32, "size_bytes": size, "seconds": known.budget_s / 5, "in_order": True}
    return (
        load(OVERWRITE, 2 * known.capacity_bytes // size, **several),
        load("steady-depth-1", 3000),
        load(LATE_FILL, 4000, size_bytes=64 * KIB, depth=8, rest_s=0.5, in_order=True),
        load("steady-mixed-8", 6000, depth=8, operation="mixed", read_share=0.5),
        load("steady-mixed-1", 3000, operation="mixed", read_share=0.7),
        load("steady-mixed-64", 12000, depth=64, operation="mixed", read_share=0.5),
        load("steady-mixed-32", 6000, depth=32, operation="mixed", read_share=0.8),
    )


# What the first load shows


@dataclass(frozen=True)
class Sweep:
    """Counts in program units, of a series of single units."""

    fast: int = 0
    """Units before the level rises for good: an SLC region."""
    onset: int = 0
    """Units from there to the first that is delayed; 0: none is."""
    period: int = 0
    rows: int = 0
    """Of a superblock; 0: not told."""
    types: int = 1
    levels: tuple[float, ...] = ()
    """Of each page type, microseconds."""
    stall_us: float = 0.0
    fast_us: float = 0.0

    def plain(self, units: int) -> np.ndarray:
        """The numbers of those among the units behind the level's rise that no erasure delays."""
        number = np.arange(self.onset if self.onset > self.period else units)
        return number[(number - self.onset) % self.period > 0] if self.period else number


def sweep(latencies: np.ndarray, elements: int, types: Sequence[int] = (1, 2, 3, 4), rows: int = 0) -> Sweep:
    """What a series of durable writes of one unit each shows; `rows` of a superblock, where they are known."""
    fast = _rise(latencies, elements)
    rest = latencies[fast:]
    delayed, period = _delays(rest)
    onset = int(delayed[0]) if period else 0
    places = Sweep(fast, onset, period).plain(len(rest))
    plain = rest[places]
    rows = rows or (max(1, round(period / elements)) if period else 0)
    best, squares = [float(np.median(plain))], math.inf
    for count, cycle in _cycles(types, rows):
        of_type = (places // elements) % (cycle or len(rest)) % count
        if len(set(of_type)) < count or (cycle > 1 and count > cycle):
            continue
        levels = [float(np.median(plain[of_type == each])) for each in range(count)]
        left = float(np.minimum(np.abs(np.log(plain / np.array(levels)[of_type])), 0.5).mean())
        if count == 1 or left < 0.5 * squares - 0.005:
            best, squares, rows = levels, left, cycle
    stall_us = float(np.median(rest[delayed])) if period else 0.0
    fast_us = float(np.median(latencies[:fast])) if fast else 0.0
    return Sweep(fast, onset, period, rows, len(best), tuple(best), stall_us, fast_us)


def _cycles(types: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    """Numbers of page types, with the rows after which they begin anew: where those are not known, types tell them."""
    for count in types:
        yield count, rows
        if not rows and count > 1:
            yield from ((count, cycle) for cycle in range(count + 1, _MOST_ROWS) if cycle % count)


_MOST_ROWS = 64


def _delays(latencies: np.ndarray) -> tuple[np.ndarray, int]:
    """Which writes erasures delay, and the distance between them; of several limits the one with the most regular."""
    base = float(np.quantile(latencies[: max(12, len(latencies) // 100)], 0.98))
    tops = (float(np.quantile(latencies, max(0.5, 1 - share / len(latencies)))) for share in (2, len(latencies) // 250))
    best: tuple[float, np.ndarray, int] = (_REGULAR, np.zeros(0, int), 0)
    for limit in (1.15 * base, *(max(1.15 * base, base + 0.25 * (top - base)) for top in tops)):
        delayed = np.flatnonzero(latencies > limit)
        gaps = np.diff(delayed)
        if len(gaps) < 3:
            continue
        period = round(float(np.median(gaps)))
        regular = float((gaps == period).mean())
        if regular > best[0]:
            best = (regular, delayed, period)
    _, delayed, period = best
    if period:
        # The first of many at that distance: the host may delay one before it.
        pairs = delayed[np.isin(delayed + period, delayed)]
        delayed = delayed[delayed >= pairs[0]]
    return delayed, period


def _rise(latencies: np.ndarray, window: int) -> int:
    """Where the level rises for good by more than page types differ, or 0."""
    window = max(window, 12)
    if len(latencies) < 4 * window:
        return 0
    levels = np.array([np.median(each) for each in np.array_split(latencies, len(latencies) // window)])
    first, last = levels[0], np.median(levels[len(levels) // 2 :])
    if last < _RISE * first:
        return 0
    limit = math.sqrt(first * last)
    # The first of many that are above it.
    above = latencies > limit
    share = np.convolve(above, np.ones(window) / window, mode="full")[window - 1 :]
    return int(np.flatnonzero(above & (share > 0.7))[0])


_RISE = 2.0
_REGULAR = 0.3
"""Share of the distances between delays that are equal, at least."""


# Drives


@dataclass(frozen=True)
class _Shape:
    """The structure of the write side, in program units of an element and superblocks over all elements."""

    rows: int
    exported: int
    spare: int
    """Free superblocks of a drive that was written once, above those at which collection begins."""
    background: int = 0
    """Of those below, in which collection runs while the host writes."""
    hot_cold: bool = False
    types: int = 1
    cache: int = 0
    region: int = 0
    """Superblocks in SLC mode."""
    folding: str = "idle"
    slow: float = 1.0
    """How many times as long as in SLC mode a program operation takes, until a fit tells it."""
    has_rate: bool = False
    base: int = 0
    """Number of the read side."""

    def terms(self, limits: Mapping[str, Term]) -> tuple[Term, ...]:
        plain = (_program_term(number) for number in range(self.types))
        times = tuple(limits.get(each.name, each) for each in plain)
        found = (_COMMAND, _PER_4K, _ERASE, *times, *((_SLC_PROGRAM,) if self.region else ()))
        link = (limits["link_mb_s"],) if "link_mb_s" in limits else ()
        return (*found, *link, *((limits.get(_RATE.name, _RATE),) if self.has_rate else ()))

    def options(self, base: Mapping[str, Any], values: Mapping[str, float]) -> Options:
        """Of a drive: `min_free` keeps one superblock, because only what is above it shows."""
        unit_pages = int(base["program_unit"]) // PAGE
        low = 1 + self.hot_cold + bool(self.region)
        reserved = self.region + low + self.background + self.spare
        blocks = self.exported + reserved
        times = [values[_program_term(number).name] for number in range(self.types)]
        found: Options = {
            **base,
            **({"link_mb_s": values["link_mb_s"]} if "link_mb_s" in values else {}),
            _RATE.name: values[_RATE.name] if self.has_rate else 0.0,
            "planes": 1,
            "pages_per_block": self.rows * unit_pages,
            "blocks": blocks,
            "reserve": _share(reserved, blocks),
            "min_free": _share(1, blocks),
            "hot_cold": self.hot_cold,
            "write_cache": self.cache,
            "program_us": float(np.mean(times)),
            **{term.name: values[term.name] for term in (_COMMAND, _PER_4K, _ERASE)},
        }
        found.pop("page_type_program_us", None)
        if self.types > 1 or ("page_type_program_us" in base and len(base["page_type_program_us"]) > 1):
            wanted = max(self.types, len(base.get("page_type_program_us", ())))
            found["page_type_program_us"] = [times[number % len(times)] for number in range(wanted)]
        if self.background:
            found["background_free"] = _share(low + self.background, blocks)
        if self.region:
            found |= {
                "slc_region": self.region * (self.rows // _BITS) * int(base["elements"]) * int(base["program_unit"]),
                "bits_per_cell": _BITS,
                "slc_program_us": values[_SLC_PROGRAM.name],
                "slc_read_us": base["read_us"] * _SLC_READ,
                "slc_folding": self.folding,
                "slc_idle_us": _IDLE_US,
            }
        return found


_COMMAND = Term("command_write_us", "us", math.log(6), 1.2)
_PER_4K = Term("command_write_us_per_4k", "us/4KiB", 0.0, 1.5, is_linear=True)
_ERASE = Term("erase_us", "us", math.log(3500), 0.7)
_RATE = Term("command_rate", "commands/s", math.log(4e5), 1.0)
_SLC_PROGRAM = Term("slc_program_us", "us", math.log(120), 1.0)
_BITS, _IDLE_US, _SLC_READ = 3, 100_000.0, 0.7
"""Assumed of an SLC region: TLC flash, idle time before it is folded, and read time of that of other flash."""


def _program_term(number: int) -> Term:
    return Term(f"program {number}", "us", math.log(600), 1.0)


def _share(count: int, of: int) -> float:
    """A share that the drive rounds down to `count`."""
    return round((count + 0.5) / of, 6)


Features = dict[str, tuple[float, float]]
"""Value and relative standard error of each."""

# Loads that are judged by statistics alone, each with its error; of a series more is looked at.
_EARLY = {
    **{f"write-{size // KIB}KiB": {"p50_us": 0.02} for size in SIZES},
    "write-64KiB-depth-32": {"mean_us": 0.02},
    "write-4KiB-depth-256": {"mean_us": 0.02},
    "write-4KiB-depth-16": {"p50_us": 0.02},
}
_COLLECTING = {"steady-depth-1": {"mean_us": 0.06, "p50_us": 0.06}}
_MIXED = {
    f"steady-mixed-{depth}": {"mean_us": 0.04, "p50_us": 0.03, "p99_us": 0.06, "write_mean_us": 0.06}
    for depth in (1, 8, 64)
}


def _features(readings: Mapping[str, Reading], wanted: Mapping[str, Mapping[str, float]]) -> Features:
    return {
        f"{load} {name}": (readings[load].statistics[name], math.hypot(error, readings[load].noise.get(name, 0.0)))
        for load, statistics in wanted.items()
        for name, error in statistics.items()
        if load in readings and name in readings[load].statistics
    }


def _early_features(readings: Mapping[str, Reading], seen: Sweep, elements: int) -> Features:
    """Levels of the first loads; within a series, ratios, which a common error does not touch."""
    found = _features(readings, _EARLY)
    series = readings[DURABLE].latencies_us
    if series is not None:
        rest = series[seen.fast :]
        places = seen.plain(len(rest))
        of_type = places // elements % (seen.rows or len(rest)) % seen.types
        levels = [float(np.median(rest[places[of_type == each]])) for each in range(seen.types)]
        found[DURABLE] = (levels[0], 0.02)
        ratios = {f"type {each}": levels[each] for each in range(1, seen.types)}
        if seen.period:
            # Wherever they are: moved pages may shift them.
            count = len(rest[seen.onset :: seen.period])
            ratios["delayed"] = float(np.median(np.sort(rest)[-count:]))
        if seen.fast:
            ratios["fast"] = float(np.median(series[: seen.fast]))
        found |= {f"{DURABLE} {name}": (value / levels[0], 0.01) for name, value in ratios.items()}
    if (slow := readings.get(SLOW)) is not None and slow.latencies_us is not None:
        mean = float(slow.latencies_us.mean())
        found[SLOW] = (mean, 0.02)
        parts = np.array_split(slow.latencies_us, 3)
        found |= {f"{SLOW} part {place}": (float(part.mean()) / mean, 0.08) for place, part in enumerate(parts)}
    if (fill := readings.get(FILL)) is not None and fill.latencies_us is not None:
        found[FILL] = (float(np.median(fill.latencies_us[8:40])), 0.02)
    return found


def _collecting_features(readings: Mapping[str, Reading]) -> Features:
    """Of the overwrite: levels over its course, and of its second half the quantiles; then those of a later burst,
    which goes to what the background has made free."""
    found = _features(readings, _COLLECTING)
    latencies = readings[OVERWRITE].latencies_us
    if latencies is None:
        return found | _features(readings, {OVERWRITE: {"mean_us": 0.02, "p50_us": 0.06, "p99_us": 0.06}})
    late = latencies[len(latencies) // 2 :]
    level = float(late.mean())
    parts = [float(part.mean()) for part in np.array_split(latencies, 12)]
    quantiles = [float(np.quantile(late, share)) for share in (0.5, 0.9, 0.99)]
    burst = readings[LATE_FILL].latencies_us if LATE_FILL in readings else None
    bursts = [] if burst is None else np.split(burst, [len(burst) * share // 16 for share in (1, 2, 4, 8)])
    ratios = [(parts, 0.04), (quantiles, 0.06), ([float(part.mean()) for part in bursts if len(part)], 0.06)]
    for number, (values, error) in enumerate(ratios):
        found |= {f"late {number}.{place}": (value / level, error) for place, value in enumerate(values)}
    return found | {"late": (level, 0.03)}


def _difference(modelled: Features, measured: Features) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the ratio of those that both have, and standard errors."""
    names = [name for name in measured if name in modelled]
    both = np.array([(modelled[name][0], *measured[name]) for name in names]).reshape(-1, 3)
    return np.log(np.maximum(both[:, 0], 1e-9) / np.maximum(both[:, 1], 1e-9)), both[:, 2]


def _loss(modelled: Features, measured: Features) -> float:
    difference, errors = _difference(modelled, measured)
    return float(np.minimum((difference / errors) ** 2, _MOST_LOSS).sum())


def filled_at(latencies: np.ndarray) -> int:
    """The request from which on a write cache is full, or 0."""
    if len(latencies) < 128:
        return 0
    quiet, last = float(np.median(latencies[:32])), float(latencies[-len(latencies) // 4 :].mean())
    running = np.convolve(latencies, np.ones(8) / 8, mode="valid") > quiet * min(2.0, math.sqrt(last / quiet))
    return int(np.argmax(running)) if last > 1.3 * quiet and running.any() else 0


def _roundest(low: int, high: int) -> int:
    """The multiple of the greatest power of two between them."""
    grain = 1 << high.bit_length()
    while -(-low // grain) * grain > high:
        grain //= 2
    return -(-low // grain) * grain


# Search


class WriteSide:
    """`bases` are the options of read sides that fit about as well, the best first; `limits` its link and command rate
    as far as reads tell them: writes may tell more. `seconds` bound the search for rules of garbage collection."""

    def __init__(
        self,
        readings: Sequence[Reading],
        bases: Sequence[Mapping[str, Any]],
        capacity_bytes: int,
        seconds: float,
        limits: Sequence[Term] = (),
    ) -> None:
        self._bases = [{"copy_back": False, "endurance": 0, **base} for base in bases]
        self._base = base = self._bases[0]
        self.capacity_bytes = capacity_bytes
        self._deadline = time.process_time() + _SEARCHED * seconds
        self._elements = int(base["elements"])
        self._limits = {each.name: each for each in limits}
        self._early = {each.load.name: each for each in readings if each.load.stage in ("durable", "rates")}
        self._steady = {each.load.name: each for each in readings if each.load.stage == "steady"}
        durable, taken = (self._early[name] for name in (DURABLE, f"write-{PAGE // KIB}KiB"))
        into_flash = durable.statistics["p50_us"]
        if durable.latencies_us is not None:  # of the fastest page type, or of flash in SLC mode
            series = durable.latencies_us
            into_flash = float(min(np.quantile(series, 0.05), np.median(series[:12])))
        self._is_cached = into_flash > _CACHED * taken.statistics["p50_us"]
        self._seen = self._sweep()
        plain = self._shapes()
        self.shape, self.values = plain[0]
        self.squares = math.inf
        self.covariance: np.ndarray | None = None
        self.cache_interval: tuple[int, int] | None = None
        self.reading_rules: Options = {}
        self.of_rules: list[tuple[float, Options]] = []
        self.of_collection: dict[_Shape, float] = {}
        if OVERWRITE in self._steady and not self.shape.region:
            # With times from what was seen: they fit badly where garbage is collected otherwise.
            for number in range(2):
                if number == 0 or not self._seen.period:
                    self.shape = self._with_likely_cache(self.shape)
                if not self.shape.region:
                    self._fit_collection((0, 2) if number == 0 else _BACKGROUND)
                if number == 0:
                    self._fit_folding()
            plain = [(self.shape, self._values(self.shape))]
        self._settle([(replace(shape, base=number), values) for number in range(len(bases)) for shape, values in plain])
        if not self.shape.has_rate:
            self._settle([(self.shape, self.values), (replace(self.shape, has_rate=True), self.values)])
        for _ in range(2 if OVERWRITE in self._steady else 0):
            if self.of_collection and time.process_time() > self._deadline:
                break
            self._fit_collection()
            if self.shape.cache and self.cache_interval is None:
                self.shape, self.cache_interval = self._with_cache(self.shape, self.values, LATE_FILL)
            now = {**self.values, **self._values(self.shape)}
            self._settle([(self.shape, self.values), (self.shape, now)])
        self._optimise(self.shape, self.values, 3, final=True)
        self._fit_mixed()

    def _sweep(self) -> Sweep:
        latencies = self._early[DURABLE].latencies_us
        if latencies is None or len(latencies) < 100:
            return Sweep(levels=(self._early[DURABLE].statistics["p50_us"],))
        typed = len(self._base.get("page_type_read_us", ()))
        by_unit = "page_type_program_us" in self._base
        types = range(1, typed + 1) if by_unit else (1,) if typed > 1 else range(1, 5)
        seen = sweep(latencies, self._elements, types)
        stripes = self._early.get(SLOW)
        if seen.period or not self._is_cached or stripes is None or stripes.latencies_us is None:
            return seen
        # An erasure that is shorter than a program operation shows only where all elements are written at once.
        rows = sweep(stripes.latencies_us, 1, types).period
        return sweep(latencies, self._elements, types, rows) if rows else seen

    def _values(self, shape: _Shape) -> dict[str, float]:
        """Of the terms, from the levels that were seen. An erasure in the background goes on during a program."""
        link, channel = (PAGE / (self._base.get(name) or math.inf) for name in ("link_mb_s", "flash_channel_mb_s"))
        taken = self._early[f"write-{PAGE // KIB}KiB"].statistics["p50_us"] if self._is_cached else 3.0 + link
        levels = [max(level - taken - channel, 10.0) for level in self._seen.levels]
        # An erasure that delays nothing takes no longer than a program.
        found = {_COMMAND.name: max(taken - link, 0.3), _PER_4K.name: 0.0, _ERASE.name: 0.8 * min(levels)}
        found[_RATE.name] = 1.02 * max(each.statistics.get("iops", 1.0) for each in self._early.values())
        found |= {name: math.exp(term.centre) for name, term in self._limits.items()}
        found |= {_program_term(number).name: level for number, level in enumerate(levels)}
        found[_program_term(0).name] *= shape.slow
        if self._seen.period:
            found[_ERASE.name] = max(
                self._seen.stall_us - (0 if shape.background or shape.slow > 1 else self._seen.levels[0]), 300.0
            )
        found[_SLC_PROGRAM.name] = max(self._seen.fast_us - taken - channel, 5.0) if self._seen.fast else levels[0]
        return found

    def _exported(self, rows: int) -> int:
        return max(4, math.ceil(self.capacity_bytes / (rows * self._elements * int(self._base["program_unit"])) - 1e-6))

    def _shapes(self) -> list[tuple[_Shape, dict[str, float]]]:
        """Structures that the first load may be of, with values of the terms."""
        seen = self._seen
        cache = self._first_cache() if self._is_cached else 0
        rows = seen.rows or max(1, round(self._exported(1) / 100))
        spare = (seen.onset - 1) // seen.period + 1 if seen.period else max(4, round(0.15 * self._exported(rows)))
        exported = self._exported(rows)
        region = round(seen.fast / (max(1, rows // _BITS) * self._elements)) if rows >= _BITS else 0
        told = _RATE.name in self._limits
        plain = _Shape(rows, exported, max(4, spare), types=seen.types, cache=cache, region=region, has_rate=told)
        several = [replace(plain, background=number) for number in (0, 1, 2)]
        return [(each, self._values(each)) for each in several]

    def _fit_folding(self) -> None:
        """Whether all units go to an SLC region first: pages that are written over and over leave nothing to fold."""
        seen, plain, slow = self._seen, self.shape, self._early.get(SLOW)
        if seen.fast or not seen.period or slow is None or self.of_collection[plain] < _BAD:
            return
        most, rows = (seen.onset - 1) // seen.period + 1, seen.rows * _BITS
        if most * seen.period * int(self._base["program_unit"]) > 0.8 * slow.requests * slow.load.size_bytes:
            return  # larger than what the stripes could fill
        exported = self._exported(rows)
        best = replace(
            plain,
            rows=rows,
            exported=exported,
            spare=max(4, round(0.2 * exported)),
            region=most,
            folding="full",
            types=1,
        )
        best = replace(best, background=0, hot_cold=False, slow=4.0)
        choices: Mapping[str, Sequence[Any]] = {
            "region": sorted({most, *range(1, most, max(1, most // 6))}),
            "slow": (3.0, 5.0, 7.0),
            "spare": [max(4, round(exported * share)) for share in (0.04, 0.06, 0.12, 0.2)],
            "folding": ("both",),
            "hot_cold": (True,),
            "background": (1, 3),
            "rows": (rows + 1, rows + 2),
        }
        for _ in range(2):
            best = self._with_likely_cache(best)
            for name, values in choices.items():
                others = [replace(best, **{name: value}) for value in values]
                if name == "rows":
                    others = [self._of_rows(best, count) for count in values]
                best = self._least([best, *others], self._loss_of)
        if self._loss_of(best) < _MUCH_BETTER * self.of_collection[plain]:
            self.shape = best
            name = _program_term(0).name
            self._limits[name] = replace(_program_term(0), centre=math.log(self._values(best)[name]), spread=0.2)

    def _of_rows(self, shape: _Shape, rows: int) -> _Shape:
        """The same capacity in other rows of a superblock, and a time of programs that goes with them."""
        spare = max(4, round(shape.spare * shape.rows / rows))
        values, other = self._values(shape), replace(shape, rows=rows, exported=self._exported(rows), spare=spare)
        name = _program_term(0).name
        slower = self._with_rows(shape.rows, other, values)[name] / values[name]
        return replace(other, slow=round(shape.slow * slower, 2))

    def _with_likely_cache(self, shape: _Shape) -> _Shape:
        """With the cache of which early loads are least off, at times from what was seen."""
        if not shape.cache:
            return shape
        sizes = [shape.cache, *(part * MIB // 8 << power for power in range(10) for part in (2, 3))]
        caches = [replace(shape, cache=size) for size in sizes]
        return min(caches, key=lambda each: self._unlike(each, self._values(each)))

    def _first_cache(self) -> int:
        """What it takes beyond what leaves it meanwhile, bytes; a large one where nothing fills it."""
        unit, fill = int(self._base["program_unit"]), self._early.get(FILL)
        if fill is None or fill.latencies_us is None or not (filled := filled_at(fill.latencies_us)):
            return max(32 * MIB, unit)
        share = 1 - float(fill.latencies_us[:filled].mean() / fill.latencies_us[filled:].mean())
        return max(unit, int(filled * fill.load.size_bytes * max(share, 0.1)) // PAGE * PAGE)

    def _run(self, shape: _Shape, values: Mapping[str, float], readings: Mapping[str, Reading]) -> Any:
        """The readings of a drive of this shape, and the drive behind them; None where there can be none."""
        try:
            target = simulated.SimulatedTarget(shape.options(self._bases[shape.base], values), seed=3)
            found = target.run([_again(each) for each in readings.values()])
            return {each.load.name: each for each in found}, target
        except (CoreError, UsageError):
            return None

    def _seen_of(self, shape: _Shape) -> Sweep:
        """What the first load shows of a drive of that shape."""
        return replace(self._seen, types=1) if shape.region and shape.folding != "idle" else self._seen

    def _residuals(self, shape: _Shape, at: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        values = {term.name: term.value(each) for term, each in zip(shape.terms(self._limits), at, strict=True)}
        run = self._run(shape, values, self._early)
        if run is None:
            return None
        seen = self._seen_of(shape)
        return _difference(
            _early_features(run[0], seen, self._elements), _early_features(self._early, seen, self._elements)
        )

    def _unlike(self, shape: _Shape, values: Mapping[str, float]) -> float:
        """How far the early loads are off."""
        found = self._residuals(shape, _coordinates(shape.terms(self._limits), values))
        return math.inf if found is None else float(np.minimum(np.abs(found[0] / found[1]), 50).sum())

    def _optimise(self, shape: _Shape, values: Mapping[str, float], steps: int, *, final: bool = False) -> None:
        terms = shape.terms(self._limits)
        start = _coordinates(terms, values)
        at, self.squares, self.covariance = least_squares.minimise(
            lambda each: self._residuals(shape, each), start, terms, steps, final=final
        )
        self.shape = shape
        self.values = {**values, **{term.name: term.value(each) for term, each in zip(terms, at, strict=True)}}

    def _settle(self, starts: Sequence[tuple[_Shape, dict[str, float]]]) -> None:
        """The best of some structures, first the cache of each, then the times: its size changes how they fit."""
        found = []
        for shape, values in starts:
            interval = None
            if shape.folding == "idle":  # otherwise a start is too far off to tell the cache
                shape, interval = self._with_cache(shape, values, FILL)
            self._optimise(shape, values, 3)
            worth = _WORTH * (bool(shape.region) + shape.has_rate)
            found.append((worth, self.squares, self.shape, self.values, interval or self.cache_interval))
            # The size again, with these times.
            shape, interval = self._with_cache(self.shape, self.values, FILL)
            if interval is not None and shape != self.shape:
                self._optimise(shape, self.values, 2)
                found.append((worth, self.squares, self.shape, self.values, interval))
        _, self.squares, self.shape, self.values, self.cache_interval = min(found, key=lambda each: each[0] + each[1])

    def _with_cache(
        self, shape: _Shape, values: Mapping[str, float], name: str
    ) -> tuple[_Shape, tuple[int, int] | None]:
        """With the cache whose filling is as far as that of the load `name`, and bounds of its size."""
        reading = (self._early if name == FILL else self._steady).get(name)
        if not shape.cache or reading is None or reading.latencies_us is None:
            return shape, None
        measured = reading.latencies_us
        if not (wanted := filled_at(measured)):
            return shape, None
        loads = self._early if name == FILL else {**self._early, **self._steady}
        unit = int(self._base["program_unit"])

        def series(size: int) -> np.ndarray | None:
            run = self._run(replace(shape, cache=size), values, loads)
            return run[0][name].latencies_us if run else None

        def reached(size: int) -> float:
            found = series(size)
            return (filled_at(found) or math.inf) if found is not None else math.inf

        def unlike(size: int) -> float:
            """How the course differs, whatever factor all latencies have in common."""
            found = series(size)
            if found is None:
                return math.inf
            at = np.geomspace(8, min(len(found), len(measured)) - 1, 24).astype(int)
            return float(np.std(np.log(np.cumsum(found)[at] / np.cumsum(measured)[at])))

        low, high = unit, max(2 * unit, wanted * reading.load.size_bytes)
        while high > low * 1.02 + PAGE:
            middle = int(math.sqrt(low * high)) // PAGE * PAGE
            if middle in (low, high):
                break
            low, high = (middle, high) if reached(middle) < wanted else (low, middle)
        # Erasures meanwhile move the point at which it is full: sizes near it, of few digits, are compared as well.
        grain = 1 << max(high.bit_length() - 3, 12)
        near = {
            high,
            *(size for size in range(grain, 2 * high, grain) if 0.7 * high < size < 1.4 * high and size >= unit),
        }
        found = {size: unlike(size) for size in near}
        least = 1.3 * min(found.values()) + 0.012
        best = max((size for size in near if found[size] <= least), key=lambda size: (size & -size, -found[size]))
        margin = reading.load.size_bytes + int(0.015 * best)
        interval = (max(unit, best - margin), best + margin)
        other = replace(shape, cache=_roundest(*interval))
        if self._unlike(shape, values) < 0.5 * self._unlike(other, values):
            return shape, None  # erasures hide where it is full
        return other, interval

    def _loss_of(self, shape: _Shape) -> float:
        """How far the early loads and those that collect garbage are off."""

        def features(readings: Mapping[str, Reading]) -> Features:
            return _collecting_features(readings) | _early_features(readings, seen, self._elements)

        if shape not in self.of_collection:
            values, seen = self._values(shape), self._seen_of(shape)
            if math.isfinite(self.squares) and bool(shape.background) == bool(self.shape.background):
                values = self._with_rows(self.shape.rows, shape, self.values)
            loads = {**self._early, **self._before_mixed()}
            run = self._run(shape, values, loads)
            self.of_collection[shape] = _loss(features(run[0]), features(loads)) if run else math.inf
        return self.of_collection[shape]

    def _with_rows(self, before: int, shape: _Shape, values: dict[str, float]) -> dict[str, float]:
        """Of a region that all writes go to: what a unit takes has a share of an erasure, by the number of rows."""
        name = _program_term(0).name
        if not shape.region or shape.rows == before:
            return values
        return {**values, name: max(values[name] + values[_ERASE.name] * (1 / before - 1 / shape.rows), 10.0)}

    def _fit_collection(self, backgrounds: Sequence[int] = (0,)) -> None:
        """Whether and when it runs in the background, and whether moved pages have superblocks of their own."""
        if math.isfinite(self.squares):  # what is known holds for other times
            self.of_collection = {}
        loss = self._loss_of
        is_told = bool(self._seen.period) and (not self.shape.region or self.shape.folding == "idle")
        start = self.shape
        grid = [replace(start, hot_cold=hot, background=number) for number in backgrounds for hot in (False, True)]
        if math.isfinite(self.squares):
            grid = [start]
        elif not is_told:
            spacious = [self._spacious(start, start.rows, share) for share in _SPARE]
            start = self._least((replace(each, background=number) for each in spacious for number in (3, 0, 9)), loss)
            share = start.spare / start.exported
            start = self._least((start, *(self._spacious(start, rows, share) for rows in self._rows())), loss)
            grid = [replace(start, hot_cold=hot) for hot in (False, True)]
        best = self._least(grid, loss)
        loss(best)
        improves = not is_told or math.isfinite(self.squares)
        while improves and time.process_time() < self._deadline:
            improves = False
            for change in self._changes(best, is_told):
                if loss(change) < loss(best) - 1e-9 and time.process_time() < self._deadline:
                    best, improves = change, True
        self.shape = best

    def _least(self, shapes: Iterable[_Shape], loss: Callable[[_Shape], float]) -> _Shape:
        """The best of those for which there is time, or the first."""
        several = iter(shapes)
        best = next(several)
        for shape in several:
            if time.process_time() > self._deadline:
                break
            best = min(best, shape, key=loss)
        return best

    def _rows(self) -> list[int]:
        """Of a superblock: as many as some numbers of superblocks have, where nothing tells them."""
        if self._seen.rows or self.shape.region:
            return [self.shape.rows]
        return sorted({max(1, round(self._exported(1) / number)) for number in _SUPERBLOCKS})

    def _spacious(self, shape: _Shape, rows: int, share: float) -> _Shape:
        exported = self._exported(rows)
        return replace(shape, rows=rows, exported=exported, spare=max(4, round(exported * share)))

    def _changes(self, shape: _Shape, is_told: bool) -> list[_Shape]:
        found = [replace(shape, background=shape.background + step) for step in (1, -1, 3)]
        found.append(replace(shape, hot_cold=not shape.hot_cold))
        if not is_told:
            found += [replace(shape, spare=shape.spare + step, background=shape.background - step) for step in (1, -1)]
            found += [replace(shape, spare=shape.spare + step, background=shape.background - step) for step in (4, -4)]
            steps = sorted({max(1, round(shape.spare * share)) for share in (0.1, 0.03)} | {1}, reverse=True)
            found += [replace(shape, spare=shape.spare + sign * step) for step in steps for sign in (1, -1)]
            if shape.region and shape.folding != "idle":
                found += [replace(shape, region=region) for region in (shape.region - 1, shape.region + 1) if region]
                found.append(replace(shape, folding="both" if shape.folding == "full" else "full"))
            if shape.region:
                several = (shape.rows // _BITS * _BITS + rest for rest in range(_BITS))
                found += [self._of_rows(shape, rows) for rows in several]
        return [each for each in found if each.background >= 0 and each.spare >= 4]

    def _fit_mixed(self) -> None:
        """Whether reads go before writes, and suspend them, and how long that takes."""
        wanted = _features(self._steady, _MIXED)
        run = self._run(self.shape, self.values, {**self._early, **self._before_mixed()})
        if not wanted or run is None:
            return
        loads = [_again(each) for name, each in self._steady.items() if name in _MIXED]

        def loss(rules: Options) -> float:
            target = run[1].copy()
            target.set_timing(rules)
            return _loss(_features({each.load.name: each for each in target.run(loads)}, _MIXED), wanted)

        def suspended(count: int) -> tuple[float, Options]:
            """By a grid that gets finer, because the loss is not smooth."""
            found: dict[float, float] = {}
            tried, step = list(_SUSPENSION_US), _SUSPENSION_US[1] / _SUSPENSION_US[0]
            while step > _FINEST_STEP:
                for time_us in set(tried) - found.keys():
                    found[time_us] = loss({**_suspending(count), "suspend_us": time_us})
                step = math.sqrt(step)
                tried = [min(found, key=found.__getitem__) * factor for factor in (step, 1 / step)]
            least = min(found, key=found.__getitem__)
            return found[least] + 3, {**_suspending(count), "suspend_us": least}

        simple: list[Options] = [{"read_priority": False}, {"read_priority": True}]
        found = [*((loss(rules), rules) for rules in simple), *(suspended(count) for count in (1, 2, 3, 5, 8))]
        self.of_rules = sorted(found, key=lambda each: each[0])
        self.reading_rules = self.of_rules[0][1]

    # Results

    def options(self) -> Options:
        return {**self.shape.options(self._bases[self.shape.base], self.values), **self.reading_rules}

    def residuals(self) -> list[Residual]:
        """Of the loads that were fitted, then of those held out."""
        run = self._run(self.shape, self.values, {**self._early, **self._before_mixed()})
        if run is None:
            return []
        found, target = run
        target.set_timing(self.reading_rules)
        rest = [each for name, each in self._steady.items() if name not in found]
        found |= {each.load.name: each for each in target.run([_again(each) for each in rest])}
        return [
            Residual(measured.load, name, measured.statistics[name], found[load].statistics[name], load not in HELD_OUT)
            for load, measured in {**self._early, **self._steady}.items()
            if load in found and load != FILL
            for name in ("mean_us", "p50_us", "p99_us")
            if measured.statistics.get(name, 0) > 0
        ]

    def parameters(self) -> list[Parameter]:
        return [*self._structure(), *self._times(), *self._rules()]

    def _structure(self) -> list[Parameter]:
        shape, seen, base = self.shape, self._seen, self._base
        row_bytes = self._elements * int(base["program_unit"])
        by_onset = bool(seen.period) and (not shape.region or shape.folding == "idle")
        low, high = self.cache_interval or (None, None)
        told = not shape.cache or low is not None
        full = "writes that come faster than they reach flash: none here filled a cache"
        found = [
            Parameter(
                *("write_cache", shape.cache, "B", "yes" if told else "no", low, high),
                evidence=(FILL,),
                needs="" if told else full,
            ),
            Parameter(
                *("superblock", shape.rows * row_bytes, "B", "combination" if seen.rows else "assumed"),
                options=("blocks", "pages_per_block", "planes"),
                evidence=(DURABLE,),
                needs="" if seen.rows else "durable writes until erasures delay them: a longer --budget",
            ),
        ]
        near, share = self._near(), (shape.spare + shape.background) / shape.exported
        ties: tuple[str, ...] = ("reserve", "min_free", "background_free")
        if not self.of_collection:
            needs = "random overwrites of the whole range"
            found.append(Parameter("spare share", share, "", "assumed", options=ties, needs=needs))
        else:
            spares = [(each.spare + each.background) / each.exported for each in near]
            off = (0.5 if by_onset else 1.0) / shape.exported
            bounds = (min(spares) - off, max(spares) + off)
            found.append(Parameter("spare share", share, "", "combination", *bounds, ties, (DURABLE, OVERWRITE)))
            numbers = [each.background for each in near]
            bounds = (min(numbers), max(numbers))
            evidence, ties = (OVERWRITE,), ties[1:]
            name = "background superblocks"
            found.append(Parameter(name, shape.background, "", "combination", *bounds, ties, evidence))
            alike = len({each.hot_cold for each in near}) > 1
            found.append(Parameter("hot_cold", shape.hot_cold, "", "no" if alike else "yes", evidence=evidence))
        if shape.region:
            region = shape.region * (shape.rows // _BITS) * row_bytes
            bounds = (region - row_bytes, region + row_bytes)
            found.append(Parameter("slc_region", region, "B", "yes", *bounds, evidence=(DURABLE, SLOW)))
            found.append(Parameter("slc_folding", shape.folding, "", "yes", evidence=(DURABLE, SLOW)))
        return found

    def _near(self) -> list[_Shape]:
        """Rules of garbage collection that fit nearly as well."""
        if not self.of_collection:
            return [self.shape]
        least = min(self.of_collection.values())
        return [each for each, loss in self.of_collection.items() if loss < least + 2 * _WORTH]

    def _times(self) -> list[Parameter]:
        assert self.covariance is not None
        found = []
        for place, term in enumerate(self.shape.terms(self._limits)):
            value, low, high = least_squares.interval(
                term, _coordinate(term, self.values[term.name]), math.sqrt(self.covariance[place, place])
            )
            name = term.name
            if name.startswith("program "):
                name = "program_us" if self.shape.types == 1 else f"page_type_program_us {name[8:]}"
            told = least_squares.is_told(term, value, low, high) and (term is not _ERASE or bool(self._seen.rows))
            needs = "" if told else "more writes, with less noise"
            found.append(Parameter(name, value, term.unit, "yes" if told else "no", low, high, needs=needs))
        return found

    def _rules(self) -> list[Parameter]:
        """Of reads mixed with writes."""
        if not self.of_rules:
            return []
        least, rules = self.of_rules[0]
        near = [each for loss, each in self.of_rules if loss < 1.3 * least + 2 * _WORTH]
        found = []
        for name, value in rules.items():
            others = [each.get(name, 0) for each in near]
            is_time = name == "suspend_us"
            told = all(each == value for each in others)
            needs = "" if told else "reads with more writes"
            low, high = (min(others), max(others)) if is_time else (None, None)
            found.append(
                Parameter(name, value, "us" if is_time else "", "yes" if told else "no", low, high, needs=needs)
            )
        return found

    def _before_mixed(self) -> dict[str, Reading]:
        return {name: each for name, each in self._steady.items() if name in _BEFORE_MIXED}


_BEFORE_MIXED = (OVERWRITE, "steady-depth-1", LATE_FILL)
HELD_OUT = frozenset({"steady-mixed-32"})
MOST_SQUARES = 300.0
"""Of the early loads, of a drive that writes as the model does: of 12 to 20 statistics."""


def is_told_by(readings: Sequence[Reading]) -> bool:
    """Whether they have what the write side needs at least."""
    return {DURABLE, f"write-{PAGE // KIB}KiB"} <= {each.load.name for each in readings}


def _again(reading: Reading) -> Load:
    return replace(reading.load, requests=reading.requests)


_BACKGROUND = (0, 1, 2, 4, 7)
_SEARCHED = 0.7
"""Of the time for a fit, for the search of rules: the rest is for the times that follow."""
_SPARE = (0.15, 0.22, 0.1, 0.3, 0.06, 0.4)
_SUPERBLOCKS = (60, 80, 110, 150, 200, 260)
_WORTH = 6.0
"""Of squares, that an SLC region has to save, and within twice of which alternatives are about as good."""
_BAD, _MUCH_BETTER = 100.0, 0.7
"""A loss beyond that of noise; and the share of it with which a region that all writes go to is likelier."""
_MOST_LOSS = 50.0
"""Of one statistic: chance in the order of stalls can make it large."""
_SUSPENSION_US = (6.0, 12.0, 24.0, 48.0, 96.0)
_FINEST_STEP = 1.06


def _suspending(count: int) -> Options:
    return {"read_priority": True, "program_suspensions": count}


def _coordinates(terms: Sequence[Term], values: Mapping[str, float]) -> np.ndarray:
    return np.array([_coordinate(term, values[term.name]) for term in terms])


def _coordinate(term: Term, value: float) -> float:
    return value if term.is_linear else math.log(max(value, 1e-6))
