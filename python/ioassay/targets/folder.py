"""The target that is a folder: for tools that make, read and remove files of their own.

Each trial gets a new, empty folder inside of it, which is removed with all that it holds when the trial has ended.
Nothing that was there before is read, written or removed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ioassay.errors import RunError, SafetyRefusal, StudyError
from ioassay.host.block_devices import ROOT
from ioassay.process import supervisor
from ioassay.records.record import Warning_
from ioassay.roles import NOTHING, Consent, Footprint, Load, Trial
from ioassay.targets import filesystem, fill, safety
from ioassay.targets.target_table import FolderSettings, read_settings

_PREFIX = ".ioassay-"
_CLEARED_S, _PAUSE_S = 15.0, 0.05
"""How long a killed runner's folder is tried to be removed, and how often."""


class FolderTarget:
    """A folder, by its path, and the room that a trial needs in it."""

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

    def prepare(self, access: str, progress: Callable[[str, float], None]) -> Sequence[Warning_]:
        """Nothing to make before a trial."""
        return self.inspect(access)

    def footprints(self) -> Sequence[Footprint]:
        """What a trial needs while it runs."""
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

    def close(self) -> None:
        """Each trial has given back what it took."""

    def abandon(self) -> None:
        """Each trial's folder is cleared on its own."""

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
        if own.is_dir():
            self._require_same_filesystem(own)
            shutil.rmtree(own)

    def _require_same_filesystem(self, own: Path) -> None:
        if own.stat().st_dev != self._path.stat().st_dev:
            raise SafetyRefusal(f"{own}: refused to remove it: something is mounted there; unmount it first")
