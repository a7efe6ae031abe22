"""What `ioassay witness` says: at most session.MOST_LINES lines, or with --all everything that the verdicts rest on.

The object for --json is the judgement's own.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ioassay.cli import console, session
from ioassay.errors import Contradicted
from ioassay.formats import conventions
from ioassay.units import format_ns, format_size
from ioassay.verify.claim_groups import is_of_system
from ioassay.verify.verdict import BY_DEVICE, BY_DRIVE, CONFIRMED, UNSUBSTANTIATED, Code, rank

if TYPE_CHECKING:
    from ioassay.api.witness_judgement import Judgement
    from ioassay.records.observation import Observation
    from ioassay.records.record import Claim
    from ioassay.roles import Outcome
    from ioassay.verify.verdict import Verdict
    from ioassay.verify.witness.observed_command import CallListing, FileCalls


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


def say(judgement: Judgement, result: Mapping[str, Any], above: int) -> None:
    """The verdict, the claims of the last run and what the kernel saw, the reasons, and how it was watched.

    `above` lines stand above it.
    """
    judged = judgement.verdicts
    head = ["", *_premises(judgement), *(_verdict(judgement) if judged else _unclaimed(result)), *_latencies(judgement)]
    tail = [*_watch(judgement.seen), *console.wrapped(_MORE)]
    room = session.MOST_LINES - above - len(head) - len(tail) - 1  # the line on the exit status
    table = _table(judged, room - _LEAST_REASONS) if judged else []
    others = "--all has the reasons of the {}verdicts"
    rest = {True: others.format("other "), False: others.format("")}
    reasons = session.digest(_reasons(judged), room - len(table), lambda shown: rest[bool(shown)])
    console.lines((*head, *table, *reasons, *tail))


def _verdict(judgement: Judgement) -> list[str]:
    from ioassay.narrative import explanation_text

    reason = f" ({judgement.reason})" if judgement.reason else ""
    told = explanation_text.headline(judgement.verdicts, judgement.verdict, judgement.seen.asked)
    return console.wrapped(f"{judgement.verdict}{reason}: {' '.join(map(str, told))}")


def _latencies(judgement: Judgement) -> list[str]:
    """Where the time went, of the kinds of operations that took most of it."""
    from ioassay.narrative import explanation_text

    found = judgement.latency_parts()[:_MOST_LATENCIES]
    said = (text(one) for one in found for text in (explanation_text.parts_sentence, explanation_text.sum_sentence))
    return [line for text in said if text for line in console.wrapped(str(text))]


def _table(judged: Sequence[Verdict], room: int) -> list[str]:
    """A row for each claim; for the worst ones, where there are more than `room` allows. An empty line is the last."""
    most = max(min(_MOST_ROWS, room - 3), 1)
    shown = judged if len(judged) <= most else sorted(judged, key=lambda one: -rank(one))[:most]
    more = len(judged) - len(shown)
    rest = [f"and {console.count(more, 'more claim')}, none of them worse: --all, --json"] if more else []
    return [*console.aligned(_COMPARED, [*map(_compared, shown)]), *rest, ""]


def _premises(judgement: Judgement) -> list[str]:
    """Whether the machine was quiet, and how the command failed."""
    from ioassay.narrative import conditions_text

    conditions = judgement.conditions()
    texts = (conditions_text.line(conditions) if conditions else "", how_it_failed(judgement.runs[-1].watched.outcome))
    return [line for text in texts if text for line in console.wrapped(text)]


def _unclaimed(result: Mapping[str, Any]) -> list[str]:
    advice = f"{result['explanation']} State one with --claim bytes=…,ops=…,seconds=…"
    return [f"{result['verdict']}: no claim", *console.wrapped(advice, "    "), ""]


def _compared(verdict: Verdict) -> list[str]:
    """A row of the table: what was claimed, and what was seen where the verdict has it from."""
    numbers = verdict.numbers
    seen = {BY_DEVICE: ("device_requests", "device_bytes"), BY_DRIVE: ("drive_operations", "drive_bytes")}
    operations, volume = seen.get(verdict.reason, ("seen_operations", "seen_bytes"))
    counts = [_shown(numbers.get(name), "{:,}".format) for name in ("claimed_operations", operations)]
    sizes = [_shown(numbers.get(name), format_size) for name in ("claimed_bytes", volume, "device_bytes")]
    return [_whose(verdict), verdict.category, *counts, *sizes]


def _shown(number: int | None, form: Callable[[int], str]) -> str:
    return "-" if number is None else form(number)


def _reasons(judged: Sequence[Verdict]) -> list[list[str]]:
    """The lines on each verdict that the table does not explain; of one that needs none, what it rests on."""
    from ioassay.narrative import explanation_text

    of_twins = (Code.OBSERVER_EFFECT, Code.OBSERVER_EFFECT_UNKNOWN)  # which the user asked for
    topics = []
    for verdict in sorted(judged, key=lambda one: -rank(one)):
        notes = [str(explanation_text.sentence(note)) for note in verdict.notes if note.warns or note.code in of_twins]
        if verdict.category != CONFIRMED or notes:
            reason = f"{_whose(verdict)}{f' ({verdict.reason})' if verdict.reason else ''}: "
            texts = (
                reason + explanation_text.text(verdict.explanation),
                *notes,
                explanation_text.by_property(verdict),
            )
            topics.append([line for text in texts if text for line in console.wrapped(text)])
    return topics or [console.wrapped(explanation_text.by_property(judged[0]))] if judged else []


def _whose(verdict: Verdict) -> str:
    return f"{verdict.claim.source}'s {_name(verdict.claim)}" if verdict.claim else "no claim"


def say_all(judgement: Judgement, result: Mapping[str, Any]) -> None:
    """The verdicts of the last run with every note, then what they rest on."""
    run, judged = judgement.runs[-1], judgement.verdicts
    console.lines(("", *_premises(judgement), "", *([] if judged else _unclaimed(result))))
    shared = _shared(judged)
    for verdict in judged[:_MOST_CLAIMS]:
        _say_verdict(verdict, [note for note in _notes(verdict) if note not in shared])
    if shared:
        console.line("Of all of them:")
        _say_notes(shared)
    if (more := len(judged) - _MOST_CLAIMS) > 0:
        console.line(f"and {console.count(more, 'more claim')}: --json has them all\n")
    _say_parts(judgement)
    _say_seen(run.seen, result)
    _say_calls(run.seen)
    console.lines(_watch(run.seen))


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


def how_it_failed(outcome: Outcome) -> str:
    """The sentence on a command that did not end well; '' for one that did."""
    if outcome.signal is not None:
        try:
            name = signal.Signals(outcome.signal).name
        except ValueError:  # a real-time signal
            name = f"signal {outcome.signal}"
        return f"The command was ended by {name}."
    return f"The command ended with exit status {outcome.exit_code}." if outcome.exit_code else ""


def _notes(verdict: Verdict) -> list[str]:
    """The sentences below the verdict's explanation."""
    from ioassay.narrative import explanation_text

    notes = [str(explanation_text.sentence(note)) for note in verdict.notes]
    return [*notes, *filter(None, [explanation_text.by_property(verdict)])]


