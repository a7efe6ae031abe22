"""Where the best level lies, and why a peak ends: statements and tables of one place, of many, of a suite's sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ioassay import units
from ioassay.analysis.conclusion import Sweep
from ioassay.analysis.optimum import SEPARATE_SLICES, Optimum, Outcome, Peak
from ioassay.analysis.peak_cause import SHARES, Cause, PerOperation, Use
from ioassay.analysis.peak_cause import Counter as ResourceCounter
from ioassay.factors import factor_label, is_nanoseconds, level_phrase, level_reading
from ioassay.narrative import phrases
from ioassay.narrative.finding import NOTHING, Column, Finding, Table, bounds, left_out, missing_conditions
from ioassay.narrative.say import Factor, Level, Place, Quantity, Response, Say, say, templates
from ioassay.stats.condition_means import Scale
from ioassay.stats.contrasts import MARGIN, BestLevel, Contrasts
from ioassay.stats.result import Interval, Undefined
from ioassay.stats.scalability import FEWEST_LEVELS, USL, Knee, Law, preferred

FEW = 5
"""Below this number of repetitions an interval is wide because of them."""
_FEW_SWEEPS = 6
"""Up to this number of sweeps of a suite each is named with its best level."""
_LONG = 200
"""Characters of a note above which it is not repeated in every row."""
_UNNAMED = (Outcome.EQUAL, Outcome.EQUIVALENT, Outcome.UNDECIDED, Outcome.UNREPEATED)
"""Outcomes under which no level is named the best."""
_OPEN = (Outcome.UNDECIDED, Outcome.NARROWED, Outcome.STILL_IMPROVES)
"""Outcomes that more repetitions would decide."""


def findings(answers: Sequence[Optimum | Sweep]) -> list[Finding]:
    """A finding for each place, or one for all where there are many; one for all sweeps of a suite."""
    sweeps = [one for one in answers if isinstance(one, Sweep)]
    found = [_suite(sweeps)] if sweeps else []
    for answer in (one for one in answers if isinstance(one, Optimum)):
        response, factor = answer.cells.response, answer.peaks[0].factor
        title = str(say("peak.title", name=Response(response), factor=Factor(factor)))
        absent = {"not_measured": [part.as_dict() for part in answer.missing]}
        if len(answer.peaks) > SEPARATE_SLICES:
            found.append(_places(answer, title, absent))
            continue
        for one in answer.peaks:
            found.append(
                Finding(
                    response=response,
                    title=title,
                    statements=[*statements(one)],
                    where=one.part.where(),
                    statistics={**one.statistics(), **absent},
                    tables=[_levels(one), *_fits(one), *counters_table(one)],
                    caveats=[*left_out(one.part), *_caveats(one)],
                )
            )
    return found


def _places(answer: Optimum, title: str, absent: Mapping[str, Any]) -> Finding:
    peaks, response, factor = answer.peaks, answer.cells.response, answer.peaks[0].factor
    table = Table.of(
        peaks,
        *((factor_label(name), lambda one, name=name: one.part.where()[name]) for name in peaks[0].part.where()),
        (f"best {factor_label(factor)}", lambda one: f"{_level(one, one.best):text}"),
        ("may be best", lambda one: candidates(one) if isinstance(one.levels, BestLevel) else ""),
        ("mean", lambda one: one.mean, response),
        *bounds(lambda one: one.interval, response),
        ("plateau", lambda one: span(one, one.plateau.first, one.plateau.last) if one.plateau else ""),
        ("knee", lambda one: one.knee.x if isinstance(one.knee, Knee) else None),
    )
    places = [{"where": one.part.where(), **one.statistics()} for one in peaks]
    return Finding(
        response=response,
        title=title,
        statements=counted(response, peaks),
        statistics={"factor": factor, "slices": places, **absent},
        tables=[table],
        caveats=[*left_out(answer.cells), *_few(peaks)],
    )


# Statements about one place


def statements(one: Peak) -> Iterator[Say]:
    """Best level, what is as good, where it bends, how it scales, and by which law."""
    yield from in_brief(one)
    if one.outcome == Outcome.EQUAL:
        return
    if isinstance(bend := one.knee, Knee):
        loses = one.candidates[-1] < len(one.cells) - 1 and (bend.after < 0) != one.lower
        then = "declines" if loses else "gains less"
        yield say("peak.knee", place=_near(one, bend.x, bend.interval), then=then)
    yield from scaling(one)
    if (law := one.law or one.growth) is None:
        return
    bounds, certain = law.peak_interval if law.kind == USL else None, law.alpha_interval
    share, low, high = map(units.format_percent, (law.alpha, certain.low, certain.high))
    alpha = say("peak.alpha", share=share, confidence=certain.confidence, low=low, high=high)
    name = say("peak.amdahl" if bounds is None or law.peak is None else "peak.usl")
    upto = _upto(one)
    yield say(f"peak.law{'_upto' if upto else ''}", **upto, law=name, alpha=alpha)
    if law.peak is not None and bounds is not None:
        side = "beyond" if law.peak > (one.numbers or (0.0,))[-1] else "within"
        yield say("peak.usl_peak", place=_near(one, law.peak, bounds), side=side)
    elif law.limit and one.law:
        yield say("peak.limit", limit=Quantity(one.part.response, law.limit))


def _upto(one: Peak) -> dict[str, Level]:
    """Up to which level a law holds, where not all levels follow it."""
    return {"upto": _level(one, one.plateau.first)} if one.plateau and not one.law else {}


def in_brief(one: Peak) -> list[Say]:
    """The best level with its confidence and its value, and the plateau, or why there is none."""
    outcome, where, named = one.outcome, one.part.where(), one.outcome not in _UNNAMED
    first, last = (one.plateau.first, one.plateau.last) if one.plateau else (0, len(one.cells) - 1)
    known: dict[str, Any] = {
        "name": Response(one.part.response),
        "factor": Factor(one.factor),
        "word": ("lowest (best)" if named else "lowest") if one.lower else "highest",
        "centre": "value" if one.part.merged else "mean",
        "best": _level(one, one.best),
        "mean": Quantity(one.part.response, one.mean, one.interval),
        "sure": _sure(one) if named else "",
        "margin": MARGIN,
        "every": "both levels" if len(one.cells) == 2 else f"all {len(one.cells)} levels",
        "first": _level(one, first),
        "last": _level(one, last),
        "span": span(one, first, last),
        "reason": one.levels.reason if isinstance(one.levels, Undefined) else "",
    }
    own = Say(f"peak.{outcome.replace(' ', '_')}", known, {} if named else where)
    said = [Say("peak.best", known, where)] if named else []
    said += _categories(one) if outcome == Outcome.CATEGORIES else [own]
    if outcome != Outcome.EQUAL:
        said += [*causes(one), *(_around(one) if named else ())]
    if one.second and outcome not in (Outcome.EQUAL, Outcome.EQUIVALENT):
        said.append(say("peak.second", levels=[f"{_level(one, index):at}" for index in one.second]))
    if outcome in _OPEN and isinstance(one.needed, int) and one.needed > one.fewest:
        said.append(say("peak.needed", margin=MARGIN, needed=one.needed, fewest=one.fewest))
    return said


def _sure(one: Peak) -> Say | str:
    if isinstance(one.levels, Undefined) or one.exact or isinstance(one.contrasts, Undefined):
        return ""
    if one.numbers is None and len(one.candidates) > 1:
        return say("peak.probably", probability=one.levels.probability[one.best])
    if one.cells[one.best].values.size < 2:
        return say("peak.once")
    code = "peak.sure" if len(one.candidates) == 1 else "peak.sure_range"
    return say(code, levels=candidates(one), confidence=one.contrasts.confidence)


def _categories(one: Peak) -> list[Say]:
    """Which other words are as good, which are worse, and which may be either."""
    codes, groups = {"as good": "good", "undecided": "either", "worse": "worse"}, dict[str, list[str]]()
    for index in range(len(one.cells)):
        groups.setdefault(_standing(one, index), []).append(level_at(one, index))
    if (worse := len(groups.get("worse", ()))) == len(one.cells) - 1:
        return [say("peak.other_worse" if worse == 1 else "peak.isolated")]
    return [say(f"peak.{code}", margin=MARGIN, levels=groups[name]) for name, code in codes.items() if name in groups]


def _around(one: Peak) -> Iterator[Say]:
    """Where the plateau begins, and levels that may be best without being on it."""
    first, last = (one.plateau.first, one.plateau.last) if one.plateau else (one.best, one.best)
    if one.plateau and first and one.at_processors(first):
        yield say("peak.processors", processors=one.processors)
    if one.plateau and one.plateau.earliest != first:
        yield say("peak.earliest", earliest=_level(one, one.plateau.earliest))
    apart = [level_at(one, index) for index in one.candidates if not first <= index <= last]
    if apart and one.numbers and one.outcome != Outcome.UNREPEATED:
        yield say("peak.either", levels=apart)


def _near(one: Peak, number: float, bounds: Interval) -> Say | str:
    text, ends = place_text(one, number), phrases.joined(place(one, bounds.low), place(one, bounds.high))
    return say("peak.near", place=text, confidence=bounds.confidence, ends=ends) if bounds.low < bounds.high else text


def scaling(one: Peak) -> Iterator[Say]:
    """The share of linear scaling, where the plateau begins or at the last level."""
    if one.scaling is not None and not one.indistinct:
        index = one.plateau.first if one.plateau and one.plateau.first else len(one.cells) - 1
        at, ends = one.scaling[index], {"first": _level(one, 0), "last": _level(one, index)}
        yield say("peak.scaling", **ends, speedup=at.speedup, efficiency=at.efficiency)


# Statements about many places


def counted(response: str, peaks: Sequence[Peak]) -> list[Say]:
    tally = Counter(f"{_level(one, one.best):at}" for one in peaks)
    levels = [f"{level} in {number}" for level, number in tally.most_common()]
    word = "lowest (best)" if peaks[0].lower else "highest"
    unclear = sum(len(one.candidates) > 1 for one in peaks)
    said = [say("peak.shared", name=Response(response), word=word, levels=levels, places=len(peaks))]
    return [*said, say("peak.shared_unclear", unclear=unclear)] if unclear else said


def gains(response: str, factor: str, peaks: Sequence[Peak]) -> Iterator[Say]:
    """From which level on each place gains nothing."""
    begins = [
        say("peak.begin", level=_level(one, one.plateau.first), place=Place(one.part.where()))
        for one in peaks
        if one.plateau is not None and one.outcome == Outcome.SATURATES
    ]
    others = [phrases.levels(one.part.where()) for one in peaks if one.plateau is None]
    known: dict[str, Any] = {"name": Response(response), "factor": Factor(factor), "margin": MARGIN}
    yield say("peak.gains" if begins else "peak.gains_always", begins=begins, **known)
    if begins and others:
        yield say("peak.gains_others", places=others, **known)


def _suite(sweeps: Sequence[Sweep]) -> Finding:
    def title(one: Sweep) -> str:
        where = phrases.levels(one.peak.part.where()) if one.peak else ""
        return f"{one.study.title or one.study.name}{f' ({where})' if where else ''}"

    def of_peak(show: Callable[[Peak], object]) -> Callable[[Sweep], str]:
        return lambda one: (one.peak and str(show(one.peak))) or NOTHING

    table = Table.of(
        sweeps,
        ("Sweep", title),
        ("Best", _best),
        ("It may be", of_peak(lambda one: "" if one.indistinct else candidates(one))),
        ("Value", of_peak(lambda one: f"{Quantity(one.part.response, one.mean, one.interval):ends}")),
        ("Plateau", of_peak(_plateau)),
        ("Scaling law", of_peak(_law)),
        ("Why it ends", of_peak(cause_in_brief)),
    )
    return Finding(
        title=str(say("peak.title_suite")),
        statements=[*_of_suite(sweeps)],
        statistics={"sweeps": [_numbers(one) for one in sweeps]},
        tables=[table],
    )


def _of_suite(sweeps: Sequence[Sweep]) -> Iterator[Say]:
    known = [(one.study.name, one.peak) for one in sweeps if one.peak is not None]
    named = [(study, one) for study, one in known if isinstance(one.levels, BestLevel) and not one.indistinct]
    plateaus = [(one, one.plateau.first) for _, one in known if one.plateau is not None]
    own = [one for one, first in plateaus if one.at_processors(first)]
    if 0 < len(named) <= _FEW_SWEEPS:
        levels = []
        for study, one in named:
            sweep = ", ".join([study, *filter(None, [phrases.levels(one.part.where())])])
            level = level_phrase(one.factor, candidates(one)) if len(one.candidates) > 1 else _level(one, one.best)
            levels.append(say("peak.suite_level", level=level, sweep=sweep))
        yield say("peak.suite_best", levels=levels)
    studies = len({one.study.name for one in sweeps})
    yield say("peak.suite", studies=studies, sweeps=len(sweeps), best=len(named), flat=len(plateaus))
    yield from of_sweeps([one for _, one in known])
    if own:
        begin = "begins" if len(own) == 1 else "begin"
        yield say("peak.suite_processors", number=len(own), begin=begin, processors=own[0].processors)
    if empty := len(sweeps) - len(known):
        yield say("peak.suite_unmeasured", number=empty)


def _numbers(one: Sweep) -> dict[str, Any]:
    study, peak = one.study, one.peak
    common = {"study": study.name, "title": study.title or study.name, "not_measured": _note(one)}
    if peak is None:
        return {**common, "factor": next(iter(study.levels), ""), "where": {}, "best": None}
    return {**common, "response": peak.part.response, "where": peak.part.where(), **peak.statistics()}


def _note(one: Sweep) -> str:
    note = " ".join(map(str, missing_conditions(one.missing)))
    if one.peak is None:
        return note or str(say("peak.unmeasured"))
    return str(say("peak.partly_unmeasured")) if one.places > 1 and len(note) > _LONG else note


def _best(one: Sweep) -> str:
    peak, note = one.peak, _note(one)
    if peak is None:
        return note
    best = level_at(peak, peak.best)
    if peak.outcome == Outcome.EQUAL:
        best = "all the same"
    elif peak.indistinct:
        best = str(say("peak.not_identified", centre="value" if peak.part.merged else "mean", best=best))
    return f"{best} ({note})" if note else best


def _plateau(one: Peak) -> object:
    if one.plateau is None:
        return (one.numbers and one.no_plateau) or ""
    first, last = one.plateau.first, one.plateau.last
    if last < len(one.cells) - 1:
        return span(one, first, last)
    return say("peak.from_processors" if one.at_processors(first) else "peak.from", first=_level(one, first))


def _law(one: Peak) -> object:
    law = one.law or one.growth
    if law is None:
        return "" if one.scaling is None or one.indistinct else "none fits"
    name, share = "universal scalability" if law.kind == USL else "Amdahl", units.format_percent(law.alpha)
    upto = _upto(one)
    return say(f"peak.law_brief{'_upto' if upto else ''}", **upto, law=name, share=share)


# Names of levels


def _level(one: Peak, index: int) -> Level:
    return Level(one.factor, one.level(index))


def level_at(one: Peak, index: int) -> str:
    """A level with what it counts: `4 workers`."""
    return level_phrase(one.factor, one.level(index))


def span(one: Peak, first: int, last: int) -> str:
    """`3 to 6 workers`, `queue depth 4 to 16`."""
    head, text, tail = f"{_level(one, last)}".partition(f"{_level(one, last):text}")
    return f"{head}{_level(one, first):text} to {text}{tail}"


def candidates(one: Peak) -> str:
    """The levels that may be best: `3 to 6` where all numbers between may be, too; else each."""
    places = one.candidates
    if one.numbers and places[-1] - places[0] == len(places) - 1 and len(places) > 1:
        return f"{_level(one, places[0]):text} to {_level(one, places[-1]):text}"
    return phrases.listed([f"{_level(one, place):text}" for place in places], 9)


def place_text(one: Peak, number: float) -> str:
    """A place between levels with what it counts: `4.7 workers`."""
    text = place(one, number)
    return text if " " in text else level_phrase(one.factor, text)


def place(one: Peak, number: float) -> str:
    """A place between levels: sizes as sizes, times as times, other numbers with three digits."""
    kind = level_reading(one.factor, [cell.point[one.factor] for cell in one.cells])
    forms: dict[str | None, Callable[[float], str]] = {
        "size": lambda size: units.format_size(round(size)),
        "duration": units.format_duration,
        "percent": lambda share: f"{phrases.plain_number(share)} %",
        "rate": units.format_rate,
    }
    return units.format_ns(number) if is_nanoseconds(one.factor) else forms.get(kind, phrases.plain_number)(number)


# Tables


def _levels(one: Peak) -> Table:
    """A row a level: its mean, and the ratio to the best level with what follows from it."""
    response, known = one.part.response, one.contrasts if isinstance(one.contrasts, Contrasts) else None
    raw = response if known and known.means.scale == Scale.RAW else ""
    pairs = {index: known.pair(index, one.best) for index in range(len(one.cells)) if known and index != one.best}
    columns: list[Column | tuple[Any, ...]] = [
        (factor_label(one.factor), lambda index: f"{_level(one, index):text}"),
        ("n", lambda index: one.cells[index].values.size),
        (phrases.centre(one.part.merged), lambda index: one.cells[index].mean, response),
        ("against the best", lambda index: getattr(pairs.get(index), "estimate", None), raw),
        *bounds(lambda index: getattr(pairs.get(index), "interval", None), raw),
        ("standing", lambda index: _standing(one, index)),
    ]
    if (scaled := one.scaling) is not None:
        columns += [
            ("speedup", lambda index: scaled[index].speedup),
            ("efficiency", lambda index: scaled[index].efficiency),
            *bounds(lambda index: scaled[index].interval),
        ]
    return Table.of(range(len(one.cells)), *columns)


def _standing(one: Peak, index: int) -> str:
    if isinstance(one.levels, Undefined):
        return ""
    if index == one.best:
        return "best mean"
    return "as good" if index in one.levels.as_good else "worse" if index not in one.candidates else "undecided"


def _fits(one: Peak) -> list[Table]:
    laws = [found for found in (one.usl, one.amdahl) if isinstance(found, Law)]
    table = Table.of(
        laws,
        ("law", lambda law: "universal scalability" if law.kind == USL else "Amdahl"),
        ("one worker", lambda law: law.gamma, one.part.response),
        ("contention", lambda law: law.alpha),
        *bounds(lambda law: law.alpha_interval),
        ("coherency", lambda law: law.beta if law.kind == USL else None),
        *bounds(lambda law: law.beta_interval),
        ("peak at", lambda law: law.peak),
        *bounds(lambda law: law.peak_interval),
        ("R²", lambda law: law.r2),
        ("lack of fit p", lambda law: law.lack_p),
        ("largest deviation of a mean (%)", lambda law: phrases.in_percent(law.worst)),
    )
    return [table] if laws else []


def _few(peaks: Sequence[Peak]) -> list[Say]:
    return [say("peak.few", few=FEW)] if any(one.fewest < FEW and not one.exact for one in peaks) else []


def _caveats(one: Peak) -> Iterator[Say]:
    yield from _few([one])
    if one.usl is None or one.amdahl is None or len(one.numbers or ()) < FEWEST_LEVELS or one.indistinct:
        return
    law, nearest = one.law, preferred(one.usl, one.amdahl)
    if law is not None and law.lack_p is None:
        yield say("peak.law_untested")
    elif law is not None and law.lack_p is not None and law.lack_p < 1 - law.alpha_interval.confidence:
        yield say("peak.law_rough", worst=law.worst)
    elif law is None and isinstance(one.amdahl, Undefined):
        yield say("peak.no_law", reason=one.amdahl.reason)
    elif law is None and nearest:
        code = "law_faster" if nearest.alpha_interval.high < 0 else "law_missed"
        yield say(f"peak.{'over_all_' if one.growth else ''}{code}", worst=nearest.worst)


# Why a peak ends: what was used up there, and which counters say so

MOST_COUNTERS = 2
"""Counters that are named in a sentence of their own, and causes that are named for all sweeps of a suite."""
DISTURBING = 0.05
"""Share of the processors' time from which on other programs are named."""


