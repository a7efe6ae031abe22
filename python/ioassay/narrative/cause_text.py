"""Why a peak ends: what was used up there, and which counters say so."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Sequence

from ioassay import units
from ioassay.analysis.measurements.resource_use import SHARES, Use
from ioassay.analysis.optimum.optimum import Peak
from ioassay.analysis.optimum.peak_cause import Cause, Counter, PerOperation, Reading
from ioassay.factors import level_text
from ioassay.narrative import phrases
from ioassay.narrative.finding import Table
from ioassay.narrative.say import Say, say, templates
from ioassay.narrative.values import Level

MOST = 2
"""Counters that are named in a sentence of their own, and causes that are named for all sweeps of a suite."""
DISTURBING = 0.05
"""Share of the processors' time from which on other programs are named."""


def statements(one: Peak) -> list[Say]:
    """Why the gain ends there, with the numbers of at most MOST further counters; none where that was not asked."""
    found = one.explanation
    if found is None:
        return []
    level = Level(one.factor, one.level(found.end))
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
    counters = [change(reading) for reading in found.evidence[valued:] if reading.changes][:MOST]
    others = found.cause is Cause.PROCESSORS and found.others >= DISTURBING
    said = [say(f"cause.{code}", level=level, cause=cause, **known), *counters]
    return [*said, say("cause.others", share=found.others)] if others else said


def change(reading: Reading) -> Say:
    """`Run-queue wait: 2 % before, 31 % after.`; what an operation takes as a factor."""
    name = phrases.capital(reading.counter) if reading.counter[:1].islower() else str(reading.counter)
    if isinstance(reading.counter, PerOperation) and reading.before > 0:
        return say("cause.change_factor", counter=name, factor=reading.factor)
    before, after = (shown(reading.counter, number) for number in (reading.before, reading.after))
    return say("cause.change", counter=name, before=before, after=after)


def shown(counter: Counter, number: float) -> str:
    """A counter's value for people."""
    if counter in SHARES:
        return f"{phrases.points(number)} %"
    if counter in (PerOperation.LATENCY, PerOperation.CPU):
        return (units.format_ns if counter is PerOperation.LATENCY else units.format_duration)(number)
    pure = counter in (PerOperation.SWITCHES, Use.STALLS, Use.DISK_QUEUE, Use.CPU)
    return f"{phrases.plain_number(number)}{'' if pure else '/s'}"


def in_brief(one: Peak) -> str:
    """The cause in a table: `processors full at 4 workers`; empty where none was looked for."""
    found = one.explanation
    return f"{_short(found.cause)} {Level(one.factor, one.level(found.end)):at}" if found else ""


def _short(cause: Cause) -> str:
    return str(say(f"cause.{cause.name.lower()}_short"))


def of_sweeps(peaks: Sequence[Peak]) -> Iterator[Say]:
    """The most frequent causes of all sweeps in one sentence; none where no sweep has one."""
    tally = Tally(_short(one.explanation.cause) for one in peaks if one.explanation is not None)
    unexplained, named = tally.pop(_short(Cause.NONE), 0), dict(tally.most_common(MOST))
    named |= {"other causes": tally.total() - sum(named.values()), _short(Cause.NONE): unexplained}
    causes = [(cause, number) for cause, number in named.items() if number]
    if causes:
        codes = ["cause.in_sweeps", *["cause.in_more"] * len(causes)]
        parts = [say(code, cause=cause, number=number) for code, (cause, number) in zip(codes, causes, strict=False)]
        yield say("cause.of_sweeps", causes=parts)


def tables(one: Peak) -> list[Table]:
    """A row a counter: its means before the gain ends, there and after."""
    found = one.explanation
    if found is None:
        return []
    before, end, after = (level_text(one.factor, one.level(index)) for index in (found.before, found.end, found.after))
    table = Table.of(
        found.readings.values(),
        ("counter", lambda reading: str(reading.counter)),
        (f"before ({before})", lambda reading: shown(reading.counter, reading.before)),
        (f"at the end of the gain ({end})", lambda reading: shown(reading.counter, reading.end)),
        (f"after ({after})", lambda reading: shown(reading.counter, reading.after)),
        ("rises", lambda reading: "yes" if reading.changes else "not certainly"),
    )
    return [table]
