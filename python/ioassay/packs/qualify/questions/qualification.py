"""Where a drive settles, by the tests of SNIA's Performance Test Specification, and what its report has to hold.

The specification itself is the shipped study (`studies/qualify.toml`) at full scale: what a run does otherwise is a
departure, and each is listed. The first study has the tables that hold for all: device, environment, departures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ioassay import metrics, units
from ioassay.analysis.measurements.cells import missing
from ioassay.factors import level_key, level_text
from ioassay.narrative.finding import Column, Finding, Table, missing_conditions
from ioassay.narrative.say import Quantity, Say, say, sentence
from ioassay.packs.qualify.rounds import Point, Rounds, rounds
from ioassay.records.record import Scalar
from ioassay.stats.result import plain
from ioassay.stats.sample import MAX_RANGE, MAX_SLOPE, ROUNDS, SteadyState
from ioassay.store.dataset import Dataset, section
from ioassay.study import catalog
from ioassay.study.model import Study

HEADING = "Where does the drive settle?"
NAME = "qualify"
_MOST_ROWS = 25
"""Rounds of write saturation that the table has; the figure has all."""
_PASSES = {"none": 0, "fill": 1}


class Departure(NamedTuple):
    """What a run does otherwise than the specification."""

    test: str
    what: Say
    found: str
    expected: str


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """The finding of a study in rounds; none of others."""
    found = rounds(records, study)
    if found is None or not found.tracked:
        return []
    is_first = study.name == next(one.name for one in records.studies if rounds(records, one) is not None)
    departures = departures_of(records) if is_first else []
    states = [found.state(point) for point in found.tracked]
    tables = [*_results(found), _steadiness(found), *(_report(records, departures) if is_first else ())]
    departed = [say("qualification.departs", departures=[one.what for one in departures])] if departures else []
    return [
        Finding(
            title=study.title,
            response=study.until.metric if study.until else "",
            statements=[*_settled(found), *departed],
            omissions=[*missing_conditions(missing(records, study)), *departed],
            statistics={
                "rounds": found.last + 1,
                "attained": found.attained,
                "written_bytes": found.written[-1],
                "states": plain(states),
                "departures": [[one.test, str(one.what), one.found, one.expected] for one in departures],
            },
            tables=tables,
            caveats=[say("qualification.rule", rounds=ROUNDS, range=MAX_RANGE, slope=MAX_SLOPE)],
            severity="info" if found.attained else "warning",
            leads=True,
        )
    ]


# Sentences


def _settled(found: Rounds) -> Iterator[Say]:
    """What each tracked variable settles at, and where it is not steady; of a purged drive the first round, too."""
    study, last = found.study, found.last
    assert study.until is not None
    metric, fresh = study.until.metric, _passes(study) == 0
    for point in found.tracked:
        state, load = found.state(point), load_text(study, point)
        value = point.average(metric, last)
        if value is None:
            continue
        known = {"load": load, "value": Quantity(metric, value), "rounds": last + 1}
        first = next(iter(point.values(metric).values()))
        if state is None:
            yield say("qualification.few", **known, needed=ROUNDS)
        elif not state.attained:
            final = {"range": state.final.range, "slope": state.final.slope}
            yield say("qualification.unsteady", **known, **final)
        elif fresh:
            yield say("qualification.settles_from", **known, fresh=Quantity(metric, first))
        else:
            yield say("qualification.settles", **known)
    if fresh:
        written = found.written[-1]
        capacity = capacity_bytes(study)
        times = say("qualification.times", times=written / capacity) if capacity else ""
        yield say("qualification.written", size=units.format_size(written), rounds=last + 1, times=times)


def load_text(study: Study, point: Point) -> str:
    """The load of a point: `random 4 KiB writes`, `random 64 KiB requests, 65 % of them reads`."""
    params = study.params_at(point.levels)
    way = "random" if str(params.get("rw", "")).startswith("rand") else "sequential"
    reads = read_share(params)
    code = {100: "reads", 0: "writes"}.get(reads, "mixed")
    return sentence(f"qualification.{code}", way=way, size=level_text("bs", params.get("bs", "4KiB")), reads=reads)


def read_share(params: Mapping[str, Any]) -> int:
    """The share of reads of fio's parameters, in percent."""
    pattern = str(params.get("rw", "read")).removeprefix("rand")
    return {"read": 100, "write": 0}.get(pattern, int(params.get("rwmixread", 50)))


# Results


