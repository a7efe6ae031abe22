"""ioassay runs: which runs there are, and what each came to."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay import units
from ioassay.cli import console, options, session, syntax
from ioassay.errors import UsageError
from ioassay.packs.history.commands import history_options

if TYPE_CHECKING:
    from ioassay.packs.history.run_list import Listed

_RUNS = "runs"
_LEAST_HEADLINE = 24
_NARROW = 80


def runs(
    folders: Annotated[
        list[Path] | None, syntax.argument("FOLDER", "Folders of runs, with the folders in them; by default runs.")
    ] = None,
    history: Annotated[
        str | None,
        syntax.option("--history PLACE", f"List the history instead. {history_options.PLACE_WORDS}", bare=""),
    ] = None,
    study: Annotated[str | None, syntax.option("NAME", "Runs of this study.")] = None,
    where: history_options.Where = None,
    since: Annotated[str | None, syntax.option("TIME", "Runs that began since a date (2026-01-31), or in 30d.")] = None,
    limit: Annotated[
        int | None, syntax.option("N", "The newest N; by default all, on a terminal what fits in 15 lines.", min=1)
    ] = None,
    json: options.Json = False,
) -> None:
    """List runs, newest first: when, study, target, machine, verdict, headline.

    The verdict is the grade of the machine's conditions, then the worst verdict on a claim. What a run came to is read
    from its report. A run that is unfinished or broken, and a folder that is none, are listed as such.

    Example: ioassay runs --study quick --since 30d
    """
    from ioassay.packs.history import history_store, run_list

    if history is not None and folders:
        raise UsageError("--history lists the history, which has no folders; leave out one of them")
    store = history_store.open(history) if history is not None else None
    roots = folders or [Path(_RUNS)]
    known = run_list.in_folders(roots) if store is None else run_list.of_history(store)
    pairs, moment = history_options.pairs(where), _moment(since)
    found = run_list.chosen(known, study, pairs, moment)
    fits = session.MOST_LINES - 2 if limit is None and sys.stdout.isatty() and not json else limit
    shown = list(islice(found, fits))
    more = sum(1 for _ in found)
    console.answer(lambda: {"runs": [one.as_dict() for one in shown], "more": more}, lambda: _say(shown, more))
    if not shown:
        place = ", ".join(map(str, roots)) if store is None else store.place
        if known:
            console.note(f"no run matches, of {len(known)} in {place}")
        else:
            console.note(f"no runs in {place}{'' if store is None else '; ioassay history add RUN puts them there'}")


def _moment(since: str | None) -> datetime | None:
    """The time that `--since` says, of a date without a zone that of this machine."""
    if since is None:
        return None
    try:
        return datetime.fromisoformat(since).astimezone()
    except ValueError:
        try:
            return datetime.now(UTC) - timedelta(seconds=units.parse_duration_s(since))
        except ValueError:
            raise UsageError(
                f"--since {since}: expected a date such as 2026-01-31, or a duration such as 30d"
            ) from None


def _say(shown: Sequence[Listed], more: int) -> None:
    if not shown:
        return
    columns = ("begun", "study", "target", "machine", "verdict", "run", "headline")
    rows = [_cells(one) for one in shown]
    aligned = console.aligned(columns, rows)
    if sys.stdout.isatty():
        width = max(os.get_terminal_size(sys.stdout.fileno()).columns or _NARROW, 1)
        fixed = max(map(len, console.aligned(columns[:-1], [row[:-1] for row in rows]))) + 2
        widest = max(width, fixed + _LEAST_HEADLINE)
        aligned = [line if len(line) <= widest else f"{line[: widest - 1]}…" for line in aligned]
    console.lines(aligned)
    if more:
        console.line(f"… and {more} more; --limit shows them, and --study, --where and --since choose")


def _cells(one: Listed) -> list[str]:
    first = one.studies[0] if one.studies else {}
    others = f" +{len(one.studies) - 1}" if len(one.studies) > 1 else ""
    verdict = " ".join(filter(None, (one.worst("grade"), one.worst("verdict"))))
    when = one.begun.astimezone().strftime("%Y-%m-%d %H:%M")
    facts = [first.get(name, "") for name in ("target", "host")]
    return [when, f"{first.get('study', '')}{others}", *facts, verdict, one.run, one.state or first.get("headline", "")]
