"""ioassay doctor: is this host fit to measure? At most session.MOST_LINES lines, the worst first, without --all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.api import diagnosis
from ioassay.cli import console, options, session, syntax

if TYPE_CHECKING:
    from ioassay.api.diagnosis import Diagnosis, InstalledPlugin
    from ioassay.records.record import Warning_

_MOST_UNABLE, _MOST_PLUGINS = 3, 2
"""Lines about what cannot be done here, and about plugins."""


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("doctor")(doctor)


def doctor(
    path: Annotated[Path, syntax.argument("PATH", "A path on the disk to measure.")] = Path(),
    restore: Annotated[bool, syntax.option("--restore", "Restore settings that a killed run left changed.")] = False,
    all_: Annotated[bool, syntax.option("--all", "Show everything, however long it is.")] = False,
    json: options.Json = False,
) -> None:
    """Check if this host is fit to measure, and say how to fix it.

    Examples: ioassay doctor /mnt/disk; ioassay doctor --restore
    """
    if restore:
        restored = diagnosis.restore_settings()
        console.answer(lambda: {"restored": restored}, lambda: console.lines(restored or ["nothing to restore"]))
        return
    found = diagnosis.doctor(path)
    console.answer(found.as_dict, lambda: _say(found, everything=all_))


def _say(found: Diagnosis, *, everything: bool) -> None:
    def shown(topics: Sequence[Sequence[str]], most: int, rest: Callable[[int], str]) -> list[str]:
        return session.digest(topics, sys.maxsize if everything else most, rest)

    plugins = sorted(found.plugins, key=lambda plugin: not plugin.problem)  # broken ones first
    unable = [f"cannot be done here: {one.text}{f' ({one.remedy})' if one.remedy else ''}" for one in found.unable]
    notes = [
        *(_of_real_time(found.realtime_share) if everything else ()),
        *shown([*map(console.wrapped, unable)], _MOST_UNABLE, lambda n: _more_unable(len(unable) - n)),
        *shown([*map(_of_plugin, plugins)], _MOST_PLUGINS, lambda n: _more_plugins(plugins[n:])),
    ]
    number = console.count(len(found.warnings), "warning")
    console.line(f"{number}, the worst first:" if found.warnings else "nothing found that would spoil a measurement")
    left = session.MOST_LINES - 1 - len(notes)
    warnings = [*map(_of_warning, found.warnings)]
    console.lines([*shown(warnings, left, lambda n: _more_warnings(found.warnings[n:])), *notes])


def _of_warning(warning: Warning_) -> list[str]:
    """The remedy is in one piece: it may be a command to copy."""
    remedy = [f"    remedy: {warning.remedy}"] if warning.remedy else []
    return [*console.wrapped(f"{warning.text} [{warning.code}]"), *remedy]


def _more_warnings(rest: Sequence[Warning_]) -> str:
    codes = ", ".join(warning.code for warning in rest)
    return f"{console.count(len(rest), 'more warning')}, with remedies by --all: {codes}"


def _more_unable(number: int) -> str:
    return f"{console.count(number, 'more thing')} cannot be done here: --all has the reasons"


def _of_plugin(plugin: InstalledPlugin) -> list[str]:
    used = f"is not used: {plugin.problem}" if plugin.problem else "is installed"
    return console.wrapped(f"plugin {plugin.package} {plugin.version}: {plugin.noun} '{plugin.name}' {used}")


def _more_plugins(rest: Sequence[InstalledPlugin]) -> str:
    broken = sum(bool(plugin.problem) for plugin in rest)
    unused = f", of which {broken} cannot be used" if broken else ""
    return f"plugins: {console.count(len(rest), 'more name')}{unused}: --all lists them"


def _of_real_time(share: float | None) -> list[str]:
    if share is None or share >= 1:
        return []
    return console.wrapped(
        f"under real-time policies (run.scheduler) the kernel keeps {1 - share:.0%} of a processor for other tasks "
        "that wait there (sched_rt_runtime_us)"
    )
