"""ioassay export: a run as one file to share, with or without what identifies machine and people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.cli import console, options, syntax

if TYPE_CHECKING:
    from ioassay.api.publication import Bundle


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("export")(export)


def export(
    run: Annotated[Path, syntax.Argument(metavar="RUN", help="The folder of a run.")],
    output: Annotated[
        Path | None,
        syntax.Option("--output", "-o", metavar="BUNDLE", help="The archive (.tar.gz); by default <run>.tar.gz here."),
    ] = None,
    redact: Annotated[
        bool,
        syntax.Option("--redact", help="Replace names of hosts and people, folders, serial numbers and addresses."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Write a run into one archive to share.

    With --redact, host and user names, folders, serial numbers, UUIDs, MAC and IP addresses and unknown kernel
    parameters are replaced in every file, and the page is made anew. The bundle is searched for them before it is
    written; unpacked, it is a run for report, sql and compare.

    Example: ioassay export runs/20260101-120000-quick --redact -o quick.tar.gz
    """
    from ioassay.api import run_results

    console.use_json(json)
    bundle = run_results.open(run).export(output, redact=redact)
    if json:
        console.emit(bundle.as_dict())
    else:
        _say(bundle)


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
