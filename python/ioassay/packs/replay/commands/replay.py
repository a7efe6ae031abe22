"""ioassay replay: a trace's requests, issued to a drive at their own times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay import metrics
from ioassay.cli import completion_values, console, options, session, syntax
from ioassay.cli.completion_values import words
from ioassay.cli.syntax import row
from ioassay.cli.trace_options import PREPARING, READING, preparing, reading, trace_formats
from ioassay.errors import UsageError

if TYPE_CHECKING:
    from ioassay.api.run_results import Run

_TABLE = {
    "Where": {
        "target": row(list[Path] | None, None, "PATH", "File or block device; twice compares them."),
        "drive": row(
            *(list[str] | None, None, "NAME|FILE", "Described drive that is served; twice compares them."),
            completion_values.drives,
        ),
        "make": row(bool, False, "--make", "Make files that are not there, as large as the trace reaches."),
        "destroy_data": options.CONSENT["destroy_data"],
    },
    "When": {
        "speed": row(str, "1", "X,…", "Times faster than the trace; several are compared."),
        "fast": row(
            bool, False, "--fast", "As fast as possible, dependent requests in order; not at the trace's times."
        ),
        "depth": row(int, None, "N", "Most requests outstanding. [default: 1024, with --fast 32]", min=1),
        "duration": row(str, None, "TIME", "End after this time."),
        "buffered": row(bool, False, "--buffered", "Through the page cache, without O_DIRECT."),
    },
    "Reading the trace": {
        "format": row(str, None, "NAME", "Format of TRACE; detected by default.", trace_formats),
        **READING,
    },
    "Fitting the trace to the target": {
        "reads_only": row(bool, False, "--reads-only", "Only reads, which change nothing."),
        "fold": row(bool, False, "--fold", "Wrap requests beyond the target's end into it."),
        **{name: each for name, each in PREPARING.items() if name != "time_scale"},
    },
    "The study": {
        **options.REPETITIONS,
        "scale": row(
            str, "full", "NAME", "full: the whole trace, 5 times; quick: 10 s of it, 3 times.", words("full", "quick")
        ),
    },
}


@syntax.takes({name: each.below(heading) for heading, rows in _TABLE.items() for name, each in rows.items()})
def replay(
    trace: Annotated[Path, syntax.argument("TRACE", "A trace.")],
    *,
    output: options.Output = None,
    wait_quiet: options.WaitQuiet = "",
    live: options.Live = False,
    json: options.Json = False,
    **given: Any,
) -> None:
    """Issue a trace's requests to a drive at the trace's own times, and report response times and lateness.

    A request is issued when it is due, whatever is outstanding (an open loop); its response time begins then. Two
    targets are compared: which serves this workload better. A file or device that is written loses what it holds.

    Examples: ioassay replay db.csv --target /dev/nvme1n1 --reads-only; ioassay replay oltp --drive samsung-980-pro
    """
    from ioassay.api.execution import RunOptions
    from ioassay.packs.replay.replay_study import Replayed

    quiet = RunOptions(**options.of_run(given), wait_quiet_s=options.seconds("--wait-quiet", wait_quiet))
    study = Replayed(
        str(trace),
        targets=given["target"] or (),
        drives=given["drive"] or (),
        params=_params(given),
        speeds=_speeds(given),
        repetitions=given["repetitions"],
        scale=given["scale"],
        makes=given["make"],
    ).study()
    run = session.measure(lambda announce: study.begin(output, announce, quiet), live=live)
    console.answer(run.as_dict, lambda: session.say(run, _table(run)))
    session.end(run)


def _params(given: dict[str, Any]) -> dict[str, Any]:
    """The driver's parameters, those that were given."""
    prepare = {name: given[name] for name, each in PREPARING.items() if name in given and given[name] != each.default}
    for flag, implied in (
        ("reads_only", {"keep": "reads"}),
        ("fold", {"limit": "target", "beyond": "wrap"}),
    ):
        if given[flag]:
            if doubled := next((name for name in implied if name in prepare), None):
                raise UsageError(f"--{flag.replace('_', '-')} and --{doubled} are given, expected one of them")
            prepare |= implied
    sized = {name: value for name, value in prepare.items() if value != "target"}
    preparing(
        {**{name: each.default for name, each in PREPARING.items()}, **sized}
    )  # what is wrong is said as its option
    found = {"prepare": prepare, "read": reading(given), "format": given["format"], "depth": given["depth"]}
    found |= {"duration": given["duration"], "pace": "fast" if given["fast"] else None}
    return {name: value for name, value in found.items() if value} | ({"direct": False} if given["buffered"] else {})


def _speeds(given: dict[str, Any]) -> list[float]:
    try:
        speeds = [float(text) for text in given["speed"].split(",")]
    except ValueError:
        raise UsageError(f"--speed {given['speed']}: expected a factor such as 2, or several: 1,2,4") from None
    return [int(speed) if speed.is_integer() else speed for speed in speeds]


_COLUMNS = {
    "requests/s": "total.iops",
    "response p50": "total.lat.p50",
    "p99": "total.lat.p99",
    "p99.9": "total.lat.p99.9",
    "lateness p99": "replay.lateness.p99",
}


def _table(run: Run) -> list[str]:
    """A row a condition, of means over repetitions."""
    from ioassay.analysis.measurements.cells import cells

    study = run.records.studies[0]
    found: dict[str, dict[str, str]] = {}
    for column, metric in _COLUMNS.items():
        for cell in cells(run.records, study, metric).cells:
            found.setdefault(cell.label, {})[column] = metrics.format_metric(metric, cell.mean)
    columns = [column for column in _COLUMNS if any(column in row for row in found.values())]
    rows = [
        [*([label] if len(found) > 1 else []), *(row.get(column, "") for column in columns)]
        for label, row in found.items()
    ]
    return console.aligned([*(["condition"] if len(found) > 1 else []), *columns], rows) if rows else []
