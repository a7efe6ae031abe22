"""A real kernel for guests: the distribution's own, unpacked and never installed.

It is looked for in the folder that IOASSAY_GUEST_KERNEL names (an unpacked linux-image package), and otherwise in this
checkout's .setup, where `fetch` puts what guests need of it with apt.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

META_PACKAGE = "linux-image-amd64"

NVME_CORE = (
    *("crypto/crct10dif_common", "lib/crc64", "crypto/crct10dif_generic", "lib/crc-t10dif", "lib/crc64-rocksoft"),
    *("crypto/crc64_rocksoft_generic", "block/t10-pi", "drivers/nvme/host/nvme-core"),
)
"""What every NVMe driver needs, in the order in which it has to be loaded."""

CRC32C = ("crypto/crc32c_generic", "lib/libcrc32c")
NVME_PCI = (*NVME_CORE, "drivers/nvme/host/nvme")
NVME_TCP = (
    *("drivers/net/ethernet/intel/e1000/e1000", *CRC32C),
    *(*NVME_CORE, "drivers/nvme/host/nvme-fabrics", "drivers/nvme/host/nvme-tcp"),
)
EXT4 = (*CRC32C, "lib/crc16", "fs/mbcache", "fs/jbd2/jbd2", "fs/ext4/ext4")


@dataclass(frozen=True, slots=True)
class Kernel:
    """An unpacked kernel package."""

    image: Path
    modules: Path

    def files(self, names: Sequence[str]) -> list[Path]:
        """The files of modules, without those that this kernel has built in; each once, in order."""
        paths = (self.modules / f"{name}.ko" for name in dict.fromkeys(names))
        return [path for path in paths if path.exists()]


def place() -> Path:
    """Where an unpacked kernel is looked for."""
    named = os.environ.get("IOASSAY_GUEST_KERNEL")
    return Path(named) if named else Path(__file__).parents[2] / ".setup" / "guest-kernel"


def find(folder: Path | None = None) -> Kernel | None:
    """The kernel in a folder, or None."""
    folder = folder or place()
    images = sorted((folder / "boot").glob("vmlinuz-*"))
    modules = sorted((folder / "lib" / "modules").glob("*/kernel"))
    return Kernel(images[-1], modules[-1]) if images and modules else None


def fetch(folder: Path | None = None) -> Kernel:
    """Gets the distribution's present kernel with apt, and unpacks it.

    Errors: RuntimeError with what apt said, and what may help.
    """
    folder = folder or place()
    if (kernel := find(folder)) is not None:
        return kernel
    depends = _apt("apt-cache", "depends", META_PACKAGE)
    packages = [line.split()[-1] for line in depends.splitlines() if "Depends: linux-image-" in line]
    if not packages:
        raise RuntimeError(f"apt knows no kernel for {META_PACKAGE}; {_REMEDY}")
    with tempfile.TemporaryDirectory() as download:
        _apt("apt-get", "download", "-q", packages[0], folder=download)
        _unpack(next(Path(download).glob("*.deb")), folder)
    kernel = find(folder)
    if kernel is None:
        raise RuntimeError(f"{packages[0]} holds no kernel")
    return kernel


_REMEDY = "apt-get update may help, or a folder with an unpacked kernel package in IOASSAY_GUEST_KERNEL"


def _apt(*argv: str, folder: str | None = None) -> str:
    """What it said, in English."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(argv, capture_output=True, text=True, cwd=folder, env=environment)
    except FileNotFoundError:
        raise RuntimeError(f"there is no {argv[0]}; {_REMEDY}") from None
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)} failed: {done.stderr.strip()}; {_REMEDY}")
    return done.stdout


def _unpack(package: Path, folder: Path) -> None:
    """The image and the modules that guests load: a hundredth of what the package holds."""
    wanted = {f"{name}.ko" for name in (*NVME_PCI, *NVME_TCP, *EXT4)}
    unpacking = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(unpacking, ignore_errors=True)
    argv = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with (
        subprocess.Popen(argv, stdout=subprocess.PIPE) as process,
        tarfile.open(fileobj=process.stdout, mode="r|") as files,
    ):
        for file in files:
            is_module = file.name.partition("/kernel/")[2] in wanted
            content = files.extractfile(file) if is_module or file.name.startswith("./boot/vmlinuz-") else None
            if content is not None:
                path = unpacking / file.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())
    shutil.rmtree(folder, ignore_errors=True)
    unpacking.rename(folder)


if __name__ == "__main__":
    try:
        print(fetch())
    except RuntimeError as error:
        sys.exit(str(error))
