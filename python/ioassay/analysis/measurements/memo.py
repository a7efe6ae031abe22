"""Keeps what several analyses of one Dataset compute alike: its trials, its cells, its log samples, its doubts.

Only for pure functions of (records, study, …) whose results nobody changes. The results of the last two Datasets
are kept (a run's, and what an analysis makes of it), and dropped when that set is gone or two others are asked about.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

P = ParamSpec("P")
R = TypeVar("R")


Known = dict[tuple[Any, ...], tuple[Study, Any]]
_OWNERS = 2


class _Memory:
    """Results by Dataset. Studies are kept too, so that their identity cannot be taken over by another."""

    def __init__(self) -> None:
        self._owners: list[tuple[weakref.ref[Dataset], Known]] = []

    def of(self, records: Dataset) -> Known:
        for place, (owner, known) in enumerate(self._owners):
            if owner() is records:
                self._owners.append(self._owners.pop(place))
                return known
        made: Known = {}
        self._owners = [*self._owners[1 - _OWNERS :], (weakref.ref(records, lambda _: made.clear()), made)]
        return made


_memory = _Memory()


def memoized(
    function: Callable[Concatenate[Dataset, Study, P], R],
) -> Callable[Concatenate[Dataset, Study, P], R]:
    """Decorates a function of (records, study, hashable arguments)."""

    @wraps(function)
    def call(records: Dataset, study: Study, /, *args: P.args, **kwargs: P.kwargs) -> R:
        known = _memory.of(records)
        key = (function, id(study), args, tuple(sorted(kwargs.items())))
        if key not in known:
            known[key] = (study, function(records, study, *args, **kwargs))
        result: R = known[key][1]
        return result

    return call
