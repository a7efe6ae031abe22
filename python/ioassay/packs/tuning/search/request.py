"""What a search is asked, and how that is kept: everything that decides which trials it asks for.

The goal is a metric to make large or small, and what must hold meanwhile. A bound is written with its unit where the
metric has one (`write.lat.p99 < 5ms`, `read.bw >= 100MB/s`): a bare number of nanoseconds or bytes would be a trap.

A request is stored in the run's folder before the first trial (`tune.json`), so that a resumed search asks alike,
whatever the options' defaults or the reading of ranges have become since. The study that is stored beside it has the
axes as its factors: what may be tried is what the study says.
"""

from __future__ import annotations

import bisect
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from ioassay import metrics, units
from ioassay.errors import InputError, StudyError, UsageError
from ioassay.factors import CASE, level_numbers, same_level
from ioassay.hints import shown, suggestion
from ioassay.packs.tuning.search.space import Axis, axes, points
from ioassay.records.record import Scalar
from ioassay.store import dataset
from ioassay.study.model import MAX_TRIALS, Study, make_study

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

    def holds(self, value: float | None) -> bool:
        return self.violation(value) <= 0


@dataclass(frozen=True)
class Goal:
    """The metric to make large (`maximize`) or small, and what must hold."""

    metric: str
    maximize: bool
    constraints: tuple[Constraint, ...] = field(default=())

    @property
    def metrics(self) -> list[str]:
        """Every metric that it is about, its own first."""
        return list(dict.fromkeys((self.metric, *(constraint.metric for constraint in self.constraints))))

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
        raise UsageError(f"found {seen} of --maximize and --minimize; expected one metric to search for")
    metric = str(maximize if maximize is not None else minimize)
    _check_metric(metric)
    constraints = tuple(parse_constraint(text) for text in subject_to)
    for upper in (one for one in constraints if one.sense[0] == "<"):
        for lower in (one for one in constraints if one.sense[0] == ">" and one.metric == upper.metric):
            strict = "=" not in upper.sense or "=" not in lower.sense
            if lower.bound > upper.bound or (strict and lower.bound == upper.bound):
                raise UsageError(f"constraints {shown(upper.text)} and {shown(lower.text)} exclude each other")
    return Goal(metric, maximize is not None, constraints)


def parse_constraint(text: str) -> Constraint:
    """`write.lat.p99 < 5ms` as a constraint; UsageError for an unknown metric, no operator or a wrong unit."""
    match = _CONSTRAINT.match(text)
    if match is None:
        raise UsageError(
            f"constraint {shown(text)}: expected METRIC < VALUE (or <=, >, >=), such as 'read.lat.p99 < 5ms'"
        )
    _check_metric(match["metric"])
    metric, written = metrics.metric(match["metric"]), match["bound"]
    try:
        bound = _read(metric.unit, written)
    except ValueError as error:
        unit = f"in {metric.unit}" if metric.unit else "a plain number"
        raise UsageError(
            f"constraint {shown(text)}: {metric.name} is {unit}, the bound is {shown(written)}; expected {error}"
        ) from None
    return Constraint(match["metric"], match["sense"], bound, text.strip())


def _check_metric(name: str) -> None:
    if not metrics.known(name):
        hint = suggestion(name, metrics.USUAL, "expected for example read.bw, write.iops, read.lat.p99")
        raise UsageError(f"no metric is called {shown(name)}; {hint}")


def _read(unit: str, written: str) -> float:
    """The bound in the metric's unit; ValueError, whose text is what was expected.

    Of times and sizes bare numbers are read only where the unit is one that people write: s and MB/s.
    """
    is_time, is_rate = unit in _PER_NS, unit in ("bytes/s", "MB/s")
    if is_time or is_rate or unit == "bytes":
        bare = written.removesuffix("/s").strip() if is_rate else written
        is_bare = _NUMBER.match(bare) is not None
        if not is_bare or unit in ("s", "MB/s"):
            with suppress(ValueError):
                if is_time:
                    return units.parse_duration_s(bare.replace("µ", "u")) * 1e9 * _PER_NS[unit]
                return float(bare) if is_bare else units.parse_size(bare) / (1e6 if unit == "MB/s" else 1)
        if is_time:
            raise ValueError("a time with its unit, such as 500us or 5ms")
        raise ValueError(
            f"a {'rate' if is_rate else 'size'} with its unit, such as {'100MB/s' if is_rate else '64MiB'}"
        )
    bare = written.removesuffix("%").strip() if unit in ("%", "") else written.removesuffix(unit).strip()
    match = _COUNT.match(bare)
    if match is None or not _NUMBER.match(match["number"]):
        if _NUMBER.match(bare):
            return float(bare)
        wanted = {"%": "a number of per cent, such as 80%", "": "a number, such as 0.8, 80% or 10k"}
        raise ValueError(wanted.get(unit, f"a number, such as 5000 or 5k ({unit})"))
    number = float(match["number"]) * _PREFIX[match["prefix"]]
    return number / 100 if unit == "" and written.endswith("%") else number


