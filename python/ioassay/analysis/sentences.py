"""The sentences of the conclusion: a mean, a shape, a ratio or a cost in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay.analysis import asked, wording
from ioassay.analysis.cells import Cell, Cells
from ioassay.analysis.contrast import lower_is_better
from ioassay.analysis.mix import Mix
from ioassay.analysis.one_factor import Effect
from ioassay.analysis.shape import DIP, DOWN, LEVEL, MARGIN, PEAK, UP, Shape
from ioassay.analysis.statistics.ratio import Ratio
from ioassay.analysis.statistics.result import Interval, mean_of
from ioassay.analysis.statistics.sample import t_interval


def single_sentence(found: Cells, confidence: float) -> tuple[str, dict[str, Any]]:
    """The only condition: its mean with its interval."""
    cell = found.cells[0]
    mean, interval = mean_of(cell.values), t_interval(cell.values, confidence)
    known = f" ({wording.interval(found.response, interval)})" if isinstance(interval, Interval) else ""
    sentence = (
        f"{wording.name(found.response)} is {wording.value(found.response, mean)}{known} "
        f"over {wording.count(cell.values.size, 'repetition')}."
    )
    return sentence, {"response": found.response, "point": cell.point, "mean": mean, "interval": interval}


def shape_sentence(part: Cells, curve: Shape) -> str:
    """What a response does over an ordered factor."""
    head, name = wording.place(part.where()), wording.name(part.response)
    factor, ends = wording.factor(curve.factor), _ends(part, curve)
    if curve.kind == LEVEL:
        return f"{head}{name} is the same at every {factor}, to within {wording.percent(MARGIN)}."
    if curve.tendency is not None:
        way = "rise" if curve.kind == UP else "fall"
        return f"{head}{name} tends to {way} with {factor} ({wording.p(curve.tendency)} by ranks), {ends}."
    if curve.kind in (UP, DOWN):
        way = "rises" if curve.kind == UP else "falls"
        return f"{head}{name} {way} with {factor}, {ends}{_plateau(curve)}."
    if curve.kind in (PEAK, DIP):
        turn = curve.highest if curve.kind == PEAK else curve.lowest
        word = "highest" if curve.kind == PEAK else "lowest"
        at = wording.level_of(curve.factor, turn.point[curve.factor])
        value = wording.value(part.response, mean_of(turn.values))
        return f"{head}{name} is {word} inside the range of {factor}, at {at} ({value})."
    return f"{head}{name} goes up and down over {factor}, {ends}."


def _ends(part: Cells, curve: Shape) -> str:
    first, last = (cell.point[curve.factor] for cell in (curve.first, curve.last))
    fell = curve.change < 1
    size = wording.ratio(
        1 / curve.change if fell else curve.change,
        curve.interval.inverse() if fell and curve.interval is not None else curve.interval,
    )
    shown = [wording.value(part.response, mean_of(cell.values)) for cell in (curve.first, curve.last)]
    return (
        f"from {shown[0]} at {wording.level_of(curve.factor, first)} to {shown[1]} at "
        f"{wording.level_of(curve.factor, last)}, a factor of {size}"
    )


def _plateau(curve: Shape) -> str:
    if curve.plateau is None or curve.plateau is curve.first:
        return ""
    level = wording.level_of(curve.factor, curve.plateau.point[curve.factor])
    return f"; beyond {level} it levels off, changing by no more than {wording.percent(MARGIN)}"


def quiet_sentence(places: Sequence[tuple[Cells, str]]) -> str:
    """Everything over which nothing was seen, in one sentence."""
    shown: dict[str, list[str]] = {}
    for part, factor in places:
        where = ", ".join(wording.level_of(name, level) for name, level in part.where().items())
        shown.setdefault(f"{wording.inside(part.response)} over {wording.factor(factor)}", []).append(where)
    parts = [f"{name} ({', '.join(where)})" if any(where) else name for name, where in shown.items()]
    return f"Repetitions tell no difference in {wording.listed(parts, 9)}."


def average_sentence(found: Cells, factor: str, ratio: Ratio) -> str:
    """Two levels against each other, averaged over everything else."""
    first, second = (wording.level_of(factor, level) for level in found.factors[factor])
    name, known = wording.inside(found.response), f"ratio {ratio.ratio:.3g}, {wording.bounds_of(ratio.interval)}"
    if _alike(ratio):
        return f"On average, {name} does not differ visibly between {first} and {second} ({known})."
    if ratio.ratio >= 2:
        return f"On average, {name} is {wording.times(ratio.ratio)} as high at {second} as at {first} ({known})."
    if ratio.ratio <= 0.5:
        return f"On average, {name} is {wording.times(1 / ratio.ratio)} as high at {first} as at {second} ({known})."
    way = "higher" if ratio.ratio > 1 else "lower"
    return f"On average, {name} is {wording.percent(abs(ratio.ratio - 1))} {way} at {second} than at {first} ({known})."


def best_sentence(effect: Effect) -> str:
    """Best and worst of unordered levels."""
    head, name = wording.place(effect.cells.where()), wording.name(effect.cells.response)
    best, worst = (cell.point[effect.factor] for cell in (effect.extremes.best, effect.extremes.worst))
    word = "lowest, which is best," if lower_is_better(effect.cells.response) else "highest"
    told = f"{head}{name} is {word} at {wording.level_of(effect.factor, best)}"
    if effect.extremes.ratio is None:
        return f"{told}."
    other = f"a factor of {wording.ratio(effect.extremes.ratio, effect.extremes.interval)} from"
    return f"{told}, {other} {wording.level_of(effect.factor, worst)}."


def mix_sentences(found: Cells, one: Mix) -> tuple[str, str, str]:
    """Observation, statistics and conclusion about a mix of sizes."""
    others = {name: level for name, level in one.cell.point.items() if name != asked.CASE}
    head = wording.place({name: level for name, level in others.items() if len(found.factors[name]) > 1})
    mixed, name = str(one.cell.point[asked.CASE]), wording.name(found.response)
    known = {case: ratio for case, ratio in one.against.items() if isinstance(ratio, Ratio)}
    seen = f"{head}{name}: {wording.listed([_mean(found, cell) for cell in (one.cell, *one.fixed)], 9)}."
    if not known:
        return seen, f"{head}Too few repetitions to compare {mixed} with fixed sizes.", seen
    ratios = [
        f"{ratio.ratio:.3g} against {case} ({wording.bounds_of(ratio.interval)}, {wording.p(ratio.p)})"
        for case, ratio in known.items()
    ]
    tested = f"{head}{name} of {mixed}, as a ratio: {wording.listed(ratios, 9)}."
    alike = [case for case, ratio in known.items() if _alike(ratio)]
    costs = [f"{_cost(ratio)} {case}" for case, ratio in known.items() if not _alike(ratio)]
    costs += [f"not visibly different from {wording.listed(alike, 9)}"] if alike else []
    concluded = f"{head}{name} of {mixed} is {wording.listed(costs, 9)}."
    if isinstance(one.predicted, Ratio):
        concluded += f" {_prediction(one.predicted)}"
    return seen, tested, concluded


def _mean(found: Cells, cell: Cell) -> str:
    return f"{cell.point[asked.CASE]} {wording.value(found.response, mean_of(cell.values))}"


def _alike(ratio: Ratio) -> bool:
    return ratio.interval.low <= 1 <= ratio.interval.high


def _cost(ratio: Ratio) -> str:
    low, high = sorted((abs(ratio.interval.low - 1), abs(ratio.interval.high - 1)))
    if ratio.ratio >= 2:
        return f"{ratio.ratio:.3g} times ({wording.bounds_of(ratio.interval)}) that of"
    way = "above" if ratio.ratio > 1 else "below"
    level = wording.level(ratio.interval.confidence)
    within = f"{level} interval {wording.points(low)} to {wording.points(high)} %"
    return f"{wording.percent(abs(ratio.ratio - 1))} ({within}) {way}"


def _prediction(ratio: Ratio) -> str:
    told = "what its parts would give at their own speeds"
    if _alike(ratio):
        return f"It does not differ visibly from {told} (ratio {ratio.ratio:.3g}, {wording.bounds_of(ratio.interval)})."
    return f"It is {_cost(ratio)} {told}: mixing itself {'costs' if ratio.ratio < 1 else 'gains'} that much."
