"""ioassay history: the numbers of runs over time, in a folder or an object store."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay import atomic_file
from ioassay.cli import completion_values, console, options, syntax
from ioassay.errors import RunError, ToolError, UsageError
from ioassay.hints import nearest
from ioassay.packs.history.commands import history_options, history_show

if TYPE_CHECKING:
    from ioassay.packs.history.history_store import Store

_FORMATS = ("openmetrics", "influx")
_LABEL = "What the runs are of; by default the last commit before each began, of the git work tree here."


def register(app: syntax.Group) -> None:
    group = syntax.Group("Keep the numbers of runs over time, and pass them on.")
    for command in (add, history_show.show, export):
        group.command()(command)
    app.add(group, "history")


def add(
    runs: Annotated[list[Path], syntax.argument("RUN", "Folders of runs.", completion_values.runs)],
    to: Annotated[str, syntax.option("PLACE", f"The history. {history_options.PLACE_WORDS}")] = "",
    label: Annotated[str | None, syntax.option("TEXT", _LABEL)] = None,
    host: Annotated[
        str, syntax.option("NAME", "The machine, in place of its hash, such as one name for all runners of a CI.")
    ] = "",
    json: options.Json = False,
) -> None:
    """Put the numbers of runs into a history: results and facts, no raw files.

    A run is there once, however often it is added, and whoever shares the place may add at the same time. A run that
    cannot be read or has not ended is named, the others are added, and the exit status is 2.

    Example: ioassay history add runs/20260101-120000-quick --to /srv/history
    """
    from ioassay.packs.history import history_store

    store = history_store.open(to)
    results = [_added(store, root, label, host) for root in runs]
    counts = {state: sum(one["state"] == state for one in results) for state in ("added", "known", "refused")}
    there = f", {counts['known']} there already" if counts["known"] else ""
    refused = f", {counts['refused']} refused" if counts["refused"] else ""
    console.answer(
        lambda: {"place": store.place, **counts, "runs": results},
        lambda: console.line(f"{store.place}: {console.count(counts['added'], 'run')} added{there}{refused}"),
    )
    if counts["refused"]:
        raise console.Exit(UsageError.exit_code)


def export(
    runs: Annotated[
        list[Path] | None,
        syntax.argument("RUN", "Folders of runs, instead of what is in the history.", completion_values.runs),
    ] = None,
    format: Annotated[str, syntax.option("", "What it is written as.", metavar="|".join(_FORMATS))] = _FORMATS[0],
    output: Annotated[
        Path | None, syntax.option("--output, -o FILE", "Write it to a new file, or over an old one.")
    ] = None,
    study: Annotated[str | None, syntax.option("NAME", "Values of this study.")] = None,
    metric: Annotated[str | None, syntax.option("NAME", "Values of this metric.", completion_values.responses)] = None,
    where: history_options.Where = None,
    from_: Annotated[str, syntax.option("--from PLACE", f"The history. {history_options.PLACE_WORDS}")] = "",
    json: options.Json = False,
) -> None:
    """Write the means of conditions for dashboards: OpenMetrics text, or InfluxDB's line protocol.

    Each is a sample at the time at which its run began, with study, condition, factors and host as labels. Beside them
    are the grade of the machine's conditions and the worst verdict on a claim.

    Examples: ioassay history export --study quick -o history.om;
    ioassay history export runs/20260101-120000-quick --format influx
    """
    from ioassay.api import run_results
    from ioassay.packs.history import history_export, history_store
    from ioassay.process import supervisor

    if format not in _FORMATS:
        raise UsageError(f"--format is '{format}', expected {' or '.join(_FORMATS)}{nearest(format, _FORMATS)}")
    with ExitStack() as stack:
        store = history_store.open(from_)
        if runs:
            store = history_store.open(stack.enter_context(supervisor.temporary_folder("ioassay-export-")))
            for root in runs:
                store.add(run_results.open(root).records)
        lines = [*history_export.text(store, format, study, metric, history_options.pairs(where))]
    if all(line.startswith("#") for line in lines):
        console.note(f"no value matches in {', '.join(map(str, runs)) if runs else store.place}")
    if output is not None:
        try:
            atomic_file.write_pieces(output, (f"{line}\n" for line in lines))
        except OSError as error:
            raise RunError(f"--output {output}: cannot be written: {error.strerror}") from None
    console.answer(
        lambda: {"format": format, "lines": lines, "path": output and str(output)},
        lambda: console.lines(lines if output is None else [f"{output}: {console.count(len(lines), 'line')}"]),
    )


def _added(store: Store, root: Path, label: str | None, host: str) -> Mapping[str, Any]:
    """What became of a run; what concerns the place is an error of the command."""
    from ioassay.api import run_results
    from ioassay.packs.history import run_record

    try:
        records = run_results.open(root).records
        added = store.add(records, _commit(run_record.begun(records)) if label is None else label, host)
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
