"""What a verdict is, how verdicts rank, and which of them make a command exit with 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ioassay.records.record import Claim
from ioassay.verify.statement import Statement

CONFIRMED = "CONFIRMED"
CACHED = "CONFIRMED-CACHED"
DEFERRED = "CONFIRMED-DEFERRED"
AMPLIFIED = "AMPLIFIED"
UNSUPPORTED = "UNSUPPORTED"
INCOMPLETE = "INCOMPLETE"
PERTURBED = "PERTURBED"
UNSUBSTANTIATED = "UNSUBSTANTIATED"
CONTRADICTED = "CONTRADICTED"

CATEGORIES = (CONFIRMED, CACHED, DEFERRED, AMPLIFIED, UNSUPPORTED, INCOMPLETE, PERTURBED, UNSUBSTANTIATED,
              CONTRADICTED)  # fmt: skip
"""From the best to the worst, which is the order of `judge.overall`."""

BY_DEVICE = "BY-DEVICE"
"""The reason of a verdict that rests on requests to devices, since the calls were not seen."""
BY_DRIVE = "BY-DRIVE"
"""The reason of a verdict that rests on what the drive itself counted, since the kernel does not see this path."""
NOT_IO = "NOT-IO"
"""The reason of a verdict on a claim that is about something else, such as keys of a database."""
LOAD_OF_SERVERS = "LOAD-OF-SERVERS"
"""The reason of a verdict on what servers did for a command that only controls them."""
HELD_UP = "HELD-UP"
"""The reason of a verdict on a claim that is slower than the truth, by as little as losing the processor costs."""
TRUE_CLAIMS = frozenset({CONFIRMED, CACHED, DEFERRED, AMPLIFIED})
"""What says that the claim is true."""
NOT_JUDGED = "NOT-JUDGED"
"""Of a property whose evidence was not gathered at this level; a verdict does not rest on it."""
_RANK = {category: place for place, category in enumerate(CATEGORIES)}
_QUIET = frozenset({CONFIRMED, CACHED, DEFERRED, UNSUPPORTED})


class Fault(NamedTuple):
    """Why a claim is not simply confirmed."""

    category: str
    """Of CATEGORIES."""
    reason: str
    statements: Sequence[Statement] = ()
    """What it rests on."""


@dataclass(frozen=True)
class Finding:
    """What the check of one property came to. A check returns none of a property that no claim states."""

    faults: Sequence[Fault] = ()
    notes: Sequence[Statement] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    """For the verdict; units in the names."""
    judged: bool = True
    """Without a fault: whether there was evidence at this level."""


@dataclass(frozen=True)
class Property:
    """One property that a claim states, judged apart."""

    name: str
    """Of `properties.PROPERTIES`."""
    category: str
    """Of CATEGORIES, or NOT_JUDGED."""
    reason: str = ""
    """As that of a verdict."""
    statements: Sequence[Statement] = ()
    """What it rests on."""


@dataclass(frozen=True)
class Verdict:
    """One claim, judged. `claim` is None where there was none to judge."""

    category: str
    """Of CATEGORIES."""
    reason: str
    """A stable word for the cause ('NO-DEVICE-IO', 'FEWER-SEEN'); '' where there is nothing to add."""
    explanation: Sequence[Statement] = ()
    """What was claimed, what the kernel saw, why they differ."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able: what was claimed and seen, differences in percent, tolerances; units in the names."""
    claim: Claim | None = None
    notes: Sequence[Statement] = ()
    """Further statements: merges, read-ahead, journal, priming reads, what was not judged."""
    severity: str = "info"
    """'info' or 'warning'."""
    properties: Sequence[Property] = ()
    """Those that were claimed, in the order of `properties.PROPERTIES`; `category` is the worst of them. Empty where
    nothing could be judged at all."""


HEADED = ("operations", "bytes", "interval", "latency")
"""The properties that a headline names."""


@dataclass(frozen=True)
class Compared:
    """What verdicts rest on, for one sentence: names of properties, and of latencies as in `Claim.latency_ns`."""

    matched: Sequence[str]
    """Judged true of every claim that states it."""
    latencies: Sequence[str]
    """Printed latencies that lie where the kernel's do, in every claim that has them."""
    unjudged: Sequence[str]
    """Stated by a claim and not judged."""
    unjudged_latencies: Sequence[str]
    """Printed latencies of which that cannot be said."""


MATCH = "latency_match_"
"""Before the name of a latency, among the numbers of a verdict: it lies where the kernel's does."""


def compared(verdicts: Sequence[Verdict]) -> Compared:
    """What was compared of these."""
    found: dict[str, list[Property]] = {}
    latencies: dict[str, bool] = {}
    for verdict in verdicts:
        for each in verdict.properties:
            found.setdefault(each.name, []).append(each)
        claim = verdict.claim
        printed = [*claim.latency_ns, *(["requests"] if claim.requests_ns else ())] if claim else []
        for name in printed if verdict.properties else ():
            latencies[name] = latencies.get(name, True) and f"{MATCH}{name}" in verdict.numbers
    return Compared(
        [name for name, own in found.items() if all(one.category in TRUE_CLAIMS for one in own)],
        [name for name, matched in latencies.items() if matched],
        [name for name, own in found.items() if any(one.category == NOT_JUDGED for one in own)],
        [name for name, matched in latencies.items() if not matched],
    )


def severity_of(category: str) -> str:
    """'warning' where a reader has to know before using the number."""
    return "info" if category in _QUIET else "warning"


def rank(verdict: Verdict | Property | Fault) -> int:
    """0 for the best; higher is worse. What was not judged counts as nothing, below the best."""
    return _RANK.get(verdict.category, -1)


def contradicted(verdicts: Sequence[Verdict]) -> bool:
    """Whether a command exits with 4: the kernel saw something else than what is claimed.

    UNSUBSTANTIATED is not enough: that nothing was seen may be what was asked for (fio's null engine).
    """
    return any(verdict.category == CONTRADICTED for verdict in verdicts)
