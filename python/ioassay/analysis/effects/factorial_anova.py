"""All factors together: does each matter, and does the effect of one depend on the other (interaction)?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ioassay.analysis.measurements.cells import Cells
from ioassay.factors import factor_label
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.factorial import BLOCK, Effect, Factorial, factorial
from ioassay.stats.result import Undefined, plain


def effects(found: Cells, confidence: float) -> list[Finding]:
    """One finding where two factors or more vary, none otherwise."""
    names = found.varying()
    if len(names) < 2:
        return []
    columns = {name: found.column(name) for name in names}
    values = np.concatenate(found.groups)
    passes = [int(number) for cell in found.cells for number in cell.repetition]
    second = factorial(values, columns, block=passes)
    if isinstance(second, Undefined):
        second = factorial(values, columns, block=passes, interactions=False)
    if isinstance(second, Undefined):
        return []
    third = factorial(values, columns, block=passes, kind=3, interactions=second.interactions)
    return [_finding(found, names, second, third, confidence)]


def _finding(
    found: Cells, names: Sequence[str], second: Factorial, third: Factorial | Undefined, confidence: float
) -> Finding:
    return Finding(
        study=found.study,
        question="effect",
        response=found.response,
        title=f"{phrases.name(found.response)}: {' and '.join(factor_label(name) for name in names)} together",
        statement=_statement(found.response, names, second, 1 - confidence),
        statistics={"type_2": plain(second), "type_3": plain(third)},
        tables=[_table(second, third)],
        caveats=[*found.caveats(), *_caveats(second, third)],
    )


def _statement(response: str, names: Sequence[str], found: Factorial, risk: float) -> str:
    mains = [effect for name in names if (effect := found.effect(name))]
    parts = [f"{factor_label(effect.term)} {_share(effect)}" for effect in sorted(mains, key=lambda e: -e.eta2)]
    told = f"Of the variation of {phrases.inside(response)} between trials, {phrases.listed(parts)}."
    crossed = [effect for effect in found.effects if "×" in effect.term]
    if not crossed:
        return told
    strongest = max(crossed, key=lambda effect: effect.eta2)
    pair = " and ".join(factor_label(name) for name in strongest.term.split(" × "))
    if strongest.p < risk:
        return (
            f"{told} {phrases.capital(pair)} interact ({phrases.p(strongest.p)}, {phrases.percent(strongest.eta2)}): "
            "the effect of one depends on the other, so read each where the other is fixed."
        )
    return f"{told} No interaction of {pair} can be seen ({phrases.p(strongest.p)})."


def _share(effect: Effect) -> str:
    return f"accounts for {phrases.percent(effect.eta2)} ({phrases.p(effect.p)})"


def _table(second: Factorial, third: Factorial | Undefined) -> Table:
    columns = ["source", "df", "sum of squares", "mean square", "F", "p (type II)", "p (type III)"]
    columns += ["eta²", "partial eta²", "omega²", "partial omega²"]
    rows: list[list[Any]] = []
    for effect in second.effects:
        other = third.effect(effect.term) if isinstance(third, Factorial) else None
        name = "pass (block)" if effect.term == BLOCK else effect.term
        rows.append([name, effect.df, effect.ss, effect.ms, effect.f, effect.p, other.p if other else None])
        rows[-1] += [effect.eta2, effect.partial_eta2, effect.omega2, effect.partial_omega2]
    residual = [second.df_residual, second.ss_residual, second.ms_residual]
    return Table(columns, [*rows, ["residual", *residual, *[None] * 7]])


def _caveats(second: Factorial, third: Factorial | Undefined) -> list[str]:
    said = []
    if not second.interactions:
        said.append("Without repetitions the interaction cannot be told from chance and is left out.")
    if isinstance(third, Undefined):
        said.append(f"Type III sums of squares are not given: {third.reason}.")
    said.append(
        "It supposes that all conditions scatter alike. Where the levels span decades they do not: "
        "Welch's analysis of each factor where the other is fixed is the safer one."
    )
    return said
