"""What a study comes to, in three paragraphs of plain English: observation, statistics, conclusion. All computed.

The statement is the summary (`summary_sentences.py`), the few sentences that matter most; `statistics` holds the three
paragraphs
and the facts that they were made from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ioassay.analysis.effects import block_size_mix, one_factor, regression, response_shape
from ioassay.analysis.effects.one_factor import Effect
from ioassay.analysis.measurements import missing_trials
from ioassay.analysis.measurements.cells import Cells, cells
from ioassay.analysis.optimum import alternatives, study_focus
from ioassay.analysis.optimum.study_focus import Focus
from ioassay.analysis.threats import threat_checks
from ioassay.factors import CASE, factor_label, level_axis_numbers
from ioassay.narrative import (
    choice_text,
    effect_text,
    opening,
    phrases,
    regression_text,
    summary_sentences,
    threats_text,
)
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.sentences import (
    average_sentence,
    best_sentence,
    mix_sentences,
    quiet_sentence,
    shape_sentence,
    single_sentence,
)
from ioassay.stats.anova import OneWay, Welch
from ioassay.stats.ratio_of_means import Ratio
from ioassay.stats.result import plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

TESTS = ("Response", "Over", "Test over repetitions", "p", "omega²", "Regression slope", "R²")


@dataclass
class Paragraphs:
    """Sentences as they are found; `facts` in the order of `conclusion`."""

    observation: list[str] = field(default_factory=list)
    statistics: list[str] = field(default_factory=list)
    conclusion: list[str] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)
    lines: list[Sequence[Any]] = field(default_factory=list)
    """Rows of `TESTS`, which `statistics` says in words."""
    comparisons: list[str] = field(default_factory=list)
    """Sentences of `statistics` that no row says."""
    brief: summary_sentences.Summary = field(default_factory=summary_sentences.Summary)
    quiet: list[tuple[Cells, str]] = field(default_factory=list)
    """Where nothing was seen: cells and the factor that varies in them."""

    def conclude(self, sentence: str, **fact: Any) -> None:
        """Add one sentence and what it rests on."""
        self.conclusion.append(sentence)
        self.facts.append(plain(fact))


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding for the study; none when nothing was measured."""
    confidence, told = study.analysis.confidence, Paragraphs()
    missing = missing_trials.missing(records, study)
    _lead(told, leading := study_focus.focus(records, study))
    for response in _responses(told, records, study, leading):
        found = cells(records, study, response)
        if found.cells:
            _response(told, found, study, confidence, leading)
    told.brief.lost(missing_trials.sentences(missing, study))
    if told.quiet:
        told.brief.whole(quiet_sentence(told.quiet))
        told.conclude(quiet_sentence(told.quiet), quiet=[part.response for part, _ in told.quiet])
    if not told.conclusion and not missing:
        return []
    threats = [threat for threat in threat_checks.analyse(records, study) if threat.severity == "warning"]
    return [
        Finding(
            study=study.name,
            question="conclude",
            response="",
            title=study.title or study.name,
            statement=" ".join(told.brief.told(told.conclusion)),
            statistics={
                "summary": told.brief.told(told.conclusion),
                "observation": told.observation,
                "statistics": told.statistics,
                "comparisons": told.comparisons,
                "conclusion": told.conclusion,
                "facts": told.facts,
                "not_measured": [one.as_dict() for one in missing],
            },
            tables=[Table(TESTS, told.lines)] if told.lines else [],
            caveats=[threats_text.sentence(threat) for threat in threats],
        )
    ]


def _lead(told: Paragraphs, leading: Focus | None) -> None:
    """What a study of peaks is about comes before all else."""
    for sentence, fact in zip(opening.paragraphs(leading), leading.facts(), strict=True) if leading else ():
        told.brief.peak(sentence)
        told.conclude(sentence, **fact)


def _responses(told: Paragraphs, records: Dataset, study: Study, leading: Focus | None) -> list[str]:
    """Those whose factors are told one by one: of a choice the first alone, since the choice itself was told of all."""
    if leading is None or study.analysis.lead != "choice":
        return records.responses(study)
    told.observation += [" ".join(choice_text.sentences(one)) for one in alternatives.choices(records, study)]
    return [leading.response]


def _response(told: Paragraphs, found: Cells, study: Study, confidence: float, leading: Focus | None = None) -> None:
    if len(found.cells) == 1:
        sentence, fact = single_sentence(found, confidence)
        told.observation.append(sentence)
        told.brief.whole(sentence)
        told.conclude(sentence, **fact)
        return
    for factor in found.varying():
        numeric = level_axis_numbers(factor, found.factors[factor]) is not None and len(found.factors[factor]) > 2
        parts = [part for part in found.slices(factor) if len(part.cells) > 1]
        led = leading is not None and leading.covers(found.response, factor)
        if numeric:
            for part in parts:
                _ordered(told, part, factor, confidence, led)
        elif len(found.factors[factor]) == 2 and len(parts) > 1:
            _two_levels(told, found, factor, confidence)
        elif study.analysis.lead == "choice":
            continue  # which case is best in each place is told; what a case does over words would hide it
        elif factor != CASE or not _mixed(told, found, study, confidence):
            for part in parts:
                _unordered(told, part, factor, confidence, led)


