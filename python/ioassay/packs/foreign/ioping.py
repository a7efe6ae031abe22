"""What ioping claims: all requests of one run, from its last line of statistics, its raw numbers, or JSON.

ioping prints two sums. The requests that were *completed* leave out the first (the warm-up) and those outside -t and
-T, and their time is that of the requests alone; those that were *generated* are all, with the pauses between them.
The second is claimed, since the kernel sees all, and the first imported, since latencies are of these. Versions before
1.0 print no second sum; their first has the time of the pauses in it where it has no volume (0.6), and no interval is
claimed. A number without decimals is exact (ioping.c: print_suffix has decimals only where
the value is not whole).
"""

from __future__ import annotations

import json
import posixpath
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ioassay.errors import InputError
from ioassay.formats import Conventions, claim_entries
from ioassay.formats.number_parsing import (
    Quantity,
    Spread,
    between,
    duration,
    equal,
    last_line,
    lines_with,
    mark,
    next_lines,
    of_spread,
    parts_from,
    quotient,
    real,
    short_options,
    size,
    whole_number,
)
from ioassay.formats.result_entry import Entry, ResultFile
from ioassay.formats.text_rules import Fields, Tool, pattern, rules
from ioassay.pack import words
from ioassay.records.record import Claim, Misfit

_RULES = rules(Path(__file__).with_name("rules.toml"))
_REQUEST = pattern(r": request=([0-9]{1,9}) time=(#) (\w{1,4})( \((?:warmup|too fast|too slow)\))?")
_TITLE = re.compile(r"^--- (.{1,4096}) \([^()\n]{1,200}\) ioping statistics ---$", re.M)
_LINE_SIZE = pattern(r"^(#) (\w{1,5}) (<<<|>>>|from|to) ")
_RAW = re.compile(r"^[0-9]{1,19}(?: [0-9]{1,19}){9}$", re.M)
_RAW_NAMES = ("count", "time", "iops", "bps", "min", "avg", "max", "mdev", "all", "elapsed")
_STATED = {"min": "min", "avg": "mean", "max": "max", "mdev": "stddev"}
_KINDS = {"read": "read", "written": "write", "<<<": "read", ">>>": "write", "from": "read", "to": "write"}
_VALUED = "acbeiSsowlrtTpP"
_LONG = dict(
    pair.split("=")
    for pair in words(
        "direct=D write=W read-write=G async=A size=s warmup=a burst=b count=c entropy=e interval=i work-size=S "
        "work-offset=o work-time=w speed-limit=l rate-limit=r min-time=t max-time=T print-count=p print-interval=P"
    )
)
"""Long options that matter, or have a value."""
_DEFAULT_BYTES = 4096


def _split(text: str) -> list[str]:
    """A part for each run's statistics; one where they are no text."""
    starts = [match.start() for match in _TITLE.finditer(text)]
    if not starts:
        return [text] if CLAIMS.looks_like(text) or _RAW.search(text) else []
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


_Run = tuple[Claim, Mapping[str, Any]]
"""What is claimed of all requests, and what of the claim is another for those that were completed."""


def _claims(text: str, argv: Sequence[str]) -> Iterator[Claim]:
    """One claim a run."""
    command = _Command()
    if argv:  # long options may have one dash or two, and a value in the next word
        short = [re.sub(r"^--?([a-z-]{3,})$", lambda match: f"-{_LONG.get(match[1], '')}", word) for word in argv[1:]]
        options = short_options([word for word in short if word != "-"], _VALUED)
        printed = pattern(r"(#)([a-zA-Z]*)").fullmatch(options.get("s", ""))
        command = _Command(
            known=True,
            kind="mixed" if "G" in options else "write" if "W" in options else "read",
            direct="D" in options,
            engine="libaio" if "A" in options else "",
            target=options.get("", ""),
            size_bytes=size(printed[1], printed[2], "ioping's -s").rounded if printed else _DEFAULT_BYTES,
        )
    yield from (claim for claim, _ in _runs(text, command, has_raw=command.known))


