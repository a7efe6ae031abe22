"""The target that is a simulated drive: served by a process of its own, new for each trial, gone after it.

It is reached as a file (FUSE), by NBD and by NVMe over TCP at once, so that each engine finds what it needs: a path, or
an address. As a `device` a loop device lies on the file, as a `folder` a file system on that; both need root. What the
drive itself counts is told beside what the tool claims (`Load.counted`). How it works: docs/virtual-drive.md.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, PositiveInt

from ioassay import virtual_drive
from ioassay.errors import ConditionError, InputError, StudyError, ToolError, UsageError
from ioassay.host.block_devices import ROOT
from ioassay.process.piped_child import PipedChild
from ioassay.records.record import Warning_
from ioassay.roles import NOTHING, Consent, Counted, Footprint, Load, Trial
from ioassay.simulator.simulation_options import NAMES
from ioassay.targets import block_stack, filesystem, fill, virtual_drive_process
from ioassay.targets.target_table import PositiveSize, Settings, read_settings
from ioassay.virtual_drive import control
from ioassay.virtual_drive import drive_options as described

_START_S = 120.0
"""A large drive is preconditioned and calibrated first."""
_END_S = 20.0
_DYING_S = 1.0
"""What a process takes to be gone, whose socket nobody answers any more."""
_WAYS = {"fuse": "fuse:{}/drive", "nbd": "nbd:unix:{}/nbd.sock", "nvme-tcp": "nvme-tcp:127.0.0.1:0"}
_SERVED = {"size", "block_size", "model", "poll", "pin", "keep_awake", "realtime"}
"""Settings that the drive has under the same names."""
_UNCALIBRATED = {
    "calibration-uncertain": "a transport's own time was measured while the machine was busy: the virtual drive's "
    "answers may have come before or after the model's time",
    "floor-unknown": "a transport's own time could not be measured: the virtual drive's answers came later than the "
    "model says",
}
"""Warnings of a served drive that concern what was measured on it. The numbers are in what it said of itself."""
_HELPER = "fusermount3"
_OWN_TAG = "a drive"
"""No trial's: what ends a tool's orphans is to leave the drive alone."""


class VirtualSettings(Settings):
    """A simulated drive. Beside these all options of a simulated drive and its buffer, by their names."""

    model_config = ConfigDict(extra="allow", frozen=True)
    kind: str = "virtual"
    size: PositiveSize
    model: str = "thesis"
    drive: str | None = None
    """A name or a file; single options override its own."""
    form: Literal["file", "device", "folder"] = "file"
    """What the path is: the file itself, a loop device on it, or a folder on a file system on that."""
    filesystem: Literal["ext4", "xfs", "btrfs"] = "ext4"
    """Of the folder."""
    ways: tuple[Literal["fuse", "nbd", "nvme-tcp"], ...] = ("fuse", "nbd", "nvme-tcp")
    """How it can be reached; each that is polled takes the others some of their time."""
    block_size: Literal[512, 4096] = 512
    precondition: float | str = "none"
    pin: PositiveInt | Literal[0] | None = None
    keep_awake: bool = False
    realtime: bool = False
    poll: Literal["adaptive", "always"] = "always"
    calibrate: bool = True


class VirtualTarget:
    """A drive for each trial. Implements `roles.Target`."""

    kind = "virtual"

    def __init__(self, spec: Mapping[str, Any], consent: Consent, *, root: Path = ROOT) -> None:
        self._settings = read_settings(VirtualSettings, spec)
        own = dict(self._settings.model_extra or {})
        for name in own:
            if name not in NAMES:
                raise StudyError(_unknown(name), key=f"target.{name}")
        try:
            self._model = {**described.of_drive(self._settings.drive), **own}
        except UsageError as error:
            raise StudyError(str(error), key="target.drive") from None
        try:
            self._used = described.is_used(self._settings.precondition)
        except UsageError as error:
            raise StudyError(str(error), key="target.precondition") from None
        try:
            described.described(self._model)
        except UsageError as error:
            raise StudyError(str(error), key="target") from None
        if self._settings.model not in virtual_drive.models():
            known = " or ".join(virtual_drive.models())
            raise StudyError(f"is '{self._settings.model}', wanted {known}", key="target.model")

    def inspect(self, access: str) -> Sequence[Warning_]:
        """Whether it can be made here: a warning where there is no root for a loop device. StudyError: no FUSE."""
        if access == NOTHING and self._settings.form == "file":
            return ()
        useless = described.unused(self._settings.model, self._model, self._settings.precondition)
        warnings = [Warning_("drive-option-unused", useless)] if useless else []
        if "fuse" in self._settings.ways and not os.access("/dev/fuse", os.R_OK | os.W_OK):
            raise StudyError("has 'fuse', and /dev/fuse cannot be used here", key="target.ways")
        if "fuse" in self._settings.ways and os.geteuid() and shutil.which(_HELPER) is None:
            said = f"has 'fuse', which takes {_HELPER} for users other than root; Debian has it in the package fuse3"
            raise StudyError(said, key="target.ways")
        if self._settings.form == "folder" and shutil.which(f"mkfs.{self._settings.filesystem}") is None:
            said = f"is '{self._settings.filesystem}', and mkfs.{self._settings.filesystem} is not installed"
            raise StudyError(said, key="target.filesystem")
        if self._settings.form != "file" and self._settings.realtime:
            said = "is set, and a loop device lies on the file, whose kernel threads would wait for the server; wanted"
            raise StudyError(f"{said} target.form = 'file'", key="target.realtime")
        if self._settings.form != "file" and "fuse" not in self._settings.ways:
            raise StudyError(f"a {self._settings.form} lies on the file; wanted 'fuse' among them", key="target.ways")
        return [*warnings, *([Warning_("will-be-skipped", text, "run as root")] if (text := self._missing()) else [])]

    def _missing(self) -> str:
        """What a trial would be skipped for."""
        form = self._settings.form
        return f"a virtual drive as a {form} takes root, for its loop device" if form != "file" and os.geteuid() else ""

    def prepare(self, access: str, progress: Callable[[str, float], None]) -> Sequence[Warning_]:
        """Nothing to make before a trial."""
        return self.inspect(access)

    def footprints(self) -> Sequence[Footprint]:
        """None: its content lies in memory."""
        return ()

    @contextmanager
    def load(self, trial: Trial) -> Iterator[Load]:
        """A new drive; ToolError when it cannot be served, ConditionError when that takes root."""
        if missing := self._missing():
            raise ConditionError(missing)
        with ExitStack() as stack:
            folder = stack.enter_context(block_stack.folder("ioassay-drive-"))
            server, told = stack.enter_context(_served(virtual_drive_process.command(self._description(folder))))
            path = Path(told["fuse"]) if "fuse" in told else None
            if path is not None and self._settings.form != "file":
                path = stack.enter_context(block_stack.looped(path, self._settings.block_size))
                if self._settings.form == "folder":
                    path = stack.enter_context(self._mounted(path, folder))
            stack.callback(_end_unless_it_answers, server, Path(told["stats"]))
            control.ask(Path(told["stats"]), "reset-stats")  # calibrating and making a file system are no part of it
            point = path if self._settings.form == "folder" else None
            yield Load(
                kind=self._settings.form,
                path=path,
                size_bytes=filesystem.fillable_bytes(point) if point else told["size_bytes"],
                read_only=False,
                new_file=_maker(point, Path(told["stats"])) if point else None,
                addresses={name: told[name] for name in ("nbd", "nvme_tcp", "nqn") if name in told},
                counted=lambda: _counted(server, told, past_cache=self._settings.form == "file"),
            )

    def _mounted(self, device: Path, folder: Path) -> AbstractContextManager[Path]:
        """A used drive stays one: what makes the file system does not trim it first."""
        return block_stack.mounted(device, self._settings.filesystem, folder, discard=not self._used)

    def close(self) -> None:
        """Each trial has given back what it took."""

    def abandon(self) -> None:
        """Each trial's drive is cleared on its own."""

    def _description(self, folder: Path) -> dict[str, Any]:
        """What is served. ToolError where it cannot be said."""
        wanted = self._settings
        of_model = dict(self._model)
        if str(of_model.get("policy", "none")) == "none":  # a level among others, which do have a buffer
            of_model.pop("buffer", None)
        try:
            return described.described(
                of_model,
                transports=[_WAYS[way].format(folder) for way in wanted.ways],
                stats_socket=folder / "stats.sock",
                precondition=wanted.precondition if self._used else None,
                calibrate=wanted.calibrate and wanted.model != "none",  # from which nothing could be taken off
                **wanted.model_dump(include=_SERVED, exclude_none=True),
            )
        except UsageError as error:
            raise ToolError(f"the virtual drive could not be served: {error}") from None


