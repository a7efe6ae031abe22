"""Targets that are no device: a file, fully written with incompressible data before it is loaded, a folder, nothing.

A file that ioassay did not make may be read, never written without consent. Fills are idempotent: a complete file of
ours that is large enough is used as it is, an interrupted fill is started again. In a folder each trial gets a new,
empty one, which is removed with all that it holds when the trial has ended; nothing that was there before is touched.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ioassay import debug_log, units
from ioassay.errors import RunError, SafetyRefusal, StudyError
from ioassay.host.block_devices import ROOT, FileId, file_id
from ioassay.process import supervisor
from ioassay.records.record import Warning_
from ioassay.roles import NOTHING, READ, WRITE, Consent, Footprint, Load, Trial
from ioassay.targets import filesystem, fill, ownership_mark, safety
from ioassay.targets.target_table import FileSettings, FolderSettings, Settings, SimpleTarget, read_settings

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NullTarget(SimpleTarget):
    kind = "null"

    def __init__(self, spec: Mapping[str, Any], consent: Consent, *, root: Path = ROOT) -> None:
        read_settings(Settings, spec)

    @contextmanager
    def load(self, trial: Trial) -> Iterator[Load]:
        yield Load(kind=self.kind, path=None, size_bytes=0, read_only=False)


class FileTarget:
    """A file, by its path and size."""

    kind = "file"

    def __init__(self, spec: Mapping[str, Any], consent: Consent, *, root: Path = ROOT) -> None:
        self._settings = read_settings(FileSettings, spec)
        self._path = safety.resolve(self._settings.path)
        self._consent = consent
        self._root = root
        self._writes = False
        self._identity: FileId | None = None
        self._is_own = False
        self._to_renew = False

    def inspect(self, access: str) -> Sequence[Warning_]:
        """What can be said before it is touched. SafetyRefusal: not ours to load. StudyError: cannot be made."""
        if access == NOTHING:
            return ()
        self._writes = self._writes or access == WRITE
        path = self._path
        if path.is_block_device():
            raise SafetyRefusal(f"{path}: refused, nothing was written: a block device; say kind = 'device' to load it")
        if path.is_dir():
            raise SafetyRefusal(f"{path}: refused: a folder; name a file in it, such as {path / 'testfile'}")
        if path.exists() and not path.is_file():
            raise SafetyRefusal(f"{path}: refused, nothing was written: neither a file nor missing; name a file")
        filesystem.require_real(path, self._root)
        making = self._must_make()
        folder, is_new = path.parent, making and not path.exists()
        if not folder.is_dir():
            raise StudyError(f"{path}: its folder {folder} does not exist; make it first", key="target.path")
        if not os.access(folder if is_new else path, os.W_OK if making or self._writes else os.R_OK):
            doing = f"make files in {folder}" if is_new else f"load {path}"
            raise StudyError(f"no permission to {doing}; choose another path or another user", key="target.path")
        if path.exists() and (self._writes or making):
            found = safety.inspect_file(path, WRITE, self._consent, self._root)
        elif path.exists():
            found = self._inspect_for_reading()
        else:
            found = filesystem.warnings(path, self._root)
        if making:
            filesystem.require_room(path, self._size_bytes(), self._root)
        if making and not self._writes and self._settings.prepare == "none":
            found.append(safety.unwritten_warning(path, "prepare = 'none' leaves it unwritten"))
        return found

    def prepare(self, access: str, progress: Callable[[str, float], None]) -> Sequence[Warning_]:
        """Make and fill the file, if that is still to do. RunError when the disk fills up on the way."""
        if access == NOTHING:
            return ()
        inspected = file_id(self._path)
        warnings = self.inspect(access)
        debug_log.info("targets", f"{self._path}: {'to be filled' if self._must_make() else 'used as it is'}")
        if self._must_make():
            self._make(inspected, lambda share: progress(f"filling {self._path}", share))
            self._to_renew = False
        self._identity, self._is_own = file_id(self._path), self._ours()
        return warnings

    def renew(self) -> None:
        """See roles.Renewable: with `purge` only."""
        self._to_renew = self._settings.purge is not None

    def footprints(self) -> Sequence[Footprint]:
        """The file, as large as it is to be; nothing more where it is there."""
        return (Footprint(self._path, self._size_bytes() if self._must_make() else 0),)

    @contextmanager
    def load(self, trial: Trial) -> Iterator[Load]:
        """The file, after a look whether it is still the one that was prepared and nobody else has changed it."""
        size_bytes = self._size_bytes()
        if self._identity is not None:
            same = file_id(self._path) == self._identity and self._path.stat().st_size >= size_bytes
            # The number of an inode is soon given to another file; the mark of ours is not.
            if not same or (self._is_own and not self._ours()):
                raise RunError(
                    f"{self._path} was removed, replaced or cut short, or something else wrote to it, since it was "
                    f"prepared; expected the same file of {units.format_size(size_bytes)}. Let nothing else use it "
                    "(for fio: no unlink), and resume the run"
                )
        written_bytes = ownership_mark.read(self._path) if self._writes else None
        if written_bytes is not None:
            ownership_mark.write(self._path, written_bytes)
        try:
            yield Load(kind=self.kind, path=self._path, size_bytes=size_bytes, read_only=not self._writes)
        finally:
            if written_bytes is not None:
                ownership_mark.settle(self._path)

    def close(self) -> None:
        """Remove the file if the study says so and it is ours."""
        if not self._settings.keep:
            self._remove()

    def abandon(self) -> None:
        """As `close`: whether the file is ours is noted on the file, not here."""
        self.close()

    def _remove(self) -> None:
        # What was formatted or attached to a loop device since is somebody's, whoever made the file.
        if self._ours() and not safety.file_findings(self._path, self._root):
            self._path.unlink()
            ownership_mark.forget(self._path)

    def _ours(self) -> bool:
        return ownership_mark.read(self._path) is not None

    def _size_bytes(self) -> int:
        """The asked size; by default that of the file that is there."""
        if self._settings.size is not None:
            return self._settings.size
        if self._path.is_file() and (size_bytes := self._path.stat().st_size) > 0:
            return size_bytes
        raise StudyError("is missing; expected the size of the file to make, such as '1GiB'", key="target.size")

    def _must_make(self) -> bool:
        """True when the file has to be made, made longer or filled."""
        if not self._path.exists() or self._to_renew:
            return True
        size_bytes, written_bytes = self._path.stat().st_size, ownership_mark.read(self._path)
        wanted_bytes = self._size_bytes()
        if written_bytes is None:  # a user's own file that is only read, or that nothing is to prepare, stays as it is
            as_it_is = self._settings.prepare == "none" and size_bytes >= wanted_bytes
            return size_bytes == 0 or (self._writes and not as_it_is)
        if self._settings.prepare == "none":
            return size_bytes < wanted_bytes
        return min(written_bytes, size_bytes) < wanted_bytes or bool(safety.unwritten(self._path, wanted_bytes))

    def _inspect_for_reading(self) -> list[Warning_]:
        """A complete file of ours, or a user's own one, that is only read."""
        size_bytes = self._path.stat().st_size
        if self._size_bytes() > size_bytes:
            raise StudyError(
                f"{self._path} has {units.format_size(size_bytes)} and was not made by ioassay, so it is not made "
                f"longer; expected at most that, found {units.format_size(self._size_bytes())}",
                key="target.size",
            )
        what = safety.unwritten(self._path, self._size_bytes())
        if what and self._settings.prepare == "fill":
            raise SafetyRefusal(
                f"{self._path}: refused: {what}; reads of holes measure no disk, and ioassay does not fill a file that "
                "it did not make. Name a path that is not there yet (ioassay makes the file), write the file yourself, "
                "or say prepare = 'none' to read it as it is"
            )
        return safety.inspect_file(self._path, READ, self._consent, self._root)

    def _make(self, inspected: FileId | None, progress: Callable[[float], None]) -> None:
        handle = self._open(inspected)
        size_bytes = self._size_bytes()
        try:
            self._write(handle, size_bytes, progress)
        except OSError as error:
            self._remove()
            filled = f"{self._path}: {error.strerror} while it was filled"
            if error.errno not in _FULL:
                raise RunError(f"{filled}; the partial file was removed") from error
            free_bytes = filesystem.room(self._path.parent, self._root).free_bytes
            raise RunError(
                f"{filled} to {units.format_size(size_bytes)}; there was room before. The partial file was removed; "
                f"{units.format_size(free_bytes)} are free now. Make room, or choose a smaller size "
                "(--set target.size=…)"
            ) from error
        finally:
            os.close(handle)
            ownership_mark.settle(self._path)

    def _open(self, inspected: FileId | None) -> int:
        """Open our file, or make a new one. Never opens anything but what was inspected."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            handle = os.open(self._path, flags | (os.O_CREAT | os.O_EXCL if inspected is None else 0), 0o644)
        except OSError as error:
            raise RunError(f"{self._path}: cannot be made: {error.strerror}") from error
        status = os.fstat(handle)
        if inspected is not None and (status.st_dev, status.st_ino) != inspected:
            os.close(handle)
            raise SafetyRefusal(f"{self._path}: refused, nothing was written: it was replaced just now")
        return handle

    def _write(self, handle: int, wanted_bytes: int, progress: Callable[[float], None]) -> None:
        if not self._ours() or (self._to_renew and self._settings.purge == "discard"):
            os.ftruncate(handle, 0)
            ownership_mark.write(self._path)
        if self._settings.prepare == "none":
            os.ftruncate(handle, wanted_bytes)
            return
        written_bytes = ownership_mark.read(self._path) or 0
        ownership_mark.write(self._path, written_bytes)
        start_bytes = min(written_bytes, os.fstat(handle).st_size, wanted_bytes)
        if safety.unwritten(self._path, start_bytes):
            start_bytes = 0
        if isinstance(self._settings.prepare, int):
            for _ in range(self._settings.prepare):
                fill.fill(handle, 0, wanted_bytes, progress, fill.REQUEST_BYTES)
        else:
            fill.fill(handle, start_bytes, wanted_bytes, progress)
        # Only what has been flushed is marked as written: after a power cut the mark is never ahead of the data.
        ownership_mark.write(self._path, wanted_bytes)
        os.fsync(handle)


_PREFIX = ".ioassay-"
_CLEARED_S, _PAUSE_S = 15.0, 0.05
"""How long a killed runner's folder is tried to be removed, and how often."""


