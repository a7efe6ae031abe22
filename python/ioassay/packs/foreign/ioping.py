"""What ioping claims: all requests of one run, from its last line of statistics, its raw numbers, or JSON.

ioping prints two sums. The requests that were *completed* leave out the first (the warm-up) and those outside -t and
-T, and their time is that of the requests alone; those that were *generated* are all, with the pauses between them.
Calls are all, so the second is claimed; latencies are those of the first, whose number is claimed where it is lower.
A number without decimals is exact (ioping.c: print_suffix has decimals only where the value is not whole). In a folder
ioping makes a file of its own and writes it before its clock starts.
"""

from __future__ import annotations

import json
import posixpath
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.errors import InputError
from ioassay.formats import Conventions, command_line
from ioassay.formats.number_parsing import lines_with, next_lines, parts_from, real, whole_number
from ioassay.formats.printed_quantity import (
    NUMBER,
    Quantity,
    count,
    duration,
    last_line,
    latencies_ns,
    rate,
    short_options,
    size,
)
from ioassay.formats.redundancy import Spread, between, equal, of_spread, quotient
from ioassay.records.record import Claim, Misfit

NAME = "ioping"
STREAM = "stdout"
CONVENTIONS = Conventions(syncs_timed=True)

_COUNT = rf"({NUMBER})(?: ([kMGT]))?"
_RATES = rf"{_COUNT} iops, ({NUMBER}) (\w{{1,3}})/s"
_COMPLETED = re.compile(
    rf"{_COUNT} requests completed in ({NUMBER}) (\w{{1,4}}), ({NUMBER}) (\w{{1,3}})(?: (read|written))?, {_RATES}"
)
_GENERATED = re.compile(rf"generated {_COUNT} requests in ({NUMBER}) (\w{{1,4}}), ({NUMBER}) (\w{{1,3}})(), {_RATES}")
_REQUEST = re.compile(
    rf": request=([0-9]{{1,9}}) time=({NUMBER}) (\w{{1,4}})( \((?:warmup|too fast|too slow)\))?", re.M
)
_ENDS = re.compile(rf"min/avg/max/mdev = {' / '.join([rf'({NUMBER}) ([a-z]+)'] * 4)}")
_TITLE = re.compile(r"^--- (.{1,4096}) \([^()\n]{1,200}\) ioping statistics ---$", re.M)
_LINE_SIZE = re.compile(rf"^({NUMBER}) (\w{{1,3}}) (?:<<<|>>>) ", re.M)
_RAW = re.compile(r"^[0-9]{1,19}(?: [0-9]{1,19}){9}$", re.M)
_RAW_NAMES = ("count", "time", "iops", "bps", "min", "avg", "max", "mdev", "all", "elapsed")
_KINDS = {"read": "read", "written": "write", None: "mixed"}
_VALUED = "acbeiSsowlrtTpP"
_LONG = {
    "direct": "D",
    "write": "W",
    "read-write": "G",
    "async": "A",
    "size": "s",
    "warmup": "a",
    "burst": "b",
    "count": "c",
    "entropy": "e",
    "interval": "i",
    "work-size": "S",
    "work-offset": "o",
    "work-time": "w",
    "speed-limit": "l",
    "rate-limit": "r",
    "min-time": "t",
    "max-time": "T",
    "print-count": "p",
    "print-interval": "P",
}
"""Long options that matter, or have a value."""
_STATED = ("min", "avg", "max", "mdev")
_STATISTICS = ("min", "mean", "max", "stddev")
_DEFAULT_BYTES = 4096
_OWN_FILES = "layout"


def matches(program: str) -> bool:
    """Whether this is ioping."""
    return program == "ioping"


def looks_like(text: str) -> bool:
    """Whether it has ioping's statistics, as text or JSON."""
    return " ioping statistics ---" in text or ('"load": {' in text and '"stat": {' in text and '"mdev"' in text)


