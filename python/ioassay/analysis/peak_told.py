"""The sentences of the question where the best level lies. Computes nothing: `peak.py` does."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay import metrics
from ioassay.analysis import peak_tables, wording
from ioassay.analysis.cells import Cells
from ioassay.analysis.contrast import lower_is_better
from ioassay.analysis.finding import Finding, Table
from ioassay.analysis.peak import Ask, Peak
from ioassay.analysis.peak_tables import level_text, place, place_text, short, span
from ioassay.analysis.shape import MARGIN
from ioassay.analysis.statistics.best import BestLevel, NotWorse
from ioassay.analysis.statistics.result import Interval, Undefined
from ioassay.analysis.statistics.saturation import Knee
from ioassay.analysis.statistics.scalability import FEWEST_LEVELS, USL, Law, preferred

FEW = 5
"""Below so many repetitions an interval is said to be wide because of them."""


def single(one: Peak, how: Ask) -> Finding:
    """One finding for one factor in one place."""
    response = one.part.response
    return Finding(
        study=one.part.study,
        question="peak",
        response=response,
        title=f"{wording.name(response)}: the best {wording.factor(one.factor)}",
        statement=" ".join(sentences(one)),
        where=one.part.where(),
        statistics=peak_tables.numbers(one),
        tables=[peak_tables.levels(one), *peak_tables.fits(one)],
        caveats=[*one.part.caveats(), *_caveats(one, how)],
    )


def shared(found: Cells, peaks: Sequence[Peak], how: Ask) -> Finding:
    """One finding for the same factor in many places: a row each."""
    factor, response = peaks[0].factor, found.response
    where = list(peaks[0].part.where())
    rows = [[*one.part.where().values(), *peak_tables.row(one)] for one in peaks]
    few = any(_fewest(one) < FEW for one in peaks) and not how.exact
    return Finding(
        study=found.study,
        question="peak",
        response=response,
        title=f"{wording.name(response)}: the best {wording.factor(factor)}",
        statement=_shared_statement(response, factor, peaks),
        statistics={
            "factor": factor,
            "slices": [{"where": one.part.where(), **peak_tables.numbers(one)} for one in peaks],
        },
        tables=[
            Table(
                [*where, f"best {factor}", "it may be", "mean", "as good within noise", "knee"],
                rows,
                [*[""] * len(where), "", "", response, "", ""],
            )
        ],
        caveats=[*found.caveats(), *([_FEW_SAID] if few else [])],
    )


_FEW_SAID = f"With fewer than {FEW} repetitions of a level the intervals are wide, and few levels can be told apart."


# Sentences


def sentences(one: Peak) -> list[str]:
    """Best level, what is as good, where it bends, how it scales."""
    if _all_equal(one):
        where, name = one.part.where(), wording.name(one.part.response)
        return [wording.placed(where, f"{name} is the same at all levels of {wording.factor(one.factor)}.")]
    return [best(one), *_plateau(one), *_nearly(one), *_edge(one), *_bend(one), *_scales(one)]


def _all_equal(one: Peak) -> bool:
    return len({float(value) for cell in one.cells for value in cell.values}) == 1


def best(one: Peak) -> str:
    """`Read bandwidth is highest at 4 jobs (3 to 5): 930 MB/s (95 % interval 910 to 950 MB/s).`"""
    response = one.part.response
    word = "lowest, which is best," if lower_is_better(response) else "highest"
    bounds = one.interval
    known = (
        f" ({wording.interval(response, bounds)})" if isinstance(bounds, Interval) and bounds.low < bounds.high else ""
    )
    told = f"{wording.name(response)} is {word} at {level_text(one, one.best)}{_range(one)}"
    return wording.placed(one.part.where(), f"{told}: {wording.value(response, one.mean)}{known}.")


def _range(one: Peak) -> str:
    """Which levels it may be: ` (3 to 5)`; for words their chances."""
    likely = one.likely
    if not isinstance(likely, BestLevel) or max(likely.probability) == 1:
        return ""
    if one.numbers is not None:
        return "" if likely.low == likely.high else f" ({short(one, likely.low)} to {short(one, likely.high)})"
    return f" (in {wording.percent(likely.probability[one.best])} of resamples)"


def _plateau(one: Peak) -> list[str]:
    """What is as good within noise, and what lies beyond."""
    if isinstance(one.near, Undefined):
        return ["With one repetition of each level nothing says whether another is as good."]
    members = one.near.members
    if len(members) == len(one.cells):
        return ["No other level can be told from it: what differs lies within noise."]
    if one.plateau is None:
        others = [level_text(one, index) for index in members if index != one.best]
        if not others:
            return ["Every other level is worse."]
        return [f"Not worse within noise: {wording.listed(others, 9)}."]
    first, last = one.plateau
    apart = [level_text(one, index) for index in members if not first <= index <= last]
    also = [f"Not worse within noise either: {wording.listed(apart, 9)}."] if apart else []
    return [_reached(one, first, last), *also]


def _reached(one: Peak, first: int, last: int) -> str:
    good = "It is equally good" if one.exact else "It is within noise"
    if first == last:
        alone = isinstance(one.near, NotWorse) and len(one.near.members) == 1
        return "Every other level is worse." if alone else "Its neighbours are worse."
    if last == len(one.cells) - 1:
        return f"{good} from {level_text(one, first)} on; beyond that nothing is gained."
    if first == 0:
        return f"{good} up to {level_text(one, last)}; beyond that it is worse."
    return f"{good} from {span(one, first, last)}; beyond {level_text(one, last)} it is worse."


def _nearly(one: Peak) -> list[str]:
    """A best level that is better for sure may still be hardly better."""
    if one.nearly is None or one.nearly == one.best or one.plateau is None or one.nearly >= one.plateau[0]:
        return []
    return [f"At {level_text(one, one.nearly)} it is already within {wording.percent(MARGIN)} of that."]


def _edge(one: Peak) -> list[str]:
    """A best level at the end of the range, clearly above its neighbour, says that the range is too short."""
    if one.numbers is None or one.plateau is None or isinstance(one.near, Undefined):
        return []
    if one.plateau[0] != one.plateau[1] or one.best not in (0, len(one.cells) - 1):
        return []
    number = one.numbers[one.best]
    if (one.best == 0 and number <= 1) or (number == 100 and "%" in level_text(one, one.best)):
        return []  # there is nothing below one worker, nor above all
    end = "last" if one.best else "first"
    return [f"It is the {end} level that was tested: the best may lie beyond."]


def _bend(one: Peak) -> list[str]:
    if not isinstance(one.knee, Knee):
        return []
    at, bounds = one.knee.x, one.knee.interval
    ends = wording.joined(place(one, bounds.low), place(one, bounds.high))
    within = f" ({wording.level(bounds.confidence)} interval {ends})" if bounds.low < bounds.high else ""
    reaches = one.plateau is not None and one.plateau[1] == len(one.cells) - 1
    loses = not reaches and (one.knee.after < 0) != lower_is_better(one.part.response)
    return [
        f"The curve bends near {place_text(one, at)}{within}: it {'falls back' if loses else 'gains less'} after it."
    ]


def _scales(one: Peak) -> list[str]:
    said = []
    if one.scaling is not None and not one.unseen:
        ends, last = (level_text(one, 0), level_text(one, len(one.cells) - 1)), one.scaling[-1]
        share = f"{wording.percent(last.efficiency)} of what perfect scaling would give"
        said.append(f"From {ends[0]} to {ends[1]} it grows {wording.times(last.speedup)}, {share}.")
    return said + ([law(one, one.law)] if one.law else [])


def law(one: Peak, found: Law) -> str:
    """The fitted law in a sentence, with what it predicts."""
    share = f"{_percent(found.alpha)} of the work cannot run in parallel ({_percents(found.alpha_interval)})"
    if found.kind != USL or found.peak is None or found.peak_interval is None:
        most = f", which limits it to {wording.value(one.part.response, found.limit)}" if found.limit else ""
        return f"By Amdahl's law {share}{most}."
    where = "beyond what was tested" if found.peak > (one.numbers or (0.0,))[-1] else "within what was tested"
    ends = wording.joined(wording.plain_number(found.peak_interval.low), wording.plain_number(found.peak_interval.high))
    level = wording.level(found.peak_interval.confidence)
    peak = f"a peak at {wording.plain_number(found.peak)} ({level} interval {ends}), {where}"
    return f"By the universal scalability law {share}, and workers that wait for each other give {peak}."


def _percent(share: float) -> str:
    return f"{max(share, 0) * 100:.2g} %"


def _percents(bounds: Interval) -> str:
    low, high = (f"{max(end, 0) * 100:.2g}" for end in (bounds.low, bounds.high))
    return f"{wording.level(bounds.confidence)} interval {low} to {high} %"


def _shared_statement(response: str, factor: str, peaks: Sequence[Peak]) -> str:
    counted: dict[str, int] = {}
    for one in peaks:
        counted[level_text(one, one.best)] = counted.get(level_text(one, one.best), 0) + 1
    word = "lowest, which is best," if lower_is_better(response) else "highest"
    parts = [f"at {level} in {number}" for level, number in sorted(counted.items(), key=lambda pair: -pair[1])]
    told = f"{wording.name(response)} is {word} {wording.listed(parts)} of {len(peaks)} places."
    unclear = sum(isinstance(one.near, NotWorse) and len(one.near.members) > 1 for one in peaks)
    return f"{told} In {unclear} of them another level is as good within noise." if unclear else told


# Caveats


def _fewest(one: Peak) -> int:
    return min(cell.values.size for cell in one.cells)


def _caveats(one: Peak, how: Ask) -> list[str]:
    said = []
    if metrics.metric(one.part.response).better == "none":
        said.append(
            f"Nothing says which direction of {wording.inside(one.part.response)} is better: more is taken to be."
        )
    if not how.exact and _fewest(one) < FEW:
        said.append(_FEW_SAID)
    if isinstance(one.near, NotWorse) and one.near.unjudged and not how.exact:
        alone = wording.listed([level_text(one, index) for index in one.near.unjudged], 9)
        said.append(f"One repetition only at {alone}: it cannot be told whether that is worse.")
    return said + _law_caveats(one, how)


def _law_caveats(one: Peak, how: Ask) -> list[str]:
    if one.usl is None or one.amdahl is None or one.numbers is None or len(one.numbers) < FEWEST_LEVELS:
        return []
    if isinstance(one.amdahl, Undefined) and one.law is None:
        return [f"No law of scaling is fitted: {one.amdahl.reason}."]
    nearest = preferred(one.usl, one.amdahl)
    if one.law is None and nearest is not None and nearest.alpha_interval.high < 0:
        return ["It follows no law of scaling: it grows in proportion or more, and then less than the laws can say."]
    if one.law is None and nearest is not None:
        miss = wording.percent(nearest.worst)
        return [f"It follows no law of scaling: the level means leave the nearest by up to {miss}."]
    said = []
    if one.law and one.law.lack_p is not None and one.law.lack_p < 1 - how.confidence:
        said.append(
            "The level means leave the law by more than repetitions scatter "
            f"(up to {wording.percent(one.law.worst)}): take its prediction as a direction."
        )
    if one.law and one.law.lack_p is None:
        said.append("Without repetitions nothing says whether the curve follows the law.")
    return said
