"""Several loads on one simulated drive at once, each a closed or an open loop: MQSim's flows, fio's jobs.

A flow is written as `read,depth=8,size=4KiB` or as a mapping of the same keys; docs/simulator.md has them. Ranges may
be shares of the drive, so that the core's description needs its capacity. Nothing is simulated here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ioassay.errors import StudyError, UsageError
from ioassay.hints import suggestion
from ioassay.simulation import traces
from ioassay.simulation.options import of_key
from ioassay.simulation.trace_parameters import KEYS
from ioassay.units import parse_duration_s, parse_size

_WORDS = dict.fromkeys(("read", "write", "mixed"), "operation")
_WORDS |= dict.fromkeys(("random", "sequential", "zipf"), "pattern")
"""Values that may stand without their key."""
_KEYS = (
    "name", "operation", "read_share", "size", "depth", "rate", "pattern", "range", "align", "priority", "requests",
    "seconds",
)  # fmt: skip
_READ_SHARES = {"read": 1.0, "write": 0.0}
_MIXED = 0.5
DEFAULTS: Mapping[str, Any] = {"window": None}
"""Options of a simulation of flows that are not given: the depths bound what is outstanding."""
_DEFAULT_S = 1.0
"""Simulated time of flows none of which has an end."""
_LONGEST_S = 3e9
"""Of an open loop without an end: a recipe may last a century."""
_ENDLESS = 2**62
_MOST_PER_SECOND, _USUAL_PER_SECOND = 1e9, 1e5
_SEED_STEP = 2**32
"""Between the seeds of flows, beyond those of repetitions: the first flow has that of its recipe."""


def flows(*loads: str | Mapping[str, Any], seed: int = 1) -> dict[str, Any]:
    """Flows in place of a trace: `ioassay.simulate(flows("read,depth=8", "write,rate=2000"), drive=…)`.

    A text may hold several, with `;` between them. All that is random follows from `seed`. Raises UsageError.
    """
    parts = [part for load in loads for part in (load.split(";") if isinstance(load, str) else [load])]
    described = [_flow(part) for part in parts]
    if not described:
        raise UsageError("no flow is given, expected one such as read,depth=8,size=4KiB")
    names: list[str] = []
    for flow in described:
        word = flow["operation"]
        unused = (name for name in (word, *(f"{word}-{number}" for number in range(2, 2**16))) if name not in names)
        wanted = flow.setdefault("name", next(unused))
        if not re.fullmatch(r"[\w.-]+", wanted):
            raise UsageError(f"a flow is called '{wanted}', expected letters, digits, '.', '_' and '-'")
        if wanted in names:
            raise UsageError(f"two flows are called '{wanted}', expected a name for each")
        names.append(wanted)
    return {"flows": described, "seed": seed}


@dataclass(frozen=True)
class FlowParameters:
    """Flows in the parameters of a trial: what `TraceParameters` has, as far as it applies."""

    loads: Sequence[str]
    names: Sequence[str] = ()
    format: str | None = None
    read: Mapping[str, Any] | None = None
    prepare: Mapping[str, Any] = field(default_factory=dict)
    get: str = ""

    @classmethod
    def of(cls, params: Mapping[str, Any], others: Sequence[str]) -> FlowParameters:
        for name in params:
            if name in KEYS:
                raise StudyError("is about a trace, and flows are given; expected one of both", key=f"params.{name}")
            if name not in (known := ["flows", *others]):
                raise StudyError(f"no such parameter; {suggestion(name, known)}", key=f"params.{name}")
        loads = [given] if isinstance(given := params["flows"], str) else given
        if not isinstance(loads, list) or not all(isinstance(load, str) for load in loads):
            raise StudyError(f"is {given!r}; expected texts such as 'read,depth=8'", key="params.flows")
        return cls(loads)

    def trace(self, repetition: int) -> traces.Trace:
        """The same loads at every point of a study, other requests in each repetition."""
        with of_key("params.flows"):
            return flows(*self.loads, seed=repetition + 1)

    def prepared(self, page: str | int, **sizes: int) -> None:
        """Nothing is done to them."""

    def check(self, prepare: Mapping[str, Any] | None) -> None:
        self.trace(repetition=0)

    def requests(self) -> float:
        """About how many they issue; of a closed loop that ends by time, with a usual rate of a drive."""
        loads = flows(*self.loads)["flows"]
        rates = [_arrivals(load["rate"])[1] if "rate" in load else _USUAL_PER_SECOND for load in loads]
        given = [(float(load.get("requests", 0)), rate) for load, rate in zip(loads, rates, strict=True)]
        spans = [number / rate for number, rate in given]
        spans += [parse_duration_s(load["seconds"]) for load in loads if "seconds" in load]
        return sum(number or rate * (max(spans) or _DEFAULT_S) for number, rate in given)


def are_flows(trace: Any) -> bool:
    return isinstance(trace, Mapping) and "flows" in trace


def described(trace: Mapping[str, Any], capacity_bytes: int) -> dict[str, Any]:
    """The core's description of `flows` on a drive of that capacity. Raises UsageError."""
    loads: Sequence[Mapping[str, Any]] = trace["flows"]
    has_end = any(load.keys() & {"requests", "seconds"} for load in loads)
    found = []
    for number, load in enumerate(loads):
        try:
            found.append(_described(load, capacity_bytes, trace["seed"] + number * _SEED_STEP, has_end))
        except (ValueError, UsageError) as error:
            raise UsageError(f"flow '{load['name']}': {error}") from None
    return {"flows": found}


