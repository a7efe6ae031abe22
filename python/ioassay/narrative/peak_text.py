"""The sentences of the question where the best level lies."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay import metrics, units
from ioassay.analysis.effects.level_contrasts import lower_is_better
from ioassay.analysis.optimum.optimum import Optimum, Outcome, Peak
from ioassay.factors import factor_label
from ioassay.narrative import cause_text, omissions, peak_tables, phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.peak_tables import candidates, phrase_at, place, place_text, span
from ioassay.stats.best_level import BestLevel
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.result import Interval, Undefined
from ioassay.stats.saturation import Knee
from ioassay.stats.scalability import FEWEST_LEVELS, USL, Law, preferred

FEW = 5
"""Below this number of repetitions an interval is wide because of them."""
MOST_PLACES = 8
"""Up to this number of places each has its own sentence where they share a paragraph."""
_MARGIN = phrases.percent(MARGIN)
_SHARED = ("may be best", "mean", f"within {_MARGIN} of the best", "plateau", "knee")
_FEW = f"With fewer than {FEW} repetitions per level, intervals are wide and few levels are distinguishable."
_OUTCOMES = {
    Outcome.EQUAL: "{name} does not change with {factor}.",
    Outcome.EQUIVALENT: "{name} differs by at most {margin} over {every}.",
    Outcome.UNDECIDED: "The data do not identify a best {factor} for {inside}.",
    Outcome.UNREPEATED: "One repetition per level gives no uncertainty estimate; run at least 3, preferably 5.",
    Outcome.NARROWED: "The data do not show from which {factor} on the gain is below {margin}.",
    Outcome.SATURATES: "It saturates {at}{first_processors}: further levels gain at most {margin}.",
    Outcome.DECLINES: "Levels up to {last} are within {margin} of the best.",
    Outcome.INNER_PLATEAU: "Levels {span} are within {margin} of the best{begins}.",
    Outcome.STILL_IMPROVES: "The last levels differ by less than {margin}, but the curve has not yet levelled off.",
    Outcome.BEST_AT_FIRST: "Every other level is worse. This is the first level tested, so the best may lie below it.",
    Outcome.BEST_AT_LAST: "Every other level is worse. This is the last level tested, so the best may lie beyond it.",
    Outcome.ISOLATED: "Every other level is worse.",
}
_EARLIER = "The data do not exclude an earlier start, from {earliest} on."
_SECOND = "There is a second peak {levels}: levels between it and the best are worse."


def findings(answers: Sequence[Optimum]) -> list[Finding]:
    """A finding for each place, or one for all where there are many."""
    return [
        finding
        for one in answers
        for finding in ([_single(one, peak) for peak in one.peaks] if one.separate else [_shared(one)])
    ]


def _single(answer: Optimum, one: Peak) -> Finding:
    response = one.part.response
    return Finding(
        study=one.part.study,
        question="peak",
        response=response,
        title=f"{phrases.name(response)}: the best {factor_label(one.factor)}",
        statements=sentences(one),
        where=one.part.where(),
        statistics={**one.statistics(), "not_measured": [part.as_dict() for part in answer.missing]},
        tables=[peak_tables.levels(one), *peak_tables.fits(one), *cause_text.tables(one)],
        caveats=[*omissions.left_out(one.part), *_caveats(one, answer.ask.confidence)],
    )


def _shared(answer: Optimum) -> Finding:
    peaks, response = answer.peaks, answer.cells.response
    factor, where = peaks[0].factor, list(peaks[0].part.where())
    rows = [[*one.part.where().values(), *peak_tables.row(one)] for one in peaks]
    columns = [*map(factor_label, where), f"best {factor_label(factor)}", *_SHARED]
    few = any(one.fewest < FEW for one in peaks) and not answer.ask.exact
    return Finding(
        study=answer.cells.study,
        question="peak",
        response=response,
        title=f"{phrases.name(response)}: the best {factor_label(factor)}",
        statements=shared_statement(response, peaks),
        statistics={
            "factor": factor,
            "slices": [{"where": one.part.where(), **one.statistics()} for one in peaks],
            "not_measured": [part.as_dict() for part in answer.missing],
        },
        tables=[Table(columns, rows, [*[""] * len(where), "", "", response, "", "", ""])],
        caveats=[*omissions.left_out(answer.cells), *([_FEW] if few else [])],
    )


# Sentences


def sentences(one: Peak) -> list[str]:
    """Best level, what is as good, where it bends, how it scales."""
    if one.outcome == Outcome.EQUAL:
        return in_brief(one)
    return [*in_brief(one), *_bend(one), *scaling(one), *_laws(one)]


def in_brief(one: Peak) -> list[str]:
    """The best level with its confidence and its value, and the plateau, or why there is none."""
    outcome = one.outcome
    if outcome == Outcome.EQUAL:
        return [phrases.placed(one.part.where(), _text(one, outcome))]
    if outcome in (Outcome.EQUIVALENT, Outcome.UNDECIDED):
        word = "lowest" if lower_is_better(one.part.response) else "highest"
        centre = "value" if one.part.merged else "mean"
        shown = f"The {word} {centre} is {level_at(one, one.best)}: {value(one)}."
        known = [*_second(one), *_needed(one)] if outcome == Outcome.UNDECIDED else []
        return [phrases.placed(one.part.where(), _text(one, outcome)), shown, *cause_text.sentences(one), *known]
    plateau = _categories(one) if outcome == Outcome.CATEGORIES else [_text(one, outcome)]
    undecided = _needed(one) if outcome in (Outcome.NARROWED, Outcome.STILL_IMPROVES) else []
    return [best(one), *plateau, *cause_text.sentences(one), *_earlier(one), *_apart(one), *_second(one), *undecided]


def _text(one: Peak, outcome: Outcome) -> str:
    first, last = (one.plateau.first, one.plateau.last) if one.plateau else (0, len(one.cells) - 1)
    return _OUTCOMES[outcome].format(
        name=phrases.name(one.part.response),
        inside=phrases.inside(one.part.response),
        factor=factor_label(one.factor),
        every="both levels" if len(one.cells) == 2 else f"all {len(one.cells)} levels",
        margin=_MARGIN,
        last=phrase_at(one, last),
        at=level_at(one, first),
        span=span(one, first, last),
        first_processors=", the number of this machine's processors" if one.at_processors(first) else "",
        begins=" and begin at the number of this machine's processors" if one.at_processors(first) else "",
    )


def _earlier(one: Peak) -> list[str]:
    """Where the plateau may begin already."""
    if one.plateau is None or one.plateau.earliest == one.plateau.first:
        return []
    return [_EARLIER.format(earliest=phrase_at(one, one.plateau.earliest))]


def _second(one: Peak) -> list[str]:
    if not one.second:
        return []
    levels = phrases.listed([level_at(one, index) for index in one.second])
    return [_SECOND.format(levels=levels)]


def best(one: Peak) -> str:
    """`Read bandwidth is highest at 4 jobs (3 to 5 with 95 % confidence): 930 MB/s (95 % interval 910 to 950 MB/s).`"""
    word = _word(one.part.response)
    text = f"{phrases.name(one.part.response)} is {word} {level_at(one, one.best)}{_range(one)}"
    return phrases.placed(one.part.where(), f"{text}: {value(one)}.")


def _word(response: str) -> str:
    return "lowest (best)" if lower_is_better(response) else "highest"


def value(one: Peak) -> str:
    """The best level's mean with its interval: `930 MB/s (95 % interval 910 to 950 MB/s)`."""
    response, bounds = one.part.response, one.interval
    wide = isinstance(bounds, Interval) and bounds.low < bounds.high
    known = f" ({phrases.interval(response, bounds)})" if isinstance(bounds, Interval) and wide else ""
    return f"{phrases.value(response, one.mean)}{known}"


