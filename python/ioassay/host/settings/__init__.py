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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from ioassay.host.settings import restore_file, tunables
from ioassay.host.settings.restore_file import Change, RestoreFile
from ioassay.host.settings.rollback import CHANGED, GONE, REBOOTED, REFUSED, UNREADABLE, Restored, put_back, sentences
from ioassay.host.settings.tunables import NO_GOVERNOR, Knob
from ioassay.records.record import Warning_

__all__ = ["KEEP", "NO_GOVERNOR", "HostSettings", "Restored", "drop_caches", "leftovers", "replay", "restore_all"]

KEEP = "keep"
RESTORE_COMMAND = "ioassay doctor --restore"
AS_ROOT = 'sudo "$(command -v ioassay)"'
"""Starts this program as root: sudo does not look in a user's own folders, where pipx and uv put commands."""


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
        governor = tunables.governor_knobs(self._governor, self._root) if self._governor != KEEP else iter(())
        for found in (*governor, *tunables.scheduler_knobs(self._schedulers, self._root)):
            if isinstance(found, Warning_):
                self.warnings.append(found)
            else:
                yield found

    def _permitted(self, wanted: Sequence[Knob]) -> list[Knob]:
        allowed = [knob for knob in wanted if tunables.is_writable(knob.path, self._root)]
        denied = [knob for knob in wanted if knob not in allowed and self._differs(knob) and not knob.follows]
        for name, knob in {knob.path.rpartition("/")[2]: knob for knob in denied}.items():
            present = tunables.present(knob.path, self._root)
            text = f"{name} stays '{present}' instead of '{knob.value}': this user may not write {knob.path}"
            self.warnings.append(Warning_("settings-not-permitted", text, "run as root (with sudo)"))
        return allowed

    def _differs(self, knob: Knob) -> bool:
        return tunables.present(knob.path, self._root) != knob.value

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
        present = tunables.present(knob.path, self._root)
        if present is None or present == knob.value:
            return None
        return Change(knob.path, present, knob.value, knob.follows)

    def _apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.follows or tunables.present(change.path, self._root) == change.new:
                continue
            try:
                tunables.put(change.path, change.new, self._root)
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
            restored = _replay_one(file, living, root, force)
            done += restored
            if not any(one.action == REFUSED for one in restored):
                restore_file.remove(file)
    for path in unreadable:
        done.append(Restored(str(path), UNREADABLE))
        if force:
            path.unlink(missing_ok=True)
    return done


def _replay_one(file: RestoreFile, living: Sequence[RestoreFile], root: Path, force: bool) -> list[Restored]:
    if not restore_file.is_of_this_boot(file.owner, root):
        return [Restored(change.path, REBOOTED, change.old, change.new) for change in file.changes]
    return put_back(file, living, root, force)


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
        tunables.put(path, "3", root)
    except OSError as error:
        text = f"the page cache was not dropped: {path}: {error.strerror}"
        sealed = "a container cannot: drop them on its host, or run it with --privileged"
        return Warning_("caches-not-dropped", text, sealed if error.errno == errno.EROFS else "run as root (with sudo)")
    return None


def _living(folder: Path, root: Path) -> list[RestoreFile]:
    files, _ = restore_file.read_all(folder)
    return [file for file in files if restore_file.is_alive(file.owner, root)]
