"""Why a peak ends: what was used up there, and which counters say so."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Sequence

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
    clause, lock = found.cause.name.lower(), f" ({found.lock})" if found.lock else ""
    valued = "{value}" in templates("cause")[clause]
    cause = say(f"cause.{clause}", value=_value(found.evidence[0]) if valued else "", lock=lock)
    if one.most_growth is None:
        head = say("cause.ends", level=level, cause=cause)
    else:
        head = say("cause.grows_little", growth=max(one.most_growth, 0.0), level=level, cause=cause)
    counters = [change(reading) for reading in found.evidence[valued:] if reading.changes][:MOST]
    others = found.cause is Cause.PROCESSORS and found.others >= DISTURBING
    return [head, *counters, *([say("cause.others", share=found.others)] if others else [])]


def _value(first: Reading) -> Say | str:
    """What stands in brackets behind a cause."""
    code = f"at_{first.counter.name.lower()}"
    return say(f"cause.{code}", value=shown(first.counter, first.end)) if code in templates("cause") else ""


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
    formats: dict[Counter, Callable[[float], str]] = {
        PerOperation.LATENCY: units.format_ns,
        PerOperation.CPU: units.format_duration,
        PerOperation.SWITCHES: phrases.plain_number,
        Use.STALLS: phrases.plain_number,
        Use.DISK_QUEUE: phrases.plain_number,
        Use.CPU: phrases.plain_number,
    }
    return formats[counter](number) if counter in formats else f"{phrases.plain_number(number)}/s"


def in_brief(one: Peak) -> str:
    """The cause in a table: `processors full at 4 workers`; empty where none was looked for."""
    found = one.explanation
    return f"{_short(found.cause)} {Level(one.factor, one.level(found.end)):at}" if found else ""


def _short(cause: Cause) -> Say:
    return say(f"cause.{cause.name.lower()}_short")


def of_sweeps(peaks: Sequence[Peak]) -> Iterator[Say]:
    """The most frequent causes of all sweeps in one sentence; none where no sweep has one."""
    tally = Tally(one.explanation.cause for one in peaks if one.explanation is not None)
    unexplained, named = tally.pop(Cause.NONE, 0), tally.most_common(MOST)
    rest = tally.total() - sum(number for _, number in named)
    causes = [*((_short(cause), number) for cause, number in named), ("other causes", rest)]
    causes = [(cause, number) for cause, number in [*causes, (_short(Cause.NONE), unexplained)] if number]
    if causes:
        codes = ("cause.in_sweeps", *["cause.in_more"] * len(causes))
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
