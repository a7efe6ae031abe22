"""ioassay doctor: is this host fit to measure?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.cli import console, options, syntax
from ioassay.errors import UsageError

if TYPE_CHECKING:
    from ioassay.records.record import Warning_

_DEMANDING = "subsystems"


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
    """Check if this host is fit to measure, and say how to fix it."""
    from ioassay import drivers, host
    from ioassay.host import doctor as examination
    from ioassay.host import drive_folders, settings
    from ioassay.runner import conditions

    console.use_json(json)
    if restore:
        restored = settings.restore_all() + conditions.remove_leftovers() + drive_folders.remove_leftovers()
        console.emit({"restored": restored}) if json else _say_restored(restored)
        return
    if not path.exists():
        raise UsageError(f"{path}: no such path; wanted one on the disk that is to be measured")
    facts = host.facts(path, tools=list(drivers.tools().values()))
    found = examination.diagnose(facts)
    unable = _unable()
    if json:
        told = {"warnings": [vars(warning) for warning in found], "unable": [vars(warning) for warning in unable]}
        console.emit({"facts": facts, **told})
        return
    for warning in found:
        remedy = f"\n    remedy: {warning.remedy}" if warning.remedy else ""
        console.line(f"{warning.text} [{warning.code}]{remedy}")
    console.line(console.count(len(found), "warning") if found else "nothing found that would spoil a measurement")
    _say_unable(unable)


def _unable() -> list[Warning_]:
    """What cannot be asked of this host: each once, for all drivers, and for the suite whose studies ask for most."""
    from ioassay.runner import preflight

    unable = [*preflight.missing_tools(), *preflight.refused_conditions(), *preflight.skipped_trials(_DEMANDING)]
    return list(dict.fromkeys(unable))


def _say_unable(unable: Sequence[Warning_]) -> None:
    from ioassay.runner import preflight

    share = preflight.real_time_share()
    if share is not None and share < 1:
        console.line(
            f"under real-time policies (run.scheduler) the kernel keeps {1 - share:.0%} of a processor for other tasks "
            "that wait there (sched_rt_runtime_us)"
        )
    for warning in unable:
        remedy = f" ({warning.remedy})" if warning.remedy else ""
        console.line(f"cannot be done here: {warning.text}{remedy}")


def _say_restored(restored: list[str]) -> None:
    for text in restored or ["nothing to restore"]:
        console.line(text)
