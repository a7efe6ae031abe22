"""Host settings of a run: changed for its duration, put back however it ends.

    with HostSettings(governor="performance") as settings:
        ...                                   # settings.warnings: what could not be had

Normal end, exception, Ctrl-C and SIGTERM (which the runner turns into exceptions) put back at once. After SIGKILL the
restore file that was made durable before the first change is left; the next run, or `ioassay doctor --restore`,
replays it. Runs at the same time nest: each remembers the value from before the first, and the last one puts it back.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ioassay.host.settings import restore_file
from ioassay.host.settings.restore_file import Change, RestoreFile
from ioassay.records.record import Warning_

__all__ = ["KEEP", "NO_GOVERNOR", "HostSettings", "Restored", "drop_caches", "leftovers", "replay", "restore_all"]

KEEP = "keep"
RESTORE_COMMAND = "ioassay doctor --restore"
AS_ROOT = 'sudo "$(command -v ioassay)"'
"""Starts this program as root: sudo does not look in a user's own folders, where pipx and uv put commands."""

_CPUFREQ = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq"
_EPP = "energy_performance_preference"

NO_GOVERNOR = Warning_(
    "no-governor",
    "this kernel gives no control over the processors' clock (no cpufreq; usual in virtual machines), "
    "so it may vary during a run",
    "repeat on the bare machine, or set its governor to performance on the host of this virtual machine",
)


