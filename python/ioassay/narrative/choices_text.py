"""Which case, when: all conditions of all studies about a choice in one table, with published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ioassay import metrics
from ioassay.analysis.claims import published_results
from ioassay.analysis.measurements.cells import Cells
from ioassay.analysis.optimum.alternatives import Choice, Outcome, Standing
from ioassay.analysis.optimum.alternatives_overview import LATENCY, StudyChoice
from ioassay.factors import CASE, level_key
from ioassay.narrative import phrases
from ioassay.narrative.costs_text import setting_sentence
from ioassay.narrative.finding import Finding, Table
from ioassay.records.record import Scalar
from ioassay.stats.contrasts import Pair
from ioassay.stats.result import mean_of

COLUMNS = (
    "Condition",
    "Best",
    "Value",
    "Times the next",
    "Certain",
    "May be best",
    "Of those on one target",
)
PUBLISHED = (
    "Published, on another machine",
    "IOPS there",
    "IOPS here",
    "Mean completion latency there",
    "Mean completion latency here",
)
_NOTHING = "–"
_IOPS = "total.iops"


def findings(answers: Sequence[StudyChoice]) -> list[Finding]:
    """One finding for all studies about a choice; the first response of each counts."""
    if not answers:
        return []
    known = published_results.paths_of([one.study for one in answers])
    rows = [_row(one.choice, standing) for one in answers for standing in one.choice.places]
    standings = [standing for one in answers for standing in one.choice.places]
    settings = dict.fromkeys(one.setting for one in answers if one.setting is not None)
    premises = [setting_sentence(one) for one in settings]
    statistics = [{"study": one.study, "response": one.choice.response, **one.choice.statistics()} for one in answers]
    return [
        Finding(
            study="",
            question="choices",
            response="",
            title="Which case, when, and is the difference real?",
            statements=_statement(standings, known),
            premises=premises,
            statistics={
                "studies": statistics,
                "published": [vars(path) for path in known.paths] if known else [],
            },
            tables=[Table(COLUMNS, rows), *([_published(known, answers)] if known else [])],
        )
    ]


def _row(one: Choice, standing: Standing) -> list[str]:
    same = one.alike.places if one.alike else ()
    same_target = next((alike for alike in same if alike.where == standing.where), None)
    return [
        phrases.capital(phrases.levels(standing.where)) or "all trials",
        str(standing.best),
        phrases.value(one.response, standing.means[standing.best]),
        _ahead(standing),
        "yes" if standing.outcome == Outcome.BEST else "no",
        phrases.listed([str(option) for option in standing.near], 9) if standing.near else _NOTHING,
        _NOTHING if same_target is None else _on_target(same_target),
    ]


def _ahead(standing: Standing) -> str:
    """`1.19 (0.9 to 1.6), nbd`: over the next best."""
    second = standing.options[1]
    duel = standing.duels[second]
    if not isinstance(duel, Pair):
        return f"{phrases.plain_number(duel)}, {second}"
    shown = phrases.plain_number(duel.estimate)
    if not duel.interval.vague:
        shown += f" ({phrases.joined(*map(phrases.plain_number, (duel.interval.low, duel.interval.high)))})"
    return f"{shown}, {second}"


def _published(known: published_results.Paths, answers: Sequence[StudyChoice]) -> Table:
    """A row for each published path and, where none was named, for each condition of it here; also for those that
    were not measured here."""
    rows = []
    for path in known.paths:
        compared = answers if path.where else answers[:1]
        rows += [_beside(path, one, point) for one in compared for point in _points(path, one)] or [
            _beside(path, None, path.where)
        ]
    return Table(PUBLISHED, rows, observed=True)


def _points(path: published_results.Path, one: StudyChoice) -> list[Mapping[str, Scalar]]:
    """The conditions of a study that were published: those of the case at these levels, and of the same factors."""
    found: list[Mapping[str, Scalar]] = []
    for cell in one.choice.cells.cells:
        others = {name: level for name, level in cell.point.items() if name != CASE}
        matches = all(level_key(name, others.get(name, "")) == level_key(name, path.where[name]) for name in path.where)
        if cell.point[CASE] == path.case and matches and (not path.where or len(others) == len(path.where)):
            found.append(others)
    return found if path.where else found[:1]


def _beside(path: published_results.Path, one: StudyChoice | None, point: Mapping[str, Scalar]) -> list[str]:
    """A row of `PUBLISHED`."""
    wanted = {CASE: path.case, **point}
    there = path.words or _NOTHING if path.iops is None else phrases.value(_IOPS, path.iops)
    return [
        f"{path.case}, {phrases.levels(point)}" if point else path.case,
        there,
        _here(one.choice.cells if one else None, wanted),
        _NOTHING if path.clat_mean_ns is None else metrics.format_metric(LATENCY, path.clat_mean_ns),
        _here(one.latency if one else None, wanted),
    ]


def _here(found: Cells | None, wanted: Mapping[str, Scalar]) -> str:
    """The mean of our condition, where it has one."""
    if found is None:
        return _NOTHING
    means = [mean_of(cell.values) for cell in found.cells if dict(cell.point) == dict(wanted)]
    return phrases.value(found.response, means[0]) if means else _NOTHING


def _on_target(standing: Standing) -> str:
    return f"{standing.best}{' (certain)' if standing.outcome == Outcome.BEST else ''}"


def _statement(places: Sequence[Standing], known: published_results.Paths | None) -> str:
    best = [place.best for place in places if place.outcome == Outcome.BEST]
    winners = sorted(((best.count(case), str(case)) for case in dict.fromkeys(best)), key=lambda item: -item[0])
    ahead = phrases.listed([f"{case} in {number}" for number, case in winners], 9)
    conditions = phrases.count(len(places), "condition")
    text = f"In {len(best)} of {conditions}, one case is certainly ahead of all others: {ahead}."
    if not best:
        text = f"In none of {conditions} is one case certainly ahead of all others."
    return f"{text} Published rows are from {known.source}: {' '.join(known.reading)}" if known else text