def _entries(text: str) -> Iterator[Entry]:
    """One entry a run: the completed requests, and the rates at which all were generated."""
    found = [run for part in _split(text) for run in _runs(part, _Command(kind="mixed"), has_raw=_is_raw(text))]
    if not found:
        raise InputError(f"ioping printed no statistics; it ends with {last_line(text)}")
    for claim, completed in found:
        for entry in claim_entries.entries([replace(claim, **completed)]) or [Entry("ioping")]:
            rates = {"generated.ops_rate": claim.operations_per_s, "generated.bw": claim.rate_bytes_per_s}
            yield replace(entry, metrics={**entry.metrics, **{name: rate for name, rate in rates.items() if rate}})


def _is_raw(text: str) -> bool:
    """Whether a text is nothing but lines of -B, whose numbers agree with each other."""
    lines = [[int(word) for word in line.split()] for line in _RAW.findall(text)]
    agree = (abs(one[2] * one[1] - one[0] * 10**9) <= one[1] and one[4] <= one[5] <= one[6] for one in lines)
    return bool(lines) and not _RAW.sub("", text).strip() and all(agree)


def _runs(text: str, command: _Command, *, has_raw: bool) -> list[_Run]:
    """Those of text, JSON or, where it `has_raw` numbers, of the last line of these."""
    found = list(_of_text(text, command))
    if not found and '"stat": {' in text:
        found = [_of_json(text, command)]
    elif not found and has_raw and (lines := _RAW.findall(text)):
        numbers = {name: whole_number(word, name) for name, word in zip(_RAW_NAMES, lines[-1].split(), strict=True)}
        # The bytes are those of the requests, whose size the numbers do not say.
        volume = whole_number(numbers["all"] * (command.size_bytes or 0), "ioping's bytes") or None
        stated = {"bytes": volume, "seconds": numbers["elapsed"] / 1e9, "record_bytes": command.size_bytes}
        found = [_exact(command, numbers, numbers["all"], kind=command.kind, **stated)]
    return found


def _of_text(text: str, command: _Command) -> Iterator[_Run]:
    """Of each run's statistics: two sums (one before 1.0) and, if any request was timed, the ends of their times."""
    start = 0
    for end, line in lines_with(text, " requests completed in "):
        completed, following = _RULES["ioping_completed"].line(line), [*next_lines(text, end, 2), "", ""]
        generated = _RULES["ioping_generated"].line(following[0])
        last = following[1 if generated else 0]
        ends = _RULES["ioping_ends"].line(last) or _RULES["ioping_ends_ms"].line(last)
        if completed is None or (generated is None and ends is None):
            continue
        start = max(start, end - 10_000)
        titles, sizes = _TITLE.findall(text, start, end), _LINE_SIZE.findall(text, start, end)
        lines = [*_REQUEST.finditer(text, start, end)]
        start = end
        printed_bytes = size(sizes[-1][0], sizes[-1][1], "ioping's request").rounded if sizes else None
        each_bytes = printed_bytes if sizes else command.size_bytes
        made, ended = (generated or completed)["requests"], completed["requests"]
        stated = _of_sum(generated or completed, each_bytes)
        if generated is None:
            stated = {name: stated[name] for name in ("operations", "bytes")}
        for one in lines:
            mark(text, *one.span())
        latencies = ends.numbers if ends else {}
        every = [(duration(one[2], one[3], "ioping's time"), not one[4]) for one in lines]
        if [one[1] for one in lines] != [str(number) for number in range(1, (stated["operations"] or 0) + 1)]:
            every = []  # a filter left some out, or several runs are in one output
        misfits = _of_requests(completed, latencies, [one for one, timed in every if timed])
        for name, total in (("completed", completed), ("generated", generated)):
            misfits += _of_totals(name, total, printed_bytes) if total and "bytes" in total else []
        if generated:
            longest_s = generated["time"].value + generated["time"].step + completed["time"].step
            misfits += between("completed time", completed["time"].value, 0.0, longest_s)
        way = completed.text("kind") or ("" if "bytes" in completed or not sizes else sizes[-1][2])
        claim = _claim(
            command,
            kind=_KINDS.get(way, "mixed"),
            target=titles[-1] if titles else "",
            latency_ns={name: one.value * 1e9 for name, one in latencies.items() if one.value > 0},
            latency_step_ns={name: value.step * 1e9 for name, value in latencies.items()},
            latency_operations=None if made.whole and ended == made else ended.rounded,
            record_bytes=each_bytes,
            requests_ns=tuple(one.value * 1e9 for one, _ in every),
            misfits=tuple(misfits),
            **stated,
        )
        yield claim, _of_sum(completed, each_bytes)


