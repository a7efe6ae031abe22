"""Which case is best, when, and is that real? Of one response, and of all studies of a run with published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay import metrics
from ioassay.analysis.claims import published_results
from ioassay.analysis.measurements.cells import Cells
from ioassay.analysis.optimum.alternatives import LATENCY, Choice, Outcome, Standing, StudyChoice
from ioassay.factors import CASE, factor_label, level_key
from ioassay.narrative import omissions, phrases
from ioassay.narrative.costs_text import setting_sentence
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Ratio, Response
from ioassay.records.record import Scalar
from ioassay.stats.contrasts import MARGIN, Pair
from ioassay.stats.result import mean_of

_FEW = 5
"""Below this number of repetitions a condition's own scatter is unknown; longer lists of responses are counted."""
_NOTHING = "–"
_IOPS = "total.iops"


def findings(answers: Sequence[Choice | StudyChoice]) -> list[Finding]:
    """One finding for each response; one for all studies of a run."""
    single = [one for one in answers if isinstance(one, Choice)]
    together = [one for one in answers if isinstance(one, StudyChoice)]
    return [*map(_finding, single), *([_overview(together)] if together else [])]


def _finding(one: Choice) -> Finding:
    return Finding(
        study=one.cells.study,
        question="choice",
        response=one.response,
        title=f"{phrases.name(one.response)}: which case is best, and is the difference real?",
        statements=sentences(one),
        statistics=one.statistics(),
        tables=[_by_place(one), _on_average(one), *([_on_average(one.alike, alike=True)] if one.alike else [])],
        caveats=[*omissions.left_out(one.cells), *_caveats(one)],
    )


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
    duel = standing.duels[closest]
    ratio = Ratio(duel.estimate, duel.interval) if isinstance(duel, Pair) else Ratio(duel)
    kind = "among" if alike else "on_average" if places > 1 else "here"
    known: dict[str, Any] = {
        "subject": say(f"choice.{kind}", name=name, places=places, cases=standing.options),
        "name": name,
        "best": standing.best,
        "closest": closest,
        "ratio": ratio,
        "margin": MARGIN,
        "near": standing.near,
        "cases": standing.options,
        "over": say("choice.over", places=places) if places > 1 else "",
    }
    word = "lowest" if one.lower else "highest"
    match standing.outcome:
        case Outcome.BEST:
            return [say(f"choice.{word}", **known)]
        case Outcome.SHARED:
            worse = [say("choice.worse", cases=standing.beaten)] if len(standing.beaten) > 1 else []
            return [say(f"choice.{word}_shared", **known), *worse]
        case Outcome.UNDECIDED:
            needed = standing.needed
            more = [] if needed is None else [say("choice.needed", margin=MARGIN, needed=needed)]
            return [say("choice.undecided", **known), *more]
    return [say(f"choice.{standing.outcome}", **known)]


def _conditions(one: Choice) -> list[Say]:
    """In which places which option is certainly ahead of all others."""
    of = len(one.places)
    if of < 2 or one.average.outcome == Outcome.EQUIVALENT:
        return []
    winners: dict[Scalar, list[str]] = {}
    for standing in one.places:
        if standing.outcome == Outcome.BEST:
            winners.setdefault(standing.best, []).append(phrases.levels(standing.where))
    if not winners:
        return [say("choice.none", of=of)]
    said = [
        say("choice.ahead", best=best, number=len(places), of=of, places=places) for best, places in winners.items()
    ]
    rest = of - sum(map(len, winners.values()))
    return [*said, *([say("choice.others", number=rest)] if rest else [])]


def in_brief(others: Sequence[Choice]) -> list[Say]:
    """What is best on average of several responses; those without an answer together."""
    said, unclear = [], []
    for one in others:
        standing = one.average
        if len(standing.near) < 2 and standing.beaten:
            best = " or ".join(map(str, [standing.best, *standing.near]))
            code = f"also_{'may_' if standing.near else ''}{'lowest' if one.lower else 'highest'}"
            said.append(say(f"choice.{code}", best=best, name=Response(one.response)))
        else:
            unclear.append(phrases.inside(one.response))
    few = phrases.listed(unclear, 9) if len(unclear) <= _FEW else f"the other {len(unclear)} responses"
    return [*said, *([say("choice.also_unclear", names=few)] if unclear else [])]


def _by_place(one: Choice) -> Table:
    """A row a place."""
    return Table.of(
        one.places,
        *((factor_label(name), lambda row, name=name: row.where.get(name)) for name in one.places[0].where),
        ("best", lambda row: row.best),
        ("value", lambda row: row.means.get(row.best), one.response),
        ("next", lambda row: row.options[1]),
        *_duel(lambda row: row.duels[row.options[1]]),
        ("may be best", lambda row: phrases.listed(list(map(str, row.near)), 9) if row.near else ""),
    )


def _duel(duel: Any) -> list[tuple[str, Any]]:
    """The columns of the best against another."""

    def part(name: str) -> Any:
        return lambda row: getattr(getattr(duel(row), "interval", None), name, None)

    return [
        ("ratio", lambda row: duel(row).estimate if isinstance(duel(row), Pair) else duel(row)),
        *(("low", part("low")), ("high", part("high"))),
        ("p", lambda row: getattr(duel(row), "p", None)),
    ]


def _on_average(one: Choice, alike: bool = False) -> Table:
    """A row for each other option: how far the best is ahead on average."""
    standing = one.average
    first = f"best on average: {standing.best}{', same target' if alike else ''}"
    against = (first, lambda option: f"against {option}")
    return Table.of(standing.options[1:], against, *_duel(lambda option: standing.duels[option]))


