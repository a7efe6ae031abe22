"""The sentences of the question where the best level lies. Computes nothing: `optimum.py` does."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay import metrics
from ioassay.analysis.effects.level_contrasts import lower_is_better
from ioassay.analysis.effects.response_shape import MARGIN
from ioassay.analysis.measurements.cells import Cells
from ioassay.analysis.measurements.missing_trials import MissingConditions
from ioassay.analysis.optimum import optimum_tables
from ioassay.analysis.optimum.optimum import Ask, Peak
from ioassay.analysis.optimum.optimum_tables import phrase_at, place, place_text, short, span
from ioassay.analysis.optimum.plateau import ALONE, GROWS
from ioassay.factors import factor_label
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.best_level import BestLevel, NotWorse
from ioassay.stats.power import MOST
from ioassay.stats.result import Interval, Undefined, mean_of
from ioassay.stats.saturation import Knee
from ioassay.stats.scalability import FEWEST_LEVELS, USL, Law, preferred

FEW = 5
MOST_PLACES = 8
"""Up to so many places are told one by one where they share a sentence."""
"""Below so many repetitions an interval is said to be wide because of them."""


def single(one: Peak, how: Ask, missing: Sequence[MissingConditions] = ()) -> Finding:
    """One finding for one factor in one place; `missing` are conditions that the study lacks."""
    response = one.part.response
    return Finding(
        study=one.part.study,
        question="peak",
        response=response,
        title=f"{phrases.name(response)}: the best {factor_label(one.factor)}",
        statement=" ".join(sentences(one)),
        where=one.part.where(),
        statistics={**optimum_tables.statistics(one), "not_measured": [part.as_dict() for part in missing]},
        tables=[optimum_tables.levels(one), *optimum_tables.fits(one)],
        caveats=[*one.part.caveats(), *_caveats(one, how)],
    )


def shared(found: Cells, peaks: Sequence[Peak], how: Ask, missing: Sequence[MissingConditions] = ()) -> Finding:
    """One finding for the same factor in many places: a row each."""
    factor, response = peaks[0].factor, found.response
    where = list(peaks[0].part.where())
    rows = [[*one.part.where().values(), *optimum_tables.row(one)] for one in peaks]
    few = any(one.fewest < FEW for one in peaks) and not how.exact
    return Finding(
        study=found.study,
        question="peak",
        response=response,
        title=f"{phrases.name(response)}: the best {factor_label(factor)}",
        statement=shared_statement(response, factor, peaks),
        statistics={
            "factor": factor,
            "slices": [{"where": one.part.where(), **optimum_tables.statistics(one)} for one in peaks],
            "not_measured": [part.as_dict() for part in missing],
        },
        tables=[
            Table(
                [*map(factor_label, where), f"best {factor_label(factor)}", *_SHARED],
                rows,
                [*[""] * len(where), "", "", response, "", "", ""],
            )
        ],
        caveats=[*found.caveats(), *([_FEW_SAID] if few else [])],
    )


_SHARED = ("it may be", "mean", "as good within noise", "plateau", "knee")
_FEW_SAID = f"With fewer than {FEW} repetitions of a level the intervals are wide, and few levels can be told apart."


# Sentences


def sentences(one: Peak) -> list[str]:
    """Best level, what is as good, where it bends, how it scales."""
    if all_equal(one):
        return in_brief(one)
    return [*in_brief(one), *_bend(one), *_scales(one)]


def in_brief(one: Peak) -> list[str]:
    """The best level with its confidence and its value, and where the plateau begins, or why that cannot be told."""
    if all_equal(one):
        where, name = one.part.where(), phrases.name(one.part.response)
        return [phrases.placed(where, f"{name} is the same at all levels of {factor_label(one.factor)}.")]
    if one.unseen:
        return _unseen(one)
    return [best(one), *_plateau(one), *_apart(one), *_nearly(one)]


def all_equal(one: Peak) -> bool:
    """Whether every repetition gave the same number."""
    return len({float(value) for cell in one.cells for value in cell.values}) == 1


def best(one: Peak) -> str:
    """`Read bandwidth is highest at 4 jobs (3 to 5 with 95 % confidence): 930 MB/s (95 % interval 910 to 950 MB/s).`"""
    word = "lowest, which is best," if lower_is_better(one.part.response) else "highest"
    told = f"{phrases.name(one.part.response)} is {word} {level_at(one, one.best)}{_range(one)}"
    return phrases.placed(one.part.where(), f"{told}: {value(one)}.")


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
    likely = one.likely
    if not isinstance(likely, BestLevel) or one.exact:
        return ""
    if one.numbers is None:
        return f", best in {phrases.percent(likely.probability[one.best])} of resamples"
    sure = f"{phrases.level(likely.confidence)} confidence"
    if likely.low == likely.high:
        return f" (with more than {sure})"
    return f" ({short(one, likely.low)} to {short(one, likely.high)} with {sure})"


def _unseen(one: Peak) -> list[str]:
    """Where all that differs may be noise: what is highest all the same, and what it would take to see more."""
    factor, word = factor_label(one.factor), "lowest" if lower_is_better(one.part.response) else "highest"
    name, count = phrases.inside(one.part.response), len(one.cells)
    every = "both levels are" if count == 2 else f"all {count} levels are"
    told = f"No best {factor} for {name} can be told: {every} as good within noise."
    shown = f"The {word} mean is {level_at(one, one.best)}: {value(one)}."
    return [f"{phrases.placed(one.part.where(), told)} {shown}", *needs(one)]


def needs(one: Peak) -> list[str]:
    """How many repetitions would show a difference that matters, where there are fewer."""
    if not isinstance(one.needed, int):
        return []
    if one.needed <= one.fewest:
        return [f"A difference of {phrases.percent(MARGIN)} would have been seen."]
    many = f"more than {MOST}" if one.needed >= MOST else f"about {one.needed}"
    return [
        f"To see differences of {phrases.percent(MARGIN)}, each level needs {many} repetitions instead of {one.fewest}."
    ]


def _plateau(one: Peak) -> list[str]:
    """Where the plateau begins and ends, or what is told instead of one."""
    if isinstance(one.near, Undefined):
        return ["With one repetition of each level nothing says whether another is as good: 3 are the least, 5 better."]
    if one.numbers is None:
        return _words(one.near, one)
    if one.plateau is not None:
        return [plateau(one)]
    edge = _edge(one)
    if one.no_plateau == GROWS:
        way = "falls" if lower_is_better(one.part.response) else "rises"
        return [f"No plateau begins: it still {way} at {phrase_at(one, -1)}, the last that was tested."]
    if edge:
        return [f"{phrases.capital(one.no_plateau)}. It is the {edge} level that was tested: the best may lie beyond."]
    return [f"There is no plateau: {one.no_plateau}."]


def _words(near: NotWorse, one: Peak) -> list[str]:
    others = [phrase_at(one, index) for index in near.members if index != one.best]
    worse = [phrase_at(one, index) for index in range(len(one.cells)) if index not in near.members]
    if not others:
        return ["The other level is worse." if len(worse) == 1 else "Every other level is worse."]
    return [f"Not worse within noise: {phrases.listed(others, 9)}. Worse: {phrases.listed(worse, 9)}."]


def plateau(one: Peak) -> str:
    """`The plateau begins at 4 workers, the number of this machine's processors: from there on nothing is gained.`"""
    first, last = one.plateau or (0, 0)
    by = "exactly as good" if one.exact else f"as good within noise or {phrases.percent(MARGIN)}"
    if first == 0 and last == len(one.cells) - 1:
        return f"There is no more to gain over {factor_label(one.factor)}: every level is {by}."
    if last == len(one.cells) - 1:
        return f"The plateau begins {_edge_at(one, first)}: {_from(one, first)}."
    if first == 0:
        return f"The plateau ends {_edge_at(one, last)}: up to there all are {by}, beyond it is worse."
    return f"The plateau runs from {span(one, first, last)}{_processors(one, first)}; beyond that it is worse."


def _from(one: Peak, first: int) -> str:
    """What is gained after the plateau's first level, with what noise may hide of it."""
    gap = abs(mean_of(one.cells[first].values) / one.mean - 1) if one.mean else 0.0
    if one.exact or gap <= MARGIN:
        return "from there on nothing is gained"
    below = "above" if lower_is_better(one.part.response) else "below"
    return (
        f"from there on nothing can be told from noise, though the mean there is {phrases.percent(gap)} {below} the "
        "best, and more repetitions may move it"
    )


