"""The JSON that a replay ends with, and its claims: reads, writes and trims, each over the whole replay.

What it claims as latencies are service times, from issue to completion, which the kernel sees as well. Response times
begin when the trace says that a request is due, and no kernel knows that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ioassay import validation
from ioassay._core import Histogram
from ioassay.errors import InputError
from ioassay.formats import Conventions
from ioassay.formats.text_rules import Tool
from ioassay.metrics import PERCENTILES, percentile_name
from ioassay.records.record import Claim
from ioassay.validation import Amount, Count, Finite, Whole

ENGINE = "io_uring"
MOVED = ("read", "write", "trim")
"""Directions of requests that move or release bytes; `sync` is the fourth."""
_CLOCK_STEP_S = 1e-9
_HOLES = "punch"
_INCOMPLETE = "is it whole, and as ioassay's replay wrote it?"
_BEGINNING = re.compile(r'\{\s{0,8}"schema": \d{1,4},\s{0,8}"tool": "ioassay replay"')


@dataclass(frozen=True)
class Times:
    """A distribution of times in ns: exact mean, deviation and ends, and counts of the values that stand for bins."""

    bins: dict[Whole, Count]
    mean_ns: Amount | None
    stddev_ns: Amount | None
    min_ns: Whole | None
    max_ns: Whole | None

    def histogram(self) -> Histogram:
        values = sorted(self.bins)
        return Histogram.from_buckets(values, [self.bins[value] for value in values])

    def statistics_ns(self) -> dict[str, float]:
        """By the last parts of metrics' names; none of no requests."""
        if not self.bins:
            return {}
        values = self.histogram().quantiles([percent / 100 for percent in PERCENTILES])
        named = dict(zip(map(percentile_name, PERCENTILES), values, strict=True))
        exact = {"mean": self.mean_ns, "stddev": self.stddev_ns, "min": self.min_ns, "max": self.max_ns}
        return {**named, **{name: float(value) for name, value in exact.items() if value is not None}}


@dataclass(frozen=True)
class Direction:
    """The requests of one direction that completed; `lat` are service times, `response` times from the due time."""

    ios: Count
    bytes: Whole
    errors: Count
    lat: Times
    response: Times


@dataclass(frozen=True)
class Failure:
    """Requests of a direction that failed alike, and the first of them, whose number in the trace is from 1."""

    kind: str
    text: str
    count: Count
    number: Whole
    offset_bytes: Whole
    length_bytes: Whole


@dataclass(frozen=True)
class Waits:
    """How many requests were held when they were due, by the reason."""

    depth: Count
    buffers: Count
    order: Count
    trace: Count


@dataclass(frozen=True)
class Bounds:
    """What the target takes; `trimming` is how: 'punch' makes a hole in a file, which no device sees."""

    trimming: str | None


@dataclass(frozen=True)
class Document:
    """What the replay prints at its end, as far as it is read. Times are in ns of CLOCK_MONOTONIC."""

    path: str
    pace: str
    depth: Count
    direct: bool
    ended: str
    reason: str | None
    begin_ns: Whole
    end_ns: Whole
    requests: Count
    read: Direction
    write: Direction
    trim: Direction
    sync: Direction
    lateness: Times
    late: Count
    drift_ppm: Finite | None
    waits: Waits
    most_outstanding: Count
    bounds: Bounds
    span_ns: Whole
    cpu_ns: Whole
    failures: list[Failure]
    series: dict[str, list[Amount]]
    """Columns, a row for each second."""
    changes: dict[str, Whole]
    """What the preparation changed, by the core's names."""

    @property
    def directions(self) -> Mapping[str, Direction]:
        """Those that occur."""
        every = {name: getattr(self, name) for name in (*MOVED, "sync")}
        return {name: each for name, each in every.items() if each.ios or each.errors}

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e9


def claims(document: Document) -> list[Claim]:
    """One claim a direction; none of holes that are made. Synchronisations stand with the writes, or what there is."""
    unclaimed = ("sync", "trim") if document.bounds.trimming == _HOLES else ("sync",)
    moved = {name: each for name, each in document.directions.items() if name not in unclaimed}
    with_syncs = next((name for name in ("write", "read", "trim") if name in moved), "")
    return [_claim(document, name, each, syncs=name == with_syncs) for name, each in moved.items()]


def _claim(document: Document, kind: str, done: Direction, *, syncs: bool) -> Claim:
    seconds, sync = document.seconds, document.sync
    of_syncs = {f"sync.{name}": value for name, value in sync.lat.statistics_ns().items()} if syncs else {}
    return Claim(
        source="replay",
        kind=kind,
        test=kind,
        operations=done.ios,
        bytes=done.bytes,
        seconds=seconds,
        rate_bytes_per_s=done.bytes / seconds if seconds else None,
        clock_step_s=_CLOCK_STEP_S,
        latency_ns={**done.lat.statistics_ns(), **of_syncs},
        syncs=sync.ios if syncs else None,
        errors=done.errors,
        engine=ENGINE,
        direct=document.direct,
        paths=(document.path,),
        paths_stated=True,
    )


def read(text: str) -> Document:
    """The result in the output; InputError where that is not a replay's, or says why there was none."""
    beginning = next(_BEGINNING.finditer(text), None)
    if beginning is None:
        raise InputError(f"the replay's output has no result; {_INCOMPLETE}")
    said, source = validation.extent(text, beginning.start()), "the replay's output"
    if "error" in (table := validation.table(said, source, _INCOMPLETE)):
        raise InputError(str(table["error"]))
    return validation.read(Document, said, source, _INCOMPLETE)


def _of_text(text: str, words: Sequence[str]) -> list[Claim]:
    return claims(read(text))


CLAIMS = Tool(
    "replay",  # never its program, which is a Python; its output knows its name
    sign=_BEGINNING.search,
    claims=_of_text,
    missing="",
    silent=lambda text, words: True,
    CONVENTIONS=Conventions(tests_are_work=True, one_process=True),
)
