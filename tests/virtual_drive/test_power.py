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


@pytest.fixture
def rocksdb() -> None:
    if ctypes.util.find_library("rocksdb") is None:
        pytest.skip("needs librocksdb (package rocksdb-tools)")


def wrong_keys(point: Path, count: int) -> list[str]:
    """What is wrong with the first keys of RocksDB, each of which was acknowledged, and with a batch after them."""
    return run(sys.executable, KEYS, "check", point / "db", count).splitlines()


@pytest.mark.rocksdb
@pytest.mark.slow
@pytest.mark.usefixtures("rocksdb")
@pytest.mark.parametrize("way", ["sync", "direct"])
def test_rocksdb_has_every_acknowledged_key_after_all_cuts(tmp_path: Path, way: str) -> None:
    """And no batch in part; `direct` bypasses the page cache. ldb finds the files that the database names."""
    chance = drawn()
    known, lost, ldb = 0, 0, shutil.which("ldb")
    with served(tmp_path, *DRIVE) as told:
        formatted(tmp_path)
        for turn in range(CUTS + 1):
            with mounted(tmp_path) as point:
                if turn and ldb is not None:
                    assert run(ldb, f"--db={point}/db", "checkconsistency").strip() == "OK"
                assert wrong_keys(point, known) == []
                if turn < CUTS:
                    argv = (KEYS, "write", point / "db", known, way)
                    known, pages = acknowledged_until_cut(point, told, argv, chance.randint(1, 200))
                    lost += pages
        counted = control.ask(Path(told["stats"]), "stats")["stats"]
    print(f"{known} keys acknowledged, {lost} pages lost")
    assert counted["power_cuts"] == CUTS
    assert lost > 0  # the drive had something to lose


@pytest.mark.rocksdb
@pytest.mark.usefixtures("rocksdb")
def test_keys_that_were_not_synced_are_found_missing(tmp_path: Path) -> None:
    """So the test above sees what is lost. Several times, as another program may sync the whole machine."""
    gone, known = list[str](), 0
    with served(tmp_path, *DRIVE) as told:
        formatted(tmp_path)
        for _ in range(5):
            with mounted(tmp_path) as point:
                known, _ = acknowledged_until_cut(point, told, (KEYS, "write", point / "db", known, "no-sync"), 20)
            with mounted(tmp_path) as point:
                if gone := wrong_keys(point, known):
                    break
    assert gone != []


def wrong_rows(point: Path, count: int) -> list[str]:
    """What is wrong with the database of SQLite, of which the first transactions were acknowledged."""
    return run(sys.executable, ROWS, "check", point / "rows.sqlite", count).splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(("journal", "synchronous"), [("DELETE", "EXTRA"), ("WAL", "FULL")])
def test_sqlite_has_every_acknowledged_transaction_after_all_cuts(
    tmp_path: Path, journal: str, synchronous: str
) -> None:
    """Each in whole, in a database without damage."""
    chance = drawn()
    known, lost = 0, 0
    with served(tmp_path, *DRIVE) as told:
        formatted(tmp_path)
        for turn in range(CUTS + 1):
            with mounted(tmp_path) as point:
                assert wrong_rows(point, known) == []
                if turn < CUTS:
                    argv = (ROWS, "write", point / "rows.sqlite", known, journal, synchronous)
                    known, pages = acknowledged_until_cut(point, told, argv, chance.randint(1, 60))
                    lost += pages
    print(f"{known} transactions acknowledged, {lost} pages lost")
    assert lost > 0


def test_transactions_that_were_not_synced_are_found_missing(tmp_path: Path) -> None:
    """So the test above sees what is lost, or damaged."""
    wrong, known = list[str](), 0
    with served(tmp_path, *DRIVE) as told:
        formatted(tmp_path)
        for _ in range(5):
            with mounted(tmp_path) as point:
                argv = (ROWS, "write", point / "rows.sqlite", known, "DELETE", "OFF")
                known, _ = acknowledged_until_cut(point, told, argv, 10)
            with mounted(tmp_path) as point:
                if wrong := wrong_rows(point, known):
                    break
    assert wrong != []


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
