"""The file that is mounted: whatever path changes the content, no path reads what it was before, and all that a program
may ask is done.

The file is opened with direct I/O, but splice, sendfile and private mappings read through the page cache.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ...patience import until
from .drive_paths import BLOCK, MOST, PAGE, SIZE, WORDS, Paths, paths_to, pipe, power_cut, statistics, until_in_flight
from .drives import PATIENCE_S, Drive, served
from .nbd import WRITE, Client

OPERATIONS = 100_000 if os.environ.get("IOASSAY_THOROUGH") else 1000
REGION = 256 << 10
"""Small, so that operations meet."""

MOUNTED = ("--size", str(SIZE), "--no-calibrate", "--model", "none", "--transport", "fuse:file")
LONGEST_SLEEP_S = 0.1
SLEEPS_AT_ONCE = {"size_bytes": SIZE, "model": "none", "calibrate": False, "transports": ["fuse:file"], "idle_ms": 0}
SERVER = """
import json, sys
from ioassay.packs.virtual_drive import serving
serving.serve([json.loads(sys.argv[1])], lambda told: print(json.dumps(told[0]), flush=True))
"""

pytestmark = pytest.mark.root


def page_of(value: int) -> bytes:
    return value.to_bytes(4, "little") * (PAGE // 4)


with_and_without_loops = pytest.mark.parametrize("loops", [False, True], ids=["no loops", "loops"])


@with_and_without_loops
def test_what_one_path_changes_all_others_read(tmp_path: Path, loops: bool) -> None:
    value = 0
    with paths_to(tmp_path, loops=loops) as (_, paths):
        for writer, write in paths.writers.items():
            for before in paths.readers:
                for after in paths.readers:
                    value += 1
                    at = value % 64 * PAGE
                    paths.readers[before](at, PAGE)  # cached, where this way caches
                    write(at, page_of(value))
                    assert paths.readers[after](at, PAGE) == page_of(value), f"{before}, then {writer}, then {after}"


@with_and_without_loops
def test_what_one_path_discards_all_others_read_as_zeroes(tmp_path: Path, loops: bool) -> None:
    with paths_to(tmp_path, loops=loops) as (_, paths):
        for zeroer, zero in paths.zeroers.items():
            for name, read in paths.readers.items():
                paths.client.write(0, page_of(7))
                assert read(0, PAGE) == page_of(7)
                zero(0, PAGE)
                assert read(0, PAGE) == bytes(PAGE), f"{zeroer}, then {name}"


@with_and_without_loops
def test_what_a_power_cut_takes_no_path_reads_any_more(tmp_path: Path, loops: bool) -> None:
    with paths_to(tmp_path, "--policy", "lru", "--buffer", "1MiB", loops=loops) as (drive, paths):
        for writer, write in paths.writers.items():
            for name, read in paths.readers.items():
                paths.client.write(0, page_of(1))
                paths.client.flush()
                write(0, page_of(2))
                assert read(0, PAGE) == page_of(2)
                assert power_cut(drive) == 1
                assert read(0, PAGE) == page_of(1), f"{writer}, then {name}"
        # A discard that was not flushed may be lost or not; what was written after it is lost.
        for zeroer, zero in paths.zeroers.items():
            paths.client.write(0, page_of(1))
            paths.client.flush()
            zero(0, PAGE)
            paths.client.write(0, page_of(2))
            assert {read(0, PAGE) for read in paths.readers.values()} == {page_of(2)}
            power_cut(drive)
            (left,) = {read(0, PAGE) for read in paths.readers.values()}
            assert left in (page_of(1), bytes(PAGE)), zeroer


@with_and_without_loops
def test_random_operations_on_all_paths_agree_with_a_file_in_memory(tmp_path: Path, seed: int, loops: bool) -> None:
    """In part of pages and across them, with flushes on any path and power cuts after them, as fsx does to one file."""
    with paths_to(tmp_path, "--policy", "lru", "--buffer", "1MiB", loops=loops) as (drive, paths):
        operations(drive, paths, random.Random(seed), OPERATIONS)


def operations(drive: Drive, paths: Paths, chance: random.Random, count: int) -> None:
    """Each reads what is expected, or changes both the drive and what is expected."""
    wanted, log = bytearray(REGION), list[str]()
    for _ in range(count):
        kind = chance.choices(("read", "write", "zero", "flush and power cut"), (60, 30, 9, 1))[0]
        names = {"read": paths.readers, "write": paths.writers, "zero": paths.zeroers}.get(kind, paths.flushers)
        name = chance.choice(sorted(names))
        at, length = place(chance, 1 if name in paths.ANY_BYTES else BLOCK)
        log.append(f"{kind} {name} {at} {length}")
        if kind == "read":
            assert paths.readers[name](at, length) == wanted[at : at + length], log[-40:]
        elif kind == "write":
            wanted[at : at + length] = chance.randbytes(length)
            paths.writers[name](at, bytes(wanted[at : at + length]))
        elif kind == "zero":
            wanted[at : at + length] = bytes(length)
            paths.zeroers[name](at, length)
        else:
            paths.flushers[name]()
            power_cut(drive)
    assert paths.client.read(0, REGION) == wanted, log[-40:]


def place(chance: random.Random, unit: int) -> tuple[int, int]:
    """An offset and a length in the region."""
    length = chance.randint(1, MOST // unit) * unit
    return chance.randint(0, (REGION - length) // unit) * unit, length


def test_no_reader_sees_a_value_older_than_one_that_was_answered(tmp_path: Path) -> None:
    """Writes over NBD, without a pause, beside readers through the page cache."""
    confirmed, last, wrong = [0], 300, list[str]()
    with paths_to(tmp_path, "--set", "program_us=100") as (_, paths):
        paths.client.write(0, page_of(0))

        def watch(name: str) -> None:
            while confirmed[0] < last:
                least = confirmed[0]
                content = paths.readers[name](0, PAGE)
                seen = set(array("I", content))
                if min(seen) < least or (len(seen) > 1 and "mapping" not in name):  # a mapping changes while it is read
                    wrong.append(f"{name} saw {sorted(seen)} after {least}")

        watchers = [threading.Thread(target=watch, args=(name,)) for name in ("splice", "mapping", "new mapping")]
        for watcher in watchers:
            watcher.start()
        try:
            for value in range(1, last + 1):
                paths.client.write(0, page_of(value))
                confirmed[0] = value
        finally:
            confirmed[0] = last
            for watcher in watchers:
                watcher.join(PATIENCE_S)
    assert wrong == []


def test_what_is_read_again_through_the_page_cache_is_counted(tmp_path: Path) -> None:
    with paths_to(tmp_path) as (drive, paths):
        for name in ("splice", "sendfile", "mapping"):
            await_counted(drive, paths.readers[name])


def await_counted(drive: Drive, read: Callable[[int, int], bytes]) -> None:
    before = statistics(drive)["reads"]["commands"]
    until(lambda: read(0, PAGE) and statistics(drive)["reads"]["commands"] >= before + 5)


def test_a_mount_prefers_requests_of_a_page(tmp_path: Path) -> None:
    with served(tmp_path, *WORDS, "--set", "page=16KiB"):
        assert (tmp_path / "file").stat().st_blksize == 16384


def test_programs_read_what_they_wrote_in_any_size_and_number(tmp_path: Path, seed: int) -> None:
    threads, wrong = 8, list[str]()
    share = SIZE // threads
    with served(tmp_path, *MOUNTED):
        file = os.open(tmp_path / "file", os.O_RDWR)

        def work(number: int, chance: random.Random) -> None:
            start, content = number * share, bytearray(share)
            for _ in range(60):
                at = chance.randrange(share)
                length = min(chance.choice((1, 511, 4096, 70_000, share)), share - at)
                data = chance.randbytes(length)
                assert os.pwrite(file, data, start + at) == length
                content[at : at + length] = data
                at = chance.randrange(share)
                if os.pread(file, share - at, start + at) != content[at:]:
                    wrong.append(f"thread {number} at {at}")
            os.fsync(file)

        workers = [
            threading.Thread(target=work, args=(number, random.Random(seed + number)), daemon=True)
            for number in range(threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(PATIENCE_S)
            assert not worker.is_alive(), "a request is never answered"
        os.close(file)
    assert wrong == []


def test_a_request_wakes_a_drive_that_sleeps(tmp_path: Path) -> None:
    """Else each would wait until the drive's longest sleep is over."""
    argv = [sys.executable, "-c", SERVER, json.dumps(SLEEPS_AT_ONCE)]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "the drive does not start"
            file = os.open(tmp_path / "file", os.O_RDONLY)
            took_s = [waited_s(lambda: os.pread(file, 4096, 0)) for _ in range(50)]
            os.close(file)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
    assert min(took_s) < 0.3 * LONGEST_SLEEP_S