def causes(one: Peak) -> list[Say]:
    """Why the gain ends there, with the numbers of a few further counters; none where that was not asked."""
    found = one.explanation
    if found is None:
        return []
    level = _level(one, found.end)
    if found.cause is Cause.NONE:
        return [say("cause.none", level=level)]
    # What stands in brackets behind some causes: the first counter.
    clause, catalogue = found.cause.name.lower(), templates("cause")
    valued, value = "{value}" in catalogue[clause], ""
    if valued and (code := f"at_{(first := found.evidence[0]).counter.name.lower()}") in catalogue:
        value = str(say(f"cause.{code}", value=shown(first.counter, first.end)))
    cause = say(f"cause.{clause}", value=value, lock=f" ({found.lock})" if found.lock else "")
    growth = one.most_growth
    code, known = ("ends", {}) if growth is None else ("grows_little", {"growth": max(growth, 0.0)})
    said = [say(f"cause.{code}", level=level, cause=cause, **known)]
    for reading in [reading for reading in found.evidence[valued:] if reading.changes][:MOST_COUNTERS]:
        name = phrases.capital(reading.counter)
        if isinstance(reading.counter, PerOperation) and reading.before > 0:
            said.append(say("cause.change_factor", counter=name, factor=reading.factor))
        else:
            ends = {side: shown(reading.counter, getattr(reading, side)) for side in ("before", "after")}
            said.append(say("cause.change", counter=name, **ends))
    if found.cause is Cause.PROCESSORS and found.others >= DISTURBING:
        said.append(say("cause.others", share=found.others))
    return said


