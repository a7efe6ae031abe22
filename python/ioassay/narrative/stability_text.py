"""Is it stable? One finding for a study: what varies, drifts or is unsteady in statements, all responses in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ioassay.analysis.stability import LONG_ENOUGH, PASS, UNSTABLE_CV, DriftOutcome, LogSampleComparison, Stability
from ioassay.narrative import finding, phrases
from ioassay.narrative.finding import Column, Finding, Table
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Place, Response, Trend
from ioassay.stats.anova import Dependence
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.factorial import Effect
from ioassay.stats.result import plain
from ioassay.stats.stationarity import MAX_RANGE, MAX_SLOPE, ROUNDS, SteadyState

CRITERION = say("stability.criterion", rounds=ROUNDS, range=MAX_RANGE, slope=MAX_SLOPE)
_FEW = 5
"""Repetitions below which a deviation and a drift are uncertain."""


def findings(answers: Sequence[Stability]) -> list[Finding]:
    """One finding for all responses of a study."""
    if not answers:
        return []
    warns = any(
        (one.variation is not None and one.variation.unstable)
        or (one.drift is not None and one.drift.notable)
        or (one.steadiness is not None and not one.steadiness.attained)
        for one in answers
    )
    return [
        Finding(
            study=answers[0].cells.study,
            question="stability",
            response="",
            title="Repetitions, drift, steady state",
            severity="warning" if warns else "info",
            statements=[*_variation(answers), *_drift(answers), *_steadiness(answers)],
            statistics={"responses": [_numbers(one) for one in answers]},
            tables=[_table(answers)],
            caveats=list(dict.fromkeys(map(str, _caveats(answers)))),
        )
    ]


def _variation(answers: Sequence[Stability]) -> Iterator[Say]:
    """Each response that varies by much, the others together."""
    stable: dict[str, float] = {}
    for one in answers:
        if one.variation is not None and (unstable := one.variation.unstable):
            of, worst = len(one.cells.cells), one.variation.worst
            facts = {"name": Response(one.response), "worst": worst.cv, "place": Place(worst.cell.point)}
            code = "stability.varies_alone" if of == 1 else "stability.varies"
            yield say(code, **facts, unstable=len(unstable), of=of, limit=UNSTABLE_CV)
        elif one.variation is not None:
            stable[one.response] = one.variation.worst.cv
    if stable:
        yield _of_all("stability.stable", list(stable), worst=max(stable.values()))


def _of_all(code: str, responses: Sequence[str], **values: Any) -> Say:
    if len(responses) == 1:
        return say(f"{code}_one", name=Response(responses[0]), **values)
    return say(code, names=[phrases.noun(response) for response in responses], **values)


def _drift(answers: Sequence[Stability]) -> Iterator[Say]:
    """Each response that drifts; the others together, by what is known of them."""
    known = [(one.response, one.drift) for one in answers if one.drift is not None]
    for response, found in known:
        if found.outcome == DriftOutcome.DRIFT:
            change, test = Trend(found.change, found.interval), found.test
            over = say("stability.over_passes", test=test, units=found.units) if found.unit == PASS else test
            yield say("stability.drift", name=Response(response), change=change, p=found.deciding_p, test=over)
    for outcome, code in ((DriftOutcome.NO_DRIFT, "no_drift"), (DriftOutcome.UNDECIDED, "drift_unknown")):
        if own := {response: found for response, found in known if found.outcome == outcome}:
            first = next(iter(own.values()))
            yield _of_all(f"stability.{code}", list(own), margin=MARGIN, change=Trend(first.change, first.interval))


def _steadiness(answers: Sequence[Stability]) -> Iterator[Say]:
    """What is not in steady state, and in how many conditions log samples say that repetitions differ."""
    for one in answers:
        name, found = Response(one.response), one.steadiness
        if found is not None and found.unsteady:
            yield say("stability.unsteady", name=name, unsteady=len(found.unsteady), of=len(found.by_repetition))
        elif found is not None and not found.attained:
            ended = found.trials - found.trials_attained
            yield say("stability.unsteady_trials", name=name, unsteady=ended, of=found.trials)
    if known := [one.samples for one in answers if one.samples is not None]:
        naive, corrected = sum(one.naive_different for one in known), sum(one.corrected_different for one in known)
        yield say("stability.naive", naive=naive, corrected=corrected, of=sum(len(one.conditions) for one in known))


def _table(answers: Sequence[Stability]) -> Table:
    """A row for each response; columns that none has are left out."""
    columns = [
        Column("response", lambda row: phrases.name(row.response)),
        _of("variation", "variation, median (%)", lambda one: phrases.in_percent(one.median_cv)),
        _of("variation", "largest (%)", lambda one: phrases.in_percent(one.worst.cv)),
        _of("variation", "at", lambda one: one.worst.cell.label),
        _of("drift", "drift (%)", lambda one: phrases.in_percent(one.change)),
        _of("drift", "from", lambda one: phrases.in_percent(one.interval.low)),
        _of("drift", "to", lambda one: phrases.in_percent(one.interval.high)),
        _of("drift", "p", lambda one: one.deciding_p),
        _of("steadiness", "steady over repetitions", lambda one: _steady_of(one.by_repetition.values())),
        _of("steadiness", "trials steady at their end", lambda one: _steady_of(trial.state for trial in one.within)),
        _of("samples", "naive: repetitions differ in", lambda one: f"{one.naive_different} of {len(one.conditions)}"),
        _of("samples", "corrected", lambda one: f"{one.corrected_different} of {len(one.conditions)}"),
        _of("samples", "log samples", lambda one: sum(found.samples for found in _dependences(one))),
        _of("samples", "worth", lambda one: round(sum(found.effective for found in _dependences(one)))),
    ]
    return Table.of(answers, *(column for column in columns if any(column.value(row) is not None for row in answers)))


def _of(part: str, title: str, value: Callable[[Any], Any]) -> Column:
    """A column about one answer, empty where a response has none."""
    return Column(title, lambda row: None if (found := getattr(row, part)) is None else value(found))


def _steady_of(states: Iterable[SteadyState]) -> str | None:
    attained = [state.attained for state in states]
    return f"{sum(attained)} of {len(attained)}" if attained else None


def _dependences(one: LogSampleComparison) -> list[Dependence]:
    return [among.dependence for among in one.conditions if isinstance(among.dependence, Dependence)]


def _numbers(one: Stability) -> dict[str, Any]:
    found: dict[str, Any] = {"response": one.response}
    if one.variation is not None:
        points = [{"point": dict(part.cell.point), **plain(part.moments)} for part in one.variation.conditions]
        found |= {"points": points, "max_cv": one.variation.worst.cv, "unstable": one.variation.unstable}
    if one.drift is not None:
        found["drift"] = {**plain(one.drift), "outcome": one.drift.outcome.value}
    if one.steadiness is not None:
        found |= {"unsteady": one.steadiness.unsteady, "trials_attained": one.steadiness.trials_attained}
        found["steadiness"] = [_condition(part, "repetitions", "trials") for part in one.steadiness.conditions]
    if one.samples is not None:
        found |= {name: getattr(one.samples, name) for name in ("naive_different", "corrected_different")}
        kinds = ("naive", "dependence", "corrected", "components", "between_share")
        found["log_samples"] = [_condition(part, *kinds) for part in one.samples.conditions]
    return found


def _condition(part: Any, *kinds: str) -> dict[str, Any]:
    return {"point": dict(part.cell.point), **{kind: plain(getattr(part, kind)) for kind in kinds}}


def _caveats(answers: Sequence[Stability]) -> Iterator[Say | str]:
    for one in answers:
        if one.variation is not None:
            yield from finding.left_out(one.cells)
            if (fewest := min(part.moments.n for part in one.variation.conditions)) < _FEW:
                yield say("stability.few_for_deviation", repetitions=fewest)
            if one.variation.passes_differ and isinstance(blocks := one.variation.blocks, Effect):
                yield say("stability.passes_differ", name=Response(one.response), p=blocks.p, share=blocks.partial_eta2)
        if one.drift is not None and one.drift.outcome == DriftOutcome.DRIFT:
            yield say("stability.drift_widens")
        elif one.drift is not None and max(cell.values.size for cell in one.cells.cells) < _FEW:
            yield say("stability.few_for_drift", few=_FEW)
    steady = [one.steadiness for one in answers if one.steadiness is not None]
    if steady:
        yield CRITERION
    if any(not one.by_repetition for one in steady):
        yield say("stability.few_for_rounds", rounds=ROUNDS)
    if trials := [trial for one in steady for trial in one.within]:
        yield say("stability.short_rounds", seconds=float(np.median([trial.round_s for trial in trials])))
    if known := [one.samples for one in answers if one.samples is not None]:
        yield phrases.NAIVE_REASON
        if (shortest := min(one.shortest for one in known)) < LONG_ENOUGH:
            yield say("stability.short_runs", shortest=shortest)
