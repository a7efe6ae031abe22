"""A trend in words, as JSON and as Markdown. Page and terminal show the same lines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ioassay import metrics
from ioassay.narrative import phrases
from ioassay.narrative.say import Say, say, sentence
from ioassay.packs.history.record_columns import SEPARATOR
from ioassay.packs.history.trend import COMMIT, Fact, Outcome, Series, Step, Trend, Value
from ioassay.report.tables import plain as escaped
from ioassay.stats.change_points import FEWEST, Changes
from ioassay.stats.result import Interval, plain

MARKS = {
    Outcome.SLOWER: "▼",
    Outcome.CHANGED: "◆",
    Outcome.FASTER: "▲",
    Outcome.SAME: "●",
    Outcome.SHORT: "–",
}
"""As the pages of comparisons have them."""
METHOD = " ".join(sentence(f"trend.{code}") for code in ("method", "confidence"))
CAUSE = sentence("trend.cause")
_FACTS = {"tool": "driver", "tool_version": "tool", "ioassay": "ioassay", "mount_options": "mount options"}
_BLOCKS = "▁▂▃▄▅▆▇█"
_SPARKS = 24
_MOST_FACTS = 4
_LONGEST = 50
_MARKDOWN_ROWS = 10


def headline(trend: Trend) -> Say:
    """Whether it is slower than before, in one sentence."""
    counts = {outcome.value: len(trend.with_outcome(outcome)) for outcome in Outcome}
    total = len(trend.series) - counts["short"]
    first = next((outcome for outcome in Outcome if counts[outcome]), Outcome.SHORT)
    longest = max((len(series.weighing) for series in trend.series), default=0)
    variants = {
        Outcome.SLOWER: ("alone", not counts["faster"]),
        Outcome.SAME: ("one", total == 1),
        Outcome.SHORT: ("equal", longest >= FEWEST),
    }
    variant, holds = variants.get(first, ("", False))
    code = f"trend.{first}_{variant}" if holds else f"trend.{first}"
    return say(code, total=total, fewest=FEWEST, longest=longest, **counts)


def leads(trend: Trend) -> list[Say]:
    """The worst change, or what change would have been found, and what is not counted."""
    said = []
    if trend.series and trend.series[0].outcome in (Outcome.SLOWER, Outcome.CHANGED, Outcome.FASTER):
        said.append(last_change(trend, trend.series[0]))
    elif least := trend.least:
        low, high = min(least), max(least)
        code = "trend.least" if phrases.percent(low) == phrases.percent(high) else "trend.least_range"
        said.append(say(code, least=high, low=low))
    if trend.left_out:
        said.append(say("trend.left_out", number=trend.left_out, total=len(trend.runs)))
    if trend.without_commit:
        said.append(say("trend.without_commit", number=trend.without_commit))
    return said


def last_change(trend: Trend, series: Series) -> Say:
    """`P99 of read latency of bs=4KiB rose by 12 % (95 % interval 9 to 15 %) on 2026-10-12, with kernel 6.9 → 6.10.`"""
    changes = series.changes
    assert isinstance(changes, Changes)
    response, place = phrases.brief(series.response), name(trend, series)
    if drift := changes.drift:
        rises = drift.size > (1 if changes.is_ratio else 0)
        ends = {"first": day(series.weighing[0].begun), "last": day(series.weighing[-1].begun)}
        change = _long(series, drift.size, drift.change)
        return say(f"trend.drift_{'rose' if rises else 'fell'}", response=response, place=place, change=change, **ends)
    step = series.steps[-1]
    known = [*map(fact, step.facts[:_MOST_FACTS])]
    facts = say("trend.with", facts=known) if known else say("trend.alone")
    way = "rose" if step.point.after > step.point.before else "fell"
    change = _long(series, step.point.size, step.point.change)
    return say(
        f"trend.{way}", response=response, place=place, change=change, date=_on(trend, dates(trend, step)), facts=facts
    )


def name(trend: Trend, series: Series) -> str:
    """The condition, with the settings that not all series have, and its host where there are several."""
    own = [one for one in series.settings.split(SEPARATOR) if one not in trend.shared_settings]
    condition = " ".join(", ".join([series.condition, *own]).split())
    return f"{condition} on {series.host}" if len(trend.hosts) > 1 else condition


def responses(series: Series) -> str:
    """The response with those that restate it."""
    return ", ".join(phrases.brief(one) for one in (series.response, *series.restated))


def fact(one: Fact) -> Say:
    """`kernel 6.9 → 6.10`; of a list what came and what left it."""
    code = "trend.fact" if one.before and one.after else f"trend.fact_{'added' if one.after else 'removed'}"
    label = _FACTS.get(one.name, one.name.replace("_", " "))
    return say(code, name=label, before=_brief(one.before), after=_brief(one.after))


def facts(step: Step) -> str:
    return ", ".join(str(fact(one)) for one in step.facts) or sentence("trend.nothing")


def dates(trend: Trend, step: Step) -> str:
    """The day, or the commit, from which on the change holds; with its interval where that is more than one."""
    where = within(trend, step)
    return f"{moment(trend, step.run)} ({where})" if where else moment(trend, step.run)


def _on(trend: Trend, date: str) -> Say:
    return say(f"trend.on_{trend.over}", date=date)


def within(trend: Trend, step: Step) -> str:
    """The interval of the day, or of the commit; '' where it is one."""
    first, last = moment(trend, step.first), moment(trend, step.last)
    return "" if first == last else f"{first} to {last}"


def day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


def size_and_ends(series: Series, step: Step) -> tuple[str, str]:
    """`+12 %` and `+9 to +15 %`."""
    return _short(series, step.point.size, step.point.change)


def size(series: Series, step: Step) -> str:
    """`+12 % (+9 to +15 %)`."""
    return "{} ({})".format(*size_and_ends(series, step))


def change(trend: Trend, series: Series) -> str:
    """The last change in brief, or what would show."""
    changes = series.changes
    if not isinstance(changes, Changes):
        return sentence("trend.few" if len(series.weighing) < FEWEST else "trend.equal")
    if changes.drift:
        middle, ends = _short(series, changes.drift.size, changes.drift.change)
        return sentence("trend.brief_drift", size=middle, ends=ends)
    if not series.steps:
        least = f"±{phrases.percent(changes.least)}" if changes.is_ratio else _difference(series, changes.least)
        return sentence("trend.none", least=least)
    step = series.steps[-1]
    middle, ends = _short(series, step.point.size, step.point.change)
    return sentence("trend.brief", size=middle, ends=ends, date=_on(trend, moment(trend, step.run)))


def spark(series: Series) -> str:
    """The values that count, of neighbours the mean, as blocks from the least to the greatest."""
    known = [value.value for value in series.weighing]
    parts = min(len(known), _SPARKS)
    edges = [len(known) * place // parts for place in range(parts + 1)] if parts else [0]
    means = [math.fsum(known[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low, span = min(means, default=0.0), max(means, default=0.0) - min(means, default=0.0)
    return "".join(_BLOCKS[min(int(8 * (mean - low) / span), 7) if span else 3] for mean in means)


def shown(series: Series, value: Value | None) -> str:
    return metrics.format_metric(series.response, value.value) if value else "–"


def moment(trend: Trend, value: Value) -> str:
    return str(trend.runs[value.run][COMMIT]) if trend.over == COMMIT else day(value.begun)


def _is_ratio(series: Series) -> bool:
    return isinstance(series.changes, Changes) and series.changes.is_ratio


def _difference(series: Series, number: float) -> str:
    return phrases.value(series.response, number)


def _long(series: Series, size: float, bounds: Interval) -> str:
    """Without its sign, which the verb says: `12 % (95 % interval 9 to 15 %)`."""
    zero = 1 if _is_ratio(series) else 0
    sign = 1 if size > zero else -1
    low, high = sorted(sign * (end - zero) for end in (bounds.low, bounds.high))
    if _is_ratio(series):
        middle, ends = phrases.percent(abs(size - 1)), f"{phrases.points(low)} to {phrases.points(high)} %"
    else:
        middle, ends = _difference(series, abs(size)), phrases.span(series.response, low, high)
    return f"{middle} ({phrases.level(bounds.confidence)} interval {ends})"


def _short(series: Series, size: float, bounds: Interval) -> tuple[str, str]:
    if not _is_ratio(series):
        return _difference(series, size), phrases.span(series.response, bounds.low, bounds.high)
    low, middle, high = (
        phrases.points(one - 1, sign=True).replace("-", "−") for one in (bounds.low, size, bounds.high)
    )
    return f"{middle} %", f"{low} to {high} %"


def _brief(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


@dataclass(frozen=True)
class Line:
    """A series as it is shown."""

    condition: str
    metric: str
    latest: str
    spark: str
    change: str
    facts: str


def lines(trend: Trend) -> list[Line]:
    """A line a series, worst first."""
    return [
        Line(
            condition=name(trend, series),
            metric=responses(series),
            latest=shown(series, series.latest),
            spark=spark(series),
            change=f"{MARKS[series.outcome]} {change(trend, series)}",
            facts=facts(series.steps[-1]) if series.steps else "",
        )
        for series in trend.series
    ]


def as_dict(trend: Trend) -> dict[str, Any]:
    """Plain JSON-able form; `values` has one entry a run."""
    return {
        "study": trend.study,
        "title": trend.title,
        "place": trend.place,
        "over": trend.over,
        "headline": str(headline(trend)),
        "statements": [*map(str, leads(trend))],
        "risk": trend.risk,
        "runs": len(trend.runs),
        "not_counted": trend.left_out,
        "series": [_series(trend, series) for series in trend.series],
    }


def _series(trend: Trend, series: Series) -> dict[str, Any]:
    changes = series.changes
    known: dict[str, Any] = {"reason": getattr(changes, "reason", "")}
    if isinstance(changes, Changes):
        names = ("is_ratio", "p", "deviation", "correlation", "least", "least_recent", "drift")
        known = {one: plain(getattr(changes, one)) for one in names}
    return {
        **{one: getattr(series, one) for one in ("host", "condition", "settings", "response", "outcome")},
        "restated": [*series.restated],
        "n": len(series.weighing),
        "latest": series.latest.value if series.latest else None,
        **known,
        "changes": [
            {
                **{at: str(getattr(step, at).begun) for at in ("run", "first", "last")},
                "moment": moment(trend, step.run),
                **{one: plain(getattr(step.point, one)) for one in ("size", "change", "before", "after", "p")},
                "outcome": step.direction,
                "facts": plain(step.facts),
            }
            for step in series.steps
        ],
        "values": [
            {"run": one.run, "begun": str(one.begun), "value": one.value, "n": one.n, "counted": one.weighs}
            for one in series.values
        ],
    }


def markdown(trend: Trend) -> str:
    """The trend in a few lines, for summaries of CI jobs. It ends with a line feed."""
    known = lines(trend)
    rows: list[Sequence[str]] = [("condition", "metric", "latest", "trend", "last change", "at the same time")]
    rows += [("---",) * len(rows[0])]
    rows += [tuple(map(escaped, vars(line).values())) for line in known[:_MARKDOWN_ROWS]]
    said = " ".join(str(one) for one in leads(trend))
    parts = [
        f"### ioassay: {escaped(trend.title)}",
        f"**{escaped(headline(trend))}** {escaped(said)}",
        "\n".join(f"| {' | '.join(row)} |" for row in rows),
        f"… {phrases.count(len(known) - _MARKDOWN_ROWS, 'more row')}" if len(known) > _MARKDOWN_ROWS else "",
        f"{escaped(searched(trend))} {CAUSE}",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def searched(trend: Trend) -> Say:
    return say("trend.searched", total=len(trend.series), risk=trend.risk)
