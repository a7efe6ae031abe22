"""Host settings of a run: changed for its duration, put back however it ends.

    with HostSettings(governor="performance") as settings:
        ...                                   # settings.warnings: what could not be had

Normal end, exception, Ctrl-C and SIGTERM (which the runner turns into exceptions) put back at once. Before the first
change, a restore file is made durable, one a run, named by the process that owns it. A SIGKILL leaves it behind; the
next run, or `ioassay doctor --restore`, replays it. Root's files lie in /run, which, like the settings themselves, does
not survive a reboot; other users' in their state folder. Runs at the same time nest: each remembers the value from
before the first, and the last one puts it back.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from ioassay import atomic_file
from ioassay.process import process_table
from ioassay.records.record import Warning_

KEEP = "keep"
RESTORE_COMMAND = "ioassay doctor --restore"
AS_ROOT = 'sudo "$(command -v ioassay)"'
"""Starts this program as root: sudo does not look in a user's own folders, where pipx and uv put commands."""

_EPP = "energy_performance_preference"
_SCHEMA = 1
_PATTERN = "restore-*.json"
_ALLOWED = ("/sys/", "/proc/sys/")

NO_GOVERNOR = Warning_(
    "no-governor",
    "this kernel gives no control over the processors' clock (no cpufreq; usual in virtual machines), "
    "so it may vary during a run",
    "repeat on the bare machine, or set its governor to performance on the host of this virtual machine",
)


@dataclass(frozen=True)
class Change:
    """One setting: `path` as the machine has it (without an injected root), its value before and ours.

    `follows`: not written by us, but the driver changes it along with another setting and does not always put it back.
    """

    path: str
    old: str
    new: str
    follows: bool = False


