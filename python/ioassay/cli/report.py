"""ioassay report: findings, figures and page, made anew from the records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ioassay.cli import closing, console, options, session, syntax


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("report")(report)


def report(
    run: Annotated[Path, syntax.Argument(metavar="RUN", help="The folder of a run.")],
    json: options.Json = False,
) -> None:
    """Rebuild findings, figures and page from the records of a run."""
    console.use_json(json)
    with session.figure_processes() as processes:
        from ioassay.store.run_folder import RunStore

        store = RunStore.open(run)
        published = session.publish(store, processes=processes)
    tally = session.tally_of(published.records)
    if json:
        console.emit(session.result(store, tally, published, ()))
    else:
        closing.say(store, tally, published, ())
