"""Sentences about the effects of factors: one at a time, all together, and three analyses of variance compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay.analysis.effects.anova_variants import AnovaVariants
from ioassay.analysis.effects.factor_effects import Answer
from ioassay.analysis.effects.factorial_anova import FactorPair, JointEffects
from ioassay.analysis.effects.factorial_anova import Outcome as Joint
from ioassay.analysis.effects.level_contrasts import lower_is_better
from ioassay.analysis.effects.one_factor import Effect, FactorEffects, Outcome
from ioassay.analysis.measurements.cells import Cells
from ioassay.factors import factor_label, level_phrase
from ioassay.narrative import omissions, phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.sentences import shape_phrase
from ioassay.stats.anova import OneWay, Welch
from ioassay.stats.condition_means import Scale
from ioassay.stats.contrasts import MARGIN, Contrasts
from ioassay.stats.factorial import BLOCK, Factorial
from ioassay.stats.result import Undefined, mean_of, plain

SEPARATE_SLICES = 4
"""Up to this number of combinations of the other factors, each gets a finding; more share one."""

SMALLEST_SHARE = 0.001
"""Smaller shares of the variation have no number."""

EFFECT = {
    Outcome.NOT_TESTED: "{name} is {range}. No test of {factor} is possible: {reason}.",
    Outcome.DIFFERENCE: "{name} depends on {factor} ({test}). It is {range}.",
    Outcome.NO_DIRECTION: "{name} depends on {factor} without a clear direction ({test}). It is {range}.",
    Outcome.EQUIVALENT: "{name} differs by at most {margin} over {factor}. It is {range}.",
    Outcome.TREND: "{name} {shape}. No two levels alone are distinguishable ({test}). It is {range}.",
    Outcome.UNDECIDED: "The data do not show whether {noun} depends on {factor} ({test}).{needed} It is {range}.",
}
NEEDED = " A difference of {margin} needs {needed} per level."
EXPLAINED = " The factor explains {share} of the variation between trials."
FEW_REPETITIONS = "With fewer than four repetitions, the scatter of a level is taken mostly from that of all levels."

DIFFERENT_PLACES = "{name} depends on {factor} in {different} of {places} combinations of the other factors."
ALIKE_PLACES = "{name} differs by at most {margin} over {factor} in {alike} of {places} combinations."
UNDECIDED_PLACES = "The data do not show whether {noun} depends on {factor} in {undecided} of {places} combinations."
UNTESTED_PLACES = "No test of {factor} is possible in any of {places} combinations of the other factors."
LARGEST = "The difference is largest {place}. It is {range}."

SHARES = "Of the variation of {name} between trials, {shares}."
INTERACTION = {
    Joint.NOT_ESTIMATED: "",
    Joint.ABSENT: " The ratios between levels of one factor agree to within {margin} over each other factor.",
    Joint.UNDECIDED: " The data do not show whether {pairs} interact ({p}).{needed}",
    Joint.PRESENT: (
        " {capital_pairs} interact ({p}). Read the effect of each where the other is fixed. "
        "It is clearest in the ratio of {upper} to {lower}. {there} it is {ratio} times the ratio {here}."
    ),
}
INTERACTION_NEEDED = " That needs {needed} per condition."
NO_INTERACTION = "Without repetitions the interaction cannot be separated from chance and is left out."
NO_TYPE_3 = "Type III sums of squares are not given: {reason}."
EQUAL_SCATTER = (
    "The analysis of variance supposes that all conditions scatter alike. Its shares describe, and its F tests decide "
    "nothing: whether factors interact is read from the contrasts of the condition means."
)

ALL_SAMPLES = "Over all log samples (naive), conditions {verdict} with {df} degrees of freedom."
SINGLE_REPETITIONS = "Over the log samples of single repetitions (naive), they differ in {different} of {repetitions}."
REPETITIONS = "Over repetitions (the unit), {df} degrees of freedom are left ({p}). The contrasts decide."
NO_TEST = "Over repetitions no test is possible: {reason}."
ONE_REPETITION = "An analysis of one repetition cannot know how much the next one would differ."
PROPER = "over repetitions (the unit)"


def findings(answers: Sequence[Answer]) -> list[Finding]:
    """Up to SEPARATE_SLICES findings for the effects of a factor, one for any other answer."""
    return [finding for answer in answers for finding in _findings(answer)]


def _findings(answer: Answer) -> list[Finding]:
    match answer:
        case FactorEffects():
            separate = len(answer.effects) <= SEPARATE_SLICES
            return [_single(effect) for effect in answer.effects] if separate else [_shared(answer)]
        case JointEffects():
            return [_joint(answer)]
        case AnovaVariants():
            return [_variants(answer)]


def _about(cells: Cells, title: str, **parts: Any) -> Finding:
    name = phrases.name(cells.response)
    return Finding(study=cells.study, question="effect", response=cells.response, title=f"{name}: {title}", **parts)


# One factor


def _single(effect: Effect) -> Finding:
    few = min(cell.values.size for cell in effect.cells.cells) < 4 and effect.outcome != Outcome.NOT_TESTED
    return _about(
        effect.cells,
        f"effect of {factor_label(effect.factor)}",
        statements=statement(effect),
        where=effect.cells.where(),
        statistics=_numbers(effect),
        tables=[_tests(effect), *_pairs(effect)],
        caveats=[*omissions.left_out(effect.cells), *([FEW_REPETITIONS] if few else [])],
    )


def statement(effect: Effect) -> str:
    """Is there an effect, and how large is it from worst to best?"""
    contrasts = effect.family.contrasts
    sentences = EFFECT[effect.outcome].format(
        name=phrases.subject(effect.cells.response),
        noun=phrases.noun(effect.cells.response),
        factor=phrases.factor_noun(effect.factor),
        margin=phrases.percent(MARGIN),
        range=_range(effect),
        reason=contrasts.reason if isinstance(contrasts, Undefined) else "",
        test=test_text(effect),
        shape=shape_phrase(effect.shape) if effect.shape else "",
        needed=_needed(effect),
    )
    if effect.outcome == Outcome.DIFFERENCE and effect.explained is not None:
        sentences += EXPLAINED.format(share=phrases.percent(effect.explained))
    return phrases.placed(effect.cells.where(), sentences)


def _needed(effect: Effect) -> str:
    if effect.needed is None:
        return ""
    return NEEDED.format(margin=phrases.percent(MARGIN), needed=phrases.repetitions_needed(effect.needed))


def test_text(effect: Effect) -> str:
    """The deciding test: `p = 0.003 for all pairs`."""
    return "not tested" if effect.p is None else f"{phrases.p(effect.p)} for all pairs"


def range_sentence(effect: Effect) -> str:
    """Best and worst level, without what follows from them."""
    return phrases.placed(effect.cells.where(), f"{phrases.subject(effect.cells.response)} is {_extremes(effect)}.")


def _extremes(effect: Effect) -> str:
    best, worst, response = effect.extremes.best, effect.extremes.worst, effect.cells.response
    shown = [
        f"{phrases.at(effect.factor, cell.point[effect.factor])} ({phrases.value(response, mean_of(cell.values))})"
        for cell in (best, worst)
    ]
    words = ("lowest (best)", "highest") if lower_is_better(response) else ("highest", "lowest")
    return f"{words[0]} {shown[0]} and {words[1]} {shown[1]}"


def _range(effect: Effect) -> str:
    extremes = effect.extremes
    bounds = extremes.pair.interval if extremes.pair else None
    size = "" if extremes.ratio is None else f", a ratio of {phrases.ratio(extremes.ratio, bounds)}"
    return f"{_extremes(effect)}{size}"


def _numbers(effect: Effect) -> dict[str, Any]:
    extremes = effect.extremes
    return {
        "factor": effect.factor,
        "levels": [cell.point[effect.factor] for cell in effect.cells.cells],
        "outcome": effect.outcome.value,
        "shape": effect.shape.kind if effect.shape else None,
        "classic": plain(effect.classic),
        "welch": plain(effect.welch),
        "pairs": [_pair(effect, *places) for places in _places(effect)],
        "p": effect.p,
        "best": extremes.best.point[effect.factor],
        "worst": extremes.worst.point[effect.factor],
        "ratio": extremes.ratio,
        "ratio_interval": plain(extremes.pair.interval) if extremes.pair else None,
        "repetitions_needed": effect.needed,
    }


def _places(effect: Effect) -> list[tuple[int, int]]:
    """The pairs of levels, later against earlier."""
    if isinstance(effect.family.contrasts, Undefined):
        return []
    count = len(effect.family.cells)
    return [(second, first) for first in range(count) for second in range(first + 1, count)]


def _pair(effect: Effect, high: int, low: int) -> dict[str, Any]:
    contrasts, levels = effect.family.contrasts, [cell.point[effect.factor] for cell in effect.family.cells]
    assert isinstance(contrasts, Contrasts)
    pair = contrasts.pair(high, low)
    return {
        "level": levels[high],
        "against": levels[low],
        "scale": contrasts.means.scale,
        "estimate": pair.estimate,
        "interval": plain(pair.interval),
        "p": pair.p,
        "within_margin": contrasts.equal(high, low),
    }


def _tests(effect: Effect) -> Table:
    rows: list[list[Any]] = [
        ["contrasts of all pairs (decide)", None, "", effect.p, ""],
        ["Welch ANOVA", *_welch_row(effect.welch)],
        ["classic ANOVA", *_classic_row(effect.classic)],
    ]
    return Table(["test", "statistic", "degrees of freedom", "p", "effect size"], rows)


def _welch_row(welch: Welch | Undefined) -> list[Any]:
    if isinstance(welch, Undefined):
        return [None, "", None, f"not computed: {welch.reason}"]
    return [welch.f, f"{welch.df_between}, {welch.df_within:.1f}", welch.p, f"adjusted omega² = {welch.omega2:.3f}"]


def _classic_row(classic: OneWay | Undefined) -> list[Any]:
    if isinstance(classic, Undefined):
        return [None, "", None, f"not computed: {classic.reason}"]
    sizes = f"eta² = {classic.eta2:.3f}, omega² = {classic.omega2:.3f}"
    return [classic.f, f"{classic.df_between}, {classic.df_within}", classic.p, sizes]


def _pairs(effect: Effect) -> list[Table]:
    pairs = [_pair(effect, *places) for places in _places(effect)]
    if len(pairs) < 2:
        return []
    raw = pairs[0]["scale"] == Scale.RAW
    rows = [
        [
            pair["level"],
            pair["against"],
            pair["estimate"],
            pair["interval"]["low"],
            pair["interval"]["high"],
            pair["p"],
            "yes" if pair["within_margin"] else "",
        ]
        for pair in pairs
    ]
    unit = effect.cells.response if raw else ""
    columns = [factor_label(effect.factor), "against", "difference" if raw else "ratio", "low", "high", "p, all pairs"]
    return [Table([*columns, f"within {phrases.percent(MARGIN)}"], rows, ["", "", unit, unit, unit, "", ""])]


def _shared(answer: FactorEffects) -> Finding:
    """One finding for the same factor in many places: a row each."""
    columns = [*answer.effects[0].cells.where(), "outcome", "p, all pairs", "best", "worst", "ratio", "low", "high"]
    return _about(
        answer.cells,
        f"effect of {factor_label(answer.factor)}",
        statements=_shared_statement(answer),
        statistics={
            "factor": answer.factor,
            "slices": [{"where": effect.cells.where(), **_numbers(effect)} for effect in answer.effects],
            "different": len(answer.different),
        },
        tables=[Table(columns, [_shared_row(effect) for effect in answer.effects])],
        caveats=omissions.left_out(answer.cells),
    )


def _shared_statement(answer: FactorEffects) -> str:
    outcomes = [effect.outcome for effect in answer.effects]
    alike, undecided = (outcomes.count(outcome) for outcome in (Outcome.EQUIVALENT, Outcome.UNDECIDED))
    different = sum(outcome in (Outcome.DIFFERENCE, Outcome.NO_DIRECTION, Outcome.TREND) for outcome in outcomes)
    counted = [(different, DIFFERENT_PLACES), (alike, ALIKE_PLACES), (undecided, UNDECIDED_PLACES)]
    templates = [template for number, template in counted if number] or [UNTESTED_PLACES]
    sentences = [
        template.format(
            name=phrases.subject(answer.cells.response),
            noun=phrases.noun(answer.cells.response),
            factor=phrases.factor_noun(answer.factor),
            margin=phrases.percent(MARGIN),
            different=different,
            alike=alike,
            undecided=undecided,
            places=len(answer.effects),
        )
        for template in templates
    ]
    known = [effect for effect in answer.different if effect.extremes.ratio is not None]
    if known:
        largest = max(known, key=lambda effect: effect.extremes.ratio or 0.0)
        place = phrases.circumstances(largest.cells.where())
        sentences.append(LARGEST.format(place=place, range=_range(largest)))
    return " ".join(sentences)


def _shared_row(effect: Effect) -> list[Any]:
    extremes = effect.extremes
    return [
        *effect.cells.where().values(),
        effect.outcome.value,
        effect.p,
        extremes.best.point[effect.factor],
        extremes.worst.point[effect.factor],
        extremes.ratio,
        *((extremes.pair.interval.low, extremes.pair.interval.high) if extremes.pair else (None, None)),
    ]


# All factors together


def _joint(answer: JointEffects) -> Finding:
    caveats = [] if answer.pairs else [NO_INTERACTION]
    if isinstance(answer.third, Undefined):
        caveats.append(NO_TYPE_3.format(reason=answer.third.reason))
    return _about(
        answer.cells,
        f"{' and '.join(factor_label(name) for name in answer.names)} together",
        statements=_joint_statement(answer),
        statistics={
            "type_2": plain(answer.second),
            "type_3": plain(answer.third),
            "interactions": [_crossed(pair) for pair in answer.pairs],
        },
        tables=[_joint_table(answer.second, answer.third)],
        caveats=[*omissions.left_out(answer.cells), *caveats, EQUAL_SCATTER],
    )


def _crossed(one: FactorPair) -> dict[str, Any]:
    numbers = {"factors": list(one.factors), "levels": [list(levels) for levels in one.levels]}
    return {**numbers, "outcome": one.outcome.value, **plain(one.pair), "repetitions_needed": one.interaction.needed}


def _joint_statement(answer: JointEffects) -> str:
    shares = [
        f"{phrases.factor_noun(effect.term)}{'' if place else ' explains'} {_share(effect.omega2)}"
        for place, effect in enumerate(answer.mains)
    ]
    sentence = SHARES.format(name=phrases.noun(answer.cells.response), shares=phrases.listed(shares))
    if not answer.pairs:
        return sentence
    own = answer.of(answer.outcome)
    clearest, known = own[0], [one.interaction.needed for one in own if one.interaction.needed is not None]
    pairs = ", nor whether ".join(" and ".join(map(phrases.factor_noun, one.factors)) for one in own)
    (first, second), (levels, places) = clearest.factors, clearest.levels
    low, high = (level_phrase(first, level) for level in levels)
    here, there = (phrases.at(second, level) for level in places)
    return sentence + INTERACTION[answer.outcome].format(
        pairs=pairs,
        capital_pairs=phrases.capital(" and ".join(map(phrases.factor_noun, clearest.factors))),
        p=phrases.p(clearest.pair.p),
        needed=INTERACTION_NEEDED.format(needed=phrases.repetitions_needed(max(known))) if known else "",
        margin=phrases.percent(MARGIN),
        upper=high,
        lower=low,
        here=here,
        there=phrases.capital(there),
        ratio=phrases.ratio(clearest.pair.estimate, clearest.pair.interval),
    )


def _share(omega2: float) -> str:
    return phrases.percent(omega2) if omega2 >= SMALLEST_SHARE else f"less than {phrases.percent(SMALLEST_SHARE)}"


def _joint_table(second: Factorial, third: Factorial | Undefined) -> Table:
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


# Three analyses compared


def _variants(answer: AnovaVariants) -> Finding:
    each = answer.per_repetition
    return _about(
        answer.cells,
        "three analyses of variance side by side",
        statements=_variant_statement(answer),
        statistics={
            "risk": 1 - answer.confidence,
            "all_samples": {"label": phrases.NAIVE_LABEL, **plain(answer.all_samples)},
            "per_repetition": [
                {"label": phrases.NAIVE_LABEL, "repetition": number, **plain(analysis)}
                for number, analysis in each.items()
            ],
            "repetitions": plain(answer.repetitions),
            "repetitions_welch": plain(answer.repetitions_welch),
        },
        tables=[_variant_table(answer)],
        caveats=[phrases.NAIVE_REASON, ONE_REPETITION],
    )


def _variant_statement(answer: AnovaVariants) -> str:
    each, proper = answer.per_repetition.values(), answer.repetitions
    different = sum(answer.differs(analysis) for analysis in each)
    sentences = [
        ALL_SAMPLES.format(verdict=_verdict(answer, answer.all_samples), df=answer.all_samples.df_within),
        SINGLE_REPETITIONS.format(different=different, repetitions=phrases.count(len(each), "repetition")),
    ]
    if isinstance(proper, Undefined):
        sentences.append(NO_TEST.format(reason=proper.reason))
    else:
        sentences.append(REPETITIONS.format(p=phrases.p(proper.p), df=proper.df_within))
    return " ".join(sentences)


def _verdict(answer: AnovaVariants, analysis: OneWay) -> str:
    return f"{'seem to differ' if answer.differs(analysis) else 'show no difference'} ({phrases.p(analysis.p)})"


def _variant_table(answer: AnovaVariants) -> Table:
    rows: list[Sequence[Any]] = [_variant_row("all log samples (naive)", answer.all_samples)]
    rows += [
        _variant_row(f"log samples of repetition {number + 1} (naive)", analysis)
        for number, analysis in answer.per_repetition.items()
    ]
    if isinstance(answer.repetitions, OneWay):
        rows.append(_variant_row(PROPER, answer.repetitions))
    if isinstance(welch := answer.repetitions_welch, Welch):
        rows.append([f"{PROPER}, Welch", None, welch.f, f"{welch.df_between}, {welch.df_within:.1f}", welch.p, None])
    return Table(["analysis", "observations", "F", "degrees of freedom", "p", "eta²"], rows)


def _variant_row(name: str, analysis: OneWay) -> list[Any]:
    size = analysis.df_between + analysis.df_within + 1
    return [name, size, analysis.f, f"{analysis.df_between}, {analysis.df_within}", analysis.p, analysis.eta2]
