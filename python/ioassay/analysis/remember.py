"""Keeps what several analyses of one RecordSet compute alike: its cells, its log samples, its doubts.

Only for pure functions of (records, study, …) whose results nobody changes. The last RecordSet's results are kept,
and dropped when that set is gone or another one is asked about.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from ioassay.analysis import asked
from ioassay.record import RecordSet

P = ParamSpec("P")
R = TypeVar("R")


class _Memory:
    """Results for one RecordSet. Studies are kept too, so that their identity cannot be taken over by another."""

    def __init__(self) -> None:
        self._owner: weakref.ref[RecordSet] | None = None
        self._known: dict[tuple[Any, ...], tuple[asked.Study, Any]] = {}

    def of(self, records: RecordSet) -> dict[tuple[Any, ...], tuple[asked.Study, Any]]:
        if self._owner is None or self._owner() is not records:
            known: dict[tuple[Any, ...], tuple[asked.Study, Any]] = {}
            self._owner, self._known = weakref.ref(records, lambda _: known.clear()), known
        return self._known


_memory = _Memory()


def remembered(
    function: Callable[Concatenate[RecordSet, asked.Study, P], R],
) -> Callable[Concatenate[RecordSet, asked.Study, P], R]:
    """Decorates a function of (records, study, hashable arguments)."""

    @wraps(function)
    def call(records: RecordSet, study: asked.Study, /, *args: P.args, **kwargs: P.kwargs) -> R:
        known = _memory.of(records)
        key = (function, id(study), args, tuple(sorted(kwargs.items())))
        if key not in known:
            known[key] = (study, function(records, study, *args, **kwargs))
        result: R = known[key][1]
        return result

    return call
