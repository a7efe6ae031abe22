"""The properties that a claim may state, and what the evidence for each can come to.

`OUTCOMES` is the contract of the judge: a property has no other verdict than those of its row. Its tests hold it to
that, and docs/verdicts.md shows it as a table. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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

_LOST = ("EVENTS-LOST",)
_UNSURE = ("CALLS-UNFINISHED", "SIDES-UNKNOWN", "SPARSE")
_COUNTS: Mapping[str, Sequence[str]] = {
    CONTRADICTED: ("FEWER-SEEN", "MORE-SEEN"),
    UNSUBSTANTIATED: ("NOTHING-SEEN", "NULL-ENGINE", "PAST-THE-KERNEL", "NO-DEVICE-IO"),
    INCOMPLETE: (
        *("MORE-SEEN", "CALLS-NOT-OBSERVED", "MAPPED", "BELOW-RESOLUTION"),
        *(*_UNSURE, *_LOST),
    ),
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
        INCOMPLETE: ("HELD-UP", *_LOST),
        UNSUPPORTED: ("NOTHING-TO-JUDGE",),
    },
    LATENCY: {
        CONTRADICTED: ("OTHER-LATENCY", "IMPOSSIBLE-LATENCY", "LONGER-THAN-IT-RAN"),
        PERTURBED: ("PROBE-EFFECT",),
        INCOMPLETE: _LOST,
    },
    PATTERN: {},
    DEVICE: {
        UNSUBSTANTIATED: ("NO-DEVICE-IO",),
        INCOMPLETE: ("DEVICE-NOT-OBSERVED", "NO-DEVICE-IO", *_LOST),
        AMPLIFIED: ("READ-MODIFY-WRITE", "JOURNAL", "METADATA", "PAGE-SIZE", "READ-AHEAD"),
        DEFERRED: ("NO-SYNC", "SYNC-OUTSIDE", "LOG-NOT-SYNCED"),
        CACHED: ("PAGE-CACHE", "ABSORBED", "NO-DEVICE-IO"),
    },
}
"""Property -> category worse than CONFIRMED -> the reasons for it. Those of the pattern are `access_pattern`'s."""