def waited_s(call: Callable[[], bytes]) -> float:
    """How long it takes a drive that has begun to sleep just now."""
    time.sleep(0.01)
    begin = time.monotonic()
    assert len(call()) == 4096
    return time.monotonic() - begin


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_drive_that_ends_leaves_no_program_waiting(tmp_path: Path, number: signal.Signals) -> None:
    """One of them fills the page cache, and what it reads changes meanwhile: to drop its pages the kernel waits for the
    read, for which nobody is left when the drive ends.
    """
    slow, ended = ("--set", "read_us=1000000", "--set", "elements=1"), list[int]()
    with served(tmp_path, *WORDS, *slow) as drive, Client(tmp_path / "a") as client, pipe() as (_, writer):
        file = os.open(tmp_path / "file", os.O_RDONLY)

        def read(call: Callable[[], int]) -> None:
            try:
                ended.append(call())
            except OSError as error:
                ended.append(-(error.errno or 0))

        calls: list[Callable[[], int]] = [lambda: len(os.pread(file, 1 << 20, 0))] * 20
        calls.append(lambda: os.splice(file, writer, 16 * PAGE, offset_src=0))
        readers = [threading.Thread(target=read, args=(call,), daemon=True) for call in calls]
        for reader in readers:
            reader.start()
        until_in_flight(drive, len(readers))
        client.submit(WRITE, data=random.randbytes(PAGE))
        until_in_flight(drive, len(readers) + 1)
        drive.process.send_signal(number)
        drive.process.wait(PATIENCE_S)
        for reader in readers:
            reader.join(PATIENCE_S)
        with suppress(OSError):  # the file system is gone, the descriptor is closed all the same
            os.close(file)
    assert len(ended) == len(readers), "a reader waits for a drive that is gone"
    assert max(ended) < 0
    # Of a killed drive a process of its own unmounts the file.
    place = str(tmp_path).replace(" ", "\\040")
    until(lambda: place not in Path("/proc/mounts").read_text())
