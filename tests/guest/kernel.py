"""A real kernel for guests: the distribution's own, unpacked and never installed.

It is looked for in the folder that IOASSAY_GUEST_KERNEL names (an unpacked linux-image package), and otherwise in this
checkout's .setup, where `fetch` puts what guests need of it with apt.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

META_PACKAGE = "linux-image-amd64"

NVME_PCI = ("nvme",)
NVME_TCP = ("e1000", "nvme-tcp")
EXT4 = ("ext4",)
XFS = ("xfs",)
ZONEFS = ("zonefs",)
SHARED_ROOT = ("virtio_pci", "9pnet_virtio", "9p", "overlay")

KEPT = (*NVME_PCI, *NVME_TCP, *EXT4, *XFS, *ZONEFS, *SHARED_ROOT)
"""What guests of the tests load; `fetch` keeps these of a package."""
_KEPT_LIST = "kept"

ALGORITHMS = (
    *("crct10dif_generic", "crc32c_generic", "crc64_rocksoft_generic"),
    *("hmac", "sha256_generic", "sha512_generic", "dh_generic"),
)
"""What others ask the kernel's crypto interface for, without saying so in what they depend on."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """An unpacked kernel package."""

    image: Path
    modules: Path

    def has(self, name: str) -> bool:
        """Whether the module is there as a file."""
        return any(_named(path) == name for path in self.modules.rglob("*.ko*"))

    def files(self, names: Sequence[str]) -> list[Path]:
        """The files of modules and of all that they need, each once and after what it needs.

        A kernel has some of them built in: those have no file.
        """
        modules = {_named(path): path for path in self.modules.rglob("*.ko*")}
        return [modules[name] for name in _in_order((*ALGORITHMS, *names), modules)]


def _in_order(names: Iterable[str], modules: Mapping[str, Path]) -> list[str]:
    """The names of existing modules, each after those that it depends on."""
    order: dict[str, None] = {}

    def add(name: str) -> None:
        name = name.replace("-", "_")
        if name in modules and name not in order:
            match = re.search(rb"\bdepends=([^\0]*)\0", content(modules[name]))
            for needed in match[1].decode().split(",") if match else ():
                add(needed)
            order[name] = None

    for name in names:
        add(name)
    return list(order)


def content(module: Path) -> bytes:
    """A module as insmod wants it: since Debian 13 packages hold compressed ones."""
    stored = module.read_bytes()
    return lzma.decompress(stored) if module.suffix == ".xz" else stored


def _named(module: Path) -> str:
    """Its name: `-` and `_` are one."""
    return module.name.partition(".")[0].replace("-", "_")


def place() -> Path:
    """Where an unpacked kernel is looked for."""
    named = os.environ.get("IOASSAY_GUEST_KERNEL")
    return Path(named) if named else Path(__file__).parents[2] / ".setup" / "guest-kernel"


def find(folder: Path | None = None) -> Kernel | None:
    """The kernel in a folder, or None."""
    folder = folder or place()
    images = sorted((folder / "boot").glob("vmlinuz-*"))
    modules = sorted(path for lib in ("lib", "usr/lib") for path in (folder / lib / "modules").glob("*/kernel"))
    return Kernel(images[-1], modules[-1]) if images and modules else None


def fetch(folder: Path | None = None) -> Kernel:
    """Gets the distribution's present kernel with apt, and unpacks it.

    Errors: RuntimeError with what apt said, and what may help.
    """
    folder = folder or place()
    if (kernel := find(folder)) is not None and _is_complete(folder):
        return kernel
    depends = _apt("apt-cache", "depends", META_PACKAGE)
    packages = [line.split()[-1] for line in depends.splitlines() if "Depends: linux-image-" in line]
    if not packages:
        raise RuntimeError(f"apt knows no kernel for {META_PACKAGE}; {_REMEDY}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # On the disk of the checkout: /tmp may be memory, and all of a package is 500 MB.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="kernel-package-") as download:
        _apt("apt-get", "download", "-q", packages[0], folder=download)
        whole = Path(download) / "whole"
        subprocess.run(["dpkg-deb", "--extract", next(Path(download).glob("*.deb")), whole], check=True)
        kernel = find(whole)
        if kernel is None:
            raise RuntimeError(f"{packages[0]} holds no kernel")
        _keep(kernel, whole, folder)
    return Kernel(folder / kernel.image.relative_to(whole), folder / kernel.modules.relative_to(whole))


def _is_complete(folder: Path) -> bool:
    """Whether it has all that the tests load by now: a whole package, or what this version of `fetch` keeps of one."""
    if os.environ.get("IOASSAY_GUEST_KERNEL"):
        return True
    kept = folder / _KEPT_LIST
    return kept.exists() and kept.read_text().split() == list(KEPT)


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


def _keep(kernel: Kernel, whole: Path, folder: Path) -> None:
    """The image and the modules that guests load: a fiftieth of what the package holds."""
    unpacking = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(unpacking, ignore_errors=True)
    for path in (kernel.image, *kernel.files(KEPT)):
        target = unpacking / path.relative_to(whole)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    (unpacking / _KEPT_LIST).write_text("\n".join(KEPT))
    shutil.rmtree(folder, ignore_errors=True)
    unpacking.rename(folder)


if __name__ == "__main__":
    try:
        print(fetch())
    except RuntimeError as error:
        sys.exit(str(error))