class HostSettings:
    """A context: inside it the host is set as asked, as far as that is possible; `warnings` says what was not.

    `governor` is set on every processor (KEEP: left alone). Raises nothing for what is not permitted.
    """

    def __init__(self, governor: str = "performance", *, root: Path = Path("/")) -> None:
        self.warnings: list[Warning_] = []
        self._governor = governor
        self._root = root
        self._state = state_folder(root)
        self._file: RestoreFile | None = None

    def __enter__(self) -> Self:
        wanted = self._permitted() if self._governor != KEEP else []
        # All as wanted, and no folder in which another run could have said that it made it so: nothing to do.
        if self._state.is_dir() or any(change.old != change.new for change in wanted if not change.follows):
            try:
                with locked(self._state):
                    self._change(wanted)
            except OSError as error:
                # Without a restore file nothing is changed: what cannot be put back for sure is left alone.
                text = f"host settings are left as they are: no restore file can be kept in {self._state}: {error}"
                self.warnings.append(Warning_("settings-unrecorded", text, "make that folder writable"))
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with locked(self._state):
                self._put_back(self._file)
            self._file = None

    def _permitted(self) -> list[Change]:
        """The changes that are asked for and may be made; what this machine or user does not have is a warning."""
        root, governor = self._root, self._governor
        folders = sorted(root.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq"))
        places = [f"/{folder.relative_to(root)}" for folder in folders if (folder / "scaling_governor").exists()]
        if not places:
            self.warnings.append(NO_GOVERNOR)
            return []
        offered = (read_value(f"{places[0]}/scaling_available_governors", root) or governor).split()
        if governor not in offered:
            text = f"the governor '{governor}' is not among those of this machine: {', '.join(offered)}"
            self.warnings.append(Warning_("governor-unavailable", text))
            return []
        wanted = {f"{place}/scaling_governor": governor for place in places}
        # With the governor performance, amd-pstate and intel_pstate set this one to performance too, and amd-pstate
        # leaves it there afterwards (drivers/cpufreq/amd-pstate.c). It can be put back only after the governor was.
        along = [f"{place}/{_EPP}" for place in places if governor == "performance"]
        wanted |= {path: "performance" for path in along if _inside(path, root).exists()}
        permitted, denied = [], dict[str, Change]()
        for path, value in wanted.items():
            change = Change(path, read_value(path, root) or "", value, follows=path in along)
            if os.access(_inside(path, root), os.W_OK):  # not by root either where /sys is read-only (containers)
                permitted.append(change)
            elif change.old != change.new and not change.follows:
                denied[path.rpartition("/")[2]] = change
        for name, each in denied.items():
            text = f"{name} stays '{each.old}' instead of '{each.new}': this user may not write {each.path}"
            self.warnings.append(Warning_("settings-not-permitted", text, "run as root (with sudo)"))
        return permitted

    def _change(self, wanted: Sequence[Change]) -> None:
        """Under the lock: note what is there, make that durable, then change."""
        if left := _replay(self._state, self._root):
            text = f"a run that was killed had left settings changed: {'; '.join(sentences(left))}"
            self.warnings.append(Warning_("settings-restored", text))
        living = _living(self._state, self._root)
        changes = []
        for change in wanted:  # original values are those from before the first run
            present = read_value(change.path, self._root)
            held = next((held for file in living if (held := file.change_of(change.path))), None)
            if held is not None:
                changes.append(replace(change, old=held.old))
            elif present is not None and present != change.new:
                changes.append(replace(change, old=present))
        if all(change.follows for change in changes):
            return
        owner = this_process(self._root)
        path = self._state / f"restore-{owner.pid}-{owner.start_ticks}-{time.monotonic_ns()}.json"
        new = RestoreFile(path, owner, time.time(), tuple(changes))
        table = {name: value for name, value in asdict(new).items() if name != "file"}
        # Once this returns, a kill or a power cut loses nothing of it.
        atomic_file.write(path, json.dumps({"schema": _SCHEMA, **table}, indent=1))
        self._file = new
        try:
            for change in changes:
                if not change.follows and read_value(change.path, self._root) != change.new:
                    try:
                        put(change.path, change.new, self._root)
                    except OSError as error:
                        text = f"{change.path} stays '{change.old}' instead of '{change.new}': {error.strerror}"
                        self.warnings.append(Warning_("setting-refused", text))
        except BaseException:
            self._put_back(self._file)
            raise

    def _put_back(self, file: RestoreFile) -> None:
        others = [other for other in _living(self._state, self._root) if other.file != file.file]
        restored = [put_back(change, others, self._root) for change in file.changes]
        refused = any(one.action == REFUSED for one in restored)
        if troubles := [one for one in restored if one.action in (CHANGED, GONE, REFUSED)]:
            text = f"settings that were not put back: {'; '.join(sentences(troubles))}"
            self.warnings.append(Warning_("settings-not-restored", text, RESTORE_COMMAND if refused else ""))
        if not refused:
            file.remove()


def restore_all(root: Path = Path("/")) -> list[str]:
    """Put back what killed runs left changed; a sentence for each setting, none when there was nothing to do.

    Files of runs that still live are left to them. OSError when the state folder cannot be used.
    """
    folder = state_folder(root)
    if not folder.is_dir():
        return []
    with locked(folder):
        return sentences(_replay(folder, root))


def _replay(folder: Path, root: Path) -> list[Restored]:
    """The work of `restore_all`, under the lock: newest file first, so that the oldest original value wins."""
    for path in folder.glob(atomic_file.unfinished_of(Path(_PATTERN)).name):
        path.unlink(missing_ok=True)  # its run was killed before it changed anything
    files, unreadable = _read_all(folder)
    living = [file for file in files if is_alive(file.owner, root)]
    done: list[Restored] = []
    for file in (file for file in reversed(files) if file not in living):
        is_rebooted = file.owner.boot_id != _boot_id(root)
        restored = [
            Restored(change, REBOOTED) if is_rebooted else put_back(change, living, root) for change in file.changes
        ]
        done += restored
        if not any(one.action == REFUSED for one in restored):
            file.remove()
    return done + [Restored(Change(str(path), "", ""), UNREADABLE) for path in unreadable]


def leftovers(root: Path = Path("/")) -> list[Path]:
    """Restore files whose run is gone: its settings are still changed. Changes nothing."""
    found = []
    for folder in sorted({state_folder(root), root / "run/ioassay"}):
        files, unreadable = _read_all(folder)
        found += [file.file for file in files if not is_alive(file.owner, root)] + unreadable
    return found


def drop_caches(root: Path = Path("/")) -> Warning_ | None:
    """Write dirty pages out, then empty page cache, dentries and inodes (admin-guide/sysctl/vm.rst); or say why not."""
    path = "/proc/sys/vm/drop_caches"
    if root == Path("/"):
        os.sync()  # dirty pages cannot be dropped
    try:
        put(path, "3", root)
    except OSError as error:
        text = f"the page cache was not dropped: {path}: {error.strerror}"
        sealed = "a container cannot: drop them on its host, or run it with --privileged"
        return Warning_("caches-not-dropped", text, sealed if error.errno == errno.EROFS else "run as root (with sudo)")
    return None


# The files that settings are. Every path is the machine's own (`/sys/…`); the root is added when it is touched


def read_value(path: str, root: Path) -> str | None:
    """The value now; None when it cannot be read."""
    try:
        return _inside(path, root).read_text(errors="replace").partition("\n")[0].strip()
    except OSError:
        return None


def put(path: str, value: str, root: Path) -> None:
    """Write a value, in one call, as the kernel wants it; OSError as the kernel gives it. Never creates a file."""
    descriptor = os.open(_inside(path, root), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, f"{value}\n".encode())
    finally:
        os.close(descriptor)


def _inside(path: str, root: Path) -> Path:
    return root / path.lstrip("/")


# Putting back. A setting that another living run wants too stays as that run wants it: it knows the original value and
# comes last. A setting whose value is no longer the one we set was changed by somebody else meanwhile: it is left, and
# that is said

RESTORED = "put back to '{old}'"
ALREADY = "is '{old}' already"
HELD = "left at '{present}': another run that is still going on wants it, and will put '{old}' back"
CHANGED = "left at '{present}': somebody changed it after it was set to '{new}' (it was '{old}' before)"
GONE = "is not there any more (it was '{old}')"
REFUSED = "could not be put back to '{old}': {reason}"
REBOOTED = "was reset by a reboot (it was '{old}')"
UNREADABLE = "is no restore file that can be read; nothing was put back from it"


@dataclass(frozen=True)
class Restored:
    """What became of one setting, and the value that it has now. `action` is one of the texts above."""

    change: Change
    action: str
    present: str = ""
    reason: str = ""

    def text(self, path: str) -> str:
        """One sentence, about `path`, which may stand for several."""
        return f"{path}: " + self.action.format(**{**vars(self), **vars(self.change)})


def put_back(change: Change, others: Sequence[RestoreFile], root: Path) -> Restored:
    """Put back a setting; `others` are the restore files of the runs that still live, oldest first."""
    present = read_value(change.path, root)
    if present is None:
        return Restored(change, GONE)
    holder = next((held for other in reversed(others) if (held := other.change_of(change.path))), None)
    if holder is not None and holder.new in (present, change.new):
        return Restored(change, HELD, present)
    wanted = change.old if holder is None else holder.new
    if present == wanted:
        return Restored(change, ALREADY, present)
    if present != change.new:
        return Restored(change, CHANGED, present)
    try:
        put(change.path, wanted, root)
    except OSError as error:
        return Restored(change, REFUSED, present, error.strerror or str(error))
    return Restored(change, RESTORED if holder is None else HELD, wanted)


def sentences(restored: Iterable[Restored]) -> list[str]:
    """One sentence for each kind of outcome: the same setting of 64 processors is one, not 64."""
    groups: dict[str, list[Restored]] = {}
    for one in restored:
        groups.setdefault(one.text(re.sub(r"\d+", "*", one.change.path)), []).append(one)
    return [
        group[0].text(group[0].change.path) if len(group) == 1 else f"{text} ({len(group)} files)"
        for text, group in groups.items()
    ]


# Restore files, and the processes that own them


@dataclass(frozen=True)
class Owner:
    """A process, not only its number: numbers are used again, start times (ticks since boot) are not."""

    pid: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True)