def _ordered(told: Paragraphs, part: Cells, factor: str, confidence: float, led: bool) -> None:
    """A numeric factor where all others are fixed: its shape, its test, its line; `led`: its peak was told before."""
    curve = response_shape.shape(part, factor, confidence)
    effect = one_factor.effect(part, factor, confidence)
    told.observation.append(effect_text.range_sentence(effect))
    told.statistics.append(_tested(effect))
    line = regression.fit(part, factor, confidence)
    told.lines.append(_line(effect, line))
    if line is not None:
        told.statistics.append(
            f"The {line.preferred.kind} regression has the slope {regression_text.slope(line)}, "
            f"R² = {line.preferred.line.r2:.3f}."
        )
    if curve is not None and curve.kind == response_shape.UNCLEAR:
        told.quiet += [] if led else [(part, factor)]
    elif curve is not None:
        if not led:
            told.brief.shape(part, curve)
        told.conclude(
            shape_sentence(part, curve),
            response=part.response,
            where=part.where(),
            factor=factor,
            shape=curve.kind,
            change=curve.change,
            interval=curve.interval,
            tendency=curve.tendency,
            best=effect.extremes.best.point[factor],
            plateau=curve.plateau.point[factor] if curve.plateau else None,
        )


def _two_levels(told: Paragraphs, found: Cells, factor: str, confidence: float) -> None:
    """A factor with two words, such as sequential and random: one ratio over all places where both have values."""
    ratio = response_shape.average_change(found, factor, confidence)
    first, second = found.factors[factor]
    if isinstance(ratio, Ratio):
        told.brief.pair(found, factor, ratio)
        told.comparisons.append(
            f"{phrases.name(found.response)} {phrases.at(factor, second)} over that "
            f"{phrases.at(factor, first)} is {phrases.ratio(ratio.ratio, ratio.interval)} on average "
            f"({phrases.p(ratio.p)})."
        )
        told.statistics.append(told.comparisons[-1])
        told.conclude(
            average_sentence(found, factor, ratio),
            response=found.response,
            factor=factor,
            levels=[first, second],
            ratio=ratio,
        )


def _mixed(told: Paragraphs, found: Cells, study: Study, confidence: float) -> bool:
    measured = block_size_mix.mixes(found, study, confidence)
    for one in measured:
        seen, tested, concluded = mix_sentences(found, one)
        told.observation.append(seen)
        told.statistics.append(tested)
        told.comparisons.append(tested)
        told.brief.mix(seen, one)
        told.conclude(
            concluded,
            response=found.response,
            point=one.cell.point,
            against=dict(one.against),
            predicted=one.predicted,
        )
    return bool(measured)


def _unordered(told: Paragraphs, part: Cells, factor: str, confidence: float, led: bool) -> None:
    effect = one_factor.effect(part, factor, confidence)
    told.observation.append(effect_text.range_sentence(effect))
    told.statistics.append(_tested(effect))
    told.lines.append(_line(effect, None))
    if effect.decisive_p is not None and effect.decisive_p >= 1 - confidence:
        told.quiet += [] if led else [(part, factor)]
        return
    if not led:
        told.brief.whole(best_sentence(effect))
    told.conclude(
        best_sentence(effect),
        response=part.response,
        where=part.where(),
        factor=factor,
        best=effect.extremes.best.point[factor],
        worst=effect.extremes.worst.point[factor],
        ratio=effect.extremes.ratio,
        interval=effect.extremes.interval,
    )


def _line(effect: Effect, line: regression.Regression | None) -> list[Any]:
    """A row of `TESTS`."""
    known = phrases.levels(effect.cells.where())
    name = phrases.name(effect.cells.response)
    share = max(effect.classic.omega2, 0.0) if isinstance(effect.classic, OneWay) else None
    p = None if effect.decisive_p is None else float(f"{effect.decisive_p:.2g}")
    tested = [effect_text.test_name(effect), p, None if share is None else round(share, 2)]
    fitted: list[Any] = [None, None]
    if line is not None:
        fitted = [regression_text.slope(line), round(line.preferred.line.r2, 3)]
    return [f"{name}, {known}" if known else name, factor_label(effect.factor), *tested, *fitted]


def _tested(effect: Effect) -> str:
    named = f"{phrases.name(effect.cells.response)} by {factor_label(effect.factor)}"
    name = phrases.placed(effect.cells.where(), named)
    if effect.decisive_p is None:
        reason = effect.classic.reason if not isinstance(effect.classic, OneWay) else ""
        return f"{name}: no test is possible ({reason})."
    share = f", omega² = {max(effect.classic.omega2, 0.0):.2f}" if isinstance(effect.classic, OneWay) else ""
    kind = "over repetitions" if isinstance(effect.welch, Welch) else "over repetitions, equal variances supposed"
    return f"{name}: {effect_text.test_text(effect)} {kind}{share}."
