"""Real programs on the mounted file: after a power cut all is there that was acknowledged as durable."""

from __future__ import annotations

import ctypes.util
import os
import random
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from ioassay.packs.virtual_drive import serving

from .power_cuts import CUTS, DRIVE, PAGE, acknowledged_until_cut, formatted, mounted, run, served

OPERATIONS = 200_000 if os.environ.get("IOASSAY_THOROUGH") else 2000
FSX_S = 3600
DATABASES = Path(__file__).parent / "databases.py"
pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(1200),  # each of hundreds of syncs waits for a processor, on a busy machine for a second
]
needs_rocksdb = pytest.mark.skipif(ctypes.util.find_library("rocksdb") is None, reason="needs librocksdb")
ROCKSDB = (needs_rocksdb, pytest.mark.rocksdb)


def wrong(kind: str, point: Path, count: int) -> list[str]:
    """What is wrong with a database whose first keys or transactions were acknowledged."""
    return run(sys.executable, DATABASES, "check", kind, point / "database", count).splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "how", "most"),
    [
        pytest.param("rocksdb", ("sync",), 200, marks=ROCKSDB, id="RocksDB"),
        pytest.param("rocksdb", ("direct",), 200, marks=ROCKSDB, id="RocksDB past the page cache"),
        pytest.param("sqlite", ("DELETE", "EXTRA"), 60, id="SQLite"),
        pytest.param("sqlite", ("WAL", "FULL"), 60, id="SQLite with a log"),
    ],
)
def test_a_database_has_all_that_was_acknowledged_after_all_cuts(
    tmp_path: Path, seed: int, kind: str, how: tuple[str, ...], most: int
) -> None:
    """And nothing in part, in a database without damage. ldb finds the files that a RocksDB names."""
    chance = random.Random(seed)
    known, lost, ldb = 0, 0, shutil.which("ldb") if kind == "rocksdb" else None
    with served(tmp_path, *DRIVE) as told:
        formatted(tmp_path)
        for turn in range(CUTS + 1):
            with mounted(tmp_path) as point:
                if turn and ldb is not None:
                    assert run(ldb, f"--db={point / 'database'}", "checkconsistency").strip() == "OK"
                assert wrong(kind, point, known) == []
                if turn < CUTS:
                    argv = (DATABASES, "write", kind, point / "database", known, *how)
                    known, pages = acknowledged_until_cut(point, told, argv, chance.randint(1, most))
                    lost += pages
        counted = serving.ask(Path(told["stats"]), "stats")["stats"]
    assert counted["power_cuts"] == CUTS
    assert lost > 0  # the drive had something to lose


@pytest.mark.parametrize(
    ("kind", "how", "count"),
    [
        pytest.param("rocksdb", ("no-sync",), 20, marks=ROCKSDB, id="RocksDB"),
        pytest.param("sqlite", ("DELETE", "OFF"), 10, id="SQLite"),
    ],
)
def test_what_was_not_synced_is_found_missing(tmp_path: Path, kind: str, how: tuple[str, ...], count: int) -> None:
    """So the test above sees what is lost. Several times, as another program may sync the whole machine."""
    gone, known = list[str](), 0
    with served(tmp_path, *DRIVE) as told:
        formatted(tmp_path)
        for _ in range(50):
            with mounted(tmp_path) as point:
                argv = (DATABASES, "write", kind, point / "database", known, *how)
                known, _ = acknowledged_until_cut(point, told, argv, count)
            with mounted(tmp_path) as point:
                if gone := wrong(kind, point, known):
                    break
    assert gone != []


def test_of_writes_to_the_file_those_with_dsync_or_before_a_flush_stay(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with served(tmp_path, "--size", "16MiB", "--policy", "lru", "--buffer", "1MiB") as told:
        plain = os.open(tmp_path / "drive", os.O_RDWR)
        synced = os.open(tmp_path / "drive", os.O_RDWR | os.O_DSYNC)
        try:
            for value in range(1, 6):
                pages = chance.sample(range(4096), 90)
                flushed, durable, volatile = pages[:30], pages[30:60], pages[60:]
                before = {page: os.pread(plain, PAGE, page * PAGE) for page in volatile}
                for page in flushed:
                    os.pwrite(plain, bytes([value]) * PAGE, page * PAGE)
                os.fdatasync(plain)
                for page, other in zip(durable, volatile, strict=True):
                    os.pwrite(synced, bytes([value]) * PAGE, page * PAGE)
                    os.pwrite(plain, bytes([value]) * PAGE, other * PAGE)
                lost = serving.ask(Path(told["stats"]), "power-cut")["lost_pages"]
                after = {page: os.pread(plain, PAGE, page * PAGE) for page in pages}
                assert all(after[page] == bytes([value]) * PAGE for page in (*flushed, *durable))
                assert all(after[page] in (before[page], bytes([value]) * PAGE) for page in volatile)
                assert lost == sum(after[page] != bytes([value]) * PAGE for page in volatile)
        finally:
            os.close(synced)
            os.close(plain)


@pytest.mark.slow
@pytest.mark.foreign
@pytest.mark.timeout(FSX_S)
@pytest.mark.skipif(shutil.which("fsx") is None, reason="needs fsx 0.3 or newer (File System eXerciser) on PATH")
@pytest.mark.parametrize("on", ["file", "file_system"])
def test_fsx_reads_what_it_wrote(tmp_path: Path, seed: int, on: str) -> None:
    """Random operations on the FUSE file and on a file system on top of it. The file's size is fixed and shared
    mappings of it are refused, so these are for the file system. Without fsx, test_mounted_file.py does the like.
    """
    chosen = ("-f", Path(__file__).parent / "fsx" / f"{on}.toml", "-S", seed % 2**31, "-N", OPERATIONS, "-P", tmp_path)
    with ExitStack() as opened:
        small = ("--size", "16MiB", "--policy", "lru", "--buffer", "2MiB")
        opened.enter_context(served(tmp_path, *(small if on == "file" else DRIVE)))
        file = tmp_path / "drive"
        if on == "file_system":
            formatted(tmp_path)
            file = opened.enter_context(mounted(tmp_path)) / "exercised"
        run("fsx", *chosen, file, within_s=FSX_S)