def level_at(one: Peak, index: int) -> str:
    """A level as a place: `at 4 jobs`, `under fifo (priority 99)`."""
    return phrases.at(one.factor, one.level(index))


def _range(one: Peak) -> str:
    """How sure the best level is: ` (3 to 5 with 95 % confidence)`; of words how often it is the best."""
    if isinstance(one.levels, Undefined) or one.exact or isinstance(one.family.contrasts, Undefined):
        return ""
    if one.numbers is None:
        return f", the best with a probability of {phrases.percent(one.levels.probability[one.best])}"
    if one.cells[one.best].values.size < 2:
        return " (of one repetition: that it scatters as the other levels do is assumed)"
    sure = f"{phrases.level(one.family.contrasts.confidence)} confidence"
    return f" (with {sure})" if len(one.candidates) == 1 else f" ({candidates(one)} with {sure})"


def _needed(one: Peak) -> list[str]:
    """How many repetitions would show a difference that matters, where there are fewer."""
    if not isinstance(one.needed, int) or one.needed <= one.fewest:
        return []
    needed = phrases.repetitions_needed(one.needed)
    return [f"To detect differences of {_MARGIN}, each level needs {needed} instead of {one.fewest}."]


def _categories(one: Peak) -> list[str]:
    """Which other words are as good, which are worse, and which may be either."""
    assert isinstance(one.levels, BestLevel)
    everything = [index for index in range(len(one.cells)) if index != one.best]
    worse = [index for index in everything if index not in one.candidates]
    if len(worse) == len(everything):
        return ["The other level is worse." if len(worse) == 1 else "Every other level is worse."]
    good = [index for index in everything if index in one.levels.as_good]
    either = [index for index in everything if index in one.candidates and index not in good]
    return [
        f"{words}: {phrases.listed([phrase_at(one, index) for index in indices], 9)}."
        for words, indices in ((f"Within {_MARGIN} of the best", good), ("Perhaps as good", either), ("Worse", worse))
        if indices
    ]


