"""What the factors do: each in each place of the others, all together, by analyses of variance, and two levels."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ioassay.analysis.factor_effects import AnovaVariants, Answer, JointEffects
from ioassay.analysis.factor_effects import InteractionOutcome as Joint
from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.analysis.one_factor import (
    LOGARITHMIC,
    AverageChange,
    Effect,
    FactorEffects,
    LineOutcome,
    Outcome,
    Regression,
)
from ioassay.factors import factor_label, level_reading, level_text, step_label
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table, bounds, left_out
from ioassay.narrative.say import Factor, Level, Quantity, Range, Ratio, Response, Say, holding, say
from ioassay.stats.contrasts import MARGIN, Contrasts
from ioassay.stats.linear_models import BLOCK, OneWay
from ioassay.stats.result import Undefined, plain
from ioassay.stats.shapes import ShapeKind

MOST_PLACES = 4
"""Up to this number of combinations of the other factors each has a sentence; more are counted in one."""
_STEPS = {
    "size": (1024.0, "per KiB"),
    "duration": (1.0, "per second"),
    "percent": (1.0, "per percentage point"),
    "rate": (1e6, "per MB/s"),
}
"""The unit of a slope by the kind of the levels: sizes by the KiB, since nobody chooses them by the byte."""
_WAYS = {ShapeKind.UP: ("rises", "tends_to_rise"), ShapeKind.DOWN: ("falls", "tends_to_fall")}
"""What a response does, certainly or by its slope alone."""


def findings(answers: Sequence[Answer]) -> list[Finding]:
    """One for each response and factor, for all factors of a response together, and for analyses side by side."""
    words: dict[type, Callable[[Any], Finding]]
    words = {FactorEffects: _places, JointEffects: _joint, AnovaVariants: _variants}
    return [words[type(answer)](answer) for answer in answers]


def _about(cells: Cells, title: str, factors: Sequence[str] = (), **parts: Any) -> Finding:
    names = [factor_label(name) for name in factors]
    title = str(say(f"effect.title_{title}", name=Response(cells.response), factors=names))
    return Finding(response=cells.response, title=title, **parts)


def statements(effects: Sequence[Effect]) -> list[Say]:
    """What one response does over one factor in all places: of four at most a statement each, of more their number."""
    quiet = [effect for effect in effects if effect.outcome == Outcome.UNDECIDED]
    decided = [effect for effect in effects if effect.outcome != Outcome.UNDECIDED]
    said = [one for effect in decided for one in statement(effect)]
    if len(effects) > MOST_PLACES and decided:
        name, ways = Response(decided[0].cells.response), [direction(effect) for effect in decided]
        factors = [phrases.factor_noun(factor) for factor in decided[0].cells.where()]
        places = f"{len(effects)} {'combinations' if len(factors) > 1 else 'levels'} of {phrases.listed(factors)}"
        found, counts = {str(way): way for way in ways}, Counter(map(str, ways)).most_common()
        if counts[0][1] == len(effects):
            said = [say("effect.every_place", places=places, name=name, direction=ways[0])]
        else:
            counted = [say("effect.counted", direction=found[text], places=number) for text, number in counts]
            said = [say("effect.places", places=places, name=name, counted=counted)]
    return [*said, *([undecided(quiet)] if quiet else [])]


def statement(effect: Effect) -> list[Say]:
    """What it does where all other factors are fixed, and where it levels off."""
    name, where, outcome, curve = Response(effect.cells.response), effect.cells.where(), effect.outcome, effect.shape
    known: dict[str, object] = {"name": name, "factor": Factor(effect.factor), "margin": MARGIN}

    def at(cell: Cell) -> tuple[Quantity, Level]:
        return Quantity(name.metric, cell.mean), Level(effect.factor, cell.point[effect.factor])

    if isinstance(untested := effect.family.contrasts, Undefined):
        means = Range.over(name.metric, (cell.mean for cell in effect.family.cells))
        return [Say("effect.untested", {**known, "range": means, "reason": untested.reason}, where)]
    if curve is None:
        if outcome == Outcome.EQUIVALENT:
            return [Say("effect.equivalent", known, where)]
        code, best, worst = "lowest" if effect.family.lower else "highest", at(effect.best)[1], at(effect.worst)[1]
        if effect.ratio is None:
            return [Say(f"effect.{code}_alone", {**known, "best": best}, where)]
        ratio = Ratio(effect.ratio, effect.pair.interval if effect.pair else None)
        return [Say(f"effect.{code}", {**known, "best": best, "worst": worst, "ratio": ratio}, where)]
    way = direction(effect)
    values: dict[str, object] = {"direction": way}
    if curve.kind == ShapeKind.LEVEL:
        code = "flat"
    elif curve.kind in (ShapeKind.PEAK, ShapeKind.DIP):
        code = "turn"
        values["mean"], values["level"] = at(curve.highest if curve.kind == ShapeKind.PEAK else curve.lowest)
    elif curve.kind in _WAYS:
        code, kinds = "ends", ("lowest_end", "highest_end")[:: 1 if curve.kind == ShapeKind.UP else -1]
        usual = zip(
            ("start", "end"),
            (curve.start, curve.end),
            (effect.family.cells[0], effect.family.cells[-1]),
            kinds,
            strict=True,
        )
        for place, cell, end, kind in usual:
            mean, level = at(cell)
            values[place] = say(f"effect.{'end' if cell is end else kind}", mean=mean, level=level)
        if way.code != "effect.undirected" and curve.tendency is None:
            change, interval = curve.change.estimate, curve.change.interval
            code, inverse = "ratio", change < 1
            values["ratio"] = Ratio(1 / change, interval.inverse()) if inverse else Ratio(change, interval)
    else:
        code, ((lowest, low), (highest, high)) = "extremes", (at(curve.lowest), at(curve.highest))
        values |= {"lowest": lowest, "low": low, "highest": highest, "high": high}
    said = [Say(f"effect.{code}", {**known, **values}, where)]
    if curve.plateau is not None and curve.earliest is not None:
        known |= {"place": where, "level": at(curve.plateau)[1], "earliest": at(curve.earliest)[1]}
        said.append(say(f"effect.levels_off{'' if curve.earliest is curve.plateau else '_between'}", **known))
    return said


def direction(effect: Effect) -> Say:
    """What the response does, as a fragment: `rises with block size`; of words that levels differ, or do not."""
    curve = effect.shape
    if curve is None:
        code = "level" if effect.outcome == Outcome.EQUIVALENT else "differs"
    elif effect.outcome == Outcome.NO_DIRECTION or curve.kind == ShapeKind.UNCLEAR:
        code = "undirected"
    elif curve.kind in _WAYS:
        code = _WAYS[curve.kind][curve.tendency is not None]
    else:
        code = curve.kind.value
    return say(f"effect.{code}", factor=Factor(effect.factor), margin=MARGIN)


def undecided(effects: Sequence[Effect]) -> Say:
    """All factors whose effect is undecided in one sentence: responses that share factor and places together."""
    places: dict[tuple[str, str], list[Effect]] = {}
    for effect in effects:
        places.setdefault((effect.factor, effect.cells.response), []).append(effect)
    shared: dict[tuple[str, tuple[str, ...]], list[Say]] = {}
    for (factor, response), own in places.items():
        means = Range.over(response, (cell.mean for effect in own for cell in effect.cells.cells))
        name = say("effect.named_range", name=Response(response), range=means)
        shared.setdefault((factor, tuple(phrases.levels(effect.cells.where()) for effect in own)), []).append(name)
    parts = [
        say(
            f"effect.{'depends' if len(names) == 1 else 'depend'}{'_there' if any(where) else ''}",
            names=names,
            factor=Factor(factor),
            places=list(where),
        )
        for (factor, where), names in shared.items()
    ]
    needed = max((effect.needed for effect in effects if effect.needed is not None), default=None)
    if needed is None:
        return say("effect.undecided", effects=parts)
    return say("effect.undecided_needed", effects=parts, margin=MARGIN, needed=needed)


# One factor


def _places(answer: FactorEffects) -> Finding:
    tested = [effect for effect in answer.effects if effect.outcome != Outcome.NOT_TESTED]
    few = any(cell.values.size < 4 for effect in tested for cell in effect.cells.cells)
    curved = any(effect.line is not None and effect.line.outcome == LineOutcome.CURVED for effect in answer.effects)
    return _about(
        answer.cells,
        "factor",
        [answer.factor],
        statements=statements(answer.effects),
        statistics={"factor": answer.factor, "slices": [_numbers(effect) for effect in answer.effects]},
        tables=[_table(answer)],
        caveats=[*left_out(answer.cells), *holding("effect", few=few, curved=curved)],
    )


def _table(answer: FactorEffects) -> Table:
    """A row for each place: what was tested, best and worst, and the line over the factor."""
    factor, where = answer.factor, list(answer.effects[0].cells.where())

    def line(one: Effect) -> Regression | None:
        return None if one.line is None or one.line.outcome == LineOutcome.TURNS else one.line

    fitted = [
        ("slope", lambda one: slope(found) if (found := line(one)) else None),
        ("R²", lambda one: found.line.r2 if (found := line(one)) else None),
        ("lack of fit p", lambda one: getattr(found.lack, "p", None) if (found := line(one)) else None),
    ]
    return Table.of(
        answer.effects,
        *((factor_label(name), lambda one, name=name: one.cells.where()[name]) for name in where),
        ("outcome", lambda one: one.outcome.value),
        ("p, all pairs", lambda one: one.p),
        ("omega²", lambda one: one.explained),
        ("best", lambda one: one.best.point[factor]),
        ("worst", lambda one: one.worst.point[factor]),
        ("ratio", lambda one: one.ratio),
        *bounds(lambda one: one.pair and one.pair.interval),
        *(fitted if any(map(line, answer.effects)) else ()),
    )


def slope(regression: Regression) -> str:
    """That of the preferred model: `+12.1 MB/s per doubling of block size (95 % interval +11.8 to +12.4 MB/s)`."""
    line, interval = regression.line, regression.line.slope_interval
    if regression.kind == LOGARITHMIC:
        step, per = 1.0, f"per doubling of {factor_label(regression.factor)}"
    else:
        kind = level_reading(regression.factor, [cell.point[regression.factor] for cell in regression.cells.cells])
        step, per = _STEPS.get(kind or "", (1.0, f"per {step_label(regression.factor)}"))
    shown = [
        f"{'−' if number < 0 else '+'}{phrases.value(regression.cells.response, abs(step * number))}"
        for number in (line.slope, interval.low, interval.high)
    ]
    return f"{shown[0]} {per} ({phrases.level(interval.confidence)} interval {phrases.joined(shown[1], shown[2])})"


def _numbers(effect: Effect) -> dict[str, Any]:
    levels = [cell.point[effect.factor] for cell in effect.family.cells]
    line, contrasts = effect.line, effect.family.contrasts
    pairs = [
        {
            "level": levels[high],
            "against": levels[low],
            "scale": contrasts.means.scale,
            **plain(contrasts.pair(high, low)),
            "within_margin": contrasts.equal(high, low),
        }
        for low, high in itertools.combinations(range(len(levels)), 2)
        if isinstance(contrasts, Contrasts)
    ]
    return {
        "where": effect.cells.where(),
        "factor": effect.factor,
        "levels": levels,
        "outcome": effect.outcome.value,
        "shape": effect.shape.kind if effect.shape else None,
        "pairs": pairs,
        "p": effect.p,
        "best": effect.best.point[effect.factor],
        "worst": effect.worst.point[effect.factor],
        "ratio": effect.ratio,
        "ratio_interval": plain(effect.pair.interval) if effect.pair else None,
        "repetitions_needed": effect.needed,
        "plateau": effect.shape.plateau.point[effect.factor] if effect.shape and effect.shape.plateau else None,
        "line": line and {"kind": line.kind, "outcome": line.outcome.value, **plain(line.line)},
    }


# All factors together


def _joint(answer: JointEffects) -> Finding:
    known = [effect for name in answer.names if (effect := answer.sums.effect(name))]
    shares = [
        say("effect.share" if place else "effect.explains", factor=Factor(effect.term), share=effect.omega2)
        for place, effect in enumerate(sorted(known, key=lambda effect: -effect.eta2))
    ]
    said = say("effect.shares", name=Response(answer.cells.response), shares=shares)

    shown = Table.of(
        answer.sums.effects,
        ("source", lambda one: "pass (block)" if one.term == BLOCK else one.term),
        ("df", lambda one: one.df),
        ("sum of squares", lambda one: one.ss),
        ("mean square", lambda one: one.ms),
        ("F", lambda one: one.f),
        ("p", lambda one: one.p),
        ("eta²", lambda one: one.eta2),
        ("partial eta²", lambda one: one.partial_eta2),
        ("omega²", lambda one: one.omega2),
        ("partial omega²", lambda one: one.partial_omega2),
    )
    rest = ["residual", answer.sums.df_residual, answer.sums.ss_residual, answer.sums.ms_residual]
    interactions = [
        {
            "factors": list(one.factors),
            "levels": [list(levels) for levels in one.levels],
            "outcome": one.outcome.value,
            **plain(one.interaction.pair),
            "repetitions_needed": one.interaction.needed,
        }
        for one in answer.pairs
    ]
    return _about(
        answer.cells,
        "together",
        answer.names,
        statements=[said, *(_interaction(answer) if answer.pairs else ())],
        statistics={"interactions": interactions},
        tables=[Table(shown.columns, [*shown.rows, [*rest, *[None] * (len(shown.columns) - len(rest))]])],
        caveats=[*left_out(answer.cells), *holding("effect", no_interaction=not answer.pairs, equal_scatter=True)],
    )


def _interaction(answer: JointEffects) -> list[Say]:
    own = answer.of(answer.outcome)
    clearest, pair = own[0], own[0].interaction.pair
    if answer.outcome == Joint.ABSENT:
        return [say("effect.interaction_absent", margin=MARGIN)]
    if answer.outcome == Joint.UNDECIDED:
        pairs = [" and ".join(map(phrases.factor_noun, one.factors)) for one in own]
        needed = max((one.interaction.needed for one in own if one.interaction.needed is not None), default=None)
        code = f"effect.interaction_undecided{'' if needed is None else '_needed'}"
        return [say(code, pairs=pairs, p=pair.p, needed=needed)]
    (first, second), (levels, places) = clearest.factors, clearest.levels
    low, high = (Level(first, level) for level in levels)
    here, there = (Level(second, level) for level in places)
    ratio = Ratio(pair.estimate, pair.interval)
    return [
        say("effect.interaction", factors=[phrases.factor_noun(name) for name in clearest.factors], p=pair.p),
        say("effect.clearest", upper=high, lower=low, here=here, there=there, ratio=ratio),
    ]


def _variants(answer: AnovaVariants) -> Finding:
    each, proper, overall = answer.per_repetition.values(), answer.repetitions, answer.all_samples
    different = sum(map(answer.differs, each))
    said = [
        say(f"effect.all_{'differ' if answer.differs(overall) else 'alike'}", p=overall.p, df=overall.df_within),
        say("effect.single_repetitions", different=different, of=len(each)),
        say("effect.no_test", reason=proper.reason)
        if isinstance(proper, Undefined)
        else say("effect.repetitions", p=proper.p, df=proper.df_within),
    ]
    rows: list[tuple[str, OneWay | Undefined]] = [
        ("log samples (naive)", overall),
        *((f"repetition {number + 1} (naive)", found) for number, found in answer.per_repetition.items()),
        ("over repetitions", proper),
    ]
    table = Table.of(
        [row for row in rows if not isinstance(row[1], Undefined)],
        ("analysis", lambda row: row[0]),
        ("observations", lambda row: row[1].df_between + row[1].df_within + 1),
        ("F", lambda row: row[1].f),
        ("degrees of freedom", lambda row: f"{row[1].df_between}, {row[1].df_within:.4g}"),
        ("p", lambda row: row[1].p),
        ("eta²", lambda row: row[1].eta2),
    )
    return _about(
        answer.cells,
        "variants",
        statements=said,
        statistics={"risk": 1 - answer.confidence, "different": different},
        tables=[table],
        caveats=[say("stability.naive_reason"), say("effect.one_repetition")],
    )


# Two levels of a factor against each other, on average over everything else: what several rates have of it

_MOST_RATIOS = 4
"""More factors than these are not listed: the least and the greatest are."""
Changes = Sequence[tuple[str, AverageChange]]
"""What each rate is of, and how it changes."""


def average_changes(changes: Changes) -> Iterator[Say]:
    """For each pair of levels: which rates differ and by which factor, which do not, and of which it is not known."""
    pairs: dict[str, dict[Outcome, dict[str, AverageChange]]] = {}
    for name, change in changes:
        pairs.setdefault(f"{change.factor} {change.levels}", {}).setdefault(change.outcome, {})[name] = change
    for own in pairs.values():
        some = next(change for each in own.values() for change in each.values())
        first, second = (Level(some.factor, level) for level in some.levels)
        facts: dict[str, Any] = {"first": first, "second": second, "margin": MARGIN, "of": sum(map(len, own.values()))}
        if different := own.get(Outcome.DIFFERENCE):
            shown = {
                name: say("average.ratio", name=name, ratio=Ratio(one.ratio.ratio, one.ratio.interval))
                for name, one in different.items()
            }
            if len(shown) <= _MOST_RATIOS:
                yield say("average.changed", ratios=[*shown.values()], **facts)
            else:
                least, most = (
                    shown[pick(different, key=lambda name: different[name].ratio.ratio)] for pick in (min, max)
                )
                yield say("average.changed_many", n=len(shown), least=least, most=most, **facts)
        if alike := own.get(Outcome.EQUIVALENT):
            yield say("average.alike", names=[*alike], **facts)
        if unclear := own.get(Outcome.UNDECIDED):
            needed = max(change.needed or 0 for change in unclear.values())
            yield say("average.undecided", names=[*unclear], needed=needed, **facts)


def average_table(changes: Changes, title: str) -> Table:
    """A row for each; `title` is that of what the rates are of."""
    return Table.of(
        changes,
        ("factor", lambda row: factor_label(row[1].factor)),
        ("levels", lambda row: " over ".join(level_text(row[1].factor, level) for level in row[1].levels[::-1])),
        (title, lambda row: row[0]),
        ("ratio of the rates", lambda row: row[1].ratio.ratio),
        *bounds(lambda row: row[1].ratio.interval),
        ("p, adjusted", lambda row: row[1].ratio.p),
    )


def average_numbers(one: AverageChange) -> dict[str, object]:
    facts: dict[str, object] = {"factor": one.factor, "levels": [*one.levels], "ratio": plain(one.ratio)}
    return {**facts, "p": one.ratio.p, "outcome": one.outcome.value, "repetitions_needed": one.needed}
