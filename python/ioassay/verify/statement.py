"""What a verdict rests on, as codes and their numbers. `narrative/catalogue/explanation.toml` has the sentences."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

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
    "CALLS_UNWATCHED", "MAPPED_FILES", "SPLICED", "ENGINE_UNWATCHED", "DEVICES_MOVED", "DEVICES_MOVED_PART",
    "DIRECT_WITHOUT_DEVICE",
    # Times
    "STRACE_TIMES", "NOTHING_TIMED", "TIMES_UNWATCHED", "REQUESTS_LONGER", "RATE_BY_LIFE", "RATE_NOT_JUDGED",
    "LONGER_THAN_COMMAND", "OPERATION_LONGER_THAN_COMMAND", "SELF_CONTRADICTION", "SELF_CONTRADICTION_IN_OPERATIONS",
    "MISFIT", "MISFIT_BELOW", "CLOCK_LATE", "LAST_RECORD_LATE", "OTHER_INTERVAL", "DELAYED_OR_WRONG", "CLOCK_CLAMPED",
    "INTERVAL_WITH_MORE", "INTERVAL_TOO_SHORT", "JOBS_APART", "CALLS_LONGER", "RATE_TOO_HIGH", "NO_RATE", "CLOCK_WIDER",
    "PAUSES_LEFT_OUT", "CLOCK_STOPPED", "TIMES_OF_UNKNOWN_SIDES",
    # Latencies
    "IMPOSSIBLE_LATENCY", "LATENCY_UNTIMED", "LATENCY_PARTIAL", "LATENCY_BELOW", "LATENCY_ABOVE", "LATENCY_UNKNOWN",
    "LATENCY_DISORDER", "LATENCY_PARTS", "LATENCY_SPREAD", "RING_COMPLETES_EARLY", "WORK_BEFORE_CLOCK",
    # Where the calls went
    "ACCESS_SEEN", "ACCESS_OTHER", "ACCESS_STREAMS", "ACCESS_UNCLEAR", "WORKING_SET_SMALLER", "WORKING_SET_LARGER",
    "NO_CALL_ON_FILES", "ONE_PLACE", "TOO_FEW_CALLS", "CALLS_OF_AN_OPERATION", "ORDER_UNKNOWN", "OFFSETS_UNWATCHED",
    "OFFSETS_UNSURE", "OFFSETS_OF_OTHERS",
    # What reached the device
    "FILE_IN_MEMORY", "DEVICE_UNWATCHED", "HOLES", "DEVICE_FOR_OTHERS", "NO_REQUESTS", "READ_SHARE",
    "PAGES_WITHOUT_DEVICE", "PAGE_CACHE", "FEW_REQUESTS", "PREFETCHED", "READ_MORE", "WHOLE_PAGES", "READ_AHEAD_EXTRA",
    "ABSORBED", "CANCELLED", "WRITTEN", "WRITTEN_TO_CACHE", "DEVICE_RECEIVED", "DEVICE_RECEIVED_WITH_OTHERS",
    "LOG_NOT_SYNCED", "NO_SYNC", "SYNC_OUTSIDE", "WROTE_MORE", "READ_FIRST", "READ_MODIFY_WRITE", "JOURNAL", "METADATA",
    "DEVICE_MOVED", "DEVICE_WROTE", "PAGES_DIRTIED",
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
    """A statement with these numbers."""
    return Statement(code, tuple(values.items()), warns)
