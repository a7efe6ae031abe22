"""What a tool claims as entries of `ioassay import`: whatever the witness reads, import reads as well.

A number of a claim has one name, whichever tool printed it: `read.iops`, `write.lat.mean`, `sync.ios`, of operations
on keys `<test>.ops_rate`, of passes over a file `reread.bw`. What the output states of the load becomes the levels of
factors. Only a file that holds more than claims (distributions, series, more options) has a reader of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ioassay import formats
from ioassay.errors import InputError, naming
from ioassay.formats import number_parsing
from ioassay.formats.number_parsing import last_line
from ioassay.formats.result_entry import FORMATS, REGISTRY, Entry, size_level
from ioassay.records.record import Claim, Warning_

IMPORTED = tuple(dict.fromkeys((*formats.PARSERS, *FORMATS)))
"""Every tool whose results `ioassay import` reads, without those of plugins."""

_SUSPICIONS = {
    "clock-clamp": ("took no longer than a step of its clock: the number is the clock's, not the disk's", True),
    "poor-timer": ("is so short that IOzone itself calls the numbers inaccurate", True),
    "sides-unknown": ("does not say which side is a file: both have the rate of the copy", False),
}
"""What is said of a claim that has them, and whether a larger file helps."""
_KIND = re.compile(r"(?:slat|clat|sync)\.")
_LONGEST_NAME, _SHOWN_UNREAD = 40, 8


@dataclass(frozen=True)
class Reader:
    """How import reads the files of one tool; see `result_entry.FORMATS` for the members."""

    name: str
    WANTED: str
    looks_like: Callable[[str], object]
    read: Callable[[str, str], Sequence[Entry]]


def readers() -> list[Reader]:
    """In the order in which they are asked: first those of files that hold more than claims, last what is only similar.

    A tool with a reader of its own may have another output, whose claims are read.
    """
    own = {name: REGISTRY.load(name) for name in REGISTRY}
    tools = {name: formats.parser(name) for name in formats.REGISTRY if name not in own}
    own |= {name: tool.RESULTS for name, tool in tools.items() if hasattr(tool, "RESULTS")}
    found = [Reader(name, getattr(one, "WANTED", name), one.looks_like, one.read) for name, one in own.items()]
    similar = {name: one.resembles for name, one in own.items() if hasattr(one, "resembles")}
    claimed = (
        Reader(name, "" if name in own else f"{name}'s output", tool.looks_like, partial(read, name))
        for name, tool in tools.items()
    )
    return [*found, *claimed, *(Reader(name, "", looks_like, own[name].read) for name, looks_like in similar.items())]


def loads(reader: Reader, text: str, source: str) -> list[Entry]:
    """What a reader finds; its first entry has a warning that names what the text states and is not read."""
    with number_parsing.marks() as noted:
        found = list(reader.read(text, source))
    names = number_parsing.unread(text, noted) if found else []
    if names:
        more = f" and {len(names) - _SHOWN_UNREAD} more" if len(names) > _SHOWN_UNREAD else ""
        said = f"{source} states more than is read: {', '.join(names[:_SHOWN_UNREAD])}{more}"
        found[0] = replace(found[0], warnings=[*found[0].warnings, Warning_("fields-unread", said)])
    return found


def binaries() -> dict[bytes, str]:
    """What the files of tools that are refused begin with, and why."""
    tools = (formats.parser(name) for name in formats.REGISTRY)
    return {begin: why for tool in tools for begin, why in getattr(tool, "BINARY", {}).items()}


def read(name: str, text: str, source: str) -> list[Entry]:
    """The loads of an output by the claims of its tool; InputError names `source`."""
    tool: Any = formats.parser(name)
    parts = (tool.split(text) if hasattr(tool, "split") else []) or [text]
    with naming(source):
        found = [entry for part in parts for entry in _of_part(tool, part)]
    if not found:
        raise InputError(f"{source}: {name} claims no number in it; it ends with {last_line(text)}")
    return found


def _of_part(tool: Any, text: str) -> Iterator[Entry]:
    """Those of one run, with what its output states of the whole load (`LEVELS`) and says itself (`remarks`)."""
    stated = tool.LEVELS.read(text).texts if hasattr(tool, "LEVELS") else {}
    remarks = tool.remarks(text) if hasattr(tool, "remarks") else []
    for number, entry in enumerate(entries(tool.read(text))):
        said = entry.warnings if number else [*remarks, *entry.warnings]
        yield replace(entry, options={**stated, **entry.options}, warnings=said)


def entries(claims: Sequence[Claim]) -> list[Entry]:
    """The claims that belong to one load are one entry; the same metric again begins the same load anew."""
    found: list[tuple[Mapping[str, str], list[Claim], dict[str, float]]] = []
    for claim in claims:
        key, metrics = _load(claim), _metrics(claim)
        if found and found[-1][0] == key and not found[-1][2].keys() & metrics.keys():
            found[-1][1].append(claim)
            found[-1][2].update(metrics)
        elif metrics:
            found.append((key, [claim], metrics))
    return [_entry(*one) for one in found]


def _entry(key: Mapping[str, str], claims: Sequence[Claim], metrics: Mapping[str, float]) -> Entry:
    options = {**key, **_circumstances(claims)}
    return Entry(key.get("test", claims[0].source), options=options, metrics=metrics, warnings=warnings(claims))


def _load(claim: Claim) -> dict[str, str]:
    """What tells one load from another."""
    shared = formats.conventions(claim.source)
    sizes = {"record_size" if shared.passes else "bs": claim.record_bytes, "file_size": claim.file_bytes}
    found = {name: size_level(value) for name, value in sizes.items() if value is not None}
    if claim.test and not (shared.passes or shared.tests_are_work):
        found["test"] = claim.test
    if claim.workers is not None:
        found["workers"] = str(claim.workers)
    return found


def _circumstances(claims: Sequence[Claim]) -> dict[str, str]:
    """How a load was done, where all that is claimed of it says the same, or one of them says more."""
    direct = {claim.direct for claim in claims} - {None}
    found = {"direct": str(int(True in direct))} if direct else {}
    engines, paths = {claim.engine for claim in claims} - {""}, {path for claim in claims for path in claim.paths}
    included = dict.fromkeys(what for claim in claims for what in claim.includes)
    texts = {
        "ioengine": engines.pop() if len(engines) == 1 else "",
        "path": paths.pop() if len(paths) == 1 else "",
        "included": "+".join(included),
    }
    return found | {name: text for name, text in texts.items() if text}


def _metrics(claim: Claim) -> dict[str, float]:
    """Every number of a claim under its name; a rate that is not stated is that of the amount over the interval.

    Of a pass there are its rate and its times: its amounts are those of its file.
    """
    of, per_s, seconds = prefix(claim), claim.operations_per_s, claim.seconds
    keys, is_pass, rate = claim.kind == "keys", formats.conventions(claim.source).passes, claim.rate_bytes_per_s
    if seconds and not is_pass:
        per_s = claim.operations / seconds if claim.operations and not per_s else per_s
        rate = claim.bytes / seconds if claim.bytes and not rate else rate
    found = {f"{of}.{'ops_rate' if keys else 'iops'}": per_s, f"{of}.bw": rate}
    if keys:
        found |= {f"{of}.ops": claim.operations}
    elif not is_pass:
        found |= {f"{of}.ios": claim.operations, f"{of}.bytes": claim.bytes, f"{of}.runtime": seconds}
    for name, value in claim.latency_ns.items():
        kind, _, statistic = name.partition(".") if _KIND.match(name) else ("", "", name)
        time_of = "sync.lat" if kind == "sync" else f"{of}.{'op_time' if keys else kind or 'lat'}"
        found[f"{time_of}.{statistic}"] = value
    if claim.syncs:
        found |= {"sync.ios": claim.syncs, "sync.rate": claim.syncs / seconds if seconds else None}
    return {name: float(value) for name, value in found.items() if value}


def prefix(claim: Claim) -> str:
    """What its metrics begin with: what is done, of passes and of tests of keys their name."""
    shared = formats.conventions(claim.source)
    if claim.test and (shared.passes or (claim.kind == "keys" and shared.tests_are_work)):
        name = shared.pass_of(claim.test) if shared.pass_of else claim.test
        return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:_LONGEST_NAME] or "load"
    return {"keys": "load", "mixed": "total"}.get(claim.kind, claim.kind)


def warnings(claims: Sequence[Claim]) -> list[Warning_]:
    """What is to be said of claims whose own output gives something against them."""
    found = []
    for code, (text, larger) in _SUSPICIONS.items():
        names = dict.fromkeys(claim.test or claim.source for claim in claims if code in claim.doubts)
        if names:
            found.append(Warning_(code, f"{', '.join(names)} {text}", "take a larger file" if larger else ""))
    if failed := sum(claim.errors or 0 for claim in claims):
        found.append(Warning_("errors", f"{failed} operations of {claims[0].source} failed"))
    for misfit in _misfits(claims):
        found.append(Warning_("numbers-disagree", misfit))
    return found


def _misfits(claims: Sequence[Claim]) -> Iterator[str]:
    every = {one.name: one for claim in claims for one in claim.misfits}
    if every:
        one = next(iter(every.values()))
        more = f", and {len(every) - 1} more" if len(every) > 1 else ""
        implied = f"at least {one.low:.6g}" if one.high is None else f"{one.low:.6g} to {one.high:.6g}"
        yield f"{claims[0].source}'s {one.name.strip()} is {one.value:.6g}; its other numbers imply {implied}{more}"