def _apart(one: Peak) -> list[str]:
    """Levels that may be best without being on its plateau."""
    if one.numbers is None or one.outcome == Outcome.UNREPEATED:
        return []
    first, last = (one.plateau.first, one.plateau.last) if one.plateau else (one.best, one.best)
    apart = [phrase_at(one, index) for index in one.candidates if not first <= index <= last]
    return [f"Perhaps as good: {phrases.listed(apart, 9)}."] if apart else []


def _bend(one: Peak) -> list[str]:
    if not isinstance(one.knee, Knee):
        return []
    at, bounds = one.knee.x, one.knee.interval
    ends = phrases.joined(place(one, bounds.low), place(one, bounds.high))
    within = f" ({phrases.level(bounds.confidence)} interval {ends})" if bounds.low < bounds.high else ""
    worse = one.candidates[-1] < len(one.cells) - 1
    loses = worse and (one.knee.after < 0) != lower_is_better(one.part.response)
    return [
        f"The curve bends near {place_text(one, at)}{within} and {'declines' if loses else 'gains less'} after that."
    ]


def scaling(one: Peak) -> list[str]:
    """The share of linear scaling, where the plateau begins or at the last level."""
    if one.scaling is None or one.indistinct:
        return []
    index = one.plateau.first if one.plateau and one.plateau.first else len(one.cells) - 1
    at = one.scaling[index]
    growth = f"it changes by a factor of {phrases.plain_number(at.speedup)}"
    share = f"{phrases.percent(at.efficiency)} of linear scaling"
    return [f"From {phrase_at(one, 0)} to {phrase_at(one, index)}, {growth}, which is {share}."]


def _laws(one: Peak) -> list[str]:
    """The law that all levels follow, or those up to the plateau where all together follow none."""
    if one.law is not None:
        return _law(one, one.law, "It follows", upto=False)
    if one.growth is None or one.plateau is None:
        return []
    return _law(one, one.growth, f"Up to {phrase_at(one, one.plateau.first)}, it follows", upto=True)