def split(text: str) -> list[str]:
    """A part for each run's statistics; one where they are no text."""
    starts = [match.start() for match in _TITLE.finditer(text)]
    if not starts:
        return [text] if looks_like(text) or _RAW.search(text) else []
    return parts_from(text, [0, *(text.find("\n", text.rfind("min/avg/max", 0, start)) for start in starts[1:])])


@dataclass(frozen=True)
class _Command:
    """What the arguments ask for; `known` only where there are some."""

    known: bool = False
    kind: str = "read"
    direct: bool | None = None
    engine: str = ""
    target: str = ""
    size_bytes: int | None = None


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """One claim a run; InputError when none printed its statistics."""
    words = command_line.words_of(argv, matches)
    command = _command(words[1:]) if words else _Command()
    claims = list(_of_text(text, command))
    if not claims and '"stat": {' in text:
        claims = [_of_json(text, command)]
    if not claims and command.known and (lines := _RAW.findall(text)):
        claims = [_of_raw(lines[-1], command)]
    if not claims:
        raise InputError(f"ioping printed no statistics; its output ends with {last_line(text)}")
    return claims


def _command(words: Sequence[str]) -> _Command:
    """Long options may have one dash or two, and a value in the next word."""
    short = [re.sub(r"^--?([a-z-]{3,})$", lambda match: f"-{_LONG.get(match[1], '')}", word) for word in words]
    options = short_options([word for word in short if word != "-"], _VALUED)
    printed = re.fullmatch(rf"({NUMBER})([a-zA-Z]*)", options.get("s", ""))
    return _Command(
        known=True,
        kind="mixed" if "G" in options else "write" if "W" in options else "read",
        direct="D" in options,
        engine="libaio" if "A" in options else "",
        target=options.get("", ""),
        size_bytes=size(printed[1], printed[2], "ioping's -s").rounded if printed else _DEFAULT_BYTES,
    )


def _of_text(text: str, command: _Command) -> Iterator[Claim]:
    start = 0
    for end, line in lines_with(text, " requests completed in "):
        completed, following = _COMPLETED.fullmatch(line.strip()), next_lines(text, end, 2)
        generated = _GENERATED.fullmatch(following[0]) if completed and following else None
        if completed is None or generated is None:
            continue
        start = max(start, end - 10_000)
        titles, sizes = _TITLE.findall(text, start, end), _LINE_SIZE.findall(text, start, end)
        lines = [*_REQUEST.finditer(text, start, end)]
        start = end
        ends = _ENDS.fullmatch(following[1]) if len(following) > 1 else None
        yield _of_statistics(completed, generated, ends, command, titles[-1:], sizes[-1:], lines)


@dataclass(frozen=True)
class _Sum:
    """A line of totals; times are in seconds."""

    requests: Quantity
    time: Quantity
    volume: Quantity
    iops: Quantity
    rate: Quantity

    def misfits(self, name: str, each_bytes: int | None) -> list[Misfit]:
        """What of it contradicts the rest of it."""
        volume = self.volume.value, self.time.value, self.rate.value, self.volume.step, self.time.step, self.rate.step
        number = self.requests
        made = number.value, self.time.value, self.iops.value, 0.0 if number.whole else number.step, self.time.step
        found = [*quotient(f"{name} rate", *volume), *quotient(f"{name} iops", *made, self.iops.step)]
        if number.whole and each_bytes:
            found += equal(f"{name} bytes", self.volume.value, number.value * each_bytes, self.volume.step)
        return found


def _sum(line: re.Match[str]) -> _Sum:
    return _Sum(
        count(line[1], line[2] or "", "ioping's requests"),
        duration(line[3], line[4], "ioping's time"),
        size(line[5], line[6], "ioping's bytes"),
        count(line[8], line[9] or "", "ioping's iops"),
        rate(line[10], line[11], "ioping's rate"),
    )


