"""fsx, the File System eXerciser, on the FUSE file and on a file system on top of it, where somebody installed it.

It does random operations and compares each read with what it expects. The FUSE file's size is fixed and shared mappings
of it are refused, so truncation and mappings are for the file system. Without fsx, test_mounted_file.py does the like.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from .power_cuts import DRIVE, formatted, mounted, served

OPERATIONS = 200_000 if os.environ.get("IOASSAY_THOROUGH") else 2000
PATIENCE_S = 3600
CONFIGURATIONS = Path(__file__).parent / "fsx"

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.foreign,
    pytest.mark.timeout(PATIENCE_S),
    pytest.mark.skipif(shutil.which("fsx") is None, reason="needs fsx 0.3 or newer (File System eXerciser) on PATH"),
    pytest.mark.skipif(bool(os.geteuid()), reason="needs root to mount a file without fusermount3"),
]


def exercise(file: Path, configuration: str, folder: Path) -> None:
    """Random operations on a file; what fsx leaves of a failure is in the folder."""
    chosen = ("-f", CONFIGURATIONS / configuration, "-S", random.randrange(2**31), "-N", OPERATIONS)
    argv = list(map(str, ("fsx", *chosen, "-P", folder, file)))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, (argv, done.stdout[-8000:], done.stderr[-8000:])


def test_the_file_is_as_fsx_left_it(tmp_path: Path) -> None:
    with served(tmp_path, "--size", "16MiB", "--policy", "lru", "--buffer", "2MiB"):
        exercise(tmp_path / "drive", "file.toml", tmp_path)


def test_a_file_system_on_the_file_is_as_fsx_left_it(tmp_path: Path) -> None:
    with served(tmp_path, *DRIVE):
        formatted(tmp_path)
        with mounted(tmp_path) as point:
            exercise(point / "exercised", "file_system.toml", tmp_path)
