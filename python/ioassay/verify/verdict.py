"""What a verdict is, how verdicts rank, and which of them make a command exit with 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from ioassay.records.record import Claim

Code = StrEnum("Code", [
    # What was claimed, and what the kernel saw
    "NO_CLAIM", "CLAIMED", "CLAIMED_AND_SEEN", "SEEN", "CALLS_OF_COMMAND", "REQUESTS_OF_COMMAND", "CALLS",
    "CALLS_UNCOUNTED", "REQUESTS", "NO_IO_OF_COMMAND", "RATE_OF_CALLS",
    # What cannot be judged
    "DATABASE_OPERATIONS", "DATABASE_IO_SEPARATE", "LOAD_OF_SERVERS", "SERVERS_HERE", "SERVERS_ELSEWHERE",
    "DISCARDS_UNWATCHED", "UNKNOWN_KIND", "STONEWALLED", "NO_AMOUNT", "TIME_ALONE", "EVENTS_LOST", "COMMAND_FAILED",
    # The observer effect
    "NO_TWINS", "OBSERVER_EFFECT", "OBSERVER_EFFECT_UNKNOWN", "PERTURBED",
    # Operations and bytes
    "BYTES_APART", "FEWER_SEEN", "MORE_SEEN", "REST_UNKNOWN", "NAME_FILES", "USE_SYSCALLS",
    "NAME_FILES_AND_USE_SYSCALLS", "TOO_MANY_FILES", "BELOW_RESOLUTION", "OTHERS_CALLS", "NOTHING_SEEN",
    "FILES_NOT_OPENED", "CALLS_FAILED", "FAILED_OPERATIONS", "NOTHING_SUPPORTS", "NULL_ENGINE", "PAST_THE_KERNEL",
    "CALLS_BEHIND_DEVICE", "DEVICE_DID_MORE",
    # Files, flags, engines, synchronisations
    "OTHER_FILES", "NOT_DIRECT", "FLAGS_MAY_CHANGE", "OTHER_ENGINE", "SYNCS_FEWER", "NO_SYNC_SEEN", "SYNCED_TOO_EARLY",
    "SYNCED_IN_PART", "SYNCED_UNCHANGED", "OPENED_WITHOUT_SYNC", "WRITES_WITH_FLAGS", "SYNCS_UNWATCHED",
    # Why fewer may have been seen than were made
    "PROCESSES_OUTLIVED", "RESULTS_UNSEEN", "OTHER_PROGRAMS", "FILES_UNKNOWN", "PRINTER_UNKNOWN", "ZEROS_SKIPPED",
    # Calls that were not watched
    "CALLS_UNWATCHED", "MAPPED_FILES", "SPLICED", "SEVERAL_ENGINES", "ENGINE_UNWATCHED", "DEVICES_MOVED",
    "DEVICES_MOVED_PART", "DIRECT_WITHOUT_DEVICE",
    # Times
    "STRACE_TIMES", "NOTHING_TIMED", "TIMES_UNWATCHED", "REQUESTS_LONGER", "RATE_BY_LIFE", "RATE_NOT_JUDGED",
    "LONGER_THAN_COMMAND", "OPERATION_LONGER_THAN_COMMAND", "SELF_CONTRADICTION", "SELF_CONTRADICTION_IN_OPERATIONS",
    "MISFIT", "MISFIT_BELOW", "CLOCK_LATE", "LAST_RECORD_LATE", "OTHER_INTERVAL", "DELAYED_OR_WRONG", "CLOCK_CLAMPED",
    "INTERVAL_WITH_MORE", "INTERVAL_TOO_SHORT", "JOBS_APART", "CALLS_LONGER", "RATE_TOO_HIGH", "NO_RATE", "CLOCK_WIDER",
    "PAUSES_LEFT_OUT", "CLOCK_STOPPED", "TIMES_OF_UNKNOWN_SIDES",
    # Latencies
    "IMPOSSIBLE_LATENCY", "LATENCY_UNTIMED", "LATENCY_PARTIAL", "LATENCY_BELOW", "LATENCY_ABOVE", "LATENCY_APART",
    "LATENCY_UNKNOWN", "LATENCY_DISORDER", "LATENCY_PARTS", "LATENCY_SPREAD", "RING_COMPLETES_EARLY",
    "WORK_BEFORE_CLOCK",
    # Where the calls went
    "ACCESS_SEEN", "ACCESS_OTHER", "ACCESS_STREAMS", "ACCESS_UNCLEAR", "WORKING_SET_SMALLER", "WORKING_SET_LARGER",
    "NO_CALL_ON_FILES", "ONE_PLACE", "TOO_FEW_CALLS", "CALLS_OF_AN_OPERATION", "ORDER_UNKNOWN", "OFFSETS_UNWATCHED",
    "OFFSETS_UNSURE", "OFFSETS_OF_OTHERS",
    # What reached the device
    "FILE_IN_MEMORY", "DEVICE_UNWATCHED", "HOLES", "DEVICE_FOR_OTHERS", "NO_REQUESTS", "FILESYSTEM_UNKNOWN",
    "READ_SHARE", "PAGES_WITHOUT_DEVICE", "PAGE_CACHE", "FEW_REQUESTS", "PREFETCHED", "READ_MORE", "WHOLE_PAGES",
    "READ_AHEAD_EXTRA", "ABSORBED", "CANCELLED", "WRITTEN", "WRITTEN_TO_CACHE", "DEVICE_RECEIVED",
    "DEVICE_RECEIVED_WITH_OTHERS", "LOG_NOT_SYNCED", "NO_SYNC", "SYNC_OUTSIDE", "WROTE_MORE", "READ_FIRST",
    "READ_MODIFY_WRITE", "JOURNAL", "METADATA", "DEVICE_MOVED", "DEVICE_WROTE", "PAGES_DIRTIED", "ZEROS_COUNTED",
    # What the drive counted
    "DRIVE_COUNTED", "DRIVE_COUNTED_OTHER", "PATH_UNSEEN", "KERNEL_ALONE",
    # What a reader may wonder about
    "SILENT_PASSES_COUNTED", "LEFT_OUT_RAMP", "LEFT_OUT_LAYOUT", "LEFT_OUT_OTHER_TESTS", "LEFT_OUT_OWN_FILES",
    "LEFT_OUT_PRE_READ", "OTHER_TRAFFIC", "END_OF_FILE", "LAYOUT", "PRIMING_READ", "SILENT_PASSES", "DIRECT_UNCLAIMED",
    "DEVICE_SHARED", "OTHER_MACHINE", "KERNEL_WRITE_BACK", "VIRTUAL_DEVICE", "DISCARDED", "REQUESTS_MERGED",
    "CALLS_MERGED", "READ_AHEAD", "WRITE_BACK_GATHERED", "JOURNAL_BYTES", "FLUSHES", "RING_CALLS", "SUMMED",
    "COMPLETIONS_MISSED", "REQUESTS_UNWATCHED", "PROPERTIES_UNWATCHED", "LESS_WATCHED",
])  # fmt: skip
"""What a statement says. The sentence of each is named after it."""


@dataclass(frozen=True)
class Amount:
    """Operations and bytes; None for what is not known. `source` is that of the evidence."""

    operations: int | None
    bytes: int | None
    source: str = ""


@dataclass(frozen=True)
class Statement:
    """One thing that is known: its numbers by name. A statement that `warns` makes a verdict a warning."""

    code: Code
    values: tuple[tuple[str, Any], ...] = ()
    warns: bool = False

    def __getitem__(self, name: str) -> Any:
        return dict(self.values)[name]


def state(code: Code, *, warns: bool = False, **values: Any) -> Statement:
    return Statement(code, tuple(values.items()), warns)


def when(condition: object, code: Code, **values: Any) -> list[Statement]:
    """That statement alone where the condition holds, else none."""
    return [state(code, **values)] if condition else []


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
