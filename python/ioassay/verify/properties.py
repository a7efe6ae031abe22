"""The properties that a claim may state, what shows them at each level, and what each can come to.

The tables are the contract of the judge: its tests hold it to them, and docs/verdicts.md shows them. Nothing is judged
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum, auto

from ioassay.records.observation import BLOCK, COUNTERS, STRACE, SYSCALLS
from ioassay.verify.verdict import (
    AMPLIFIED,
    CACHED,
    CONTRADICTED,
    DEFERRED,
    INCOMPLETE,
    PERTURBED,
    UNSUBSTANTIATED,
    UNSUPPORTED,
)

OPERATIONS, BYTES, FILES, DIRECT, ENGINE = "operations", "bytes", "files", "direct", "engine"
SYNC, INTERVAL, LATENCY, PATTERN, DEVICE = "sync", "interval", "latency", "pattern", "device"
PROPERTIES = (OPERATIONS, BYTES, FILES, DIRECT, ENGINE, SYNC, INTERVAL, LATENCY, PATTERN, DEVICE)
"""In the order in which they are listed; of equally bad ones, the first explains the verdict."""


class Basis(StrEnum):
    """What a property is judged by."""

    CALLS_OF_FILES = auto()
    OPEN_FILES = auto()
    WAYS_OF_CALLS = auto()
    TIMES_OF_CALLS = auto()
    TIMES_OF_REQUESTS = auto()
    """Of direct I/O, where the device did nothing else; else by `LIFE`."""
    LIFE = auto()
    """When the command began and ended."""
    OFFSETS = auto()
    TOTALS = auto()
    RING = auto()
    """io_uring's operations alone."""
    REQUESTS = auto()
    ACCOUNT = auto()
    """The process's own account of what it read from devices."""


EVIDENCE: Mapping[str, Mapping[str, Basis]] = {
    OPERATIONS: {
        SYSCALLS: Basis.CALLS_OF_FILES,
        BLOCK: Basis.TOTALS,
        COUNTERS: Basis.TOTALS,
        STRACE: Basis.CALLS_OF_FILES,
    },
    BYTES: {
        SYSCALLS: Basis.CALLS_OF_FILES,
        BLOCK: Basis.TOTALS,
        COUNTERS: Basis.TOTALS,
        STRACE: Basis.CALLS_OF_FILES,
    },
    FILES: {SYSCALLS: Basis.OPEN_FILES, STRACE: Basis.OPEN_FILES},
    DIRECT: {SYSCALLS: Basis.OPEN_FILES, STRACE: Basis.OPEN_FILES},
    ENGINE: {SYSCALLS: Basis.WAYS_OF_CALLS, BLOCK: Basis.RING, STRACE: Basis.WAYS_OF_CALLS},
    SYNC: {SYSCALLS: Basis.CALLS_OF_FILES, STRACE: Basis.CALLS_OF_FILES},
    INTERVAL: {
        SYSCALLS: Basis.TIMES_OF_CALLS,
        BLOCK: Basis.TIMES_OF_REQUESTS,
        COUNTERS: Basis.LIFE,
        STRACE: Basis.LIFE,
    },
    LATENCY: {SYSCALLS: Basis.TIMES_OF_CALLS, BLOCK: Basis.RING},
    PATTERN: {SYSCALLS: Basis.OFFSETS},
    DEVICE: {SYSCALLS: Basis.REQUESTS, BLOCK: Basis.REQUESTS, COUNTERS: Basis.ACCOUNT},
}
"""Property -> level (or the backend strace) -> what it is judged by there. It is not judged at the others."""

_LOST = ("EVENTS-LOST",)
_UNSURE = ("CALLS-UNFINISHED", "SIDES-UNKNOWN", "SPARSE")
_COUNTS: Mapping[str, Sequence[str]] = {
    CONTRADICTED: ("FEWER-SEEN", "MORE-SEEN"),
    UNSUBSTANTIATED: ("NOTHING-SEEN", "NULL-ENGINE", "PAST-THE-KERNEL", "NO-DEVICE-IO"),
    INCOMPLETE: ("MORE-SEEN", "CALLS-NOT-OBSERVED", "MAPPED", "BELOW-RESOLUTION", *_UNSURE, *_LOST),
}
OUTCOMES: Mapping[str, Mapping[str, Sequence[str]]] = {
    OPERATIONS: _COUNTS,
    BYTES: _COUNTS,
    FILES: {
        CONTRADICTED: ("OTHER-FILES",),
        UNSUBSTANTIATED: ("NOTHING-SEEN",),
        INCOMPLETE: ("OTHER-FILES", *_LOST),
    },
    DIRECT: {CONTRADICTED: ("NOT-DIRECT",), INCOMPLETE: ("NOT-DIRECT", *_UNSURE, *_LOST)},
    ENGINE: {CONTRADICTED: ("OTHER-ENGINE",), INCOMPLETE: (*_UNSURE, *_LOST)},
    SYNC: {
        CONTRADICTED: ("FEWER-SEEN", "NOT-SYNCED"),
        INCOMPLETE: ("FEWER-SEEN", "NOT-SYNCED", "CALLS-NOT-OBSERVED", *_UNSURE, *_LOST),
    },
    INTERVAL: {
        CONTRADICTED: ("OTHER-TIME", "CLOCK-CLAMP", "AT-ODDS-WITH-ITSELF", "LONGER-THAN-IT-RAN"),
        PERTURBED: ("PROBE-EFFECT",),
        INCOMPLETE: ("HELD-UP", "RATE-NOT-JUDGED", *_LOST),
        UNSUPPORTED: ("NOTHING-TO-JUDGE",),
    },
    LATENCY: {
        CONTRADICTED: ("OTHER-LATENCY", "IMPOSSIBLE-LATENCY"),
        INCOMPLETE: ("HELD-UP", "OTHER-LATENCY", *_LOST),
    },
    PATTERN: {
        CONTRADICTED: ("OTHER-PATTERN", "OTHER-WORKING-SET"),
        UNSUBSTANTIATED: ("NOTHING-SEEN",),
        INCOMPLETE: ("PATTERN-UNKNOWN", *_LOST),
    },
    DEVICE: {
        UNSUBSTANTIATED: ("NO-DEVICE-IO",),
        INCOMPLETE: ("DEVICE-NOT-OBSERVED", "NO-DEVICE-IO", *_LOST),
        AMPLIFIED: ("READ-MODIFY-WRITE", "JOURNAL", "METADATA", "PAGE-SIZE", "READ-AHEAD"),
        DEFERRED: ("NO-SYNC", "SYNC-OUTSIDE", "LOG-NOT-SYNCED"),
        CACHED: ("PAGE-CACHE", "ABSORBED", "NO-DEVICE-IO"),
    },
}
"""Property -> category worse than CONFIRMED -> the reasons for it. A drive that counts for itself adds its own."""
