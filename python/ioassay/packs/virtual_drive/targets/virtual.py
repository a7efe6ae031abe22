"""The target that is a simulated drive: served by a process of its own, new for each trial, gone after it.

It is reached as a file (FUSE), by NBD and by NVMe over TCP at once, so that each engine finds what it needs: a path, or
an address. As a `device` a loop device lies on the file, as a `folder` a file system on that. As `nvme` the kernel
itself connects to it (`nvme_host`). All of these need root. What the drive itself counts is told beside what the tool
claims (`Load.counted`). How it works: docs/virtual-drive.md.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, PositiveInt

from ioassay import _core
from ioassay.errors import ConditionError, InputError, StudyError, ToolError, UsageError
from ioassay.hints import document, suggestion
from ioassay.host import process_capabilities
from ioassay.host.block_devices import ROOT
from ioassay.host.process_capabilities import SYS_ADMIN
from ioassay.packs.virtual_drive import drive_options, served_drive, serving
from ioassay.packs.virtual_drive.targets import nvme_host
from ioassay.process import supervisor
from ioassay.process.piped_child import PipedChild
from ioassay.records.record import WILL_BE_SKIPPED, Warning_
from ioassay.roles import NOTHING, Consent, Counted, Load, StepCounter, Trial
from ioassay.simulation.options import NAMES, of_key
from ioassay.targets import filesystem, fill
from ioassay.targets.target_table import PositiveSize, Settings, SimpleTarget, read_settings

_DYING_S = 10.0
"""What a process takes to be gone, whose socket nobody answers any more."""
_WAYS = {"fuse": "fuse:{}/drive", "nbd": "nbd:unix:{}/nbd.sock", "nvme-tcp": "nvme-tcp:127.0.0.1:0"}
_SERVED = {"size", "block_size", "model", "zones", "poll", "pin", "keep_awake", "realtime"}
"""Settings that the drive has under the same names."""
_UNCALIBRATED = {
    "calibration-uncertain": "a transport's own time was measured while the machine was busy: the virtual drive's "
    "answers may have come before or after the model's time",
    "floor-unknown": "a transport's own time could not be measured: the virtual drive's answers came later than the "
    "model says",
}
"""Warnings of a served drive that concern what was measured on it. The numbers are in what it said of itself."""
_ON_FILE = ("device", "folder")
_CONNECTED = ("nvme", "nvme-character")
"""Forms that lie on the drive's file, and those that the kernel connects to."""
_FUSE, _HELPER = "/dev/fuse", "fusermount3"
"""No trial's: what ends a tool's orphans is to leave the drive alone."""


class VirtualSettings(Settings):
    """A simulated drive. Beside these all options of a simulated drive and its buffer, by their names."""

    model_config = ConfigDict(extra="allow", frozen=True)
    kind: str = "virtual"
    size: PositiveSize
    model: Annotated[str, BeforeValidator(drive_options.model_name)] = "reference"
    drive: str | None = None
    """A name or a file; single options override its own."""
    form: Literal["file", "device", "folder", "nvme", "nvme-character", "kernel"] = "file"
    """What the path is: the file itself, a loop device on it, a folder on a file system on that, or the block or
    character device that the kernel has of it by NVMe/TCP. kernel: nvme where the kernel can, else file."""
    filesystem: Literal["ext4", "xfs", "btrfs"] = "ext4"
    """Of the folder."""
    ways: tuple[Literal["fuse", "nbd", "nvme-tcp"], ...] | None = None
    """How it can be reached; each that is polled takes the others some of their time. None: what the form takes."""
    block_size: Literal[512, 4096] = 512
    precondition: float | str = "none"
    zones: str | None = None
    """Of a zoned drive, as of `device serve`. Only NVMe over TCP knows them."""
    pin: PositiveInt | Literal[0] | None = None
    keep_awake: bool = False
    realtime: bool = False
    poll: Literal["adaptive", "always"] = "always"
    calibrate: bool | None = None
    """None: where the model has a time that the transports' own is taken off."""
    prefault: bool | None = None
    """Whether all memory is allocated before the load. None: where no model's time hides what a first write takes."""
    faults: str = "none"
    """A file with faults, which each trial has from its beginning on."""


