"""What stress-ng leaves on the host when it has ended, and removes too seldom: its objects of shared memory.

The stressor `shm` (0.15.06) forgets some of them now and then, also where it ends in time; each is memory that nobody
can use until it is removed (shm_overview(7)). An object is taken for one of a trial's only where its name is
stress-ng's, the process that the name tells is gone, this user owns it, and it was changed since the trial began.
Files that a stressor leaves in the target's folder go with that folder.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from ioassay import units
from ioassay.records.record import Warning_

SHARED_MEMORY = Path("/dev/shm")
_NAME = re.compile(r"stress-ng-(\d+)-[0-9a-f]+-[0-9a-f]+")
"""Process, size or number, and a random number (stress-shm.c)."""


def remove_shared_memory(
    since_unix_s: float, folder: Path = SHARED_MEMORY, proc: Path = Path("/proc")
) -> list[Warning_]:
    """Remove what a trial that began at `since_unix_s` left in `folder`; a warning that says what it was."""
    removed = [size_bytes for path, size_bytes in _found(since_unix_s, folder, proc) if _removed(path)]
    if not removed:
        return []
    count = (
        f"{len(removed)} object{'s' if len(removed) > 1 else ''} of shared memory ({units.format_size(sum(removed))})"
    )
    return [Warning_("memory-left-behind", f"stress-ng left {count} in {folder}; removed")]


def _found(since_unix_s: float, folder: Path, proc: Path) -> Iterator[tuple[Path, int]]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        named = _NAME.fullmatch(name)
        if named is None or (proc / named[1]).exists():
            continue
        try:
            found = (folder / name).lstat()
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_ctime >= since_unix_s:
            yield folder / name, found.st_size


def _removed(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
