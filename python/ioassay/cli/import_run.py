"""ioassay import: results of fio made elsewhere become a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ioassay.cli import closing, console, options, session, syntax


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("import")(import_)


def import_(
    files: Annotated[list[Path], syntax.Argument(metavar="FILE…", help="fio JSON, JSON+, terse output or logs.")],
    output: options.Output = None,
    title: Annotated[str | None, syntax.Option(metavar="TEXT", help="Title of the report.")] = None,
    json: options.Json = False,
) -> None:
    """Turn fio results from elsewhere into a run with a report.

    FILE: JSON, JSON+, terse output, or logs of bandwidth, IOPS, latency or histograms.
    """
    from ioassay.store import importer
    from ioassay.store.run_folder import new_folder

    console.use_json(json)
    store = importer.take_in(files, output or new_folder(Path("runs"), "import"), title)
    published = session.publish(store)
    tally = session.tally_of(published.records)
    if json:
        console.emit(session.result(store, tally, published, ()))
    else:
        closing.say(store, tally, published, ())
    session.end(tally, published)