class HostSettings:
    """A context: inside it the host is set as asked, as far as that is possible; `warnings` says what was not.

    `governor` is set on every processor (KEEP: left alone); `schedulers` maps a disk's kernel name to its I/O
    scheduler. `state` is where the restore file lies. Raises nothing for what is not permitted.
    """

    def __init__(
        self,
        governor: str = "performance",
        schedulers: Mapping[str, str] | None = None,
        *,
        root: Path = Path("/"),
        state: Path | None = None,
    ) -> None:
        self.warnings: list[Warning_] = []
        self._governor = governor
        self._schedulers = schedulers or {}
        self._root = root
        self._state = state or restore_file.state_folder(root)
        self._file: RestoreFile | None = None

    def __enter__(self) -> Self:
        wanted = self._permitted(list(self._wanted()))
        # All as wanted, and no folder in which another run could have said that it made it so: nothing to do.
        if self._state.is_dir() or any(self._differs(knob) for knob in wanted if not knob.follows):
            try:
                with restore_file.locked(self._state):
                    self._change(wanted)
            except OSError as error:
                # Without a restore file nothing is changed: what cannot be put back for sure is left alone.
                text = f"host settings are left as they are: no restore file can be kept in {self._state}: {error}"
                self.warnings.append(Warning_("settings-unrecorded", text, "make that folder writable"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            with restore_file.locked(self._state):
                self._put_back(self._file)
            self._file = None

    def _wanted(self) -> Iterator[Knob]:
        """What is asked for, as knobs; what this machine does not have becomes a warning."""
        governor = governor_knobs(self._governor, self._root) if self._governor != KEEP else iter(())
        for found in (*governor, *scheduler_knobs(self._schedulers, self._root)):
            if isinstance(found, Warning_):
                self.warnings.append(found)
            else:
                yield found

    def _permitted(self, wanted: Sequence[Knob]) -> list[Knob]:
        allowed = [knob for knob in wanted if is_writable(knob.path, self._root)]
        denied = [knob for knob in wanted if knob not in allowed and self._differs(knob) and not knob.follows]
        for name, knob in {knob.path.rpartition("/")[2]: knob for knob in denied}.items():
            present = read_value(knob.path, self._root)
            text = f"{name} stays '{present}' instead of '{knob.value}': this user may not write {knob.path}"
            self.warnings.append(Warning_("settings-not-permitted", text, "run as root (with sudo)"))
        return allowed

    def _differs(self, knob: Knob) -> bool:
        return read_value(knob.path, self._root) != knob.value

    def _change(self, wanted: Sequence[Knob]) -> None:
        """Under the lock: note what is there, make that durable, then change."""
        left = replay(self._state, self._root)
        if left:
            text = f"a run that was killed had left settings changed: {'; '.join(sentences(left))}"
            self.warnings.append(Warning_("settings-restored", text))
        living = _living(self._state, self._root)
        changes = [change for knob in wanted if (change := self._as_change(knob, living)) is not None]
        if all(change.follows for change in changes):
            return
        self._file = restore_file.write(self._state, changes, self._root)
        try:
            self._apply(changes)
        except BaseException:
            self._put_back(self._file)
            raise

    def _as_change(self, knob: Knob, living: Sequence[RestoreFile]) -> Change | None:
        """None when it is as wanted and nobody else holds it. Original values are those from before the first run."""
        for file in living:
            if (held := file.change_of(knob.path)) is not None:
                return Change(knob.path, held.old, knob.value, knob.follows)
        present = read_value(knob.path, self._root)
        if present is None or present == knob.value:
            return None
        return Change(knob.path, present, knob.value, knob.follows)

    def _apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.follows or read_value(change.path, self._root) == change.new:
                continue
            try:
                put(change.path, change.new, self._root)
            except OSError as error:
                text = f"{change.path} stays '{change.old}' instead of '{change.new}': {error.strerror}"
                self.warnings.append(Warning_("setting-refused", text))

    def _put_back(self, file: RestoreFile) -> None:
        others = [other for other in _living(self._state, self._root) if other.file != file.file]
        restored = put_back(file, others, self._root)
        if troubles := [one for one in restored if one.action in (CHANGED, GONE, REFUSED)]:
            refused = any(one.action == REFUSED for one in troubles)
            text = f"settings that were not put back: {'; '.join(sentences(troubles))}"
            self.warnings.append(Warning_("settings-not-restored", text, RESTORE_COMMAND if refused else ""))
        if not any(one.action == REFUSED for one in restored):
            restore_file.remove(file)


def restore_all(force: bool = False, *, root: Path = Path("/"), state: Path | None = None) -> list[str]:
    """Put back what killed runs left changed; a sentence for each setting, none when there was nothing to do.

    Files of runs that still live are left to them. `force`: also put back what somebody changed since, and remove
    restore files that cannot be read. OSError when the state folder cannot be used.
    """
    folder = state or restore_file.state_folder(root)
    if not folder.is_dir():
        return []
    with restore_file.locked(folder):
        return sentences(replay(folder, root, force))


def replay(folder: Path, root: Path, force: bool = False) -> list[Restored]:
    """The work of `restore_all`, under the lock: newest file first, so that the oldest original value wins."""
    restore_file.remove_unfinished(folder)
    files, unreadable = restore_file.read_all(folder)
    living = [file for file in files if restore_file.is_alive(file.owner, root)]
    done: list[Restored] = []
    for file in reversed(files):
        if file not in living:
            if restore_file.is_of_this_boot(file.owner, root):
                restored = put_back(file, living, root, force)
            else:
                restored = [Restored(each.path, REBOOTED, old=each.old, new=each.new) for each in file.changes]
            done += restored
            if not any(one.action == REFUSED for one in restored):
                restore_file.remove(file)
    for path in unreadable:
        done.append(Restored(str(path), UNREADABLE))
        if force:
            path.unlink(missing_ok=True)
    return done


def leftovers(root: Path = Path("/"), state: Path | None = None) -> list[Path]:
    """Restore files whose run is gone: its settings are still changed. Changes nothing."""
    folders = {state} if state else {restore_file.state_folder(root), root / "run/ioassay"}
    found = []
    for folder in sorted(folders):
        files, unreadable = restore_file.read_all(folder)
        found += [file.file for file in files if not restore_file.is_alive(file.owner, root)] + unreadable
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


def _living(folder: Path, root: Path) -> list[RestoreFile]:
    files, _ = restore_file.read_all(folder)
    return [file for file in files if restore_file.is_alive(file.owner, root)]


# The files that settings are. Every path is the machine's own (`/sys/…`); the root is added when it is touched


@dataclass(frozen=True)
class Knob:
    """One setting and the value that is wanted; `follows` as in `restore.Change`."""

    path: str
    value: str
    follows: bool = False


def read_value(path: str, root: Path) -> str | None:
    """The value now; of a file that shows its choices, the one in brackets. None when it cannot be read."""
    try:
        text = inside(path, root).read_text(errors="replace").partition("\n")[0].strip()
    except OSError:
        return None
    chosen = re.search(r"\[([^]]*)\]", text)
    return chosen[1] if chosen else text


def put(path: str, value: str, root: Path) -> None:
    """Write a value, in one call, as the kernel wants it; OSError as the kernel gives it. Never creates a file."""
    descriptor = os.open(inside(path, root), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, f"{value}\n".encode())
    finally:
        os.close(descriptor)


def is_writable(path: str, root: Path) -> bool:
    """Whether this user may write it (false for root too where /sys is read-only, as in most containers)."""
    return os.access(inside(path, root), os.W_OK)


def inside(path: str, root: Path) -> Path:
    """A path of the machine below the injected root."""
    return root / path.lstrip("/")


def governor_knobs(governor: str, root: Path) -> Iterator[Knob | Warning_]:
    """The governor of every processor, and what its driver changes along with it; or why it cannot be had."""
    folders = sorted(root.glob(_CPUFREQ.lstrip("/")))
    governors = [folder for folder in folders if (folder / "scaling_governor").exists()]
    if not governors:
        yield NO_GOVERNOR
        return
    offered = (read_value(_outside(governors[0] / "scaling_available_governors", root), root) or governor).split()
    if governor not in offered:
        yield Warning_(
            "governor-unavailable",
            f"the governor '{governor}' is not among those of this machine: {', '.join(offered)}",
        )
        return
    for folder in governors:
        yield Knob(_outside(folder / "scaling_governor", root), governor)
    # With the governor performance, amd-pstate and intel_pstate set this one to performance too, and amd-pstate
    # leaves it there afterwards (drivers/cpufreq/amd-pstate.c). It can be put back only after the governor was.
    for folder in governors if governor == "performance" else ():
        if (folder / _EPP).exists():
            yield Knob(_outside(folder / _EPP, root), "performance", follows=True)


def scheduler_knobs(schedulers: Mapping[str, str], root: Path) -> Iterator[Knob | Warning_]:
    """The I/O scheduler of each named disk; or why it cannot be had."""
    for disk, scheduler in schedulers.items():
        path = f"/sys/block/{disk.replace('/', '!')}/queue/scheduler"
        offered = _offered(inside(path, root))
        if scheduler in offered:
            yield Knob(path, scheduler)
        else:
            known = ", ".join(offered) or "none: it has no request queue of its own"
            yield Warning_("scheduler-unavailable", f"{disk} has no I/O scheduler '{scheduler}'; it offers {known}")


def _outside(path: Path, root: Path) -> str:
    return f"/{path.relative_to(root)}"


def _offered(file: Path) -> list[str]:
    """The choices that a file shows; none where there is no such file, or none any more."""
    try:
        return file.read_text().replace("[", "").replace("]", "").split()
    except OSError:
        return []


# Putting back. A setting that another living run wants too stays as that run wants it: it knows the original value and
# comes last. A setting whose value is no longer the one we set was changed by somebody else meanwhile: it is left, and
# that is said

RESTORED = "restored"
ALREADY = "already"
HELD = "held"
CHANGED = "changed"
GONE = "gone"
REFUSED = "refused"
REBOOTED = "rebooted"
UNREADABLE = "unreadable"

_SAID = {
    RESTORED: "put back to '{old}'",
    ALREADY: "is '{old}' already",
    HELD: "left at '{present}': another run that is still going on wants it, and will put '{old}' back",
    CHANGED: "left at '{present}': somebody changed it after it was set to '{new}' (it was '{old}' before)",
    GONE: "is not there any more (it was '{old}')",
    REFUSED: "could not be put back to '{old}': {reason}",
    REBOOTED: "was reset by a reboot (it was '{old}')",
    UNREADABLE: "is no restore file that can be read; nothing was put back from it",
}


@dataclass(frozen=True)
class Restored:
    """What became of one setting. `action` is one of the words above."""

    path: str
    action: str
    present: str = ""
    reason: str = ""
    old: str = ""
    new: str = ""

    def text(self, path: str = "") -> str:
        """One sentence, about `path` instead of this one's where it stands for several."""
        return f"{path or self.path}: " + _SAID[self.action].format(**vars(self))


def put_back(file: RestoreFile, others: Sequence[RestoreFile], root: Path, force: bool = False) -> list[Restored]:
    """Put back every change of `file`; `others` are the restore files of the runs that still live, oldest first.

    `force`: also where somebody changed the value since.
    """
    return [Restored(each.path, *_put_back(each, others, root, force), each.old, each.new) for each in file.changes]


def _put_back(change: Change, others: Sequence[RestoreFile], root: Path, force: bool) -> tuple[str, str, str]:
    """What became of a setting, the value that it has now, and why it was refused."""
    present = read_value(change.path, root)
    if present is None:
        return GONE, "", ""
    wanted = change.old
    holder = next((held for other in reversed(others) if (held := other.change_of(change.path))), None)
    if holder is not None:
        if holder.new in (present, change.new):
            return HELD, present, ""
        wanted = holder.new
    if present == wanted:
        return ALREADY, present, ""
    if present != change.new and not force:
        return CHANGED, present, ""
    try:
        put(change.path, wanted, root)
    except OSError as error:
        return REFUSED, present, error.strerror or str(error)
    return RESTORED if holder is None else HELD, wanted, ""


def sentences(restored: Iterable[Restored]) -> list[str]:
    """One sentence for each kind of outcome: the same setting of 64 processors is one, not 64."""
    groups: dict[str, list[Restored]] = {}
    for one in restored:
        pattern = re.sub(r"\d+", "*", one.path)
        groups.setdefault(one.text(pattern), []).append(one)
    return [group[0].text() if len(group) == 1 else f"{text} ({len(group)} files)" for text, group in groups.items()]
