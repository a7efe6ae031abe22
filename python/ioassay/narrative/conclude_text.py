"""What a study comes to: the few statements that answer it, all others as details, and ratios of averages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from ioassay.analysis.conclusion import CasePart, Conclusion, Focus, Mean, Part, RatioRow
from ioassay.analysis.one_factor import AverageChange, Effect, Outcome
from ioassay.analysis.optimum import SEPARATE_SLICES
from ioassay.narrative import choice_text, effect_text, peak_text, phrases
from ioassay.narrative.finding import Finding, Table, bounds, missing_conditions
from ioassay.narrative.say import Level, Quantity, Ratio, Response, Say, say
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.result import plain

MOST = 5
"""A study is answered by no more statements; the others are details."""


def findings(answers: Sequence[Conclusion]) -> list[Finding]:
    """One finding for the study; none where there is nothing to conclude."""
    found = []
    for conclusion in answers:
        study, focus, ratios = conclusion.study, conclusion.focus, list[RatioRow]()
        for part in conclusion.parts:
            if isinstance(part, AverageChange):
                against, level = part.levels
                row = RatioRow(
                    response=part.cells.response,
                    factor=part.factor,
                    where={},
                    level=level,
                    against=against,
                    ratio=part.ratio,
                )
                ratios.append(row)
            elif isinstance(part, CasePart):
                ratios += part.ratios()
        compared = Table.of(
            ratios,
            ("response", lambda row: phrases.name(row["response"])),
            ("level", lambda row: format(Level(row["factor"], row["level"]))),
            ("against", lambda row: format(Level(row["factor"], row["against"]))),
            ("ratio", lambda row: row["ratio"].ratio),
            *bounds(lambda row: row["ratio"].interval),
            ("p", lambda row: row["ratio"].p),
        )
        said = [*(opening(focus) if focus else ()), *_statements(conclusion.parts)]
        left_out = missing_conditions(conclusion.missing)
        finding = Finding(
            title=study.title or study.name,
            statements=[*said[:MOST], *left_out],
            details=said[MOST:],
            omissions=left_out,
            statistics={"ratios": plain(ratios), "not_measured": [group.as_dict() for group in conclusion.missing]},
            tables=[compared] if ratios else [],
        )
        found += [finding] if finding.statements else []
    return found


def _statements(parts: Sequence[Part]) -> Iterator[Say]:
    """Cases, then over words and numbers by response and factor, pairs of levels and means; what is undecided last."""
    for part in parts:
        if isinstance(part, CasePart):
            yield from part.statements()
    effects: dict[tuple[str, str], list[Effect]] = {}
    undecided = [part for part in parts if isinstance(part, Effect) and part.outcome == Outcome.UNDECIDED]
    for part in parts:
        if isinstance(part, Effect) and part.outcome != Outcome.UNDECIDED:
            effects.setdefault((part.cells.response, part.factor), []).append(part)
    for own in sorted(effects.values(), key=lambda own: not own[0].ordered):
        yield from effect_text.statements(own)
    yield from _averages([part for part in parts if isinstance(part, AverageChange)])
    for part in parts:
        if isinstance(part, Mean):
            quantity = Quantity(part.response, part.mean, part.interval)
            yield say("conclude.mean", quantity=quantity, repetitions=part.cell.values.size)
    if undecided:
        yield effect_text.undecided(undecided)


def _averages(changes: Sequence[AverageChange]) -> Iterator[Say]:
    for one in (one for one in changes if one.outcome == Outcome.DIFFERENCE):
        ratio, name = Ratio(one.ratio.ratio, one.ratio.interval), Response(one.cells.response)
        first, second = (Level(one.factor, level) for level in one.levels)
        if ratio.value >= 2:
            yield say("conclude.average_times", name=name, times=ratio, high=second, low=first)
        elif ratio.value <= 0.5:
            times = Ratio(1 / ratio.value, one.ratio.interval.inverse())
            yield say("conclude.average_times", name=name, times=times, high=first, low=second)
        else:
            way, share = "higher" if ratio.value > 1 else "lower", abs(ratio.value - 1)
            known = {"way": way, "first": first, "second": second, "share": share, "ratio": ratio}
            yield say("conclude.average_share", name=name, **known)
    for outcome, code in ((Outcome.EQUIVALENT, "equal"), (Outcome.UNDECIDED, "undecided")):
        by_levels: dict[str, list[AverageChange]] = {}
        for one in changes:
            if one.outcome == outcome:
                by_levels.setdefault(phrases.both(one.factor, *one.levels), []).append(one)
        for levels, own in by_levels.items():
            known = {"levels": levels, "margin": MARGIN}
            if len(own) == 1:
                name, shown = Response(own[0].cells.response), Ratio(own[0].ratio.ratio, own[0].ratio.interval)
                yield say(f"conclude.average_{code}", name=name, ratio=shown, **known)
            else:
                names = [phrases.noun(one.cells.response) for one in own]
                yield say(f"conclude.averages_{code}", names=names, **known)


def opening(focus: Focus) -> list[Say]:
    """What a study of a choice or of peaks begins with."""
    if focus.choices:
        first, *others = focus.choices
        plateaus = [peak_text.gains(focus.response, factor, peaks) for factor, peaks in focus.peaks.items()]
        return [*choice_text.sentences(first), *choice_text.in_brief(others), *chain.from_iterable(plateaus)]
    said: list[Say] = []
    for peaks in focus.peaks.values():
        separate = [text for one in peaks for text in (*peak_text.in_brief(one), *peak_text.scaling(one))]
        said += separate if len(peaks) <= SEPARATE_SLICES else peak_text.counted(focus.response, peaks)
    return said
