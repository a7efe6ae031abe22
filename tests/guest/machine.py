"""A machine by software emulation, with a real kernel in it that is a client of the drive.

Nothing is emulated fast: what it is good for is whether a kernel and the drive understand each other. A boot takes 9 s
of CPU time, so guests that differ in their scripts only go on from the saved state of one, in half a second.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import initramfs, kernel, scripts
from .kernel import Kernel

QEMU = "qemu-system-x86_64"
LIMIT_S = 900.0
"""A guest of these tests takes 20 to 60 s on an idle machine."""

ENDED = "GUEST: ended with 0"
READY = "GUEST: ready"
PROGRAMS = ("nvme", "dd", "blkdiscard", "blkzone", "mkfs.xfs", "fio")
"""Of the host: nvme-cli, coreutils, util-linux, xfsprogs and fio, for what busybox cannot do."""
MODULES = (*kernel.NVME_TCP, *kernel.EXT4, *kernel.XFS, *kernel.ZONEFS)

NETWORK = ("-netdev", "user,id=net", "-device", "e1000,netdev=net,romfile=")

_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a guest has, and how long its tests may take."""

    processors: int = 2
    memory: str = "768M"
    boot_words: str = ""
    """Further words of the kernel's command line."""
    limit_s: float = LIMIT_S


@dataclass(frozen=True, slots=True)
class Guest:
    """A machine that runs."""

    process: subprocess.Popen[bytes]
    console: Path
    give_up_s: float

    def said(self) -> str:
        """All that its console said so far."""
        return self.console.read_text(errors="replace")

    def wait_for(self, text: str) -> None:
        """Until its console says `text`. Errors: RuntimeError when it has ended before, TimeoutError."""
        while text not in self.said():
            if self.process.poll() is not None and text not in self.said():
                raise RuntimeError(f"the guest ended without '{text}':\n{self.said()}")
            self.look_again()

    def tell(self, line: str, end: str = "\n") -> None:
        """What its console reads."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}{end}".encode())
        self.process.stdin.flush()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It does nothing meanwhile, as a host that hangs."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def wait(self) -> str:
        """Until it has ended by itself: what its console said. Errors: TimeoutError."""
        while self.process.poll() is None:
            self.look_again()
        return self.said()

    def look_again(self) -> None:
        """A moment later. Errors: TimeoutError."""
        if time.monotonic() > self.give_up_s:
            raise TimeoutError(f"the guest took too long:\n{self.said()}")
        time.sleep(_LOOK_S)


@contextmanager
def running(
    linux: Kernel,
    script: str,
    modules: Sequence[str],
    arguments: Sequence[str],
    folder: Path,
    programs: Sequence[str] = (),
    hardware: Hardware = Hardware(),
) -> Iterator[Guest]:
    """A guest that runs `script`, which may use `programs` of this host. At the end it is killed if it still runs."""
    files = folder / "initramfs.cpio"
    files.write_bytes(initramfs.archive(script, linux.files(modules), programs))
    with _machine(linux, files, arguments, folder, hardware) as guest:
        yield guest


@contextmanager
def _machine(
    linux: Kernel, files: Path, arguments: Sequence[str], folder: Path, hardware: Hardware = Hardware()
) -> Iterator[Guest]:
    console = folder / "console"
    # On a busy machine the emulated timer is late, which the kernel would take for a broken one and panic.
    boot_line = f"console=ttyS0 quiet panic=-1 no_timer_check {hardware.boot_words}"
    size = ("-smp", str(hardware.processors), "-m", hardware.memory)
    command = [
        *(QEMU, "-cpu", "max", *size, "-nographic", "-vga", "none", "-no-reboot"),
        *("-kernel", str(linux.image), "-initrd", str(files), "-append", boot_line),
        *arguments,
    ]
    with console.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True)
        try:
            yield Guest(process, console, time.monotonic() + hardware.limit_s)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@contextmanager
def restored(linux: Kernel, script: str, folder: Path, shared: Path) -> Iterator[Guest]:
    """A guest with a network that runs `script`: it goes on from a state in `shared`, saved by whoever came first."""
    state = shared / "guest"
    state.mkdir(exist_ok=True)
    with (state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (state / "saved").exists():
            _save(linux, state)
    saved = ("-incoming", f"exec:cat {shlex.quote(str(state / 'saved'))}")
    monitor = folder / "monitor"
    arguments = (*NETWORK, *_monitor(monitor), *saved)
    with _machine(linux, state / "initramfs.cpio", arguments, folder) as guest:
        while _ask(guest, monitor, "query-status")["status"] != "running":
            guest.look_again()
        guest.tell(str(len(script.encode())))
        guest.tell(script, end="")
        yield guest


def _save(linux: Kernel, state: Path) -> None:
    """Boots a guest until it awaits its script, and saves it."""
    saving, monitor = state / "saving", state / "monitor"
    files = linux.files(MODULES)
    (state / "initramfs.cpio").write_bytes(initramfs.archive(scripts.text("await"), files, PROGRAMS))
    with _machine(linux, state / "initramfs.cpio", (*NETWORK, *_monitor(monitor)), state) as guest:
        guest.wait_for(READY)
        _ask(guest, monitor, "migrate-set-parameters", **{"max-bandwidth": 10**10})
        _ask(guest, monitor, "migrate", uri=f"exec:cat >{shlex.quote(str(saving))}")
        while (told := _ask(guest, monitor, "query-migrate"))["status"] != "completed":
            assert told["status"] != "failed", told
            guest.look_again()
    saving.rename(state / "saved")


def _monitor(path: Path) -> tuple[str, str]:
    return "-qmp", f"unix:{path},server=on,wait=off"


def _ask(guest: Guest, path: Path, command: str, **words: Any) -> dict[str, Any]:
    """What qemu's monitor answers (QEMU Machine Protocol)."""
    with socket.socket(socket.AF_UNIX) as connection:
        while connection.connect_ex(str(path)):  # it is not there yet, or nobody listens yet
            guest.look_again()
        with connection.makefile("rw") as lines:
            lines.readline()
            for each in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": words}):
                lines.write(json.dumps(each))
                lines.flush()
                while "event" in (told := json.loads(lines.readline())):
                    pass
    answer: dict[str, Any] = told["return"]
    return answer
