"""What a study comes to, in three paragraphs: observation, statistics, conclusion; and the summary of a few sentences.

`statistics` of the finding hold the paragraphs and the facts that they rest on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ioassay.analysis.conclusion import Conclusion, FactorChange, Mean, MixChange, Part
from ioassay.analysis.effects.average_change import AverageChange
from ioassay.analysis.effects.one_factor import Effect
from ioassay.analysis.effects.one_factor import Outcome as EffectOutcome
from ioassay.analysis.optimum.optimum import SEPARATE_SLICES, Outcome, Peak
from ioassay.analysis.optimum.study_focus import Focus
from ioassay.factors import factor_label
from ioassay.narrative import (
    choice_text,
    effect_text,
    omissions,
    peak_tables,
    peak_text,
    phrases,
    regression_text,
    sentences,
    summary_sentences,
    threats_text,
)
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.result import Undefined, plain

TESTS = ("Response", "Over", "Outcome", "p, all pairs", "omega²", "Regression slope", "R²")
REGRESSION = "The {kind} regression has a slope of {slope}, R² = {r2:.3f}."
AVERAGE = "{name} {second} over that {first} is {ratio} on average ({p})."


@dataclass(frozen=True)
class _PartText:
    """What one part adds to each paragraph. `row` of TESTS says in numbers what `tests` say in words."""

    observation: str = ""
    tests: Sequence[str] = ()
    row: Sequence[Any] = ()
    comparison: str = ""
    conclusion: str = ""
    fact: dict[str, Any] = field(default_factory=dict)


def findings(answers: Sequence[Conclusion]) -> list[Finding]:
    """One finding for the study; none where there is nothing to conclude."""
    found = [_finding(conclusion) for conclusion in answers]
    return [finding for finding in found if finding.statement]


def _finding(conclusion: Conclusion) -> Finding:
    study, focus = conclusion.study, conclusion.focus
    opened = opening(focus) if focus else []
    texts = [_part(part) for part in conclusion.parts]
    quiet = [
        part.effect for part in conclusion.parts if isinstance(part, FactorChange) and part.quiet and not part.covered
    ]
    concluded = [*opened, *(text.conclusion for text in texts if text.conclusion)]
    facts = [*(focus.facts() if focus else []), *(text.fact for text in texts if text.conclusion)]
    if quiet:
        concluded.append(sentences.undecided_sentence(quiet))
        facts.append({"quiet": [effect.cells.response for effect in quiet]})
    choices = [" ".join(choice_text.sentences(choice)) for choice in focus.choices] if focus else []
    observation = [*choices, *(text.observation for text in texts if text.observation)]
    comparisons = [text.comparison for text in texts if text.comparison]
    summary = summary_sentences.summary(opened, conclusion.parts, quiet) or concluded[: summary_sentences.MOST]
    left_out = omissions.missing_conditions(conclusion.missing)
    summary += left_out
    rows = [text.row for text in texts if text.row]
    return Finding(
        study=study.name,
        question="conclude",
        response="",
        title=study.title or study.name,
        statements=summary,
        details=[*observation, *comparisons, *concluded],
        omissions=left_out,
        statistics={
            "facts": plain(facts),
            "not_measured": [group.as_dict() for group in conclusion.missing],
        },
        tables=[Table(TESTS, rows)] if rows else [],
        caveats=[threats_text.sentence(threat) for threat in conclusion.threats],
    )


def _part(part: Part) -> _PartText:
    match part:
        case Mean():
            fact = {name: getattr(part, name) for name in ("response", "mean", "interval")}
            sentence = sentences.mean_sentence(part)
            return _PartText(observation=sentence, conclusion=sentence, fact={**fact, "point": part.cell.point})
        case FactorChange():
            return _factor(part)
        case AverageChange():
            return _average(part)
        case MixChange():
            observation, tested, concluded = sentences.mix_sentences(part.cells, part.mix)
            mix = part.mix
            fact = {"response": part.cells.response, "point": mix.cell.point, "against": dict(mix.against)}
            return _PartText(
                observation=observation,
                comparison=tested,
                conclusion=concluded,
                fact={**fact, "predicted": mix.predicted},
            )


def _factor(part: FactorChange) -> _PartText:
    effect, line = part.effect, part.line
    tests = [_tested(effect)]
    if line is not None and not line.turns:
        model = line.preferred
        tests.append(REGRESSION.format(kind=model.kind, slope=regression_text.slope(line), r2=model.line.r2))
    text = _PartText(observation=effect_text.range_sentence(effect), tests=tests, row=_row(part))
    if part.quiet:
        return text
    fact: dict[str, Any] = {
        "response": effect.cells.response,
        "where": effect.cells.where(),
        "factor": effect.factor,
        "best": effect.extremes.best.point[effect.factor],
    }
    if effect.outcome == EffectOutcome.NOT_TESTED:
        return _PartText(text.observation, tests, text.row, conclusion=sentences.untested_sentence(effect), fact=fact)
    if curve := effect.shape:
        plateau = curve.plateau.point[effect.factor] if curve.plateau else None
        fact |= {"shape": curve.kind, "change": curve.change.estimate, "interval": curve.change.interval}
        fact |= {"outcome": effect.outcome.value, "tendency": curve.tendency, "plateau": plateau}
        return _PartText(text.observation, tests, text.row, conclusion=sentences.shape_sentence(effect), fact=fact)
    extremes = effect.extremes
    fact |= {"outcome": effect.outcome.value, "worst": extremes.worst.point[effect.factor], "ratio": extremes.ratio}
    fact |= {"interval": extremes.pair.interval if extremes.pair else None}
    return _PartText(text.observation, tests, text.row, conclusion=sentences.best_sentence(effect), fact=fact)


def _average(part: AverageChange) -> _PartText:
    first, second = part.levels
    comparison = AVERAGE.format(
        name=phrases.subject(part.cells.response),
        first=phrases.at(part.factor, first),
        second=phrases.at(part.factor, second),
        ratio=phrases.ratio(part.ratio.ratio, part.ratio.interval),
        p=phrases.p(part.ratio.p),
    )
    return _PartText(
        comparison=comparison,
        conclusion=sentences.average_sentence(part),
        fact={
            "response": part.cells.response,
            "factor": part.factor,
            "levels": [first, second],
            "ratio": part.ratio,
        },
    )


def _row(part: FactorChange) -> list[Any]:
    effect, line = part.effect, part.line
    known, name = phrases.levels(effect.cells.where()), phrases.name(effect.cells.response)
    p, share = effect.p, effect.explained
    tested = [effect.outcome.value, None if p is None else float(f"{p:.2g}")]
    fitted = (
        [None, None] if line is None or line.turns else [regression_text.slope(line), round(line.preferred.line.r2, 3)]
    )
    return [
        f"{name}, {known}" if known else name,
        factor_label(effect.factor),
        *tested,
        None if share is None else round(share, 2),
        *fitted,
    ]


def _tested(effect: Effect) -> str:
    named = f"{phrases.name(effect.cells.response)} by {factor_label(effect.factor)}"
    name, share = phrases.placed(effect.cells.where(), named), effect.explained
    if isinstance(effect.family.contrasts, Undefined):
        return f"{name}: no test is possible ({effect.family.contrasts.reason})."
    size = "" if share is None else f", omega² = {share:.2f}"
    return f"{name}: {effect_text.test_text(effect)}{size}."


# What the study is about


def opening(focus: Focus) -> list[str]:
    """The paragraphs of a focus, which open the summary, in the order of `focus.facts()`."""
    if focus.choices:
        first, *others = focus.choices
        brief = [choice_text.in_brief(others)] if others else []
        plateaus = [_plateaus(focus.response, factor, peaks) for factor, peaks in focus.peaks.items()]
        return [" ".join(choice_text.sentences(first)), *brief, *plateaus]
    text = []
    for peaks in focus.peaks.values():
        if len(peaks) <= SEPARATE_SLICES:
            text += [" ".join([*peak_text.in_brief(one), *peak_text.scaling(one)]) for one in peaks]
        else:
            many = len(peaks) > peak_text.MOST_PLACES
            text.append((peak_text.shared_statement if many else peak_text.by_place)(focus.response, peaks))
    return text


def _plateaus(response: str, factor: str, peaks: Sequence[Peak]) -> str:
    """From which level on each place gains nothing."""
    begins = [
        f"{peak_tables.phrase_at(one, one.plateau.first)} with {phrases.levels(one.part.where())}"
        for one in peaks
        if one.plateau is not None and one.outcome == Outcome.SATURATES
    ]
    others = [phrases.levels(one.part.where()) for one in peaks if one.plateau is None]
    name, over = phrases.name(response), factor_label(factor)
    if not begins:
        return f"The data show no {over} from which on {phrases.inside(response)} gains nothing."
    rest = f" The data show no such {over} with {phrases.listed(others, 9)}." if others else ""
    margin = phrases.percent(MARGIN)
    return f"{name} gains at most {margin} beyond {phrases.listed(begins, 9)}.{rest}"
