"""A statement: the code of a sentence and the values in it. `catalogue/<subject>.toml` has the sentences.

A code is `<subject>.<name>`. In a template, `{value}` is a value as text and `{value:form}` another form of it. Plain
values have the forms of `FORMS`; a value with a metric, a factor or an interval is one of the classes here, whose forms
their docstrings list. What a form means is in `phrases`. A value may be a statement itself. Decides nothing.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from string import Formatter
from typing import Any

from ioassay import pack, units
from ioassay.factors import factor_label, level_phrase, level_text
from ioassay.metrics import format_metric, metric
from ioassay.narrative import phrases
from ioassay.stats.result import Interval, Undefined, plain

_CATALOGUE = Path(__file__).parent / "catalogue"
TEXT = "text"
"""The code of a sentence that a plugin has written itself."""


@functools.cache
def templates(subject: str) -> Mapping[str, str]:
    """The sentences of one subject, by name."""
    core = _CATALOGUE / f"{subject}.toml"
    return tomllib.loads((core if core.exists() else pack.files("words")[subject]).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Say:
    """One statement. `where`: the levels that it is restricted to, which its text begins with."""

    code: str
    values: Mapping[str, object] = field(default_factory=dict)
    where: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        subject, _, name = self.code.partition(".")
        text = Sentence().vformat(templates(subject)[name], (), self.values) if name else str(self.values[TEXT])
        return phrases.placed(self.where, text)

    def as_dict(self) -> dict[str, Any]:
        shown = {"code": self.code, "values": _data(self.values), "text": str(self)}
        return {**shown, "where": plain(self.where)} if self.where else shown


def say(code: str, **values: Any) -> Say:
    """The statement of a code, which needs no restriction."""
    return Say(code, values)


def sentence(code: str, **values: Any) -> str:
    """The sentence of a code."""
    return str(Say(code, values))


def holding(subject: str, **codes: object) -> list[Say]:
    """The statements of a subject whose codes hold, in this order; they have no values."""
    return [Say(f"{subject}.{code}") for code, holds in codes.items() if holds]


def statement(said: Say | str) -> Say:
    """A text of a plugin's own as a statement; a statement stays."""
    return said if isinstance(said, Say) else Say(TEXT, {TEXT: said})


