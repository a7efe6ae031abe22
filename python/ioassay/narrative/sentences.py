"""The sentences of a conclusion: a mean, a shape, an average change, the best level or the cost of a mix."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.analysis.conclusion import Mean, ratio_outcome
from ioassay.analysis.effects.average_change import AverageChange
from ioassay.analysis.effects.block_size_mix import Mix
from ioassay.analysis.effects.level_contrasts import lower_is_better
from ioassay.analysis.effects.one_factor import Effect, Outcome
from ioassay.analysis.effects.response_shape import Shape, ShapeKind
from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.factors import CASE, level_text
from ioassay.narrative import phrases
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.ratio_of_means import Ratio
from ioassay.stats.result import Interval, mean_of

MEAN = "{quantity}{interval} over {repetitions}."
LEVELS_OFF = " It levels off {place}."
LEVELS_OFF_BETWEEN = " It levels off {place} at the latest, and at {earliest} at the earliest."
UNTESTED = "{name} ranges from {shown} over {factor}; single repetitions cannot test this."
UNDECIDED = "The data do not show whether {effects}{needed}."
UNDECIDED_NEEDED = " (a difference of {margin} needs {needed} per level)"
AVERAGE_EQUAL = "On average, {name} differs by at most {margin} between {levels} ({ratio})."
AVERAGE_UNDECIDED = "On average, the data do not show whether {name} differs between {levels} ({ratio})."
AVERAGE_TIMES = "On average, {name} is {times} as high {high} as {low} ({ratio})."
AVERAGE_SHARE = "On average, {name} is {share} {way} {second} than {first} ({ratio})."
FEW_FOR_MIX = "Too few repetitions to compare {mix} with fixed sizes."
UNPROVED = "neither certainly different from nor equal to"
AS_PREDICTED = "It is within {margin} of the prediction from its parts at their own speeds ({ratio})."
UNDECIDED_PREDICTION = (
    "The data do not show whether it differs from the prediction from its parts at their own speeds ({ratio})."
)
UNLIKE_PREDICTED = (
    "It is {difference} the prediction from its parts at their own speeds: mixing itself {way} that much."
)


def mean_sentence(part: Mean) -> str:
    """The only condition: `Read bandwidth: 102 MB/s (95 % interval 100 to 104 MB/s) over 5 repetitions`."""
    known = f" ({phrases.interval(part.response, part.interval)})" if isinstance(part.interval, Interval) else ""
    repetitions = phrases.count(part.cell.values.size, "repetition")
    return MEAN.format(quantity=phrases.quantity(part.response, part.mean), interval=known, repetitions=repetitions)


# Over an ordered factor


def shape_sentence(effect: Effect) -> str:
    """What a response does over an ordered factor, by how much, and where it levels off."""
    assert effect.shape is not None
    curve, where = effect.shape, effect.cells.where()
    text = _shape(effect, phrases.subject(effect.cells.response))
    if effect.outcome != Outcome.NO_DIRECTION and curve.kind in (ShapeKind.UP, ShapeKind.DOWN):
        text += f", a factor of {_factor(curve)}"
    return phrases.placed(where, f"{text}.") + _levels_off(curve)


def untested_sentence(effect: Effect) -> str:
    """The means where nothing says how far chance goes."""
    means = [mean_of(cell.values) for cell in effect.family.cells]
    shown = phrases.span(effect.cells.response, min(means), max(means))
    name, factor = phrases.subject(effect.cells.response), phrases.factor_noun(effect.factor)
    return phrases.placed(effect.cells.where(), UNTESTED.format(name=name, shown=shown, factor=factor))


def _levels_off(curve: Shape) -> str:
    if curve.plateau is None or curve.earliest is None:
        return ""
    place = phrases.at(curve.factor, curve.plateau.point[curve.factor])
    if curve.earliest is curve.plateau:
        return LEVELS_OFF.format(place=place)
    return LEVELS_OFF_BETWEEN.format(place=place, earliest=level_text(curve.factor, curve.earliest.point[curve.factor]))


def brief_shape(effect: Effect, subject: str) -> str:
    """The same without its interval and plateau."""
    return phrases.placed(effect.cells.where(), f"{phrases.capital(_shape(effect, subject))}.")


def direction(effect: Effect) -> str:
    """What the response does over the factor: `rises with block size`."""
    curve = effect.shape
    assert curve is not None
    if effect.outcome == Outcome.NO_DIRECTION:
        return f"depends on {phrases.factor_noun(curve.factor)} without a clear direction"
    return shape_phrase(curve)


def _shape(effect: Effect, subject: str) -> str:
    curve = effect.shape
    assert curve is not None
    text = f"{subject} {direction(effect)}"
    return text if curve.kind == ShapeKind.LEVEL else f"{text}{_ends(effect.cells, curve)}"


def shape_phrase(curve: Shape) -> str:
    """What the response does: `rises with block size`."""
    factor = phrases.factor_noun(curve.factor)
    if curve.tendency is not None:
        way = "rise" if curve.kind == ShapeKind.UP else "fall"
        return f"tends to {way} with {factor} (slope over all levels)"
    return {
        ShapeKind.LEVEL: f"varies by at most {phrases.percent(MARGIN)} over {factor}",
        ShapeKind.UP: f"rises with {factor}",
        ShapeKind.DOWN: f"falls with {factor}",
        ShapeKind.PEAK: f"is highest inside the range of {factor}",
        ShapeKind.DIP: f"is lowest inside the range of {factor}",
        ShapeKind.MIXED: f"rises and falls over {factor}",
    }.get(curve.kind, f"depends on {factor} without a clear direction")


def _ends(part: Cells, curve: Shape) -> str:
    """Where it begins and ends, turns, or has its extremes: `, from 25 MB/s at 1 job to 93 MB/s at 8 jobs`."""

    def at(cell: Cell) -> tuple[str, str]:
        place = phrases.at(curve.factor, cell.point[curve.factor])
        return phrases.value(part.response, mean_of(cell.values)), place

    if curve.kind in (ShapeKind.PEAK, ShapeKind.DIP):
        return ", {1} ({0})".format(*at(curve.highest if curve.kind == ShapeKind.PEAK else curve.lowest))
    if curve.kind in (ShapeKind.UP, ShapeKind.DOWN):
        words = [" (the lowest)", " (the highest)"][:: 1 if curve.kind == ShapeKind.UP else -1]
        start, end = (
            " ".join(at(cell)) + (word if cell is not usual else "")
            for cell, usual, word in zip((curve.start, curve.end), (curve.first, curve.last), words, strict=True)
        )
        return f", from {start} to {end}"
    return ": lowest {1} ({0}), highest {3} ({2})".format(*at(curve.lowest), *at(curve.highest))


def _factor(curve: Shape) -> str:
    change, bounds = curve.change.estimate, curve.change.interval
    return phrases.ratio(1 / change, bounds.inverse()) if change < 1 else phrases.ratio(change, bounds)


def undecided_sentence(effects: Sequence[Effect]) -> str:
    """All factors whose effect is undecided in one sentence: responses that share factor and places together."""
    places: dict[tuple[str, str], list[Effect]] = {}
    for effect in effects:
        places.setdefault((effect.factor, effect.cells.response), []).append(effect)
    shared: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (factor, response), own in places.items():
        means = [mean_of(cell.values) for effect in own for cell in effect.cells.cells]
        name = f"{phrases.noun(response)} ({phrases.span(response, min(means), max(means))})"
        shared.setdefault((factor, tuple(phrases.levels(effect.cells.where()) for effect in own)), []).append(name)
    parts = [
        f"{phrases.listed(names, 9)} {'depends' if len(names) == 1 else 'depend'} on {phrases.factor_noun(factor)}"
        + (f" ({phrases.beside_text(' or '.join(where))})" if any(where) else "")
        for (factor, where), names in shared.items()
    ]
    known = [effect.needed for effect in effects if effect.needed is not None]
    needed = phrases.repetitions_needed(max(known)) if known else ""
    margin = phrases.percent(MARGIN)
    return UNDECIDED.format(
        effects=", nor whether ".join(parts),
        needed=UNDECIDED_NEEDED.format(margin=margin, needed=needed) if needed else "",
    )


# Between levels that are words


def average_sentence(part: AverageChange) -> str:
    """Two levels against each other, averaged over everything else."""
    ratio, levels = part.ratio, part.levels
    first, second = (phrases.at(part.factor, level) for level in levels)
    known = {
        "name": phrases.noun(part.cells.response),
        "ratio": f"ratio {ratio.ratio:.3g}, {phrases.bounds_of(ratio.interval)}",
    }
    if part.outcome in (Outcome.EQUIVALENT, Outcome.UNDECIDED):
        template = AVERAGE_EQUAL if part.outcome == Outcome.EQUIVALENT else AVERAGE_UNDECIDED
        return template.format(levels=phrases.both(part.factor, *levels), margin=phrases.percent(MARGIN), **known)
    if ratio.ratio >= 2:
        return AVERAGE_TIMES.format(times=phrases.times(ratio.ratio), high=second, low=first, **known)
    if ratio.ratio <= 0.5:
        return AVERAGE_TIMES.format(times=phrases.times(1 / ratio.ratio), high=first, low=second, **known)
    share, way = phrases.percent(abs(ratio.ratio - 1)), "higher" if ratio.ratio > 1 else "lower"
    return AVERAGE_SHARE.format(share=share, way=way, first=first, second=second, **known)


def best_sentence(effect: Effect) -> str:
    """Best and worst of unordered levels."""
    extremes, lower = effect.extremes, lower_is_better(effect.cells.response)
    best, worst = (phrases.at(effect.factor, cell.point[effect.factor]) for cell in (extremes.best, extremes.worst))
    text = f"{phrases.subject(effect.cells.response)} is {'lowest (best)' if lower else 'highest'} {best}"
    if effect.outcome == Outcome.EQUIVALENT:
        text += f", although all levels differ by at most {phrases.percent(MARGIN)}"
    elif extremes.ratio is not None:
        interval = "" if extremes.pair is None else f" ({phrases.bounds_of(extremes.pair.interval)})"
        size = f"{phrases.times(extremes.ratio)}{interval}"
        text += f", against {size} as much {worst}" if lower else f", {size} that {worst}"
    return phrases.placed(effect.cells.where(), f"{text}.")


# Mixes of block sizes


def mix_sentences(measured: Cells, mix: Mix) -> tuple[str, str, str]:
    """Observation, statistics and conclusion about a mix of sizes."""
    others = {name: level for name, level in mix.cell.point.items() if name != CASE}
    where = {name: level for name, level in others.items() if len(measured.factors[name]) > 1}
    mixed, name = str(mix.cell.point[CASE]), phrases.subject(measured.response)
    known = {case: ratio for case, ratio in mix.against.items() if isinstance(ratio, Ratio)}
    means = phrases.listed([_mean(measured, cell) for cell in (mix.cell, *mix.fixed)], 9)
    observation = phrases.placed(where, f"{name} is {means}.")
    if not known:
        return observation, FEW_FOR_MIX.format(mix=mixed), observation
    ratios = [
        f"{ratio.ratio:.3g} against {case} ({phrases.bounds_of(ratio.interval)}, {phrases.p(ratio.p)})"
        for case, ratio in known.items()
    ]
    tested = phrases.placed(where, f"{name} of {mixed}, as a ratio: {phrases.listed(ratios, 9)}.")
    outcomes = mix.outcomes
    costs = [f"{_cost(ratio)} {case}" for case, ratio in known.items() if outcomes[case] == Outcome.DIFFERENCE]
    for outcome, words in ((Outcome.EQUIVALENT, f"within {phrases.percent(MARGIN)} of"), (Outcome.UNDECIDED, UNPROVED)):
        alike = [case for case in known if outcomes[case] == outcome]
        costs += [f"{words} {phrases.listed(alike, 9)}"] if alike else []
    concluded = phrases.placed(where, f"{name} of {mixed} is {phrases.listed(costs, 9)}.")
    if isinstance(mix.predicted, Ratio):
        concluded += f" {prediction(mix.predicted)}"
    return observation, tested, concluded


def _mean(measured: Cells, cell: Cell) -> str:
    return f"{phrases.value(measured.response, mean_of(cell.values))} for {cell.point[CASE]}"


def _cost(ratio: Ratio) -> str:
    low, high = sorted((abs(ratio.interval.low - 1), abs(ratio.interval.high - 1)))
    if ratio.ratio >= 2:
        return f"{ratio.ratio:.3g} times ({phrases.bounds_of(ratio.interval)}) that of"
    way, level = "above" if ratio.ratio > 1 else "below", phrases.level(ratio.interval.confidence)
    within = f"{level} interval {phrases.points(low)} to {phrases.points(high)} %"
    return f"{phrases.percent(abs(ratio.ratio - 1))} ({within}) {way}"


def prediction(ratio: Ratio) -> str:
    """What mixing itself costs: measured against predicted from the parts."""
    outcome = ratio_outcome(ratio)
    if outcome == Outcome.DIFFERENCE:
        return UNLIKE_PREDICTED.format(difference=_cost(ratio), way="costs" if ratio.ratio < 1 else "gains")
    template = AS_PREDICTED if outcome == Outcome.EQUIVALENT else UNDECIDED_PREDICTION
    known = f"ratio {ratio.ratio:.3g}, {phrases.bounds_of(ratio.interval)}"
    return template.format(ratio=known, margin=phrases.percent(MARGIN))
