"""Whether parameters can be simulated, asked before anything runs: each answer names the key that is wrong.

What numbers may be, the simulator's core knows: the drive is checked as it would be made, the preparation is tried on
one made request, and options of reading on a trace that is shipped. No trace of the study is read here.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ioassay.errors import StudyError, UsageError
from ioassay.hints import suggestion
from ioassay.packs.ssd import simulator, traces
from ioassay.packs.ssd.driver import simulation_parameters
from ioassay.packs.ssd.driver.simulation_parameters import Settings
from ioassay.simulation.options import NAMES

_ANY_TRACE = "web"
_PAGE_BYTES = 4096


def check(wanted: Settings) -> None:
    """StudyError for what cannot be simulated, with its key; the drive, the recipe and the preparation are tried."""
    for name, value in wanted.options.items():
        with _named(f"params.{name}"):
            simulator.setup({name: value})
    try:
        simulation_parameters.drive(wanted)
    except UsageError as error:
        raise StudyError(str(error), key=_blamed(str(error))) from None
    with _named("params.prepare"):
        prepare = simulation_parameters.prepared(wanted)
        _try_preparation(_text(prepare or {}))
    if wanted.make is not None:
        _check_recipe(wanted, prepare)
        return
    if wanted.format is not None and wanted.format not in (names := [one["name"] for one in traces.formats()]):
        hint = suggestion(wanted.format, names)
        raise StudyError(f"'{wanted.format}' is no format of traces; {hint}", key="params.format")
    if wanted.read:
        with _named("params.read"):
            _try_reading(_text(wanted.read))


def _check_recipe(wanted: Settings, prepare: Mapping[str, Any] | None) -> None:
    assert wanted.make is not None
    for name in ("format", "read"):
        if getattr(wanted, name) is not None:
            raise StudyError("is about trace files, and the trace is made", key=f"params.{name}")
    simulation_parameters.trace(wanted, 0)
    with _named("params.make"):
        _try_recipe(_text(wanted.make), _text(prepare or {}))


@contextmanager
def _named(key: str) -> Iterator[None]:
    """What the core says of a value, with the key in the study; what has its key already stays as it is."""
    try:
        yield
    except StudyError:
        raise
    except UsageError as error:
        raise StudyError(str(error), key=key) from None
    except (TypeError, AttributeError, ValueError) as error:
        raise StudyError(f"a value is of the wrong kind: {error}", key=key) from None


def _blamed(message: str) -> str:
    """The first option that the core's message names: 'elements is 0, wanted 1 to 4096'."""
    words = [word.rpartition(".")[2] for word in re.findall(r"[\w.]+", message)]
    return next((f"params.{word}" for word in words if word in NAMES), "params")


def _text(table: Mapping[str, Any]) -> str:
    return json.dumps(dict(table), sort_keys=True, default=str)


@functools.lru_cache(maxsize=256)
def _try_preparation(prepare: str) -> None:
    """On a request that any drive and any page has room for."""
    traces.info({**traces.recipe(range=_PAGE_BYTES), "requests": 1}, prepare=json.loads(prepare) or None)


@functools.lru_cache(maxsize=256)
def _try_recipe(make: str, prepare: str) -> None:
    """One request of the recipe, prepared as asked."""
    traces.info({**simulation_parameters.made(json.loads(make), 0), "requests": 1}, prepare=json.loads(prepare) or None)


@functools.lru_cache(maxsize=64)
def _try_reading(read: str) -> None:
    traces.info(_ANY_TRACE, read=json.loads(read), prepare={"first": 1})