class VirtualTarget(SimpleTarget):
    """A drive for each trial. Implements `roles.Target`."""

    kind = "virtual"

    def __init__(self, spec: Mapping[str, Any], consent: Consent, *, root: Path = ROOT) -> None:
        self._settings = read_settings(VirtualSettings, spec)
        own = dict(self._settings.model_extra or {})
        for name in own:
            if name not in NAMES:
                hint = suggestion(
                    name, [*VirtualSettings.model_fields, *NAMES], document("targets") + " lists the keys"
                )
                raise StudyError(f"unknown key; {hint}", key=f"target.{name}")
        with of_key("target.drive"):
            self._model = {**drive_options.of_drive(self._settings.drive), **own}
        with of_key("target.precondition"):
            self._used = drive_options.is_used(self._settings.precondition)
        with of_key("target"):
            drive_options.described(self._model)
        models = dict(_core.device_models())
        if self._settings.model not in models:
            raise StudyError(f"is '{self._settings.model}', expected {' or '.join(models)}", key="target.model")

        self._faults = _planned(self._settings.faults)
        self._root = root
        if (zones := self._settings.zones) is not None:
            if tuple(self._ways) != ("nvme-tcp",):
                said = "has zones, which only NVMe over TCP knows; expected target.ways = ['nvme-tcp']"
                raise StudyError(said, key="target.zones")
            with of_key("target.zones"):
                drive_options.zones(zones)

    @cached_property
    def _form(self) -> str:
        if self._settings.form != "kernel":
            return self._settings.form
        return "file" if nvme_host.lack(self._root) else "nvme"

    @property
    def _ways(self) -> Sequence[str]:
        if self._form in _CONNECTED:
            return ("nvme-tcp",) if self._settings.ways is None else self._settings.ways
        return self._settings.ways or (("fuse",) if self._settings.form == "kernel" else tuple(_WAYS))

    def inspect(self, access: str) -> Sequence[Warning_]:
        """Whether it can be made here: a warning where there is no root for a loop device. StudyError: no FUSE."""
        if access == NOTHING and self._settings.form == "file":
            return ()
        useless = drive_options.unused(self._settings.model, self._model, self._settings.precondition)
        warnings = [Warning_("drive-option-unused", useless)] if useless else []
        by_fuse, of_files, kind = "fuse" in self._ways, self._form in _ON_FILE, self._settings.filesystem
        found = "run as root (with sudo)" if Path(_FUSE).exists() else "load the module of the kernel: modprobe fuse"
        remedy = process_capabilities.fuse_obstacle() or found
        helped = f"has 'fuse', which takes {_HELPER} for users other than root; Debian has it in the package fuse3"
        waits = "is set, and a loop device lies on the file, whose kernel threads would wait for the server"
        connects = "the kernel connects to the drive by NVMe/TCP; expected 'nvme-tcp' among them"
        unusable = f"has 'fuse', and {_FUSE} cannot be used here: {remedy}"
        for holds, key, said in (
            (by_fuse and not os.access(_FUSE, os.R_OK | os.W_OK), "ways", unusable),
            (by_fuse and os.geteuid() and shutil.which(_HELPER) is None, "ways", helped),
            (
                self._settings.form == "folder" and shutil.which(f"mkfs.{kind}") is None,
                "filesystem",
                f"is '{kind}', and mkfs.{kind} is not installed",
            ),
            (of_files and self._settings.realtime, "realtime", f"{waits}; expected target.form = 'file'"),
            (of_files and not by_fuse, "ways", f"a {self._form} lies on the file; expected 'fuse' among them"),
            (self._form in _CONNECTED and "nvme-tcp" not in self._ways, "ways", connects),
        ):
            if holds:
                raise StudyError(said, key=f"target.{key}")
        missing, remedy = self._missing()
        return [*warnings, *([Warning_(WILL_BE_SKIPPED, missing, remedy)] if missing else [])]

    def _missing(self) -> tuple[str, str]:
        """What a trial would be skipped for, and the remedy; '' where it can be made."""
        if self._form in _CONNECTED:
            lack = nvme_host.lack(self._root)
            return (f"target.form = '{self._settings.form}': {lack}" if lack else ""), ""
        if self._form in _ON_FILE and (os.geteuid() or not process_capabilities.is_held(SYS_ADMIN)):
            text = f"a virtual drive as a {self._form} requires root, for its loop device"
            return text, process_capabilities.remedy(SYS_ADMIN, options="--privileged")
        if "fuse" in self._ways and (remedy := process_capabilities.fuse_obstacle()):
            return "a virtual drive by FUSE has to be mounted", remedy
        return "", ""

    @contextmanager
    def load(self, trial: Trial) -> Iterator[Load]:
        """A new drive; ToolError when it cannot be served, ConditionError when that takes what is not here."""
        missing, remedy = self._missing()
        if missing:
            raise ConditionError(f"{missing}; {remedy}" if remedy else missing)
        with ExitStack() as stack:
            folder = stack.enter_context(served_drive.folder("ioassay-drive-"))
            server, (told,) = stack.enter_context(serving.served([self._description(folder)]))
            path = Path(told["fuse"]) if "fuse" in told else None
            if path is not None and self._form in _ON_FILE:
                path = stack.enter_context(_looped(path, self._settings.block_size))
                if self._form == "folder":
                    # A used drive stays one: what makes the file system does not trim it first.
                    made = _mounted(path, self._settings.filesystem, folder, discard=not self._used)
                    path = stack.enter_context(made)
            if self._form in _CONNECTED:
                subsystem = nvme_host.Subsystem(told["nvme_tcp"], told["nqn"], drive_options.SERIAL, told["size_bytes"])
                connected = stack.enter_context(nvme_host.connected(subsystem, self._root))
                path = connected.block if self._form == "nvme" else connected.character
                if path is None:
                    raise ConditionError(nvme_host.NO_CHARACTER)
            socket = Path(told["stats"])

            def end_unless_it_answers() -> None:
                """A drive that hangs would keep who unmounts what lies on it for ever; without it they get errors."""
                try:
                    serving.ask(socket, "stats")
                except (InputError, ToolError):
                    server.kill()

            def new_file(name: str, size_bytes: int) -> Path:
                """A file on the drive that was always there, as far as the drive's counts tell."""
                assert path is not None
                _forgive(socket)  # faults are the trial's
                made = fill.new_file(path / name, size_bytes)
                begin()
                return made

            def step_metrics(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, float]:
                return serving.metrics_between(before["stats"], after["stats"], told.get("page_bytes"))

            def begin() -> None:
                """What the drive counts, and how it misbehaves, begins now. ToolError: it cannot have such a fault."""
                serving.ask(socket, "fault-clear")
                serving.ask(socket, "reset-stats")
                if self._faults:
                    serving.ask(socket, "fault-inject", faults=self._faults)

            stack.callback(end_unless_it_answers)
            stack.callback(_forgive, socket)
            begin()  # calibrating and making a file system are no part of it
            is_folder = path is not None and self._form == "folder"
            began_s, used_s = time.monotonic(), server.processor_s()
            yield Load(
                kind="device" if self._form in _CONNECTED else self._form,
                path=path,
                size_bytes=filesystem.fillable_bytes(path) if path and is_folder else told["size_bytes"],
                read_only=False,
                new_file=new_file if is_folder else None,
                addresses={name: told[name] for name in ("nbd", "nvme_tcp", "nqn") if name in told},
                counted=lambda: self._counted(server, told, began_s, used_s),
                step_counter=StepCounter(socket, json.dumps({"request": "stats"}), step_metrics),
            )

    def _counted(self, server: PipedChild, told: Mapping[str, Any], began_s: float, used_s: float) -> Counted:
        """What the drive counted since the trial began, and what it is. ToolError: it ended before it was asked.

        `used_s`: the processor time that it had by then.
        """
        used_percent = 100 * (server.processor_s() - used_s) / max(time.monotonic() - began_s, 1e-9)
        try:
            found = serving.ask(Path(told["stats"]), "stats", buckets=True)["stats"]
        except InputError as error:
            raise ToolError(f"the virtual drive ended during the trial{_how(server) or f': {error}'}") from None
        metrics = serving.metrics(found, told.get("page_bytes")) | {"drive.cpu": used_percent}
        metrics["drive.block_device"] = float(self._form in ("device", *_CONNECTED))
        floors_ns = [way["floor_ns"] for way in told.get("ways", ()) if way.get("floor_ns")]
        if len(floors_ns) == 1:  # of several, the load takes any
            metrics["drive.floor"] = float(floors_ns[0])
        past_cache = self._form in ("file", "nvme-character")
        # Model none has no time that its answers could miss.
        kinds = dict.fromkeys(item["kind"] for item in told["warnings"]) if self._settings.model != "none" else {}
        remedy = "measure when the machine is idle"
        warnings = [Warning_(kind, _UNCALIBRATED[kind], remedy) for kind in kinds if kind in _UNCALIBRATED]
        return Counted({"drive": dict(told), "counted": found}, metrics, past_cache, warnings)

    def _description(self, folder: Path) -> dict[str, Any]:
        wanted = self._settings
        of_model = dict(self._model)
        if str(of_model.get("policy", "none")) == "none":  # a level among others, which do have a buffer
            of_model.pop("buffer", None)
        try:
            return drive_options.described(
                of_model,
                transports=[_WAYS[way].format(folder) for way in self._ways],
                stats_socket=folder / "stats.sock",
                precondition=wanted.precondition if self._used else None,
                profile=drive_options.profile(wanted.drive),
                # From model none nothing is taken off: there it is measured only where a study wants to know it.
                calibrate=wanted.model != "none" if wanted.calibrate is None else wanted.calibrate,
                prefault=wanted.model == "none" if wanted.prefault is None else wanted.prefault,
                **wanted.model_dump(include=_SERVED, exclude_none=True),
            )
        except UsageError as error:
            raise ToolError(f"the virtual drive could not be served: {error}") from None


