"""The sentences and tables of the question which case is best, and when. Computes nothing: `alternatives.py` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.analysis.measurements.cells import Cells
from ioassay.analysis.optimum.alternatives import Choice, Standing
from ioassay.factors import factor_label
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.records.record import Scalar
from ioassay.stats.paired_comparison import Duel
from ioassay.stats.result import plain

QUESTION = "choice"
_FEW = 5
"""Below so many repetitions a condition's scatter is not known from itself; more responses than this are not listed."""
_MOST = 9


def finding(one: Choice, found: Cells) -> Finding:
    """One finding for one response."""
    return Finding(
        study=found.study,
        question=QUESTION,
        response=one.response,
        title=f"{phrases.name(one.response)}: which case is best, and is that real?",
        statement=" ".join(sentences(one)),
        statistics=statistics(one),
        tables=[_by_place(one), _on_average(one), *([_on_average(one.alike, alike=True)] if one.alike else [])],
        caveats=[*found.caveats(), *_caveats(one)],
    )


def sentences(one: Choice) -> list[str]:
    """On average, where, and among the cases that differ in nothing else."""
    said = [phrases.capital(averaged(one)), *where(one)]
    if one.alike is None or one.average.best in one.alike.average.options:
        return said  # the best of all is the best of these
    same = phrases.listed(_names(one.alike.average.options), _MOST)
    return [*said, f"Among {same}, which load the same target, {averaged(one.alike)}", *where(one.alike)]


def averaged(one: Choice) -> str:
    """Which option is ahead on average over all places, by how much, and of which it cannot be told."""
    standing, places = one.average, len(one.places)
    over = f"on average over {places} conditions, " if places > 1 else ""
    name = phrases.inside(one.response)
    if not standing.beaten:
        return f"{over}no best case can be told for {name}: {_alike(standing)}."
    ahead = f"{over}{name} is {'lowest (best)' if one.lower else 'highest'} with {standing.best}"
    if standing.told:
        return f"{ahead}: {_against(one, standing, standing.options[1])}."
    rivals = phrases.listed(_names(standing.near), _MOST)
    closest = standing.beaten[0]
    worse = phrases.listed(_names(standing.beaten), _MOST)
    least = "" if len(standing.beaten) == 1 else "the closest of these: "
    return (
        f"{ahead}, which cannot be told apart from {rivals}, but is ahead of {worse} "
        f"({least}{_against(one, standing, closest)})."
    )


def _against(one: Choice, standing: Standing, other: Scalar) -> str:
    """`1.9 times that with libaio; 95 % interval 1.6 to 2.3, p = 0.0002`; of times the other's over the best's."""
    duel = standing.duels[other]
    known = f"; {_interval(duel)}" if duel.interval is not None else ""
    times = phrases.times(duel.ratio)
    return f"with {other} it is {times} that{known}" if one.lower else f"{times} that with {other}{known}"


def _interval(duel: Duel) -> str:
    assert duel.interval is not None and duel.p is not None
    return f"{phrases.bounds_of(duel.interval)}, {phrases.p(duel.p)}"


def _alike(standing: Standing) -> str:
    names = phrases.listed(_names(standing.options), _MOST)
    widest = max(standing.duels.values(), key=lambda duel: duel.ratio)
    if widest.interval is None:
        return f"{names} were measured once each, so nothing says how far chance goes"
    return f"{names} are not told apart (largest ratio {phrases.plain_number(widest.ratio)}, {_interval(widest)})"


def where(one: Choice) -> list[str]:
    """In which places which option is ahead of all others beyond noise."""
    if len(one.places) < 2:
        return []
    winners: dict[Scalar, list[str]] = {}
    for standing in one.places:
        if standing.told:
            winners.setdefault(standing.best, []).append(phrases.levels(standing.where))
    if not winners:
        return [f"In none of the {len(one.places)} conditions alone is one case ahead of all others beyond noise."]
    said = [
        f"{best} in {len(places)} of {len(one.places)} conditions ({phrases.listed(places, _MOST)})"
        for best, places in winners.items()
    ]
    untold = len(one.places) - sum(map(len, winners.values()))
    rest = f"; in the other {untold} no best can be told" if untold else ""
    return [f"Ahead of all others beyond noise: {'; '.join(said)}{rest}."]