class RestoreFile:
    file: Path
    owner: Owner
    made_unix_s: float
    changes: Sequence[Change]

    @classmethod
    def read(cls, path: Path) -> Self:
        """ValueError and its like for what is none."""
        table = json.loads(path.read_text(encoding="utf-8"))
        if table["schema"] != _SCHEMA:
            raise ValueError(f"schema {table['schema']}")
        changes = tuple(Change(**change) for change in table["changes"])
        for change in changes:
            # Replaying writes as root: never anywhere else than where settings are.
            if not change.path.startswith(_ALLOWED) or ".." in change.path.split("/"):
                raise ValueError(f"{change.path} is no setting")
        return cls(path, Owner(**table["owner"]), float(table["made_unix_s"]), changes)

    def change_of(self, path: str) -> Change | None:
        return next((change for change in self.changes if change.path == path), None)

    def remove(self) -> None:
        self.file.unlink(missing_ok=True)
        atomic_file.sync(self.file.parent)


def state_folder(root: Path = Path("/")) -> Path:
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


def this_process(root: Path = Path("/")) -> Owner:
    found = process_table.status(os.getpid(), root)
    return Owner(os.getpid(), found.start_ticks if found is not None else 0, _boot_id(root))


def is_alive(owner: Owner, root: Path = Path("/")) -> bool:
    """Whether that very process still runs; a zombie does not."""
    found = process_table.status(owner.pid, root)
    is_same = found is not None and found.is_alive and found.start_ticks == owner.start_ticks
    return is_same and owner.boot_id == _boot_id(root)


def _living(folder: Path, root: Path) -> list[RestoreFile]:
    return [file for file in _read_all(folder)[0] if is_alive(file.owner, root)]


def _read_all(folder: Path) -> tuple[list[RestoreFile], list[Path]]:
    """All restore files, oldest first, and those that cannot be read."""
    good, bad = [], []
    for path in sorted(folder.glob(_PATTERN)):
        try:
            good.append(RestoreFile.read(path))
        except FileNotFoundError:
            continue  # its run has ended just now
        except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
            bad.append(path)
    return sorted(good, key=lambda file: file.made_unix_s), bad


def _boot_id(root: Path) -> str:
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
