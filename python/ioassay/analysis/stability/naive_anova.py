"""The analysis of variance that is usually done over log samples, labelled as naive, and what it is worth corrected.

Here as the question whether repetitions of one condition differ. The same between conditions: `anova_variants.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.analysis.measurements.log_samples import Samples, of_cell
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.anova import OneWay, one_way
from ioassay.stats.dependence import Components, Corrected, Dependence, components, corrected, dependence
from ioassay.stats.result import Undefined, plain

LONG_ENOUGH = 50
"""Samples a run from which on its own mean, which is taken out, hides little of the dependence."""
LABEL = "naive: counts every log sample as an independent observation"
WHY = (
    "Log samples of one run resemble their neighbours, so they are far fewer independent observations than they look; "
    "an analysis of variance over them finds differences where there are none. The repetition is the unit."
)


@dataclass(frozen=True)
class Among:
    """One condition: do its repetitions differ? `naive` as usually done, `corrected` for the samples' dependence.

    `between_share`: share of the samples' variance that lies between repetitions (intraclass correlation), with
    what dependence alone would give taken out; 0 where nothing is left.
    """

    cell: Cell
    naive: OneWay
    dependence: Dependence | Undefined
    corrected: Corrected | Undefined
    components: Components | Undefined
    between_share: float | None


def among_repetitions(found: Cells, logged: Mapping[str, Samples], confidence: float) -> Finding | None:
    """One finding for all conditions; None where no condition has logs of two repetitions."""
    judged = [among for cell in found.cells if (among := _among(cell, of_cell(cell, logged), confidence)) is not None]
    if not judged:
        return None
    risk = 1 - confidence
    return Finding(
        study=found.study,
        question="stability",
        response=found.response,
        title=f"{phrases.name(found.response)}: repetitions compared by their log samples (naive)",
        statement=_statement(judged, risk),
        statistics={
            "label": LABEL,
            "points": [_numbers(among) for among in judged],
            "naive_different": sum(among.naive.p < risk for among in judged),
            "corrected_different": sum(_p(among) < risk for among in judged),
            "conditions": len(judged),
        },
        tables=[_table(found, judged)],
        caveats=[WHY, *_short(judged), *_multiplicity(len(judged), risk)],
    )


def _among(cell: Cell, runs: Sequence[Any], confidence: float) -> Among | None:
    naive = one_way(runs)
    if isinstance(naive, Undefined):
        return None
    found = dependence(runs)
    parts = components(runs, confidence)
    fixed = found if isinstance(found, Undefined) else corrected(naive, found)
    share = None
    if isinstance(parts, Components) and isinstance(found, Dependence):
        between = max(naive.ms_between - found.time * naive.ms_within, 0.0) / parts.mean_size
        share = between / (between + naive.ms_within)
    return Among(cell, naive, found, fixed, parts, share)


def _p(among: Among) -> float:
    return 1.0 if isinstance(among.corrected, Undefined) else among.corrected.p


def _statement(judged: Sequence[Among], risk: float) -> str:
    different, still = sum(among.naive.p < risk for among in judged), sum(_p(among) < risk for among in judged)
    told = (
        f"Taken sample by sample, repetitions seem to differ in {different} of "
        f"{phrases.count(len(judged), 'condition')} ({LABEL})."
    )
    known = [among.dependence for among in judged if isinstance(among.dependence, Dependence)]
    if not known:
        return told
    samples, effective = sum(one.samples for one in known), sum(one.effective for one in known)
    lag1 = float(np.median([one.lag1 for one in known]))
    return (
        f"{told} Neighbouring samples correlate at {lag1:.2f} (median), so {samples} samples are worth about "
        f"{effective:.0f}; with that corrected, they differ in {still}."
    )


def _numbers(among: Among) -> dict[str, Any]:
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


def _table(found: Cells, judged: Sequence[Among]) -> Table:
    columns = ["samples", "naive F", "naive df", "naive p", "lag-1", "worth", "corrected p", "between repetitions"]
    return Table([*found.factors, *columns], [_row(among) for among in judged])


def _row(among: Among) -> list[Any]:
    samples = among.naive.df_within + among.naive.df_between + 1
    known = among.dependence if isinstance(among.dependence, Dependence) else None
    fixed = among.corrected if isinstance(among.corrected, Corrected) else None
    return [
        *among.cell.point.values(),
        samples,
        among.naive.f,
        f"{among.naive.df_between}, {among.naive.df_within}",
        among.naive.p,
        known.lag1 if known else None,
        round(known.effective, 1) if known else None,
        fixed.p if fixed else None,
        among.between_share,
    ]


def _short(judged: Sequence[Among]) -> list[str]:
    shortest = min(among.naive.df_within // (among.naive.df_between + 1) + 1 for among in judged)
    if shortest >= LONG_ENOUGH:
        return []
    return [
        f"Runs have as few as {shortest} samples: that hides part of their dependence, so the correction is too weak."
    ]


def _multiplicity(tests: int, risk: float) -> list[str]:
    if tests < 2:
        return []
    return [f"Of {tests} tests about {tests * risk:.1g} would come out different by chance alone."]
