"""Ends a trial before it fills a file system: the room that is left is looked at once a second while its tool runs.

What can be known beforehand is checked before the run (`filesystem.require_total_room`). This is for what grows: logs
of single requests, databases, tools that write for a time. One statvfs(2) a second disturbs no measurement.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ioassay import units
from ioassay.targets import filesystem

_SHARE = 0.75
"""Of the margin that files leave: the rest is for what others write meanwhile."""
_INTERVAL_S = 1.0


@dataclass
class Reserve:
    """The room that is left alone in each file system of a run, fixed when the run first touches it.

    Three quarters of the margin, or of what was free then where that was less.
    """

    clock: Callable[[], float] = time.monotonic
    _least_bytes: dict[int, int] = field(default_factory=dict)

    def watch(self, paths: Iterable[Path]) -> Callable[[], str]:
        """A question to be asked often while `paths` may grow: why the load has to end now, or ''."""
        folders = {folder.stat().st_dev: folder for folder in map(filesystem.existing_folder, paths)}
        for device, folder in folders.items():
            if device not in self._least_bytes:
                here = filesystem.room(folder)
                self._least_bytes[device] = int(min(here.margin_bytes, here.free_bytes) * _SHARE)
        return _Watch(folders, self._least_bytes, self.clock).lack


@dataclass
class _Watch:
    folders: dict[int, Path]
    least_bytes: dict[int, int]
    clock: Callable[[], float]
    _next_s: float = float("-inf")

    def lack(self) -> str:
        """Looks at most once in an interval; '' in between."""
        if self.clock() < self._next_s:
            return ""
        self._next_s = self.clock() + _INTERVAL_S
        return next(filter(None, map(self._lack_of, self.folders)), "")

    def _lack_of(self, device: int) -> str:
        try:
            facts = os.statvfs(self.folders[device])
        except OSError:
            return ""  # removed or unmounted meanwhile: who uses it says so
        free_bytes, least_bytes = facts.f_bavail * facts.f_frsize, self.least_bytes[device]
        if free_bytes >= least_bytes or not facts.f_blocks:
            return ""
        shown = units.format_size
        return (
            f"the file system of {self.folders[device]} has {shown(free_bytes)} free, and the last "
            f"{shown(least_bytes)} are left alone: make room, or ask for less data, shorter runs or fewer logs"
        )