def _of_sum(printed: Fields, each_bytes: int | None) -> dict[str, Any]:
    """What a claim says of a sum; bytes are exact, or no number of requests is there to contradict them."""
    made, time, iops, volume = printed["requests"], printed["time"], printed["iops"], printed.numbers.get("bytes")
    operations, rate = made.rounded if made.whole else None, printed.numbers.get("rate") or printed["rate_mib"]
    exact = volume.rounded if volume and (volume.whole or operations is None) else None
    if operations is not None and each_bytes:
        product = whole_number(operations * each_bytes, "ioping's bytes")
        exact = product if volume is None or abs(product - volume.value) <= volume.step else exact
    return {
        "operations": operations,
        "bytes": exact,
        "seconds": time.value,
        "clock_step_s": time.step,
        "rate_bytes_per_s": rate.value,
        "rate_unit_bytes": max(rate.step, volume.step if volume and not made.whole else 0.0),
        "operations_per_s": iops.value,
        "operations_per_s_step": iops.step,
    }


def _of_totals(name: str, found: Fields, each_bytes: int | None) -> list[Misfit]:
    """What of a line of totals contradicts the rest of it; times are in seconds."""
    requests, time, volume, iops, per_s = (found[one] for one in ("requests", "time", "bytes", "iops", "rate"))
    steps = 0.0 if requests.whole else requests.step, time.step, iops.step
    misfits = quotient(f"{name} rate", volume.value, time.value, per_s.value, volume.step, time.step, per_s.step)
    misfits += quotient(f"{name} iops", requests.value, time.value, iops.value, *steps)
    if requests.whole and each_bytes:
        misfits += equal(f"{name} bytes", volume.value, requests.value * each_bytes, volume.step)
    return misfits


def _of_requests(ended: Fields, latencies: Mapping[str, Quantity], timed: Sequence[Quantity]) -> list[Misfit]:
    """What of the statistics contradicts the sum of all, or the time of each request."""
    number, time, found = ended["requests"], ended["time"], list[Misfit]()
    number_step = 0.0 if number.whole else number.step
    if latencies:
        mean = latencies["mean"]
        if "bytes" in ended:
            found += quotient("mean", time.value, number.value, mean.value, time.step, number_step, mean.step)
        mean_s, spread_s, least_s, most_s = (latencies[name].value for name in ("mean", "stddev", "min", "max"))
        step = max(one.step for one in latencies.values())
        found += of_spread("", Spread(number.rounded, mean_s, spread_s, least_s, most_s, step=step))
    if timed:
        values, step = [one.value for one in timed], max(one.step for one in timed)
        found += equal("completed requests", number.value, len(timed), number_step)
        if "bytes" in ended:
            found += equal("completed time", time.value, sum(values), sum(one.step for one in timed) + time.step)
        ends = {name: choose(timed, key=lambda one: one.value) for name, choose in (("min", min), ("max", max))}
        for name in ends.keys() & latencies.keys():
            found += equal(name, latencies[name].value, ends[name].value, ends[name].step + latencies[name].step)
        if "stddev" in latencies:
            spread = latencies["stddev"]
            found += equal("deviation", spread.value, statistics.pstdev(values), step + spread.step)
    return found


