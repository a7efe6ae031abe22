"""Which case, when: all places of all studies about a choice in one table, with published numbers beside.

Only of studies with `[analysis] lead = "choice"`. Computes nothing: `alternatives.py` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay import metrics
from ioassay.analysis.claims import published_results
from ioassay.analysis.optimum import alternatives, alternatives_text
from ioassay.analysis.optimum.alternatives import Choice, Standing
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.store.dataset import Dataset

QUESTION = "choices"
COLUMNS = (
    "Condition",
    "Best mean",
    "Value",
    "Times the next",
    "Beyond noise",
    "Not told apart",
    "Of those on one target",
)
_NOTHING = "–"


def together(records: Dataset, findings: Sequence[Finding]) -> list[Finding]:
    """One finding where there is a study of a choice; its first response counts."""
    rows: list[list[Any]] = []
    statistics: list[dict[str, Any]] = []
    for study in (study for study in records.studies if study.analysis.lead == "choice"):
        one = next(iter(alternatives.choices(records, study)), None)
        if one is not None:
            rows += [_row(one, standing) for standing in one.places]
            statistics.append({"study": study.name, "response": one.response, **alternatives_text.statistics(one)})
    if not rows:
        return []
    known = published_results.paths_of([study.name for study in records.studies])
    rows += [_published(path) for path in known.paths] if known else []
    return [
        Finding(
            study="",
            question=QUESTION,
            response="",
            title="Which case, when, and is the difference real?",
            statement=_statement(statistics, known),
            statistics={"studies": statistics, "published": [vars(path) for path in known.paths] if known else []},
            tables=[Table(COLUMNS, rows)],
        )
    ]


def _row(one: Choice, standing: Standing) -> list[str]:
    same = one.alike.places if one.alike else ()
    beside = next((alike for alike in same if alike.where == standing.where), None)
    return [
        phrases.capital(phrases.levels(standing.where)) or "all trials",
        str(standing.best),
        phrases.value(one.response, standing.means[standing.best]),
        _ahead(standing),
        "yes" if standing.told else "no",
        phrases.listed([str(option) for option in standing.near], 9) if standing.near else _NOTHING,
        _NOTHING if beside is None else f"{beside.best}{' (beyond noise)' if beside.told else ''}",
    ]


def _ahead(standing: Standing) -> str:
    """`1.19 (0.9 to 1.6), nbd`: over the next best."""
    second = standing.options[1]
    duel = standing.duels[second]
    shown = phrases.plain_number(duel.ratio)
    if duel.interval is not None:
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


def _statement(studies: Sequence[dict[str, Any]], known: published_results.Paths | None) -> str:
    places = [place for study in studies for place in study["places"]]
    told = [place for place in places if place["told"]]
    winners = {place["best"]: sum(one["best"] == place["best"] for one in told) for place in told}
    ahead = phrases.listed([f"{best} in {number}" for best, number in sorted(winners.items(), key=lambda p: -p[1])], 9)
    conditions = phrases.count(len(places), "condition")
    said = f"In {len(told)} of {conditions} one case is ahead of all others beyond noise: {ahead}."
    if not told:
        said = f"In none of {conditions} is one case ahead of all others beyond noise."
    beside = f" Published rows are from {known.source}: {' '.join(known.reading)}" if known else ""
    return f"{said}{beside}"
