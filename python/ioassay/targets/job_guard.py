"""Keeps what a job's own parameters name safe while the job runs: looked at again, claimed, and marked as ours after.

A target guards itself; this is for paths that a driver's parameters name beside it (`roles.Touch`, a job file's
`filename`), which the tool opens and makes by itself. `Reserve` ends a trial before it fills a file system.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ioassay import units
from ioassay.errors import SafetyRefusal
from ioassay.host import block_devices
from ioassay.host.block_devices import ROOT, FileId, Number
from ioassay.roles import WRITE, Consent, Touch
from ioassay.targets import device_users, filesystem, ownership_mark, safety


class _Seen(NamedTuple):
    """What a path that is written led to when it was examined."""

    resolved: Path
    device: Number | None
    file: FileId | None


@dataclass(frozen=True)
class Guard:
    """A look before each trial whether all is still as it was examined: fio follows names, and names change."""

    _seen: dict[Path, _Seen]

    def require_same(self, touches: Iterable[Touch]) -> None:
        """SafetyRefusal when what a trial would write was not examined, or its path now leads to something else."""
        for touch in touches:
            if touch.access != WRITE:
                continue
            if (then := self._seen.get(touch.path)) is None:
                raise SafetyRefusal(
                    f"{touch.path}: refused, nothing was written: the job did not name it when the run began; "
                    "a file that it includes was changed, or a folder that it opens. Begin a new run"
                )
            now = _look(touch.path)
            is_other = now.file not in (None, then.file) and ownership_mark.read(now.resolved) is None
            is_replaced = is_other and ownership_mark.time_of_birth_ns(now.resolved) is not None
            if is_replaced or (now.resolved, now.device) != (then.resolved, then.device):
                raise SafetyRefusal(
                    f"{touch.path}: refused, nothing was written to it: it leads to something else than when the run "
                    f"began (then {then.resolved}, now {now.resolved}); put it back and resume the run"
                )


def _look(path: Path) -> _Seen:
    resolved = safety.resolve(path)
    return _Seen(resolved, block_devices.number_of(resolved), block_devices.file_id(resolved))


@contextmanager
def guarded(touches: Iterable[Touch], consent: Consent, *, root: Path = ROOT) -> Iterator[Guard]:
    """Around all trials that load these paths. SafetyRefusal as `safety.inspect_path` says it, before anything is done.

    Devices that are written stay claimed until the end. Files that are written are announced as ours before and marked
    at the end, after a failure too, so that a run that was killed can be resumed, and one that ended run again.
    """
    touches = list(touches)
    wanted = dict.fromkeys((safety.resolve(touch.path), touch.access) for touch in touches)
    for path, access in wanted:
        safety.inspect_path(path, access, consent, root)
    written = [path for path, access in wanted if access == WRITE]
    with ExitStack() as stack:
        for path in written:
            if (number := block_devices.number_of(path)) is not None:
                device_users.take(number, path)
                stack.callback(device_users.give_back, number)
        for path in written:
            safety.expect_own(path)
        for path in written:
            stack.callback(safety.mark_own, path)
        yield Guard({touch.path: _look(touch.path) for touch in touches if touch.access == WRITE})


_SHARE = 0.75
"""Of the margin that files leave: the rest is for what others write meanwhile."""
_INTERVAL_S = 1.0


@dataclass
class Reserve:
    """The room that is reserved in each file system of a run, fixed when the run first touches it.

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
        next_s = float("-inf")

        def lack() -> str:
            """Looks at most once in an interval; '' in between."""
            nonlocal next_s
            if self.clock() < next_s:
                return ""
            next_s = self.clock() + _INTERVAL_S
            for device, folder in folders.items():
                try:
                    facts = os.statvfs(folder)
                except OSError:
                    continue  # removed or unmounted meanwhile: who uses it says so
                free_bytes, least_bytes = facts.f_bavail * facts.f_frsize, self._least_bytes[device]
                if facts.f_blocks and free_bytes < least_bytes:
                    free, least = units.format_size(free_bytes), units.format_size(least_bytes)
                    return (
                        f"the file system of {folder} has {free} free, and the last {least} are reserved: free some "
                        "space, or ask for less data, shorter runs or fewer logs"
                    )
            return ""

        return lack
