"""What a study of peaks or of a choice comes to, to begin its summary with.

`optimum.py` and `alternatives.py` compute it.

`[analysis] lead = "peak"`: of the first response the best value of each swept factor, and its plateau; `"choice"`:
which case is best, when, and whether that is real.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.analysis.optimum import alternatives, alternatives_text, optimum, optimum_tables, optimum_text
from ioassay.analysis.optimum.optimum import SEPARATE_SLICES, Peak
from ioassay.factors import CASE, factor_label
from ioassay.narrative import phrases
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

FACTS = (
    "factor",
    "best",
    "best_can_be_told",
    "confidence",
    "best_interval",
    "mean",
    "interval",
    "not_worse",
    "plateau",
    "plateau_reason",
    "plateau_at_processors",
    "processors",
    "law",
)


@dataclass(frozen=True)
class Headline:
    """`told` are paragraphs for the summary, `facts` what each rests on; `peaks` by swept factor."""

    response: str
    peaks: Mapping[str, Sequence[Peak]]
    told: Sequence[str]
    facts: Sequence[Mapping[str, Any]]

    def leads(self, response: str, factor: str) -> bool:
        """Whether it tells what this response does over this factor."""
        return response == self.response and factor in self.peaks


def headline(records: Dataset, study: Study) -> Headline | None:
    """None where the study is about neither, or nothing with a best was measured at two levels."""
    if study.analysis.lead == "choice":
        return _choice(records, study)
    if study.analysis.lead != "peak":
        return None
    for response in optimum.judged(records, study):
        found = optimum.measured(records, study, response)
        if found:
            own = {factor: found[factor] for factor in optimum.swept(study, found)}
            told, facts = _paragraphs(response, own)
            return Headline(response, own, told, facts)
    return None


def _paragraphs(response: str, own: Mapping[str, Sequence[Peak]]) -> tuple[list[str], list[Mapping[str, Any]]]:
    told: list[str] = []
    facts: list[Mapping[str, Any]] = []
    for factor, peaks in own.items():
        known = [{"response": response, "where": one.part.where(), **_fact(one)} for one in peaks]
        if len(peaks) <= SEPARATE_SLICES:
            told += [" ".join([*optimum_text.in_brief(one), *optimum_text.scaling(one)]) for one in peaks]
            facts += known
        else:
            many = len(peaks) > optimum_text.MOST_PLACES
            told.append((optimum_text.shared_statement if many else optimum_text.by_place)(response, factor, peaks))
            facts.append({"response": response, "factor": factor, "slices": known})
    return told, facts


def _fact(one: Peak) -> dict[str, Any]:
    numbers = optimum_tables.statistics(one)
    return {name: numbers[name] for name in FACTS}


def _choice(records: Dataset, study: Study) -> Headline | None:
    """All of the first response, of the others which case is best, and where it stops to gain from a number."""
    found = alternatives.choices(records, study)
    if not found:
        return None
    first, others = found[0], found[1:]
    told = [" ".join(alternatives_text.sentences(first))]
    facts: list[Mapping[str, Any]] = [{"response": first.response, **alternatives_text.statistics(first)}]
    if others:
        told.append(alternatives_text.in_brief(others))
        facts.append({"responses": {one.response: alternatives_text.statistics(one)["average"] for one in others}})
    measured = optimum.measured(records, study, first.response)
    numeric = {factor: peaks for factor, peaks in measured.items() if peaks[0].numbers and len(peaks[0].cells) > 2}
    for factor, peaks in numeric.items():
        told.append(_plateaus(first.response, factor, peaks))
        facts.append({"response": first.response, "factor": factor, "slices": [_fact(one) for one in peaks]})
    return Headline(first.response, {CASE: (), **numeric}, told, facts)


def _plateaus(response: str, factor: str, peaks: Sequence[Peak]) -> str:
    """From which level on each place gains nothing, in one sentence."""
    begins = [
        f"from {optimum_tables.phrase_at(one, one.plateau[0])} on with {phrases.levels(one.part.where())}"
        for one in peaks
        if one.plateau is not None and one.plateau[1] == len(one.cells) - 1
    ]
    others = [phrases.levels(one.part.where()) for one in peaks if one.plateau is None]
    name, over = phrases.name(response), factor_label(factor)
    if not begins:
        return f"From which {over} on {phrases.inside(response)} gains nothing cannot be told of any."
    rest = f"; no such {over} can be told with {phrases.listed(others, 9)}" if others else ""
    return f"{name} gains nothing more {phrases.listed(begins, 9)}{rest}."
