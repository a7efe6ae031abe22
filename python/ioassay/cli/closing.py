"""How a measuring command ends on a terminal: the trust line, the answer, what went wrong, where the rest is.

At most MOST_LINES lines, whatever was measured: every sentence, table and warning stands on the page and in --json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ioassay.cli import console, session
from ioassay.narrative import answers

if TYPE_CHECKING:
    from ioassay.api.computing import Computing
    from ioassay.api.run_results import Run

MOST_LINES = 15
_MOST_REASONS = 2
_LEAST_ANSWER = 2
"""A sentence, and the empty line behind it."""


def say(run: Run, results: Sequence[str] = ()) -> None:
    """The end of a command; `results` are lines of its own that stand before the answer's sentences."""
    trust = [*_premises(run), *_trust(run)]
    notes = [*_warnings(run), *_reasons(run)]
    where = [*_counted(run), *_computed(run.computing), *session.kept_lines(run.kept_files()), f"run     {run.root}"]
    where.append(f"report  {run.paths.page}")
    most = MOST_LINES - len(trust) - len(results) - len(where) - _LEAST_ANSWER
    notes = digest([[note] for note in notes], most, lambda _shown: "more is in the report")
    room = MOST_LINES - len(trust) - len(results) - len(notes) - len(where) - 1
    for line in (*trust, *results, *_answers(run, room), ""):
        console.line(line)
    for note in notes:
        console.note(note)
    for line in where:
        console.line(line)


def digest(topics: Sequence[Sequence[str]], room: int, rest: Callable[[int], str]) -> list[str]:
    """The lines of the first topics, each whole; where `room` lines do not hold all, `rest(shown)` is the last."""
    lines: list[str] = []
    for place, topic in enumerate(topics):
        is_last = place == len(topics) - 1
        if len(lines) + len(topic) + (not is_last) > room:
            return [*lines, rest(place)]
        lines += topic
    return lines


def _premises(run: Run) -> list[str]:
    """What the numbers are of."""
    return [line for text in answers.premises(run.findings) for line in console.wrapped(text)]


def _trust(run: Run) -> list[str]:
    """Whether the numbers can be relied on, before any of them."""
    trust = run.trust
    return console.wrapped(trust.conditions) + console.wrapped(trust.claims) if trust is not None else []


def _answers(run: Run, room: int) -> list[str]:
    """The first sentences of each study's answer, as evenly as there is room for; at least one."""
    found = answers.answers(run.records.studies, run.findings)
    indent = "  " if len(found) > 1 else ""
    topics = []
    for answer in found:
        first, *others = answer.sentences
        if indent:
            first = f"{answer.title}{'' if answer.title.endswith('?') else ':'} {first}"
        topics.append([console.wrapped(sentence, indent) for sentence in (first, *others)])
    shown = answers.fitted(topics, room, len, rest=1)
    lines = [line for topic in shown for sentence in topic for line in sentence]
    if left_out := len(topics) - len(shown):
        lines.append(f"{indent}… and {left_out} more {'study' if left_out == 1 else 'studies'}: see the report")
    return lines


def _counted(run: Run) -> Iterator[str]:
    tally = run.tally
    ended = [(number, name) for name, number in asdict(tally).items() if number and name != "planned"]
    missing = tally.planned - sum(number for number, _ in ended)
    parts = [f"{number} {name}" for number, name in ended] + ([f"{missing} without a record"] if missing else [])
    yield f"{console.count(tally.planned, 'trial')}: {', '.join(parts)}"
    if missing:
        yield f"to run what is left: {run.resume_command}"


def _computed(there: Computing | None) -> Iterator[str]:
    """Where trials were computed, if not by this run's own processes."""
    if there is not None and there.workers:
        shares = sorted(there.workers.values())
        each = f"{shares[0]} to {shares[-1]}" if shares[0] < shares[-1] else f"{shares[0]}"
        yield f"computed by {console.count(len(shares), 'worker')} of {there.executor}, {each} trials each"


def _reasons(run: Run) -> Iterator[str]:
    """Why trials failed or were skipped, each reason once."""
    yield from _reasons_of("failed", run.failures())
    yield from _reasons_of("skipped", run.skips())


def _reasons_of(ended: str, found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    from ioassay.study import plan

    for number, reason in enumerate(found[:_MOST_REASONS]):
        first = f"{reason['study']} at {plan.describe(reason['point'])}" if reason["point"] else reason["study"]
        others = reason["trials"] - 1
        more = f" and {console.count(others, 'other')}" if others else ""
        why = str(reason["reason"]).partition(". ")[0]
        yield f"{ended}: {first}{more}: {why}"
        if ended == "failed" and not number:
            yield f"    what it left: {reason['raw']}"
    if len(found) > _MOST_REASONS:
        yield f"{ended}: {console.count(len(found) - _MOST_REASONS, 'more reason')} in the report"


def _warnings(run: Run) -> Iterator[str]:
    """The most serious warning with its remedy; the others by their codes."""
    from ioassay.report import warnings

    recorded = ((one["code"], one["text"], one["remedy"]) for one in run.all_warnings())
    found = warnings.in_brief(run.findings, recorded)
    if not found:
        return
    yield f"warning: {found[0].text.removesuffix('.')} [{found[0].code}]"
    if found[0].remedy:
        yield f"    remedy: {found[0].remedy}"
    if len(found) > 1:
        codes = ", ".join(one.code for one in found[1:])
        yield f"{console.count(len(found) - 1, 'more warning')}, with remedies in the report: {codes}"
