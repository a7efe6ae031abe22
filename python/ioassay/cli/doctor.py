"""ioassay doctor: is this host fit to measure?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.cli import console, options, syntax

if TYPE_CHECKING:
    from ioassay.api.diagnosis import Diagnosis


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("doctor")(doctor)


def doctor(
    path: Annotated[Path, syntax.Argument(metavar="PATH", help="A path on the disk to measure.")] = Path(),
    restore: Annotated[
        bool, syntax.Option("--restore", help="Restore settings that a killed run left changed.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Check if this host is fit to measure, and say how to fix it.

    Examples: ioassay doctor /mnt/disk; ioassay doctor --restore
    """
    from ioassay.api import diagnosis

    console.use_json(json)
    if restore:
        restored = diagnosis.restore_settings()
        console.emit({"restored": restored}) if json else _say_restored(restored)
        return
    found = diagnosis.doctor(path)
    if json:
        console.emit(found.as_dict())
    else:
        _say(found)


def _say(found: Diagnosis) -> None:
    for warning in found.warnings:
        remedy = f"\n    remedy: {warning.remedy}" if warning.remedy else ""
        console.line(f"{warning.text} [{warning.code}]{remedy}")
    number = len(found.warnings)
    console.line(console.count(number, "warning") if number else "nothing found that would spoil a measurement")
    share = found.realtime_share
    if share is not None and share < 1:
        console.line(
            f"under real-time policies (run.scheduler) the kernel keeps {1 - share:.0%} of a processor for other tasks "
            "that wait there (sched_rt_runtime_us)"
        )
    for warning in found.unable:
        remedy = f" ({warning.remedy})" if warning.remedy else ""
        console.line(f"cannot be done here: {warning.text}{remedy}")
    for plugin in found.plugins:
        used = f"is not used: {plugin.problem}" if plugin.problem else "is installed"
        console.line(f"plugin {plugin.package} {plugin.version}: {plugin.noun} '{plugin.name}' {used}")


def _say_restored(restored: list[str]) -> None:
    for text in restored or ["nothing to restore"]:
        console.line(text)
