"""Doubts that the numbers raise: trials missing, few or unstable repetitions, drift, unsteady state, saturation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import polars as pl

from ioassay.analysis.effects.response_shape import DOWN, MARGIN, UP, Shape, shape
from ioassay.analysis.stability import drift, steadiness
from ioassay.analysis.stability.repetition_variance import UNSTABLE_CV
from ioassay.analysis.threats.threat import Context, Threat
from ioassay.factors import CONCURRENCY, level_phrase
from ioassay.narrative import phrases, stability_text
from ioassay.records.record import FAILED, OK, SKIPPED
from ioassay.stats.sample import moments
from ioassay.stats.steady_state import SteadyState

ENOUGH_REPETITIONS = 5
SHORT_S = 5.0


def failed(context: Context) -> Iterator[Threat]:
    """Trials that failed or were skipped, with their commonest reasons."""
    for status in (FAILED, SKIPPED):
        rows = context.trials.filter(pl.col("status") == status)
        if rows.is_empty():
            continue
        reasons = Counter(reason or "no reason was recorded" for reason in rows["reason"].to_list())
        shown = phrases.listed([f"{number}× {reason}" for reason, number in reasons.most_common()], 3)
        yield Threat(
            f"trials-{status}",
            f"{phrases.count(rows.height, 'trial')} {status}",
            f"{rows.height} of {phrases.count(context.trials.height, 'trial')} {status} and are left out: {shown}.",
            remedy="read the raw output of these trials, fix the cause, and run the study again",
            evidence={"trials": rows["trial"].to_list(), "reasons": dict(reasons)},
        )


def incomplete(context: Context) -> Iterator[Threat]:
    """Fewer records than planned trials, where the number is not adaptive."""
    name = context.study.name
    planned, recorded = context.records.planned.get(name, 0), context.trials.height
    for apart in (context.records.traced, context.records.counting):  # planned as well, and not among those that count
        recorded += apart["study"].to_list().count(name) if apart is not None else 0
    if context.study.until or recorded >= planned:
        return
    yield Threat(
        "incomplete",
        "The run is not complete",
        f"{recorded} of {planned} planned trials have a record. Conditions may have different numbers of repetitions.",
        remedy=f"ioassay run --resume {context.records.root}",
        evidence={"planned": planned, "recorded": recorded},
    )


def few_repetitions(context: Context) -> Iterator[Threat]:
    """Fewer than five repetitions somewhere."""
    counts = {cell.label: cell.values.size for found in context.responses.values() for cell in found.cells}
    if not counts or min(counts.values()) >= ENOUGH_REPETITIONS:
        return
    fewest = min(counts.values())
    what = "a single repetition says nothing about the next" if fewest < 2 else "intervals are wide and tests are weak"
    yield Threat(
        "few-repetitions",
        f"Only {phrases.count(fewest, 'repetition')}",
        f"Conditions have as few as {phrases.count(fewest, 'repetition')}: {what}.",
        remedy=f"repeat each condition {ENOUGH_REPETITIONS} times or more (--repetitions), ten for a study",
        evidence={"fewest": fewest, "conditions": sum(number == fewest for number in counts.values())},
        severity="warning" if fewest < 3 else "info",
    )


def unstable(context: Context) -> Iterator[Threat]:
    """Conditions whose repetitions vary by more than 5 %, of all responses together."""
    told, evidence = [], {}
    for response, found in context.responses.items():
        cvs = {cell.label: moments(cell.values).cv or 0.0 for cell in found.cells}
        over = {label: cv for label, cv in cvs.items() if cv > UNSTABLE_CV}
        if over:
            worst = max(over, key=lambda label: over[label])
            where = f"{len(over)} of {phrases.count(len(cvs), 'condition')}"
            told.append(f"{phrases.inside(response)} in {where} (most at {worst}: {phrases.percent(over[worst])})")
            evidence[response] = over
    if told:
        yield Threat(
            "unstable",
            "Repetitions vary",
            f"Repetitions vary by more than {phrases.percent(UNSTABLE_CV)}: {'; '.join(told)}.",
            remedy="lengthen the trials, quieten the machine (ioassay doctor), or add repetitions",
            evidence={"limit": UNSTABLE_CV, "cv": evidence},
        )


def drifting(context: Context) -> Iterator[Threat]:
    """Responses that rise or fall over the run, all together."""
    told, evidence = [], {}
    for response, found in context.responses.items():
        seen = drift.over_run(found, context.confidence)
        if seen is not None and seen.notable:
            told.append(f"{phrases.inside(response)} {stability_text.drift_size(seen.drift)}")
            evidence[response] = {name: getattr(seen.drift, name) for name in ("change", "interval", "p")}
    if told:
        yield Threat(
            "drift",
            "Drift over the run",
            f"From the first trial to the last, {'; '.join(told)}.",
            remedy="let the drive settle first (run.cooldown, a longer fill), then measure again",
            evidence=evidence,
        )


def unsteady(context: Context) -> Iterator[Threat]:
    """Conditions without steady state by SNIA's criterion, of all responses together."""
    told, evidence = [], {}
    for response, found in context.responses.items():
        judged = steadiness.judge(found, context.logs[response])
        states = [(one.cell.label, one.repetitions) for one in judged if isinstance(one.repetitions, SteadyState)]
        over = [label for label, state in states if not state.attained]
        trials, within = sum(len(one.trials) for one in judged), sum(one.attained_within for one in judged)
        if not over and within >= steadiness.ENOUGH * trials:
            continue
        parts = [f"{len(over)} of {phrases.count(len(states), 'condition')} over repetitions"] if over else []
        parts += (
            [f"{trials - within} of {phrases.count(trials, 'trial')} over their own time"] if within < trials else []
        )
        told.append(f"{phrases.inside(response)} in {' and '.join(parts)}")
        evidence[response] = {"conditions": over, "trials": trials, "trials_attained": within}
    if told:
        yield Threat(
            "unsteady",
            "Steady state not attained",
            f"Not in steady state: {'; '.join(told)}. {stability_text.CRITERION}",
            remedy="lengthen the trials or add a ramp (ramp_time), and write the target's whole size first",
            evidence=evidence,
        )


