"""The effect of one factor, within each combination of the others: tests, effect sizes, pairs.

Welch's analysis decides, because conditions of a storage experiment rarely scatter alike; the classic one, the rank
test and the tests of assumptions stand beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.analysis.effects import level_contrasts
from ioassay.analysis.effects.level_contrasts import Extremes, lower_is_better
from ioassay.analysis.measurements.cells import Cells
from ioassay.factors import factor_label
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.anova import (
    Assumption,
    OneWay,
    Ranks,
    Welch,
    brown_forsythe,
    kruskal_wallis,
    normal_residuals,
    one_way,
    welch,
)
from ioassay.stats.posthoc import PairDifference, games_howell, holm
from ioassay.stats.result import Undefined, mean_of, plain

SEPARATE_SLICES = 4
"""Up to so many combinations of the other factors get a finding each; more share one."""


@dataclass(frozen=True)
class Effect:
    """One factor where all others are fixed. `decisive_p` is Welch's, else that of the classic analysis, else None."""

    factor: str
    cells: Cells
    classic: OneWay | Undefined
    welch: Welch | Undefined
    ranks: Ranks | Undefined
    equal_variances: Assumption | Undefined
    normal: Assumption | Undefined
    pairs: list[PairDifference] | Undefined
    extremes: Extremes
    decisive_p: float | None


def effects(found: Cells, confidence: float) -> list[Finding]:
    """Findings of every factor with two levels or more; p values adjusted (Holm) for all tests of this response."""
    measured = [
        [effect(part, factor, confidence) for part in found.slices(factor) if len(part.cells) > 1]
        for factor in found.varying()
    ]
    p_values = [one.decisive_p for group in measured for one in group if one.decisive_p is not None]
    adjusted = iter(holm(p_values))
    findings = []
    for group in measured:
        holms = [None if one.decisive_p is None else next(adjusted) for one in group]
        if len(group) <= SEPARATE_SLICES:
            findings += [_single(one, p, len(p_values), confidence) for one, p in zip(group, holms, strict=True)]
        else:
            findings.append(_shared(found, group, holms, confidence))
    return findings


def effect(found: Cells, factor: str, confidence: float) -> Effect:
    """Measure one factor; `found` varies in nothing else and has two conditions or more."""
    groups = found.groups
    classic, unequal = one_way(groups), welch(groups)
    decisive = unequal if isinstance(unequal, Welch) else classic
    return Effect(
        factor=factor,
        cells=found,
        classic=classic,
        welch=unequal,
        ranks=kruskal_wallis(groups),
        equal_variances=brown_forsythe(groups),
        normal=normal_residuals(groups),
        pairs=games_howell(groups, confidence),
        extremes=level_contrasts.extremes(found, confidence),
        decisive_p=None if isinstance(decisive, Undefined) else decisive.p,
    )


def _single(one: Effect, p: float | None, tests: int, confidence: float) -> Finding:
    response = one.cells.response
    return Finding(
        study=one.cells.study,
        question="effect",
        response=response,
        title=f"{phrases.name(response)}: effect of {factor_label(one.factor)}",
        statement=statement(one, p, confidence),
        where=one.cells.where(),
        statistics=_numbers(one, p),
        tables=[_tests(one, p), *_pairs(one)],
        caveats=[*one.cells.caveats(), *_caveats(one, 1 - confidence), *_adjusted(tests)],
    )


def statement(one: Effect, p: float | None, confidence: float) -> str:
    """One or two sentences: is there an effect, and how large is it from worst to best?"""
    where, name, factor = one.cells.where(), phrases.name(one.cells.response), factor_label(one.factor)
    size = _size(one)
    if p is None:
        reason = one.classic.reason if isinstance(one.classic, Undefined) else "no test is possible"
        return phrases.placed(where, f"{name} by {factor}: {size} There is no test: {reason}.")
    if p < 1 - confidence:
        return phrases.placed(where, f"{name} depends on {factor} ({test_text(one)}). {size}{_explained(one)}")
    unseen = f"No effect of {factor} on {phrases.inside(one.cells.response)} can be seen ({test_text(one)}). {size}"
    return phrases.placed(where, unseen)