def _shared(judged: Sequence[Verdict]) -> list[str]:
    """What is said of each of several claims, to be said once."""
    if len(judged) < 2:
        return []
    of_each = [_notes(verdict) for verdict in judged]
    return [note for note in of_each[0] if all(note in notes for notes in of_each)]


def _say_verdict(verdict: Verdict, notes: Sequence[str]) -> None:
    from ioassay.narrative import explanation_text

    console.line(f"{verdict.category}{f' ({verdict.reason})' if verdict.reason else ''}: {_whose(verdict)}")
    console.paragraph(explanation_text.text(verdict.explanation), "    ")
    _say_notes(notes)


def _say_notes(notes: Sequence[str]) -> None:
    for note in notes:
        console.paragraph(note, "    ")
    console.line()


def _name(claim: Claim) -> str:
    """'random-write', 'read of job': passes are named for what they do, other tests for whatever they are."""
    if not claim.test or claim.kind in claim.test or conventions(claim.source).tests_are_work:
        return claim.test or claim.kind
    return f"{claim.kind} of {claim.test}"


def _say_parts(judgement: Judgement) -> None:
    """Where the time went, a table for each kind of operations."""
    from ioassay.narrative import explanation_text
    from ioassay.narrative.say import say

    for one in judgement.latency_parts():
        for said in (explanation_text.parts_sentence(one), explanation_text.sum_sentence(one)):
            if said:
                console.paragraph(str(said))
        rows = [
            [explanation_text.part_name(part.name, one.engine), f"{part.share:.1%}", format_ns(part.mean_ns)]
            + ["-" if value_ns is None else format_ns(value_ns) for value_ns in (part.p50_ns, part.p99_ns)]
            for part in one.parts
        ]
        console.table(["part", "share", "mean", "p50", "p99"], rows)
        console.line()
    if judgement.seen.entry_exit:
        console.paragraph(str(say("latency.entry_exit", **asdict(judgement.seen.entry_exit))))
        console.line()


