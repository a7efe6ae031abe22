"""A kernel for guests: where apt has none, that is said with what may help."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from . import kernel


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH."""
    folder = tmp_path / "apt"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_kernel_that_cannot_be_had_is_told(apt: Path, tmp_path: Path) -> None:
    for name, script, said in (
        ("other", "", "there is no apt-cache"),
        ("apt-cache", "echo 'E: No packages found' >&2; exit 100", "apt-cache depends .* failed: E: No packages found"),
        ("apt-cache", "echo 'linux-image-amd64'", "apt knows no kernel"),
        ("apt-cache", '[ "$LC_ALL" = C ] && echo "  Depends: linux-image-9-amd64"', "there is no apt-get"),
        ("apt-get", 'echo "E: 404 Not Found: $*" >&2; exit 100', "404 Not Found: download -q linux-image-9-amd64"),
    ):
        program(apt, name, script)
        with pytest.raises(RuntimeError, match=f"{said}.*apt-get update may help"):
            kernel.fetch(tmp_path / "kernel")
    assert not (tmp_path / "kernel").exists()


def test_modules_come_after_what_they_need_whether_they_are_compressed_or_not(tmp_path: Path) -> None:
    def module(name: str, needs: str) -> None:
        text = b"\x7fELF.modinfo\0license=GPL\0depends=" + needs.encode() + b"\0retpoline=Y\0"
        path = tmp_path / "drivers" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(lzma.compress(text) if path.suffix == ".xz" else text)

    module("nvme.ko.xz", "nvme-core,built-in")
    module("nvme-core.ko", "nvme_auth")
    module("nvme-auth.ko.xz", "")
    module("crc32c_generic.ko", "")
    module("ext4.ko", "")
    files = kernel.Kernel(tmp_path / "vmlinuz", tmp_path).files(["nvme", "nvme_core"])
    assert [path.name for path in files] == ["crc32c_generic.ko", "nvme-auth.ko.xz", "nvme-core.ko", "nvme.ko.xz"]
    assert all(kernel.content(path).startswith(b"\x7fELF") for path in files)


def test_a_kernel_is_found_where_either_debian_keeps_its_modules(tmp_path: Path) -> None:
    for lib in ("lib", "usr/lib"):
        folder = tmp_path / lib
        (folder / lib / "modules/6.12/kernel").mkdir(parents=True)
        assert kernel.find(folder) is None
        (folder / "boot").mkdir()
        (folder / "boot/vmlinuz-6.12").touch()
        assert kernel.find(folder) == kernel.Kernel(folder / "boot/vmlinuz-6.12", folder / lib / "modules/6.12/kernel")