def test_text(one: Effect) -> str:
    """The deciding test: `Welch F(7, 28.3) = 19900, p < 0.0001`."""
    return test_name(one) if one.decisive_p is None else f"{test_name(one)}, {phrases.p(one.decisive_p)}"


def test_name(one: Effect) -> str:
    """The deciding test without its p: `Welch F(7, 28.3) = 42.1`."""
    decides = one.welch if isinstance(one.welch, Welch) else one.classic
    if isinstance(decides, Undefined):
        return "not tested"
    name = "Welch F" if isinstance(decides, Welch) else "F"
    return f"{name}({decides.df_between}, {decides.df_within:.3g}) = {phrases.plain_number(decides.f)}"


def range_sentence(one: Effect) -> str:
    """Best and worst level as seen, without what follows from them."""
    return phrases.placed(one.cells.where(), f"{phrases.name(one.cells.response)} is {_range(one)}.")


def _range(one: Effect) -> str:
    best, worst, response = one.extremes.best, one.extremes.worst, one.cells.response
    shown = [
        f"{phrases.at(one.factor, cell.point[one.factor])} ({phrases.value(response, mean_of(cell.values))})"
        for cell in (best, worst)
    ]
    words = ("lowest (best)", "highest") if lower_is_better(response) else ("highest", "lowest")
    return f"{words[0]} {shown[0]} and {words[1]} {shown[1]}"


def _size(one: Effect) -> str:
    told = f"It is {_range(one)}"
    if one.extremes.ratio is None:
        return f"{told}."
    return f"{told}, a ratio of {phrases.ratio(one.extremes.ratio, one.extremes.interval)}."


def _explained(one: Effect) -> str:
    if isinstance(one.classic, Undefined):
        return ""
    share = max(one.classic.omega2, 0.0)
    return f" It explains {phrases.percent(share)} of the variation between trials."


def _numbers(one: Effect, p: float | None) -> dict[str, Any]:
    names = [cell.point[one.factor] for cell in one.cells.cells]
    pairs = one.pairs
    return {
        "factor": one.factor,
        "levels": names,
        "classic": plain(one.classic),
        "welch": plain(one.welch),
        "kruskal_wallis": plain(one.ranks),
        "brown_forsythe": plain(one.equal_variances),
        "shapiro_wilk": plain(one.normal),
        "games_howell": plain(pairs)
        if isinstance(pairs, Undefined)
        else [{**plain(pair), "first": names[pair.first], "second": names[pair.second]} for pair in pairs],
        "p_holm": p,
        "best": one.extremes.best.point[one.factor],
        "worst": one.extremes.worst.point[one.factor],
        "ratio": one.extremes.ratio,
        "ratio_interval": plain(one.extremes.interval),
    }


def _tests(one: Effect, p: float | None) -> Table:
    rows: list[list[Any]] = [
        ["Welch ANOVA (decides)", *_welch_row(one.welch)],
        ["classic ANOVA", *_classic_row(one.classic)],
    ]
    if ranks := one.ranks if isinstance(one.ranks, Ranks) else None:
        rows.append(["Kruskal-Wallis", ranks.h, str(ranks.df), ranks.p, f"epsilon² = {ranks.epsilon2:.3f}"])
    for name, found in (
        ("Brown-Forsythe (equal variances?)", one.equal_variances),
        ("Shapiro-Wilk (normal residuals?)", one.normal),
    ):
        if isinstance(found, Assumption):
            rows.append([name, found.statistic, "", found.p, ""])
    if p is not None:
        rows.append(["decisive p, adjusted (Holm)", None, "", p, ""])
    return Table(["test", "statistic", "degrees of freedom", "p", "effect size"], rows)


def _welch_row(found: Welch | Undefined) -> list[Any]:
    if isinstance(found, Undefined):
        return [None, "", None, f"not computed: {found.reason}"]
    return [found.f, f"{found.df_between}, {found.df_within:.1f}", found.p, f"adjusted omega² = {found.omega2:.3f}"]


def _classic_row(found: OneWay | Undefined) -> list[Any]:
    if isinstance(found, Undefined):
        return [None, "", None, f"not computed: {found.reason}"]
    sizes = f"eta² = {found.eta2:.3f}, omega² = {found.omega2:.3f}"
    return [found.f, f"{found.df_between}, {found.df_within}", found.p, sizes]


