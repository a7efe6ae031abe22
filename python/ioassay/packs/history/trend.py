"""The trend of a study: its values over all runs of a history, and where they changed. Numbers, no sentences.

There is a series for each host, the study's settings, condition and response. Runs on an unfit machine, and such whose
claims the kernel contradicts, take no part. Risks are those of all series of a trend together: as long as some show a
change, the others are searched again at the risk that these leave (Holm, Scandinavian Journal of Statistics 6, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ioassay import metrics
from ioassay.errors import InputError, UsageError
from ioassay.hints import nearest
from ioassay.packs.history.record_columns import BEGUN, FACTS, SEPARATOR
from ioassay.stats.change_points import RISK, ChangePoint, Changes, change_points
from ioassay.stats.result import Undefined
from ioassay.verify.verdict import CONTRADICTED

if TYPE_CHECKING:
    from ioassay.packs.history.history_store import Store

COMMIT = "commit"
TIME = "time"
_UNFIT = "unfit"
_LISTS = {"mount_options": ",", "mitigations": ";"}
"""Facts of several words, of which those are shown that differ."""
_ROUNDING = 1e-3
"""Shares by which series differ that say the same in two units."""


class Outcome(StrEnum):
    """What the last change of a series was. Of what is no speed it is CHANGED."""

    SLOWER = "slower"
    CHANGED = "changed"
    FASTER = "faster"
    SAME = "same"
    SHORT = "short"
    """Too few runs to say, or all alike."""


@dataclass(frozen=True)
class Fact:
    """What differs between two runs; of a list what left it, and what came."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class Value:
    """A run's value of a condition: the mean of its `n` repetitions. One that does not weigh is only shown."""

    run: str
    begun: datetime
    value: float
    n: int
    weighs: bool


@dataclass(frozen=True)
class Step:
    """A change point: the `run` from which on it holds, which lies between `first` and `last`.

    `facts` differ between the run before `first` and `last`, `direction` is the outcome that it alone makes.
    """

    point: ChangePoint
    run: Value
    first: Value
    last: Value
    facts: tuple[Fact, ...]
    direction: Outcome


@dataclass(frozen=True)
class Series:
    """The values of a response under a condition on a host; `restated` are responses that say the same.

    `settings`: those of the study, which are no factors.
    """

    host: str
    condition: str
    response: str
    values: tuple[Value, ...]
    changes: Changes | Undefined = field(default_factory=lambda: Undefined(""))
    steps: tuple[Step, ...] = ()
    restated: tuple[str, ...] = ()
    settings: str = ""

    @cached_property
    def weighing(self) -> list[Value]:
        return [value for value in self.values if value.weighs]

    @property
    def latest(self) -> Value | None:
        return self.weighing[-1] if self.weighing else None

    @property
    def outcome(self) -> Outcome:
        if isinstance(self.changes, Undefined):
            return Outcome.SHORT
        if self.changes.drift:
            return _direction(self.response, self.changes.drift.size > (1 if self.changes.is_ratio else 0))
        return self.steps[-1].direction if self.steps else Outcome.SAME

    @property
    def rank(self) -> tuple[int, float]:
        """By outcome, then the largest last change first."""
        size = 0.0
        if isinstance(self.changes, Changes) and (last := self.changes.drift or [None, *self.changes.points][-1]):
            size = abs(math.log(last.size)) if self.changes.is_ratio else abs(last.size)
        return list(Outcome).index(self.outcome), -size


@dataclass(frozen=True)
class Trend:
    """All series of a study, worst first. `runs` has the facts of each run by its identity, in order of time."""

    study: str
    title: str
    place: str
    over: str
    runs: Mapping[str, Mapping[str, Any]]
    series: tuple[Series, ...]
    risk: float
    without_commit: int = 0
    """Runs that are left out of a trend over commits."""

    @property
    def hosts(self) -> list[str]:
        return list(dict.fromkeys(series.host for series in self.series))

    @cached_property
    def shared_settings(self) -> set[str]:
        """Those that all series have."""
        return set.intersection(*(set(series.settings.split(SEPARATOR)) for series in self.series))

    def with_outcome(self, *outcomes: Outcome) -> list[Series]:
        return [series for series in self.series if series.outcome in outcomes]

    @property
    def left_out(self) -> int:
        """Runs that take no part."""
        return sum(not _weighs(run) for run in self.runs.values())

    @property
    def least(self) -> list[float]:
        """The least step that each series without a change would show, where values are positive."""
        same = self.with_outcome(Outcome.SAME)
        return [one.changes.least for one in same if isinstance(one.changes, Changes) and one.changes.is_ratio]