def _unknown(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, [*VirtualSettings.model_fields, *NAMES], 1)
    return f"unknown key; {f'did you mean {near[0]!r}?' if near else 'docs/targets.md lists the keys'}"


@contextmanager
def _served(argv: Sequence[str]) -> Iterator[tuple[PipedChild, dict[str, Any]]]:
    """A drive that is ready, and what it said of itself."""
    server = PipedChild(argv, _OWN_TAG)
    try:
        told = _ready(server)
        try:
            yield server, told
        finally:  # its file is unmounted when it ends by itself
            _stop(Path(told["stats"]))
            server.end(_END_S)
    finally:
        server.end()
        server.close()


def _ready(server: PipedChild) -> dict[str, Any]:
    ready, _, _ = select.select([server.answers], [], [], _START_S)
    line = server.answers.readline() if ready else b""
    try:
        told: dict[str, Any] = json.loads(line)
    except ValueError:
        server.end(1.0)
        said = server.said().strip().splitlines()
        told = {"error": said[-1].removeprefix("ioassay: ") if said else "it said nothing"}
    if "error" in told:
        raise ToolError(f"the virtual drive could not be served: {told['error']}")
    return told


def _maker(point: Path, socket: Path) -> Callable[[str, int], Path]:
    """What makes a file on the drive that was always there, as far as the drive's counts tell."""

    def make(name: str, size_bytes: int) -> Path:
        made = fill.new_file(point / name, size_bytes)
        control.ask(socket, "reset-stats")
        return made

    return make