class FolderTarget(SimpleTarget):
    kind = "folder"

    def __init__(self, spec: Mapping[str, Any], consent: Consent, *, root: Path = ROOT) -> None:
        self._settings = read_settings(FolderSettings, spec)
        self._path = safety.resolve(self._settings.path)
        self._root = root

    def inspect(self, access: str) -> Sequence[Warning_]:
        """What can be said before it is touched. StudyError: no folder, no permission or no room."""
        if access == NOTHING:
            return ()
        path = self._path
        if not path.is_dir():
            what = "is no folder" if path.exists() else "no such folder"
            raise StudyError(f"{path}: {what}; expected a folder in which files can be made", key="target.path")
        filesystem.require_real(path / f"{_PREFIX}0", self._root)
        if not os.access(path, os.W_OK | os.X_OK):
            raise StudyError(f"no permission to make files in {path}; choose another path", key="target.path")
        if self._settings.size is not None:
            filesystem.require_room(path / f"{_PREFIX}0", self._settings.size, self._root)
        found = filesystem.warnings(path / f"{_PREFIX}0", self._root)
        return [Warning_(item.code, item.text.replace(f"/{_PREFIX}0", ""), item.remedy) for item in found]

    def footprints(self) -> Sequence[Footprint]:
        return (Footprint(self._path / f"{_PREFIX}0", self._settings.size or 0, lasting=False),)

    @contextmanager
    def load(self, trial: Trial) -> Iterator[Load]:
        """A new folder for one trial; an interrupted attempt's own one is removed first."""
        own = self._path / f"{_PREFIX}{trial.id}"
        self._remove(own)
        with supervisor.if_killed(lambda: self._clear(own)):  # before it is there, so that no kill leaves it behind
            try:
                own.mkdir(mode=0o700)
            except OSError as error:
                raise RunError(f"{own}: cannot be made: {error.strerror}; fix that and resume the run") from None
            try:
                yield Load(
                    kind=self.kind,
                    path=own,
                    size_bytes=self._size_bytes(),
                    read_only=False,
                    new_file=lambda name, size_bytes: fill.new_file(own / name, size_bytes),
                )
            finally:
                self._remove(own)

    def _size_bytes(self) -> int:
        room = filesystem.room(self._path, self._root)
        left_bytes = max(room.free_bytes - room.margin_bytes, 0)
        return left_bytes if self._settings.size is None else self._settings.size

    def _clear(self, own: Path) -> None:
        """For a runner that was killed: its tool is being ended, and makes files until it is."""
        give_up_s = time.monotonic() + _CLEARED_S
        while own.exists() and time.monotonic() < give_up_s:
            with suppress(OSError):
                self._remove(own)
            time.sleep(_PAUSE_S)

    def _remove(self, own: Path) -> None:
        """The folder of a trial: its name has the hash of the trial's content, and it lies nowhere else."""
        if own.is_symlink() or (own.exists() and not own.is_dir()):
            raise SafetyRefusal(f"{own}: refused: the name of a trial's folder, and something else; move it away")
        if not own.is_dir():
            return
        if own.stat().st_dev != self._path.stat().st_dev:
            raise SafetyRefusal(f"{own}: refused to remove it: something is mounted there; unmount it first")
        shutil.rmtree(own)
