"""Power cuts under real programs: what was acknowledged as durable is there afterwards, what was not may be gone."""

from __future__ import annotations

import ctypes.util
import os
import random
import shutil
import sys
from pathlib import Path

import pytest

from ioassay.virtual_drive import control

from .power_cuts import CUTS, DRIVE, PAGE, acknowledged_until_cut, formatted, mounted, run, served

KEYS = Path(__file__).parent / "rocksdb_keys.py"
ROWS = Path(__file__).parent / "sqlite_rows.py"
pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(1200),  # each of hundreds of syncs waits for a processor, on a busy machine for a second
    pytest.mark.skipif(bool(os.geteuid()), reason="needs root to mount a file without fusermount3"),
]


def drawn() -> random.Random:
    """A source of chance whose seed is printed."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)


needs_rocksdb = pytest.mark.skipif(ctypes.util.find_library("rocksdb") is None, reason="needs librocksdb")
ROCKSDB = (needs_rocksdb, pytest.mark.rocksdb)


def wrong(script: Path, place: Path, count: int) -> list[str]:
    """What is wrong with a database whose first keys or transactions were acknowledged."""
    return run(sys.executable, script, "check", place, count).splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "name", "how", "most"),
    [
        pytest.param(KEYS, "db", ("sync",), 200, marks=ROCKSDB, id="RocksDB"),
        pytest.param(KEYS, "db", ("direct",), 200, marks=ROCKSDB, id="RocksDB past the page cache"),
        pytest.param(ROWS, "rows.sqlite", ("DELETE", "EXTRA"), 60, id="SQLite"),
        pytest.param(ROWS, "rows.sqlite", ("WAL", "FULL"), 60, id="SQLite with a log"),
    ],
)
def test_a_database_has_all_that_was_acknowledged_after_all_cuts(
    tmp_path: Path, script: Path, name: str, how: tuple[str, ...], most: int
) -> None:
    """And nothing in part, in a database without damage. ldb finds the files that a RocksDB names."""
    chance = drawn()
    known, lost, ldb = 0, 0, shutil.which("ldb") if script == KEYS else None
    with served(tmp_path, *DRIVE) as told:
        formatted(tmp_path)
        for turn in range(CUTS + 1):
            with mounted(tmp_path) as point:
                if turn and ldb is not None:
                    assert run(ldb, f"--db={point / name}", "checkconsistency").strip() == "OK"
                assert wrong(script, point / name, known) == []
                if turn < CUTS:
                    argv = (script, "write", point / name, known, *how)
                    known, pages = acknowledged_until_cut(point, told, argv, chance.randint(1, most))
                    lost += pages
        counted = control.ask(Path(told["stats"]), "stats")["stats"]
    print(f"{known} acknowledged, {lost} pages lost")
    assert counted["power_cuts"] == CUTS
    assert lost > 0  # the drive had something to lose


@pytest.mark.parametrize(
    ("script", "name", "how", "count"),
    [
        pytest.param(KEYS, "db", ("no-sync",), 20, marks=ROCKSDB, id="RocksDB"),
        pytest.param(ROWS, "rows.sqlite", ("DELETE", "OFF"), 10, id="SQLite"),
    ],
)
def test_what_was_not_synced_is_found_missing(
    tmp_path: Path, script: Path, name: str, how: tuple[str, ...], count: int
) -> None:
    """So the test above sees what is lost. Several times, as another program may sync the whole machine."""
    gone, known = list[str](), 0
    with served(tmp_path, *DRIVE) as told:
        formatted(tmp_path)
        for _ in range(5):
            with mounted(tmp_path) as point:
                argv = (script, "write", point / name, known, *how)
                known, _ = acknowledged_until_cut(point, told, argv, count)
            with mounted(tmp_path) as point:
                if gone := wrong(script, point / name, known):
                    break
    assert gone != []


def test_of_writes_to_the_file_those_with_dsync_or_before_a_flush_stay(tmp_path: Path) -> None:
    chance = drawn()
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
                lost = control.ask(Path(told["stats"]), "power-cut")["lost_pages"]
                after = {page: os.pread(plain, PAGE, page * PAGE) for page in pages}
                assert all(after[page] == bytes([value]) * PAGE for page in (*flushed, *durable))
                assert all(after[page] in (before[page], bytes([value]) * PAGE) for page in volatile)
                assert lost == sum(after[page] != bytes([value]) * PAGE for page in volatile)
        finally:
            os.close(synced)
            os.close(plain)
