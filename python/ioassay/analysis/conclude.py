"""What a study comes to, in three paragraphs of plain English: observation, statistics, conclusion. All computed.

The statement is the summary (`brief.py`), the few sentences that matter most; `statistics` holds the three paragraphs
and the facts that they were made from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ioassay.analysis import (
    asked,
    brief,
    caveats,
    choice,
    choice_told,
    lead,
    lost,
    mix,
    one_factor,
    regression,
    shape,
    wording,
)
from ioassay.analysis.cells import Cells, cells
from ioassay.analysis.finding import Finding, Table
from ioassay.analysis.lead import Lead
from ioassay.analysis.one_factor import Effect
from ioassay.analysis.sentences import (
    average_sentence,
    best_sentence,
    mix_sentences,
    quiet_sentence,
    shape_sentence,
    single_sentence,
)
from ioassay.analysis.statistics.anova import OneWay, Welch
from ioassay.analysis.statistics.ratio import Ratio
from ioassay.analysis.statistics.result import plain
from ioassay.record import RecordSet

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
    brief: brief.Brief = field(default_factory=brief.Brief)
    quiet: list[tuple[Cells, str]] = field(default_factory=list)
    """Where nothing was seen: cells and the factor that varies in them."""

    def conclude(self, sentence: str, **fact: Any) -> None:
        """Add one sentence and what it rests on."""
        self.conclusion.append(sentence)
        self.facts.append(plain(fact))


def analyse(records: RecordSet, study: asked.Study) -> list[Finding]:
    """One finding for the study; none when nothing was measured."""
    confidence, told = asked.confidence(study), Paragraphs()
    missing = lost.lost(records, study)
    _lead(told, leading := lead.lead(records, study))
    for response in _responses(told, records, study, leading):
        found = cells(records, study, response)
        if found.cells:
            _response(told, found, study, confidence, leading)
    told.brief.lost(lost.told(missing, study))
    if told.quiet:
        told.brief.whole(quiet_sentence(told.quiet))
        told.conclude(quiet_sentence(told.quiet), quiet=[part.response for part, _ in told.quiet])
    if not told.conclusion and not missing:
        return []
    doubts = [doubt for doubt in caveats.doubts(records, study) if doubt.severity == "warning"]
    return [
        Finding(
            study=str(study["name"]),
            question="conclude",
            response="",
            title=str(study.get("title") or study["name"]),
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
            caveats=[f"{doubt.title}. {doubt.text}" for doubt in doubts],
        )
    ]


def _lead(told: Paragraphs, leading: Lead | None) -> None:
    """What a study of peaks is about comes before all else."""
    for sentence, fact in zip(leading.told, leading.facts, strict=True) if leading else ():
        told.brief.peak(sentence)
        told.conclude(sentence, **fact)


def _responses(told: Paragraphs, records: RecordSet, study: asked.Study, leading: Lead | None) -> list[str]:
    """Those whose factors are told one by one: of a choice the first alone, since the choice itself was told of all."""
    if leading is None or not asked.is_about_choice(study):
        return asked.responses(records, study)
    told.observation += [" ".join(choice_told.sentences(one)) for one in choice.choices(records, study)]
    return [leading.response]


def _response(
    told: Paragraphs, found: Cells, study: asked.Study, confidence: float, leading: Lead | None = None
) -> None:
    if len(found.cells) == 1:
        sentence, fact = single_sentence(found, confidence)
        told.observation.append(sentence)
        told.brief.whole(sentence)
        told.conclude(sentence, **fact)
        return
    for factor in found.varying():
        numeric = asked.numbers(found.factors[factor]) is not None and len(found.factors[factor]) > 2
        parts = [part for part in found.slices(factor) if len(part.cells) > 1]
        led = leading is not None and leading.leads(found.response, factor)
        if numeric:
            for part in parts:
                _ordered(told, part, factor, confidence, led)
        elif len(found.factors[factor]) == 2 and len(parts) > 1:
            _two_levels(told, found, factor, confidence)
        elif asked.is_about_choice(study):
            continue  # which case is best in each place is told; what a case does over words would hide it
        elif factor != asked.CASE or not _mixed(told, found, study, confidence):
            for part in parts:
                _unordered(told, part, factor, confidence, led)


def _ordered(told: Paragraphs, part: Cells, factor: str, confidence: float, led: bool) -> None:
    """A numeric factor where all others are fixed: its shape, its test, its line; `led`: its peak was told before."""
    curve = shape.shape(part, factor, confidence)
    effect = one_factor.effect(part, factor, confidence)
    told.observation.append(one_factor.range_sentence(effect))
    told.statistics.append(_tested(effect))
    line = regression.fit(part, factor, confidence)
    told.lines.append(_line(effect, line))
    if line is not None:
        told.statistics.append(
            f"The {line.preferred.kind} regression has the slope {regression.slope_text(line, line.preferred)}, "
            f"R² = {line.preferred.line.r2:.3f}."
        )
    if curve is not None and curve.kind == shape.UNCLEAR:
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
    ratio = shape.average_change(found, factor, confidence)
    first, second = found.factors[factor]
    if isinstance(ratio, Ratio):
        told.brief.pair(found, factor, ratio)
        told.comparisons.append(
            f"{wording.name(found.response)} {wording.at(factor, second)} over that "
            f"{wording.at(factor, first)} is {wording.ratio(ratio.ratio, ratio.interval)} on average "
            f"({wording.p(ratio.p)})."
        )
        told.statistics.append(told.comparisons[-1])
        told.conclude(
            average_sentence(found, factor, ratio),
            response=found.response,
            factor=factor,
            levels=[first, second],
            ratio=ratio,
        )


def _mixed(told: Paragraphs, found: Cells, study: asked.Study, confidence: float) -> bool:
    measured = mix.mixes(found, study, confidence)
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
    told.observation.append(one_factor.range_sentence(effect))
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
    known = wording.levels(effect.cells.where())
    name = wording.name(effect.cells.response)
    share = max(effect.classic.omega2, 0.0) if isinstance(effect.classic, OneWay) else None
    p = None if effect.decisive_p is None else float(f"{effect.decisive_p:.2g}")
    tested = [one_factor.test_name(effect), p, None if share is None else round(share, 2)]
    fitted: list[Any] = [None, None]
    if line is not None:
        fitted = [regression.slope_text(line, line.preferred), round(line.preferred.line.r2, 3)]
    return [f"{name}, {known}" if known else name, wording.factor(effect.factor), *tested, *fitted]


def _tested(effect: Effect) -> str:
    named = f"{wording.name(effect.cells.response)} by {wording.factor(effect.factor)}"
    name = wording.placed(effect.cells.where(), named)
    if effect.decisive_p is None:
        reason = effect.classic.reason if not isinstance(effect.classic, OneWay) else ""
        return f"{name}: no test is possible ({reason})."
    share = f", omega² = {max(effect.classic.omega2, 0.0):.2f}" if isinstance(effect.classic, OneWay) else ""
    kind = "over repetitions" if isinstance(effect.welch, Welch) else "over repetitions, equal variances supposed"
    return f"{name}: {one_factor.test_text(effect)} {kind}{share}."