def _data(value: Any) -> Any:
    if isinstance(value, Say):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {str(name): _data(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_data(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _data(getattr(value, one.name)) for one in fields(value)}
    return plain(value)


# Values


@dataclass(frozen=True)
class Response:
    """A metric's name: `{x}` within a sentence, `{x:head}`, `{x:noun}` and `{x:subject}` as `phrases` has them."""

    metric: str

    def __format__(self, form: str) -> str:
        if form == "subject":
            return phrases.capital(phrases.noun(self.metric))
        return {"": phrases.inside, "head": phrases.name, "noun": phrases.noun}[form](self.metric)


@dataclass(frozen=True)
class Quantity:
    """A value of a metric: `{x}` with its unit, `{x:short}` as in tables, `{x:named}` behind the metric's name.

    `{x:interval}` and `{x:ends}` add the interval where there is one: `(95 % interval 1 to 2 ms)`, `(1 to 2 ms)`. Forms
    may be combined: `{x:named interval}`.
    """

    metric: str
    value: float
    interval: Interval | Undefined | None = None

    def __format__(self, form: str) -> str:
        forms, head = form.split(), phrases.name(self.metric)
        unit = metric(self.metric).unit
        once = "named" in forms and unit and head.endswith(unit)  # the unit stands in the name
        shown = (format_metric if "short" in forms or once else phrases.value)(self.metric, self.value)
        shown, bounds = f"{head}: {shown}" if "named" in forms else shown, self.interval
        if not isinstance(bounds, Interval) or bounds.low >= bounds.high:
            return shown
        ends = phrases.span(self.metric, bounds.low, bounds.high, format_metric)
        if "interval" in forms:
            return f"{shown} ({phrases.level(bounds.confidence)} interval {ends})"
        return f"{shown} ({ends})" if "ends" in forms else shown


@dataclass(frozen=True)
class Range:
    """Two values of a metric: `{x}` is `410 to 432 MB/s`; `{x:ends}` is one value where both read alike."""

    metric: str
    low: float
    high: float

    def __format__(self, form: str) -> str:
        low, high = (phrases.value(self.metric, number) for number in (self.low, self.high))
        return low if form and low == high else phrases.joined(low, high)

    @classmethod
    def over(cls, metric: str, values: Iterable[float]) -> Range:
        """From the least to the greatest of the values."""
        known = [*values]
        return cls(metric, min(known), max(known))


@dataclass(frozen=True)
class Ratio:
    """A number without a unit: `{x}` alone, `{x:times}` as `1.24 times`.

    `{x:interval}` and `{x:times interval}` add its interval in brackets, `{x:comma interval}` after a comma.
    """

    value: float
    interval: Interval | None = None

    def __format__(self, form: str) -> str:
        shown = phrases.times(self.value) if "times" in form else phrases.plain_number(self.value)
        if self.interval is None or "interval" not in form:
            return shown
        known = phrases.bounds_of(self.interval)
        return f"{shown}, {known}" if "comma" in form else f"{shown} ({known})"


@dataclass(frozen=True)
class Change:
    """A ratio as its distance from 1: `18 % (95 % interval 7.9 to 28 %)`, whichever way it goes.

    `{x:bounds}` is the interval alone, with its signs.
    """

    ratio: float
    interval: Interval

    def __format__(self, form: str) -> str:
        if form == "bounds":
            return phrases.signed_bounds(self.interval.low - 1, self.interval.high - 1, self.interval.confidence)
        ends = (abs(self.interval.low - 1), abs(self.interval.high - 1))
        low, high = sorted(ends) if (self.interval.low > 1) == (self.interval.high > 1) else (0.0, max(ends))
        within = f"{phrases.level(self.interval.confidence)} interval {phrases.points(low)} to {phrases.points(high)} %"
        return f"{phrases.percent(abs(self.ratio - 1))} ({within})"


@dataclass(frozen=True)
class Trend:
    """A relative change: `rises by 40 % (95 % interval +18 to +66 %)`, `{x:signed}` `+40 %, 95 % interval …`."""

    share: float
    interval: Interval

    def __format__(self, form: str) -> str:
        bounds = phrases.signed_bounds(self.interval.low, self.interval.high, self.interval.confidence)
        if form == "signed":
            return f"{phrases.points(self.share, sign=True)} %, {bounds}"
        return f"{'rises' if self.share > 0 else 'falls'} by {phrases.points(abs(self.share))} % ({bounds})"


@dataclass(frozen=True)
class Deviation:
    """A ratio to a reference, of a `metric` the difference from it: `{x}` is `12 % below` or `2.4 times`.

    `{x:size}` is its distance alone, `{x:bounds}` the interval of what `{x}` says.
    """

    value: float
    interval: Interval | None = None
    metric: str = ""

    def __format__(self, form: str) -> str:
        if not self.metric and self.value >= 2 and form != "size":
            return phrases.bounds_of(self.interval) if form and self.interval else phrases.times(self.value)
        reference, metric, bounds = 0 if self.metric else 1, self.metric, self.interval
        if form == "bounds" and bounds:
            ends = sorted(abs(end - reference) for end in (bounds.low, bounds.high))
            share = f"{phrases.points(ends[0])} to {phrases.points(ends[1])} %"
            shown = phrases.span(metric, ends[0], ends[1]) if metric else share
            return f"{phrases.level(bounds.confidence)} interval {shown}"
        distance = abs(self.value - reference)
        shown = phrases.value(metric, distance) if metric else phrases.percent(distance)
        return shown if form == "size" else f"{shown} {'above' if self.value > reference else 'below'}"


@dataclass(frozen=True)
class Shares:
    """Changes over several conditions: `{x}` is `-66.4 % to 0.0 %`, `{x:median}` their median with these extremes.

    `{x:points}` is `-66 to 0 %`, with two digits.
    """

    least: float
    middle: float
    most: float

    def __format__(self, form: str) -> str:
        if form == "points":
            low, high = (f"{phrases.points(share, sign=True)} %" for share in (self.least, self.most))
            return low if low == high else phrases.joined(low, high)
        ends = " to ".join(dict.fromkeys(phrases.signed_percent(share) for share in (self.least, self.most)))
        if form != "median":
            return ends
        return phrases.signed_percent(self.middle) + (f" ({ends})" if " to " in ends else "")


@dataclass(frozen=True)
class Level:
    """A level of a factor: `{x}` as a phrase, `{x:text}` as in tables, `{x:at}` as a place, `{x:with}` likewise."""

    factor: str
    level: Any

    def __format__(self, form: str) -> str:
        if form == "text":
            return level_text(self.factor, self.level)
        return phrases.at(self.factor, self.level, form) if form else level_phrase(self.factor, self.level)


@dataclass(frozen=True)
class Factor:
    """A factor's name: `{x}` within a sentence, `{x:subject}` at its head, `{x:label}` as in tables."""

    name: str

    def __format__(self, form: str) -> str:
        noun = phrases.factor_noun(self.name)
        return factor_label(self.name) if form == "label" else phrases.capital(noun) if form == "subject" else noun


@dataclass(frozen=True)
class Place:
    """Levels of several factors: `{x}` as a list, `{x:with}` as what holds meanwhile, `{x:at}` of one as a place."""

    levels: Mapping[str, object]

    def __format__(self, form: str) -> str:
        if form == "at" and len(self.levels) == 1:
            return phrases.at(*next(iter(self.levels.items())))
        shown = phrases.levels(self.levels)
        own = not form or shown.startswith(("with ", "without ", "at ", "in "))
        return shown if own else f"with {shown}"


_TYPED = Response | Quantity | Range | Ratio | Change | Trend | Deviation | Shares | Level | Factor | Place
FORMS: dict[str, Callable[[Any], str]] = {
    "percent": phrases.percent,
    "confidence": phrases.level,
    "p": lambda p: "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}",
    "number": phrases.plain_number,
    "times": phrases.times,
    "capital": lambda value: phrases.capital(str(value)),
    "list": lambda values: phrases.listed([str(value) for value in values]),
    "all": lambda values: phrases.listed([str(value) for value in values], 9),
    "and": lambda values: " and ".join(map(str, values)),
    "nor": lambda values: ", nor whether ".join(map(str, values)),
    "capital list": lambda values: phrases.capital(phrases.listed([str(value) for value in values])),
    "share": lambda share: phrases.percent(share) if share >= 0.001 else "less than 0.1 %",
    "hosts": phrases.hosts,
    "needed": phrases.repetitions_needed,
    "minutes": lambda seconds: f"{seconds / 60:.3g} minutes",
    "are": lambda number: f"{number} {'is' if number == 1 else 'are'}",
    "sentences": lambda statements: " ".join(map(str, statements)),
    "have": lambda number: f"{number} {'has' if number == 1 else 'have'}",
    "size": units.format_size,
    "rate": lambda rate: "no rate" if rate is None else units.format_rate(rate),
    "ns": units.format_ns,
    "duration": lambda time_s: units.format_ns(time_s * 1e9) if 0 < time_s < 1 else units.format_duration(time_s),
    "percentage": lambda share: f"{share * 100:.3g} %",
    "excess": lambda ratio: f"{ratio:.3g} times what it was" if ratio >= 10 else f"{(ratio - 1) * 100:.3g} % too high",
}
"""Forms of plain values; `{x:count of call}` is `1 call`, of a list its length. `{x:scaled of call}`: `16 k calls`."""


class Sentence(Formatter):
    """Fills templates."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, _TYPED):
            return format(value, format_spec)
        count, _, thing = format_spec.partition(" of ")
        if count == "count":
            number = value if isinstance(value, int) else len(value)
            return phrases.count(number, thing) if thing else str(number)
        if count == "scaled":
            return f"{units.format_count(value)} {thing}{'' if value == 1 else 's'}"
        if form := FORMS.get(format_spec):
            return form(value)
        return format(value if isinstance(value, int | float) else str(value), format_spec)
