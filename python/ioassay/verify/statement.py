"""What a verdict rests on, as codes and their numbers. `narrative/catalogue/explanation.toml` has the sentences."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any


class Code(StrEnum):
    """What a statement says. The sentence of each is named after it."""

    # What was claimed, and what the kernel saw
    NO_CLAIM = auto()
    CLAIMED = auto()
    CLAIMED_AND_SEEN = auto()
    SEEN = auto()
    CALLS_OF_COMMAND = auto()
    REQUESTS_OF_COMMAND = auto()
    CALLS = auto()
    CALLS_UNCOUNTED = auto()
    REQUESTS = auto()
    NO_IO_OF_COMMAND = auto()
    RATE_OF_CALLS = auto()
    # What cannot be judged
    DATABASE_OPERATIONS = auto()
    DATABASE_IO_SEPARATE = auto()
    LOAD_OF_SERVERS = auto()
    SERVERS_HERE = auto()
    SERVERS_ELSEWHERE = auto()
    DISCARDS_UNWATCHED = auto()
    UNKNOWN_KIND = auto()
    STONEWALLED = auto()
    NO_AMOUNT = auto()
    TIME_ALONE = auto()
    EVENTS_LOST = auto()
    COMMAND_FAILED = auto()
    # The observer effect
    NO_TWINS = auto()
    OBSERVER_EFFECT = auto()
    OBSERVER_EFFECT_UNKNOWN = auto()
    PERTURBED = auto()
    # Operations and bytes
    BYTES_APART = auto()
    FEWER_SEEN = auto()
    MORE_SEEN = auto()
    REST_UNKNOWN = auto()
    NAME_FILES = auto()
    USE_SYSCALLS = auto()
    NAME_FILES_AND_USE_SYSCALLS = auto()
    TOO_MANY_FILES = auto()
    BELOW_RESOLUTION = auto()
    OTHERS_CALLS = auto()
    NOTHING_SEEN = auto()
    FILES_NOT_OPENED = auto()
    CALLS_FAILED = auto()
    FAILED_OPERATIONS = auto()
    NOTHING_SUPPORTS = auto()
    NULL_ENGINE = auto()
    PAST_THE_KERNEL = auto()
    CALLS_BEHIND_DEVICE = auto()
    DEVICE_DID_MORE = auto()
    # Files, flags, engines, synchronisations
    OTHER_FILES = auto()
    NOT_DIRECT = auto()
    FLAGS_MAY_CHANGE = auto()
    OTHER_ENGINE = auto()
    SYNCS_FEWER = auto()
    NO_SYNC_SEEN = auto()
    SYNCED_TOO_EARLY = auto()
    SYNCED_IN_PART = auto()
    SYNCED_UNCHANGED = auto()
    OPENED_WITHOUT_SYNC = auto()
    WRITES_WITH_FLAGS = auto()
    SYNCS_UNWATCHED = auto()
    # Why fewer may have been seen than were made
    PROCESSES_OUTLIVED = auto()
    RESULTS_UNSEEN = auto()
    OTHER_PROGRAMS = auto()
    FILES_UNKNOWN = auto()
    ZEROS_SKIPPED = auto()
    # Calls that were not watched
    CALLS_UNWATCHED = auto()
    MAPPED_FILES = auto()
    SPLICED = auto()
    ENGINE_UNWATCHED = auto()
    DEVICES_MOVED = auto()
    DEVICES_MOVED_PART = auto()
    DIRECT_WITHOUT_DEVICE = auto()
    # Times
    STRACE_TIMES = auto()
    NOTHING_TIMED = auto()
    TIMES_UNWATCHED = auto()
    REQUESTS_LONGER = auto()
    RATE_BY_LIFE = auto()
    RATE_NOT_JUDGED = auto()
    LONGER_THAN_COMMAND = auto()
    OPERATION_LONGER_THAN_COMMAND = auto()
    SELF_CONTRADICTION = auto()
    SELF_CONTRADICTION_IN_OPERATIONS = auto()
    CLOCK_LATE = auto()
    LAST_RECORD_LATE = auto()
    OTHER_INTERVAL = auto()
    DELAYED_OR_WRONG = auto()
    CLOCK_CLAMPED = auto()
    INTERVAL_WITH_MORE = auto()
    INTERVAL_TOO_SHORT = auto()
    JOBS_APART = auto()
    CALLS_LONGER = auto()
    RATE_TOO_HIGH = auto()
    NO_RATE = auto()
    CLOCK_WIDER = auto()
    PAUSES_LEFT_OUT = auto()
    CLOCK_STOPPED = auto()
    TIMES_OF_UNKNOWN_SIDES = auto()
    # Latencies
    IMPOSSIBLE_LATENCY = auto()
    LATENCY_UNTIMED = auto()
    LATENCY_PARTIAL = auto()
    LATENCY_BELOW = auto()
    LATENCY_ABOVE = auto()
    LATENCY_DISORDER = auto()
    LATENCY_PARTS = auto()
    LATENCY_SPREAD = auto()
    RING_COMPLETES_EARLY = auto()
    WORK_BEFORE_CLOCK = auto()
    # Where the calls went
    ACCESS_SEEN = auto()
    ACCESS_OTHER = auto()
    ACCESS_UNCLEAR = auto()
    WORKING_SET_SMALLER = auto()
    WORKING_SET_LARGER = auto()
    NO_CALL_ON_FILES = auto()
    ONE_PLACE = auto()
    TOO_FEW_CALLS = auto()
    CALLS_OF_AN_OPERATION = auto()
    ORDER_UNKNOWN = auto()
    OFFSETS_UNWATCHED = auto()
    OFFSETS_UNSURE = auto()
    OFFSETS_OF_OTHERS = auto()
    # What reached the device
    FILE_IN_MEMORY = auto()
    DEVICE_UNWATCHED = auto()
    HOLES = auto()
    DEVICE_FOR_OTHERS = auto()
    NO_REQUESTS = auto()
    READ_SHARE = auto()
    PAGES_WITHOUT_DEVICE = auto()
    PAGE_CACHE = auto()
    FEW_REQUESTS = auto()
    PREFETCHED = auto()
    READ_MORE = auto()
    WHOLE_PAGES = auto()
    READ_AHEAD_EXTRA = auto()
    ABSORBED = auto()
    CANCELLED = auto()
    WRITTEN = auto()
    WRITTEN_TO_CACHE = auto()
    DEVICE_RECEIVED = auto()
    DEVICE_RECEIVED_WITH_OTHERS = auto()
    LOG_NOT_SYNCED = auto()
    NO_SYNC = auto()
    SYNC_OUTSIDE = auto()
    WROTE_MORE = auto()
    READ_FIRST = auto()
    READ_MODIFY_WRITE = auto()
    JOURNAL = auto()
    METADATA = auto()
    DEVICE_MOVED = auto()
    DEVICE_WROTE = auto()
    PAGES_DIRTIED = auto()
    # What the drive counted
    DRIVE_COUNTED = auto()
    DRIVE_COUNTED_OTHER = auto()
    PATH_UNSEEN = auto()
    KERNEL_ALONE = auto()
    # What a reader may wonder about
    SILENT_PASSES_COUNTED = auto()
    LEFT_OUT_RAMP = auto()
    LEFT_OUT_LAYOUT = auto()
    LEFT_OUT_OTHER_TESTS = auto()
    LEFT_OUT_OWN_FILES = auto()
    LEFT_OUT_PRE_READ = auto()
    OTHER_TRAFFIC = auto()
    END_OF_FILE = auto()
    LAYOUT = auto()
    PRIMING_READ = auto()
    SILENT_PASSES = auto()
    DIRECT_UNCLAIMED = auto()
    DEVICE_SHARED = auto()
    OTHER_MACHINE = auto()
    KERNEL_WRITE_BACK = auto()
    VIRTUAL_DEVICE = auto()
    DISCARDED = auto()
    REQUESTS_MERGED = auto()
    CALLS_MERGED = auto()
    READ_AHEAD = auto()
    WRITE_BACK_GATHERED = auto()
    JOURNAL_BYTES = auto()
    FLUSHES = auto()
    RING_CALLS = auto()
    SUMMED = auto()
    COMPLETIONS_MISSED = auto()
    REQUESTS_UNWATCHED = auto()
    PROPERTIES_UNWATCHED = auto()
    INTERIM_SUMMARY = auto()
    LESS_WATCHED = auto()


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