SCHEMA = 1
REPETITIONS, MOST_REPETITIONS, NOISY_REPETITIONS = 5, 10, 20
"""Of winner and default in the confirmation: so many, or as many as the study itself has up to the second number, and
up to the third where the noise of the search asks for them."""
QUESTIONS = ("tuned", "verdict", "describe", "stability", "caveats")
"""What the page of a search answers. Not which factor matters and where the peak is: the points were not tried alike,
most of them where it was good."""
MOST_EXAMINED = 5000
"""Points that are checked one by one before the first trial; of larger spaces the ends and what lies between."""
_FEWER = (64, 16, 8, 5, 3, 2)
"""Levels that are left of an axis, as many as there is room for."""


@dataclass(frozen=True)
class Request:
    """What a search was asked. `trials` candidates and repeats; `confirm` repetitions of winner and default after."""

    goal: Goal
    axes: tuple[Axis, ...]
    default: Mapping[str, Scalar]
    """Axis -> the level that everything is compared with."""
    trials: int
    seed: int
    confirm: int
    batch: int = 1
    """Points that are asked for at once."""
    pruning: bool = True
    budget_s: float | None = None
    """After so long nothing new is tried."""
    margin: float = 0.05
    """Differences below this share count as none (`ioassay compare`)."""
    confirm_most: int = 0
    """Repetitions of the confirmation where the noise of the search asks for more than `confirm`; 0: never more."""
    source: str = ""
    """The study as the user named it, with what else changes it: words for `ioassay run`, quoted for a shell."""

    @property
    def points(self) -> int:
        return points(self.axes)

    def as_table(self) -> dict[str, Any]:
        goal = {"metric": self.goal.metric, "maximize": self.goal.maximize}
        constraints = [asdict(constraint) for constraint in self.goal.constraints]
        rest = {key: value for key, value in asdict(self).items() if key != "goal"}
        return {"schema": SCHEMA, **goal, "constraints": constraints, "points": self.points, **rest}


def from_table(table: dataset.Tuning, place: str) -> Request:
    """What `as_table` gave, as the store has checked it; InputError for that of a newer version."""
    if table["schema"] > SCHEMA:
        raise InputError(f"{place}: schema {table['schema']} is newer than this ioassay's {SCHEMA}; update ioassay")
    constraints = tuple(Constraint(**constraint) for constraint in table["constraints"])
    known = {one.name: table[one.name] for one in fields(Request) if one.name in table}  # type: ignore[literal-required]
    axes = tuple(
        Axis(one["name"], tuple(one["levels"]), tuple(one["numbers"]) if one["numbers"] else None, one["log"])
        for one in table["axes"]
    )
    return Request(**{**known, "goal": Goal(table["metric"], table["maximize"], constraints), "axes": axes})


def space(
    study: Study,
    ranges: Mapping[str, str],
    defaults: Mapping[str, Scalar],
    *,
    listed: bool,
    stated: Callable[[Mapping[str, Any], str], str | None] = lambda params, name: None,
) -> tuple[tuple[Axis, ...], dict[str, Scalar]]:
    """The axes of a study and the default on each; a default that lies beside an axis is added to it.

    Where nobody names it the default is the study's fixed parameter of that name, else what is `stated` of the name
    (`Driver.stated_level`), else the factor's first level. UsageError for what is wrong.
    """
    found = axes(study, ranges=ranges, listed=listed)
    known = [axis.name for axis in found]
    for name in defaults:
        if name not in known:
            raise UsageError(f"--default {name}={defaults[name]}: '{name}' is not searched; {suggestion(name, known)}")
    if points(found) > MAX_TRIALS:
        raise UsageError(
            f"{study.name}: the space has {points(found)} points; expected {MAX_TRIALS} or fewer: give --range a step, "
            "or keep to the listed levels with --listed"
        )
    placed = [
        _with_level(axis, defaults[axis.name] if axis.name in defaults else _usual(study, axis, stated))
        for axis in found
    ]
    return tuple(axis for axis, _ in placed), {axis.name: level for axis, level in placed}