def _edge_at(one: Peak, index: int) -> str:
    return f"{level_at(one, index)}{_processors(one, index)}"


def _processors(one: Peak, index: int) -> str:
    """That a level is the machine's number of processors, which explains a plateau that begins there."""
    if one.numbers is None or one.processors is None or one.numbers[index] != one.processors:
        return ""
    return ", the number of this machine's processors"


def _apart(one: Peak) -> list[str]:
    """Levels as good as the best that are on no plateau with it."""
    if one.numbers is None or isinstance(one.near, Undefined):
        return []
    first, last = one.plateau or (one.best, one.best)
    apart = [phrase_at(one, index) for index in one.near.members if not first <= index <= last]
    either = " either" if one.plateau else ""
    return [f"Not worse within noise{either}: {phrases.listed(apart, 9)}."] if apart else []


def _nearly(one: Peak) -> list[str]:
    """A best level that is better for sure may still be hardly better."""
    if one.nearly is None or one.nearly == one.best or (one.plateau and one.nearly >= one.plateau[0]):
        return []
    return [f"{phrases.capital(level_at(one, one.nearly))} it is already within {phrases.percent(MARGIN)} of that."]


def _edge(one: Peak) -> str:
    """`first` or `last` where the best level is at that end of the range, and the range could go on; '' else."""
    if one.numbers is None or one.no_plateau != ALONE or one.best not in (0, len(one.cells) - 1):
        return ""
    number = one.numbers[one.best]
    if (one.best == 0 and number <= 1) or (number == 100 and "%" in phrase_at(one, one.best)):
        return ""  # there is nothing below one worker, nor above all
    return "last" if one.best else "first"


