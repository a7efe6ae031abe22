"""ioassay report: findings, figures and page, made anew from the records."""

from __future__ import annotations

from ioassay import stats
from ioassay.api import publication, run_results
from ioassay.cli import closing, console, options, syntax


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("report")(report)


def report(
    run: options.RunFolder,
    json: options.Json = False,
) -> None:
    """Rebuild findings, figures and page from the records of a run.

    Example: ioassay report runs/20260101-120000-quick
    """
    console.use_json(json)
    with publication.figure_processes() as processes:
        stats.load_numpy()

        ended = run_results.open(run)
        ended.publish(processes)
    if json:
        console.emit(ended.as_dict())
    else:
        closing.say(ended)