def _of_statistics(
    completed: re.Match[str],
    generated: re.Match[str],
    ends: re.Match[str] | None,
    command: _Command,
    titles: Sequence[str],
    sizes: Sequence[tuple[str, str]],
    lines: Sequence[re.Match[str]],
) -> Claim:
    ended, made = _sum(completed), _sum(generated)
    volume = made.volume
    each_bytes = size(*sizes[0], "ioping's request").rounded if sizes else command.size_bytes if command.known else None
    operations = made.requests.rounded if made.requests.whole else None
    exact = volume.rounded if volume.whole else None
    if operations is not None and each_bytes and abs(operations * each_bytes - volume.value) <= volume.step:
        exact = whole_number(operations * each_bytes, "ioping's bytes")
    latencies: dict[str, Quantity] = {}
    if ends:
        pairs = [duration(ends[place], ends[place + 1], "ioping's latency") for place in (1, 3, 5, 7)]
        latencies = dict(zip(_STATISTICS, pairs, strict=True))
    every = [(duration(one[2], one[3], "ioping's time"), not one[4]) for one in lines]
    if [one[1] for one in lines] != [str(number) for number in range(1, (operations or 0) + 1)]:
        every = []  # a filter left some out, or several runs are in one output
    return _claim(
        command,
        kind=_KINDS[completed[7]],
        target=titles[0] if titles else "",
        operations=operations,
        bytes=exact if exact is not None or operations is not None else volume.rounded,
        seconds=made.time.value,
        clock_step_s=made.time.step,
        rate_bytes_per_s=made.rate.value,
        rate_unit_bytes=made.rate.step if operations is not None else max(made.rate.step, volume.step),
        latency_ns=latencies_ns(latencies),
        latency_step_ns={name: value.step * 1e9 for name, value in latencies.items()},
        latency_operations=None if made.requests.whole and ended.requests == made.requests else ended.requests.rounded,
        operations_per_s=made.iops.value,
        operations_per_s_step=made.iops.step,
        record_bytes=each_bytes,
        requests_ns=tuple(one.value * 1e9 for one, _ in every),
        misfits=(
            *ended.misfits("completed", each_bytes if sizes else None),
            *made.misfits("generated", each_bytes if sizes else None),
            *between("completed time", ended.time.value, 0.0, made.time.value + made.time.step + ended.time.step),
            *_of_requests(ended, latencies, [one for one, timed in every if timed]),
        ),
    )


def _of_requests(ended: _Sum, latencies: Mapping[str, Quantity], timed: Sequence[Quantity]) -> list[Misfit]:
    """What of the statistics contradicts the sum of all, or the time of each request."""
    number, found = ended.requests, list[Misfit]()
    if latencies:
        mean, steps = latencies["mean"], (ended.time.step, 0.0 if number.whole else number.step)
        found += quotient("mean", ended.time.value, number.value, mean.value, *steps, mean.step)
        mean_s, spread_s, least_s, most_s = (latencies[name].value for name in ("mean", "stddev", "min", "max"))
        step = max(one.step for one in latencies.values())
        found += of_spread("", Spread(number.rounded, mean_s, spread_s, least_s, most_s, step=step))
    if not timed:
        return found
    values, step = [one.value for one in timed], max(one.step for one in timed)
    found += equal("completed requests", number.value, len(timed), 0.0 if number.whole else number.step)
    found += equal("completed time", ended.time.value, sum(values), sum(one.step for one in timed) + ended.time.step)
    for name, seen in (("min", min(timed, key=_value)), ("max", max(timed, key=_value))):
        if name in latencies:
            found += equal(name, latencies[name].value, seen.value, seen.step + latencies[name].step)
    if "stddev" in latencies:
        spread = latencies["stddev"]
        found += equal("deviation", spread.value, statistics.pstdev(values), step + spread.step)
    return found


def _value(quantity: Quantity) -> float:
    return quantity.value