def _results(found: Rounds) -> Iterator[Table]:
    """What the specification asks for of a test, averaged over the window; of one point, every round."""
    study, responses = found.study, found.study.analysis.responses
    factors = list(study.levels)
    if len(factors) == 2:  # the mixes in columns, the sizes in rows
        across, down = factors
        for metric in responses:
            columns = [
                Column(f"{_head(across, level)}", _cell(found, metric, across, level), metric)
                for level in study.levels[across]
            ]
            name = metrics.metric(metric).label
            yield Table.of(
                [{down: level} for level in study.levels[down]],
                Column(f"{name}, by {down}", partial(_level, down)),
                *columns,
                observed=True,
            )
    elif factors:
        yield Table.of(
            found.points,
            Column("load", lambda point: load_text(study, point)),
            *(Column(metrics.metric(one).label, _of(found, one), one) for one in responses),
            observed=True,
        )
    else:
        point, number = found.points[0], found.last + 1
        shown = sorted({round(place * found.last / max(min(number, _MOST_ROWS) - 1, 1)) for place in range(_MOST_ROWS)})
        written = found.written
        yield Table.of(
            [place for place in shown if place <= found.last],
            Column("round", lambda place: place + 1),
            Column("written", lambda place: units.format_size(written[place])),
            *(Column(metrics.metric(one).label, partial(_at, point, one), one) for one in responses),
            observed=True,
        )


def _level(factor: str, row: Mapping[str, Scalar]) -> str:
    return level_text(factor, row[factor])


def _at(point: Point, metric: str, number: int, /) -> float | None:
    return point.values(metric).get(number)


def _head(factor: str, level: Scalar) -> str:
    """The column of a mix as the specification writes it: reads/writes in percent."""
    return f"{level}/{100 - int(level)}" if factor == "rwmixread" else level_text(factor, level)


def _cell(found: Rounds, metric: str, across: str, level: Scalar) -> Any:
    def value(row: Mapping[str, Scalar]) -> float | str:
        point = found.at(**row, **{across: level})
        number = point.average(metric, found.last) if point is not None else None
        if number is not None:
            return number
        return sentence("qualification.failed" if point is not None else "qualification.not_run")

    return value


def _of(found: Rounds, metric: str) -> Any:
    def value(point: Point) -> float | str:
        number = point.average(metric, found.last)
        return number if number is not None else sentence("qualification.failed")

    return value


def _steadiness(found: Rounds) -> Table:
    """The tracked variables over the window, against the limits of the rule."""
    study = found.study
    assert study.until is not None
    metric, last = study.until.metric, found.last

    def of(name: str) -> Any:
        def value(point: Point) -> float | None:
            state = found.state(point)
            return round(100 * getattr(state.final, name), 2) if isinstance(state, SteadyState) else None

        return value

    return Table.of(
        found.tracked,
        Column("tracked", lambda point: load_text(study, point)),
        Column("rounds", lambda _: f"{max(last - ROUNDS + 2, 1)} to {last + 1}"),
        Column(f"average {metrics.metric(metric).label}", lambda point: point.average(metric, last), metric),
        Column(f"range (%, at most {MAX_RANGE:.0%})".replace("%)", ")"), of("range")),
        Column(f"slope (%, at most {MAX_SLOPE:.0%})".replace("%)", ")"), of("slope")),
        Column("steady", lambda point: bool((state := found.state(point)) and state.attained)),
        observed=True,
    )


# What the report has to name


def _report(records: Dataset, departures: Sequence[Departure]) -> Iterator[Table]:
    rows = [(part, name, value) for part, name, value in _named(records) if value not in (None, "", [])]
    columns = (("part", lambda row: row[0]), ("item", lambda row: row[1]), ("value", lambda row: row[2]))
    yield Table.of(rows, *columns, observed=True)
    if departures:
        yield Table.of(
            departures,
            ("test", lambda row: row.test),
            ("departure", lambda row: str(row.what)),
            ("found", lambda row: row.found),
            ("specification", lambda row: row.expected),
            observed=True,
        )


def device_of(records: Dataset) -> Mapping[str, Any]:
    """The facts of the device under the target; none where the machine names none."""
    devices = section(records.host, "disk").get("devices") or [{}]
    return devices[-1] if isinstance(devices[-1], Mapping) else {}


