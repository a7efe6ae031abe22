"""What a search is for: the metric to make large or small, and what must hold meanwhile. Measures nothing.

A bound is written with its unit where the metric has one (`write.lat.p99 < 5ms`, `read.bw >= 100MB/s`): a bare number
of nanoseconds or bytes would be a trap.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from ioassay import metrics, units
from ioassay.errors import UsageError
from ioassay.validation import shown, suggestion

_CONSTRAINT = re.compile(r"^\s*(?P<metric>[^<>=\s]+)\s*(?P<sense><=|>=|<|>)\s*(?P<bound>[^<>=]+?)\s*$")
_NUMBER = re.compile(r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$")
_COUNT = re.compile(r"^(?P<number>[\d.]+(?:[eE][+-]?\d+)?)\s*(?P<prefix>[kKMG]?)$")
_PREFIX = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
_PER_NS = {"ns": 1.0, "µs": 1e-3, "ms": 1e-6, "s": 1e-9}


@dataclass(frozen=True)
class Constraint:
    """`metric` `sense` `bound`, the bound in the metric's unit; `text` as the user wrote it."""

    metric: str
    sense: str
    bound: float
    text: str

    def violation(self, value: float | None) -> float:
        """How far `value` is on the wrong side, as a share of the bound: 0 or less where the constraint holds.

        Shares of their bounds make the violations of different metrics comparable; where the bound is 0 it is the
        difference itself. A value that is not there (None, NaN) violates by infinity.
        """
        if value is None or math.isnan(value):
            return math.inf
        over = (value - self.bound if self.sense in ("<", "<=") else self.bound - value) / (abs(self.bound) or 1.0)
        return sys.float_info.epsilon if over == 0 and self.sense in ("<", ">") else over


@dataclass(frozen=True)
class Goal:
    """The metric to make large (`maximize`) or small, and what must hold."""

    metric: str
    maximize: bool
    constraints: tuple[Constraint, ...] = field(default=())

    @property
    def warning(self) -> str | None:
        """What is odd about it: a direction in which the metric gets worse."""
        better = metrics.metric(self.metric).better
        wanted = "higher" if self.maximize else "lower"
        if better in ("none", wanted):
            return None
        asked, instead = ("maximize", "minimize") if self.maximize else ("minimize", "maximize")
        return f"{asked} {self.metric}: of this metric {better} is better; did you mean --{instead}?"


def make_goal(maximize: str | None, minimize: str | None, subject_to: Sequence[str] = ()) -> Goal:
    """A goal from the command line's options; UsageError says what is wrong with them."""
    if (maximize is None) == (minimize is None):
        seen = "both" if maximize else "neither"
        raise UsageError(f"found {seen} of --maximize and --minimize; wanted one metric to search for")
    metric = str(maximize if maximize is not None else minimize)
    _check_metric(metric)
    constraints = tuple(parse_constraint(text) for text in subject_to)
    _check_possible(constraints)
    return Goal(metric, maximize is not None, constraints)


def parse_constraint(text: str) -> Constraint:
    """`write.lat.p99 < 5ms` as a constraint; UsageError for an unknown metric, no operator or a wrong unit."""
    match = _CONSTRAINT.match(text)
    if match is None:
        raise UsageError(
            f"constraint {shown(text)}: wanted METRIC < VALUE (or <=, >, >=), such as 'read.lat.p99 < 5ms'"
        )
    _check_metric(match["metric"])
    bound = _bound(text, metrics.metric(match["metric"]), match["bound"])
    return Constraint(match["metric"], match["sense"], bound, text.strip())


def _check_metric(name: str) -> None:
    if not metrics.known(name):
        raise UsageError(f"no metric is called {shown(name)}; {_hint(name)}")


def _hint(name: str) -> str:
    hint = suggestion(name, metrics.USUAL)
    return hint if hint.startswith("did") else "wanted for example read.bw, write.iops, read.lat.p99"


def _check_possible(constraints: Sequence[Constraint]) -> None:
    """Two bounds of one metric must leave something between them."""
    for upper in (one for one in constraints if one.sense[0] == "<"):
        for lower in (one for one in constraints if one.sense[0] == ">" and one.metric == upper.metric):
            strict = "=" not in upper.sense or "=" not in lower.sense
            if lower.bound > upper.bound or (strict and lower.bound == upper.bound):
                raise UsageError(f"constraints {shown(upper.text)} and {shown(lower.text)} exclude each other")


def _bound(text: str, metric: metrics.Metric, written: str) -> float:
    """The number behind a bound, in the metric's unit."""
    try:
        return _read(metric.unit, written)
    except ValueError as error:
        unit = f"in {metric.unit}" if metric.unit else "a plain number"
        raise UsageError(
            f"constraint {shown(text)}: {metric.name} is {unit}, the bound is {shown(written)}; wanted {error}"
        ) from None


def _read(unit: str, written: str) -> float:
    """Raises ValueError, whose text is what was wanted."""
    if unit in _PER_NS:
        return _time(unit, written)
    if unit in ("bytes", "bytes/s", "MB/s"):
        return _size(unit, written)
    bare = written.removesuffix("%").strip() if unit in ("%", "") else written.removesuffix(unit).strip()
    match = _COUNT.match(bare)
    if match is None or not _NUMBER.match(match["number"]):
        if _NUMBER.match(bare):
            return float(bare)
        wanted = {"%": "a number of per cent, such as 80%", "": "a number, such as 0.8, 80% or 10k"}
        raise ValueError(wanted.get(unit, f"a number, such as 5000 or 5k ({unit})"))
    number = float(match["number"]) * _PREFIX[match["prefix"]]
    return number / 100 if unit == "" and written.endswith("%") else number


def _time(unit: str, written: str) -> float:
    wanted = "a time with its unit, such as 500us or 5ms"
    if _NUMBER.match(written) and unit != "s":
        raise ValueError(wanted)
    try:
        return units.parse_duration_s(written.replace("µ", "u")) * 1e9 * _PER_NS[unit]
    except ValueError:
        raise ValueError(wanted) from None


def _size(unit: str, written: str) -> float:
    wanted = "a rate with its unit, such as 100MB/s" if "/" in unit else "a size with its unit, such as 64MiB"
    bare = written.removesuffix("/s").strip() if "/" in unit else written
    if _NUMBER.match(bare) and unit != "MB/s":
        raise ValueError(wanted)
    if _NUMBER.match(bare):
        return float(bare)
    try:
        return units.parse_size(bare) / (1e6 if unit == "MB/s" else 1)
    except ValueError:
        raise ValueError(wanted) from None
