"""Which case, when: all places of all studies about a choice in one table, with published numbers beside.

Only of studies with `[analysis] lead = "choice"`. Computes nothing: `choice.py` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay import metrics
from ioassay.analysis import asked, choice, choice_told, claims, wording
from ioassay.analysis.choice import Choice, Standing
from ioassay.analysis.finding import Finding, Table
from ioassay.record import RecordSet

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


def together(records: RecordSet, findings: Sequence[Finding]) -> list[Finding]:
    """One finding where there is a study of a choice; its first response counts."""
    rows: list[list[Any]] = []
    statistics: list[dict[str, Any]] = []
    for study in filter(asked.is_about_choice, records.studies):
        one = next(iter(choice.choices(records, study)), None)
        if one is not None:
            rows += [_row(one, standing) for standing in one.places]
            statistics.append({"study": str(study["name"]), "response": one.response, **choice_told.numbers(one)})
    if not rows:
        return []
    known = claims.paths_of([str(study["name"]) for study in records.studies])
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
        wording.capital(wording.levels(standing.where)) or "all trials",
        str(standing.best),
        wording.value(one.response, standing.means[standing.best]),
        _ahead(standing),
        "yes" if standing.told else "no",
        wording.listed([str(option) for option in standing.near], 9) if standing.near else _NOTHING,
        _NOTHING if beside is None else f"{beside.best}{' (beyond noise)' if beside.told else ''}",
    ]


def _ahead(standing: Standing) -> str:
    """`1.19 (0.9 to 1.6), nbd`: over the next best."""
    second = standing.options[1]
    duel = standing.duels[second]
    shown = wording.plain_number(duel.ratio)
    if duel.interval is not None:
        shown += f" ({wording.joined(*map(wording.plain_number, (duel.interval.low, duel.interval.high)))})"
    return f"{shown}, {second}"


def _published(path: claims.Path) -> list[str]:
    latency = f", completion latency {metrics.format_metric('read.clat.mean', path.clat_mean_ns)}"
    return [
        f"Published elsewhere: {wording.levels(path.where)}",
        path.case,
        f"{wording.value('total.iops', path.iops)}{latency}",
        *[_NOTHING] * 4,
    ]


def _statement(studies: Sequence[dict[str, Any]], known: claims.Paths | None) -> str:
    places = [place for study in studies for place in study["places"]]
    told = [place for place in places if place["told"]]
    winners = {place["best"]: sum(one["best"] == place["best"] for one in told) for place in told}
    ahead = wording.listed([f"{best} in {number}" for best, number in sorted(winners.items(), key=lambda p: -p[1])], 9)
    conditions = wording.count(len(places), "condition")
    said = f"In {len(told)} of {conditions} one case is ahead of all others beyond noise: {ahead}."
    if not told:
        said = f"In none of {conditions} is one case ahead of all others beyond noise."
    beside = f" Published rows are from {known.source}: {' '.join(known.reading)}" if known else ""
    return f"{said}{beside}"