def shown(counter: ResourceCounter, number: float) -> str:
    if counter in SHARES:
        return f"{phrases.points(number)} %"
    if counter in (PerOperation.LATENCY, PerOperation.CPU):
        return (units.format_ns if counter is PerOperation.LATENCY else units.format_duration)(number)
    pure = counter in (PerOperation.SWITCHES, Use.STALLS, Use.DISK_QUEUE, Use.CPU)
    return f"{phrases.plain_number(number)}{'' if pure else '/s'}"


def cause_in_brief(one: Peak) -> str:
    """The cause in a table: `processors full at 4 workers`; empty where none was looked for."""
    found = one.explanation
    return f"{_short(found.cause)} {_level(one, found.end):at}" if found else ""


def _short(cause: Cause) -> str:
    return templates("cause")[f"{cause.name.lower()}_short"]


def of_sweeps(peaks: Sequence[Peak]) -> Iterator[Say]:
    """The most frequent causes of all sweeps in one sentence; none where no sweep has one."""
    tally = Counter(_short(one.explanation.cause) for one in peaks if one.explanation is not None)
    unexplained, named = tally.pop(_short(Cause.NONE), 0), dict(tally.most_common(MOST_COUNTERS))
    named |= {"other causes": tally.total() - sum(named.values()), _short(Cause.NONE): unexplained}
    parts: list[Say] = []
    for cause, number in named.items():
        code = "cause.in_more" if parts else "cause.in_sweeps"
        parts += [say(code, cause=cause, number=number)] if number else []
    if parts:
        yield say("cause.of_sweeps", causes=parts)


def counters_table(one: Peak) -> list[Table]:
    """A row a counter: its means before the gain ends, there and after."""
    if (found := one.explanation) is None:
        return []
    before, end, after = (f"{_level(one, index):text}" for index in (found.before, found.end, found.after))
    table = Table.of(
        found.readings.values(),
        ("counter", lambda reading: str(reading.counter)),
        (f"before ({before})", lambda reading: shown(reading.counter, reading.before)),
        (f"at the end of the gain ({end})", lambda reading: shown(reading.counter, reading.end)),
        (f"after ({after})", lambda reading: shown(reading.counter, reading.after)),
        ("rises", lambda reading: "yes" if reading.changes else "not certainly"),
    )
    return [table]
