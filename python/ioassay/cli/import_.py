"""ioassay import: results of fio made elsewhere become a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ioassay.cli import console, options, session


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("import")(import_)


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="fio JSON, JSON+, terse output or logs.")],
    output: options.Output = None,
    title: Annotated[str | None, typer.Option(help="Title of the report.")] = None,
    json: options.Json = False,
) -> None:
    """Turn fio's JSON, JSON+, terse output or logs made elsewhere into a run with a report."""
    from ioassay import intake
    from ioassay.run import Tally
    from ioassay.store import new_folder

    console.use_json(json)
    store = intake.take_in(files, output or new_folder(Path("runs"), "import"), title)
    published = session.publish(store)
    tally = Tally()
    for status in published.records.trials["status"]:
        tally.add(status)
    if json:
        console.emit(session.result(store, tally, published, ()))
    else:
        session.say_how_it_went(store, tally, published, ())
    session.end(tally)