def _bend(one: Peak) -> list[str]:
    if not isinstance(one.knee, Knee):
        return []
    at, bounds = one.knee.x, one.knee.interval
    ends = phrases.joined(place(one, bounds.low), place(one, bounds.high))
    within = f" ({phrases.level(bounds.confidence)} interval {ends})" if bounds.low < bounds.high else ""
    reaches = one.plateau is not None and one.plateau[1] == len(one.cells) - 1
    loses = not reaches and (one.knee.after < 0) != lower_is_better(one.part.response)
    return [
        f"The curve bends near {place_text(one, at)}{within}: it {'falls back' if loses else 'gains less'} after it."
    ]


def _scales(one: Peak) -> list[str]:
    return [*scaling(one), *([law(one, one.law)] if one.law else growth(one))]


def scaling(one: Peak) -> list[str]:
    """How much of perfect scaling is left, where the plateau begins or at the last level."""
    if one.scaling is None or one.unseen:
        return []
    index = one.plateau[0] if one.plateau and one.plateau[0] else len(one.cells) - 1
    at = one.scaling[index]
    share = f"{phrases.percent(at.efficiency)} of what perfect scaling would give"
    return [f"From {phrase_at(one, 0)} to {phrase_at(one, index)} it grows {phrases.times(at.speedup)}, {share}."]


def growth(one: Peak) -> list[str]:
    """The law up to the plateau, where there is one and all levels together follow none."""
    if one.growth is None or one.plateau is None:
        return []
    return [f"Up to {phrase_at(one, one.plateau[0])} it follows a law: {law(one, one.growth, upto=True)}"]


def law(one: Peak, found: Law, upto: bool = False) -> str:
    """The fitted law in a sentence, with what it predicts; of a law `upto` the plateau nothing about the rest."""
    share = f"{_percent(found.alpha)} of the work cannot run in parallel ({_percents(found.alpha_interval)})"
    if found.kind != USL or found.peak is None or found.peak_interval is None:
        limit = None if upto else found.limit
        most = f", which limits it to {phrases.value(one.part.response, limit)}" if limit else ""
        return f"{'by' if upto else 'By'} Amdahl's law {share}{most}."
    where = "beyond what was tested" if found.peak > (one.numbers or (0.0,))[-1] else "within what was tested"
    ends = phrases.joined(phrases.plain_number(found.peak_interval.low), phrases.plain_number(found.peak_interval.high))
    level = phrases.level(found.peak_interval.confidence)
    peak = f"a peak at {phrases.plain_number(found.peak)} ({level} interval {ends}), {where}"
    by = "by" if upto else "By"
    return f"{by} the universal scalability law {share}, and workers that wait for each other give {peak}."


