"""Several factors at once: the analysis of variance with interactions and a block, and contrasts of interactions.

The analysis of variance compares least squares models, so unequal repetitions and missing conditions are no obstacle.
Whether the difference between two levels of a factor depends on another factor is read from fitted condition means. Two
levels of each of two factors give four means, and one contrast: the ratio between the levels of the first, divided
by the same ratio at the other level of the second (on the raw scale differences of differences). All such contrasts
hold at once (Bonferroni; their degrees of freedom are Satterthwaite's). That none is beyond the margin is an
intersection of one-sided tests, each at the full risk (Berger, Technometrics 24, 1982).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.anova import NO_SPREAD
from ioassay.stats.condition_means import ConditionMeans
from ioassay.stats.contrasts import MOST, POWER, Contrasts, Pair, by_df, fewest, grid_df
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
    matrices: dict[Term, Floats] = {(name,): column for name, column in columns.items()}
    for one, other in (term for term in terms if len(term) == 2):
        crossed = columns[one][:, :, None] * columns[other][:, None, :]
        matrices[one, other] = crossed.reshape(y.size, -1)
    if block is not None:
        terms.insert(0, (BLOCK,))
        matrices[BLOCK,] = _contrasts(block)
    y = y - np.median(y)  # a large common offset eats digits of the residuals

    def fitted(chosen: Sequence[Term]) -> tuple[float, int]:
        return residual_ss(np.hstack([np.ones((y.size, 1)), *(matrices[term] for term in chosen)]), y)

    ss_residual, rank = fitted(terms)
    df_residual, ss_total = y.size - rank, sum_of_squares(y)
    if df_residual < 1:
        return Undefined("there are no repetitions to tell the interaction from chance")
    if ss_residual <= 1e-24 * ss_total or ss_total == 0:
        return Undefined(NO_SPREAD)
    if kind == 3 and rank < 1 + sum(matrices[term].shape[1] for term in terms):
        return Undefined("a combination of levels has no values, and type III sums of squares need all")
    effects, error = [], ss_residual / df_residual
    for term in terms:
        others = [other for other in terms if other != term and (kind == 3 or not set(term) < set(other))]
        without, rank_without = fitted(others)
        with_, rank_with = fitted([*others, term])
        df = rank_with - rank_without
        if df < 1:
            continue
        ss = max(without - with_, 0.0)
        f = ss / df / error
        effects.append(
            Effect(
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
                partial_omega2=df * (f - 1) / (df * (f - 1) + y.size),
            )
        )
    return Factorial(tuple(effects), df_residual, ss_residual, error, ss_total, kind, interactions)


def _contrasts(levels: Sequence[object]) -> Floats:
    """Sum-to-zero coding, shape (n, levels - 1)."""
    names = list(dict.fromkeys(levels))
    code = np.vstack([np.eye(len(names) - 1), -np.ones(len(names) - 1)])
    return np.asarray(code[[names.index(level) for level in levels]])


@dataclass(frozen=True)
class Interaction:
    """`levels` are the places of the clearest contrast: two of the first factor, and two of the second.

    `pair`: the ratio of the second to the first of the one factor, at the second over that at the first of the other.
    `needed`: repetitions that would show a contrast of the margin; None of exact results.
    """

    levels: tuple[tuple[int, int], tuple[int, int]]
    pair: Pair
    present: bool
    absent: bool
    needed: int | None


def interaction(
    means: ConditionMeans, grid: Mapping[tuple[int, int], int], confidence: float, *, share: int = 1
) -> Interaction | None:
    """`grid`: levels of both factors -> condition; None where no two levels of each have all four conditions.

    `share` pairs of factors share the risk.
    """
    corners = [
        (one, other)
        for one in combinations(sorted({place[0] for place in grid}), 2)
        for other in combinations(sorted({place[1] for place in grid}), 2)
        if all(place in grid for place in product(one, other))
    ]
    if not corners:
        return None
    places = np.array([[grid[place] for place in product(*corner)] for corner in corners])
    family = Contrasts(means, confidence, share=share)
    differences = means.estimates[places] @ np.array([1.0, -1.0, -1.0, 1.0])
    differences[np.abs(differences) <= 1e-12 * max(float(np.abs(means.estimates).max()), 1.0)] = 0.0
    parts = means.squared_errors[places]
    errors, df = np.sqrt(parts.sum(axis=1)), means.df_of_sums(parts, places)
    reach = errors * by_df(df, lambda one: distributions.t_ppf(1 - family.risk / 2 / len(corners), one))
    tolerance = errors * by_df(df, lambda one: distributions.t_ppf(1 - family.risk, one))
    clearest = int(np.argmax(np.abs(differences) / np.where(reach > 0, reach, 1.0)))
    error, p = float(errors[clearest]), float(differences[clearest] == 0)
    if error > 0:
        t = abs(float(differences[clearest])) / error
        p = min(1.0, 2 * distributions.t_sf(t, grid_df(float(df[clearest]))) * len(corners) * share)
    return Interaction(
        levels=corners[clearest],
        pair=family.as_pair(differences[clearest], reach[clearest], p),
        present=bool((np.abs(differences) > reach).any()),
        absent=bool((np.abs(differences) + tolerance <= family.bound).all()),
        needed=None if means.exact else _needed(family, len(corners)),
    )


def _needed(family: Contrasts, contrasts: int) -> int:
    """As for pairs (`contrasts.repetitions_needed`), with the four errors of a contrast."""
    means = family.means
    if family.bound == 0:
        return MOST
    scatter = math.sqrt(float((means.squared_errors * means.sizes).mean())) / family.bound
    level = 1 - family.risk / 2 / contrasts

    def seen(n: int) -> bool:
        df = float(means.sizes.size * (n - 1))
        return (distributions.t_ppf(level, df) + distributions.t_ppf(POWER, df)) * scatter * 2 / math.sqrt(n) <= 1

    return fewest(seen)
