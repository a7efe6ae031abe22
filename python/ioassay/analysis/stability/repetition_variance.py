"""How much repetitions of one condition differ, and whether whole passes over the conditions do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ioassay.analysis.measurements.cells import Cells
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.factorial import BLOCK, Effect, Factorial, factorial
from ioassay.stats.result import Undefined, plain
from ioassay.stats.sample import Moments, moments

UNSTABLE_CV = 0.05
"""Above this coefficient of variation a condition counts as unstable: a difference of 5 % is what people act upon."""


def between_repetitions(found: Cells, confidence: float) -> Finding | None:
    """Coefficient of variation of each condition and the block effect; None when nothing was repeated."""
    repeated = [(cell, described) for cell in found.cells if (described := moments(cell.values)).n > 1]
    if not repeated:
        return None
    blocks = block_effect(found)
    rows: list[dict[str, Any]] = [
        {"point": dict(cell.point), "label": cell.label, "n": part.n, "cv": part.cv, "stddev": part.stddev}
        for cell, part in repeated
    ]
    worst = max(rows, key=lambda row: float(row["cv"] or 0.0))
    typical = float(np.median([row["cv"] or 0.0 for row in rows]))
    unstable = [row["label"] for row in rows if (row["cv"] or 0.0) > UNSTABLE_CV]
    return Finding(
        study=found.study,
        question="stability",
        response=found.response,
        title=f"{phrases.name(found.response)}: variation between repetitions",
        statement=_statement(found, typical, worst, unstable),
        statistics={
            "points": rows,
            "median_cv": typical,
            "max_cv": worst["cv"],
            "unstable": unstable,
            "pooled_stddev": _pooled([described for _, described in repeated]),
            "block_effect": plain(blocks),
        },
        tables=[_table(found, rows)],
        caveats=[*found.caveats(), *_caveats(blocks, min(row["n"] for row in rows), 1 - confidence)],
        severity="warning" if unstable else "info",
    )


def block_effect(found: Cells) -> Effect | Undefined:
    """Do whole passes over the conditions differ? The block's line of an analysis of ln(value)."""
    everything = np.concatenate(found.groups)
    if everything.min() <= 0:
        return Undefined("values at or below 0 have no logarithm")
    labels = [cell.label for cell in found.cells for _ in cell.values]
    passes = [int(number) for cell in found.cells for number in cell.repetition]
    done = factorial(np.log(everything), {"condition": labels}, block=passes, interactions=False)
    if not isinstance(done, Factorial):
        return done
    return done.effect(BLOCK) or Undefined("each condition ran in passes of its own")


def _pooled(described: Sequence[Moments]) -> float:
    """Deviation of one repetition from its condition's mean, pooled by degrees of freedom."""
    squares = sum((part.stddev or 0.0) ** 2 * (part.n - 1) for part in described)
    return float(np.sqrt(squares / sum(part.n - 1 for part in described)))


def _statement(found: Cells, typical: float, worst: dict[str, Any], unstable: Sequence[str]) -> str:
    if len(found.cells) == 1:
        told = f"Repetitions differ by {phrases.percent(worst['cv'] or 0.0)} of their mean (coefficient of variation)."
    else:
        told = (
            f"Repetitions of one condition typically differ by {phrases.percent(typical)} of their mean "
            f"(median coefficient of variation), at most by {phrases.percent(worst['cv'] or 0.0)} at {worst['label']}."
        )
    if not unstable:
        return f"{told} That is stable: none exceeds {phrases.percent(UNSTABLE_CV)}."
    count = f"{len(unstable)} of {phrases.count(len(found.cells), 'condition')}"
    return f"{told} {count} exceed {phrases.percent(UNSTABLE_CV)} and count as unstable."


def _table(found: Cells, rows: Sequence[dict[str, Any]]) -> Table:
    columns = [*found.factors, "n", "deviation", "variation (%)"]
    body = [[*row["point"].values(), row["n"], row["stddev"], phrases.in_percent(row["cv"])] for row in rows]
    return Table(columns, body, [*("" for _ in found.factors), "", found.response, ""])


def _caveats(blocks: Effect | Undefined, fewest: int, risk: float) -> list[str]:
    said = []
    if fewest < 5:
        said.append(f"With {fewest} repetitions a deviation is itself known only to a factor of about two or worse.")
    if isinstance(blocks, Effect) and blocks.p < risk:
        said.append(
            f"Whole passes over the conditions differ ({phrases.p(blocks.p)}), which is "
            f"{phrases.percent(blocks.partial_eta2)} of what conditions leave unexplained: something else changed "
            "between passes. All conditions share it, but it widens their intervals."
        )
    return said
