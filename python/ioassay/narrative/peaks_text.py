"""The best values of all sweeps of a suite in one table: level, value, plateau, law; and what was not measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay import metrics, units
from ioassay.analysis.optimum.optimum import Outcome, Peak
from ioassay.analysis.optimum.optimum_overview import Sweep
from ioassay.factors import level_text
from ioassay.narrative import cause_text, omissions, peak_tables, phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.result import Interval
from ioassay.stats.scalability import USL, Law

COLUMNS = ("Sweep", "Best", "It may be", "Value", "Plateau", "Scaling law", "Why it ends")
_NONE = "–"
_LONG = 200
"""Characters of a note above which it is not repeated in every row."""
FACTS = (
    *("factor", "best", "best_can_be_told", "confidence", "best_interval", "mean", "interval", "not_worse"),
    *("plateau", "plateau_reason", "plateau_at_processors", "processors", "law", "cause"),
)
"""Of the numbers of a peak, those of a sweep."""


def findings(answers: Sequence[Sweep]) -> list[Finding]:
    """One finding for all sweeps."""
    if not answers:
        return []
    return [
        Finding(
            study="",
            question="peaks",
            response="",
            title="Best values and plateaus",
            statements=_statement(answers),
            statistics={"sweeps": [_statistics(one) for one in answers]},
            tables=[Table(COLUMNS, [_row(one) for one in answers])],
        )
    ]


def _statistics(one: Sweep) -> dict[str, Any]:
    common = {"study": one.study.name, "title": _title(one), "not_measured": _note(one)}
    if one.peak is None:
        return {**common, "factor": next(iter(one.study.levels), ""), "where": {}, "best": None}
    numbers = one.peak.statistics()
    return {
        **common,
        "response": one.peak.part.response,
        "where": one.peak.part.where(),
        **{name: numbers[name] for name in FACTS},
        "texts": _texts(one.peak),
    }


def _title(one: Sweep) -> str:
    return one.study.title or one.study.name


def _note(one: Sweep) -> str:
    note = " ".join(omissions.missing_conditions(one.missing))
    if one.peak is None:
        return note or "Nothing was measured."
    return "some levels were not measured, see below" if one.places > 1 and len(note) > _LONG else note


def _texts(one: Peak) -> dict[str, str]:
    return {
        "best": _best(one),
        "may": _may(one, one.statistics()),
        "value": _value(one),
        "plateau": _plateau(one),
        "law": _law(one),
        "cause": cause_text.in_brief(one) or _NONE,
    }


def _best(one: Peak) -> str:
    if one.outcome == Outcome.EQUAL:
        return "all the same"
    best = peak_tables.phrase_at(one, one.best)
    return f"not identified (highest {'value' if one.part.merged else 'mean'}: {best})" if one.indistinct else best


def _may(one: Peak, numbers: Mapping[str, Any]) -> str:
    """The levels that may be as good: as a range of numbers, as a list of words."""
    near = numbers["not_worse"] or []
    if one.indistinct or not near:
        return _NONE
    if one.numbers:
        return peak_tables.candidates(one)
    return phrases.listed([level_text(one.factor, level) for level in near], 9)


def _value(one: Peak) -> str:
    """`930 MB/s (910 to 950 MB/s)`; a unit that is a word stands once."""
    response, bounds = one.part.response, one.interval
    shown = phrases.value(response, one.mean)
    if not isinstance(bounds, Interval):
        return shown
    return f"{shown} ({phrases.span(response, bounds.low, bounds.high, metrics.format_metric)})"


def _plateau(one: Peak) -> str:
    if one.plateau is None:
        return one.no_plateau or _NONE if one.numbers else _NONE
    first, last = one.plateau.first, one.plateau.last
    at = " (this machine's processors)" if one.at_processors(first) else ""
    if last == len(one.cells) - 1:
        return f"from {peak_tables.phrase_at(one, first)}{at}"
    return peak_tables.span(one, first, last)


def _law(one: Peak) -> str:
    if one.law is not None:
        return _called(one.law)
    if one.growth is not None and one.plateau is not None:
        return f"up to {peak_tables.phrase_at(one, one.plateau.first)}: {_called(one.growth)}"
    return _NONE if one.scaling is None or one.indistinct else "none fits"


def _called(law: Law) -> str:
    name = "universal scalability" if law.kind == USL else "Amdahl"
    return f"{name}, {units.format_percent(law.alpha)} % cannot run in parallel"


def _row(one: Sweep) -> list[Any]:
    note, where = _note(one), phrases.levels(one.peak.part.where()) if one.peak else ""
    sweep = f"{_title(one)} ({where})" if where else _title(one)
    if one.peak is None:
        return [sweep, note, *[_NONE] * (len(COLUMNS) - 2)]
    texts = _texts(one.peak)
    texts["best"] += f" ({note})" if note else ""
    return [sweep, *texts.values()]


def _statement(sweeps: Sequence[Sweep]) -> str:
    peaks = [one.peak for one in sweeps if one.peak is not None]
    best = sum(bool(one.statistics()["best_can_be_told"]) for one in peaks)
    flat = [one for one in peaks if one.plateau is not None]
    own = [one for one in flat if one.plateau and one.at_processors(one.plateau.first)]
    studies = len({one.study.name for one in sweeps})
    text = [
        f"{studies} studies with {phrases.count(len(sweeps), 'sweep')}: "
        f"the data identify a best value in {best} and a plateau in {len(flat)}.",
        *cause_text.of_sweeps(peaks),
    ]
    if own:
        begin = "plateau begins" if len(own) == 1 else "plateaus begin"
        text.append(f"{len(own)} {begin} at the number of this machine's processors ({own[0].processors}).")
    empty = len(sweeps) - len(peaks)
    return " ".join([*text, *([f"{phrases.count(empty, 'sweep')} could not be measured."] if empty else [])])
