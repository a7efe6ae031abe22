"""ioassay doctor: is this host fit to measure?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.cli import console, options, syntax
from ioassay.errors import BrokenPlugin, UsageError
from ioassay.registry import Candidate

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
    installed = _plugins()
    facts = host.facts(path, tools=list(drivers.tools().values()))
    found = examination.diagnose(facts)
    unable = _unable()
    if json:
        told = {"warnings": [vars(warning) for warning in found], "unable": [vars(warning) for warning in unable]}
        console.emit({"facts": facts, **told, "plugins": [_as_row(one) for one in installed]})
        return
    for warning in found:
        remedy = f"\n    remedy: {warning.remedy}" if warning.remedy else ""
        console.line(f"{warning.text} [{warning.code}]{remedy}")
    console.line(console.count(len(found), "warning") if found else "nothing found that would spoil a measurement")
    _say_unable(unable)
    for one in installed:
        row = _as_row(one)
        used = f"is not used: {row['problem']}" if row["problem"] else "is installed"
        console.line(f"plugin {row['package']} {row['version']}: {row['noun']} '{row['name']}' {used}")


def _plugins() -> list[tuple[str, Candidate]]:
    """Every plugin of every list, with what an entry of the list is called."""
    import warnings

    from ioassay import analysis, drivers, formats, monitors, plugins, targets
    from ioassay.report import figures
    from ioassay.runner import executors
    from ioassay.store import importer

    rooms = (drivers, targets, monitors, formats, analysis, figures, importer, executors)
    registries = {room.REGISTRY.group: room.REGISTRY for room in rooms}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BrokenPlugin)  # each is listed here, with its problem
        found = [(one.noun, checked) for one in registries.values() for checked in one.plugins()]
    strays = [plugin for plugin in plugins.installed() if plugin.group not in registries]
    wanted = f"no list of ioassay is called so; wanted {', '.join(registries)}"
    return found + [("entry of " + plugin.group, Candidate(plugin, wanted)) for plugin in strays]


def _as_row(found: tuple[str, Candidate]) -> dict[str, str]:
    noun, checked = found
    plugin = checked.plugin
    return {
        "package": plugin.package,
        "version": plugin.version,
        "list": plugin.group,
        "noun": noun,
        "name": plugin.name,
        "problem": checked.problem,
    }


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
