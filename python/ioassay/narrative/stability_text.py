"""Is it stable? One finding for a study: what varies, drifts or is unsteady in statements, all responses in a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ioassay.analysis.stability import drift
from ioassay.analysis.stability.drift import PASS, RunDrift
from ioassay.analysis.stability.naive_anova import LONG_ENOUGH, LogSampleComparison
from ioassay.analysis.stability.repetition_variance import UNSTABLE_CV, Variation
from ioassay.analysis.stability.stability import Answer
from ioassay.analysis.stability.steadiness import Outcome, Steadiness
from ioassay.narrative import omissions, phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Place, Response
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.dependence import Dependence
from ioassay.stats.factorial import Effect
from ioassay.stats.result import plain
from ioassay.stats.steady_state import MAX_RANGE, MAX_SLOPE, ROUNDS

FEW_FOR_DEVIATION = "A standard deviation over {repetitions} is uncertain by a factor of about two or more."
PASSES_DIFFER = (
    "{name}: whole passes over the conditions differ ({p}) and account for {share} of the unexplained variation. "
    "Something else changed between passes; it affects all conditions alike and widens their intervals."
)
DRIFT_WIDENS = "Conditions ran in shuffled blocks, so a drift affects all of them alike. It widens every interval."
FEW_FOR_DRIFT = "With fewer than 5 repetitions, only a strong drift is detectable."
CRITERION = say("stability.criterion", rounds=ROUNDS, range=MAX_RANGE, slope=MAX_SLOPE)
FEW_FOR_ROUNDS = f"Fewer than {ROUNDS} repetitions: steady state over repetitions is not judged."
SHORT_ROUNDS = (
    "Rounds within a trial last {seconds} s here. SNIA's last a minute, after the drive was filled twice. "
    "A short trial that seems steady may still be served by a cache that fills up later."
)
SHORT_RUNS = "Runs have as few as {shortest} samples, which hides part of their dependence. The correction is too weak."


@dataclass
class _Row:
    """All that is known of one response."""

    response: str
    variation: Variation | None = None
    drift: RunDrift | None = None
    steadiness: Steadiness | None = None
    samples: LogSampleComparison | None = None
    caveats: list[str] = field(default_factory=list)


def findings(answers: Sequence[Answer]) -> list[Finding]:
    """One finding for all responses of a study."""
    rows: dict[str, _Row] = {}
    for answer in answers:
        row = rows.setdefault(answer.cells.response, _Row(answer.cells.response))
        name = {Variation: "variation", RunDrift: "drift", Steadiness: "steadiness", LogSampleComparison: "samples"}
        setattr(row, name[type(answer)], answer)
    return [_finding(answers[0].cells.study, list(rows.values()))] if rows else []


def _finding(study: str, rows: Sequence[_Row]) -> Finding:
    warns = any(
        (row.variation is not None and row.variation.unstable)
        or (row.drift is not None and row.drift.notable)
        or (row.steadiness is not None and row.steadiness.outcome == Outcome.UNSTEADY)
        for row in rows
    )
    return Finding(
        study=study,
        question="stability",
        response="",
        title="Repetitions, drift, steady state",
        severity="warning" if warns else "info",
        statements=[*_variation(rows), *_drift(rows), *_steady(rows), *_samples(rows)],
        statistics={"responses": [_numbers(row) for row in rows]},
        tables=[_table(rows)],
        caveats=list(dict.fromkeys(_caveats(rows))),
    )


def _variation(rows: Sequence[_Row]) -> Iterator[Say]:
    """Each response that varies by much, the others together."""
    known = [row.variation for row in rows if row.variation is not None]
    for one in known:
        if one.unstable:
            alone = len(one.cells.cells) == 1
            yield say(
                "stability.varies_alone" if alone else "stability.varies",
                name=Response(one.cells.response),
                worst=one.worst.cv,
                place=Place(dict(one.worst.cell.point)),
                unstable=len(one.unstable),
                of=len(one.cells.cells),
                limit=UNSTABLE_CV,
            )
    stable = [one for one in known if not one.unstable]
    if stable:
        yield _of_names("stability.stable", stable, worst=max(one.worst.cv for one in stable))


def _of_names(code: str, answers: Sequence[Variation | RunDrift], **values: Any) -> Say:
    """What holds for several responses: of one by its name."""
    names = [answer.cells.response for answer in answers]
    if len(names) == 1:
        return say(f"{code}_one", name=Response(names[0]), **values)
    nouns = list(map(phrases.noun, names))
    return say(code, names=[phrases.capital(nouns[0]), *nouns[1:]] if code == "stability.stable" else nouns, **values)


def _drift(rows: Sequence[_Row]) -> Iterator[Say]:
    """Each response that drifts; the others together, by what is known of them."""
    known = [row.drift for row in rows if row.drift is not None]
    for one in known:
        if one.outcome == drift.Outcome.DRIFT:
            measured, test = one.drift, one.test.value
            bounds = (measured.interval.low, measured.interval.high, measured.interval.confidence)
            change = phrases.change(measured.change, *bounds)
            over = f"{test} over {measured.units} passes" if measured.unit == PASS else test
            yield say("stability.drift", name=Response(one.cells.response), change=change, p=one.p, test=over)
    for outcome, code in ((drift.Outcome.NO_DRIFT, "no_drift"), (drift.Outcome.UNDECIDED, "drift_unknown")):
        if own := [one for one in known if one.outcome == outcome]:
            yield _of_names(f"stability.{code}", own, margin=MARGIN, change=_trend(own[0]))


def _trend(one: RunDrift) -> str:
    bounds = one.drift.interval
    shown = phrases.signed_bounds(bounds.low, bounds.high, bounds.confidence)
    return f"{phrases.points(one.drift.change, sign=True)} %, {shown}"


def _steady(rows: Sequence[_Row]) -> Iterator[Say]:
    """What is not in steady state."""
    for one in [row.steadiness for row in rows if row.steadiness is not None]:
        name = Response(one.cells.response)
        if one.unsteady:
            yield say("stability.unsteady", name=name, unsteady=len(one.unsteady), of=len(one.by_repetition))
        if one.trials and one.outcome == Outcome.UNSTEADY and not one.unsteady:
            yield say("stability.unsteady_trials", name=name, unsteady=one.trials - one.trials_attained, of=one.trials)


def _samples(rows: Sequence[_Row]) -> Iterator[Say]:
    known = [row.samples for row in rows if row.samples is not None]
    if known:
        naive, corrected = sum(one.naive_different for one in known), sum(one.corrected_different for one in known)
        of = sum(len(one.conditions) for one in known)
        yield say("stability.naive", naive=naive, corrected=corrected, of=of)


def _table(rows: Sequence[_Row]) -> Table:
    """A row for each response; columns that none has are left out."""
    columns: list[tuple[str, Any]] = [
        ("response", lambda row: phrases.name(row.response)),
        ("variation, median (%)", lambda row: row.variation and phrases.in_percent(row.variation.median_cv)),
        ("largest (%)", lambda row: row.variation and phrases.in_percent(row.variation.worst.cv)),
        ("at", lambda row: row.variation and row.variation.worst.cell.label),
        ("drift (%)", lambda row: row.drift and phrases.in_percent(row.drift.drift.change)),
        ("from", lambda row: row.drift and phrases.in_percent(row.drift.drift.interval.low)),
        ("to", lambda row: row.drift and phrases.in_percent(row.drift.drift.interval.high)),
        ("p", lambda row: row.drift and row.drift.p),
        ("steady over repetitions", lambda row: row.steadiness and _conditions(row.steadiness)),
        ("trials steady at their end", lambda row: row.steadiness and _trials(row.steadiness)),
        ("naive: repetitions differ in", lambda row: row.samples and _different(row.samples, "naive_different")),
        ("corrected", lambda row: row.samples and _different(row.samples, "corrected_different")),
        ("log samples", lambda row: row.samples and sum(one.samples for one in _dependences(row.samples))),
        ("worth", lambda row: row.samples and round(sum(one.effective for one in _dependences(row.samples)))),
    ]
    return Table.of(rows, *(column for column in columns if any(column[1](row) is not None for row in rows)))


def _conditions(one: Steadiness) -> str | None:
    judged = len(one.by_repetition)
    return f"{judged - len(one.unsteady)} of {judged}" if judged else None


def _trials(one: Steadiness) -> str | None:
    return f"{one.trials_attained} of {one.trials}" if one.trials else None


def _different(one: LogSampleComparison, name: str) -> str:
    return f"{getattr(one, name)} of {len(one.conditions)}"


def _dependences(one: LogSampleComparison) -> list[Dependence]:
    return [among.dependence for among in one.conditions if isinstance(among.dependence, Dependence)]


def _numbers(row: _Row) -> dict[str, Any]:
    found: dict[str, Any] = {"response": row.response}
    if row.variation is not None:
        points = [{"point": dict(part.cell.point), **plain(part.moments)} for part in row.variation.conditions]
        found |= {"points": points, "max_cv": row.variation.worst.cv, "unstable": row.variation.unstable}
    if row.drift is not None:
        found["drift"] = {**plain(row.drift.drift), "outcome": row.drift.outcome.value}
    if row.steadiness is not None:
        found |= {"unsteady": row.steadiness.unsteady, "trials_attained": row.steadiness.trials_attained}
        found["steadiness"] = [
            {"point": dict(one.cell.point), "repetitions": plain(one.repetitions), "trials": plain(one.trials)}
            for one in row.steadiness.conditions
        ]
    if row.samples is not None:
        found |= {name: getattr(row.samples, name) for name in ("naive_different", "corrected_different")}
        kinds = ("naive", "dependence", "corrected", "components", "between_share")
        found["log_samples"] = [
            {"point": dict(one.cell.point), **{kind: plain(getattr(one, kind)) for kind in kinds}}
            for one in row.samples.conditions
        ]
    return found


def _caveats(rows: Sequence[_Row]) -> Iterable[str]:
    for row in rows:
        yield from _of_variation(row.variation) if row.variation is not None else ()
        if row.drift is not None:
            few = max(cell.values.size for cell in row.drift.cells.cells) < 5
            yield from [DRIFT_WIDENS] if row.drift.outcome == drift.Outcome.DRIFT else [FEW_FOR_DRIFT] if few else []
    steady = [row.steadiness for row in rows if row.steadiness is not None]
    if steady:
        yield str(CRITERION)
    if any(not one.by_repetition for one in steady):
        yield FEW_FOR_ROUNDS
    trials = [trial for one in steady for condition in one.conditions for trial in condition.trials.values()]
    if trials:
        yield SHORT_ROUNDS.format(seconds=f"{float(np.median([trial.round_s for trial in trials])):.2g}")
    if known := [row.samples for row in rows if row.samples is not None]:
        yield phrases.NAIVE_REASON
        if min(one.shortest for one in known) < LONG_ENOUGH:
            yield SHORT_RUNS.format(shortest=min(one.shortest for one in known))


def _of_variation(one: Variation) -> Iterable[str]:
    yield from omissions.left_out(one.cells)
    fewest = min(part.moments.n for part in one.conditions)
    if fewest < 5:
        yield FEW_FOR_DEVIATION.format(repetitions=phrases.count(fewest, "repetition"))
    if one.passes_differ and isinstance(one.blocks, Effect):
        name, share = phrases.name(one.cells.response), phrases.percent(one.blocks.partial_eta2)
        yield PASSES_DIFFER.format(name=name, p=phrases.p(one.blocks.p), share=share)
