"""Analysis of variance of several factors at once, with interactions and, where asked, a block.

By comparison of least squares models, so unequal repetitions and missing conditions are no obstacle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.least_squares import residual_ss
from ioassay.stats.result import Floats, Undefined, as_floats, sum_of_squares

BLOCK = "block"
Term = tuple[str, ...]


@dataclass(frozen=True)
class Effect:
    """One line of the table. `term` joins factor names with ' × '; sums of squares in the squared unit of the values.

    `partial_*` relate to this effect and the residual only, `eta2` and `omega2` to all variation.
    """

    term: str
    df: int
    ss: float
    ms: float
    f: float
    p: float
    eta2: float
    partial_eta2: float
    omega2: float
    partial_omega2: float


@dataclass(frozen=True)
class Factorial:
    """A factorial analysis of variance. `kind` is 2 or 3: which sums of squares (see `factorial`)."""

    effects: tuple[Effect, ...]
    df_residual: int
    ss_residual: float
    ms_residual: float
    ss_total: float
    kind: int
    interactions: bool

    def effect(self, term: str) -> Effect | None:
        """The line of `term`, or None where it could not be tested."""
        return next((effect for effect in self.effects if effect.term == term), None)


def factorial(
    values: Floats,
    factors: Mapping[str, Sequence[object]],
    *,
    block: Sequence[object] | None = None,
    kind: int = 2,
    interactions: bool = True,
) -> Factorial | Undefined:
    """Main effects and two-factor interactions of `factors` (name -> the level of each value).

    `kind` 2 tests a term against the model of all terms that do not contain it; 3 against the full model without
    it, with sum-to-zero coding, and needs every combination of levels. They agree where the design is balanced.
    Yates, JASA 29 (1934); Langsrud, "ANOVA for unbalanced data: use type II instead of type III sums of squares"
    (Statistics and Computing 13, 2003). `block` adds one line without interactions: the randomised complete
    block design of Fisher, "The Design of Experiments" (1935).
    """
    y = as_floats(values)
    columns = {name: _contrasts(levels) for name, levels in factors.items() if len(set(levels)) > 1}
    if not columns:
        return Undefined("no factor has two levels with values")
    terms: list[Term] = [(name,) for name in columns]
    if interactions:
        terms += list(combinations(columns, 2))
    matrices = {term: _term(term, columns) for term in terms}
    if block is not None:
        terms.insert(0, (BLOCK,))
        matrices[BLOCK,] = _contrasts(block)
    # A large common offset eats digits of the residuals.
    return _analyse(y - np.median(y), terms, matrices, kind, interactions)


def _contrasts(levels: Sequence[object]) -> Floats:
    """Sum-to-zero coding, shape (n, levels - 1)."""
    names = list(dict.fromkeys(levels))
    code = np.vstack([np.eye(len(names) - 1), -np.ones(len(names) - 1)])
    return np.asarray(code[[names.index(level) for level in levels]])


def _term(term: Term, columns: Mapping[str, Floats]) -> Floats:
    matrix = columns[term[0]]
    for name in term[1:]:
        matrix = (matrix[:, :, None] * columns[name][:, None, :]).reshape(matrix.shape[0], -1)
    return matrix


def _design(y: Floats, terms: Sequence[Term], matrices: Mapping[Term, Floats]) -> Floats:
    return np.hstack([np.ones((y.size, 1)), *(matrices[term] for term in terms)])


def _analyse(
    y: Floats, terms: Sequence[Term], matrices: Mapping[Term, Floats], kind: int, interactions: bool
) -> Factorial | Undefined:
    full = _design(y, terms, matrices)
    ss_residual, rank = residual_ss(full, y)
    df_residual, ss_total = y.size - rank, sum_of_squares(y)
    if df_residual < 1:
        return Undefined("there are no repetitions to tell the interaction from chance")
    if ss_residual <= 1e-24 * ss_total or ss_total == 0:
        return Undefined("the repetitions of every condition are identical, so there is no spread to test against")
    if kind == 3 and rank < full.shape[1]:
        return Undefined("a combination of levels has no values, and type III sums of squares need all")
    residual = (df_residual, ss_residual, ss_total, y.size)
    effects = [_effect(y, term, terms, matrices, kind, residual) for term in terms]
    return Factorial(
        effects=tuple(effect for effect in effects if effect is not None),
        df_residual=df_residual,
        ss_residual=ss_residual,
        ms_residual=ss_residual / df_residual,
        ss_total=ss_total,
        kind=kind,
        interactions=interactions,
    )


def _effect(
    y: Floats,
    term: Term,
    terms: Sequence[Term],
    matrices: Mapping[Term, Floats],
    kind: int,
    residual: tuple[int, float, float, int],
) -> Effect | None:
    df_residual, ss_residual, ss_total, size = residual
    others = [other for other in terms if other != term and (kind == 3 or not set(term) < set(other))]
    without, rank_without = residual_ss(_design(y, others, matrices), y)
    with_, rank_with = residual_ss(_design(y, [*others, term], matrices), y)
    df = rank_with - rank_without
    if df < 1:
        return None
    ss, error = max(without - with_, 0.0), ss_residual / df_residual
    f = ss / df / error
    return Effect(
        term=" × ".join(term),
        df=df,
        ss=ss,
        ms=ss / df,
        f=f,
        p=float(distributions.f_sf(f, df, df_residual)),
        eta2=ss / ss_total,
        partial_eta2=ss / (ss + ss_residual),
        omega2=(ss - df * error) / (ss_total + error),
        # Olejnik and Algina, "Generalized eta and omega squared statistics", Psychological Methods 8 (2003).
        partial_omega2=df * (f - 1) / (df * (f - 1) + size),
    )