def _law(one: Peak, found: Law, subject: str, *, upto: bool) -> list[str]:
    """The fitted law with its prediction; of a law `upto` the plateau nothing about the levels beyond."""
    share = f"{_percent(found.alpha)} of the work cannot run in parallel ({_percents(found.alpha_interval)})"
    if found.kind != USL or found.peak is None or found.peak_interval is None:
        limit = None if upto else found.limit
        most = [f"This limits it to {phrases.value(one.part.response, limit)}."] if limit else []
        return [f"{subject} Amdahl's law: {share}.", *most]
    where = "beyond" if found.peak > (one.numbers or (0.0,))[-1] else "within"
    ends = phrases.joined(phrases.plain_number(found.peak_interval.low), phrases.plain_number(found.peak_interval.high))
    level = phrases.level(found.peak_interval.confidence)
    return [
        f"{subject} the universal scalability law: {share}.",
        f"The law has its peak at {place_text(one, found.peak)} ({level} interval {ends}), {where} the levels tested.",
    ]


def _percent(share: float) -> str:
    return f"{units.format_percent(share)} %"


def _percents(bounds: Interval) -> str:
    low, high = (units.format_percent(end) for end in (bounds.low, bounds.high))
    return f"{phrases.level(bounds.confidence)} interval {low} to {high} %"


def shared_statement(response: str, peaks: Sequence[Peak]) -> str:
    """How often each level is best over many places."""
    counted: dict[str, int] = {}
    for one in peaks:
        counted[level_at(one, one.best)] = counted.get(level_at(one, one.best), 0) + 1
    parts = [f"{level} in {number}" for level, number in sorted(counted.items(), key=lambda pair: -pair[1])]
    text = f"{phrases.name(response)} is {_word(response)} {phrases.listed(parts)} of {len(peaks)} conditions."
    unclear = sum(len(one.candidates) > 1 for one in peaks)
    return f"{text} In {unclear} of them, another level may be as good." if unclear else text


def by_place(response: str, peaks: Sequence[Peak]) -> str:
    """A sentence for each place: its best level, and which others are as good."""
    names = [phrases.name(response), *["It"] * (len(peaks) - 1)]
    return " ".join(_here(one, name) for one, name in zip(peaks, names, strict=True))


def _here(one: Peak, name: str) -> str:
    where = one.part.where()
    if one.indistinct:
        return phrases.placed(where, f"The data do not identify a best {factor_label(one.factor)}.")
    text = phrases.placed(where, f"{name} is {_word(one.part.response)} {level_at(one, one.best)}")
    if isinstance(one.levels, Undefined):
        return f"{text}."
    near = [phrase_at(one, index) for index in one.candidates if index != one.best]
    others = f"; {phrases.listed(near, 9)} may be as good"
    return f"{text}{others if near else ', better than all others'}."


# Caveats


def _caveats(one: Peak, confidence: float) -> list[str]:
    notes = []
    if metrics.metric(one.part.response).better == "none":
        notes.append(f"{phrases.name(one.part.response)} has no better direction: higher is taken as better.")
    if not one.exact and one.fewest < FEW:
        notes.append(_FEW)
    return notes + _law_caveats(one, confidence)


def _law_caveats(one: Peak, confidence: float) -> list[str]:
    if one.usl is None or one.amdahl is None or one.numbers is None or len(one.numbers) < FEWEST_LEVELS:
        return []
    if one.indistinct:
        return []
    if one.law is not None:
        return _fit_caveats(one.law, confidence)
    if isinstance(one.amdahl, Undefined):
        return [f"No law of scaling is fitted: {one.amdahl.reason}."]
    nearest = preferred(one.usl, one.amdahl)
    if nearest is None:
        return []
    none = f"{'Over all levels, it' if one.growth else 'It'} follows no law of scaling"
    if nearest.alpha_interval.high < 0:
        return [f"{none}: it first grows in proportion or faster, then more slowly than the laws allow."]
    return [f"{none}: level means deviate from the nearest by up to {phrases.percent(nearest.worst)}."]


def _fit_caveats(law: Law, confidence: float) -> list[str]:
    if law.lack_p is None:
        return ["Without repetitions, the fit of the law is not tested."]
    if law.lack_p >= 1 - confidence:
        return []
    miss = phrases.percent(law.worst)
    return [f"Level means deviate from the law by up to {miss}, more than repetitions vary: its prediction is rough."]
