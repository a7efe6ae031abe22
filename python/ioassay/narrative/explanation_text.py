"""The sentences of verdicts: what each category means, and the explanation and the notes of one verdict.

A template says how each number is shown: `{claimed:amount}`, `{own_bytes:size}`, `{calls:#call}` (a count).
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ioassay.narrative import phrases
from ioassay.units import format_count, format_duration, format_ns, format_rate, format_size
from ioassay.verify.statement import Amount, Code, Statement
from ioassay.verify.verdict import (
    AMPLIFIED,
    CACHED,
    CONFIRMED,
    CONTRADICTED,
    DEFERRED,
    INCOMPLETE,
    NOT_JUDGED,
    PERTURBED,
    UNSUBSTANTIATED,
    UNSUPPORTED,
    Verdict,
    rank,
)

MEANINGS: Mapping[str, str] = {
    CONFIRMED: "What was counted matches the claim.",
    CACHED: "The calls were made, and memory served most of them. The claim describes the page cache, not the device.",
    DEFERRED: "The writes were accepted, and the device did not have them all by the end.",
    AMPLIFIED: "The calls were made, and the device had to do more work than was claimed.",
    UNSUPPORTED: "The claim is not about I/O that the kernel could confirm.",
    INCOMPLETE: "The evidence is insufficient: too little was watched, or some of it was lost.",
    PERTURBED: "Observation changed the result, so the observed run is not the reported one.",
    UNSUBSTANTIATED: "Nothing of the claim was seen where it must have been.",
    CONTRADICTED: "The kernel saw something else.",
}

TEMPLATES: Mapping[Code, str] = {
    Code.NO_CLAIM: "Nothing was claimed, so there is nothing to judge.",
    Code.CLAIMED: "{claimed:amount} were claimed.",
    Code.CLAIMED_AND_SEEN: "{claimed:amount} were claimed; the kernel saw {seen:amount}.",
    Code.SEEN: "The kernel saw {seen:amount}.",
    Code.CALLS_OF_COMMAND: "The kernel saw {parts:calls}.",
    Code.REQUESTS_OF_COMMAND: "Block devices received {parts:requests}.",
    Code.NO_IO_OF_COMMAND: "The kernel saw no I/O of the command.",
    Code.RATE_OF_CALLS: "From the first to the last call the rate is {bytes_per_s:rate}, "
    "{difference_percent:.2g} % from the claim.",
    Code.DATABASE_OPERATIONS: "The kernel cannot confirm operations of a database, because they are not I/O.",
    Code.DATABASE_IO_SEPARATE: "The bytes that the database reports are judged separately.",
    Code.LOAD_OF_SERVERS: "The command only controls this load. {servers:list} made it, in processes that the witness "
    "did not watch.",
    Code.SERVERS_HERE: "{servers:list} can only be on this host. Watch the server as well: "
    "ioassay witness --pid PID -- COMMAND.",
    Code.SERVERS_ELSEWHERE: "To verify {servers:list}, watch its server there (ioassay witness --pid), or let ioassay "
    "measure there: [run] hosts.",
    Code.DISCARDS_UNWATCHED: "Discards are visible only at the block layer, which was not watched.",
    Code.UNKNOWN_KIND: "No rule covers claims of the kind '{kind}'.",
    Code.STONEWALLED: "The rates of several processes were added, although the first to end stopped the others. "
    "No interval belongs to their sum.",
    Code.NO_AMOUNT: "The claim has no operations, no bytes and no time. State at least one of them.",
    Code.TIME_ALONE: "Only a time was claimed, and no calls were timed for comparison ({seen:amount}).",
    Code.EVENTS_LOST: "The witness lost events (lost: {lost}, dropped: {dropped}). "
    "Its counts are lower bounds, so the claim is not judged.",
    Code.COMMAND_FAILED: "The command failed or was terminated, so its claim may cover only a part.",
    Code.NO_TWINS: "The observer effect was not judged, because there are no twins without the witness.",
    Code.OBSERVER_EFFECT: "With the witness, {metric} was {ratio:.3g} times that without it "
    "(95 % interval {low:.3g} to {high:.3g}, {runs:#run} each).",
    Code.OBSERVER_EFFECT_UNKNOWN: "With the witness, {metric} was {ratio:.3g} times that without it. "
    "An interval needs three runs of each (runs: {runs}).",
    Code.PERTURBED: "Observation changed the result.",
    Code.BYTES_APART: "Exactly, {claimed} bytes were claimed and {seen} bytes were moved.",
    Code.FEWER_SEEN: "That is {lack:share} less than claimed.",
    Code.OTHER_FILES: "It moved {moved_bytes:size} on files that no claim names.",
    Code.NOT_DIRECT: "Direct I/O was claimed, but {calls_bytes:size} went through files opened without O_DIRECT.",
    Code.FLAGS_MAY_CHANGE: "A program may set O_DIRECT after it opens a file, which was not observed.",
    Code.OTHER_ENGINE: "The engine {engines:list} was claimed; {moved_bytes:size} of {calls_bytes:size} went its way.",
    Code.SYNCS_FEWER: "{claimed:#synchronisation} of its files were claimed; the kernel saw {seen}.",
    Code.NO_SYNC_SEEN: "A synchronisation after the last write was claimed; the kernel saw none of its files.",
    Code.SYNCED_TOO_EARLY: "A synchronisation after the last write was claimed; the kernel saw only earlier ones.",
    Code.SYNCED_IN_PART: "A synchronisation after the last write was claimed; "
    "the kernel saw it for {synced} of {written:#file}.",
    Code.OPENED_WITHOUT_SYNC: "Synchronous writes were claimed, but files were opened without O_SYNC and O_DSYNC.",
    Code.WRITES_WITH_FLAGS: "Its files were opened without O_SYNC, and the flags of single writes were not observed.",
    Code.SYNCS_UNWATCHED: "A synchronisation was claimed; calls were not watched, and the device does not have it all.",
    Code.MORE_SEEN: "That is more than claimed, and nothing explains it.",
    Code.REST_UNKNOWN: "The data do not show whether the rest belongs to the claim.",
    Code.NAME_FILES: "To find out, name its files.",
    Code.USE_SYSCALLS: "To find out, use the level syscalls.",
    Code.NAME_FILES_AND_USE_SYSCALLS: "To find out, name its files and use the level syscalls.",
    Code.TOO_MANY_FILES: "More files were opened than the witness keeps apart, so files are not distinguishable.",
    Code.BELOW_RESOLUTION: "Up to {others_bytes:size} of it may be loaders and printed results.",
    Code.NOTHING_SEEN: "{claimed:amount} were claimed, but the kernel saw no such I/O of the command ({seen:amount}).",
    Code.FILES_NOT_OPENED: "No process opened {files:list}, which the claim names.",
    Code.CALLS_FAILED: "{errors} of its calls failed.",
    Code.NOTHING_SUPPORTS: "Nothing that was seen supports this claim.",
    Code.NULL_ENGINE: "{claimed:amount} were claimed by an engine that does no I/O (null). "
    "The rate is that of the tool alone.",
    Code.ENGINE_WITHOUT_DATA: "{claimed:amount} were claimed by an engine that moves no file data ({engine}).",
    Code.PAST_THE_KERNEL: "{claimed:amount} were claimed by an engine that addresses the drive itself ({engine}). "
    "The kernel sees at most its sockets, so only the drive could confirm them.",
    Code.CALLS_BEHIND_DEVICE: "The device was used, possibly by calls of another kind or mapped files, "
    "so the claim was not judged.",
    Code.DEVICE_DID_MORE: "The device did more than these calls.",
    Code.PROCESSES_OUTLIVED: "The command ended before all its processes, which were then no longer watched "
    "(still running: {processes}).",
    Code.RESULTS_UNSEEN: "The results of some calls were not seen (in flight: {in_flight}, unmatched: {unmatched}).",
    Code.OTHER_PROGRAMS: "Other programs ran at the same time, possibly on the same file.",
    Code.FILES_UNKNOWN: "The files that the tool copied are not known.",
    Code.ZEROS_SKIPPED: "The tool's options make it skip blocks of zeros.",
    Code.CALLS_UNWATCHED: "Its calls were not seen.",
    Code.MAPPED_FILES: "Mapped files are read and written without a call.",
    Code.SPLICED: "No total of the process includes the bytes of splice(2).",
    Code.ENGINE_UNWATCHED: "Submissions through {engine} were not watched (layers: {layers:list}).",
    Code.DEVICES_MOVED: "Devices moved {moved_bytes:size}.",
    Code.DEVICES_MOVED_PART: "Devices moved {moved_bytes:size} for it, which does not show the rest.",
    Code.DIRECT_WITHOUT_DEVICE: "The device did none of it, although direct I/O was claimed.",
    Code.STRACE_TIMES: "Its times were not judged, because strace slows down every call.",
    Code.TIMES_SHARED: "Times and rates were not judged, because the calls belong to several claims.",
    Code.NOTHING_TIMED: "Times and rates were not judged, because nothing was moved.",
    Code.TIMES_UNWATCHED: "Times and rates were not judged, because single calls were not watched. "
    "Use the level syscalls to time them.",
    Code.LONGER_THAN_COMMAND: "{claimed_s:s} were claimed, but the command ran for only {command_s:s}.",
    Code.OPERATION_LONGER_THAN_COMMAND: "{claimed_s:s} were claimed for an operation, but the command ran for only "
    "{command_s:s}.",
    Code.SELF_CONTRADICTION: "The claim contradicts itself: its bytes in {claimed_s:s} are "
    "{implied_bytes_per_s:rate}, but it states {claimed_bytes_per_s:rate}.",
    Code.CLOCK_LATE: "The tool was delayed: it read its clock {late_s:us} after its last call.",
    Code.LAST_RECORD_LATE: "The C library wrote the last record after the tool's clock had stopped.",
    Code.OTHER_INTERVAL: "{claimed_s:s} ({claimed_bytes_per_s:rate}) were claimed. "
    "From its first to its last call it took {seen_s:s} ({seen_bytes_per_s:rate}).",
    Code.DELAYED_OR_WRONG: "Either the tool was delayed between its last call and its clock, or its clock is wrong.",
    Code.CLOCK_CLAMPED: "The tool's clock is too coarse for this interval and was clamped.",
    Code.INTERVAL_WITH_MORE: "Its interval was not judged, because the observation includes {parts:list}.",
    Code.INTERVAL_TOO_SHORT: "Its rate was not judged, because {claimed_s:s} are less than the uncertainty of its "
    "clock ({allowed_s:s}).",
    Code.JOBS_APART: "Its jobs did not begin together. The longest took {claimed_s:s}, and all of them {seen_s:s} "
    "from the first to the last call.",
    Code.CALLS_LONGER: "{claimed_s:s} were claimed; its calls took {seen_s:s} from the first to the last.",
    Code.RATE_TOO_HIGH: "Its rate is {ratio:excess}.",
    Code.NO_RATE: "It has no rate.",
    Code.CLOCK_WIDER: "It claims {claimed_s:s}; its calls lasted {seen_s:s} from the first to the last. "
    "Its clock also ran without I/O (start, pauses, synchronisation).",
    Code.PAUSES_LEFT_OUT: "{claimed_s:s} were claimed; from its first call to its last, over {sessions:#session}, "
    "it took {seen_s:s}.",
    Code.CLOCK_STOPPED: "Its clock seems to stop when it opens a file again: {claimed_s:s} were claimed, "
    "and {seen_s:s} passed from the first call to the last.",
    Code.TIMES_OF_UNKNOWN_SIDES: "Its times were not judged, because its files are not known.",
    Code.IMPOSSIBLE_LATENCY: "A latency of {latency_ns:ns} ({name}) was claimed, but the whole interval lasted "
    "only {interval_s:s}.",
    Code.LATENCY_UNTIMED: "Its latencies were not judged, because single calls were not timed.",
    Code.LATENCY_PARTIAL: "Its latencies were not judged, because the end of only {coverage:share} of the calls "
    "was seen.",
    Code.LATENCY_LEFT_OUT: "Its latencies were not judged, because the times include work that it does not report.",
    Code.LATENCY_BELOW: "A mean latency of {claimed_ns:ns} was claimed; the kernel measured {seen_ns:ns}, "
    "which is longer.",
    Code.LATENCY_ABOVE: "A mean latency of {claimed_ns:ns} was claimed; the kernel measured {seen_ns:ns}.",
    Code.RING_COMPLETES_EARLY: "Requests of io_uring complete in the kernel before the tool collects them.",
    Code.WORK_BEFORE_CLOCK: "Other work separates a call's end from the tool's clock (a busy processor, batches).",
    Code.ACCESS_SEEN: "{sequential:share} of {calls:#call} began where the one before ended, and at most "
    "{unique_bytes:size} were touched.",
    Code.ACCESS_OTHER: "The pattern '{pattern}' was claimed. Of {calls:#call}, {sequential:share} began where the one "
    "before ended, and {stride:share} were at one distance.",
    Code.ACCESS_UNCLEAR: "The pattern '{pattern}' was claimed, which the calls neither show nor exclude. "
    "{sequential:share} of {calls:#call} began where the one before ended.",
    Code.WORKING_SET_SMALLER: "A working set of {claimed_bytes:size} was claimed, of which such calls touch about "
    "{expected_bytes:size}. They touched at most {unique_bytes:size}.",
    Code.WORKING_SET_LARGER: "A working set of {claimed_bytes:size} was claimed. The calls touched at least "
    "{unique_bytes:size}.",
    Code.NO_CALL_ON_FILES: "The kernel saw no such call on its files, so there is no pattern.",
    Code.ONE_PLACE: "All calls were on one place. State working_set to have that judged.",
    Code.TOO_FEW_CALLS: "There were too few calls to show a pattern.",
    Code.CALLS_OF_AN_OPERATION: "An operation may be several calls one after the other. State ops or record to have "
    "the pattern judged.",
    Code.ORDER_UNKNOWN: "Several tasks, or reads and writes in turn, used one open file. "
    "The order of its calls shows no pattern.",
    Code.OFFSETS_UNWATCHED: "Offsets were not watched. Use the level syscalls to have the pattern judged.",
    Code.OFFSETS_UNSURE: "Some offsets are not known for sure, so the pattern was not judged.",
    Code.OFFSETS_OF_OTHERS: "Other work may be on the same files, so the pattern was not judged.",
    Code.FILE_IN_MEMORY: "The file is in memory ({filesystems:list}), so no device was used. "
    "The rate is that of memory.",
    Code.DEVICE_UNWATCHED: "The claim states direct I/O, and the device was not watched.",
    Code.HOLES: "The calls read {calls_bytes:size} past the cache, and the device did {device_bytes:size} of it. "
    "The file has holes or unwritten extents, which the filesystem serves with zeros.",
    Code.DEVICE_FOR_OTHERS: "The device did {device_bytes:size}, of which up to {others_bytes:size} were read for "
    "other files.",
    Code.NO_REQUESTS: "The calls moved {calls_bytes:size} past the cache, and the device did {device_bytes:size} "
    "of it. No request was made for the rest.",
    Code.READ_SHARE: "The calls read {calls_bytes:size}, and the device {device_bytes:size} of it ({share:share}).",
    Code.PAGES_WITHOUT_DEVICE: "Its pages were created without the device, like those of holes.",
    Code.PAGE_CACHE: "The page cache served the rest, and the rate is mostly that of memory.",
    Code.READ_MORE: "The calls read {calls_bytes:size}, and the device {device_bytes:size}.",
    Code.WHOLE_PAGES: "Smaller records read whole pages.",
    Code.READ_AHEAD_EXTRA: "Read-ahead fetched data that were not requested.",
    Code.ABSORBED: "The calls wrote {calls_bytes:size}, of which {device_bytes:size} reached the device. "
    "The same pages were written several times before they were synchronised.",
    Code.WRITTEN: "The calls wrote {calls_bytes:size}.",
    Code.WRITTEN_TO_CACHE: "The calls wrote {calls_bytes:size} into the page cache.",
    Code.DEVICE_RECEIVED: "The device received {own_bytes:size} of it from the command itself.",
    Code.DEVICE_RECEIVED_WITH_OTHERS: "The device received {own_bytes:size} of it from the command itself "
    "and at most {others_bytes:size} by write-back.",
    Code.LOG_NOT_SYNCED: "Its log is not synchronised, and data deleted before write-back never reach the device.",
    Code.NO_SYNC: "The claimed interval has no synchronisation, so the rate is that of memory.",
    Code.SYNC_OUTSIDE: "The file was synchronised after the claimed interval, so the rate is that of memory.",
    Code.WROTE_MORE: "The calls wrote {calls_bytes:size}, and the device {device_bytes:size}.",
    Code.READ_FIRST: "The device read {read_bytes:size} first.",
    Code.READ_MODIFY_WRITE: "Smaller records read, change and write whole pages (read-modify-write).",
    Code.JOURNAL: "The journal and metadata took {each_bytes:size} per synchronisation ({syncs} in all).",
    Code.METADATA: "Earlier dirty pages, metadata or a journal were written with them.",
    Code.DEVICE_MOVED: "The device moved {own_bytes:size}.",
    Code.DEVICE_WROTE: "The device wrote {own_bytes:size} for it and {others_bytes:size} for others.",
    Code.PAGES_DIRTIED: "The command dirtied {own_bytes:size} of pages, or wrote them past the cache.",
    Code.DRIVE_COUNTED: "The drive itself counted {counted:requests_of}.",
    Code.DRIVE_COUNTED_OTHER: "The drive itself counted {counted:requests_of}, but {claimed_bytes:size} were claimed.",
    Code.PATH_UNSEEN: "{claimed_bytes:size} were claimed. The kernel cannot see them on this path.",
    Code.KERNEL_ALONE: "By the kernel's counts alone: {explanation:sentences}",
    Code.SILENT_PASSES_COUNTED: "Priming reads and unreported passes are counted, because the tool makes them.",
    Code.LEFT_OUT: "More was seen than claimed: the tool does not report {part:left_out}.",
    Code.OTHER_TRAFFIC: "In addition to the claim, {extra:amount} were seen: loaders, settings and printed results.",
    Code.END_OF_FILE: "The tool found the end of the file with {calls:#call} that moved nothing.",
    Code.LAYOUT: "{written_bytes:size} were written to lay out its files and are excluded.",
    Code.PRIMING_READ: "One record is read before the tool's clock starts (a priming read), which is excluded.",
    Code.SILENT_PASSES: "The tool makes {passes} passes and reports the first; the others are excluded.",
    Code.DIRECT_UNCLAIMED: "Its files were opened with O_DIRECT, although the claim states otherwise.",
    Code.DEVICE_SHARED: "The work of the device is judged for all {claims} claims of this kind together.",
    Code.OTHER_MACHINE: "Its files are on no block device of this machine, so what served them was not seen.",
    Code.KERNEL_WRITE_BACK: "{own_bytes:size} were written in the command's own context, and the rest by the "
    "kernel's write-back, which serves all processes.",
    Code.STACKED_DEVICE: "The requests of a stacked device's own threads are counted (loop, device-mapper).",
    Code.VIRTUAL_DEVICE: "No drive is behind {devices:list}: a file or memory served the requests, possibly from a "
    "cache.",
    Code.DISCARDED: "Freed blocks were discarded as well (requests: {requests}).",
    Code.REQUESTS_MERGED: "{merges:#request} were merged: {requests} moved {own_bytes:size}.",
    Code.CALLS_MERGED: "Calls were merged: {requests:#request} moved {own_bytes:size}.",
    Code.READ_AHEAD: "Read-ahead: {requests:#large request} fetched {own_bytes:size}.",
    Code.WRITE_BACK_GATHERED: "Write-back gathered pages: {requests:#request} wrote {own_bytes:size}.",
    Code.JOURNAL_BYTES: "{extra_bytes:size} more than claimed were written: journal and metadata.",
    Code.FLUSHES: "{writes:#write} and {syncs:#synchronisation} made {requests:#request} and {flushes} flushes. "
    "Each synchronisation adds requests of the journal and empty pre-flushes.",
    Code.RING_CALLS: "With io_uring, the number of system calls does not show the number of operations.",
    Code.SUMMED: "{claims} claims were judged by their sum.",
    Code.COMPLETIONS_MISSED: "The completion of {missed} of {issued} block requests was not seen. "
    "That affects their latencies, not the counts.",
    Code.REQUESTS_UNWATCHED: "Single requests of the block layer were not watched.",
    Code.PROPERTIES_UNWATCHED: "What was watched does not show these properties: {names:list}.",
    Code.INTERIM_SUMMARY: "It is an interim summary: the claim after it includes it.",
    Code.LESS_WATCHED: "Less was watched than requested: {why}.",
}
"""At most 25 words a sentence, the numbers included."""

_LEFT_OUT = {
    "ramp": "the ramp before its clock starts",
    "layout": "the layout of its files",
    "other-tests": "tests of which it states no volume",
    "own-files": "the database's own files and the headers in its log",
    "pre-read": "its read of the file before its clock starts",
}
_PLACES = {
    "files": " on its files",
    "calls": " in all calls of the process tree",
    "process": " in the totals of the process tree",
}


def text(statements: Sequence[Statement]) -> str:
    """The sentences of an explanation."""
    return " ".join(map(sentence, statements))


def sentence(statement: Statement) -> str:
    """One sentence, or two; a warning says that it is one."""
    shown = _FORMATTER.vformat(TEMPLATES[statement.code], (), dict(statement.values))
    return f"Warning: {shown}" if statement.warns else shown


def by_property(verdict: Verdict) -> str:
    """'By property: CONFIRMED operations, bytes; not judged pattern.'; '' where nothing could be judged."""
    names: dict[str, list[str]] = {}
    for each in sorted(verdict.properties, key=rank, reverse=True):
        names.setdefault(each.category, []).append(each.name)
    not_judged = names.pop(NOT_JUDGED, [])
    parts = [f"{category} {', '.join(among)}" for category, among in names.items()]
    if not_judged:
        parts.append(f"not judged {', '.join(not_judged)}")
    return f"By property: {'; '.join(parts)}." if parts else ""


def as_dict(verdict: Verdict) -> dict[str, Any]:
    """The verdict as JSON, with its sentences."""
    return {
        **{name: getattr(verdict, name) for name in ("category", "reason")},
        "explanation": text(verdict.explanation),
        "numbers": dict(verdict.numbers),
        "claim": asdict(verdict.claim) if verdict.claim else None,
        "notes": [sentence(note) for note in verdict.notes],
        "severity": verdict.severity,
        "properties": [
            {"name": each.name, "category": each.category, "reason": each.reason, "explanation": text(each.statements)}
            for each in verdict.properties
        ],
    }


def duration(seconds: float) -> str:
    """A length of time with three digits, below a second in the unit that fits it."""
    return format_ns(seconds * 1e9) if 0 < seconds < 1 else format_duration(seconds)


def _amount(amount: Amount) -> str:
    operations = phrases.count(amount.operations, "operation") if amount.operations is not None else ""
    volume = format_size(amount.bytes) if amount.bytes is not None else ""
    return " and ".join(filter(None, (operations, volume))) + _PLACES.get(amount.source, "")


def _excess(ratio: float) -> str:
    """In percent, or, from ten times on, as a factor."""
    return f"{ratio:.3g} times what it was" if ratio >= 10 else f"{(ratio - 1) * 100:.3g} % too high"


def _calls(parts: Sequence[tuple[str, int | None, float]]) -> str:
    numbers = {kind: "" if number is None else f"{format_count(number)} " for kind, number, _ in parts}
    return phrases.listed([f"{numbers[kind]}{kind} calls of {format_size(volume)}" for kind, _, volume in parts])


def _requests(parts: Sequence[tuple[str, int, float]]) -> str:
    shown = [f"{format_count(number)} {kind} requests of {format_size(volume)}" for kind, number, volume in parts]
    return phrases.listed(shown)


def _requests_of(amount: Amount) -> str:
    requests = "request" if amount.operations == 1 else "requests"
    return f"{format_count(amount.operations or 0)} {requests} of {format_size(amount.bytes or 0)}"


_SHOWN: Mapping[str, Any] = {
    "amount": _amount,
    "calls": _calls,
    "excess": _excess,
    "left_out": _LEFT_OUT.__getitem__,
    "list": phrases.listed,
    "ns": format_ns,
    "rate": lambda rate: "no rate" if rate is None else format_rate(rate),
    "requests": _requests,
    "requests_of": _requests_of,
    "s": duration,
    "sentences": text,
    "share": lambda share: f"{share * 100:.3g} %",
    "size": format_size,
    "us": lambda seconds: f"{seconds * 1e6:.3g} µs",
}


class _Formatter(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec.startswith("#"):
            return phrases.count(value, format_spec[1:])
        return _SHOWN[format_spec](value) if format_spec in _SHOWN else str(super().format_field(value, format_spec))


_FORMATTER = _Formatter()