def _end_unless_it_answers(server: PipedChild, socket: Path) -> None:
    """A drive that hangs would keep who unmounts what lies on it for ever; without it they get errors and go on."""
    try:
        control.ask(socket, "stats")
    except (InputError, ToolError):
        server.kill()


def _stop(socket: Path) -> None:
    try:
        control.ask(socket, "stop")
    except (InputError, ToolError):
        return  # it has ended by itself; what it counted was asked before


def _counted(server: PipedChild, told: Mapping[str, Any], *, past_cache: bool) -> Counted:
    """What the drive counted since the trial began, and what it is. ToolError: it ended before it was asked."""
    try:
        found = control.ask(Path(told["stats"]), "stats", buckets=True)["stats"]
    except InputError as error:
        raise ToolError(f"the virtual drive ended during the trial{_how(server) or f': {error}'}") from None
    kinds = dict.fromkeys(item["kind"] for item in told["warnings"])
    remedy = "measure when the machine is idle"
    warnings = [Warning_(kind, _UNCALIBRATED[kind], remedy) for kind in kinds if kind in _UNCALIBRATED]
    document, metrics = {"drive": dict(told), "counted": found}, control.metrics(found, told.get("page_bytes"))
    return Counted(document, metrics, past_cache, warnings)


def _how(server: PipedChild) -> str:
    """How it ended, and the last that it said; empty when it did not."""
    give_up_s = time.monotonic() + _DYING_S
    while (status := server.ended()) is None:
        if time.monotonic() > give_up_s:
            return ""
        time.sleep(0.01)
    said = server.said().strip().splitlines()
    how = f", killed by {signal.Signals(-status).name}" if status < 0 else f" with status {status}"
    return how + (f": {said[-1].removeprefix('ioassay: ')}" if said else "")
