"""The sentences about why a peak ends: what was used up there, and which counters say so."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Sequence
from typing import Any

from ioassay import units
from ioassay.analysis.measurements.resource_use import SHARES, Use
from ioassay.analysis.optimum.optimum import Peak
from ioassay.analysis.optimum.peak_cause import Cause, Counter, Explanation, PerOperation, Reading
from ioassay.factors import level_phrase, level_text
from ioassay.narrative import phrases
from ioassay.narrative.finding import Table

MOST = 2
"""Counters that are named in a sentence of their own, and causes that are named for all sweeps of a suite."""
DISTURBING = 0.05
"""Share of the processors' time from which on other programs are named."""

_CAUSES = {
    Cause.QUOTA: "the CPU limit of its control group is used up{value}",
    Cause.MEMORY: "memory is short",
    Cause.IO_LIMIT: "the I/O limit of its control group is used up{value}",
    Cause.PROCESSORS: "the processors are full{value}",
    Cause.DISK: "the device is busy and requests queue{value}",
    Cause.LOCK: "tasks wait for a lock or for each other{lock}",
    Cause.RUN_QUEUE: "tasks wait for a processor, while others are idle",
    Cause.NETWORK: "the network drops packets",
    Cause.STALLS: "the processors wait for memory",
    Cause.CONTENTION: "each operation takes more CPU time",
}
_VALUES = {
    Use.BUSY: "{} busy",
    Use.QUOTA: "{} of it",
    Use.THROTTLED: "{} of periods throttled",
    Use.IO_LIMIT: "{} of it",
    Use.DISK_BUSY: "{} busy",
    Use.IO_PRESSURE: "tasks wait {} of the time",
}
"""What stands in brackets behind a cause: its first counter at the end of the gain."""
_ENDS = "It stops growing {at}: {cause}."
_GROWS_LITTLE = "It grows by at most {growth} beyond {level}: {cause}."
_NONE = "No counter explains why it stops growing {at}."
_OTHERS = "Other programs took {share} of the processors' time there."
_RISES = "{counter} {rises} from {before} to {after}."
_FACTOR = "{counter} {rises} by a factor of {factor}."
_PLURAL = {
    Use.THROTTLED,
    Use.LIMIT_HITS,
    Use.MAJOR_FAULTS,
    Use.SWITCHES,
    Use.DROPS,
    Use.STALLS,
    Use.DISK_QUEUE,
    PerOperation.SWITCHES,
}
_SHORT = {
    Cause.QUOTA: "CPU limit used up",
    Cause.MEMORY: "memory short",
    Cause.IO_LIMIT: "I/O limit used up",
    Cause.PROCESSORS: "processors full",
    Cause.DISK: "device busy",
    Cause.LOCK: "waits for a lock",
    Cause.RUN_QUEUE: "run-queue wait",
    Cause.NETWORK: "packets dropped",
    Cause.STALLS: "memory bandwidth",
    Cause.CONTENTION: "contention",
    Cause.NONE: "no counter explains it",
}
_OF_SWEEPS = {
    Cause.QUOTA: "a CPU limit",
    Cause.MEMORY: "short memory",
    Cause.IO_LIMIT: "an I/O limit",
    Cause.PROCESSORS: "full processors",
    Cause.DISK: "a busy device",
    Cause.LOCK: "waits for a lock",
    Cause.RUN_QUEUE: "run-queue wait",
    Cause.NETWORK: "dropped packets",
    Cause.STALLS: "waits for memory",
    Cause.CONTENTION: "contention",
}
"""What growth ends with, where several sweeps share a sentence."""


def sentences(one: Peak) -> list[str]:
    """Why the gain ends there, with the numbers of at most MOST further counters; none where that was not asked."""
    found = one.explanation
    if found is None:
        return []
    at = phrases.at(one.factor, one.level(found.end))
    if found.cause is Cause.NONE:
        return [_NONE.format(at=at)]
    cause = _CAUSES[found.cause].format(value=_value(found), lock=_lock(found))
    if one.most_growth is None:
        head = _ENDS.format(at=at, cause=cause)
    else:
        level = level_phrase(one.factor, one.level(found.end))
        head = _GROWS_LITTLE.format(growth=phrases.percent(max(one.most_growth, 0.0)), level=level, cause=cause)
    told = found.evidence[1:] if "{value}" in _CAUSES[found.cause] else found.evidence
    counters = [change(reading) for reading in told if reading.changes][:MOST]
    others = found.cause is Cause.PROCESSORS and found.others >= DISTURBING
    return [head, *counters, *([_OTHERS.format(share=phrases.percent(found.others))] if others else [])]


def _value(found: Explanation) -> str:
    first = found.evidence[0]
    template = _VALUES.get(first.counter) if isinstance(first.counter, Use) else None
    return f" ({template.format(shown(first.counter, first.end))})" if template else ""


def _lock(found: Explanation) -> str:
    return f" ({found.lock})" if found.lock else ""


def change(reading: Reading) -> str:
    """`Run-queue wait rises from 2 % to 31 %.`; what an operation takes as a factor."""
    name = phrases.capital(reading.counter) if reading.counter[:1].islower() else reading.counter
    rises = "rise" if reading.counter in _PLURAL else "rises"
    if isinstance(reading.counter, PerOperation) and reading.before > 0:
        return _FACTOR.format(counter=name, rises=rises, factor=phrases.plain_number(reading.factor))
    before, after = (shown(reading.counter, number) for number in (reading.before, reading.after))
    return _RISES.format(counter=name, rises=rises, before=before.removesuffix(" %"), after=after)


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
    if one.explanation is None:
        return ""
    return f"{_SHORT[one.explanation.cause]} {phrases.at(one.factor, one.level(one.explanation.end))}"


def of_sweeps(peaks: Sequence[Peak]) -> list[str]:
    """The most frequent causes of all sweeps in one sentence; none where no sweep has one."""
    tally = Tally(one.explanation.cause for one in peaks if one.explanation is not None)
    unexplained = tally.pop(Cause.NONE, 0)
    if not tally:
        return [f"No counter explains why growth ends in {phrases.count(unexplained, 'sweep')}."] if unexplained else []
    (first, number), *others = tally.most_common()
    parts = [f"{_OF_SWEEPS[first]} in {phrases.count(number, 'sweep')}"]
    parts += [f"{_OF_SWEEPS[cause]} in {number}" for cause, number in others[: MOST - 1]]
    if rest := sum(number for _, number in others[MOST - 1 :]):
        parts.append(f"other causes in {rest}")
    if unexplained:
        parts.append(f"an unknown cause in {unexplained}")
    return [f"Growth ends with {phrases.listed(parts)}."]


def tables(one: Peak) -> list[Table]:
    """A row a counter: its means before the gain ends, there and after."""
    found = one.explanation
    if found is None:
        return []
    names = [level_text(one.factor, one.level(index)) for index in (found.before, found.end, found.after)]
    columns = [
        "counter",
        f"before ({names[0]})",
        f"at the end of the gain ({names[1]})",
        f"after ({names[2]})",
        "rises",
    ]
    rows: list[list[Any]] = [
        [
            str(reading.counter),
            *(shown(reading.counter, number) for number in (reading.before, reading.end, reading.after)),
            "yes" if reading.changes else "not certainly",
        ]
        for reading in found.readings.values()
    ]
    return [Table(columns, rows)]
