"""Keeps what a job's own parameters name safe while the job runs: looked at again, claimed, and marked as ours after.

A target guards itself; this is for paths that a driver's parameters name beside it (`roles.Touch`, a job file's
`filename`), which the tool opens and makes by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ioassay import blockdev
from ioassay.blockdev import ROOT
from ioassay.record import Warning_
from ioassay.roles import WRITE, Consent, Touch
from ioassay.targets import claims, safety


@contextmanager
def guarded(touches: Iterable[Touch], consent: Consent, *, root: Path = ROOT) -> Iterator[list[Warning_]]:
    """Around all trials that load these paths. SafetyRefusal as `safety.inspect_path` says it, before anything is done.

    Devices that are written stay claimed until the end. Files that are written are announced as ours before and marked
    at the end, after a failure too, so that a run that was killed can be resumed, and one that ended run again.
    """
    wanted = dict.fromkeys((safety.resolve(touch.path), touch.access) for touch in touches)
    warnings = [warning for path, access in wanted for warning in safety.inspect_path(path, access, consent, root)]
    written = [path for path, access in wanted if access == WRITE]
    with ExitStack() as stack:
        for path in written:
            if (number := blockdev.number_of(path)) is not None:
                claims.take(number, path)
                stack.callback(claims.give_back, number)
        for path in written:
            safety.expect_own(path)
        for path in written:
            stack.callback(safety.mark_own, path)
        yield warnings