def in_brief(others: Sequence[Choice]) -> str:
    """What is best on average of several responses: those of one answer together, those without one at the end."""
    told = [f"{best} {_best_word(one)} {phrases.inside(one.response)}" for one in others if (best := _few_best(one))]
    untold = [phrases.inside(one.response) for one in others if not _few_best(one)]
    few = phrases.listed(untold, _MOST) if len(untold) <= _FEW else f"the other {len(untold)} responses"
    none = f"no best case can be told for {few}" if untold else ""
    return f"Likewise on average: {'; '.join(filter(None, (*told, none)))}."


def _best_word(one: Choice) -> str:
    return f"{'have' if one.average.near else 'has'} the {'lowest' if one.lower else 'highest'}"


def _few_best(one: Choice) -> str:
    """The best option, or two that cannot be told apart; empty for more."""
    standing = one.average
    return phrases.listed(_names([standing.best, *standing.near])) if len(standing.near) < 2 and standing.beaten else ""


def _by_place(one: Choice) -> Table:
    """A row a place."""
    names = list(one.places[0].where) if one.places else []
    columns = [*map(factor_label, names), "best mean", "value", "next", "ratio", "low", "high", "p", "not told apart"]
    rows: list[list[Any]] = []
    for standing in one.places:
        second = standing.options[1]
        rows.append(
            [
                *(standing.where.get(name) for name in names),
                *(standing.best, standing.means.get(standing.best), second, *_numbers(standing.duels[second])),
                phrases.listed(_names(standing.near), _MOST) if standing.near else "",
            ]
        )
    return Table(columns, rows, [*[""] * len(names), "", one.response, *[""] * 6])


def _on_average(one: Choice, alike: bool = False) -> Table:
    """A row for each other option: how far the best is ahead on average."""
    standing = one.average
    first = f"best on average: {standing.best}{', same target' if alike else ''}"
    rows = [[f"against {option}", *_numbers(standing.duels[option])] for option in standing.options[1:]]
    return Table([first, "ratio", "low", "high", "p"], rows)


def _numbers(duel: Duel) -> list[float | None]:
    bounds = duel.interval
    return [duel.ratio, bounds.low if bounds else None, bounds.high if bounds else None, duel.p]


def _caveats(one: Choice) -> list[str]:
    tests = (
        f"Intervals and p hold for all {phrases.count(one.pairs, 'pair')} at once (Games and Howell); in single "
        f"conditions for all {len(one.places)} of them as well (Bonferroni)."
    )
    few = (
        f"With fewer than {_FEW} repetitions of a condition its scatter is estimated over all conditions of a case, "
        "unless these visibly scatter by different shares: then its intervals are wide."
    )
    return [tests, *([few] if one.repetitions < _FEW else [])]


def statistics(one: Choice) -> dict[str, Any]:
    """The statistics under stable names."""
    return {
        "better": "lower" if one.lower else "higher",
        "repetitions": one.repetitions,
        "pairs": one.pairs,
        "average": _standing(one.average),
        "places": [_standing(standing) for standing in one.places],
        "same_target": statistics(one.alike) if one.alike else None,
    }


def _standing(standing: Standing) -> dict[str, Any]:
    return {
        "where": dict(standing.where),
        "best": standing.best,
        "told": standing.told,
        "not_told_apart": standing.near,
        "worse": standing.beaten,
        "means": {str(option): mean for option, mean in standing.means.items()},
        "best_against": {str(option): _duel(duel) for option, duel in standing.duels.items()},
    }


def _duel(duel: Duel) -> Mapping[str, Any]:
    return {"ratio": duel.ratio, "interval": plain(duel.interval), "p": duel.p}


def _names(options: Sequence[Scalar]) -> list[str]:
    return [str(option) for option in options]
