"""A study's factors as axes to search along: every level that may be tried, in the form a study would write it.

Which point is tried is decided elsewhere; whether a driver takes a level is found out by the driver. What stands
between two listed levels is read from how they are written:

    integers      every integer; multiples of their greatest common divisor where all are multiples of 512 (block sizes)
    sizes         multiples of the levels' greatest common divisor: a block size stays a multiple of the smallest one
    times         the same
    numbers       a grid of the last decimal place that a level has
    closed:4      every integer behind the same word
    50%           every whole percent
    words, true   as they are, without an order

An axis is `log` where three listed levels or more have a constant ratio, or the command line says so.
Of more than 1024 levels so many are kept, evenly or geometrically, and the listed ones in any case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ioassay import metrics
from ioassay.errors import StudyError, UsageError
from ioassay.factors import CASE
from ioassay.packs.tuning.search.axis import Axis, as_listed, between
from ioassay.packs.tuning.search.ranges import ranged, wrong
from ioassay.validation import shown, suggestion

if TYPE_CHECKING:
    from ioassay.study.model import Study

__all__ = ["Axis", "axes", "points"]

_NAME = re.compile(r"^([A-Za-z_][\w-]*|(target|run)\.[A-Za-z_][\w-]*)$")


def axes(study: Study, *, ranges: Mapping[str, str] | None = None, listed: bool = False) -> tuple[Axis, ...]:
    """The axes of a study: each factor, and its cases as `case`, with two levels or more.

    `listed` keeps to the levels that the study lists. `ranges` (factor -> `1..256`, `4KiB..1MiB`, `0.1..0.9:0.1`,
    `1..64:*2`, `closed:1..32`, `a,b,c`) replaces or adds axes. Raises StudyError where nothing is left to search,
    UsageError for a range that makes no sense.
    """
    cases = tuple(str(case["name"]) for case in study.case)
    found = {CASE: Axis(CASE, cases)} if cases else {}
    for name, levels in study.factors.items():
        found[name] = as_listed(name, levels) if listed or len(levels) < 2 else between(name, levels)
    for name, text in (ranges or {}).items():
        found[name] = _some_cases(text, cases) if name == CASE else _named(study, name, text)
    varied = tuple(axis for axis in found.values() if len(axis.levels) > 1)
    if not varied:
        remedy = "wanted a factor with two levels or more; name one, such as --range iodepth=1..64"
        raise StudyError(f"nothing to search; {remedy}", source=study.name, key="factors")
    return varied


def points(axes: Sequence[Axis]) -> int:
    """How many points there are."""
    return math.prod(len(axis.levels) for axis in axes)


def _named(study: Study, name: str, text: str) -> Axis:
    """An axis that the command line names; its factor may be new."""
    if not _NAME.match(name):
        raise UsageError(f"range of {shown(name)}: not a factor name; wanted a parameter, or target.<key> or run.<key>")
    if metrics.known(name):
        known = [*study.factors, *study.params]
        hint = suggestion(name, known) if known else "wanted a parameter of the driver"
        raise UsageError(f"range of {name}: this is a metric, which is measured; {hint}")
    if owner := next((case["name"] for case in study.case if name in case), None):
        raise UsageError(f"range of {name}: case {shown(owner)} sets it already; wanted a parameter that no case sets")
    return ranged(name, text)


def _some_cases(text: str, cases: Sequence[str]) -> Axis:
    """The cases that `text` names, which may themselves have commas."""
    if not cases:
        raise wrong(CASE, text, "a factor; the study has no cases")
    names = [name for name in cases if name == text.strip()] or [part.strip() for part in text.split(",")]
    for name in names:
        if name not in cases:
            raise UsageError(f"range of case: no case is called {shown(name)}; {suggestion(name, cases)}")
    return Axis(CASE, tuple(dict.fromkeys(names)))
