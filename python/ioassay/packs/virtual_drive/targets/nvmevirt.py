"""The target that is a drive of NVMeVirt: its kernel module, loaded with reserved memory for each trial, and unloaded.

The module is the user's own build, which decides what kind of drive it is. Looked at first is what it must not take:
memory that is not reserved, a module that somebody else loaded. What trials load is only the device that appeared with
it, has its model and fits into its memory. The module goes after the trial, also where the run is killed, unless
something has the drive in use. NVMeVirt: Kim et al., FAST '23; names and messages as in its main.c and admin.c.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from ioassay import units
from ioassay.errors import ConditionError, IoassayError, RunError, SafetyRefusal, StudyError, ToolError
from ioassay.host import block_devices
from ioassay.host.block_devices import ROOT, Device
from ioassay.packs.virtual_drive.targets import nvme_host
from ioassay.process import supervisor
from ioassay.process.supervisor import Captured
from ioassay.records.record import Warning_
from ioassay.roles import NOTHING, Consent, Load, Trial
from ioassay.targets import device_users, fill, occupancy, safety
from ioassay.targets.target_table import PositiveSize, Settings, SimpleTarget, UserPath, read_settings

NAME = "nvmev"
"""Of the module, whatever its file is called."""
MODEL = "CSL_Virt_MN_"
_CREATED = ("NVMeVirt: Virtual NVMe device created", "NVMeVirt: Successfully created Virtual NVMe deivce")
"""What it says when it is ready; the second, with its slip, in older builds."""
_PROGRAMS = ("insmod", "rmmod", "dmesg")
_APPEARS_S, _COMMAND_S, _FREE_S = 20.0, 60.0, 10.0
_LEAST_BYTES = 2**20
"""It keeps so much for itself."""
_REASONS = {
    "Invalid module format": "it was built for another kernel; build it against this one's headers (make)",
    "Key was rejected": "this kernel takes only signed modules; sign it, or switch Secure Boot off",
    "Required key not available": "this kernel takes only signed modules; sign it, or switch Secure Boot off",
    "Operation not permitted": "this kernel is locked down, or its memory is not reserved",
    "Unknown symbol": "it was built for another kernel; build it against this one's headers (make)",
    "File exists": "a module of that name is loaded already; rmmod it if it is yours",
}

Capture = Callable[[Sequence[str]], Captured]


class NvmevirtSettings(Settings):
    kind: str = "nvmevirt"
    module: UserPath
    memmap_start: PositiveSize
    memmap_size: Annotated[PositiveSize, Field(gt=_LEAST_BYTES)]
    cpus: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=2)]
    """The first dispatches, the others do the requests."""
    form: str = ""
    """nvme-character: the character device. Others have no effect."""
    ways: Any = None
    size: Any = None
    model: Any = None
    calibrate: Any = None
    prefault: Any = None
    """Without effect: a study of a virtual drive is one of NVMeVirt when its kind is changed."""
    prepare: Literal["fill", "none"] = "fill"


class NvmevirtTarget(SimpleTarget):
    """A drive that the kernel has for the length of a trial. Implements `roles.Target`."""

    kind = "nvmevirt"

    def __init__(
        self, spec: Mapping[str, Any], consent: Consent, *, root: Path = ROOT, capture: Capture | None = None
    ) -> None:
        self._settings = read_settings(NvmevirtSettings, spec)
        self._consent = consent
        self._root = root
        self._capture = capture or (lambda argv: supervisor.capture(argv, timeout_s=_COMMAND_S))
        self._is_real = capture is None
        if len(set(self._settings.cpus)) < len(self._settings.cpus):
            raise StudyError(f"are {list(self._settings.cpus)}; expected each once", key="target.cpus")

    def inspect(self, access: str) -> Sequence[Warning_]:
        """What can be said before it is loaded. SafetyRefusal: somebody else loaded it. StudyError: it cannot be.
        ToolError: what loads it is missing.
        """
        if access == NOTHING:
            return ()
        if self._is_real and os.geteuid():
            raise StudyError("loads a kernel module, which requires root; run as root", key="target.kind")
        wanted = self._settings
        if not wanted.module.is_file():
            raise StudyError(f"{wanted.module} is no file; expected the nvmev.ko that you built", key="target.module")
        self._require_not_loaded()
        if lack := memory_lack(wanted.memmap_start, wanted.memmap_size, self._root):
            memory = f"{units.format_size(wanted.memmap_size)} at {units.format_size(wanted.memmap_start)}"
            raise StudyError(f"{memory}: {lack}", key="target.memmap_start")
        online = _processors(self._root / "sys/devices/system/cpu/online")
        if missing_cpus := [cpu for cpu in wanted.cpus if cpu not in online]:
            raise StudyError(f"{', '.join(map(str, missing_cpus))}: no such processor is on here", key="target.cpus")
        if self._is_real and (missing := [name for name in _PROGRAMS if shutil.which(name) is None]):
            raise ToolError(f"{' and '.join(missing)}: not found; install them (Debian: kmod, util-linux)")
        isolated = _processors(self._root / "sys/devices/system/cpu/isolated")
        shared = [cpu for cpu in wanted.cpus if cpu not in isolated]
        which = f"processor{'s' if len(shared) > 1 else ''} {','.join(map(str, shared))}"
        boot = f"boot with isolcpus={','.join(map(str, wanted.cpus))}"
        text = f"the drive's {which}: other programs may run there: {boot}, or its times are disturbed"
        return [Warning_("processors-not-isolated", text)] if shared else []

    @contextmanager
    def load(self, trial: Trial) -> Iterator[Load]:
        """A new drive. ToolError: it did not come, or is another one. SafetyRefusal: its memory holds something."""
        self._require_not_loaded()
        before = {device.name for device in block_devices.disks(self._root)}
        log = self._log()
        wanted = self._settings
        options = [f"memmap_start={wanted.memmap_start}", f"memmap_size={wanted.memmap_size}"]
        options.append(f"cpus={','.join(map(str, wanted.cpus))}")
        done = self._capture(["insmod", str(wanted.module.absolute()), *options])
        if done.timed_out or done.exit_code:  # then nothing is loaded, or what is loaded is not ours to unload
            raise ToolError(f"{wanted.module} could not be loaded: {_why(done)}{_said(self._since(log))}")

        def unload_quietly() -> None:
            """After a kill, when nobody is there who could be told; the next run says that it is still loaded."""
            with suppress(IoassayError, OSError):
                self._unload(before)

        with supervisor.if_killed(unload_quietly):
            try:
                path, device = self._awaited(before, log)
                with ExitStack() as stack:
                    self._take(path, device, stack)
                    yield Load("device", self._form_of(path), device.size_bytes, read_only=False)
            finally:
                self._unload(before)

    def _require_not_loaded(self) -> None:
        try:
            loaded = self._is_loaded()
        except OSError:
            raise StudyError("this kernel loads no modules (no /proc/modules)", key="target.kind") from None
        if loaded:
            text = f"the module {NAME} is loaded already, by somebody else: refused, and left as it is"
            raise SafetyRefusal(f"{text}; if its drive is not needed any more: rmmod {NAME}")

    def _is_loaded(self) -> bool:
        lines = (self._root / "proc/modules").read_text().splitlines()
        return any(line.split(" ", 1)[0] == NAME for line in lines)

    def _awaited(self, before: set[str], log: list[str]) -> tuple[Path, Device]:
        """The one drive that came with the module, with a size that fits its memory, once the kernel's log says so."""
        give_up_s = time.monotonic() + _APPEARS_S
        while True:
            said = self._since(log)
            came = self._ours(before)
            if len(came) > 1:
                names = ", ".join(f"/dev/{device.name}" for device in came)
                raise ToolError(f"{names} came with the module; expected one drive: build it with one namespace")
            if path := block_devices.node_of(came[0], self._root) if came else None:
                size_bytes, most_bytes = came[0].size_bytes, self._settings.memmap_size
                if not 0 < size_bytes <= most_bytes:
                    most = f"expected at most its memory, {units.format_size(most_bytes)}"
                    seen = f"{units.format_size(size_bytes)}; {most}"
                    raise ToolError(f"{path} came with the module, and has {seen}: not its drive, and not touched")
                if any(created in line for line in said for created in _CREATED):
                    return path, came[0]
            if time.monotonic() > give_up_s:
                lack = "did not say in the kernel's log that its drive is there" if path else "made no drive"
                raise ToolError(f"{self._settings.module} was loaded and {lack} within {_APPEARS_S:.0f} s{_said(said)}")
            time.sleep(0.05)

    def _ours(self, before: set[str]) -> list[Device]:
        came = (device for device in block_devices.disks(self._root) if device.name not in before)
        return [device for device in came if safety.model(device).startswith(MODEL)]

    def _form_of(self, path: Path) -> Path:
        """The block device, or the character device beside it (/dev/nvme1n1, /dev/ng1n1)."""
        if self._settings.form != "nvme-character":
            return path
        character = path.with_name(path.name.replace("nvme", "ng", 1))
        if not character.exists():
            raise ConditionError(nvme_host.NO_CHARACTER)
        return character

    def _take(self, path: Path, device: Device, stack: ExitStack) -> None:
        """Claim it; fill it, so that reads find pages that were written: the model answers others at once."""
        if found := occupancy.signatures(path):
            texts = [device_users.Finding(f"{path} holds {one}, from when it was last loaded", False) for one in found]
            names = safety.consent_names(device, self._root)
            safety.refuse_unless_consented(f"{path} (NVMeVirt, {device.name})", texts, names, self._consent)
        device_users.take(device.number, path)
        stack.callback(device_users.give_back, device.number)
        if self._settings.prepare == "fill":
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fill.fill(handle, 0, device.size_bytes, lambda share: None)
            except OSError as error:
                raise ToolError(f"{path}: {error.strerror} while it was filled; dmesg says more") from None
            finally:
                os.close(handle)

    def _unload(self, before: set[str]) -> None:
        """RunError where something has its drive in use, or the kernel does not let it go. Nothing when it is gone."""
        give_up_s = time.monotonic() + _FREE_S
        while self._is_loaded():
            using: list[str] = []  # mounts, programs, whatever the kernel holds its drive for
            for device in self._ours(before):
                if path := block_devices.node_of(device, self._root):
                    family = device_users.family(device, path, self._root)
                    seen = [use for use in device_users.uses(family) if use.in_use] or device_users.claimed(family)
                    using += [use.text for use in seen if use.in_use]
            if not using:
                done = self._capture(["rmmod", NAME])
                if not done.exit_code and not done.timed_out:
                    return
                using = [_why(done)]
            if time.monotonic() > give_up_s:
                raise RunError(
                    f"the module {NAME} stays loaded: {'; '.join(using)}; end that, then: rmmod {NAME}, and resume"
                )
            time.sleep(0.1)

    def _log(self) -> list[str]:
        done = self._capture(["dmesg"])
        if done.exit_code or done.timed_out:
            raise ToolError(f"the kernel's log cannot be read, so no drive is trusted: {_why(done)}")
        return done.stdout.splitlines()

    def _since(self, log: list[str]) -> list[str]:
        """The kernel's lines since `log`, whose beginning may be lost by now."""
        now = self._log()
        if now[: len(log)] == log:
            return now[len(log) :]
        if log[-1] in now:
            return now[len(now) - now[::-1].index(log[-1]) :]
        return now