def with_cases(study: Study, ranges: Mapping[str, str]) -> tuple[Study, dict[str, str]]:
    """The study with only the case that a range names, and the other ranges: of one case there is no axis.

    A case's name may have a comma; several cases are left to `axes`.
    """
    kept = [case for case in study.case if case["name"] == ranges.get(CASE)]
    if not kept:
        return study, dict(ranges)
    return study.model_copy(update={"case": kept}), {name: text for name, text in ranges.items() if name != CASE}


def _usual(study: Study, axis: Axis, stated: Callable[[Mapping[str, Any], str], str | None]) -> Scalar:
    part, _, key = axis.name.partition(".")
    tables: dict[str, Mapping[str, Any]] = {"target": study.target.model_dump(), "run": study.run.model_dump()}
    known = tables[part].get(key) if key and part in tables else study.params.get(axis.name)
    try:
        known = stated(study.params, axis.name) if known is None else known
    except StudyError as error:
        raise UsageError(f"{error}; expected one to compare the winner with: --default {axis.name}=VALUE") from None
    if isinstance(known, str | int | float):
        return known
    listed = study.factors.get(axis.name)
    return next((level for level in listed or () if _place(axis, level) is not None), axis.levels[0])


def _place(axis: Axis, level: Scalar) -> int | None:
    """Where a level is on an axis, however it is written: 4096 and '4k' are the same."""
    return next((place for place, other in enumerate(axis.levels) if same_level(axis.name, other, level)), None)


def _with_level(axis: Axis, level: Scalar) -> tuple[Axis, Scalar]:
    if (place := _place(axis, level)) is not None:
        return axis, axis.levels[place]
    known = level_numbers(axis.name, (*axis.levels, level))
    number = None if known is None else known[-1]
    if axis.name == CASE or (axis.numbers is not None and number is None):
        words = [str(one) for one in axis.levels]
        known_words = words if len(words) <= 8 else [words[0], words[-1]]
        raise UsageError(
            f"--default {axis.name}={level}: is no level of '{axis.name}'; {suggestion(str(level), known_words)}"
        )
    if axis.numbers is None or number is None:
        return replace(axis, levels=(*axis.levels, level)), level
    place = bisect.bisect(axis.numbers, number)
    levels = (*axis.levels[:place], level, *axis.levels[place:])
    return replace(axis, levels=levels, numbers=(*axis.numbers[:place], number, *axis.numbers[place:])), level


def searched(study: Study, request: Request) -> Study:
    """The study as the search's run has it: its factors are the axes, and its page answers what a search can."""
    table = study.model_dump(exclude_none=True, exclude={"scale", "until", "repetitions", "figures", "case"})
    levels = {axis.name: list(axis.levels) for axis in request.axes}
    cases = [case for case in study.case if CASE not in levels or case["name"] in levels[CASE]]
    factors = {name: levels.pop(name, list(listed)) for name, listed in study.factors.items()}
    levels.pop(CASE, None)
    return make_study(
        {
            **table,
            "seed": request.seed,
            "repetitions": 1,
            "factors": {**factors, **levels},
            "case": cases,
            "watch": {**table["watch"], "twins": False, "calls": False},
            "analysis": {**table["analysis"], "responses": request.goal.metrics, "questions": list(QUESTIONS)},
            "figures": [{"kind": "search", "name": "search"}],
        },
        study.name,
    )


def examined(study: Study, request: Request) -> Study:
    """The study with the points that are checked before the first trial: all of them, or of many the outer ones.

    What a target is made of is never thinned, so that nothing is loaded that was not examined.
    """
    if request.points <= MOST_EXAMINED:
        return study
    thinned = (
        {axis.name: _thinned(axis, most, request.default[axis.name]) for axis in request.axes} for most in _FEWER
    )
    kept = next((kept for kept in thinned if math.prod(map(len, kept.values())) <= MOST_EXAMINED), None)
    kept = kept or {axis.name: _thinned(axis, _FEWER[-1], request.default[axis.name]) for axis in request.axes}
    factors = {name: kept.get(name, levels) for name, levels in study.factors.items()}
    return study.model_copy(update={"factors": factors})


def _thinned(axis: Axis, most: int, default: Scalar) -> list[Scalar]:
    if axis.numbers is None or axis.name.startswith("target.") or len(axis.levels) <= most:
        return list(axis.levels)
    places = {round(step * (len(axis.levels) - 1) / (most - 1)) for step in range(most)}
    return [axis.levels[place] for place in sorted(places | {axis.levels.index(default)})]