def _planned(file: str) -> list[dict[str, Any]]:
    """The faults of a file. StudyError for what is wrong in it, and for what would keep a trial from its end."""
    if file == "none":
        return []
    with of_key("target.faults"):
        faults = drive_options.read_faults(Path(file))
    if any(fault["kind"] == "stuck" and "for_us" not in fault for fault in faults):
        said = f"{file}: a fault 'stuck' without 'for' would keep a trial from its end; expected for how long"
        raise StudyError(said, key="target.faults")
    return faults


def _forgive(socket: Path) -> None:
    """Ends all faults: a command that is stuck would block the unmounting of what lies on the drive."""
    with suppress(InputError, ToolError):
        serving.ask(socket, "fault-clear")


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


# What is laid on the file of a drive: a loop device, and a file system on that. Neither outlives the runner, however
# that ends: a loop device goes with its last user (LO_FLAGS_AUTOCLEAR).

_POINT = "mounted"
# Without it ext4 initialises its tables in the background once it is mounted, which is when trials run (mke2fs(8)).
_AT_ONCE = "lazy_itable_init=0,lazy_journal_init=0"
_MADE = {"ext4": ["-q", "-F", "-E", _AT_ONCE], "xfs": ["-q", "-f"], "btrfs": ["-q", "-f"]}
_KEEPING = {"ext4": ["-q", "-F", "-E", f"{_AT_ONCE},nodiscard"], "xfs": ["-q", "-f", "-K"], "btrfs": ["-q", "-f", "-K"]}
_PATIENCE_S = 60.0
# linux/loop.h: struct loop_config is fd, block size, struct loop_info64 of 232 bytes, and 64 reserved bytes.
_LOOP_CONFIGURE, _LOOP_CTL_GET_FREE = 0x4C0A, 0x4C82
_AUTOCLEAR, _DIRECT_IO = 4, 16
_CONFIG = "=II5Q4I64s112x64x"
_NAME_BYTES = 63
_TRIES = 16