def _why(done: Captured) -> str:
    if done.timed_out:
        return f"it timed out after {_COMMAND_S:.0f} s"
    text = (done.stderr or done.stdout).strip() or f"it ended with status {done.exit_code}"
    known = next((reason for sign, reason in _REASONS.items() if sign in text), "")
    return f"{text}: {known}" if known else text


def _said(lines: Sequence[str]) -> str:
    own = [line.partition("NVMeVirt: ")[2] for line in lines if "NVMeVirt: " in line]
    return f"; it says: {' / '.join(own[-4:])}" if own else ""


_SUFFIXES = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50, "e": 2**60}
_AFTER = "add it to the kernel's command line (in GRUB_CMDLINE_LINUX, where $ is written \\\\\\$), and boot again"


def memory_lack(start_bytes: int, size_bytes: int, root: Path = ROOT) -> str:
    """Why that memory cannot be had, with the boot line to add; empty when it is reserved for it."""
    wanted = f"memmap={_short(size_bytes)}${_short(start_bytes)}"
    end_bytes = start_bytes + size_bytes
    ours = [(start, end) for start, end in reserved_regions(root) if start <= start_bytes and end_bytes <= end]
    there = [(start, end, kind) for start, end, kind in regions(root) if start < end_bytes and start_bytes < end]
    kinds = sorted({kind for _, _, kind in there})
    reserved = [(start, end) for start, end, kind in there if kind.lower() == "reserved"]
    covered = any(start <= start_bytes and end_bytes <= end for start, end in reserved)
    if ours and covered:
        return ""
    if ours:
        found = ", ".join(kinds) or "nothing"
        return f"{wanted} is on the command line, but /proc/iomem has {found} there; choose memory that the machine has"
    said = [word for word in _words(root) if word.startswith("memmap=")]
    beside = f"; found {' '.join(said)}" if said else ""
    if said and not any("$" in word for word in said):
        beside += ", whose $ the boot loader took for its own"
    return f"the kernel was not told to leave this memory alone: expected {wanted} at boot{beside}; {_AFTER}"


