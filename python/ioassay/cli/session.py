"""What the measuring commands have in common: they show a run while it lasts, publish it, and end by its outcome.

On a terminal they end with the trust line, the answer, what went wrong and where the rest is, in at most MOST_LINES
lines: every sentence, table and warning stands on the page and in --json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import ioassay
from ioassay import units
from ioassay.cli import console, progress
from ioassay.errors import Contradicted, IoassayError, UsageError
from ioassay.narrative.finding import answers, fitted, premises
from ioassay.roles import WRITE
from ioassay.runner.progress import Several

if TYPE_CHECKING:
    from ioassay.api.execution import Announce, Execution
    from ioassay.api.run_results import Run
    from ioassay.runner.executors import KeptFile
    from ioassay.runner.preflight import Storage


def say_devices(devices: Sequence[Storage]) -> None:
    """Which drives are loaded, and what is on them: the moment to notice that another one was meant."""
    for device in devices:
        serial = f"serial {device.serial}" if device.serial else ""
        about = ", ".join(filter(None, (device.model, serial, units.format_size(device.size_bytes))))
        doing = "is written" if device.access == WRITE else "is read"
        named = "" if device.name == device.path else f" ({device.name})"
        where = f"{device.host}: " if device.host else ""
        console.note(f"{where}{device.path}{named} {doing}: {about}")
        for found in device.content:
            console.note(f"    {found}")


def measure(begin: Callable[[Announce], Execution], *, live: bool = False) -> Run:
    """Run what `begin` makes, under a bar and, with `live`, on a local page that follows all of it; then publish.

    A line shows what is examined before, and then the drives that are loaded. UsageError, before anything is made,
    where the run is to be shown on a `live` page and there is none.
    """
    live_page = getattr(ioassay, "LivePage", None) if live else nullcontext
    if live_page is None:
        raise UsageError("--live needs the pack 'live', which this installation does not have; leave the option out")
    with progress.examining() as announce:
        execution = begin(announce)
    say_devices(execution.devices())
    total, forecast_s = execution.trials, execution.forecast_s
    with live_page() as page:
        if page:
            console.note(f"live    {page.url}")
        try:
            with progress.shown(total, forecast_s) as shown:
                run = execution.run(Several([shown, page]) if page else shown)
        except BaseException:
            with suppress(OSError, IoassayError):
                console.notes(kept_lines(execution.kept_files()))
            raise
        if page:
            page.publishing()
        run.publish()
    return run


def kept_lines(kept: Sequence[KeptFile]) -> Iterator[str]:
    """Files that stay are large, and lie where nobody looks for what a run left."""
    if not kept:
        return
    size = units.format_size(sum(file["bytes"] for file in kept))
    first, others = kept[0], f" and {len(kept) - 1} more" if len(kept) > 1 else ""
    yield f"kept    {first['path']}{others} ({size}), which the next run uses again"
    yield f"        to remove it: {first['remove']}" + ("; --json lists the others" if others else "")


def end(run: Run) -> None:
    """Exit 4 when the kernel contradicts what a tool claimed; 1 when trials failed, or all were skipped.

    The report stands all the same.
    """
    refuse_contradicted(run)
    tally = run.tally
    is_empty = tally.skipped and not (tally.ok or tally.failed or tally.unneeded)
    if is_empty:
        console.note("no trial was measured: the report has the reasons")
    if is_empty or run.failed:
        raise console.Exit(1)


def refuse_contradicted(run: Run) -> None:
    """Exit 4 when the kernel contradicts what a tool claimed."""
    if contradicted := run.contradicted:
        console.note(f"the kernel contradicts {console.count(contradicted, 'claim')}; the verdicts say why")
        raise console.Exit(Contradicted.exit_code)


MOST_LINES = 15
_MOST_REASONS = 2
_LEAST_ANSWER = 2
"""A sentence, and the empty line behind it."""


def say(run: Run, results: Sequence[str] = ()) -> None:
    """The end of a command; `results` are lines of its own that stand before the answer's sentences."""
    first = [*premises(run.findings), *((run.trust.conditions, run.trust.claims) if run.trust else ())]
    trust = [line for text in first for line in console.wrapped(text)]
    notes = [*_warnings(run), *_reasons("failed", run.failures()), *_reasons("skipped", run.skips())]
    where = [str(run.tally), *([f"to run what is left: {run.resume_command}"] if run.tally.missing else ())]
    if (there := run.computing) and (shares := sorted(there.workers.values())):
        each = f"{shares[0]} to {shares[-1]}" if shares[0] < shares[-1] else f"{shares[0]}"
        where.append(f"computed by {console.count(len(shares), 'worker')} of {there.executor}, {each} trials each")
    where += [*kept_lines(run.kept_files()), f"run     {run.root}", f"report  {run.paths.page}"]
    most = MOST_LINES - len(trust) - len(results) - len(where) - _LEAST_ANSWER
    notes = digest([[note] for note in notes], most, lambda _shown: "more is in the report")
    room = MOST_LINES - len(trust) - len(results) - len(notes) - len(where) - 1
    console.lines((*trust, *results, *_answers(run, room), ""))
    console.notes(notes)
    console.lines(where)


def digest(topics: Sequence[Sequence[str]], room: int, rest: Callable[[int], str]) -> list[str]:
    """The lines of the first topics, each whole; where `room` lines do not hold all, `rest(shown)` is the last."""
    lines: list[str] = []
    for place, topic in enumerate(topics):
        is_last = place == len(topics) - 1
        if len(lines) + len(topic) + (not is_last) > room:
            return [*lines, rest(place)]
        lines += topic
    return lines


def _answers(run: Run, room: int) -> list[str]:
    """The first sentences of each study's answer, as evenly as there is room for; at least one."""
    found = answers(run.records.studies, run.findings)
    indent = "  " if len(found) > 1 else ""
    topics = []
    for answer in found:
        first, *others = answer.sentences
        if indent:
            first = f"{answer.title}{'' if answer.title.endswith('?') else ':'} {first}"
        topics.append([console.wrapped(sentence, indent) for sentence in (first, *others)])
    shown = fitted(topics, room, len, rest=1)
    lines = [line for topic in shown for sentence in topic for line in sentence]
    if left_out := len(topics) - len(shown):
        lines.append(f"{indent}… and {left_out} more {'study' if left_out == 1 else 'studies'}: see the report")
    return lines


def _reasons(ended: str, found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
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
