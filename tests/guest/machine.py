"""A machine by software emulation, with a real kernel in it that is a client of the drive.

Nothing is emulated fast: what it is good for is whether a kernel and the drive understand each other.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import initramfs
from .kernel import Kernel

QEMU = "qemu-system-x86_64"
LIMIT_S = 900.0
"""A guest of these tests takes 20 to 60 s on an idle machine."""

ENDED = "GUEST: ended with 0"
HOST = "10.0.2.2"
"""The host's loopback, as a guest of qemu's user network sees it."""

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
            self._look_again()

    def tell(self, line: str) -> None:
        """What its console reads."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
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
            self._look_again()
        return self.said()

    def _look_again(self) -> None:
        if time.monotonic() > self.give_up_s:
            raise TimeoutError(f"the guest took too long:\n{self.said()}")
        time.sleep(_LOOK_S)


@contextmanager
def running(
    kernel: Kernel,
    script: str,
    modules: Sequence[str],
    arguments: Sequence[str],
    folder: Path,
    programs: Sequence[str] = (),
    hardware: Hardware = Hardware(),
) -> Iterator[Guest]:
    """A guest that runs `script`, which may use `programs` of this host. At the end it is killed if it still runs."""
    files, console = folder / "initramfs.cpio", folder / "console"
    files.write_bytes(initramfs.archive(script, kernel.files(modules), programs))
    # On a busy machine the emulated timer is late, which the kernel would take for a broken one and panic.
    boot_line = f"console=ttyS0 quiet panic=-1 no_timer_check {hardware.boot_words}"
    size = ("-smp", str(hardware.processors), "-m", hardware.memory)
    command = [
        *(QEMU, "-cpu", "max", *size, "-nographic", "-vga", "none", "-no-reboot"),
        *("-kernel", str(kernel.image), "-initrd", str(files), "-append", boot_line),
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


def boot(
    kernel: Kernel,
    script: str,
    modules: Sequence[str],
    arguments: Sequence[str],
    folder: Path,
    programs: Sequence[str] = (),
    hardware: Hardware = Hardware(),
) -> str:
    """Runs a guest to its end: what its console said. Errors: TimeoutError with that text."""
    with running(kernel, script, modules, arguments, folder, programs, hardware) as guest:
        return guest.wait()
