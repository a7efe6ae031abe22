"""Where a drive settles, by the tests of SNIA's Performance Test Specification, and what its report has to hold.

The specification itself is the shipped study (`studies/qualify.toml`) at full scale: what a run does otherwise is a
departure, and each is listed. The first study has the tables that hold for all: device, environment, departures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ioassay import metrics, units
from ioassay.analysis.measurements.cells import missing
from ioassay.factors import is_size, level_key, level_number, level_text
from ioassay.narrative.finding import Column, Finding, Table, missing_conditions
from ioassay.narrative.say import Quantity, Say, say, sentence, templates
from ioassay.packs.qualify.rounds import Point, Rounds, rounds
from ioassay.records.record import Scalar
from ioassay.stats.result import plain
from ioassay.stats.sample import MAX_RANGE, MAX_SLOPE, ROUNDS, SteadyState
from ioassay.store.dataset import Dataset, section
from ioassay.study import catalog
from ioassay.study.model import Study

HEADING = templates("qualification")["heading"]
NAME = "qualify"
CAPACITIES = 4
"""What the test of write saturation writes, in capacities of the drive (SNIA PTS 2.0, section 10)."""
_MOST_ROWS = 25
"""Rounds of write saturation that the table has; the figure has all."""
_OF_DIRECTION = re.compile(r"^(read|write)\.lat\.")
_PASSES = {"none": 0, "fill": 1}


class Departure(NamedTuple):
    """What the tests of a run do otherwise than the specification."""

    tests: tuple[str, ...]
    what: Say


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
            statements=[*_settled(records, found), *departed],
            omissions=[*missing_conditions(missing(records, study)), *departed],
            statistics={
                "rounds": found.last + 1,
                "attained": found.attained,
                "written_bytes": found.written[-1],
                "states": plain(states),
                "departures": [{"tests": one.tests, "departure": str(one.what)} for one in departures],
            },
            tables=tables,
            caveats=[say("qualification.rule", rounds=ROUNDS, range=MAX_RANGE, slope=MAX_SLOPE)],
            severity="info" if found.attained else "warning",
            leads=True,
        )
    ]


# Sentences


def _settled(records: Dataset, found: Rounds) -> Iterator[Say]:
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
        capacity = capacity_bytes(records, study)
        times = say("qualification.times", times=written / capacity) if capacity else ""
        yield say("qualification.written", size=units.format_size(written), rounds=last + 1, times=times)


def load_text(study: Study, point: Point) -> str:
    """The load of a point: `random 4 KiB writes`, `random 64 KiB requests, 65 % of them reads`."""
    params = study.params_at(point.levels)
    way = "random" if str(params.get("rw", "")).startswith("rand") else "sequential"
    reads = read_share(params)
    code = {100: "reads", 0: "writes"}.get(reads, "mixed")
    return sentence(f"qualification.{code}", way=way, size=_head("bs", params.get("bs", "4KiB")), reads=reads)


def read_share(params: Mapping[str, Any]) -> int:
    """The share of reads of fio's parameters, in percent."""
    pattern = str(params.get("rw", "read")).removeprefix("rand")
    return {"read": 100, "write": 0}.get(pattern, int(params.get("rwmixread", 50)))


# Results


def _results(found: Rounds) -> Iterator[Table]:
    """What the specification asks for of a test, averaged over the window; of one point, every round."""
    # Of a mix the latency is that of all requests.
    study = found.study
    responses = [*dict.fromkeys(_OF_DIRECTION.sub("total.lat.", one) for one in study.analysis.responses)]
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
    return _head(factor, row[factor])


def _at(point: Point, metric: str, number: int, /) -> float | None:
    return point.values(metric).get(number)


def _head(factor: str, level: Scalar) -> str:
    """A level as the specification writes it: a mix as reads/writes in percent."""
    if factor == "rwmixread":
        return f"{level}/{100 - int(level)}"
    return units.format_size(level_number(factor, level) or 0) if is_size(factor) else level_text(factor, level)


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
    """Device under test, test environment, test parameters, preparation; then the departures."""
    unstated = sentence("qualification.unstated")
    yield Table.of(
        [*_device(records), *_environment(records), *_parameters(records)],
        ("part", lambda row: row[0]),
        ("item", lambda row: row[1]),
        ("value", lambda row: row[2] or unstated),
        observed=True,
    )
    if departures:
        yield Table.of(
            departures,
            ("not conforming", lambda row: str(row.what)),
            ("tests", lambda row: "all" if len(row.tests) == len(records.studies) else ", ".join(row.tests)),
            observed=True,
        )


def device_of(records: Dataset) -> Mapping[str, Any]:
    """The facts of the disk that is loaded; none where the machine names none."""
    devices = [one for one in section(records.host, "disk").get("devices") or () if isinstance(one, Mapping)]
    return next((one for one in devices if one.get("queue")), devices[0] if devices else {})


