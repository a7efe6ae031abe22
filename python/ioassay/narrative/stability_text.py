"""Sentences about stability: variation between repetitions, drift over the run, steady state, log samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ioassay.analysis.measurements.cells import Cells
from ioassay.analysis.stability import drift
from ioassay.analysis.stability.drift import PASS, RunDrift
from ioassay.analysis.stability.naive_anova import LONG_ENOUGH, Among, LogSampleComparison
from ioassay.analysis.stability.repetition_variance import UNSTABLE_CV, Stability, Variation
from ioassay.analysis.stability.stability import Answer
from ioassay.analysis.stability.steadiness import Judged, Outcome, Steadiness
from ioassay.narrative import omissions, phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.dependence import Components, Corrected, Dependence
from ioassay.stats.factorial import Effect
from ioassay.stats.result import plain
from ioassay.stats.steady_state import MAX_RANGE, MAX_SLOPE, ROUNDS, SteadyState

VARIATION = "The coefficient of variation over repetitions is {worst}."
VARIATIONS = (
    "The median coefficient of variation over repetitions is {typical}; the largest is {worst}, at {condition}."
)
STABILITY = {
    Stability.STABLE: "No condition exceeds {limit}, so the response counts as stable.",
    Stability.UNSTABLE: "{conditions} {exceed} {limit} and {count} as unstable.",
}
FEW_FOR_DEVIATION = "A standard deviation over {repetitions} is uncertain by a factor of about two or more."
PASSES_DIFFER = (
    "Whole passes over the conditions differ ({p}) and account for {share} of the unexplained variation. "
    "Something else changed between passes; it affects all conditions alike and widens their intervals."
)

DRIFT = {
    drift.Outcome.DRIFT: "{name} {way} from the first trial to the last ({p}, {test}).",
    drift.Outcome.NO_DRIFT: "{name} changes by at most {margin} from the first trial to the last: {change}.",
    drift.Outcome.UNDECIDED: (
        "The data do not show whether {inside} drifts over the run ({p}). "
        "The trend from the first trial to the last is {change}."
    ),
}
DRIFT_WIDENS = "Conditions ran in shuffled blocks, so a drift affects all of them alike. It widens every interval."
FEW_FOR_DRIFT = "With fewer than 5 repetitions, only a strong drift is detectable."

CRITERION = (
    f"SNIA's criterion: over the last {ROUNDS} rounds, the range is at most {phrases.percent(MAX_RANGE)} of the "
    f"average and the fitted line moves by at most {phrases.percent(MAX_SLOPE)}."
)
STEADY_CONDITIONS = "Over repetitions, {steady} of {conditions} {are} in steady state{others}."
STEADY_TRIALS = "{attained} of {trials} with logs ended in steady state."
FEW_FOR_ROUNDS = f"Fewer than {ROUNDS} repetitions: steady state over repetitions is not judged."
SHORT_ROUNDS = (
    "Rounds within a trial last {seconds} s here. SNIA's last a minute, after the drive was filled twice. "
    "A short trial that seems steady may still be served by a cache that fills up later."
)

SAMPLE_BY_SAMPLE = (
    f"Sample by sample, repetitions seem to differ in {{different}} of {{conditions}} ({phrases.NAIVE_LABEL})."
)
DEPENDENT_SAMPLES = (
    " The median correlation of neighbouring samples is {lag1:.2f}, so {samples} samples are worth about {effective}. "
    "With that corrected, repetitions differ in {corrected}."
)
SHORT_RUNS = "Runs have as few as {shortest} samples, which hides part of their dependence. The correction is too weak."
CHANCE = "Of {tests} tests, about {expected:.1g} would be significant by chance alone."


def findings(answers: Sequence[Answer]) -> list[Finding]:
    """One finding for each answer."""
    return [_finding(answer) for answer in answers]


def _finding(answer: Answer) -> Finding:
    match answer:
        case Variation():
            return _variation(answer)
        case LogSampleComparison():
            return _log_samples(answer)
        case RunDrift():
            return _drift(answer)
        case Steadiness():
            return _steadiness(answer)


def _about(cells: Cells, title: str, severity: str = "info", **parts: Any) -> Finding:
    return Finding(
        study=cells.study,
        question="stability",
        response=cells.response,
        title=f"{phrases.name(cells.response)}: {title}",
        severity=severity,
        **parts,
    )


# Variation between repetitions


def _variation(variation: Variation) -> Finding:
    cells, conditions, blocks = variation.cells, variation.conditions, variation.blocks
    rows: list[dict[str, Any]] = [
        {
            "point": dict(part.cell.point),
            "label": part.cell.label,
            "n": part.moments.n,
            "cv": part.moments.cv,
            "stddev": part.moments.stddev,
        }
        for part in conditions
    ]
    columns = [*cells.factors, "n", "deviation", "variation (%)"]
    body = [[*row["point"].values(), row["n"], row["stddev"], phrases.in_percent(row["cv"])] for row in rows]
    fewest, caveats = min(part.moments.n for part in conditions), omissions.left_out(cells)
    if fewest < 5:
        caveats.append(FEW_FOR_DEVIATION.format(repetitions=phrases.count(fewest, "repetition")))
    if variation.passes_differ and isinstance(blocks, Effect):
        caveats.append(PASSES_DIFFER.format(p=phrases.p(blocks.p), share=phrases.percent(blocks.partial_eta2)))
    return _about(
        cells,
        "variation between repetitions",
        "warning" if variation.outcome == Stability.UNSTABLE else "info",
        statements=_variation_statement(variation),
        statistics={
            "points": rows,
            "median_cv": variation.median_cv,
            "max_cv": variation.worst.moments.cv,
            "unstable": variation.unstable,
            "pooled_stddev": variation.pooled_stddev,
            "block_effect": plain(blocks),
        },
        tables=[Table(columns, body, [*("" for _ in cells.factors), "", cells.response, ""])],
        caveats=caveats,
    )


def _variation_statement(variation: Variation) -> str:
    unstable, worst = len(variation.unstable), variation.worst
    size = (VARIATION if len(variation.cells.cells) == 1 else VARIATIONS).format(
        typical=phrases.percent(variation.median_cv), worst=phrases.percent(worst.cv), condition=worst.cell.label
    )
    verdict = STABILITY[variation.outcome].format(
        conditions=f"{unstable} of {phrases.count(len(variation.cells.cells), 'condition')}",
        exceed="exceeds" if unstable == 1 else "exceed",
        count="counts" if unstable == 1 else "count",
        limit=phrases.percent(UNSTABLE_CV),
    )
    return f"{size} {verdict}"


# Drift over the run


def _drift(answer: RunDrift) -> Finding:
    measured, cells, outcome = answer.drift, answer.cells, answer.outcome
    caveats = [FEW_FOR_DRIFT] if max(cell.values.size for cell in cells.cells) < 5 else []
    test = answer.test.value
    bounds = (measured.interval.low, measured.interval.high, measured.interval.confidence)
    return _about(
        cells,
        "drift over the run",
        "warning" if answer.notable else "info",
        statements=DRIFT[outcome].format(
            name=phrases.subject(cells.response),
            inside=phrases.noun(cells.response),
            way=phrases.change(measured.change, *bounds),
            change=f"{phrases.points(measured.change, sign=True)} % ({phrases.signed_bounds(*bounds)})",
            p=phrases.p(answer.p),
            margin=phrases.percent(MARGIN),
            test=f"{test} over {measured.units} passes" if measured.unit == PASS else test,
        ),
        statistics={**plain(measured), "drifts": outcome == drift.Outcome.DRIFT, "outcome": outcome.value},
        caveats=[DRIFT_WIDENS] if outcome == drift.Outcome.DRIFT else caveats,
    )


# Steady state


def _steadiness(answer: Steadiness) -> Finding:
    cells = answer.cells
    columns = ["over repetitions", "range (%)", "slope (%)", "trials steady at their end", "steady since (s, median)"]
    return _about(
        cells,
        "steady state",
        "warning" if answer.outcome == Outcome.UNSTEADY else "info",
        statements=_steady_statement(answer),
        statistics={
            "criterion": CRITERION,
            "points": [_steady_numbers(condition) for condition in answer.conditions],
            "unsteady": answer.unsteady,
            "conditions_judged": len(answer.by_repetition),
            "trials_judged": answer.trials,
            "trials_attained": answer.trials_attained,
            "attained": answer.outcome == Outcome.STEADY,
        },
        tables=[Table([*cells.factors, *columns], [_steady_row(condition) for condition in answer.conditions])],
        caveats=_steady_caveats(answer),
    )


def _steady_statement(answer: Steadiness) -> str:
    conditions, unsteady = len(answer.by_repetition), answer.unsteady
    parts = []
    if conditions:
        parts.append(
            STEADY_CONDITIONS.format(
                steady=conditions - len(unsteady),
                conditions=phrases.count(conditions, "condition"),
                are="is" if conditions - len(unsteady) == 1 else "are",
                others=f" (not {phrases.listed(unsteady)})" if unsteady else "",
            )
        )
    if answer.trials:
        parts.append(
            STEADY_TRIALS.format(attained=answer.trials_attained, trials=phrases.count(answer.trials, "trial"))
        )
    return " ".join([*parts, CRITERION])


def _steady_numbers(condition: Judged) -> dict[str, Any]:
    return {
        "point": dict(condition.cell.point),
        "label": condition.cell.label,
        "repetitions": plain(condition.repetitions),
        "trials_judged": len(condition.trials),
        "trials_attained": condition.attained_within,
        "median_since_s": condition.median_since_s,
        "not_attained": [trial for trial, state in condition.trials.items() if not state.state.attained],
    }


def _steady_row(condition: Judged) -> list[Any]:
    state = condition.repetitions if isinstance(condition.repetitions, SteadyState) else None
    since_s = condition.median_since_s
    return [
        *condition.cell.point.values(),
        "not judged" if state is None else "steady" if state.attained else "not steady",
        None if state is None else phrases.in_percent(state.final.range),
        None if state is None else phrases.in_percent(state.final.slope),
        f"{condition.attained_within} of {len(condition.trials)}" if condition.trials else "no logs",
        None if since_s is None else round(since_s, 2),
    ]


def _steady_caveats(answer: Steadiness) -> list[str]:
    caveats = [] if answer.by_repetition else [FEW_FOR_ROUNDS]
    round_s = [trial.round_s for condition in answer.conditions for trial in condition.trials.values()]
    return [*caveats, SHORT_ROUNDS.format(seconds=f"{float(np.median(round_s)):.2g}")] if round_s else caveats


# Log samples


def _log_samples(answer: LogSampleComparison) -> Finding:
    cells, tests = answer.cells, len(answer.conditions)
    columns = ["samples", "naive F", "naive df", "naive p", "lag-1", "worth", "corrected p", "between repetitions"]
    caveats = [phrases.NAIVE_REASON]
    if answer.shortest < LONG_ENOUGH:
        caveats.append(SHORT_RUNS.format(shortest=answer.shortest))
    if tests > 1:
        caveats.append(CHANCE.format(tests=tests, expected=tests * (1 - answer.confidence)))
    return _about(
        cells,
        "repetitions compared by their log samples (naive)",
        statements=_log_sample_statement(answer),
        statistics={
            "label": phrases.NAIVE_LABEL,
            "points": [_log_sample_numbers(among) for among in answer.conditions],
            "naive_different": answer.naive_different,
            "corrected_different": answer.corrected_different,
            "conditions": tests,
        },
        tables=[Table([*cells.factors, *columns], [_log_sample_row(among) for among in answer.conditions])],
        caveats=caveats,
    )


def _log_sample_statement(answer: LogSampleComparison) -> str:
    statement = SAMPLE_BY_SAMPLE.format(
        different=answer.naive_different, conditions=phrases.count(len(answer.conditions), "condition")
    )
    known = [among.dependence for among in answer.conditions if isinstance(among.dependence, Dependence)]
    if not known:
        return statement
    return statement + DEPENDENT_SAMPLES.format(
        lag1=float(np.median([dependence.lag1 for dependence in known])),
        samples=sum(dependence.samples for dependence in known),
        effective=f"{sum(dependence.effective for dependence in known):.0f}",
        corrected=answer.corrected_different,
    )


def _log_sample_numbers(among: Among) -> dict[str, Any]:
    return {
        "point": dict(among.cell.point),
        "label": among.cell.label,
        "naive": plain(among.naive),
        "dependence": plain(among.dependence),
        "corrected": plain(among.corrected),
        "icc": among.components.icc if isinstance(among.components, Components) else None,
        "icc_ci": plain(among.components.icc_interval) if isinstance(among.components, Components) else None,
        "between_share": among.between_share,
    }


def _log_sample_row(among: Among) -> list[Any]:
    known = among.dependence if isinstance(among.dependence, Dependence) else None
    return [
        *among.cell.point.values(),
        among.naive.df_within + among.naive.df_between + 1,
        among.naive.f,
        f"{among.naive.df_between}, {among.naive.df_within}",
        among.naive.p,
        known.lag1 if known else None,
        round(known.effective, 1) if known else None,
        among.corrected.p if isinstance(among.corrected, Corrected) else None,
        among.between_share,
    ]
