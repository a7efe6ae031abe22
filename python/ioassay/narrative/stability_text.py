"""Is it stable, and what threatens the results? What varies, drifts or is unsteady, and each threat with its remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import Any

from ioassay.analysis.stability import LONG_ENOUGH, PASS, UNSTABLE_CV, DriftOutcome, LogSampleComparison, Stability
from ioassay.analysis.threats import Code, Threat
from ioassay.factors import factor_label
from ioassay.narrative import phrases
from ioassay.narrative.finding import Column, Finding, Table, left_out
from ioassay.narrative.say import Level, Place, Quantity, Response, Say, Trend, say, templates
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.linear_models import Dependence, Effect
from ioassay.stats.result import Interval, plain
from ioassay.stats.sample import MAX_RANGE, MAX_SLOPE, ROUNDS, SteadyState

CRITERION = say("stability.criterion", rounds=ROUNDS, range=MAX_RANGE, slope=MAX_SLOPE)
_FEW = 5
"""Repetitions below which a deviation and a drift are uncertain."""


def findings(answers: Sequence[Stability]) -> list[Finding]:
    warns = any(
        (one.variation is not None and one.variation.unstable)
        or (one.drift is not None and one.drift.notable)
        or (one.steadiness is not None and not one.steadiness.attained)
        for one in answers
    )
    found = Finding(
        title=str(say("stability.title")),
        severity="warning" if warns else "info",
        statements=[*_variation(answers), *_drift(answers), *_steadiness(answers)],
        statistics={"responses": [_numbers(one) for one in answers]},
        tables=[_table(answers)],
        caveats=_caveats(answers),
    )
    return [found] if answers else []


def _variation(answers: Sequence[Stability]) -> Iterator[Say]:
    """Each response that varies by much, the others together."""
    stable: dict[str, float] = {}
    for one in answers:
        if one.variation is not None and (unstable := one.variation.unstable):
            of, worst = len(one.cells.cells), max(one.variation.cvs)
            facts = {"name": Response(one.cells.response), "worst": worst, "place": Place(one.variation.worst.point)}
            code = "stability.varies_alone" if of == 1 else "stability.varies"
            yield say(code, **facts, unstable=len(unstable), of=of, limit=UNSTABLE_CV)
        elif one.variation is not None:
            stable[one.cells.response] = max(one.variation.cvs)
    if stable:
        yield _of_all("stability.stable", list(stable), worst=max(stable.values()))


def _of_all(code: str, responses: Sequence[str], **values: Any) -> Say:
    if len(responses) == 1:
        return say(f"{code}_one", name=Response(responses[0]), **values)
    return say(code, names=[phrases.noun(response) for response in responses], **values)


def _drift(answers: Sequence[Stability]) -> Iterator[Say]:
    """Each response that drifts; the others together, by what is known of them."""
    known = [(one.cells.response, one.drift) for one in answers if one.drift is not None]
    for response, found in known:
        if found.outcome == DriftOutcome.DRIFT:
            unit = "pass" if found.unit == PASS else "trial"
            test = say(f"stability.{'t' if found.rank_p is None else unit}_test")
            over = say("stability.over_passes", test=test, units=found.units) if found.unit == PASS else test
            change = Trend(found.change, found.interval)
            yield say("stability.drift", name=Response(response), change=change, p=found.deciding_p, test=over)
    for outcome, code in ((DriftOutcome.NO_DRIFT, "no_drift"), (DriftOutcome.UNDECIDED, "drift_unknown")):
        if own := {response: found for response, found in known if found.outcome == outcome}:
            first = next(iter(own.values()))
            yield _of_all(f"stability.{code}", list(own), margin=MARGIN, change=Trend(first.change, first.interval))


def _steadiness(answers: Sequence[Stability]) -> Iterator[Say]:
    """What is not in steady state, and in how many conditions log samples say that repetitions differ."""
    for one in answers:
        name, found = Response(one.cells.response), one.steadiness
        if found is not None and found.unsteady:
            yield say("stability.unsteady", name=name, unsteady=len(found.unsteady), of=len(found.by_repetition))
        elif found is not None and not found.attained:
            ended, of = len(found.within) - found.trials_attained, len(found.within)
            yield say("stability.unsteady_trials", name=name, unsteady=ended, of=of)
    if known := [one.samples for one in answers if one.samples is not None]:
        naive, corrected = sum(one.naive_different for one in known), sum(one.corrected_different for one in known)
        yield say("stability.naive", naive=naive, corrected=corrected, of=sum(len(one.conditions) for one in known))


def _table(answers: Sequence[Stability]) -> Table:
    """A row for each response; columns that none has are left out."""

    def of(part: str, value: Callable[[Any], Any]) -> Callable[[Stability], Any]:
        """What a column has of a part of each answer."""
        return lambda row: None if (found := getattr(row, part)) is None else value(found)

    columns = [
        Column("variation, median (%)", of("variation", lambda one: phrases.in_percent(median(one.cvs)))),
        Column("largest (%)", of("variation", lambda one: phrases.in_percent(max(one.cvs)))),
        Column("at", of("variation", lambda one: one.worst.label)),
        Column("drift (%)", of("drift", lambda one: phrases.in_percent(one.change))),
        Column("from", of("drift", lambda one: phrases.in_percent(one.interval.low))),
        Column("to", of("drift", lambda one: phrases.in_percent(one.interval.high))),
        Column("p", of("drift", lambda one: one.deciding_p)),
        Column("steady over repetitions", of("steadiness", lambda one: _steady_of(one.by_repetition.values()))),
        Column(
            "trials steady at their end", of("steadiness", lambda one: _steady_of(trial.state for trial in one.within))
        ),
        Column(
            "naive: repetitions differ in", of("samples", lambda one: f"{one.naive_different} of {len(one.conditions)}")
        ),
        Column("corrected", of("samples", lambda one: f"{one.corrected_different} of {len(one.conditions)}")),
        Column("log samples", of("samples", lambda one: sum(found.samples for found in _dependences(one)))),
        Column("worth", of("samples", lambda one: round(sum(found.effective for found in _dependences(one))))),
    ]
    filled = [column for column in columns if any(column.value(row) is not None for row in answers)]
    return Table.of(answers, ("response", lambda row: phrases.name(row.cells.response)), *filled)


def _steady_of(states: Iterable[SteadyState]) -> str | None:
    attained = [state.attained for state in states]
    return f"{sum(attained)} of {len(attained)}" if attained else None


def _dependences(one: LogSampleComparison) -> list[Dependence]:
    return [among.dependence for among in one.conditions if isinstance(among.dependence, Dependence)]


def _numbers(one: Stability) -> dict[str, Any]:
    found: dict[str, Any] = {"response": one.cells.response}
    if one.variation is not None:
        points = [{"point": dict(cell.point), **plain(moments)} for cell, moments in one.variation.conditions]
        found |= {"points": points, "max_cv": max(one.variation.cvs), "unstable": [*one.variation.unstable]}
    if one.drift is not None:
        found["drift"] = {**plain(one.drift), "outcome": one.drift.outcome.value}
    if one.steadiness is not None:
        found |= {"unsteady": one.steadiness.unsteady, "trials_attained": one.steadiness.trials_attained}
        found["steadiness"] = [_condition(part, "repetitions", "trials") for part in one.steadiness.conditions]
    if one.samples is not None:
        found |= {name: getattr(one.samples, name) for name in ("naive_different", "corrected_different")}
        kinds = ("naive", "dependence", "corrected")
        found["log_samples"] = [_condition(part, *kinds) for part in one.samples.conditions]
    return found


def _condition(part: Any, *kinds: str) -> dict[str, Any]:
    return {"point": dict(part.cell.point), **{kind: plain(getattr(part, kind)) for kind in kinds}}


def _caveats(answers: Sequence[Stability]) -> Iterator[Say]:
    for one in answers:
        if one.variation is not None:
            yield from left_out(one.cells)
            if (fewest := min(moments.n for _, moments in one.variation.conditions)) < _FEW:
                yield say("stability.few_for_deviation", repetitions=fewest)
            blocks = one.variation.blocks
            if isinstance(blocks, Effect) and blocks.p < 1 - one.variation.confidence:
                yield say(
                    "stability.passes_differ", name=Response(one.cells.response), p=blocks.p, share=blocks.partial_eta2
                )
        if one.drift is not None and one.drift.outcome == DriftOutcome.DRIFT:
            yield say("stability.drift_widens")
        elif one.drift is not None and max(cell.values.size for cell in one.cells.cells) < _FEW:
            yield say("stability.few_for_drift", few=_FEW)
    if steady := [one.steadiness for one in answers if one.steadiness is not None]:
        yield CRITERION
    if any(not one.by_repetition for one in steady):
        yield say("stability.few_for_rounds", rounds=ROUNDS)
    if trials := [trial for one in steady for trial in one.within]:
        yield say("stability.short_rounds", seconds=median(trial.round_s for trial in trials))
    if known := [one.samples for one in answers if one.samples is not None]:
        yield say("stability.naive_reason")
        if (shortest := min(one.shortest for one in known)) < LONG_ENOUGH:
            yield say("stability.short_runs", shortest=shortest)


# Threats to validity


def different_work(factors: Sequence[str]) -> Say:
    """What bogo operations of different work mean for a comparison."""
    return say("threats.different-work", factors=[factor_label(name) for name in factors])


def threat_finding(threat: Threat) -> Finding:
    said = list(_statements(threat))
    if hosts := threat.evidence.get("hosts"):
        said[0] = say("threats.on_hosts", hosts=hosts, text=said[0])
    has_remedy = f"next_{threat.code}" in templates("threats")
    return Finding(
        response=threat.response,
        title=str(_say(threat, "title_{}")),
        statements=said,
        premises=said if threat.evidence.get("everywhere") else [],  # the numbers are of something else than was asked
        statistics={"code": threat.code, **plain(threat.evidence)},
        caveats=[say("threats.next", step=_say(threat, "next_{}"))] if has_remedy else [],
        severity=threat.severity,
    )


def _say(threat: Threat, name: str = "{}", **values: Any) -> Say:
    """A sentence of the threat, filled from its evidence; `values` are typed, in place of it or in addition."""
    return say(
        f"threats.{name.format(threat.code)}", **{**threat.evidence, "response": Response(threat.response)} | values
    )


_SIZES: dict[Code, Callable[[Any], dict[str, float]]] = {
    Code.TWO_MODES: lambda seen: {name: one["ratio"] for name, one in seen["modes"].items()},
    Code.UNSTABLE: lambda seen: {name: max(over.values()) for name, over in seen["cv"].items()},
    Code.DRIFT: lambda seen: {name: abs(one["change"]) for name, one in seen.items()},
    Code.UNSTEADY: lambda seen: {name: len(one["conditions"]) for name, one in seen.items()},
}
"""Threats to several responses: how bad each is. Of the worst the sentence has numbers, the others are listed."""
_FORMS: dict[Code, tuple[str, Callable[[Any], Any]]] = {
    Code.FEW_REPETITIONS: ("one", lambda seen: seen["fewest"] < 2),
    Code.IN_MEMORY: ("part", lambda seen: seen["trials"] < seen["of"]),
    Code.SHORT: ("target", lambda seen: seen["target"]),
}
"""Threats with a second form of their sentence, and when it is that one."""


def _statements(threat: Threat) -> Iterator[Say]:
    """What the evidence says; of most threats the sentence of their code."""
    seen, form = threat.evidence, _FORMS.get(threat.code)
    sizes = _SIZES[threat.code](seen) if threat.code in _SIZES else {}
    most = max(sizes, key=lambda name: sizes[name], default="")
    match threat.code:
        case Code.FAILED | Code.SKIPPED:
            reasons = seen["reasons"].items()
            codes = [(f"threats.reason{'' if reason else '_unknown'}", number, reason) for reason, number in reasons]
            yield _say(threat, reasons=[say(code, number=number, reason=reason) for code, number, reason in codes])
        case Code.TWO_MODES:
            if one := seen["modes"].get(most):
                yield say("threats.two-modes", name=Response(most), **one)
                yield say(f"threats.two-modes_{'' if one['carries'] else 'not_'}compared", **one)
            for name, within in [*seen["inside"].items()][:1]:
                yield say("threats.two-modes_inside", name=Response(name), **within)
        case Code.UNSTABLE:
            over = seen["cv"][most]
            yield say("threats.unstable", name=Response(most), cv=sizes[most], where=max(over, key=over.get))
        case Code.DRIFT:
            change = Trend(seen[most]["change"], Interval(**seen[most]["interval"]))
            yield say("threats.drift", name=Response(most), change=change)
        case Code.UNSTEADY:
            one = seen[most]
            places = {
                "over_repetitions": (len(one["conditions"]), one["conditions_judged"]),
                "over_own_time": (one["trials"] - one["trials_attained"], one["trials"]),
            }
            where = [say(f"threats.{code}", unsteady=number, of=of) for code, (number, of) in places.items() if number]
            yield say("threats.unsteady", name=Response(most), where=where)
        case Code.SATURATION:
            level = Level(seen["factor"], seen["from"])
            values = {"response": Response(threat.response), "margin": seen["margin"], "level": level}
            yield Say("threats.saturation", values, seen["where"])
        case Code.DIFFERENT_WORK:
            yield different_work(seen["factors"])
        case Code.LATE_ANSWERS:
            mean, *late = [Quantity("drive.late.p50", seen[f"{name}_ns"]) for name in ("mean", "late_p50", "late_p99")]
            yield _say(threat, mean=mean, late=late[0], tail=late[1])
        case Code.VIRTUAL:
            yield _say(threat, kinds=[seen[name] for name in ("vm", "container") if seen.get(name)])
            if seen.get("emulated"):
                yield say("threats.emulated")
            yield say("threats.shared_target" if seen["target"] else "threats.shared_processors")
        case Code.SEQUENTIAL_STOPPING:
            yield _say(threat, metric=Response(seen["metric"]))
        case _:
            yield _say(threat, f"{{}}_{form[0]}" if form and form[1](seen) else "{}")
    if others := [phrases.noun(name) for name in sizes if name != most]:
        yield say(f"threats.{threat.code}_others", names=others, limit=seen.get("limit"))
    if threat.code == Code.UNSTEADY:
        yield CRITERION
