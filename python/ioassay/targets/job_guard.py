"""Keeps what a job's own parameters name safe while the job runs: looked at again, claimed, and marked as ours after.

A target guards itself; this is for paths that a driver's parameters name beside it (`roles.Touch`, a job file's
`filename`), which the tool opens and makes by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ioassay.errors import SafetyRefusal
from ioassay.host import block_devices
from ioassay.host.block_devices import ROOT, FileId, Number
from ioassay.records.record import Warning_
from ioassay.roles import WRITE, Consent, Touch
from ioassay.targets import device_locks, ownership_mark, safety


@dataclass(frozen=True)
class _Seen:
    """What a path that is written led to when it was examined."""

    resolved: Path
    device: Number | None
    file: FileId | None


@dataclass(frozen=True)
class Guard:
    """What was found, and a look before each trial whether it is still so: fio follows names, and names change."""

    warnings: list[Warning_]
    _seen: dict[Path, _Seen]

    def require_same(self, touches: Iterable[Touch]) -> None:
        """SafetyRefusal when what a trial would write was not examined, or its path now leads to something else."""
        for touch in touches:
            if touch.access == WRITE:
                self._require_same(touch.path)

    def _require_same(self, path: Path) -> None:
        then = self._seen.get(path)
        if then is None:
            raise SafetyRefusal(
                f"{path}: refused, nothing was written: the job did not name it when the run began; "
                "a file that it includes was changed, or a folder that it opens. Begin a new run"
            )
        now = _look(path)
        replaced = now.file not in (None, then.file) and ownership_mark.read(now.resolved) is None
        if (now.resolved, now.device) != (then.resolved, then.device) or (
            replaced and ownership_mark.tells_age(now.resolved)
        ):
            raise SafetyRefusal(
                f"{path}: refused, nothing was written to it: it leads to something else than when the run began "
                f"(then {then.resolved}, now {now.resolved}); put it back and resume the run"
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
    warnings = [warning for path, access in wanted for warning in safety.inspect_path(path, access, consent, root)]
    written = [path for path, access in wanted if access == WRITE]
    with ExitStack() as stack:
        for path in written:
            if (number := block_devices.number_of(path)) is not None:
                device_locks.take(number, path)
                stack.callback(device_locks.give_back, number)
        for path in written:
            safety.expect_own(path)
        for path in written:
            stack.callback(safety.mark_own, path)
        yield Guard(warnings, {touch.path: _look(touch.path) for touch in touches if touch.access == WRITE})
