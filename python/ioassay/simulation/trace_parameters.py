"""The parameters of a trial that say which trace it runs, of the drivers that run traces: `simulate` and `replay`.

A trace is a file that is named (`trace`), or a recipe (`make`). A study that names a trace by its bare file name runs
wherever somebody keeps that file. What is wrong is a StudyError with its key. Nothing here issues a request.
"""

from __future__ import annotations

import functools
import inspect
import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioassay.errors import StudyError, UsageError
from ioassay.hints import suggestion
from ioassay.simulation import traces
from ioassay.simulation.options import of_key

KEYS = ("trace", "make", "format", "read", "prepare", "sizes", "keep", "first", "get")
_OF_PREPARATION = ("sizes", "keep")
"""Keys of the preparation that are parameters of their own as well: these can be factors."""
_TEXTS = ("arrivals", "addresses")
"""Of a recipe, what must be text."""
_RECORD_BYTES, _PACKED_RECORD_BYTES = 30, 10
"""Of a trace file, for each request: a line of text, and one that is compressed."""


@dataclass(frozen=True)
class TraceParameters:
    """Which trace, how it is read, and what is done to it."""

    names: Sequence[str] = ()
    make: Mapping[str, Any] | None = None
    format: str | None = None
    read: Mapping[str, Any] | None = None
    prepare: Mapping[str, Any] = field(default_factory=dict)
    apart: Mapping[str, str] = field(default_factory=dict)
    """Of the preparation, what is a parameter of its own."""
    first: int | None = None
    """No more than so many requests, of what the preparation leaves."""
    get: str = ""
    """How to get a trace that may be absent; '' for one that must be here."""

    @classmethod
    def of(cls, params: Mapping[str, Any], others: Sequence[str]) -> TraceParameters:
        """What a point's parameters say. StudyError for wrong kinds, and for names that are not of `others` either."""
        known = [*others, *KEYS]
        for name in params:
            if name not in known:
                raise StudyError(f"no such parameter; {suggestion(name, known)}", key=f"params.{name}")
        for name in ("make", "read", "prepare"):
            if not isinstance(params.get(name, {}), Mapping):
                raise StudyError(f"is {params[name]!r}; expected a table", key=f"params.{name}")
        for name in ("format", "get", *_OF_PREPARATION):
            if not isinstance(params.get(name, ""), str):
                raise StudyError(f"is {params[name]!r}; expected text", key=f"params.{name}")
        if ("trace" in params) == ("make" in params):
            raise StudyError("expected one of trace (a file) and make (a recipe)", key="params.trace")
        names = params.get("trace", [])
        files = [names] if isinstance(names, str) else names
        named = isinstance(files, list) and all(isinstance(name, str) and name for name in files)
        if not named or ("trace" in params and not files):
            raise StudyError(f"is {names!r}; expected a file, or a list of file names", key="params.trace")
        return cls(
            files,
            make=params.get("make"),
            format=params.get("format"),
            read=params.get("read"),
            prepare=params.get("prepare", {}),
            apart={name: params[name] for name in _OF_PREPARATION if name in params},
            first=_whole("params.first", params["first"]) if params.get("first") is not None else None,
            get=params.get("get", ""),
        )

    def trace(self, repetition: int) -> traces.Trace:
        """The file or the recipe; NotFound for an absent trace that may be absent, StudyError for one that may not.

        A recipe without a seed of its own takes one from the repetition, the same at every point of a study: all points
        meet the same requests, and repetitions are other traces of the same law.
        """
        if self.make is not None:
            recipe = made(self.make, repetition)
            return {**recipe, "requests": min(recipe["requests"], self.first or recipe["requests"])}
        try:
            return find(self.names)
        except NotFound as error:
            if self.get:
                raise
            raise StudyError(str(error), key="params.trace") from None

    def prepared(self, page: str | int, **sizes: int) -> dict[str, Any] | None:
        """What is done to the trace. Pages are `page` unless told otherwise; `sizes` are words for sizes in bytes."""
        keys = {**self.prepare}
        for name, value in self.apart.items():
            if name in keys:
                raise StudyError(
                    f"is '{value}', and prepare.{name} is given; expected one of them", key=f"params.{name}"
                )
            keys[name] = value
        if self.first is not None and self.make is None:
            keys["first"] = min(self.first, _whole("params.prepare.first", keys.get("first", self.first)))
        if not keys:
            return None
        _known_keys("prepare", keys, traces.preparation)
        keys = {"page": page, **keys}
        keys |= {name: sizes[keys[name]] for name in ("shrink", "limit") if keys.get(name) in sizes}
        try:
            return traces.preparation(**keys)
        except (TypeError, AttributeError, ValueError) as error:
            raise UsageError(str(error)) from None

    def check(self, prepare: Mapping[str, Any] | None) -> None:
        """StudyError for what cannot be, with its key; the recipe, the reading and the preparation are tried."""
        with of_key("params.prepare"):
            _try({**traces.recipe(range=_PAGE_BYTES), "requests": 1}, prepare)
        if self.make is not None:
            for name in ("format", "read"):
                if getattr(self, name) is not None:
                    raise StudyError("is about trace files, and the trace is made", key=f"params.{name}")
            with of_key("params.make"):
                _try({**made(self.make, 0), "requests": 1}, prepare)
            return
        if self.format is not None and self.format not in (names := [one["name"] for one in traces.formats()]):
            hint = suggestion(self.format, names)
            raise StudyError(f"'{self.format}' is no format of traces; {hint}", key="params.format")
        if self.read:
            with of_key("params.read"):
                _try(_ANY_TRACE, {"first": 1}, self.read)

    def requests(self) -> float:
        """About how many there are; of a file from its size, 0 where it is not here."""
        most = self.first or float("inf")
        if self.make is not None:
            return min(most, float(self.make.get("requests", traces.recipe()["requests"])))
        try:
            found = find(self.names)
        except NotFound:
            return 0
        path = found if isinstance(found, Path) else traces.shipped()[found]
        record_bytes = _PACKED_RECORD_BYTES if path.suffix in (".gz", ".zst") else _RECORD_BYTES
        return min(most, path.stat().st_size / record_bytes, float(self.prepare.get("first", float("inf"))))


