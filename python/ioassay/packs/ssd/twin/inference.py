"""From readings to a description: structure by rules (`reads`), times by simulation, and intervals for both.

The times are fitted by Gauss-Newton on the logarithms of the statistics, with their noise and that of sampling as
weights; discrete alternatives (flash channels, limits that a drive may lack) are fitted in turn and compared. Weak
log-normal priors keep what the readings do not tell within the range of drives, so that its interval is that range.
Nothing here measures.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ioassay._core import CoreError
from ioassay.errors import InputError, UsageError
from ioassay.packs.ssd.twin import least_squares, reads, simulated, writes
from ioassay.packs.ssd.twin.least_squares import Term
from ioassay.packs.ssd.twin.loads import Fit, Identified, Load, Parameter, Reading, Residual, by_name, plain

PAGE = 4096
MODEL_BYTES = 128 << 20
"""Capacity of the drive that reads are simulated on: they depend little on it."""
NOISE, _MEAN_NOISE = 0.02, 0.005
"""Relative standard errors of quantiles and means that have none: a quantile lies in a bin, a mean averages."""
FLOOR = 0.004
"""Least relative error of a statistic: of the simulation's own seed."""
_STATISTICS = ("mean_us", "p50_us", "p99_us")
_WORTH = 6.0
"""Of squares, that an alternative with one more parameter has to save."""
_MISFIT_ERROR, _MISFIT_SHARE = 0.05, 0.15
_PROGRAM_US = 500.0
_WRITES = {"program_us": _PROGRAM_US, "erase_us": 3500.0, "command_write_us": 8.0, "write_cache": 2 << 20}
"""Usual values of TLC flash behind a write cache: no reading that is used here depends on them."""
_MOST_PAIRS = 12
HELD_OUT = frozenset(
    {"read-4KiB-depth-4", "read-4KiB-depth-64", "read-16KiB-depth-32", "read-64KiB-depth-4", "units-2"}
)
"""Loads of the battery that no fit sees: they say how good it is."""
_FEW = 24
"""Readings below which all are fitted."""
_MORE = 8
"""Times as many requests, in the last fit of few readings."""
_SEEDS = 3
"""Of the simulations that tell how much a statistic varies by itself."""
_CHANNELS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
_ELEMENTS = (2, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128)