def _say_seen(seen: Observation, result: Mapping[str, Any]) -> None:
    rows = [
        [name, f"{result['ops'][name]:,}", format_size(result["bytes"][name])]
        for name in result["ops"]
        if result["ops"][name]
    ]
    if rows:
        console.line("The files that this is about, as the kernel saw it:")
        console.table(["calls", "number", "moved"], rows)
        console.line()
    requests = [
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
    ]
    if requests:
        console.line("Requests to block devices:")
        console.table(["device", "whose", "kind", "number", "bytes", "merged", "mean time"], requests)
        console.line()


def _say_calls(seen: Observation) -> None:
    """The most frequent calls, and how many a second over the time that the command ran."""
    if not seen.calls:
        return
    seconds = max(seen.ended_ns - seen.held_ns, 1) / 1e9
    most = sorted(seen.calls.items(), key=lambda item: (-item[1], item[0]))
    rows = [
        [name, f"{number:,}", f"{number / seconds:,.0f}", f"{seen.call_errors.get(name, 0):,}"]
        for name, number in most[:_MOST_CALLS]
    ]
    of = f", the {_MOST_CALLS} most frequent of {len(most)} kinds" if len(most) > _MOST_CALLS else ""
    console.line(f"System calls{of}:")
    console.table(["call", "number", "a second", "errors"], rows)
    console.line()


def _watch(seen: Observation) -> list[str]:
    """What watched, how much of it, and why it was not more."""
    from ioassay.narrative.say import say

    faults = [str(say(f"explanation.health_{name}", number=number)) for name, number in seen.health.items() if number]
    health = f"; {', '.join(faults)}" if faults else "; nothing was lost" if seen.health else ""
    tasks = f", {_tasks(seen)} followed" if seen.processes else ""
    watched = f"Watched by {seen.backend} ({', '.join(seen.layers)}){tasks}{health}"
    return [*console.wrapped(watched), *(console.wrapped(seen.why, "    ") if seen.why else ())]


def _tasks(seen: Observation) -> str:
    if not seen.threads:
        return console.count(seen.processes, "task")
    return f"{console.count(seen.processes, 'task')} ({console.count(seen.threads, 'thread')} of them)"


# Calls on files, as strace shows them

_MOST_FILES = 12


def say_calls(listing: CallListing | None) -> None:
    """Where the listing is, or the sample itself."""
    if listing is None:
        console.note("warning: calls could not be listed; the reason stands above")
        return
    missing = f"; {listing.unlisted:,} found no room and are missing" if listing.unlisted else ""
    if listing.file is not None:
        console.line(f"\n{console.count(listing.calls, 'call')} on files listed in {listing.file}{missing}")
        return
    busiest = _busiest(listing.files)
    shown = sum(len(each.first) + len(each.last) for each in busiest)
    console.line(f"\nCalls on files, {shown:,} of {listing.calls:,} (--calls=FILE lists all){missing}:")
    for each in busiest:
        console.line(f"{each.path or 'of no open file'}: {console.count(each.calls, 'call')}")
        skipped = each.calls - len(each.first) - len(each.last)
        for line in (*each.first, *([f"… {skipped:,} more"] if skipped else []), *each.last):
            console.line(f"    {line}")
    if (more := len(listing.files) - len(busiest)) > 0:
        console.line(f"and {console.count(more, 'more file')}, of the system or with fewer calls")


def _busiest(files: Sequence[FileCalls]) -> list[FileCalls]:
    """The files with the most calls, in the order of their first use; the system's where there are no others."""
    of_interest = [each for each in files if each.path and not is_of_system(each.path)] or files
    most = {each.path for each in sorted(of_interest, key=lambda each: -each.calls)[:_MOST_FILES]}
    return [each for each in files if each.path in most]
