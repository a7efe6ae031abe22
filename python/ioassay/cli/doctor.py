"""ioassay doctor: is this host fit to measure?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ioassay.cli import console, options
from ioassay.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("doctor")(doctor)


def doctor(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A path on the disk that is to be measured.")] = Path(),
    restore: Annotated[
        bool, typer.Option("--restore", help="Put back settings that a killed run left changed.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Say what would spoil a measurement here, and what mends it."""
    from ioassay import conditions, host, settings
    from ioassay import doctor as examination

    console.use_json(json)
    if restore:
        restored = settings.restore_all() + conditions.remove_left()
        console.emit({"restored": restored}) if json else _say_restored(restored)
        return
    if not path.exists():
        raise UsageError(f"{path}: no such path; wanted one on the disk that is to be measured")
    facts = host.facts(path)
    found = examination.diagnose(facts)
    if json:
        console.emit({"facts": facts, "warnings": [vars(warning) for warning in found]})
        return
    for warning in found:
        remedy = f"\n    remedy: {warning.remedy}" if warning.remedy else ""
        console.line(f"{warning.text} [{warning.code}]{remedy}")
    console.line(console.count(len(found), "warning") if found else "nothing found that would spoil a measurement")


def _say_restored(restored: list[str]) -> None:
    for text in restored or ["nothing to restore"]:
        console.line(text)