def geometry(
    capacity_bytes: int, elements: int, unit_bytes: int, reserve: float = 0.1, *, types: int = 1
) -> dict[str, Any]:
    """Options of a drive that exports at least that capacity, and hardly more, in about 64 superblocks or more.

    A block has a multiple of `types` program units, so that each page type is as frequent as another.
    """
    unit = max(unit_bytes // PAGE, 1) * types
    raw_pages = capacity_bytes / PAGE / (1 - reserve)
    blocks = max(64, math.ceil(8 / reserve))
    pages_per_block = max(1, round(raw_pages / elements / blocks / unit)) * unit
    blocks = max(math.ceil(raw_pages / elements / pages_per_block), math.ceil(8 / reserve))
    return {
        "page": PAGE,
        "elements": elements,
        "planes": 1,
        "dies": 1,
        "blocks": blocks,
        "pages_per_block": pages_per_block,
        "reserve": reserve,
        "min_free": max(0.02, 1.5 / blocks),
        "copy_back": False,
        "endurance": 0,
        "spare_bytes": 0,
        "channel_us_per_sector": 0.0,
        "transfer_us_per_byte": 0.0,
    }


def fit(readings: Sequence[Reading], *, capacity_bytes: int | None, laid_out: bool, seconds: float = 60.0) -> Fit:
    """A description of the drive that gave these readings.

    `laid_out`: whether it was written in sequence before the reads; only then addresses tell the structure. `seconds`
    bound the search for alternatives. Raises InputError where no load is one that a model answers.
    """
    deadline = time.process_time() + seconds
    usable = [reading for reading in readings if reading.statistics and not reading.is_host_bound]
    of_reads = [reading for reading in usable if reading.load.operation == "read" and not reading.load.begin_bytes]
    plain_writes = {load for load in plain(each.load for each in usable) if load.operation == "write"}
    of_writes = [] if laid_out else [each for each in usable if each.load in plain_writes]
    sides: list[_ReadSide] = []
    if of_reads:
        fastest = max(
            (each.statistics.get("iops", 0.0) for each in usable if each.load.operation != "read"), default=0.0
        )
        sides.append(_ReadSide(of_reads, laid_out=laid_out, deadline=deadline, written_per_s=fastest))
    if of_writes:
        sides.append(_PlainWrites(of_writes, deadline=deadline))
    if not sides:
        raise InputError("no load of the drive can be used; expected closed loops that the host did not limit")
    options = dict(_WRITES)
    for side in reversed(sides):  # what reads tell of the structure holds for both
        options |= side.options(capacity_bytes or (_ROOM if of_writes else 1 << 30))
    parameters = [parameter for side in sides for parameter in side.parameters()]
    residuals = [residual for side in sides for residual in side.residuals()]
    misfit = next((found for side in sides if (found := side.misfit())), "")
    if sides[0].is_told and capacity_bytes and not misfit and writes.is_told_by(usable):
        left = max(deadline - time.process_time(), seconds / 3)
        options, parameters, residuals = _with_writes(usable, sides[0], capacity_bytes, left)
    return Fit(options, tuple(parameters), tuple(residuals), misfit)


def _with_writes(
    usable: Sequence[Reading], found: _ReadSide, capacity_bytes: int, seconds: float
) -> tuple[dict[str, Any], list[Parameter], list[Residual]]:
    """The battery's writes as well, which tell more of the link, the command rate and the channels than reads do.

    Writes that the model does not give stay assumed.
    """
    limits = [
        replace(term, centre=math.log(each.value), spread=least_squares.error_of(each.low, each.high))
        for term in (_LINK, _RATE)
        for each in found.parameters()
        if each.name == term.name and isinstance(each.value, float) and (term is _LINK or each.identified == "yes")
    ]
    states = found.alternatives()
    bases = [{**_WRITES, **found.options(capacity_bytes, each)} for each in states]
    side = writes.WriteSide(usable, bases, capacity_bytes, seconds, limits)
    if side.squares > writes.MOST_SQUARES:
        return bases[0], found.parameters(), found.residuals()
    if side.shape.base:
        found.choose(states[side.shape.base])
    told = side.parameters()
    again = {each.name for each in told} | {_RATE.name}
    parameters = [each for each in found.parameters() if each.name not in again] + told
    return side.options(), parameters, found.residuals() + side.residuals()


# What is fitted


_COMMAND = Term("command_read_us", "us", math.log(6), 1.2)
_PER_4K = Term("command_read_us_per_4k", "us/4KiB", 0.0, 1.5, is_linear=True)
_CHANNEL = Term("flash_channel_mb_s", "MB/s", math.log(600), 0.8)
_LINK = Term("link_mb_s", "MB/s", math.log(2500), 0.8)
_RATE = Term("command_rate", "commands/s", math.log(4e5), 1.0)
_SMALL = Term("small read share", "", math.log(0.85), 0.3)


def _read_term(number: int) -> Term:
    return Term(f"read {number}", "us", math.log(60), 1.0)


@dataclass(frozen=True)
class _Structure:
    elements: int
    unit: int
    page: int
    types: tuple[int, ...] = (0,)
    """For each page type, the number of its read time."""
    channels: int = 0
    by_unit: bool = False
    """Whether a type is that of a whole program unit."""
    has_rate: bool = False
    has_small: bool = False
    has_per_4k: bool = True

    @property
    def terms(self) -> tuple[Term, ...]:
        optional = ((self.has_per_4k, _PER_4K), (self.has_rate, _RATE), (self.has_small, _SMALL))
        times = tuple(_read_term(number) for number in range(max(self.types) + 1))
        return (_COMMAND, _CHANNEL, _LINK, *times, *(term for has, term in optional if has))

    def options(self, values: Mapping[str, float]) -> dict[str, Any]:
        times = [values[_read_term(number).name] for number in self.types]
        found: dict[str, Any] = {
            "program_unit": self.unit,
            "flash_page": self.page,
            "read_us": float(np.mean(times)),
            "flash_channels": self.channels,
            **{term.name: values.get(term.name, 0.0) for term in (_COMMAND, _PER_4K, _RATE, _CHANNEL, _LINK)},
        }
        if len(times) > 1:
            found["page_type_read_us"] = times
        if len(times) > 1 and self.by_unit:
            found["page_type_program_us"] = [_PROGRAM_US] * len(times)
        if self.has_small:
            found["small_read_us"] = [each * values[_SMALL.name] for each in times]
        return found


@dataclass
class _Point:
    reading: Reading
    statistics: dict[str, float] = field(default_factory=dict)
    """Logarithms of what was measured."""

    def __post_init__(self) -> None:
        given, load = self.reading.statistics, self.reading.load
        is_pair, is_stalled = load.name.startswith(("pair-", "place-")), reads.is_stalled(self.reading)
        # Two page types make the median of a pair one or the other.
        names = ("mean_us",) if is_pair else ("p50_us",) if is_stalled else _STATISTICS
        for name in () if is_pair and is_stalled else names:
            if given.get(name, 0) > 0:
                self.statistics[name] = math.log(given[name])
        if not {"mean_us", "p50_us"} & self.statistics.keys() and given.get("iops", 0) > 0 and not is_stalled:
            self.statistics["mean_us"] = math.log(load.depth / given["iops"] * 1e6)

    @property
    def typical_us(self) -> float:
        """Its mean, or the median where that is better."""
        return math.exp(self.statistics.get("mean_us", next(iter(self.statistics.values()))))


@dataclass
class _State:
    """A structure with the values that fit best, and how well they do."""

    structure: Any
    """A `_Structure` or a `_WriteStructure`."""
    coordinates: np.ndarray
    squares: float = math.inf
    covariance: np.ndarray | None = None

    @property
    def values(self) -> dict[str, float]:
        terms = self.structure.terms
        return {term.name: term.value(each) for term, each in zip(terms, self.coordinates, strict=True)}

    def with_structure(self, structure: _Structure, start: Mapping[str, float] = {}) -> _State:
        known = {term.name: each for term, each in zip(self.structure.terms, self.coordinates, strict=True)} | dict(
            start
        )
        return _State(structure, np.array([known.get(term.name, term.centre) for term in structure.terms]))


class _ReadSide:
    """`written_per_s`: the most commands that other loads reached, which a limit of commands allows."""

    def __init__(
        self, readings: Sequence[Reading], *, laid_out: bool, deadline: float, written_per_s: float = 0.0
    ) -> None:
        self._deadline, self._share, self._written_per_s = deadline, 1, written_per_s
        self._readings = by_name(readings)
        self.is_told = False
        self._drives: dict[Any, tuple[Any, list[dict[str, np.ndarray]]]] = {}
        self._variation: np.ndarray | None = None
        unit = reads.unit_bytes(self._readings) if laid_out else 0
        elements = reads.elements(self._readings) if unit else 0
        stages = {each.load.stage for each in readings}
        # The stages behind the pairs ran, so that nothing cut the pairs short, and no stalls of the host hide them.
        self._is_complete = laid_out and {"unit", "sizes"} <= stages and reads.are_precise(self._readings)
        held = [each for each in readings if each.load.name in HELD_OUT]
        fitted = [each for each in readings if each.load.name not in HELD_OUT or len(readings) < _FEW]
        several = [_Point(each) for each in self._fitted(fitted, bool(elements))]
        self._points = [each for each in several if each.statistics]
        self._held_out = [_Point(each) for each in held if len(readings) >= _FEW]
        if unit and elements:
            self.is_told = True
            page, _ = reads.flash_page_bytes(self._readings, unit)
            by_unit = reads.has_page_types(self._readings) and reads.types_by_unit(self._readings)
            types = self._types(unit if by_unit else page or PAGE, unit, elements)
            state = self._first(_Structure(elements, unit, page or PAGE, types, by_unit=by_unit))
            self._measure_variation(state)
        else:
            state = self._without_structure()
            self._measure_variation(state)
        state = self._alternatives(state)
        if len(self._points) <= _FEW:  # so few that more requests of each are cheap
            self._share = _MORE
            self._drives.clear()
            self._measure_variation(state)
            state = self._optimise(state, 3)
            state = state if self.is_told else self._near_elements(state)
        self.state = self._optimise(state, 4, final=True)

    def _fitted(self, readings: Sequence[Reading], told: bool) -> Iterable[Reading]:
        """Some pairs only, and no far ones where there are page types: of which type such a page is, is not known."""
        several = reads.has_page_types(self._readings)
        pairs = 0
        for reading in readings:
            load = reading.load
            if load.align_bytes + load.size_bytes > MODEL_BYTES // 2:
                continue
            if load.name.startswith("pair-") and load.stage != "order":
                pairs += 1
                if not told or pairs > _MOST_PAIRS or (several and load.stage.startswith("elements")):
                    continue
            yield reading

    # Page types

    def _times(self) -> list[float]:
        """The mode of each page type at depth 1, ascending."""
        small = self._readings.get("small-depth-1") or self._readings.get("read-4KiB-depth-1")
        return reads.type_values(reads.modes(small)) if small is not None else [60.0]

    def _types(self, page: int, unit: int, elements: int) -> tuple[int, ...]:
        """For each flash page from the first, the number of its read time."""
        values = self._times()
        distinct = sorted(set(values))
        ordered = tuple(distinct.index(value) for value in values)
        place = self._readings.get(reads.SINGLE)
        if len(values) == 1 or place is None:
            return ordered
        first = reads.mean_us(place)
        seen = [first]
        for row in range(1, len(values)):
            both = self._readings.get(reads.pair(reads.row_address(row, page, unit, elements)))
            if both is None:
                return ordered
            seen.append(2 * reads.mean_us(both) - first)
        ranks = np.argsort(np.argsort(seen))
        return tuple(int(ordered[rank]) for rank in ranks)

    def _first(self, structure: _Structure) -> _State:
        """Command time from the address that is read over and over, with and without a queue."""
        alone, queued = (self._readings.get(name) for name in (reads.SINGLE, reads.SINGLE + reads.QUEUED))
        fixed = 6.0
        if alone is not None and queued is not None:
            fixed = max(reads.mean_us(alone) - reads.mean_us(queued) / queued.load.depth, 0.5)
        distinct = sorted(set(self._times()))
        start = {_COMMAND.name: math.log(fixed)}
        for number in range(max(structure.types) + 1):
            value = distinct[min(number, len(distinct) - 1)] - fixed
            start[_read_term(number).name] = math.log(max(value, 1.0))
        start[_LINK.name] = max(_LINK.centre, math.log(self._bandwidth() * 1.05))
        return _State(structure, np.array([start.get(term.name, term.centre) for term in structure.terms]))

    def _bandwidth(self) -> float:
        """The most that was read, MB/s."""
        return max(each.reading.load.size_bytes * each.reading.load.depth / each.typical_us for each in self._points)

    # Search

    def _without_structure(self) -> _State:
        """Elements are chosen by simulation; a unit that is not told is of 4 to 64 KiB."""
        sizes = {point.reading.load.size_bytes for point in self._points}
        units = (PAGE, 2 * PAGE, 4 * PAGE, 16 * PAGE) if max(sizes) > PAGE else (4 * PAGE,)
        types = [(0,), (0, 0, 1)] if any("p99_us" in point.statistics for point in self._points) else [(0,)]
        best: _State | None = None
        for of_type in types:
            for unit in units:
                for elements in _ELEMENTS:
                    structure = _Structure(elements, unit, min(unit, 4 * PAGE), of_type, has_per_4k=len(sizes) > 1)
                    state = self._first(structure)
                    if best is not None:
                        middle = math.log(best.values[_read_term(0).name])
                        split = {_read_term(0).name: middle - 0.1, _read_term(1).name: middle + 0.25}
                        state = best.with_structure(structure, {} if best.structure.types == of_type else split)
                    state = self._optimise(state, 3)
                    if best is None or state.squares < best.squares - (
                        _WORTH if of_type != best.structure.types else 0
                    ):
                        best = state
                    if time.process_time() > self._deadline - 20:
                        break
        assert best is not None
        return self._near_elements(best)

    def _near_elements(self, best: _State) -> _State:
        """The best of that state and those with somewhat more or fewer elements, each on its own pins."""
        for step in (8, 4, 2, 1):
            for elements in (best.structure.elements - step, best.structure.elements + step):
                if elements > 1 and time.process_time() < self._deadline - 10:
                    structure = replace(best.structure, elements=elements, channels=0)
                    other = self._optimise(best.with_structure(structure), 3)
                    best = min(best, other, key=lambda state: state.squares)
        return best

    def _alternatives(self, state: _State) -> _State:
        """Flash channels and a limit of commands by what limits large and small reads; then a time of small reads."""
        elements = state.structure.elements
        counts = [each for each in _CHANNELS if each < elements and elements % each == 0]
        most = self._bandwidth()
        rate = math.log(max(1e6 * point.reading.load.depth / point.typical_us for point in self._points))
        state = self._optimise(state, 3)
        tried = []
        for has_rate in (False, True)[: 1 + (self._written_per_s < 1.1 * math.exp(rate))]:
            for channels in (0, *counts):
                structure = replace(state.structure, channels=channels, has_rate=has_rate)
                of_channel = math.log(most / (channels or elements))
                for channel, link in (
                    (None, None),
                    (max(of_channel, _CHANNEL.centre), math.log(most * 1.02)),
                    (of_channel + 0.02, max(_LINK.centre, math.log(most * 1.5))),
                ):
                    start = {_RATE.name: rate + 0.02}
                    if channel is not None and link is not None:
                        start |= {_CHANNEL.name: channel, _LINK.name: link}
                    if time.process_time() < self._deadline - 20:
                        tried.append(self._optimise(state.with_structure(structure, start), 2, only=_LIMITS))
        tried.sort(key=lambda each: each.squares + _WORTH * each.structure.has_rate)
        self.of_channels: dict[int, float] = {}
        self._refined: list[_State] = []
        best = state
        for kept, other in enumerate(tried):
            known = (other.structure.channels, other.structure.has_rate)
            if kept >= _KEPT or other.squares > tried[0].squares + 400 or time.process_time() > self._deadline - 10:
                break
            refined = self._optimise(other, 3)
            self._refined.append(refined)
            least = self.of_channels.get(known[0], math.inf)
            self.of_channels[known[0]] = min(least, refined.squares)
            if refined.squares + _WORTH * known[1] < best.squares + _WORTH * best.structure.has_rate:
                best = refined
        other = self._optimise(best.with_structure(replace(best.structure, has_small=True)), 3)
        return other if other.squares < best.squares - _WORTH else best

    def _options(self, state: _State) -> dict[str, Any]:
        structure = state.structure
        rows = len(structure.types)
        units = max(1, math.ceil(MODEL_BYTES / 64 / structure.elements / structure.unit))
        wanted = 64 * units * rows * structure.elements * structure.unit
        shape = geometry(wanted, structure.elements, structure.unit, types=rows)
        return {**shape, **structure.options(state.values)}

    def _drive(self, state: _State) -> tuple[Any, list[dict[str, np.ndarray]]]:
        """A drive of that structure and the requests of all loads; its times are set for each simulation."""
        structure = state.structure
        key = (structure.elements, structure.unit, structure.page, len(structure.types), structure.by_unit)
        if key not in self._drives:
            drive = simulated.new_drive(self._options(state))
            self._drives[key] = (drive, self._requests(drive.capacity_bytes, 7))
        return self._drives[key]

    def _requests(self, capacity: int, seed: int) -> list[dict[str, np.ndarray]]:
        draws = np.random.default_rng(seed)
        return [simulated.arrays(self._load(point, capacity), capacity, draws) for point in self._points]

    def _simulated(self, state: _State, seed: int | None = None) -> list[dict[str, float]] | None:
        """The statistics of each point; None where no such drive can be."""
        try:
            drive, requests = self._drive(state)
            if seed is not None:
                requests = self._requests(drive.capacity_bytes, seed)
            timing = state.structure.options(state.values)
            timing = {name: value for name, value in timing.items() if name not in _STRUCTURAL}
            drive.set_timing({**_NO_TIMES, **timing})
            found = []
            for point, source in zip(self._points, requests, strict=True):
                raw = drive.run({"arrays": source}, simulated.feed(point.reading.load))
                found.append(simulated.statistics(raw["read"], simulated.seconds_of(raw)))
            return found
        except (CoreError, UsageError):
            return None

    def _load(self, point: _Point, capacity: int) -> Load:
        load = point.reading.load
        # As many as were measured, where a queue has to fill first and to drain last.
        most = self._share * (600 if load.depth == 1 else 400 + 24 * load.depth)
        requests = max(min(point.reading.requests, most), 4 * load.depth)
        return replace(load, requests=requests, span_bytes=min(load.span_bytes or capacity, capacity))

    def _logs(self, state: _State, seed: int | None = None) -> np.ndarray | None:
        """Logarithms of the modelled statistics that were measured."""
        modelled = self._simulated(state, seed)
        if modelled is None:
            return None
        pairs = zip(self._points, modelled, strict=True)
        return np.array([math.log(model[name]) for point, model in pairs for name in point.statistics])

    def _measure_variation(self, state: _State) -> None:
        """How much each statistic varies with the requests: that of measurement and model together."""
        runs = [logs for seed in range(11, 11 + _SEEDS) if (logs := self._logs(state, seed)) is not None]
        if len(runs) < _SEEDS:
            return
        drive, requests = self._drive(state)
        widths = []
        for point, source in zip(self._points, requests, strict=True):
            times = drive.run({"arrays": source}, simulated.feed(point.reading.load))["read"]
            widths += [_width(times, name) for name in point.statistics]
        self._variation = np.hypot(np.std(runs, axis=0, ddof=1) * math.sqrt(2), widths)

    def _residuals(self, state: _State) -> tuple[np.ndarray, np.ndarray] | None:
        """Log of model over measurement, and the standard errors."""
        logs = self._logs(state)
        if logs is None:
            return None
        rows = [
            (measured, point.reading.noise.get(name, _MEAN_NOISE if name == "mean_us" else NOISE))
            for point in self._points
            for name, measured in point.statistics.items()
        ]
        table = np.array(rows)
        own = np.zeros(len(rows)) if self._variation is None else self._variation
        return logs - table[:, 0], np.sqrt(table[:, 1] ** 2 + own**2 + FLOOR**2)

    def _optimise(self, state: _State, steps: int, *, final: bool = False, only: tuple[str, ...] = ()) -> _State:
        """The terms named in `only`, or all; `final` also gives the covariance."""
        terms = state.structure.terms
        chosen = [column for column, term in enumerate(terms) if not only or term.name in only]

        def residuals(at: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
            return self._residuals(_State(state.structure, at))

        at, squares, covariance = least_squares.minimise(
            residuals, state.coordinates, terms, steps, final=final, only=chosen
        )
        return _State(state.structure, at, squares, covariance)

    # Results

    def options(self, capacity_bytes: int, state: _State | None = None) -> dict[str, Any]:
        state = state or self.state
        structure = state.structure
        shape = geometry(capacity_bytes, structure.elements, structure.unit, types=len(structure.types))
        return {**shape, **structure.options(state.values)}

    def alternatives(self) -> list[_State]:
        """What fits best, then other flash channels that fit nearly as well."""
        others: dict[int, _State] = {}
        for each in sorted(self._near(), key=lambda state: state.squares):
            if each.structure.channels != self.state.structure.channels:
                others.setdefault(each.structure.channels, each)
        return [self.state, *list(others.values())[:2]]

    def choose(self, state: _State) -> None:
        """Another alternative, of which writes say that it is the right one."""
        self.state = self._optimise(state, 2, final=True)
        self.of_channels = {state.structure.channels: state.squares}

    def residuals(self) -> list[Residual]:
        """Of the loads that were fitted, then of those held out."""
        found = []
        fitted = self._points
        for points, is_fitted in ((fitted, True), (self._held_out, False)):
            self._points = points
            self._drives.clear()
            modelled = self._simulated(self.state) or []
            found += [
                Residual(point.reading.load, name, math.exp(measured), model[name], is_fitted)
                for point, model in zip(points, modelled, strict=True)
                for name, measured in point.statistics.items()
            ]
        self._points = fitted
        self._drives.clear()
        return found

    def parameters(self) -> list[Parameter]:
        structure, told = self.state.structure, self.is_told
        pairs = tuple(name for name in self._readings if name.startswith("pair-"))
        battery = "a whole battery behind a sequential fill, on a quiet host: consent to write, a longer --budget"
        layout = "" if told else battery
        by_layout: Identified = "yes" if told else "combination"
        by_rule: Identified = "yes" if told else "assumed"
        ties = () if told else ("elements", "read_us")
        found = [
            Parameter("elements", structure.elements, "", by_layout, None, None, ties, pairs, layout),
            Parameter("program_unit", structure.unit, "B", by_rule, evidence=pairs, needs=layout),
            Parameter("flash_page", structure.page, "B", by_rule, evidence=self._evidence("sizes"), needs=layout),
            self._channels(),
        ]
        return [*found, *self._continuous()]

    def _channels(self) -> Parameter:
        best = self.state.structure.channels
        near = sorted(
            each for each, squares in self.of_channels.items() if squares < min(self.of_channels.values()) + 6
        )
        told = len(near) == 1 and self.is_told
        return Parameter(
            "flash_channels",
            best,
            "",
            "yes" if told else "no",
            evidence=self._evidence("channels"),
            needs="" if told else "large reads of few elements that fill a flash channel: none here did",
        )

    def _evidence(self, stage: str) -> tuple[str, ...]:
        return tuple(point.reading.load.name for point in self._points if point.reading.load.stage == stage)

    def _continuous(self) -> list[Parameter]:
        found = []
        structure, state = self.state.structure, self.state
        assert state.covariance is not None
        scatter = self._scatter()
        errors = np.sqrt(np.diag(state.covariance))
        for place, term in enumerate(structure.terms):
            value, low, high = least_squares.interval(term, state.coordinates[place], errors[place], scatter)
            near = [each.values[term.name] for each in self._near() if term.name in each.values]
            low, high = min(low, *near, low), max(high, *near, high)
            told = least_squares.is_told(term, value, low, high)
            name = term.name
            if name.startswith("read "):
                first = structure.types.index(int(name[5:]))
                name = f"page_type_read_us {first}" if max(structure.types) else "read_us"
            identified: Identified = "yes" if told else "no"
            needs = "" if told else _NEEDS.get(term.name, "")
            found.append(Parameter(name, value, term.unit, identified, low, high, (), _loads_of(term), needs))
        found.append(self._combination(scatter))
        return found

    def _near(self) -> list[_State]:
        """Alternatives that fit nearly as well."""
        return [each for each in self._refined if each.squares < self.state.squares + 2 * _WORTH]

    def _combination(self, scatter: float) -> Parameter:
        """A 4 KiB read as a whole: what its parts add up to is told better than they are."""
        structure, state = self.state.structure, self.state
        assert state.covariance is not None

        def whole(at: np.ndarray) -> float:
            values = _State(structure, at).values
            times = np.mean([values[_read_term(number).name] for number in structure.types])
            moved = PAGE / values[_CHANNEL.name] + PAGE / values[_LINK.name]
            return float(
                values[_COMMAND.name] + values.get(_PER_4K.name, 0) + times * values.get(_SMALL.name, 1) + moved
            )

        middle = whole(state.coordinates)
        slope = np.array(
            [(whole(state.coordinates + step) - middle) / 0.01 for step in np.eye(len(structure.terms)) * 0.01]
        )
        error = math.sqrt(float(slope @ state.covariance @ slope)) / middle
        whole_read = Term("4 KiB read", "us", math.log(middle), 1.0)
        _, low, high = least_squares.interval(whole_read, math.log(middle), error, scatter)
        ties = ("command_read_us", "read_us", "flash_channel_mb_s", "link_mb_s")
        return Parameter("4 KiB read", middle, "us", "combination", low, high, ties, ("read-4KiB-depth-1",))

    def _scatter(self) -> float:
        """Root mean square of the scaled residuals, without the worst twentieth."""
        found = self._residuals(self.state)
        if found is None:
            return 1.0
        scaled = np.sort(np.abs(found[0] / found[1]))
        kept = scaled[: max(1, int(len(scaled) * 0.95))]
        return float(np.sqrt((kept**2).mean()))

    def misfit(self) -> str:
        """Why the drive is of another kind; '' where the residuals are those of noise."""
        if self._is_complete and not self.is_told:
            return (
                "pairs of addresses give no program unit and no count of elements: which addresses share an element "
                "follows a rule that the model lacks"
            )
        found = self._residuals(self.state)
        if found is None:
            return "no drive of the model has this structure"
        limits = 3 * np.hypot(found[1], _MISFIT_ERROR)
        share = float((np.abs(found[0]) > limits).mean())
        if share <= _MISFIT_SHARE:
            return ""
        worst = max(self.residuals(), key=lambda each: abs(math.log(each.modelled / each.measured)))
        return (
            f"{share:.0%} of the statistics are off by more than noise, {_MISFIT_SHARE:.0%} at most expected; "
            f"the worst is {worst.load.name}: {worst.measured:.4g} us measured, {worst.modelled:.4g} us modelled"
        )


_WRITE_COMMAND = Term("command_write_us", "us", math.log(8), 1.2)
_WRITE_PER_4K = Term("command_write_us_per_4k", "us/4KiB", 0.0, 1.5, is_linear=True)
_DRAIN = Term("drain_mb_s", "MB/s", math.log(2000), 0.8)
_LOG = Term("mapping_log", "B", 0.0, 1.5, is_linear=True, scale=400.0)
_FITTED, _DESCRIBED = 8, 32
"""Elements that drain a write cache: in the fit, which needs few requests to fill a small one, and in the file."""
_WRITE_UNIT = 32 << 10
_ROOM = 16 << 30
"""Capacity of a drive that writes were measured on and that no reading tells: they leave it fresh."""
_UNITS_CACHED = 2
"""Program units of the write cache for each element: as the usual values have."""


@dataclass(frozen=True)
class _WriteStructure:
    """A cache that answers writes, in front of flash that drains it at a rate."""

    has_log: bool = False
    has_rate: bool = False
    elements: int = _FITTED
    unit: int = _WRITE_UNIT
    page: int = 4 * PAGE
    types: tuple[int, ...] = (0,)

    @property
    def terms(self) -> tuple[Term, ...]:
        optional = ((self.has_log, _LOG), (self.has_rate, _RATE))
        return (_WRITE_COMMAND, _WRITE_PER_4K, _DRAIN, _LINK, *(term for has, term in optional if has))

    def options(self, values: Mapping[str, float]) -> dict[str, Any]:
        return {
            "program_unit": self.unit,
            "flash_page": self.page,
            "read_us": 60.0,
            "write_cache": _UNITS_CACHED * self.unit * self.elements,
            "program_us": self.elements * self.unit / values[_DRAIN.name],
            **{term.name: values[term.name] for term in (_WRITE_COMMAND, _WRITE_PER_4K, _LINK)},
            "mapping_log": round(values.get(_LOG.name, 0.0)),
            "command_rate": values.get(_RATE.name, 0.0),
        }


class _PlainWrites(_ReadSide):
    """Plain writes of one size and depth each, of a drive that has room: no garbage is collected."""

    state: _State

    def __init__(self, readings: Sequence[Reading], *, deadline: float) -> None:
        self._deadline, self._share, self.is_told, self._is_complete = deadline, 1, False, False
        self._readings, self._drives, self._refined = by_name(readings), {}, []
        self._variation = None
        self._points, self._held_out = [_Point(each) for each in readings], []
        for point in self._points:  # the percentiles hang on the cache's policy, which no plain write tells
            point.statistics = {"mean_us": math.log(reads.mean_us(point.reading))}
        has_random = len({each.load.pattern for each in readings}) > 1
        first = min(self._points, key=lambda each: (each.reading.load.depth, each.reading.load.size_bytes))
        most = math.log(self._bandwidth())
        rate = math.log(max(1e6 * point.reading.load.depth / point.typical_us for point in self._points))
        best: _State | None = None
        for has_log in (False, True)[: 1 + has_random]:
            for has_rate in (False, True):
                for drain, link in ((most, most + 0.7), (most + 0.4, most + 0.02)):
                    structure = _WriteStructure(has_log, has_rate)
                    start = {_WRITE_COMMAND.name: first.statistics["mean_us"] - 0.2, _WRITE_PER_4K.name: 0.3}
                    start |= {_DRAIN.name: drain, _LINK.name: link, _LOG.name: 1.0, _RATE.name: rate + 0.02}
                    at = np.array([start[term.name] for term in structure.terms])
                    state = self._optimise(_State(structure, at), 6)
                    if best is None or state.squares < best.squares - _WORTH:
                        best = state
        assert best is not None
        self._drives.clear()
        self._share = 2 * _MORE
        self.state = self._optimise(best.with_structure(replace(best.structure, elements=_DESCRIBED)), 2, final=True)

    def _options(self, state: _State) -> dict[str, Any]:
        structure = state.structure
        return {**_WRITES, **geometry(1 << 30, structure.elements, structure.unit), **structure.options(state.values)}

    def _simulated(self, state: _State, seed: int | None = None) -> list[dict[str, float]] | None:
        try:
            drive = simulated.new_drive({**self._options(state), "fill": 0.0})
            if "requests" not in self._drives:
                self._cache_bytes = self._options(state)["write_cache"]
                self._drives["requests"] = (None, self._requests(drive.capacity_bytes, 7))
            found = []
            for point, source in zip(self._points, self._drives["requests"][1], strict=True):
                raw = drive.copy().run({"arrays": source}, simulated.feed(point.reading.load))
                found.append(simulated.statistics(raw["write"], simulated.seconds_of(raw)))
            return found
        except (CoreError, UsageError):
            return None

    def _load(self, point: _Point, capacity: int) -> Load:
        """Enough that the first filling of the cache hardly counts."""
        load = point.reading.load
        filled = 40 * self._cache_bytes // load.size_bytes
        requests = min(max(filled, 8 * load.depth, 200 * self._share), capacity // 2 // load.size_bytes)
        return replace(load, requests=requests, span_bytes=min(load.span_bytes or capacity, capacity))

    def parameters(self) -> list[Parameter]:
        return [each for each in self._continuous() if each.name != _DRAIN.name]

    def _combination(self, scatter: float) -> Parameter:
        assert self.state.covariance is not None
        error = math.sqrt(self.state.covariance[2, 2])
        bounds = least_squares.interval(_DRAIN, math.log(self.state.values[_DRAIN.name]), error, scatter)
        ties = ("program_us", "program_unit", "elements")
        return Parameter("drain", bounds[0], "MB/s", "combination", *bounds[1:], ties)


_LIMITS = (_CHANNEL.name, _LINK.name, _RATE.name)
_KEPT = 6
"""Alternatives of which all times are fitted."""
_STRUCTURAL = ("program_unit", "flash_page", "page_type_program_us")
_NO_TIMES: Mapping[str, Any] = {"small_read_us": [], "page_type_read_us": []}

_NEEDS = {
    "command_read_us_per_4k": "reads of several sizes at depth 1 with less noise",
    "flash_channel_mb_s": "reads that fill a flash channel, of few elements and with a queue",
    "link_mb_s": "large reads with a queue that the flash can deliver faster than the link",
    "command_read_us": "reads at depth 1 and of one element with a queue, with less noise",
}


def _loads_of(term: Term) -> tuple[str, ...]:
    if term is _COMMAND:
        return (reads.SINGLE, reads.SINGLE + reads.QUEUED)
    return ("read-4KiB-depth-256", "small-depth-256") if term is _RATE else ()


def _width(times: Mapping[str, Any], name: str) -> float:
    """Relative width of what a quantile may be, between modes: half of it where its place is off by its own error."""
    share = {"p50_us": 0.5, "p99_us": 0.99}.get(name)
    if share is None:
        return 0.0
    off = math.sqrt(2 * share * (1 - share) / times["count"])
    low, high = times["response_ns"].quantiles([share - off, min(share + off, 1.0)])
    return math.log(float(high) / float(low)) / 2
