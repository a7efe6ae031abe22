"""What a study of peaks comes to: of its first response the best value of each swept factor, and its plateau.

Studies with `[analysis] lead = "peak"` are such studies. Computes nothing: `peak.py` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.analysis import asked, peak, peak_tables, peak_told
from ioassay.analysis.peak import SEPARATE_SLICES, Peak
from ioassay.record import RecordSet

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
class Lead:
    """`told` are paragraphs for the summary, `facts` what each rests on; `peaks` by swept factor."""

    response: str
    peaks: Mapping[str, Sequence[Peak]]
    told: Sequence[str]
    facts: Sequence[Mapping[str, Any]]

    def leads(self, response: str, factor: str) -> bool:
        """Whether it tells what this response does over this factor."""
        return response == self.response and factor in self.peaks


def lead(records: RecordSet, study: asked.Study) -> Lead | None:
    """None where the study is not about peaks, or nothing with a best was measured at two levels."""
    if not asked.is_about_peaks(study):
        return None
    for response in peak.judged(records, study):
        found = peak.measured(records, study, response)
        if found:
            own = {factor: found[factor] for factor in peak.swept(study, found)}
            told, facts = _paragraphs(response, own)
            return Lead(response, own, told, facts)
    return None


def _paragraphs(response: str, own: Mapping[str, Sequence[Peak]]) -> tuple[list[str], list[Mapping[str, Any]]]:
    told: list[str] = []
    facts: list[Mapping[str, Any]] = []
    for factor, peaks in own.items():
        known = [{"response": response, "where": one.part.where(), **_fact(one)} for one in peaks]
        if len(peaks) <= SEPARATE_SLICES:
            told += [" ".join([*peak_told.in_brief(one), *peak_told.scaling(one)]) for one in peaks]
            facts += known
        else:
            many = len(peaks) > peak_told.MOST_PLACES
            told.append((peak_told.shared_statement if many else peak_told.by_place)(response, factor, peaks))
            facts.append({"response": response, "factor": factor, "slices": known})
    return told, facts


def _fact(one: Peak) -> dict[str, Any]:
    numbers = peak_tables.numbers(one)
    return {name: numbers[name] for name in FACTS}