def _whole(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise StudyError(f"is {value!r}; expected a whole number of requests, at least 1", key=key)
    return value


def made(make: Mapping[str, Any], repetition: int) -> dict[str, Any]:
    """The recipe as `traces.recipe` makes it. StudyError for keys and kinds that are wrong."""
    _known_keys("make", make, traces.recipe)
    for name in _TEXTS:
        if not isinstance(make.get(name, ""), str):
            raise StudyError(f"is {make[name]!r}; expected text such as 'poisson:20000'", key=f"params.make.{name}")
    if "requests" in make:
        _whole("params.make.requests", make["requests"])
    try:
        return traces.recipe(**{"seed": repetition + 1, **make})
    except (UsageError, TypeError, AttributeError, ValueError) as error:
        raise StudyError(str(error), key="params.make") from None


def _known_keys(table: str, given: Mapping[str, Any], taker: Any) -> None:
    known = list(inspect.signature(taker).parameters)
    for name in given:
        if name not in known:
            raise StudyError(f"no such key; {suggestion(name, known)}", key=f"params.{table}.{name}")


_ANY_TRACE, _PAGE_BYTES = "web", 4096
"""A trace to try how one is read; the range of a recipe whose request fits into any drive and any page."""


def _try(trace: traces.Trace, prepare: Mapping[str, Any] | None, read: Mapping[str, Any] | None = None) -> None:
    """Look at one request of the trace, read and prepared as wanted."""
    _tried(pickle.dumps((trace, prepare, dict(read or {}))))


@functools.lru_cache(maxsize=256)
def _tried(arguments: bytes) -> None:
    trace, prepare, read = pickle.loads(arguments)
    traces.info(trace, read=read, prepare=prepare)


FOLDERS = "IOASSAY_TRACES"
"""Environment variable: folders in which traces are looked for first, with ':' between them."""
_COMPRESSED = ("", ".zst", ".gz")


class NotFound(Exception):
    """None of the wanted files is here; the message names them and the folders that were searched."""


def find(names: Sequence[str]) -> Path | str:
    """The first of the traces that is here: a path, or the name of a trace that is shipped. NotFound otherwise."""
    for name in names:
        if Path(name).is_file():
            return Path(name)
        if name in traces.shipped():
            return name
        if Path(name).name == name:
            for folder in folders():
                for ending in _COMPRESSED:
                    if (path := folder / f"{name}{ending}").is_file():
                        return path
    searched = any(Path(name).name == name for name in names)
    places = f", nor in the folders of ${FOLDERS}, in ./traces, ./data or ../*/data" if searched else ""
    raise NotFound(f"no file {' or '.join(names)} here{places}")


def folders() -> Iterator[Path]:
    yield from (Path(folder) for folder in os.environ.get(FOLDERS, "").split(os.pathsep) if folder)
    yield from (Path("traces"), Path("data"))
    yield from sorted(Path("..").glob("*/data"))
