"""Which case, when: all conditions of all studies about a choice in one table, with published numbers."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay import metrics
from ioassay.analysis.claims import published_results
from ioassay.analysis.optimum.alternatives import Choice, Outcome, Standing
from ioassay.analysis.optimum.alternatives_overview import StudyChoice
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.contrasts import Pair

COLUMNS = (
    "Condition",
    "Best",
    "Value",
    "Times the next",
    "Certain",
    "May be best",
    "Of those on one target",
)
_NOTHING = "–"


def findings(answers: Sequence[StudyChoice]) -> list[Finding]:
    """One finding for all studies about a choice; the first response of each counts."""
    if not answers:
        return []
    known = published_results.paths_of([one.study for one in answers])
    rows = [_row(one.choice, standing) for one in answers for standing in one.choice.places]
    statistics = [{"study": one.study, "response": one.choice.response, **one.choice.statistics()} for one in answers]
    return [
        Finding(
            study="",
            question="choices",
            response="",
            title="Which case, when, and is the difference real?",
            statement=_statement([standing for one in answers for standing in one.choice.places], known),
            statistics={"studies": statistics, "published": [vars(path) for path in known.paths] if known else []},
            tables=[Table(COLUMNS, [*rows, *map(_published, known.paths if known else ())])],
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


def _published(path: published_results.Path) -> list[str]:
    latency = f", completion latency {metrics.format_metric('read.clat.mean', path.clat_mean_ns)}"
    return [
        f"Published elsewhere: {phrases.levels(path.where)}",
        path.case,
        f"{phrases.value('total.iops', path.iops)}{latency}",
        *[_NOTHING] * 4,
    ]


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