def _of_json(text: str, command: _Command) -> _Run:
    """The last statistics; each element of the list is a request or statistics."""
    try:
        elements, _ = json.JSONDecoder().raw_decode(text, text.index("["))
    except (ValueError, RecursionError):
        raise InputError("ioping's JSON is not complete: it was ended before its last request was") from None
    known = [element for element in elements if isinstance(element, dict)]
    last = next((element for element in reversed(known) if {"stat", "load"} <= element.keys()), None)
    if last is None or not all(isinstance(last[name], dict) for name in ("stat", "load")):
        raise InputError("ioping's JSON has no statistics ('stat' and 'load')")
    load, target = last["load"], last.get("target")
    requests = [element["io"] for element in known if isinstance(element.get("io"), dict)]
    made = {str(request.get("operation")) for request in requests}
    path = target.get("path") if isinstance(target, dict) else None
    stated = {
        name: real(last["stat"].get(name), f"ioping's {name}") for name in ("count", "time", "iops", "bps", *_STATED)
    }
    return _exact(
        command,
        {name: real(value, f"ioping's {name}") for name, value in last["stat"].items()} | stated,
        kind=made.pop() if len(made) == 1 and made <= {"read", "write"} else command.kind if not made else "mixed",
        target=path if isinstance(path, str) else "",
        operations=whole_number(load.get("count"), "ioping's count"),
        bytes=whole_number(load.get("size"), "ioping's size"),
        seconds=real(load.get("time"), "ioping's time") / 1e9,
        rate_bytes_per_s=real(load.get("bps"), "ioping's bps"),
        operations_per_s=real(load.get("iops"), "ioping's iops"),
    )


def _exact(command: _Command, stat: Mapping[str, float], operations: int, **claimed: Any) -> _Run:
    """A run with exact statistics: times are in ns, rates are rounded down, or have decimals."""
    number, time_s = stat["count"], stat["time"] / 1e9
    misfits = quotient("iops", number, time_s, stat["iops"], 0.0, 0.0, 1.0)
    misfits += quotient("mean", stat["time"], number, stat["avg"], 0.0, 0.0, 1.0)
    if "size" in stat:
        misfits += quotient("rate", stat["size"], time_s, stat["bps"], 0.0, 0.0, 1.0)
    spread = Spread(round(number), stat["avg"], stat["mdev"], stat["min"], stat["max"], step=1.0)
    claim = _claim(
        command,
        operations=operations,
        latency_ns={name: float(stat[stated]) for stated, name in _STATED.items() if stat[stated]},
        latency_operations=round(number) if number != operations else None,
        misfits=(*misfits, *of_spread("", spread)),
        **claimed,
    )
    rates = {"seconds": time_s, "rate_bytes_per_s": stat["bps"], "operations_per_s": stat["iops"]}
    return claim, {"operations": round(number), "bytes": stat.get("size"), **rates}


def _claim(command: _Command, *, kind: str, target: str = "", **numbers: Any) -> Claim:
    """A folder is no file; what is written to its own file beforehand is left out of the numbers."""
    path = target or command.target
    return Claim(
        source="ioping",
        kind=kind,
        engine=command.engine,
        direct=command.direct,
        paths=(path,) if path and posixpath.normpath(path) not in (".", "..") else (),
        unreported=() if kind == "read" else ("layout",),
        **numbers,
    )


CLAIMS: Tool = Tool(
    "ioping",
    claims=_claims,
    missing="ioping printed no statistics",
    sign=lambda text: (
        " ioping statistics ---" in text or ('"load": {' in text and '"stat": {' in text and '"mdev"' in text)
    ),
    split=_split,
    CONVENTIONS=Conventions(syncs_timed=True),
    RESULTS=ResultFile("ioping's output", lambda text: CLAIMS.looks_like(text) or _is_raw(text), _entries),
)
