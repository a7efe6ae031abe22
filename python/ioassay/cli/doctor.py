"""ioassay doctor: is this host fit to measure? At most session.MOST_LINES lines, the worst first, without --all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.api import diagnosis
from ioassay.cli import console, options, session, syntax

if TYPE_CHECKING:
    from ioassay.api.diagnosis import Diagnosis

_MOST_UNABLE, _MOST_PLUGINS = 3, 2
"""Lines about what cannot be done here, and about plugins."""


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

    def more_plugins(shown: int) -> str:
        broken = sum(bool(plugin.problem) for plugin in plugins[shown:])
        unused = f", of which {broken} cannot be used" if broken else ""
        return f"plugins: {console.count(len(plugins) - shown, 'more name')}{unused}: --all lists them"

    def more_unable(shown: int) -> str:
        return f"{console.count(len(unable) - shown, 'more thing')} unavailable: --all has the reasons"

    def more_warnings(shown: int) -> str:
        codes = ", ".join(warning.code for warning in found.warnings[shown:])
        number = console.count(len(found.warnings) - shown, "more warning")
        return f"{number}, with remedies by --all: {codes}"

    plugins = sorted(found.plugins, key=lambda plugin: not plugin.problem)  # broken ones first
    used = [
        f"plugin {one.package} {one.version}: {one.noun} '{one.name}' "
        + (f"is not used: {one.problem}" if one.problem else "is installed")
        for one in plugins
    ]
    unable = [f"unavailable: {one.text}{f' ({one.remedy})' if one.remedy else ''}" for one in found.unable]
    warnings = [
        [
            *console.wrapped(f"{warning.text} [{warning.code}]"),
            *([f"    remedy: {warning.remedy}"] if warning.remedy else ()),  # in one piece: it may be a command to copy
        ]
        for warning in found.warnings
    ]
    share = found.realtime_share
    real_time = (
        f"under real-time policies (run.scheduler) the kernel keeps {1 - share:.0%} of a processor for other tasks "
        "that wait there (sched_rt_runtime_us)"
        if everything and share is not None and share < 1
        else ""
    )
    notes = [
        *console.wrapped(real_time),
        *shown([*map(console.wrapped, unable)], _MOST_UNABLE, more_unable),
        *shown([*map(console.wrapped, used)], _MOST_PLUGINS, more_plugins),
    ]
    number = console.count(len(found.warnings), "warning")
    console.line(f"{number}, the worst first:" if found.warnings else "nothing found that would spoil a measurement")
    console.lines([*shown(warnings, session.MOST_LINES - 1 - len(notes), more_warnings), *notes])
