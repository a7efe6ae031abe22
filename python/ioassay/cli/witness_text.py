"""What `ioassay witness` says: a few lines for people; the object for --json is the judgement's own."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ioassay.cli import console
from ioassay.errors import Contradicted
from ioassay.formats import conventions
from ioassay.units import format_ns, format_size

if TYPE_CHECKING:
    from ioassay.api.witness_judgement import Judgement
    from ioassay.records.observation import Observation, Requests
    from ioassay.records.record import Claim
    from ioassay.roles import Outcome
    from ioassay.verify.verdict import Verdict

_MOST_CALLS = 8
_MOST_CLAIMS = 12
"""Claims that are told one by one; an automatic IOzone run makes hundreds."""


def say(judgement: Judgement, result: Mapping[str, Any]) -> None:
    """The verdicts of the last run, then what they rest on."""
    from ioassay.narrative import conditions_text

    run, judged = judgement.runs[-1], judgement.verdicts
    console.line()
    if (conditions := judgement.conditions()) is not None:
        console.line(conditions_text.line(conditions))
    if ended := how_it_failed(run.watched.outcome):
        console.line(f"{ended}\n")
    if not judged:
        console.line(f"{result['verdict']}: no claim")
        console.paragraph(f"{result['explanation']} State one with --claim bytes=…,ops=…,seconds=…", "    ")
        console.line()
    shared = _shared(judged)
    for verdict in judged[:_MOST_CLAIMS]:
        _say_verdict(verdict, [note for note in _notes(verdict) if note not in shared])
    if shared:
        console.line("Of all of them:")
        _say_notes(shared)
    if (more := len(judged) - _MOST_CLAIMS) > 0:
        console.line(f"and {console.count(more, 'more claim')}: --json has them all\n")
    _say_seen(run.seen, result)
    _say_calls(run.seen)
    _say_watch(run.seen)


def say_status(verdict: str, own: int, require: str | None, *, failing: bool, decides: bool) -> None:
    """One line on the exit status where the verdict has a part in it: `own` is the command's.

    `failing`: the verdict asks for exit status 4; `decides`: it gets it.
    """
    from ioassay.verify.verdict import UNSUBSTANTIATED

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
        return f"The command was ended by {_signal_name(outcome.signal)}."
    return f"The command ended with exit status {outcome.exit_code}." if outcome.exit_code else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _notes(verdict: Verdict) -> list[str]:
    """The sentences below the verdict's explanation."""
    from ioassay.narrative import explanation_text

    notes = [explanation_text.sentence(note) for note in verdict.notes]
    return [*notes, *filter(None, [explanation_text.by_property(verdict)])]


def _shared(judged: Sequence[Verdict]) -> list[str]:
    """What is said of each of several claims, to be said once."""
    if len(judged) < 2:
        return []
    of_each = [_notes(verdict) for verdict in judged]
    return [note for note in of_each[0] if all(note in notes for notes in of_each)]


def _say_verdict(verdict: Verdict, notes: Sequence[str]) -> None:
    from ioassay.narrative import explanation_text

    claim = verdict.claim
    of = f"{claim.source}'s {_name(claim)}" if claim else "no claim"
    console.line(f"{verdict.category}{f' ({verdict.reason})' if verdict.reason else ''}: {of}")
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
    requests = [_device_row(each) for each in seen.block if each.calls.calls]
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


def _device_row(each: Requests) -> list[str]:
    calls = each.calls
    mean = format_ns(calls.sum_ns / calls.completed) if calls.completed else "-"
    who = "its own" if each.own else "others'"
    return [each.name, who, each.kind, f"{calls.calls:,}", format_size(calls.bytes), str(each.merges), mean]


def _say_watch(seen: Observation) -> None:
    faults = [f"{name.replace('_', ' ')} {number}" for name, number in seen.health.items() if number]
    health = f"; {', '.join(faults)}" if faults else "; nothing was lost" if seen.health else ""
    tasks = f", {_tasks(seen)} followed" if seen.processes else ""
    console.line(f"Watched by {seen.backend} ({', '.join(seen.layers)}){tasks}{health}")
    if seen.why:
        console.paragraph(seen.why, "    ")


def _tasks(seen: Observation) -> str:
    if not seen.threads:
        return console.count(seen.processes, "task")
    return f"{console.count(seen.processes, 'task')} ({console.count(seen.threads, 'thread')} of them)"
