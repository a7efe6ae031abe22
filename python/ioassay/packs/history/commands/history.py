"""ioassay history: the numbers of runs over time, in a folder or an object store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay.cli import completion_values, console, options, syntax
from ioassay.errors import ToolError, UsageError
from ioassay.packs.history.commands import history_options

if TYPE_CHECKING:
    from ioassay.packs.history.history_store import Store

_LABEL = "What the runs are of; by default the last commit before each began, of the git work tree here."


def register(app: syntax.Group) -> None:
    group = syntax.Group("Keep the numbers of runs over time, and pass them on.")
    for command in (add,):
        group.command()(command)
    app.add(group, "history")


def add(
    runs: Annotated[list[Path], syntax.argument("RUN", "Folders of runs.", completion_values.runs)],
    to: Annotated[str, syntax.option("PLACE", f"The history. {history_options.PLACE_WORDS}")] = "",
    label: Annotated[str | None, syntax.option("TEXT", _LABEL)] = None,
    json: options.Json = False,
) -> None:
    """Put the numbers of runs into a history: results and facts, no raw files.

    A run is there once, however often it is added, and whoever shares the place may add at the same time. A run that
    cannot be read or has not ended is named, the others are added, and the exit status is 2.

    Example: ioassay history add runs/20260101-120000-quick --to /srv/history
    """
    from ioassay.packs.history import history_store

    store = history_store.open(to)
    results = [_added(store, root, label) for root in runs]
    counts = {state: sum(one["state"] == state for one in results) for state in ("added", "known", "refused")}
    there = f", {counts['known']} there already" if counts["known"] else ""
    refused = f", {counts['refused']} refused" if counts["refused"] else ""
    console.answer(
        lambda: {"place": store.place, **counts, "runs": results},
        lambda: console.line(f"{store.place}: {console.count(counts['added'], 'run')} added{there}{refused}"),
    )
    if counts["refused"]:
        raise console.Exit(UsageError.exit_code)


def _added(store: Store, root: Path, label: str | None) -> Mapping[str, Any]:
    """What became of a run; what concerns the place is an error of the command."""
    from ioassay.api import run_results
    from ioassay.packs.history import run_record

    try:
        records = run_results.open(root).records
        added = store.add(records, _commit(run_record.begun(records)) if label is None else label)
    except UsageError as error:
        console.note(f"refused: {error}")
        return {"run": str(root), "state": "refused", "reason": str(error)}
    return {"run": str(root), "state": "added" if added else "known"}


def _commit(begun: datetime) -> str:
    """The last commit of the work tree before a time in UTC; '' without one, or without git."""
    from ioassay.process import supervisor

    words = ["git", "rev-list", "--max-count=1", "--abbrev-commit", f"--before={begun:%Y-%m-%dT%H:%M:%SZ}", "HEAD"]
    try:
        found = supervisor.capture(words)
    except ToolError:
        return ""
    return found.stdout.strip() if found.exit_code == 0 else ""
