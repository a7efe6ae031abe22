"""Disks to be refused: loop devices with partitions, file systems and mounts, all taken down after the test.

Partitions are announced with partx, which works where the kernel itself knows no partition tables. File systems are
mounted read-only, so that nothing but a mistake of ours can change a byte.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.patience import until

from ioassay.targets import filesystem

MIB = 1 << 20
DISK_BYTES = 32 * MIB


def command(*argv: str | Path, text: str | None = None) -> str:
    """Run a command that must succeed; its output."""
    done = subprocess.run([str(part) for part in argv], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


def digest(*paths: Path) -> list[str]:
    """What the bytes of each path are, read past the page cache's writers."""
    found = []
    for path in paths:
        with path.open("rb") as file:
            found.append(hashlib.file_digest(file, "sha256").hexdigest())
    return found


def ignore(text: str, share: float) -> None:
    """Progress that nobody wants to see."""


def make_ext4(device: Path, label: str = "data") -> None:
    options = ["-q", "-F", "-L", label, "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"]
    command("mkfs.ext4", *options, device)


@pytest.fixture
def any_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The margin of each file system is its smallest, so that a test needs no 8 GiB of free disk."""
    monkeypatch.setattr(filesystem, "MARGIN_MOST_BYTES", filesystem.MARGIN_LEAST_BYTES)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """`mount(device)` mounts it read-only on a new folder and returns that."""
    made: list[Path] = []

    def attach(device: Path, *options: str) -> Path:
        point = tmp_path / f"mnt-{len(made)}"
        point.mkdir()
        command("mount", "-o", ",".join(("ro", *options)), device, point)
        made.append(point)
        return point

    yield attach
    for point in made:
        command("umount", "--lazy", point)  # somebody may be counting its free space just now


@pytest.fixture
def parted(loop_device: Callable[..., Path]) -> Iterator[Callable[..., tuple[Path, list[Path]]]]:
    """`parted(2)` makes a loop device with two partitions; returns its node and theirs."""
    made: list[Path] = []

    def attach(count: int = 1, size_bytes: int = DISK_BYTES) -> tuple[Path, list[Path]]:
        device = loop_device(size_bytes)
        size_mib = size_bytes // MIB // count - 1
        lines = "".join(f",{size_mib}MiB,83\n" for _ in range(count - 1)) + ",,83\n"
        command("sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", device, text=lines)
        command("partx", "--update", device)
        made.append(device)
        nodes = [Path(f"{device}p{number}") for number in range(1, count + 1)]
        until(lambda: all(node.is_block_device() for node in nodes))
        return device, nodes

    yield attach
    for device in made:
        forget_partitions(device)


def forget_partitions(device: Path) -> None:
    """Take away a device's partitions, one of which something else may look at for a moment (EBUSY)."""

    def gone() -> bool:
        subprocess.run(["partx", "--delete", str(device)], capture_output=True, check=False)
        return not list(Path("/sys/block", device.name).glob(f"{device.name}p*"))

    until(gone)
