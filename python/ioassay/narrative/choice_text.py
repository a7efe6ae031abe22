"""Which case is best, when, and is that real? Of one response, and of all studies of a run with published numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ioassay.analysis import PublishedPath, published
from ioassay.analysis.alternatives import LATENCY, Choice, Outcome, Standing, StudyChoice
from ioassay.analysis.measurements.cells import Cells
from ioassay.factors import CASE, factor_label, level_key
from ioassay.narrative import phrases
from ioassay.narrative.finding import NOTHING, Finding, Table, bounds, left_out
from ioassay.narrative.say import Ratio, Response, Say, say
from ioassay.records.record import Scalar
from ioassay.stats.contrasts import MARGIN, Pair

_FEW = 5
"""Below this number of repetitions a condition's own scatter is unknown; longer lists of responses are counted."""


def findings(answers: Sequence[Choice | StudyChoice]) -> list[Finding]:
    found = [
        Finding(
            response=one.response,
            title=str(say("choice.title", name=Response(one.response))),
            statements=sentences(one),
            statistics=one.statistics(),
            tables=[_by_place(one), _on_average(one), *([_on_average(one.alike, alike=True)] if one.alike else [])],
            caveats=[*left_out(one.cells), *([say("choice.few", few=_FEW)] if one.repetitions < _FEW else [])],
        )
        for one in answers
        if isinstance(one, Choice)
    ]
    together = [one for one in answers if isinstance(one, StudyChoice)]
    return [*found, *([_overview(together)] if together else [])]


def sentences(one: Choice) -> list[Say]:
    """On average, in each condition, and among the cases that load the same target."""
    said = [*averaged(one), *_conditions(one)]
    if one.alike is None or one.average.best in one.alike.average.options:
        return said  # the best of all is the best of these
    return [*said, *averaged(one.alike, alike=True), *_conditions(one.alike)]


def averaged(one: Choice, *, alike: bool = False) -> list[Say]:
    """Which option is ahead on average over all places, and by how much."""
    standing, places, name = one.average, len(one.places), Response(one.response)
    closest = standing.beaten[0] if standing.beaten else standing.options[-1]
    duel, shared = standing.duels[closest], standing.outcome == Outcome.SHARED
    kind = "among" if alike else "on_average" if places > 1 else "here"
    known: dict[str, Any] = {
        "subject": say(f"choice.{kind}", name=name, places=places, cases=standing.options),
        "name": name,
        "best": standing.best,
        "closest": closest,
        "ratio": Ratio(duel.estimate, duel.interval) if isinstance(duel, Pair) else Ratio(duel),
        "margin": MARGIN,
        "near": standing.near,
        "cases": standing.options,
        "reason": standing.undefined,
        "over": say("choice.over", places=places) if places > 1 else "",
    }
    code = f"{'lowest' if one.lower else 'highest'}{'_shared' if shared else ''}"
    said = [say(f"choice.{code if shared or standing.outcome == Outcome.BEST else standing.outcome}", **known)]
    if shared and len(standing.beaten) > 1:
        said.append(say("choice.worse", cases=standing.beaten))
    if standing.outcome == Outcome.UNDECIDED and standing.needed is not None:
        said.append(say("choice.needed", margin=MARGIN, needed=standing.needed))
    return said


def _conditions(one: Choice) -> list[Say]:
    """In which places which option is certainly ahead of all others."""
    of = len(one.places)
    if of < 2 or one.average.outcome == Outcome.EQUIVALENT:
        return []
    winners: dict[Scalar, list[str]] = {}
    for standing in one.places:
        if standing.outcome == Outcome.BEST:
            winners.setdefault(standing.best, []).append(phrases.levels(standing.where))
    said = [
        say("choice.ahead", best=best, number=len(places), of=of, places=places) for best, places in winners.items()
    ]
    rest = of - sum(map(len, winners.values()))
    return [*said, *([say("choice.others", number=rest)] if rest else [])] if said else [say("choice.none", of=of)]


def in_brief(others: Sequence[Choice]) -> list[Say]:
    """What is best on average of several responses; those without an answer together."""
    said, unclear = [], []
    for one in others:
        standing = one.average
        if len(standing.near) < 2 and standing.beaten:
            has, word = "may have" if standing.near else "has", "lowest" if one.lower else "highest"
            best = " or ".join(map(str, [standing.best, *standing.near]))
            said.append(say("choice.also", best=best, has=has, word=word, name=Response(one.response)))
        else:
            unclear.append(phrases.inside(one.response))
    few = phrases.listed(unclear, 9) if len(unclear) <= _FEW else f"the other {len(unclear)} responses"
    return [*said, *([say("choice.also_unclear", names=few)] if unclear else [])]


def _by_place(one: Choice) -> Table:
    return Table.of(
        one.places,
        *((factor_label(name), lambda row, name=name: row.where.get(name)) for name in one.places[0].where),
        ("best", lambda row: row.best),
        ("value", lambda row: row.means.get(row.best), one.response),
        ("next", lambda row: row.options[1]),
        *_duel(lambda row: row.duels[row.options[1]]),
        ("may be best", _near),
    )


def _near(standing: Standing) -> str:
    return phrases.listed(list(map(str, standing.near)), 9) if standing.near else ""


