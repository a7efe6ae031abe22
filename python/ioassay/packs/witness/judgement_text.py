"""What `ioassay witness` says: at most session.MOST_LINES lines, or with --all everything that the verdicts rest on.

The object for --json is the judgement's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ioassay.cli import console, session
from ioassay.errors import Contradicted
from ioassay.formats import conventions
from ioassay.metrics import requests_of
from ioassay.narrative import conditions_text, explanation_text
from ioassay.narrative.say import Quantity
from ioassay.narrative.say import say as sentence
from ioassay.packs.witness.witness_judgement import Judgement
from ioassay.records.observation import Observation
from ioassay.units import format_ns, format_size
from ioassay.verify.claim_groups import is_of_system
from ioassay.verify.evidence import classes
from ioassay.verify.verdict import BY_DEVICE, BY_DRIVE, CONFIRMED, UNSUBSTANTIATED, Code, Verdict, rank

if TYPE_CHECKING:
    from ioassay.packs.witness.attachment import Attachment
    from ioassay.verify.latency_parts import LatencyParts
    from ioassay.verify.witness.observed_command import CallListing

_MOST_ROWS = 5
"""Claims in the table; the worst where there are more."""
_MOST_LATENCIES = 2
_LEAST_REASONS = 1
"""Lines below the table."""
_COMPARED = ("claim", "verdict", "operations", "seen", "bytes", "seen", "device")
_MORE = "More: --all (notes, calls, requests to devices), --json; --output FILE keeps the observation."
_MOST_CALLS = 8
_MOST_CLAIMS = 12
"""Claims that are told one by one; an automatic IOzone run makes hundreds."""
_MOST_NAMES = 3
_MOST_FILES = 12


def say(judgement: Judgement) -> None:
    """The verdict, the claims of the last run and what the kernel saw, the reasons, and how it was watched."""
    judged, told = judgement.verdicts, _premises(judgement)
    if judged:
        reason = f" ({judgement.reason})" if judgement.reason else ""
        headline = explanation_text.headline(judged, judgement.verdict, judgement.seen.asked)
        told.append(f"{judgement.verdict}{reason}: {' '.join(map(str, headline))}")
    latencies = [said for one in judgement.latency_parts()[:_MOST_LATENCIES] for said in _of_parts(one)]
    latencies += _of_syncs(judgement)[:_MOST_LATENCIES]
    head = [*_wrapped(_whose_io(judgement)), "", *_wrapped(told), *_unclaimed(judgement), *_wrapped(latencies)]
    tail = [*_watch(judgement.seen), *console.wrapped(_MORE)]
    room = session.MOST_LINES - len(head) - len(tail) - 1  # the line on the exit status
    table = _table(judged, room - _LEAST_REASONS) if judged else []
    more = "--all has the reasons of the {}verdicts"
    reasons = session.digest(_reasons(judged), room - len(table), lambda shown: more.format("other " if shown else ""))
    console.lines((*head, *table, *reasons, *tail))


def _wrapped(texts: Iterable[str]) -> list[str]:
    return [line for text in texts if text for line in console.wrapped(text)]


def _premises(judgement: Judgement) -> list[str]:
    """Whether the machine was quiet, and how the command failed."""
    conditions = judgement.conditions()
    failure = console.command_failure(judgement.runs[-1].watched.outcome)
    return [conditions_text.line(conditions) if conditions else "", failure]


def _of_parts(one: LatencyParts) -> list[str]:
    """Where the time went, of one kind of operations."""
    return [str(said) for said in (explanation_text.parts_sentence(one), explanation_text.sum_sentence(one)) if said]


def _of_syncs(judgement: Judgement) -> list[str]:
    """How long the calls took that made data durable, each name by itself."""
    found = sorted(judgement.kernel_times(), key=lambda one: -one.calls.completed)
    shown = [one for one in found if one.name != "sync"] or found
    said = []
    for one in shown:
        values = {name.rpartition(".")[2]: Quantity(name, value) for name, value in one.metrics.items()}
        named = {"requests": requests_of(f"kernel.{one.name}"), "number": one.calls.completed}
        said.append(
            str(sentence("latency.kernel", **named, half=values["p50"], tail=values["p99"], most=values["max"]))
        )
    return said


def _unclaimed(judgement: Judgement) -> list[str]:
    """What is said in place of verdicts where nothing is claimed."""
    if judgement.verdicts:
        return []
    advice = f"{judgement.explanation} State one with --claim bytes=…,ops=…,seconds=…"
    return [f"{judgement.verdict}: no claim", *console.wrapped(advice, "    "), ""]


def _table(judged: Sequence[Verdict], room: int) -> list[str]:
    """A row for each claim; for the worst ones, where there are more than `room` allows. An empty line is the last."""
    most = max(min(_MOST_ROWS, room - 3), 1)
    shown = judged if len(judged) <= most else sorted(judged, key=lambda one: -rank(one))[:most]
    more = len(judged) - len(shown)
    rest = [f"and {console.count(more, 'more claim')}, none of them worse: --all, --json"] if more else []
    return [*console.aligned(_COMPARED, [*map(_compared, shown)]), *rest, ""]


def _compared(verdict: Verdict) -> list[str]:
    """A row of the table: what was claimed, and what was seen where the verdict has it from."""
    seen = {BY_DEVICE: ("device_requests", "device_bytes"), BY_DRIVE: ("drive_operations", "drive_bytes")}
    operations, volume = seen.get(verdict.reason, ("seen_operations", "seen_bytes"))
    counts = map(verdict.numbers.get, ("claimed_operations", operations))
    sizes = map(verdict.numbers.get, ("claimed_bytes", volume, "device_bytes"))
    shown = ["-" if count is None else f"{count:,}" for count in counts]
    return [_whose(verdict), verdict.category, *shown, *("-" if size is None else format_size(size) for size in sizes)]


def _reasons(judged: Sequence[Verdict]) -> list[list[str]]:
    """The lines on each verdict that the table does not explain; of one that needs none, what it rests on."""
    of_twins = (Code.OBSERVER_EFFECT, Code.OBSERVER_EFFECT_UNKNOWN)  # which the user asked for
    topics = []
    for verdict in sorted(judged, key=lambda one: -rank(one)):
        notes = [str(explanation_text.sentence(note)) for note in verdict.notes if note.warns or note.code in of_twins]
        if verdict.category != CONFIRMED or notes:
            reason = f"{_whose(verdict)}{f' ({verdict.reason})' if verdict.reason else ''}: "
            explanation = reason + explanation_text.text(verdict.explanation)
            topics.append(_wrapped([explanation, *notes, explanation_text.by_property(verdict)]))
    return topics or [console.wrapped(explanation_text.by_property(judged[0]))] if judged else []


def _whose(verdict: Verdict) -> str:
    """'dd's read', 'fio's read of job': passes are named for what they do, other tests for whatever they are."""
    claim = verdict.claim
    if claim is None:
        return "no claim"
    is_work = not claim.test or claim.kind in claim.test or conventions(claim.source).tests_are_work
    return f"{claim.source}'s {(claim.test or claim.kind) if is_work else f'{claim.kind} of {claim.test}'}"


def say_all(judgement: Judgement) -> None:
    """The verdicts of the last run with every note, then what they rest on."""
    judged = judgement.verdicts
    console.lines((*_wrapped(_whose_io(judgement)), "", *_wrapped(_premises(judgement)), "", *_unclaimed(judgement)))
    notes = [
        [*map(str, map(explanation_text.sentence, one.notes)), *filter(None, [explanation_text.by_property(one)])]
        for one in judged
    ]
    shared = [note for note in notes[0] if all(note in each for each in notes)] if len(judged) > 1 else []
    for verdict, own in zip(judged[:_MOST_CLAIMS], notes, strict=False):
        console.line(f"{verdict.category}{f' ({verdict.reason})' if verdict.reason else ''}: {_whose(verdict)}")
        _say_notes([explanation_text.text(verdict.explanation), *(note for note in own if note not in shared)])
    if shared:
        console.line("Of all of them:")
        _say_notes(shared)
    if (more := len(judged) - _MOST_CLAIMS) > 0:
        console.line(f"and {console.count(more, 'more claim')}: --json has them all\n")
    for one in judgement.latency_parts():  # where the time went, a table for each kind of operations
        for said in _of_parts(one):
            console.paragraph(said)
        rows = [
            [explanation_text.part_name(part.name, one.engine), f"{part.share:.1%}", format_ns(part.mean_ns)]
            + ["-" if value_ns is None else format_ns(value_ns) for value_ns in (part.p50_ns, part.p99_ns)]
            for part in one.parts
        ]
        _say_table("", ["part", "share", "mean", "p50", "p99"], rows)
    for said in _of_syncs(judgement):
        console.paragraph(said)
    if judgement.seen.entry_exit:
        console.paragraph(str(sentence("latency.entry_exit", **asdict(judgement.seen.entry_exit))))
        console.line()
    _say_seen(judgement)
    console.lines(_watch(judgement.seen))


def _say_notes(notes: Sequence[str]) -> None:
    for note in notes:
        console.paragraph(note, "    ")
    console.line()


def _say_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        console.lines((*filter(None, [title]), *console.aligned(columns, rows), ""))


def _say_seen(judgement: Judgement) -> None:
    """What the kernel saw: calls on files, requests, and the most frequent calls over the time that the command ran."""
    seen = judgement.seen
    moved = [(name, calls) for name, calls in classes(judgement.claims, seen).items() if calls.calls]
    _say_table(
        "The files that this is about, as the kernel saw it:",
        ["calls", "number", "moved"],
        [[name, f"{calls.calls:,}", format_size(calls.bytes)] for name, calls in moved],
    )
    _say_table(
        "Requests to block devices:",
        ["device", "whose", "kind", "number", "bytes", "merged", "mean time"],
        [
            [
                each.name,
                "its own" if each.own else "others'",
                each.kind,
                f"{each.calls.calls:,}",
                format_size(each.calls.bytes),
                str(each.merges),
                format_ns(each.calls.sum_ns / each.calls.completed) if each.calls.completed else "-",
            ]
            for each in seen.block
            if each.calls.calls
        ],
    )
    seconds = max(seen.ended_ns - seen.held_ns, 1) / 1e9
    most = sorted(seen.calls.items(), key=lambda item: (-item[1], item[0]))
    of = f", the {_MOST_CALLS} most frequent of {len(most)} kinds" if len(most) > _MOST_CALLS else ""
    _say_table(
        f"System calls{of}:",
        ["call", "number", "a second", "errors"],
        [
            [name, f"{number:,}", f"{number / seconds:,.0f}", f"{seen.call_errors.get(name, 0):,}"]
            for name, number in most[:_MOST_CALLS]
        ],
    )


def _watch(seen: Observation) -> list[str]:
    """What watched, how much of it, and why it was not more."""
    faults = [str(sentence(f"explanation.health_{name}", number=each)) for name, each in seen.health.items() if each]
    health = f"; {', '.join(faults)}" if faults else "; nothing was lost" if seen.health else ""
    threads = f" ({console.count(seen.threads, 'thread')} of them)" if seen.threads else ""
    tasks = f", {console.count(seen.processes, 'task')}{threads} followed" if seen.processes else ""
    watched = f"Watched by {seen.backend} ({', '.join(seen.layers)}){tasks}{health}"
    return [*console.wrapped(watched), *(console.wrapped(seen.why, "    ") if seen.why else ())]


def say_status(verdict: str, own: int, require: str | None, *, failing: bool, decides: bool) -> None:
    """One line on the exit status where the verdict has a part in it: `own` is the command's.

    `failing`: the verdict asks for exit status 4; `decides`: it gets it.
    """
    if failing and decides:
        why = f"--require {require}, and the verdict is {verdict}" if require else "the kernel contradicts a claim"
        console.line(f"Exit status {Contradicted.exit_code}: {why}.")
    elif failing and own:
        console.line(f"Exit status {own} is the command's own; --exit-verdict always gives the verdict's.")
    elif verdict == UNSUBSTANTIATED:
        console.line("Nothing that the kernel saw supports the claim; --require true makes that exit status 4.")


# What runs already: whose I/O was compared with whose claims


def note_begin(attached: Attachment, seconds: float) -> None:
    """Say what is watched for how long, while it is."""
    how_long = "until it ends or Ctrl-C" if seconds == math.inf else f"for {format_ns(seconds * 1e9)}"
    console.note(f"watching {_who(attached)} {how_long}")


def _who(attached: Attachment) -> str:
    """'process 123 (redis-server)' or 'the control group …'."""
    running, parts = attached.running, list[str]()
    if shown := [f"{pid} ({attached.names.get(pid, '?')})" for pid in running.pids]:
        if (more := len(shown) - _MOST_NAMES) > 0:
            shown[_MOST_NAMES:] = [f"{more} more"]
        parts.append(f"process{'es' if len(running.pids) > 1 else ''} {', '.join(shown)}")
    if running.group is not None:
        names = sorted({name for pid, name in attached.names.items() if pid not in running.pids})
        few = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
        parts.append(f"the control group {running.group} ({few})")
    return " and ".join(parts)


def attached_as_dict(judgement: Judgement) -> dict[str, Any]:
    """For --json: whose I/O was compared with whose claims."""
    attached = judgement.attached
    assert attached is not None
    group = attached.running.group
    return {
        "pids": list(attached.running.pids),
        "cgroup": None if group is None else str(group),
        "names": {str(pid): name for pid, name in sorted(attached.names.items())},
        "client": list(judgement.command),
        "compared": _whose_io(judgement)[0],
        "ended": attached.has_ended,
        "in_flight_at_start": judgement.seen.health.get("in_flight_at_start", 0),
    }


def _whose_io(judgement: Judgement) -> list[str]:
    """The sentences on what ran already: whose I/O it was, and what was under way when the watch began."""
    attached = judgement.attached
    if attached is None:
        return []
    if client := judgement.command:
        said = f"The claims of {client[0]} were compared with the I/O of {_who(attached)}, not with its own."
    else:
        until = "until it ended" if attached.has_ended else "and it goes on"
        said = f"The I/O is that of {_who(attached)}, from the moment of attaching, {until}."
    before = judgement.seen.health.get("in_flight_at_start", 0)
    return [said, *([f"{console.count(before, 'call')} in flight at that moment: in no count."] if before else [])]


# Calls on files, as strace shows them


def say_calls(listing: CallListing | None) -> None:
    """Where the listing is, or the sample itself."""
    if listing is None:
        console.note("warning: calls could not be listed; the reason stands above")
        return
    missing = f"; {listing.unlisted:,} found no room and are missing" if listing.unlisted else ""
    if listing.file is not None:
        console.line(f"\n{console.count(listing.calls, 'call')} on files listed in {listing.file}{missing}")
        return
    # The files with the most calls, in the order of their first use; the system's where there are no others.
    of_interest = [each for each in listing.files if each.path and not is_of_system(each.path)] or listing.files
    most = {each.path for each in sorted(of_interest, key=lambda each: -each.calls)[:_MOST_FILES]}
    busiest = [each for each in listing.files if each.path in most]
    shown = sum(len(each.first) + len(each.last) for each in busiest)
    console.line(f"\nCalls on files, {shown:,} of {listing.calls:,} (--calls=FILE lists all){missing}:")
    for each in busiest:
        console.line(f"{each.path or 'of no open file'}: {console.count(each.calls, 'call')}")
        skipped = each.calls - len(each.first) - len(each.last)
        for line in (*each.first, *([f"… {skipped:,} more"] if skipped else []), *each.last):
            console.line(f"    {line}")
    if (more := len(listing.files) - len(busiest)) > 0:
        console.line(f"and {console.count(more, 'more file')}, of the system or with fewer calls")
