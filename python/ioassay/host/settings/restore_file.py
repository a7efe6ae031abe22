"""Restore files: what a run changed on this host and what was there before, written down before the first change.

One file a run, named by the process that owns it. A killed run leaves its file behind; `put_back` replays it. Root's
files lie in /run, which, like the settings themselves, does not survive a reboot; other users' in their state folder.
Deliberately not here: deciding what is changed (`settings`) and changing it.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ioassay import atomic_file
from ioassay.process import process_table

SCHEMA = 1
_PATTERN = "restore-*.json"
_ALLOWED = ("/sys/", "/proc/sys/")


@dataclass(frozen=True)
class Change:
    """One setting: `path` as the machine has it (without an injected root), its value before and ours.

    `follows`: not written by us, but the driver changes it along with another setting and does not always put it back.
    """

    path: str
    old: str
    new: str
    follows: bool = False


@dataclass(frozen=True)
class Owner:
    """A process, not only its number: numbers are used again, start times (ticks since boot) are not."""

    pid: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True)
class RestoreFile:
    """One run's changes."""

    file: Path
    owner: Owner
    made_unix_s: float
    changes: Sequence[Change]

    def change_of(self, path: str) -> Change | None:
        """What this run changed there, or None."""
        return next((change for change in self.changes if change.path == path), None)


def state_folder(root: Path = Path("/")) -> Path:
    """Where restore files of this user lie."""
    return root / "run/ioassay" if root != Path("/") or os.geteuid() == 0 else lasting_folder()


def lasting_folder(root: Path = Path("/")) -> Path:
    """The state folder of this user, which survives a reboot; of root as well."""
    if root != Path("/"):
        return root / "var/lib/ioassay"
    # XDG Base Directory Specification; a relative path there is to be ignored.
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".local/state") / "ioassay"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Only one process changes settings or restore files at a time; the lock ends with its process, however it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write(folder: Path, changes: Sequence[Change], root: Path = Path("/")) -> RestoreFile:
    """Make this process's restore file durable: once this returns, a kill or a power cut loses nothing of it."""
    owner = this_process(root)
    made_unix_s = time.time()
    path = folder / f"restore-{owner.pid}-{owner.start_ticks}-{time.monotonic_ns()}.json"
    table = {
        "schema": SCHEMA,
        "owner": asdict(owner),
        "made_unix_s": made_unix_s,
        "changes": [asdict(change) for change in changes],
    }
    atomic_file.write(path, json.dumps(table, indent=1))
    return RestoreFile(path, owner, made_unix_s, tuple(changes))


def remove(file: RestoreFile) -> None:
    """Forget a restore file that has been put back."""
    file.file.unlink(missing_ok=True)
    atomic_file.sync(file.file.parent)


def read_all(folder: Path) -> tuple[list[RestoreFile], list[Path]]:
    """All restore files, oldest first, and those that cannot be read."""
    good, bad = [], []
    for path in sorted(folder.glob(_PATTERN)):
        try:
            good.append(_read(path))
        except FileNotFoundError:
            continue  # its run has ended just now
        except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
            bad.append(path)
    return sorted(good, key=lambda file: file.made_unix_s), bad


def remove_unfinished(folder: Path) -> None:
    """Remove what a run was writing when it was killed, before it changed anything. Only under the lock."""
    for path in folder.glob(atomic_file.unfinished_of(Path(_PATTERN)).name):
        path.unlink(missing_ok=True)


def is_alive(owner: Owner, root: Path = Path("/")) -> bool:
    """Whether that very process still runs; a zombie does not."""
    return owner.boot_id == _boot_id(root) and owner.start_ticks == _start_ticks(owner.pid, root)


def is_of_this_boot(owner: Owner, root: Path = Path("/")) -> bool:
    """Settings in /sys and /proc/sys do not survive a reboot, so neither does what is to be put back."""
    return owner.boot_id == _boot_id(root)


def this_process(root: Path = Path("/")) -> Owner:
    """The owner that files of this process name."""
    return Owner(os.getpid(), _start_ticks(os.getpid(), root) or 0, _boot_id(root))


def _read(path: Path) -> RestoreFile:
    table = json.loads(path.read_text(encoding="utf-8"))
    if table["schema"] != SCHEMA:
        raise ValueError(f"schema {table['schema']}")
    changes = tuple(Change(**change) for change in table["changes"])
    for change in changes:
        # Replaying writes as root: never anywhere else than where settings are.
        if not change.path.startswith(_ALLOWED) or ".." in change.path.split("/"):
            raise ValueError(f"{change.path} is no setting")
    return RestoreFile(path, Owner(**table["owner"]), float(table["made_unix_s"]), changes)


def _start_ticks(pid: int, root: Path) -> int | None:
    """When a process began; None for one that is gone or only waits to be reaped."""
    found = process_table.status(pid, root)
    return found.start_ticks if found is not None and found.is_alive else None


def _boot_id(root: Path) -> str:
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
