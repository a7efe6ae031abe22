"""The paragraphs that open the summary of a study of peaks or of a choice, one for each fact of its focus."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.analysis.optimum.optimum import SEPARATE_SLICES, Outcome, Peak
from ioassay.analysis.optimum.study_focus import Focus
from ioassay.factors import factor_label
from ioassay.narrative import choice_text, peak_tables, peak_text, phrases


def paragraphs(focus: Focus) -> list[str]:
    """In the order of `focus.facts()`."""
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
        f"{peak_tables.phrase_at(one, one.plateau[0])} with {phrases.levels(one.part.where())}"
        for one in peaks
        if one.plateau is not None and one.outcome in (Outcome.SATURATES, Outcome.FLAT)
    ]
    others = [phrases.levels(one.part.where()) for one in peaks if one.plateau is None]
    name, over = phrases.name(response), factor_label(factor)
    if not begins:
        return f"The data show no {over} from which on {phrases.inside(response)} gains nothing."
    rest = f" The data show no such {over} with {phrases.listed(others, 9)}." if others else ""
    return f"{name} gains nothing beyond {phrases.listed(begins, 9)}.{rest}"
