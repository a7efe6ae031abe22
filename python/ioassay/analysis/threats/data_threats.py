"""Threats in the numbers: trials missing, few or unstable repetitions, drift, unsteady state, saturation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import polars as pl

from ioassay.analysis import stability
from ioassay.analysis.effects.level_contrasts import families
from ioassay.analysis.effects.response_shape import shape
from ioassay.analysis.stability import UNSTABLE_CV
from ioassay.analysis.threats.threat import Code, Context, Threat
from ioassay.factors import CONCURRENCY
from ioassay.records.record import FAILED, OK, SKIPPED
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.result import plain

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


def unstable(context: Context) -> Iterator[Threat]:
    """Conditions whose repetitions vary by more than 5 %, of all responses together."""
    cvs: dict[str, dict[str, float]] = {}
    conditions: dict[str, int] = {}
    for one in stability.analyse(context.records, context.study):
        if one.variation and one.variation.unstable:
            parts = one.variation.conditions
            cvs[one.response] = {part.cell.label: part.cv for part in parts if part.cv > UNSTABLE_CV}
            conditions[one.response] = len(one.cells.cells)
    if cvs:
        yield context.threat(Code.UNSTABLE, limit=UNSTABLE_CV, cv=cvs, conditions=conditions)


def drifting(context: Context) -> Iterator[Threat]:
    """Responses that rise or fall over the run, all together."""
    evidence = {
        one.response: {key: plain(getattr(one.drift, key)) for key in ("change", "interval", "p")}
        for one in stability.analyse(context.records, context.study)
        if one.drift and one.drift.notable
    }
    if evidence:
        yield context.threat(Code.DRIFT, **evidence)


def unsteady(context: Context) -> Iterator[Threat]:
    """Conditions without steady state by SNIA's criterion, of all responses together."""
    evidence = {
        one.response: {
            "conditions": found.unsteady,
            "conditions_judged": len(found.by_repetition),
            "trials": found.trials,
            "trials_attained": found.trials_attained,
        }
        for one in stability.analyse(context.records, context.study)
        if (found := one.steadiness) and not found.attained
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
