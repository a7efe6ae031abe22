"""A kernel for guests: where apt has none, that is said with what may help."""

from __future__ import annotations

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
