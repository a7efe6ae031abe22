"""The storage on which the battery runs: each is made, given as a folder, and taken away again, whatever happens.

A row of STORAGE is a sequence of shell commands to make it, and those to end it. What cannot be made here (no loop
device, no program) is said and left out. Only what was made is ended, by its own name.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
IMAGE_MIB = 768


@dataclass(frozen=True)
class Storage:
    """How one is made in the folder $T, with its mount point $M. The first line of `make` that prints is $DEVICE."""

    make: Sequence[str] = ()
    end: Sequence[str] = ()
    raw: bool = False
    """The device itself is the target; files beside it are on the plain disk."""


LOOP = f"truncate -s {IMAGE_MIB}M $T/image; losetup --find --show $T/image"
ZRAM = f"n=$(cat /sys/class/zram-control/hot_add); echo {IMAGE_MIB}M > /sys/block/zram$n/disksize; echo /dev/zram$n"
UNMOUNT, NO_LOOP = "umount $M || { sleep 1; umount $M; } || umount --lazy $M", "losetup --detach $DEVICE"
NO_ZRAM = "n=${DEVICE#/dev/zram}; until echo $n > /sys/class/zram-control/hot_remove; do sleep .2; done"

STORAGE = {
    "plain": Storage(),
    "ext4": Storage((LOOP, "mkfs.ext4 -q $DEVICE", "mount $DEVICE $M"), (UNMOUNT, NO_LOOP)),
    "xfs": Storage((LOOP, "mkfs.xfs -q $DEVICE", "mount $DEVICE $M"), (UNMOUNT, NO_LOOP)),
    "btrfs": Storage((LOOP, "mkfs.btrfs -q $DEVICE 2> $T/mkfs.txt", "mount $DEVICE $M"), (UNMOUNT, NO_LOOP)),
    "overlay": Storage(
        (
            "mkdir $T/lower $T/upper $T/work",
            "mount -t overlay overlay -o lowerdir=$T/lower,upperdir=$T/upper,workdir=$T/work $M",
        ),
        (UNMOUNT,),
    ),
    "tmpfs": Storage((f"mount -t tmpfs -o size={IMAGE_MIB}M tmpfs $M",), (UNMOUNT,)),
    "loop": Storage((LOOP,), (NO_LOOP,), raw=True),
    "fuse": Storage(("mkdir $T/below", "bindfs $T/below $M"), (UNMOUNT,)),
    "zram": Storage((ZRAM, "mkfs.ext4 -q $DEVICE", "mount $DEVICE $M"), (UNMOUNT, NO_ZRAM)),
}


@dataclass(frozen=True)
class Place:
    """A folder of one storage: `file` is what jobs read and write, by name or by device."""

    storage: str
    folder: Path
    device: str = ""
    raw: bool = False

    @property
    def file(self) -> str:
        return self.device if self.raw else "data"


@contextmanager
def place(name: str, above: Path) -> Iterator[Place]:
    """A folder on the storage; raises CalledProcessError with the shell's words where it cannot be made."""
    storage = STORAGE[name]
    with tempfile.TemporaryDirectory(prefix=f"battery-{name}-", dir=above) as folder:
        scratch, mount = Path(folder), Path(folder) / "mount"
        mount.mkdir()
        with made(storage, T=folder, M=str(mount)) as device:
            yield Place(name, scratch if storage.raw else mount, device, storage.raw)


@contextmanager
def made(storage: Storage, **words: str) -> Iterator[str]:
    """The device that a storage's commands made of `words`, '' for none. What was made is ended, also of a half."""
    names, done = {**os.environ, "DEVICE": "", **words}, 0
    try:
        for line in storage.make:
            said = shell(line, names).strip()
            names["DEVICE"] = names["DEVICE"] or said
            done += 1
        yield names["DEVICE"]
    finally:
        ends = storage.end if done == len(storage.make) else storage.end[1:] if names["DEVICE"] else ()
        for line in ends:
            shell(line, names)


def shell(line: str, names: dict[str, str]) -> str:
    return subprocess.run(["sh", "-c", line], env=names, check=True, capture_output=True, text=True).stdout


@contextmanager
def neighbour(folder: Path) -> Iterator[None]:
    """Another process that reads another file of the same storage, a quarter of the time."""
    other = folder / "other"
    other.write_bytes(os.urandom(8 * MIB))
    loop = f"while [ -e {other} ]; do dd if={other} of=/dev/null bs=256k iflag=direct 2> /dev/null; sleep .05; done"
    with subprocess.Popen(["sh", "-c", loop], stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            yield
        finally:
            other.unlink()  # the loop ends by itself, and holds nothing of a mount that ends
            process.wait(timeout=30)