def _of_raw(line: str, command: _Command) -> Claim:
    """Times in ns; the bytes are those of the requests, whose size the numbers do not say."""
    numbers = {name: whole_number(word, name) for name, word in zip(_RAW_NAMES, line.split(), strict=True)}
    latencies = dict(zip(_STATISTICS, (numbers[name] for name in _STATED), strict=True))
    return _claim(
        command,
        kind=command.kind,
        operations=numbers["all"],
        bytes=whole_number(numbers["all"] * (command.size_bytes or 0), "ioping's bytes") or None,
        seconds=numbers["elapsed"] / 1e9,
        latency_ns={name: float(value) for name, value in latencies.items() if value},
        latency_operations=_fewer(numbers["count"], numbers["all"]),
        record_bytes=command.size_bytes,
        misfits=tuple(_of_exact(numbers)),
    )


def _of_exact(stat: Mapping[str, float]) -> list[Misfit]:
    """Times are in ns; rates are rounded down, or have decimals."""
    number, time_s = stat["count"], stat["time"] / 1e9
    found = quotient("iops", number, time_s, stat["iops"], 0.0, 0.0, 1.0)
    found += quotient("mean", stat["time"], number, stat["avg"], 0.0, 0.0, 1.0)
    if "size" in stat:
        found += quotient("rate", stat["size"], time_s, stat["bps"], 0.0, 0.0, 1.0)
    return found + of_spread("", Spread(round(number), stat["avg"], stat["mdev"], stat["min"], stat["max"], step=1.0))


def _of_json(text: str, command: _Command) -> Claim:
    """The last statistics; each element of the list is a request or statistics."""
    try:
        elements, _ = json.JSONDecoder().raw_decode(text, text.index("["))
    except (ValueError, RecursionError):
        raise InputError("ioping's JSON is not complete: it was ended before its last request was") from None
    known = [element for element in elements if isinstance(element, dict)]
    last = next((element for element in reversed(known) if {"stat", "load"} <= element.keys()), None)
    if last is None or not all(isinstance(last[name], dict) for name in ("stat", "load")):
        raise InputError("ioping's JSON has no statistics ('stat' and 'load')")
    stat, load = last["stat"], last["load"]
    requests = [element["io"] for element in known if isinstance(element.get("io"), dict)]
    made = {str(request.get("operation")) for request in requests}
    target = last.get("target")
    operations = whole_number(load.get("count"), "ioping's count")
    return _claim(
        command,
        kind=made.pop() if len(made) == 1 and made <= {"read", "write"} else command.kind if not made else "mixed",
        target=_path(target),
        operations=operations,
        bytes=whole_number(load.get("size"), "ioping's size"),
        seconds=real(load.get("time"), "ioping's time") / 1e9,
        rate_bytes_per_s=real(load.get("bps"), "ioping's bps"),
        latency_ns={
            name: value_ns
            for name, stated in zip(_STATISTICS, _STATED, strict=True)
            if (value_ns := real(stat.get(stated), f"ioping's {stated}")) > 0
        },
        latency_operations=_fewer(whole_number(stat.get("count"), "ioping's count"), operations),
        operations_per_s=real(load.get("iops"), "ioping's iops"),
        misfits=tuple(_of_exact({name: real(value, f"ioping's {name}") for name, value in stat.items()})),
    )


def _fewer(timed: int, made: int) -> int | None:
    return timed if timed != made else None


def _path(target: object) -> str:
    path = target.get("path") if isinstance(target, dict) else None
    return path if isinstance(path, str) else ""


def _claim(command: _Command, *, kind: str, target: str = "", **numbers: Any) -> Claim:
    """A folder is no file; what is written to its own file beforehand is left out of the numbers."""
    path = target or command.target
    named = posixpath.normpath(path) not in (".", "..") if path else False
    return Claim(
        source=NAME,
        kind=kind,
        engine=command.engine,
        direct=command.direct,
        paths=(path,) if named else (),
        unreported=() if kind == "read" else (_OWN_FILES,),
        **numbers,
    )