def _percent(share: float) -> str:
    return f"{max(share, 0) * 100:.2g} %"


def _percents(bounds: Interval) -> str:
    low, high = (f"{max(end, 0) * 100:.2g}" for end in (bounds.low, bounds.high))
    return f"{phrases.level(bounds.confidence)} interval {low} to {high} %"


def shared_statement(response: str, factor: str, peaks: Sequence[Peak]) -> str:
    counted: dict[str, int] = {}
    for one in peaks:
        counted[level_at(one, one.best)] = counted.get(level_at(one, one.best), 0) + 1
    word = "lowest, which is best," if lower_is_better(response) else "highest"
    parts = [f"{level} in {number}" for level, number in sorted(counted.items(), key=lambda pair: -pair[1])]
    told = f"{phrases.name(response)} is {word} {phrases.listed(parts)} of {len(peaks)} places."
    unclear = sum(isinstance(one.near, NotWorse) and len(one.near.members) > 1 for one in peaks)
    return f"{told} In {unclear} of them another level is as good within noise." if unclear else told


def by_place(response: str, factor: str, peaks: Sequence[Peak]) -> str:
    """Of each place the best level, and whether it can be told from the others."""
    word = "lowest, which is best," if lower_is_better(response) else "highest"
    return f"{phrases.name(response)} is {word} {'; '.join(map(_here, peaks))}."


def _here(one: Peak) -> str:
    place = f"{level_at(one, one.best)} with {phrases.levels(one.part.where())}"
    if one.unseen:
        return f"{place} (though no level can be told from another)"
    if not isinstance(one.near, NotWorse):
        return place
    near = [phrase_at(one, index) for index in one.near.members if index != one.best]
    others = f"{phrases.listed(near, 9)} {'is' if len(near) == 1 else 'are'} as good within noise"
    return f"{place} ({others if near else 'beyond noise'})"


# Caveats


def _caveats(one: Peak, how: Ask) -> list[str]:
    said = []
    if metrics.metric(one.part.response).better == "none":
        said.append(
            f"Nothing says which direction of {phrases.inside(one.part.response)} is better: more is taken to be."
        )
    if not how.exact and one.fewest < FEW:
        said.append(" ".join([_FEW_SAID, *([] if one.unseen else needs(one))]))
    if isinstance(one.near, NotWorse) and one.near.unjudged and not how.exact:
        alone = phrases.listed([phrase_at(one, index) for index in one.near.unjudged], 9)
        said.append(f"One repetition only at {alone}: it cannot be told whether that is worse.")
    return said + _law_caveats(one, how)


def _follows(one: Peak) -> str:
    whole = "Over all its levels it" if one.growth else "It"
    return f"{whole} follows no law of scaling"


def _law_caveats(one: Peak, how: Ask) -> list[str]:
    if one.usl is None or one.amdahl is None or one.numbers is None or len(one.numbers) < FEWEST_LEVELS:
        return []
    if one.unseen:
        return []
    if isinstance(one.amdahl, Undefined) and one.law is None:
        return [f"No law of scaling is fitted: {one.amdahl.reason}."]
    nearest = preferred(one.usl, one.amdahl)
    if one.law is None and nearest is not None and nearest.alpha_interval.high < 0:
        return [f"{_follows(one)}: it grows in proportion or more, and then less than the laws can say."]
    if one.law is None and nearest is not None:
        miss = phrases.percent(nearest.worst)
        return [f"{_follows(one)}: the level means leave the nearest by up to {miss}."]
    said = []
    if one.law and one.law.lack_p is not None and one.law.lack_p < 1 - how.confidence:
        said.append(
            "The level means leave the law by more than repetitions scatter "
            f"(up to {phrases.percent(one.law.worst)}): take its prediction as a direction."
        )
    if one.law and one.law.lack_p is None:
        said.append("Without repetitions nothing says whether the curve follows the law.")
    return said