def _flow(given: str | Mapping[str, Any]) -> dict[str, Any]:
    """Its keys, each value as it was written."""
    text = given if isinstance(given, str) else ",".join(f"{key}={value}" for key, value in given.items())
    found: dict[str, Any] = {}
    for part in text.split(","):
        word, equals, value = (each.strip() for each in part.partition("="))
        known = _WORDS.get(word.partition(":")[0])
        key, value = (known, word) if known and not equals else (word.replace("-", "_"), value)
        if key not in _KEYS or not value:
            hint = suggestion(word, [*_WORDS, *_KEYS], f"expected an operation, or KEY=VALUE with {', '.join(_KEYS)}")
            raise UsageError(f"flow '{text}': '{part.strip()}' is no part of a flow; {hint}")
        if key in found:
            raise UsageError(f"flow '{text}': {key} is given twice, as {found[key]} and {value}")
        found[key] = value
    if found.get("operation") not in (*_READ_SHARES, "mixed"):
        raise UsageError(f"flow '{text}': operation is {found.get('operation')}, expected read, write or mixed")
    for first, second in (("depth", "rate"), ("requests", "seconds")):
        if {first, second} <= found.keys():
            raise UsageError(f"flow '{text}': {first} and {second} are given, expected one of them")
    if "read_share" in found and found["operation"] != "mixed":
        raise UsageError(f"flow '{text}': read_share is for mixed, and the operation is {found['operation']}")
    try:
        _described(found, None, 1, True)
    except (ValueError, UsageError) as error:
        raise UsageError(f"flow '{text}': {error}") from None
    return found


def _described(flow: Mapping[str, Any], capacity_bytes: int | None, seed: int, has_end: bool) -> dict[str, Any]:
    """ValueError, or UsageError of a recipe, for what cannot be; without a capacity, ranges are not looked at."""
    size_bytes = parse_size(flow.get("size", "4KiB"))
    align_bytes = parse_size(flow.get("align", size_bytes))
    if not (size_bytes and align_bytes):
        raise ValueError(f"{'align' if size_bytes else 'size'} is 0, expected at least 1 byte")
    begin_bytes, span_bytes = 0, size_bytes
    if capacity_bytes is not None:
        begin_bytes, end_bytes = _range(flow.get("range", "0-100%"), capacity_bytes, align_bytes)
        span_bytes = end_bytes - begin_bytes
        if span_bytes < max(size_bytes, align_bytes):
            span = f"{begin_bytes:,} to {end_bytes:,} of the drive's {capacity_bytes:,} bytes"
            raise ValueError(f"range is {span}, expected room for a request of {size_bytes:,}")
    depth = None if "rate" in flow else _whole("depth", flow.get("depth", 1))
    arrivals, per_second = ("none", math.inf) if depth else _arrivals(flow["rate"])
    seconds = parse_duration_s(flow["seconds"]) if "seconds" in flow else None if has_end else _DEFAULT_S
    if seconds == 0:
        raise ValueError("seconds is 0, expected a time to run")
    requests = _whole("requests", flow["requests"]) if "requests" in flow else min(_ENDLESS, _LONGEST_S * per_second)
    if (priority := str(flow.get("priority", 0))) not in ("0", "1"):
        raise ValueError(f"priority is {priority}, expected 0 or 1")
    recipe = traces.recipe(
        requests=int(requests),
        arrivals=arrivals,
        addresses=flow.get("pattern", "uniform").replace("random", "uniform"),
        sizes=size_bytes,
        reads=_READ_SHARES.get(flow["operation"], float(flow.get("read_share", _MIXED))),
        range=span_bytes,
        align=align_bytes,
        seed=seed,
    )
    return {
        "name": flow.get("name", ""),
        "source": {"make": {**recipe, "begin_bytes": begin_bytes}},
        "depth": depth,
        "urgent": priority == "1",
        "seconds": seconds,
        # One without an end goes on as long as one with an end does.
        "background": has_end and not flow.keys() & {"requests", "seconds"},
    }


def _range(text: str, capacity_bytes: int, align_bytes: int) -> tuple[int, int]:
    """`20-50%`, `1GiB-2GiB`: where it begins and ends, at multiples of the alignment."""
    begin, dash, end = text.partition("-")
    if not dash:
        raise ValueError(f"range is {text}, expected BEGIN-END such as 0-50% or 1GiB-2GiB")
    begin, end, places = begin.strip(), end.strip(), []
    if end.endswith("%") and begin.isdecimal():
        begin = f"{begin}%"
    for place in (begin, end):
        share = float(place[:-1]) / 100 if place.endswith("%") else None
        place_bytes = parse_size(place) if share is None else round(share * capacity_bytes)
        if not 0 <= place_bytes <= capacity_bytes:
            raise ValueError(f"range is {text}, expected places within the drive's {capacity_bytes:,} bytes")
        places.append(place_bytes // align_bytes * align_bytes)
    return places[0], places[1]


def _whole(name: str, text: Any) -> int:
    if not str(text).isdecimal() or int(text) == 0:
        raise ValueError(f"{name} is {text}, expected a whole number from 1 on")
    return int(text)


def _arrivals(rate: str) -> tuple[str, float]:
    """Arrivals at equal distances, as of fio's `rate_iops`, or by a law such as `poisson:2000`; and the rate."""
    law, _, number = rate.rpartition(":")
    per_second = float(number) if re.fullmatch(r"[\d.]+(e\d+)?", number) else math.nan
    if not 0 < per_second <= _MOST_PER_SECOND:
        raise ValueError(f"rate is {rate}, expected up to 1e9 requests a second, such as 2000 or poisson:2000")
    return f"{law or 'fixed'}:{number}", per_second
