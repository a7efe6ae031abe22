"""ioassay export: a run as an archive, as tables or as a summary, with or without what identifies people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.api import run_results
from ioassay.cli import completion_values, console, options, syntax
from ioassay.errors import RunError, UsageError
from ioassay.hints import nearest

if TYPE_CHECKING:
    from ioassay.api.publication import Bundle
    from ioassay.api.run_results import Run
    from ioassay.api.tabular_export import TableFiles

_ARCHIVE, _MARKDOWN = "archive", "markdown"
_FORMATS = (_ARCHIVE, "parquet", "csv", _MARKDOWN)


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("export")(export)


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
    console.use_json(json)
    if format not in _FORMATS:
        raise UsageError(f"--format is '{format}', expected {', '.join(_FORMATS)}{nearest(format, _FORMATS)}")
    if no_report and format != _ARCHIVE:
        raise UsageError(f"--no-report: is for --format {_ARCHIVE}; {format} has no report")
    found = run_results.open(run)
    if format == _MARKDOWN:
        _summary(found, output, redact=redact, json=json)
        return
    if format != _ARCHIVE:
        files = found.export_tables(output, format=format, redact=redact)
        if json:
            console.emit(files.as_dict())
        else:
            _say_tables(files)
        return
    bundle = found.export(output, redact=redact, report=not no_report)
    if json:
        console.emit(bundle.as_dict())
    else:
        _say(bundle)


def _summary(run: Run, output: Path | None, *, redact: bool, json: bool) -> None:
    if output is not None and (output.exists() or output.is_symlink()):
        raise UsageError(f"--output {output}: exists already; expected a new name")
    text = run.markdown(redact=redact)
    if output is not None:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise RunError(f"{output}: cannot be written: {error.strerror}; --output names another place") from None
    if json:
        console.emit({"markdown": text, "path": str(output) if output is not None else None})
    else:
        console.line(text.rstrip("\n") if output is None else str(output))


def _say_tables(files: TableFiles) -> None:
    if not files.redacted:
        console.note(
            "warning: the tables are not redacted: reasons, warnings and levels may hold names of hosts and users, and "
            "folders; --redact replaces them"
        )
    counts = ", ".join(f"{name} {number}" for name, number in files.rows.items())
    console.line(f"{files.path}: rows of {counts}{', redacted' if files.redacted else ''}")
    for kind, count in files.replaced.items():
        console.line(f"  {kind}: {console.count(count, 'place')} replaced")


def _say(bundle: Bundle) -> None:
    manifest = bundle.manifest
    files = console.count(manifest.files, "file")
    if not manifest.redacted:
        console.note(
            "warning: the bundle is not redacted: it holds host and user names, folders and the tools' whole output; "
            "--redact replaces them"
        )
    console.line(f"{bundle.path}: {files}{', redacted' if manifest.redacted else ''}")
    for kind, count in manifest.replaced.items():
        console.line(f"  {kind}: {console.count(count, 'place')} replaced")
    for kind, count in manifest.only_in_fields.items():
        console.note(
            f"note: {kind}: {console.count(count, 'value')} short, a number or a common word, replaced only in fields "
            "that name them"
        )
    for reason, count in manifest.left_out.items():
        console.note(f"note: left out: {console.count(count, 'file')}: {reason}")
