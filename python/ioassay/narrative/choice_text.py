"""The sentences and tables of the question which case is best, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay.analysis.optimum.alternatives import Choice, Outcome
from ioassay.factors import factor_label
from ioassay.narrative import omissions, phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.records.record import Scalar
from ioassay.stats.contrasts import MARGIN, Pair

_FEW = 5
"""Below this number of repetitions a condition's own scatter is unknown; longer lists of responses are counted."""
_MOST = 9
_NEEDED = " A difference of {margin} needs {needed} per condition."
_OUTCOMES = {
    Outcome.BEST: "{over}{name} is {word} with {best}. The factor against {closest} is {ratio}{known}.",
    Outcome.SHARED: (
        "{over}{name} is {word} with {best}, but {near} may be better. {worse} {is_are} worse. "
        "The factor against {closest} is {ratio}{known}."
    ),
    Outcome.EQUIVALENT: "{over}{name} differs by at most {margin} between {names}.",
    Outcome.UNDECIDED: (
        "{over}the data do not identify a best case for {name}. "
        "The factor between {best} and {closest} is {ratio}{known}.{needed}"
    ),
    Outcome.UNREPEATED: "{over}the data do not identify a best case for {name}: {names} have one repetition each.",
}


def findings(answers: Sequence[Choice]) -> list[Finding]:
    """One finding for each response."""
    return [
        Finding(
            study=one.cells.study,
            question="choice",
            response=one.response,
            title=f"{phrases.name(one.response)}: which case is best, and is the difference real?",
            statements=sentences(one),
            statistics=one.statistics(),
            tables=[_by_place(one), _on_average(one), *([_on_average(one.alike, alike=True)] if one.alike else [])],
            caveats=[*omissions.left_out(one.cells), *_caveats(one)],
        )
        for one in answers
    ]


def sentences(one: Choice) -> list[str]:
    """On average, in each condition, and among the cases that load the same target."""
    text = [phrases.capital(_averaged(one)), *_conditions(one)]
    if one.alike is None or one.average.best in one.alike.average.options:
        return text  # the best of all is the best of these
    same = phrases.listed(_names(one.alike.average.options), _MOST)
    return [
        *text,
        f"These load the same target: {same}.",
        f"Among them, {_averaged(one.alike)}",
        *_conditions(one.alike),
    ]


def _averaged(one: Choice) -> str:
    """Which option is ahead on average over all places, and by how much."""
    standing, places = one.average, len(one.places)
    closest = standing.beaten[0] if standing.beaten else standing.options[-1]
    duel, margin = standing.duels[closest], phrases.percent(MARGIN)
    needed = "" if standing.needed is None else phrases.repetitions_needed(standing.needed)
    return _OUTCOMES[standing.outcome].format(
        over=f"on average over {places} conditions, " if places > 1 else "",
        name=phrases.inside(one.response),
        word="lowest (best)" if one.lower else "highest",
        best=standing.best,
        near=phrases.listed(_names(standing.near), _MOST),
        worse=phrases.listed(_names(standing.beaten), _MOST),
        is_are="is" if len(standing.beaten) == 1 else "are",
        names=phrases.listed(_names(standing.options), _MOST),
        margin=margin,
        needed=_NEEDED.format(margin=margin, needed=needed) if needed else "",
        closest=closest,
        ratio=phrases.plain_number(duel.estimate if isinstance(duel, Pair) else duel),
        known=f" ({phrases.bounds_of(duel.interval)}, {phrases.p(duel.p)})" if isinstance(duel, Pair) else "",
    )


def _conditions(one: Choice) -> list[str]:
    """In which places which option is certainly ahead of all others."""
    if len(one.places) < 2 or one.average.outcome == Outcome.EQUIVALENT:
        return []
    winners: dict[Scalar, list[str]] = {}
    for standing in one.places:
        if standing.outcome == Outcome.BEST:
            winners.setdefault(standing.best, []).append(phrases.levels(standing.where))
    if not winners:
        return [f"In none of the {len(one.places)} conditions alone is one case certainly ahead of all others."]
    text = [
        f"{best} is ahead of all others in {len(places)} of {len(one.places)} conditions "
        f"({phrases.listed(places, _MOST)})."
        for best, places in winners.items()
    ]
    rest = len(one.places) - sum(map(len, winners.values()))
    return [*text, *([f"In the other {rest}, the data do not identify a best case."] if rest else [])]


def in_brief(others: Sequence[Choice]) -> str:
    """What is best on average of several responses, a sentence each; those without an answer together."""
    text = [
        f"On average, {best} {'may have' if one.average.near else 'has'} the {'lowest' if one.lower else 'highest'} "
        f"{phrases.inside(one.response)}."
        for one in others
        if (best := _few_best(one))
    ]
    unclear = [phrases.inside(one.response) for one in others if not _few_best(one)]
    few = phrases.listed(unclear, _MOST) if len(unclear) <= _FEW else f"the other {len(unclear)} responses"
    return " ".join([*text, *([f"The data do not identify a best case for {few}."] if unclear else [])])


def _few_best(one: Choice) -> str:
    """The best option, or two of which either may be; empty for more."""
    standing = one.average
    few = len(standing.near) < 2 and standing.beaten
    return " or ".join(_names([standing.best, *standing.near])) if few else ""


def _by_place(one: Choice) -> Table:
    """A row a place."""
    names = list(one.places[0].where) if one.places else []
    columns = [
        *map(factor_label, names),
        "best",
        "value",
        "next",
        "ratio",
        "low",
        "high",
        "p",
        "may be best",
    ]
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
    formats = [*[""] * len(names), "", one.response, *[""] * 6]
    return Table(columns, rows, formats)


def _on_average(one: Choice, alike: bool = False) -> Table:
    """A row for each other option: how far the best is ahead on average."""
    standing = one.average
    first = f"best on average: {standing.best}{', same target' if alike else ''}"
    rows = [[f"against {option}", *_numbers(standing.duels[option])] for option in standing.options[1:]]
    return Table([first, "ratio", "low", "high", "p"], rows)


def _numbers(duel: Pair | float) -> list[float | None]:
    if not isinstance(duel, Pair):
        return [duel, None, None, None]
    return [duel.estimate, duel.interval.low, duel.interval.high, duel.p]


def _caveats(one: Choice) -> list[str]:
    tests = "Intervals and p values hold for all pairs at once."
    if len(one.places) > 1:
        tests += f" In single conditions, they hold for all {len(one.places)} of them as well (Bonferroni)."
    few = f"With fewer than {_FEW} repetitions, the scatter of a condition is taken mostly from that of all conditions."
    return [tests, *([few] if one.repetitions < _FEW else [])]


def _names(options: Sequence[Scalar]) -> list[str]:
    return [str(option) for option in options]