def of_study(
    store: Store,
    study: str,
    metric: str | None = None,
    where: Mapping[str, str] | None = None,
    since: datetime | None = None,
    over: str = TIME,
    risk: float = RISK,
) -> Trend:
    """The trend of a study in a history, over TIME or COMMIT.

    UsageError for a study, metric or `where` that no run has, or where no run has a commit; InputError for an empty
    history.
    """
    every = store.runs()
    if every.is_empty():
        raise InputError(f"{store.place}: no runs; put some there with: ioassay history add RUN")
    known = sorted(set(every["study"]))
    if study not in known:
        expected = f"expected one of {', '.join(known)}{nearest(study, known)}"
        raise UsageError(f"{study}: no run of this study in {store.place}; {expected}")
    rows = {row["run"]: row for row in store.runs(study, where).rows(named=True)}
    runs = {run: row for run, row in rows.items() if since is None or row[BEGUN] >= since}
    if not runs:
        begun = f" since {since:%Y-%m-%d}" if since else ""
        chosen = "".join(f" with {name}={text}" for name, text in (where or {}).items())
        raise UsageError(f"{study}: none of {every.filter(study=study).height} runs in {store.place}{chosen}{begun}")
    without = 0
    if over == COMMIT:
        without = sum(not row[COMMIT] for row in runs.values())
        first = dict[str, int]()
        for place, row in enumerate(runs.values()):
            first.setdefault(row[COMMIT], place)
        in_order = sorted(runs.items(), key=lambda item: first[item[1][COMMIT]])
        runs = {run: row for run, row in in_order if row[COMMIT]}
        if not runs:
            raise UsageError(f"--over commit: none of {without} runs has a commit; `history add --label` gives one")
    table = store.values(study, where=where)
    responses = sorted(set(table["response"]))
    if metric is not None and metric not in responses:
        expected = f"expected one of {', '.join(responses)}{nearest(metric, responses)}"
        raise UsageError(f"--metric {metric}: no run of {study} has it; {expected}")
    settings = _settings(runs)
    found: dict[tuple[str, str, str, str], dict[str, Value]] = {}
    for row in table.rows(named=True):
        if row["run"] in runs and (metric is None or row["response"] == metric):
            value = Value(row["run"], row[BEGUN], row["mean"], row["n"], _weighs(runs[row["run"]]))
            key = row["host"], row["condition"], row["response"], settings[row["run"]]
            found.setdefault(key, {})[row["run"]] = value
    series = [
        Series(host, condition, response, tuple(of[run] for run in runs if run in of), settings=given)
        for (host, condition, response, given), of in found.items()
    ]
    judged = _judged(_without_restated(series), runs, risk)
    title = [row["title"] for row in runs.values()][-1]
    return Trend(study, title, store.place, over, runs, tuple(sorted(judged, key=lambda one: one.rank)), risk, without)


def _settings(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The settings of each run; of a record that states none, as of an older version, those of the next on its host."""
    known, next_ones = dict[str, str](), dict[str, str]()
    for run, row in [*runs.items()][::-1]:
        known[run] = row["settings"] or next_ones.get(row["host"], "")
        next_ones[row["host"]] = known[run]
    return known


def _weighs(run: Mapping[str, Any]) -> bool:
    return bool(run["grade"] != _UNFIT and run["verdict"] != CONTRADICTED)


def _without_restated(series: Iterable[Series]) -> list[Series]:
    """Each series with those that say the same in another unit, as IOPS and bandwidth at one block size."""
    kept: list[Series] = []
    for one in series:
        same = (place for place, other in enumerate(kept) if _restates(one, other))
        if (place := next(same, None)) is None:
            kept.append(one)
        else:
            kept[place] = replace(kept[place], restated=(*kept[place].restated, one.response))
    return kept


def _restates(one: Series, other: Series) -> bool:
    of = [(series.host, series.condition, series.settings) for series in (one, other)]
    if of[0] != of[1] or len(one.values) != len(other.values):
        return False
    pairs = [*zip(one.values, other.values, strict=True)]
    if metrics.direction_of(one.response) != metrics.direction_of(other.response) or not all(
        a.run == b.run and a.value > 0 and b.value > 0 for a, b in pairs
    ):
        return False
    ratios = [a.value / b.value for a, b in pairs]
    return len(ratios) > 1 and max(ratios) <= min(ratios) * (1 + _ROUNDING)


def _judged(series: Sequence[Series], runs: Mapping[str, Mapping[str, Any]], risk: float) -> list[Series]:
    """The series with their changes."""
    risk_of_one = risk / max(len(series), 1)
    found = [change_points([value.value for value in one.weighing], risk_of_one) for one in series]
    ranked = sorted((one.p, place) for place, one in enumerate(found) if isinstance(one, Changes))
    for before, (p, place) in enumerate(ranked):
        share = risk / (len(ranked) - before)
        if p > share:
            break
        if p > risk_of_one:
            found[place] = change_points([value.value for value in series[place].weighing], share)
    return [
        replace(one, changes=changes, steps=tuple(_steps(one, changes, runs)))
        for one, changes in zip(series, found, strict=True)
    ]


def _steps(series: Series, changes: Changes | Undefined, runs: Mapping[str, Mapping[str, Any]]) -> Iterator[Step]:
    values = series.weighing
    for point in changes.points if isinstance(changes, Changes) else ():
        before, after = runs[values[point.first - 1].run], runs[values[point.last].run]
        direction = _direction(series.response, point.after > point.before)
        run, first, last = (values[place] for place in (point.index, point.first, point.last))
        yield Step(point, run, first, last, tuple(_facts(before, after)), direction)


def _direction(response: str, rises: bool) -> Outcome:
    known = metrics.metric(response)
    if not known.is_speed:
        return Outcome.CHANGED
    return Outcome.FASTER if rises == (known.better == "higher") else Outcome.SLOWER


def _facts(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Fact]:
    """What both runs state, and differently."""
    for name in (*FACTS, COMMIT):
        old, new = before[name], after[name]
        if not old or not new or old == new:
            continue
        if separator := _LISTS.get(name):
            words = [[word.strip() for word in text.split(separator)] for text in (old, new)]
            old = ", ".join(word for word in words[0] if word not in words[1])
            new = ", ".join(word for word in words[1] if word not in words[0])
            flaw, colon, _ = old.partition(": ")
            new = new.removeprefix(flaw + colon) if colon else new
        yield Fact(name, old, new)
