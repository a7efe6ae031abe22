"""What analyses start from: the repetitions of each condition, logs, monitors' rates, passes and loads.

`memoized` keeps what several analyses of one Dataset compute alike. It is for pure functions of (records, study, …)
whose results nobody changes; they are dropped with their Dataset.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from ioassay.store.dataset import Dataset
    from ioassay.study.model import Study

P = ParamSpec("P")
R = TypeVar("R")
_KNOWN: dict[int, dict[tuple[Any, ...], tuple[Study, Any]]] = {}
"""Of each Dataset, by its identity. Studies are kept too, so that their identity cannot be taken over by another."""


def memoized(function: Callable[Concatenate[Dataset, Study, P], R]) -> Callable[Concatenate[Dataset, Study, P], R]:
    """Decorates a function of (records, study, hashable arguments)."""

    @wraps(function)
    def call(records: Dataset, study: Study, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if id(records) not in _KNOWN:
            _KNOWN[id(records)] = {}
            weakref.finalize(records, _KNOWN.pop, id(records))
        known, key = _KNOWN[id(records)], (function, id(study), args, tuple(sorted(kwargs.items())))
        if key not in known:
            known[key] = (study, function(records, study, *args, **kwargs))
        result: R = known[key][1]
        return result

    return call
