"""Threats in the numbers: trials missing, few or unstable repetitions, drift, unsteady state, saturation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeVar

import polars as pl

from ioassay.analysis.effects.level_contrasts import families
from ioassay.analysis.effects.response_shape import shape
from ioassay.analysis.stability import stability
from ioassay.analysis.stability.drift import RunDrift
from ioassay.analysis.stability.repetition_variance import UNSTABLE_CV, Variation
from ioassay.analysis.stability.steadiness import Outcome, Steadiness
from ioassay.analysis.threats.threat import Code, Context, Threat
from ioassay.factors import CONCURRENCY
from ioassay.records.record import FAILED, OK, SKIPPED
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.result import plain

_Answer = TypeVar("_Answer", Variation, RunDrift, Steadiness)
ENOUGH_REPETITIONS = 5
SHORT_S = 5.0


def failed(context: Context) -> Iterator[Threat]:
    """Trials that failed or were skipped, with their commonest reasons."""
    for status, code in ((FAILED, Code.FAILED), (SKIPPED, Code.SKIPPED)):
        rows = context.trials.filter(pl.col("status") == status)
        if not rows.is_empty():
            reasons = Counter(reason or "" for reason in rows["reason"].to_list()).most_common()
            yield context.threat(code, trials=rows["trial"].to_list(), of=context.trials.height, reasons=dict(reasons))


def incomplete(context: Context) -> Iterator[Threat]:
    """Fewer records than planned trials, where the number is not adaptive."""
    name = context.study.name
    planned, recorded = context.records.planned.get(name, 0), context.trials.height
    for apart in (context.records.traced, context.records.counting):  # planned as well, and not among those that count
        recorded += apart["study"].to_list().count(name) if apart is not None else 0
    if not context.study.until and recorded < planned:
        yield context.threat(Code.INCOMPLETE, planned=planned, recorded=recorded, run=str(context.records.root))


def few_repetitions(context: Context) -> Iterator[Threat]:
    """Fewer than five repetitions somewhere."""
    counts = {cell.label: cell.values.size for found in context.responses.values() for cell in found.cells}
    fewest = min(counts.values(), default=ENOUGH_REPETITIONS)
    if fewest < ENOUGH_REPETITIONS:
        conditions = sum(number == fewest for number in counts.values())
        severity = "warning" if fewest < 3 else "info"
        yield context.threat(
            Code.FEW_REPETITIONS, severity, fewest=fewest, conditions=conditions, enough=ENOUGH_REPETITIONS
        )


def _stability(context: Context, kind: type[_Answer]) -> list[_Answer]:
    """What the question of stability answers of this kind."""
    return [one for one in stability.analyse(context.records, context.study) if isinstance(one, kind)]


def unstable(context: Context) -> Iterator[Threat]:
    """Conditions whose repetitions vary by more than 5 %, of all responses together."""
    if found := [one for one in _stability(context, Variation) if one.unstable]:
        cvs = [{part.cell.label: part.cv for part in one.conditions if part.cv > UNSTABLE_CV} for one in found]
        names, conditions = [one.cells.response for one in found], [len(one.cells.cells) for one in found]
        evidence = {"cv": dict(zip(names, cvs, strict=True)), "conditions": dict(zip(names, conditions, strict=True))}
        yield context.threat(Code.UNSTABLE, limit=UNSTABLE_CV, **evidence)


def drifting(context: Context) -> Iterator[Threat]:
    """Responses that rise or fall over the run, all together."""
    found = {one.cells.response: one.drift for one in _stability(context, RunDrift) if one.notable}
    numbers = ("change", "interval", "p")
    if evidence := {name: {key: plain(getattr(one, key)) for key in numbers} for name, one in found.items()}:
        yield context.threat(Code.DRIFT, **evidence)


def unsteady(context: Context) -> Iterator[Threat]:
    """Conditions without steady state by SNIA's criterion, of all responses together."""
    evidence = {
        one.cells.response: {
            "conditions": one.unsteady,
            "conditions_judged": len(one.by_repetition),
            "trials": one.trials,
            "trials_attained": one.trials_attained,
        }
        for one in _stability(context, Steadiness)
        if one.outcome == Outcome.UNSTEADY
    }
    if evidence:
        yield context.threat(Code.UNSTEADY, **evidence)


def short(context: Context) -> Iterator[Threat]:
    """Trials too short to leave caches and clocks behind."""
    key, typical_s = context.records.driver(context.study).length_key, context.good["duration_s"].median()
    if key and isinstance(typical_s, float) and typical_s < SHORT_S:
        numbers = {"median_s": typical_s, "enough_s": SHORT_S}
        yield context.threat(Code.SHORT, "info", **numbers, key=key, target=context.study.has_target)


def saturated(context: Context) -> Iterator[Threat]:
    """Curves over queue depth or number of jobs that flatten."""
    for response in context.responses:
        groups = families(context.records, context.study, response)
        for factor in (name for name in CONCURRENCY if name in groups):
            for family in groups[factor]:
                curve = shape(family)
                if curve and curve.plateau:
                    evidence = {"factor": factor, "from": curve.plateau.point[factor], "margin": MARGIN}
                    yield context.threat(Code.SATURATION, "info", response, where=family.part.where(), **evidence)


def stopped_early(context: Context) -> Iterator[Threat]:
    """Adaptive repetition makes intervals a little too narrow."""
    if until := context.study.until:
        counts = context.trials.filter(pl.col("status") == OK).height
        most = context.records.planned.get(context.study.name, 0)
        yield context.threat(Code.SEQUENTIAL_STOPPING, "info", metric=until.metric, trials=counts, planned_at_most=most)
