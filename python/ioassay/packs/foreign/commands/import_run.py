"""ioassay import: results of fio and other tools, made elsewhere, become a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ioassay.cli import console, options, session, syntax


def import_(
    files: Annotated[
        list[Path],
        syntax.argument("FILE…", "Results of fio or another tool."),
    ],
    output: options.Output = None,
    title: Annotated[str | None, syntax.option("TEXT", "Title of the report.")] = None,
    json: options.Json = False,
) -> None:
    """Turn results from elsewhere into a run with a report.

    FILE: fio's JSON, JSON+, terse output, or logs of bandwidth, IOPS, latency or histograms; the output of sysbench,
    IOzone, stress-ng (also --yaml), db_bench, pgbench, redis-benchmark, dd, ioping, hdparm or Bonnie++; vdbench's
    flatfile.html; elbencho's --csvfile; the Phoronix Test Suite's composite.xml. The content tells the format.

    Example: ioassay import fio.json --title "Before the update"
    """
    from ioassay.packs.foreign import importer

    run = importer.import_results(files, output, title=title)
    run.publish()
    console.answer(run.as_dict, lambda: session.say(run))
    session.end(run)