def _duel(duel: Callable[[Any], Pair | float]) -> list[Any]:
    return [
        ("ratio", lambda row: getattr(duel(row), "estimate", duel(row))),
        *bounds(lambda row: getattr(duel(row), "interval", None)),
        ("p", lambda row: getattr(duel(row), "p", None)),
    ]


def _on_average(one: Choice, alike: bool = False) -> Table:
    standing = one.average
    first = f"best on average: {standing.best}{', same target' if alike else ''}"
    against = (first, lambda option: f"against {option}")
    return Table.of(standing.options[1:], against, *_duel(lambda option: standing.duels[option]))


# All studies of a run


def _overview(answers: Sequence[StudyChoice]) -> Finding:
    known = published("path", *(one.study for one in answers))
    paths = known["path"] if known else []
    rows = [(one.choice, standing) for one in answers for standing in one.choice.places]
    premises = dict.fromkeys(one.premise for one in answers if one.premise is not None)

    def ahead(row: tuple[Choice, Standing]) -> str:
        """`1.19 (0.9 to 1.6), nbd`: over the next best."""
        duel = row[1].duels[second := row[1].options[1]]
        if not isinstance(duel, Pair):
            return f"{phrases.plain_number(duel)}, {second}"
        ends = phrases.joined(*map(phrases.plain_number, (duel.interval.low, duel.interval.high)))
        return f"{phrases.plain_number(duel.estimate)}{'' if duel.interval.vague else f' ({ends})'}, {second}"

    def on_target(row: tuple[Choice, Standing]) -> str:
        """The best of the cases that load the same target there."""
        places = row[0].alike.places if row[0].alike else ()
        best = [alike for alike in places if alike.where == row[1].where]
        return f"{best[0].best}{' (certain)' if best[0].outcome == Outcome.BEST else ''}" if best else NOTHING

    table = Table.of(
        rows,
        ("Condition", lambda row: phrases.capital(phrases.levels(row[1].where)) or "all trials"),
        ("Best", lambda row: str(row[1].best)),
        ("Value", lambda row: phrases.value(row[0].response, row[1].means[row[1].best])),
        ("Times the next", ahead),
        ("Certain", lambda row: "yes" if row[1].outcome == Outcome.BEST else "no"),
        ("May be best", lambda row: _near(row[1]) or NOTHING),
        ("Of those on one target", on_target),
    )
    said = [averaged(one.choice)[0] for one in answers]
    if len(answers) > 1:
        said = [say("choice.of_study", study=one.study, said=text) for one, text in zip(answers, said, strict=True)]
    best = Counter(str(place.best) for _, place in rows if place.outcome == Outcome.BEST)
    cases = [say("choice.in_number", case=case, number=number) for case, number in best.most_common()]
    won = say("choice.ahead_of_all" if best else "choice.none_of_all", number=best.total(), of=len(rows), cases=cases)
    numbers = [{"study": one.study, "response": one.choice.response, **one.choice.statistics()} for one in answers]
    return Finding(
        title=str(say("choice.title_all")),
        statements=[
            *said,
            *([won] if len(rows) > 1 else []),  # of one condition that is said
            *([say("choice.source", source=known["source"], reading=" ".join(known["reading"]))] if known else []),
        ],
        premises=[say(code) for code in premises],
        statistics={"studies": numbers, "published": paths},
        tables=[table, *([_published(paths, answers)] if paths else [])],
    )


def _published(paths: Sequence[PublishedPath], answers: Sequence[StudyChoice]) -> Table:
    """A row for each published path and, where none was named, for each condition of it here; also for those that
    were not measured here."""
    rows: list[tuple[PublishedPath, StudyChoice | None, Mapping[str, Scalar]]] = []
    for path in paths:
        levels, where = path["where"], {CASE: path["case"], **path["where"]}
        here = [
            (one, cell)
            for one in answers
            for cell in one.choice.cells.cells
            if cell.point[CASE] == path["case"]
            and (not levels or cell.point.keys() == where.keys())
            and all(level_key(name, cell.point[name]) == level_key(name, level) for name, level in levels.items())
        ]
        found = here if levels else here[:1]
        rows += [(path, one, cell.point) for one, cell in found] or [(path, None, where)]

    def name(row: tuple[PublishedPath, StudyChoice | None, Mapping[str, Scalar]]) -> str:
        others = {factor: level for factor, level in row[2].items() if factor != CASE}
        return ", ".join([row[0]["case"], *([phrases.levels(others)] if others else [])])

    return Table.of(
        rows,
        ("Published, on another machine", name),
        ("IOPS there", lambda row: row[0].get("words") or _shown("total.iops", row[0].get("iops"))),
        ("IOPS here", lambda row: _here(row[1] and row[1].choice.cells, row[2])),
        ("Mean completion latency there", lambda row: _shown(LATENCY, row[0].get("clat_mean_ns"))),
        ("Mean completion latency here", lambda row: _here(row[1] and row[1].latency, row[2])),
        observed=True,
    )


def _shown(metric: str, value: float | None) -> str:
    return NOTHING if value is None else phrases.value(metric, value)


def _here(found: Cells | None, point: Mapping[str, Scalar]) -> str:
    means = [cell.mean for cell in found.cells if cell.point == point] if found else []
    return _shown(found.response if found else "", means[0] if means else None)
