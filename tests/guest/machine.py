"""A machine by software emulation, with a real kernel in it that is a client of the drive.

Nothing is emulated fast: what it is good for is whether a kernel and the drive understand each other.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from . import initramfs
from .kernel import Kernel

QEMU = "qemu-system-x86_64"
LIMIT_S = 80.0
"""A guest of these tests takes a quarter of it on an idle machine."""

ENDED = "GUEST: ended with 0"
HOST = "10.0.2.2"
"""The host's loopback, as a guest of qemu's user network sees it."""

NETWORK = ("-nic", "user,model=e1000")


def boot(
    kernel: Kernel,
    script: str,
    modules: Sequence[str],
    arguments: Sequence[str],
    folder: Path,
    limit_s: float = LIMIT_S,
) -> str:
    """Runs `script` in a guest: what its console said. A guest that does not end by itself is killed.

    Errors: TimeoutError with the console's text.
    """
    files = folder / "initramfs.cpio"
    files.write_bytes(initramfs.archive(script, kernel.files(modules)))
    command = [
        *(QEMU, "-cpu", "max", "-smp", "2", "-m", "768M", "-nographic", "-no-reboot"),
        *("-kernel", str(kernel.image), "-initrd", str(files), "-append", "console=ttyS0 quiet panic=-1"),
        *arguments,
    ]
    with (folder / "console").open("wb") as console:
        guest = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True
        )
        try:
            guest.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(guest.pid, signal.SIGKILL)
            guest.wait()
            raise TimeoutError(f"the guest did not end in {limit_s} s:\n{_said(folder)}") from None
    return _said(folder)


def _said(folder: Path) -> str:
    return (folder / "console").read_text(errors="replace")