def _pairs(one: Effect) -> list[Table]:
    if isinstance(one.pairs, Undefined) or len(one.cells.cells) < 3:
        return []
    levels, unit = [cell.point[one.factor] for cell in one.cells.cells], one.cells.response
    rows = [
        [levels[pair.first], levels[pair.second], pair.difference, pair.low, pair.high, pair.p] for pair in one.pairs
    ]
    columns = [f"{one.factor} (Games-Howell)", "against", "difference", "low", "high", "p, all pairs"]
    return [Table(columns, rows, ["", "", unit, unit, unit, ""])]


def _caveats(one: Effect, risk: float) -> list[str]:
    said = []
    if isinstance(one.welch, Undefined) and isinstance(one.classic, OneWay):
        said.append(f"Welch's analysis is not possible ({one.welch.reason}); the classic one decides.")
    if isinstance(one.equal_variances, Assumption) and one.equal_variances.p < risk:
        said.append(
            f"Conditions scatter differently (Brown-Forsythe {phrases.p(one.equal_variances.p)}): "
            "quote Welch's analysis, not the classic one."
        )
    if isinstance(one.normal, Assumption) and one.normal.p < risk:
        said.append(
            f"Deviations are not normal (Shapiro-Wilk {phrases.p(one.normal.p)}): "
            "look at Kruskal-Wallis and the outliers too."
        )
    if isinstance(one.ranks, Ranks) and one.decisive_p is not None and (one.ranks.p < risk) != (one.decisive_p < risk):
        said.append(f"The rank test disagrees (Kruskal-Wallis {phrases.p(one.ranks.p)}): do not lean on this result.")
    if min(cell.values.size for cell in one.cells.cells) < 4:
        said.append(
            "With fewer than four repetitions a condition's variance is a guess, and tests of assumptions see little."
        )
    return said


def _adjusted(tests: int) -> list[str]:
    return [f"The decision uses p adjusted for the {tests} tests of this response (Holm)."] if tests > 1 else []


def _shared(found: Cells, group: Sequence[Effect], adjusted: Sequence[float | None], confidence: float) -> Finding:
    """One finding for the same factor in many places: a row each."""
    factor = group[0].factor
    matter = [one for one, p in zip(group, adjusted, strict=True) if p is not None and p < 1 - confidence]
    rows = [_shared_row(one, p) for one, p in zip(group, adjusted, strict=True)]
    columns = [*group[0].cells.where(), "Welch F", "p", "p adjusted", "best", "worst", "ratio", "low", "high"]
    return Finding(
        study=found.study,
        question="effect",
        response=found.response,
        title=f"{phrases.name(found.response)}: effect of {factor_label(factor)}",
        statement=_shared_statement(found.response, factor, group, matter),
        statistics={
            "factor": factor,
            "slices": [
                {"where": one.cells.where(), **_numbers(one, p)} for one, p in zip(group, adjusted, strict=True)
            ],
            "different": len(matter),
        },
        tables=[Table(columns, rows)],
        caveats=[*found.caveats(), *_adjusted(sum(p is not None for p in adjusted))],
    )


def _shared_statement(response: str, factor: str, group: Sequence[Effect], matter: Sequence[Effect]) -> str:
    if not matter:
        name = phrases.inside(response)
        return f"No effect of {factor_label(factor)} on {name} can be seen in any of {len(group)} places."
    told = f"{phrases.name(response)} depends on {factor_label(factor)} in {len(matter)} of {len(group)} places."
    known = [one for one in matter if one.extremes.ratio is not None]
    if not known:
        return told
    largest = max(known, key=lambda one: one.extremes.ratio or 0.0)
    return f"{told} The difference is largest {phrases.circumstances(largest.cells.where())}. {_size(largest)}"


def _shared_row(one: Effect, p: float | None) -> list[Any]:
    bounds = one.extremes.interval
    return [
        *one.cells.where().values(),
        one.welch.f if isinstance(one.welch, Welch) else None,
        one.decisive_p,
        p,
        one.extremes.best.point[one.factor],
        one.extremes.worst.point[one.factor],
        one.extremes.ratio,
        bounds.low if bounds else None,
        bounds.high if bounds else None,
    ]