def regions(root: Path = ROOT) -> list[tuple[int, int, str]]:
    """Start, end (exclusive) and kind of each region that lies in no other; without root all addresses are 0."""
    found = []
    for line in (root / "proc/iomem").read_text().splitlines():
        span, separator, kind = line.partition(" : ")
        if separator and not line.startswith(" "):
            first, _, last = span.partition("-")
            found.append((int(first, 16), int(last, 16) + 1, kind.strip()))
    return found


def reserved_regions(root: Path = ROOT) -> Iterator[tuple[int, int]]:
    """Start and end (exclusive) of each region that the command line reserves: `memmap=SIZE$START`."""
    for word in _words(root):
        for part in word.removeprefix("memmap=").split(",") if word.startswith("memmap=") else ():
            size, separator, start = part.partition("$")
            size_bytes, start_bytes = _number(size), _number(start)
            if separator and size_bytes is not None and start_bytes is not None:
                yield start_bytes, start_bytes + size_bytes


def _words(root: Path) -> list[str]:
    return (root / "proc/cmdline").read_text(errors="replace").split()


def _number(text: str) -> int | None:
    """As memparse() of lib/cmdline.c reads it; None for anything else."""
    match = re.fullmatch(r"(0x[0-9a-f]+|[0-9]+)([kmgtpe]?)", text.lower())
    return None if match is None else int(match[1], 0 if "x" in match[1] else 10) * _SUFFIXES.get(match[2], 1)


def _short(size_bytes: int) -> str:
    """512M, 1G: as the kernel reads it."""
    unit = next((name for name in "gmk" if size_bytes and size_bytes % _SUFFIXES[name] == 0), "")
    return f"{size_bytes // _SUFFIXES.get(unit, 1)}{unit.upper()}"


def _processors(path: Path) -> frozenset[int]:
    """A list such as `0-3,6` (cpulist of the kernel); empty where there is none."""
    try:
        text = path.read_text().strip()
    except OSError:
        return frozenset()
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
