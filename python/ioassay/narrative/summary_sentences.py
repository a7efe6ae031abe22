"""The few sentences of a summary, from what the conclusion says; intervals and tests are left to the conclusion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ioassay.analysis.conclusion import FactorChange, Mean, MixChange, Part
from ioassay.analysis.effects.average_change import AverageChange
from ioassay.analysis.effects.one_factor import Effect, Outcome
from ioassay.narrative import phrases, sentences
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.ratio_of_means import Ratio

MOST = 4
"""A summary has no more topics than this; what is left out stands in the conclusion."""
EQUAL = "On average, {names} {differ} by at most {margin} between {levels}."
UNDECIDED = "On average, the data do not show whether {names} {differ} between {levels}."


def summary(opening: Sequence[str], parts: Sequence[Part], quiet: Sequence[Effect]) -> list[str]:
    """At most MOST topics: the opening, shapes by quantity and factor, pairs of levels, then what stands alone."""
    topics = [*opening, *_shapes(parts), *_pairs(parts), *_single(parts)]
    return [*topics, *([sentences.undecided_sentence(quiet)] if quiet else [])][:MOST]


def _shapes(parts: Sequence[Part]) -> list[str]:
    """What a quantity, such as bandwidth, does over a factor: all its responses in one topic."""
    effects: dict[tuple[str, str], list[Effect]] = {}
    for part in parts:
        if isinstance(part, FactorChange) and part.effect.shape and not (part.covered or part.quiet):
            effects.setdefault((part.effect.cells.response, part.effect.factor), []).append(part.effect)
    topics: dict[tuple[str, str], list[str]] = {}
    for (response, factor), places in effects.items():
        topics.setdefault((response.partition(".")[2], factor), []).extend(_places(places, response))
    return [" ".join(topic) for topic in topics.values()]


def _places(effects: Sequence[Effect], response: str) -> list[str]:
    """A sentence for each combination of the other factors, or one that counts many of them by what happens there."""
    if len(effects) <= MOST:
        subjects = [phrases.subject(response), *["it"] * (len(effects) - 1)]
        return [sentences.brief_shape(*pair) for pair in zip(effects, subjects, strict=True)]
    subject = phrases.noun(response)
    counts = Counter(sentences.direction(effect) for effect in effects)
    names = [phrases.factor_noun(name) for name in effects[0].cells.where()]
    places = f"{len(effects)} {'combinations' if len(names) > 1 else 'levels'} of {phrases.listed(names)}"
    if len(counts) == 1:
        return [f"In each of {places}, {subject} {next(iter(counts))}."]
    counted = phrases.listed([f"{says} in {count}" for says, count in counts.most_common()])
    return [f"Of {places}, {subject} {counted}."]


def _pairs(parts: Sequence[Part]) -> Iterator[str]:
    """Averages that differ, one by one; the others together."""
    pairs: dict[str, list[AverageChange]] = {}
    for part in parts:
        if isinstance(part, AverageChange):
            levels = phrases.both(part.factor, *part.levels)
            pairs.setdefault(levels, []).append(part)
    for levels, changes in pairs.items():
        yield from (sentences.average_sentence(part) for part in changes if part.outcome == Outcome.DIFFERENCE)
        for outcome, template in ((Outcome.EQUIVALENT, EQUAL), (Outcome.UNDECIDED, UNDECIDED)):
            names = [phrases.noun(part.cells.response) for part in changes if part.outcome == outcome]
            if names:
                differ, margin = "differs" if len(names) == 1 else "differ", phrases.percent(MARGIN)
                yield template.format(names=phrases.listed(names), differ=differ, margin=margin, levels=levels)


def _single(parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        match part:
            case Mean():
                yield sentences.mean_sentence(part)
            case MixChange(mix=mix) if isinstance(mix.predicted, Ratio):  # bandwidths only
                yield f"{sentences.mix_sentences(part.cells, mix)[0]} {sentences.prediction(mix.predicted)}"
            case FactorChange(effect=effect, covered=False) if effect.outcome == Outcome.NOT_TESTED:
                yield sentences.untested_sentence(effect)
            case FactorChange(effect=effect, covered=False) if not (effect.shape or part.quiet):
                yield sentences.best_sentence(effect)