def _device(records: Dataset) -> Iterator[tuple[str, str, object]]:
    device, part = device_of(records), "device under test"
    queue, link = section(device, "queue"), section(device, "link")
    size, identity = device.get("size_bytes"), device.get("identity")
    yield part, "vendor", device.get("vendor")
    yield part, "model", device.get("model")
    yield part, "serial number (hashed)", identity and f"#{str(identity)[:8]}"
    yield part, "firmware", device.get("firmware")
    yield part, "capacity", units.format_size(size) if size else None
    yield part, "interface", ", ".join(f"{key} {value}" for key, value in link.items())
    yield part, "kind", f"{device.get('kind', '')}, loaded as a {records.studies[0].target.kind}"
    yield part, "logical block", units.format_size(queue.get("logical_block_size") or 0)
    yield part, "write cache", queue.get("write_cache")


def _environment(records: Dataset) -> Iterator[tuple[str, str, object]]:
    host, part = records.host, "test environment"
    cpu, memory = section(host, "cpu"), section(host, "memory").get("total_bytes")
    yield part, "virtual machine", section(host, "virtualisation").get("vm") or "none"
    yield part, "CPU", f"{cpu.get('model', '')}, {cpu.get('cpus', '?')} CPUs"
    yield part, "memory", units.format_size(memory) if memory else None
    yield part, "operating system", section(host, "distribution").get("name")
    yield part, "kernel", section(host, "kernel").get("release")
    yield part, "test software", ", ".join(map(str, section(host, "tools").values()))


def _parameters(records: Dataset) -> Iterator[tuple[str, str, object]]:
    part = "test parameters"
    yield part, "data", sentence("qualification.random_data")
    yield part, "address range", units.format_size(capacity_bytes(records, records.studies[0]))
    for study in records.studies:
        if rounds(records, study) is not None:
            params, passes = study.params, _passes(study)
            outstanding = {"jobs": params.get("numjobs", 1), "depth": params.get("iodepth", 1)}
            yield (
                part,
                study.title,
                sentence("qualification.parameters", **outstanding, length=str(params.get("runtime"))),
            )
            code = "qualification.prepared" if passes else "qualification.unprepared"
            yield "preparation", study.title, sentence(code, purge=_purge(study), passes=passes)


def _purge(study: Study) -> str:
    return str(study.target.model_dump().get("purge") or "none")


def _passes(study: Study) -> int:
    wanted = study.target.model_dump().get("prepare", "fill")
    return wanted if isinstance(wanted, int) else _PASSES.get(str(wanted), 0)


def capacity_bytes(records: Dataset, study: Study) -> int:
    """The size of what is loaded, 0 where it is not known."""
    size = study.target.model_dump().get("size")
    return units.parse_size(size) if size else int(device_of(records).get("size_bytes") or 0)


def departures_of(records: Dataset) -> list[Departure]:
    """What the studies of a run do otherwise than those of the specification; what several do alike is one."""
    specified = {study.name: study for study in catalog.load(NAME).studies}
    own = {study.name: known for study in records.studies if (known := rounds(records, study)) is not None}
    found: dict[str, Departure] = {}
    for name in [*specified, *(name for name in own if name not in specified)]:
        for what in _departures(records, own.get(name), specified.get(name)):
            tests = found[str(what)].tests if str(what) in found else ()
            found[str(what)] = Departure((*tests, (specified.get(name) or own[name].study).title), what)
    return [*found.values()]


def _departures(records: Dataset, known: Rounds | None, wanted: Study | None) -> Iterator[Say]:
    """Those of one test."""
    if known is None or wanted is None:
        yield say(f"qualification.{'not_measured' if known is None else 'of_own'}")
        return
    study, until, last = known.study, known.study.until, known.last
    device, kind, capacity = device_of(records), known.study.target.kind, capacity_bytes(records, known.study)
    size, cache = int(device.get("size_bytes") or 0), str(section(device, "queue").get("write_cache") or "")
    assert until is not None and wanted.until is not None
    if kind != "device":
        yield say("qualification.no_device", found=kind)
    elif capacity < size:
        yield say("qualification.part", found=units.format_size(capacity), wanted=units.format_size(size))
    if cache == "write back":
        yield say("qualification.write_cache")
    if _purge(study) in ("none", "discard"):
        yield say(f"qualification.{'not_purged' if _purge(study) == 'none' else 'discarded'}")
    if _passes(study) != _passes(wanted):
        yield say("qualification.preconditioned", found=_passes(study), wanted=_passes(wanted))
    lengths = [units.parse_duration_s(str(one.params.get("runtime"))) for one in (study, wanted)]
    if lengths[0] != lengths[1]:
        yield say("qualification.round_length", found=lengths[0], wanted=lengths[1])
    for name, levels in wanted.levels.items():
        has = {level_key(name, level) for level in study.levels.get(name, ())}
        if lacking := [_head(name, level) for level in levels if level_key(name, level) not in has]:
            yield say(f"qualification.without_{name}", levels=lacking)
    if until.steady and not known.attained:
        yield say("qualification.not_steady", rounds=last + 1)
    if until.written is not None and known.written[-1] < CAPACITIES * capacity and last + 1 < wanted.until.max:
        wanted_bytes = units.format_size(CAPACITIES * capacity)
        yield say("qualification.not_saturated", found=units.format_size(known.written[-1]), wanted=wanted_bytes)