def _named(records: Dataset) -> Iterator[tuple[str, str, Any]]:
    """Device under test, test environment, test parameters, preparation: part, item, value."""
    host, device, first = records.host, device_of(records), records.studies[0]
    queue, link = section(device, "queue"), section(device, "link")
    target, memory = first.target.model_dump(), section(host, "memory").get("total_bytes")
    identity = device.get("identity")
    size = device.get("size_bytes")
    yield "device under test", "vendor", device.get("vendor")
    yield "device under test", "model", device.get("model") or device.get("kind")
    yield "device under test", "serial number (hashed)", f"#{str(identity)[:8]}" if identity else None
    yield "device under test", "firmware", device.get("firmware")
    yield "device under test", "capacity", units.format_size(size) if size else None
    yield "device under test", "interface", ", ".join(f"{key} {value}" for key, value in link.items())
    yield "device under test", "block size", queue.get("logical_block_size")
    yield "device under test", "write cache", queue.get("write_cache")
    yield "device under test", "target", target.get("kind")
    yield "test environment", "CPU", f"{section(host, 'cpu').get('model')}, {section(host, 'cpu').get('cpus')} CPUs"
    yield "test environment", "memory", units.format_size(memory) if memory else None
    yield "test environment", "virtual machine", section(host, "virtualisation").get("vm")
    yield "test environment", "operating system", section(host, "distribution").get("name")
    yield "test environment", "kernel", section(host, "kernel").get("release")
    yield "test environment", "test software", ", ".join(str(one) for one in section(host, "tools").values())
    yield "test parameters", "data", sentence("qualification.random_data")
    yield "test parameters", "range", units.format_size(target["size"]) if target.get("size") else "all"
    for study in records.studies:
        if rounds(records, study) is not None:
            params, passes = study.params, _passes(study)
            outstanding = {"jobs": params.get("numjobs", 1), "depth": params.get("iodepth", 1)}
            said = say("qualification.parameters", **outstanding, length=str(params.get("runtime")))
            yield "test parameters", study.title, str(said)
            purge = study.target.model_dump().get("purge") or "none"
            yield "preparation", study.title, sentence("qualification.prepared", purge=purge, passes=passes)


def _passes(study: Study) -> int:
    wanted = study.target.model_dump().get("prepare", "fill")
    return wanted if isinstance(wanted, int) else _PASSES.get(str(wanted), 0)


def capacity_bytes(study: Study) -> int:
    """The size of what is loaded, 0 where the study does not say it."""
    size = study.target.model_dump().get("size")
    return units.parse_size(size) if size else 0


def departures_of(records: Dataset) -> list[Departure]:
    """What the studies of a run do otherwise than those of the specification."""
    specified = {study.name: study for study in catalog.load(NAME).studies}
    found = []
    for study in records.studies:
        known = rounds(records, study)
        if study.name in specified and known is not None:
            found += [*_departures(study, specified[study.name], known)]
    for missed in specified.keys() - {study.name for study in records.studies if rounds(records, study) is not None}:
        found.append(Departure(specified[missed].title, say("qualification.not_measured"), "", ""))
    kinds = {study.target.kind for study in records.studies}
    if kinds != {"device"}:
        found.insert(0, Departure("all", say("qualification.no_device"), ", ".join(sorted(kinds)), "device"))
    cache = section(device_of(records), "queue").get("write_cache")
    if cache == "write back":
        found.insert(0, Departure("all", say("qualification.write_cache"), cache, "disabled"))
    return found


def _departures(study: Study, wanted: Study, known: Rounds) -> Iterator[Departure]:
    def departure(code: str, found: object, expected: object) -> Departure:
        return Departure(study.title, say(f"qualification.{code}"), str(found), str(expected))

    lengths = [str(one.params.get("runtime")) for one in (study, wanted)]
    if units.parse_duration_s(lengths[0]) != units.parse_duration_s(lengths[1]):
        yield departure("round_length", *lengths)
    for name, levels in wanted.levels.items():
        own = {level_key(name, level) for level in study.levels.get(name, ())}
        if lacking := [level_text(name, level) for level in levels if level_key(name, level) not in own]:
            yield departure(f"without_{name}", f"without {', '.join(lacking)}", f"{len(levels)} levels")
    purge = study.target.model_dump().get("purge") or "none"
    if purge in ("none", "discard"):
        yield departure("not_purged" if purge == "none" else "discarded", purge, "format or sanitize")
    if (passes := _passes(study)) != _passes(wanted):
        yield departure("preconditioned", passes, _passes(wanted))
    assert study.until is not None and wanted.until is not None
    if study.until.steady and not known.attained:
        yield departure("not_steady", f"{known.last + 1} rounds", f"up to {wanted.until.max} rounds")
    if (least := study.until.written) is not None:
        capacity = capacity_bytes(study)
        if known.written[-1] < min(least, 4 * capacity if capacity else least) and known.last + 1 < wanted.until.max:
            yield departure("not_saturated", units.format_size(known.written[-1]), units.format_size(4 * capacity))
