"""The sentences of the conclusion: a mean, a shape, a ratio or a cost in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay.analysis.effects.block_size_mix import Mix
from ioassay.analysis.effects.level_contrasts import lower_is_better
from ioassay.analysis.effects.one_factor import Effect
from ioassay.analysis.effects.response_shape import DIP, DOWN, LEVEL, MARGIN, MIXED, PEAK, UP, Shape
from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.factors import CASE, factor_label, level_phrase
from ioassay.narrative import phrases
from ioassay.stats.ratio_of_means import Ratio
from ioassay.stats.result import Interval, mean_of
from ioassay.stats.sample import t_interval


def single_sentence(found: Cells, confidence: float) -> tuple[str, dict[str, Any]]:
    """The only condition: its mean with its interval."""
    cell = found.cells[0]
    mean, interval = mean_of(cell.values), t_interval(cell.values, confidence)
    known = f" ({phrases.interval(found.response, interval)})" if isinstance(interval, Interval) else ""
    sentence = (
        f"{phrases.name(found.response)} is {phrases.value(found.response, mean)}{known} "
        f"over {phrases.count(cell.values.size, 'repetition')}."
    )
    return sentence, {"response": found.response, "point": cell.point, "mean": mean, "interval": interval}


def shape_sentence(part: Cells, curve: Shape) -> str:
    """What a response does over an ordered factor."""
    told = f"{phrases.name(part.response)} {shape_phrase(curve)}"
    if curve.kind != LEVEL:
        told += f", {shape_ends(part, curve)}"
    if curve.kind in (UP, DOWN, MIXED):
        told += f", a factor of {_factor(curve)}{_plateau(curve)}"
    return f"{phrases.placed(part.where(), told)}."


def shape_phrase(curve: Shape) -> str:
    """What the response does: `rises with block size`."""
    factor = phrases.factor_noun(curve.factor)
    if curve.tendency is not None:
        return f"tends to {'rise' if curve.kind == UP else 'fall'} with {factor} (rank correlation over all levels)"
    return {
        LEVEL: f"varies by at most {phrases.percent(MARGIN)} over {factor}",
        UP: f"rises with {factor}",
        DOWN: f"falls with {factor}",
        PEAK: f"is highest inside the range of {factor}",
        DIP: f"is lowest inside the range of {factor}",
    }.get(curve.kind, f"rises and falls over {factor}")


def shape_ends(part: Cells, curve: Shape) -> str:
    """Where it begins and ends, or where it turns: `from 25 MB/s at 1 job to 93 MB/s at 8 jobs`."""
    turns = {PEAK: [curve.highest], DIP: [curve.lowest]}.get(curve.kind, [curve.first, curve.last])
    at = [phrases.at(curve.factor, cell.point[curve.factor]) for cell in turns]
    shown = [phrases.value(part.response, mean_of(cell.values)) for cell in turns]
    if len(turns) == 1:
        return f"{at[0]} ({shown[0]})"
    return f"from {shown[0]} {at[0]} to {shown[1]} {at[1]}"


def _factor(curve: Shape) -> str:
    fell = curve.change < 1
    return phrases.ratio(
        1 / curve.change if fell else curve.change,
        curve.interval.inverse() if fell and curve.interval is not None else curve.interval,
    )


def _plateau(curve: Shape) -> str:
    if curve.plateau is None or curve.plateau is curve.first:
        return ""
    level = level_phrase(curve.factor, curve.plateau.point[curve.factor])
    return f"; beyond {level} it levels off, changing by no more than {phrases.percent(MARGIN)}"


def quiet_sentence(places: Sequence[tuple[Cells, str]]) -> str:
    """Everything over which nothing was seen, in one sentence: responses that share factor and places together."""
    seen: dict[tuple[str, str], list[str]] = {}
    for part, factor in places:
        seen.setdefault((factor, phrases.inside(part.response)), []).append(phrases.levels(part.where()))
    shared: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (factor, name), where in seen.items():
        shared.setdefault((factor, tuple(where)), []).append(name)
    parts = [
        f"{factor_label(factor)} on {phrases.listed(names, 9)}"
        + (f" ({phrases.beside_text(' or '.join(where))})" if any(where) else "")
        for (factor, where), names in shared.items()
    ]
    return f"These repetitions show no effect of {', nor of '.join(parts)}."


def average_sentence(found: Cells, factor: str, ratio: Ratio) -> str:
    """Two levels against each other, averaged over everything else."""
    first, second = (phrases.at(factor, level) for level in found.factors[factor])
    name, known = phrases.inside(found.response), f"ratio {ratio.ratio:.3g}, {phrases.bounds_of(ratio.interval)}"
    if alike(ratio):
        between = phrases.both(factor, *found.factors[factor])
        return f"On average, {name} does not differ visibly between {between} ({known})."
    if ratio.ratio >= 2:
        return f"On average, {name} is {phrases.times(ratio.ratio)} as high {second} as {first} ({known})."
    if ratio.ratio <= 0.5:
        return f"On average, {name} is {phrases.times(1 / ratio.ratio)} as high {first} as {second} ({known})."
    way = "higher" if ratio.ratio > 1 else "lower"
    return f"On average, {name} is {phrases.percent(abs(ratio.ratio - 1))} {way} {second} than {first} ({known})."


def best_sentence(effect: Effect) -> str:
    """Best and worst of unordered levels."""
    where, name = effect.cells.where(), phrases.name(effect.cells.response)
    best, worst = (cell.point[effect.factor] for cell in (effect.extremes.best, effect.extremes.worst))
    word = "lowest, which is best," if lower_is_better(effect.cells.response) else "highest"
    told = f"{name} is {word} {phrases.at(effect.factor, best)}"
    if effect.extremes.ratio is None:
        return phrases.placed(where, f"{told}.")
    if effect.extremes.interval is not None and effect.extremes.interval.low <= 1 <= effect.extremes.interval.high:
        return phrases.placed(where, f"{told}, though no two levels can be told apart.")
    other = f"a factor of {phrases.ratio(effect.extremes.ratio, effect.extremes.interval)} from"
    return phrases.placed(where, f"{told}, {other} {level_phrase(effect.factor, worst)}.")


def mix_sentences(found: Cells, one: Mix) -> tuple[str, str, str]:
    """Observation, statistics and conclusion about a mix of sizes."""
    others = {name: level for name, level in one.cell.point.items() if name != CASE}
    where = {name: level for name, level in others.items() if len(found.factors[name]) > 1}
    mixed, name = str(one.cell.point[CASE]), phrases.name(found.response)
    known = {case: ratio for case, ratio in one.against.items() if isinstance(ratio, Ratio)}
    means = phrases.listed([_mean(found, cell) for cell in (one.cell, *one.fixed)], 9)
    seen = phrases.placed(where, f"{name} is {means}.")
    if not known:
        return seen, f"Too few repetitions to compare {mixed} with fixed sizes.", seen
    ratios = [
        f"{ratio.ratio:.3g} against {case} ({phrases.bounds_of(ratio.interval)}, {phrases.p(ratio.p)})"
        for case, ratio in known.items()
    ]
    tested = phrases.placed(where, f"{name} of {mixed}, as a ratio: {phrases.listed(ratios, 9)}.")
    equal = [case for case, ratio in known.items() if alike(ratio)]
    costs = [f"{_cost(ratio)} {case}" for case, ratio in known.items() if not alike(ratio)]
    costs += [f"not visibly different from {phrases.listed(equal, 9)}"] if equal else []
    concluded = phrases.placed(where, f"{name} of {mixed} is {phrases.listed(costs, 9)}.")
    if isinstance(one.predicted, Ratio):
        concluded += f" {prediction(one.predicted)}"
    return seen, tested, concluded


def _mean(found: Cells, cell: Cell) -> str:
    return f"{phrases.value(found.response, mean_of(cell.values))} for {cell.point[CASE]}"


def alike(ratio: Ratio) -> bool:
    """Whether the ratio's interval holds 1."""
    return ratio.interval.low <= 1 <= ratio.interval.high


def _cost(ratio: Ratio) -> str:
    low, high = sorted((abs(ratio.interval.low - 1), abs(ratio.interval.high - 1)))
    if ratio.ratio >= 2:
        return f"{ratio.ratio:.3g} times ({phrases.bounds_of(ratio.interval)}) that of"
    way = "above" if ratio.ratio > 1 else "below"
    level = phrases.level(ratio.interval.confidence)
    within = f"{level} interval {phrases.points(low)} to {phrases.points(high)} %"
    return f"{phrases.percent(abs(ratio.ratio - 1))} ({within}) {way}"


def prediction(ratio: Ratio) -> str:
    """What mixing itself costs: measured against predicted from the parts."""
    told = "what its parts would give at their own speeds"
    if alike(ratio):
        return f"It does not differ visibly from {told} (ratio {ratio.ratio:.3g}, {phrases.bounds_of(ratio.interval)})."
    return f"It is {_cost(ratio)} {told}: mixing itself {'costs' if ratio.ratio < 1 else 'gains'} that much."
