"""The parameters of a simulated trial: what they are, whether they can be, and what a trial with them costs.

Beside the options of `ioassay.simulation` a trial has a trace: a file that is named (`trace`), or a recipe (`make`).
What numbers may be, the simulator's core knows; it is asked before anything runs.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioassay import simulation, traces
from ioassay.drivers.simulate.found import NotFound, find
from ioassay.errors import StudyError, UsageError
from ioassay.roles import Estimate
from ioassay.simulation.options import NAMES

PADDED = "bplru-padded"
"""A policy of this driver: BPLRU as its authors have it, so that it can be a level beside the one without padding."""
_VARIANTS: dict[str, dict[str, Any]] = {
    PADDED: {"policy": "bplru", "padding": True, "compensation": True, "block_requests": True}
}
_OF_DRIVE = "drive"
"""`prepare.shrink = "drive"`: to the size of the drive that is simulated."""
_TRACE_KEYS = ("trace", "make", "format", "read", "prepare", "first", "get")
_REQUEST_S, _PADDED_REQUEST_S = 3.5e-7, 1e-5
"""What a request takes a processor of today; one that brings a whole block with it."""
_RECORD_BYTES = 30
"""Of a trace file, for each request: a line of text."""


@dataclass(frozen=True)
class Settings:
    """The parameters of one point, read."""

    options: Mapping[str, Any]
    traces: Sequence[str] = ()
    make: Mapping[str, Any] | None = None
    format: str | None = None
    read: Mapping[str, Any] | None = None
    prepare: Mapping[str, Any] = field(default_factory=dict)
    first: int | None = None
    """No more than so many requests, of what the preparation leaves."""
    get: str = ""
    """How to get a trace that may be absent; '' for one that must be here."""


def read(params: Mapping[str, Any]) -> Settings:
    """The parameters apart: options of the simulation, and the trace. StudyError for names and kinds that are wrong."""
    known = [*NAMES, *_TRACE_KEYS]
    for name in params:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}"
            raise StudyError(f"no such parameter; {hint}", key=f"params.{name}")
    for name in ("make", "read", "prepare"):
        if not isinstance(params.get(name, {}), Mapping):
            raise StudyError(f"is {params[name]!r}; wanted a table", key=f"params.{name}")
    if ("trace" in params) == ("make" in params):
        raise StudyError("wanted one of trace (a file) and make (a recipe)", key="params.trace")
    named = params.get("trace", [])
    names = [named] if isinstance(named, str) else named
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise StudyError(f"is {named!r}; wanted a file, or a list of file names", key="params.trace")
    return Settings(
        _options(params),
        names,
        make=params.get("make"),
        format=params.get("format"),
        read=params.get("read"),
        prepare=params.get("prepare", {}),
        first=_first(params.get("first")),
        get=str(params.get("get", "")),
    )


def _first(value: Any) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise StudyError(f"is {value!r}; wanted a whole number of requests, at least 1", key="params.first")
    return value


def _options(params: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in params.items() if name in NAMES}
    return {**given, **_VARIANTS.get(str(given.get("policy")), {})}


def check(wanted: Settings) -> None:
    """StudyError for what cannot be simulated, with its key; the drive, the recipe and the preparation are tried."""
    for name, value in wanted.options.items():
        try:
            simulation.setup({name: value})
        except UsageError as error:
            raise StudyError(str(error), key=f"params.{name}") from None
    try:
        _drive(wanted)
    except UsageError as error:
        raise StudyError(str(error), key="params") from None
    try:
        prepare = prepared(wanted)
    except UsageError as error:
        raise StudyError(str(error), key="params.prepare") from None
    if wanted.make is not None:
        _try_recipe(json.dumps(dict(wanted.make), sort_keys=True), json.dumps(prepare, sort_keys=True))
    elif wanted.format is not None and wanted.format not in (names := [one["name"] for one in traces.formats()]):
        raise StudyError(f"'{wanted.format}' is no format of traces; known: {', '.join(names)}", key="params.format")


@functools.lru_cache(maxsize=256)
def _try_recipe(make: str, prepare: str) -> None:
    """One request of the recipe, prepared as asked."""
    recipe = _recipe(json.loads(make), 0)
    try:
        traces.info({**recipe, "requests": 1}, prepare=json.loads(prepare) or None)
    except UsageError as error:
        raise StudyError(str(error), key="params.make") from None


def trace(wanted: Settings, repetition: int) -> traces.Trace:
    """The file or the recipe; NotFound for an absent trace that may be absent, StudyError for one that may not.

    A recipe without a seed of its own takes one from the repetition, the same at every point of a study: all policies
    meet the same requests, and repetitions are other traces of the same law.
    """
    if wanted.make is not None:
        made = _recipe(wanted.make, repetition)
        return {**made, "requests": min(made["requests"], wanted.first or made["requests"])}
    try:
        return find(wanted.traces)
    except NotFound as error:
        if wanted.get:
            raise
        raise StudyError(str(error), key="params.trace") from None


def _recipe(make: Mapping[str, Any], repetition: int) -> dict[str, Any]:
    _known_keys("make", make, traces.recipe)
    try:
        return traces.recipe(**{"seed": repetition + 1, **make})
    except (UsageError, TypeError, AttributeError, ValueError) as error:
        raise StudyError(str(error), key="params.make") from None


def prepared(wanted: Settings) -> dict[str, Any] | None:
    """What is done to the trace. Pages are those of the drive unless told otherwise; a drive may be shrunk to."""
    keys = {**wanted.prepare}
    if wanted.first is not None and wanted.make is None:
        keys["first"] = min(wanted.first, keys.get("first", wanted.first))
    if not keys:
        return None
    _known_keys("prepare", keys, traces.preparation)
    keys = {"page": wanted.options.get("page", NAMES["page"].default), **keys}
    if keys.get("shrink") == _OF_DRIVE:
        keys["shrink"] = _drive(wanted)["capacity_bytes"]
    try:
        return traces.preparation(**keys)
    except (TypeError, AttributeError, ValueError) as error:
        raise UsageError(str(error)) from None


def _known_keys(table: str, given: Mapping[str, Any], taker: Any) -> None:
    known = list(inspect.signature(taker).parameters)
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}"
            raise StudyError(f"no such key; {hint}", key=f"params.{table}.{name}")


def cost(wanted: Settings) -> Estimate:
    """Seconds from the number of requests (of a file from its size), memory from the drive."""
    seconds = _requests(wanted) * (_PADDED_REQUEST_S if wanted.options.get("padding") else _REQUEST_S)
    return Estimate(seconds + 0.05, written_bytes=0, memory_bytes=_drive(wanted)["memory_bytes"])


def _requests(wanted: Settings) -> float:
    most = wanted.first or float("inf")
    if wanted.make is not None:
        return min(most, float(wanted.make.get("requests", traces.recipe()["requests"])))
    try:
        found = find(wanted.traces)
    except NotFound:
        return 0
    size_bytes = (found if isinstance(found, Path) else traces.shipped()[found]).stat().st_size
    return min(most, size_bytes / _RECORD_BYTES, float(wanted.prepare.get("first", float("inf"))))


def _drive(wanted: Settings) -> Mapping[str, Any]:
    return _checked(json.dumps(dict(wanted.options), sort_keys=True))


@functools.lru_cache(maxsize=1024)
def _checked(options: str) -> Mapping[str, Any]:
    return simulation.check(json.loads(options))