def short(context: Context) -> Iterator[Threat]:
    """Trials too short to leave caches and clocks behind."""
    if context.good.is_empty():
        return
    typical_s = float(context.good["duration_s"].median() or 0.0)  # type: ignore[arg-type]
    key = context.records.driver(context.study).length_key
    if typical_s >= SHORT_S or not key:
        return
    starts = "write caches" if context.study.has_target else "what happens at the start"
    yield Threat(
        "short",
        "Short trials",
        f"A trial typically lasted {typical_s:.2g} s: {starts} and power states may decide the result.",
        remedy=f"lengthen the trials (params.{key}), to {SHORT_S:g} s at least and 30 s or more for a study",
        evidence={"median_s": typical_s},
        severity="info",
    )


def saturated(context: Context) -> Iterator[Threat]:
    """Curves over queue depth or number of jobs that flatten."""
    for response, found in context.responses.items():
        for factor in (name for name in CONCURRENCY if name in found.varying()):
            for part in found.slices(factor):
                curve = shape(part, factor, context.confidence)
                if curve is not None and curve.plateau is not None and curve.kind in (UP, DOWN):
                    yield _saturated(response, part.where(), factor, curve)


def _saturated(response: str, where: Mapping[str, object], factor: str, curve: Shape) -> Threat:
    level = curve.plateau.point[factor] if curve.plateau else ""
    return Threat(
        "saturation",
        f"{phrases.name(response)} saturates",
        phrases.placed(
            where,
            f"{phrases.name(response)} changes by no more than {phrases.percent(MARGIN)} beyond "
            f"{level_phrase(factor, level)}: from there on a limit is measured, not the load.",
        ),
        response=response,
        evidence={"factor": factor, "from": level, "where": where},
        severity="info",
    )


def stopped_early(context: Context) -> Iterator[Threat]:
    """Adaptive repetition makes intervals a little too narrow."""
    until = context.study.until
    if not until:
        return
    counts = context.trials.filter(pl.col("status") == OK).height
    yield Threat(
        "sequential-stopping",
        "Repetition was adaptive",
        f"Each condition was repeated until the interval of {until.metric} was narrow enough ({counts} trials). "
        "Stopping at a narrow interval picks narrow ones: they hold slightly less often than they say.",
        remedy="use a fixed number of repetitions where exact coverage matters",
        evidence={"metric": until.metric, "trials": counts, "planned_at_most": _most(context)},
        severity="info",
    )


def _most(context: Context) -> int:
    return context.records.planned.get(context.study.name, 0)