def _caveats(one: Choice) -> list[str]:
    tests = "Intervals and p values hold for all pairs at once."
    if len(one.places) > 1:
        tests += f" In single conditions, they hold for all {len(one.places)} of them as well (Bonferroni)."
    few = f"With fewer than {_FEW} repetitions, the scatter of a condition is taken mostly from that of all conditions."
    return [tests, *([few] if one.repetitions < _FEW else [])]


# All studies of a run


def _overview(answers: Sequence[StudyChoice]) -> Finding:
    """The first response of each study counts."""
    known = published_results.paths_of([one.study for one in answers])
    rows = [(one.choice, standing) for one in answers for standing in one.choice.places]
    settings = dict.fromkeys(one.setting for one in answers if one.setting is not None)
    table = Table.of(
        rows,
        ("Condition", lambda row: phrases.capital(phrases.levels(row[1].where)) or "all trials"),
        ("Best", lambda row: str(row[1].best)),
        ("Value", lambda row: phrases.value(row[0].response, row[1].means[row[1].best])),
        ("Times the next", lambda row: _ahead(row[1])),
        ("Certain", lambda row: "yes" if row[1].outcome == Outcome.BEST else "no"),
        ("May be best", lambda row: phrases.listed(list(map(str, row[1].near)), 9) if row[1].near else _NOTHING),
        ("Of those on one target", lambda row: _on_target(*row)),
    )
    numbers = [{"study": one.study, "response": one.choice.response, **one.choice.statistics()} for one in answers]
    return Finding(
        study="",
        question="choices",
        response="",
        title="Which case, when, and is the difference real?",
        statements=[
            *(_of_study(one, len(answers) > 1) for one in answers),
            _counted([standing for _, standing in rows]),
            *([say("choice.source", source=known.source, reading=" ".join(known.reading))] if known else []),
        ],
        premises=[setting_sentence(one) for one in settings],
        statistics={"studies": numbers, "published": [vars(path) for path in known.paths] if known else []},
        tables=[table, *([_published(known, answers)] if known else [])],
    )


def _of_study(one: StudyChoice, named: bool) -> Say:
    said = averaged(one.choice)[0]
    return say("choice.of_study", study=one.study, said=said) if named else said


def _counted(places: Sequence[Standing]) -> Say:
    best = [place.best for place in places if place.outcome == Outcome.BEST]
    if not best:
        return say("choice.none_of_all", of=len(places))
    winners = sorted(((best.count(case), str(case)) for case in dict.fromkeys(best)), key=lambda item: -item[0])
    cases = [say("choice.in_number", case=case, number=number) for number, case in winners]
    return say("choice.ahead_of_all", number=len(best), of=len(places), cases=cases)


def _ahead(standing: Standing) -> str:
    """`1.19 (0.9 to 1.6), nbd`: over the next best."""
    second = standing.options[1]
    duel = standing.duels[second]
    if not isinstance(duel, Pair):
        return f"{phrases.plain_number(duel)}, {second}"
    ends = phrases.joined(*map(phrases.plain_number, (duel.interval.low, duel.interval.high)))
    return f"{phrases.plain_number(duel.estimate)}{'' if duel.interval.vague else f' ({ends})'}, {second}"


def _on_target(one: Choice, standing: Standing) -> str:
    """The best of the cases that load the same target there."""
    found = next((alike for alike in one.alike.places if alike.where == standing.where), None) if one.alike else None
    return _NOTHING if found is None else f"{found.best}{' (certain)' if found.outcome == Outcome.BEST else ''}"


def _published(known: published_results.Paths, answers: Sequence[StudyChoice]) -> Table:
    """A row for each published path and, where none was named, for each condition of it here; also for those that
    were not measured here."""
    rows: list[tuple[published_results.Path, StudyChoice | None, Mapping[str, Scalar]]] = []
    for path in known.paths:
        compared = answers if path.where else answers[:1]
        found = [(path, one, point) for one in compared for point in _points(path, one)]
        rows += found or [(path, None, path.where)]
    return Table.of(
        rows,
        (
            "Published, on another machine",
            lambda row: f"{row[0].case}, {phrases.levels(row[2])}" if row[2] else row[0].case,
        ),
        ("IOPS there", lambda row: row[0].words or _shown(_IOPS, row[0].iops)),
        ("IOPS here", lambda row: _here(row[1] and row[1].choice.cells, row[0], row[2])),
        ("Mean completion latency there", lambda row: _shown(LATENCY, row[0].clat_mean_ns)),
        ("Mean completion latency here", lambda row: _here(row[1] and row[1].latency, row[0], row[2])),
        observed=True,
    )


def _shown(metric: str, value: float | None) -> str:
    if value is None:
        return _NOTHING
    return phrases.value(metric, value) if metric == _IOPS else metrics.format_metric(metric, value)


def _points(path: published_results.Path, one: StudyChoice) -> list[Mapping[str, Scalar]]:
    """The conditions of a study that were published: those of the case at these levels, and of the same factors."""
    found: list[Mapping[str, Scalar]] = []
    for cell in one.choice.cells.cells:
        others = {name: level for name, level in cell.point.items() if name != CASE}
        matches = all(level_key(name, others.get(name, "")) == level_key(name, path.where[name]) for name in path.where)
        if cell.point[CASE] == path.case and matches and (not path.where or len(others) == len(path.where)):
            found.append(others)
    return found if path.where else found[:1]


def _here(found: Cells | None, path: published_results.Path, point: Mapping[str, Scalar]) -> str:
    """The mean of our condition, where it has one."""
    cells = found.cells if found else ()
    means = [mean_of(cell.values) for cell in cells if dict(cell.point) == {CASE: path.case, **point}]
    return phrases.value(found.response, means[0]) if found and means else _NOTHING
