"""fsx, the File System eXerciser, on the FUSE file and on a file system on top of it, where somebody installed it.

It does random operations and compares each read with what it expects. The FUSE file's size is fixed and shared mappings
of it are refused, so truncation and mappings are for the file system. Without fsx, test_page_cache.py does the like.
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
ON_FILE = """
flen = 16777216
nosizechecks = true
blockmode = true
[opsize]
max = 131072
min = 1
[weights]
read = 10
sendfile = 10
mapread = 0
write = 10
mapwrite = 0
copy_file_range = 3
punch_hole = 3
fsync = 0.5
fdatasync = 0.5
posix_fadvise = 1
truncate = 0
"""
ON_FILE_SYSTEM = """
flen = 16777216
[opsize]
max = 131072
[weights]
close_open = 1
read = 10
sendfile = 10
mapread = 10
write = 10
mapwrite = 10
copy_file_range = 3
punch_hole = 3
posix_fallocate = 2
fsync = 0.5
fdatasync = 0.5
invalidate = 1
posix_fadvise = 1
truncate = 2
"""

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
    (folder / "fsx.toml").write_text(configuration)
    seed = str(random.randrange(2**31))
    argv = ["fsx", "-f", str(folder / "fsx.toml"), "-P", str(folder), "-S", seed, "-N", str(OPERATIONS), str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, (argv, done.stdout[-8000:], done.stderr[-8000:])


def test_the_file_is_as_fsx_left_it(tmp_path: Path) -> None:
    with served(tmp_path, "--size", "16MiB", "--policy", "lru", "--buffer", "2MiB"):
        exercise(tmp_path / "drive", ON_FILE, tmp_path)


def test_a_file_system_on_the_file_is_as_fsx_left_it(tmp_path: Path) -> None:
    with served(tmp_path, *DRIVE):
        formatted(tmp_path)
        with mounted(tmp_path) as point:
            exercise(point / "exercised", ON_FILE_SYSTEM, tmp_path)
