"""The target that is a block device. Written only after `safety` has looked at its whole family, and claimed then.

A study that only reads opens nothing for writing and fills nothing. Before the first write everything is looked at
again; before each trial, that the same device is still behind the path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ioassay import units
from ioassay.errors import RunError, SafetyRefusal, StudyError
from ioassay.host.block_devices import ROOT, Device
from ioassay.records.record import Warning_
from ioassay.roles import NOTHING, WRITE, Consent, Load, Trial
from ioassay.targets import device_users, fill, occupancy, purge, safety
from ioassay.targets.target_table import DeviceSettings, SimpleTarget, read_settings


class DeviceTarget(SimpleTarget):
    kind = "device"

    def __init__(
        self, spec: Mapping[str, Any], consent: Consent, *, root: Path = ROOT, state: Path = fill.STATE
    ) -> None:
        self._settings = read_settings(DeviceSettings, spec)
        self._path = safety.resolve(self._settings.path)
        self._consent = consent
        self._root = root
        self._state = state
        self._writes = False
        self._claimed = False
        self._to_renew = False
        self._seen: Device | None = None

    def inspect(self, access: str) -> Sequence[Warning_]:
        """What can be said before it is touched. SafetyRefusal: in use, or holds data. StudyError: does not fit."""
        if access == NOTHING:
            return ()
        path = self._path
        if not path.exists():
            raise StudyError(f"{path} does not exist; expected a block device such as /dev/sdb", key="target.path")
        if not path.is_block_device():
            raise StudyError(f"{path} is no block device; say kind = 'file' for a file", key="target.path")
        device = safety.require_device(path, self._root)
        if device.size_bytes == 0:
            raise StudyError(f"{path} has no medium: its size is 0", key="target.path")
        self._writes = self._writes or access == WRITE
        warnings = safety.inspect_device(path, WRITE if self._writes else access, self._consent, self._root)
        if self._settings.size is not None and self._settings.size > device.size_bytes:
            shown = units.format_size
            raise StudyError(
                f"{path} has {shown(device.size_bytes)} ({device.size_bytes} bytes); expected at most that, found "
                f"{shown(self._settings.size)}; leave it out for the whole device",
                key="target.size",
            )
        if not os.access(path, os.R_OK | (os.W_OK if self._writes else 0)):
            raise StudyError(f"{path}: no permission to load it; run as root", key="target.path")
        if self._writes and self._settings.purge is not None:
            purge.require(self._settings.purge, device, path)
        return warnings

    def renew(self) -> None:
        """See roles.Renewable: with `purge` only."""
        self._to_renew = self._settings.purge is not None

    def prepare(self, access: str, progress: Callable[[str, float], None]) -> Sequence[Warning_]:
        """Look again, claim it and fill it, where it is written at all. RunError when the drive refuses."""
        if access == NOTHING:
            return ()
        with occupancy.announced(progress):
            warnings = self.inspect(access)
        seen = self._seen = safety.require_device(self._path, self._root)
        if self._writes:
            if not self._claimed:
                device_users.take(seen.number, self._path)
                self._claimed = True
            if self._to_renew and self._settings.purge is not None:
                progress(f"purging {self._path} ({self._settings.purge})", 0.0)
                purge.purge(self._settings.purge, seen, self._path)
                fill.forget(seen, self._state)
                self._to_renew = False
            wanted = self._settings.prepare
            fills = wanted if isinstance(wanted, int) else {"fill": 1, "none": 0}[wanted]
            for number in range(1, fills + 1):
                if fill.times(seen, self._size_bytes(seen), self._state) < number:
                    text = f"filling {self._path}" + (f" ({number} of {fills})" if fills > 1 else "")
                    self._fill(seen, number, partial(progress, text))
        return warnings

    @contextmanager
    def load(self, trial: Trial) -> Iterator[Load]:
        """The device, after a look whether it is still the one that was prepared."""
        now = safety.require_device(self._path, self._root) if self._path.exists() else None
        if self._seen is not None and now != self._seen:
            raise RunError(
                f"{self._path} is another device than before: found {_identity(now)}, expected "
                f"{_identity(self._seen)}; connect it again and resume the run"
            )
        yield Load(kind=self.kind, path=self._path, size_bytes=self._size_bytes(now), read_only=not self._writes)

    def close(self) -> None:
        if self._claimed and self._seen is not None:
            device_users.give_back(self._seen.number)
        self._claimed = False

    def _size_bytes(self, device: Device | None) -> int:
        return self._settings.size or (device.size_bytes if device is not None else 0)

    @property
    def _request_bytes(self) -> int:
        return fill.CHUNK_BYTES if self._settings.purge is None else fill.REQUEST_BYTES

    def _fill(self, device: Device, number: int, progress: Callable[[float], None]) -> None:
        size_bytes = self._size_bytes(device)
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            try:
                if os.fstat(handle).st_rdev != os.makedev(*device.number):
                    raise SafetyRefusal(f"{self._path}: refused, nothing was written: it leads to another device now")
                fill.fill(handle, 0, size_bytes, progress, self._request_bytes)
            finally:
                os.close(handle)
        except OSError as error:
            why = f"{error.strerror} while it was filled; the kernel's log (dmesg) says more"
            raise RunError(f"{self._path}: {why}") from error
        fill.note(device, size_bytes, number, self._state)


def _identity(device: Device | None) -> str:
    if device is None:
        return "nothing"
    return f"{device.name} ({device.number}, {device.size_bytes} bytes, diskseq {device.diskseq})"