@contextmanager
def _looped(file: Path, block_bytes: int) -> Iterator[Path]:
    """A loop device on a file, by direct I/O, with blocks of that size. ToolError where there is none to be had."""
    try:
        handle, device = _attached(file, block_bytes)
    except OSError as error:
        raise ToolError(f"a loop device on the virtual drive failed: {error.strerror}") from None
    try:
        yield device
    finally:
        os.close(handle)


@contextmanager
def _mounted(block: Path, filesystem: str, within: Path, *, discard: bool = True) -> Iterator[Path]:
    """A new file system on a device, mounted in that folder. ToolError with what the tools said.

    Unless it may `discard`, what the device holds stays as it is: a drive that was trimmed from end to end is as new.
    """
    how = (_MADE if discard else _KEEPING)[filesystem]
    _run([f"mkfs.{filesystem}", *how, str(block)], f"an {filesystem} file system")
    point = within / _POINT
    point.mkdir()
    _run(["mount", "-t", filesystem, str(block), str(point)], "the mount")
    try:
        yield point
    finally:
        if supervisor.capture(["umount", str(point)], timeout_s=_PATIENCE_S).exit_code:
            served_drive.detach(point)  # a drive that was killed, or a program that is still in it


def _attached(file: Path, block_bytes: int) -> tuple[int, Path]:
    """A free loop device that is set up, held open: it is given back with its last descriptor."""
    handle = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        name = os.fsencode(file)[:_NAME_BYTES]
        config = struct.pack(_CONFIG, handle, block_bytes, *[0] * 8, _AUTOCLEAR | _DIRECT_IO, name)
        for _ in range(_TRIES):
            device = Path(f"/dev/loop{fcntl.ioctl(control, _LOOP_CTL_GET_FREE)}")
            held = os.open(device, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(held, _LOOP_CONFIGURE, config)
                return held, device
            except OSError as error:
                os.close(held)
                if error.errno != errno.EBUSY:  # somebody was faster
                    raise
        raise OSError(errno.EBUSY, "all that were free were taken by others")
    finally:
        os.close(control)
        os.close(handle)


def _run(argv: Sequence[str], what: str) -> None:
    done = supervisor.capture(argv, timeout_s=_PATIENCE_S)
    if done.timed_out:
        raise ToolError(f"{what} on the virtual drive was not made within {_PATIENCE_S:.0f} s: {' '.join(argv)}")
    if done.exit_code:
        raise ToolError(f"{what} on the virtual drive failed: {(done.stderr or done.stdout).strip()[:200]}")
