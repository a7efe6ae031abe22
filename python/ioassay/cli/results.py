"""What is done with runs that have ended: ioassay report, export and sql."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.cli import completion_values, console, options, session, syntax
from ioassay.errors import RunError, UsageError
from ioassay.hints import nearest

if TYPE_CHECKING:
    from ioassay.api.publication import Bundle
    from ioassay.api.run_results import Run


def register(app: syntax.Group) -> None:
    for command in (report, export, sql):
        app.command()(command)


def report(run: options.RunFolder, json: options.Json = False) -> None:
    """Rebuild findings, figures and page from the records of a run.

    Example: ioassay report runs/20260101-120000-quick
    """
    from ioassay import stats
    from ioassay.api import publication, run_results

    with publication.figure_processes() as processes:
        stats.load_numpy()
        ended = run_results.open(run)
        ended.publish(processes)
    console.answer(ended.as_dict, lambda: session.say(ended))


_ARCHIVE, _MARKDOWN = "archive", "markdown"
_FORMATS = (_ARCHIVE, "parquet", "csv", _MARKDOWN)


def export(
    run: options.RunFolder,
    output: Annotated[
        Path | None,
        syntax.option("--output, -o NAME", "What is written; by default <run>.tar.gz here. .tar.xz is smaller."),
    ] = None,
    format: Annotated[
        str, syntax.option("", "What it is written as.", completion_values.words(*_FORMATS), metavar="|".join(_FORMATS))
    ] = _ARCHIVE,
    redact: Annotated[
        bool, syntax.option("--redact", "Replace names of hosts and people, folders, serial numbers and addresses.")
    ] = False,
    no_report: Annotated[
        bool,
        syntax.option("--no-report", "Leave page and figures out of the archive: ioassay report makes them again."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Write a run into one archive to share, as tables, or as a summary.

    --format parquet and csv write a folder, <run>-parquet or <run>-csv, with a file for each table and schema.json,
    which has the units; csv with a name that ends in .csv writes the trials alone. markdown prints a summary for a
    comment on a change, or writes it to the file of --output.

    With --redact, host and user names, folders, serial numbers, UUIDs, MAC and IP addresses and unknown kernel
    parameters are replaced in every file, and the page is made anew. The bundle is searched for them before it is
    written; unpacked, it is a run for report, sql and compare.

    Examples: ioassay export runs/20260101-120000-quick --redact -o quick.tar.gz;
    ioassay export runs/20260101-120000-quick --format markdown
    """
    from ioassay.api import run_results

    if format not in _FORMATS:
        raise UsageError(f"--format is '{format}', expected {', '.join(_FORMATS)}{nearest(format, _FORMATS)}")
    if no_report and format != _ARCHIVE:
        raise UsageError(f"--no-report: is for --format {_ARCHIVE}; {format} has no report")
    found = run_results.open(run)
    if format == _MARKDOWN:
        _summary(found, output, redact=redact)
        return
    if format != _ARCHIVE:
        files = found.export_tables(output, format=format, redact=redact)
        counts = ", ".join(f"{name} {number}" for name, number in files.rows.items())
        why = "the tables are not redacted: reasons, warnings and levels may hold names of hosts and users, and folders"
        text = f"{files.path}: rows of {counts}"
        console.answer(files.as_dict, lambda: _say_replaced(text, files.redacted, files.replaced, why))
        return
    bundle = found.export(output, redact=redact, report=not no_report)
    console.answer(bundle.as_dict, lambda: _say_bundle(bundle))


def _summary(run: Run, output: Path | None, *, redact: bool) -> None:
    if output is not None and (output.exists() or output.is_symlink()):
        raise UsageError(f"--output {output}: exists already; expected a new name")
    text = run.markdown(redact=redact)
    if output is not None:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise RunError(f"{output}: cannot be written: {error.strerror}; --output names another place") from None
    console.answer(
        lambda: {"markdown": text, "path": str(output) if output is not None else None},
        lambda: console.line(text.rstrip("\n") if output is None else str(output)),
    )


def _say_bundle(bundle: Bundle) -> None:
    manifest, files = bundle.manifest, console.count(bundle.manifest.files, "file")
    why = "the bundle is not redacted: it holds host and user names, folders and the tools' whole output"
    _say_replaced(f"{bundle.path}: {files}", manifest.redacted, manifest.replaced, why)
    for kind, count in manifest.only_in_fields.items():
        console.note(
            f"note: {kind}: {console.count(count, 'value')} short, a number or a common word, replaced only in fields "
            "that name them"
        )
    for reason, count in manifest.left_out.items():
        console.note(f"note: left out: {console.count(count, 'file')}: {reason}")


def _say_replaced(text: str, redacted: bool, replaced: Mapping[str, int], why: str) -> None:
    if not redacted:
        console.note(f"warning: {why}; --redact replaces them")
    console.line(f"{text}{', redacted' if redacted else ''}")
    for kind, count in replaced.items():
        console.line(f"  {kind}: {console.count(count, 'place')} replaced")


def sql(
    words: Annotated[
        list[str], syntax.argument("RUN… QUERY", "Folders of runs, then one SELECT.", completion_values.runs)
    ],
    json: options.Json = False,
) -> None:
    """Query the records of one or more runs with SQL.

    The tables are trials, hist, series, samples, warnings and calls (system calls by name), each with a column run.

    Example: ioassay sql runs/A runs/B 'SELECT run, bs, avg("read.bw") FROM trials GROUP BY ALL'
    """
    from ioassay.api import run_results

    if len(words) < 2:
        raise UsageError("expected at least one run and a query; for example: ioassay sql RUN 'SELECT * FROM trials'")
    run_results.require_duckdb()
    runs = {name: run_results.open(root).records for name, root in _names([Path(word) for word in words[:-1]]).items()}
    columns, rows = run_results.sql_rows(runs, words[-1])
    console.answer(
        lambda: {"columns": columns, "rows": [dict(zip(columns, row, strict=True)) for row in rows]},
        lambda: console.table(columns, [["" if cell is None else str(cell) for cell in row] for row in rows]),
    )


def _names(roots: list[Path]) -> dict[str, Path]:
    """What the runs are called in the column `run`: their folders' names, or the paths where these are the same."""
    for name_of in (lambda root: root.resolve().name, str, lambda root: str(root.resolve())):
        names = {name_of(root): root for root in roots}
        if len(names) == len(roots):
            return names
    raise UsageError(f"a run is named twice among {', '.join(map(str, roots))}; expected each once")
