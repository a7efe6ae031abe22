"""A mounted file whose requests come through io_uring: it is told, and all that a program may ask is done."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ..cli.drives import PATIENCE_S, served
from ..patience import until
from .drive_paths import until_in_flight
from .fuse_interfaces import INTERFACES, enabled

SIZE = 8 << 20
WORDS = ("--size", str(SIZE), "--no-calibrate", "--model", "none", "--transport", "fuse:file")

LONGEST_SLEEP_S = 0.1
SLEEPS_AT_ONCE = {"size_bytes": SIZE, "model": "none", "calibrate": False, "transports": ["fuse:file"], "idle_ms": 0}
SERVER = """
import json, sys
from ioassay import virtual_drive
virtual_drive.serve(json.loads(sys.argv[1]), lambda told: print(json.dumps(told), flush=True))
"""

pytestmark = pytest.mark.root


@pytest.fixture(params=INTERFACES)
def interface(request: pytest.FixtureRequest) -> Iterator[str]:
    with enabled(request.param):
        yield request.param


def test_the_interface_of_a_mount_is_told(tmp_path: Path, interface: str) -> None:
    with served(tmp_path, *WORDS) as drive:
        told = drive.told["ways"][0]["interface"]
        assert told in ("/dev/fuse", "io_uring")
        if interface == "io_uring" and (os.cpu_count() or 1) <= 64:
            assert told == interface


def test_programs_read_what_they_wrote_in_any_size_and_number(tmp_path: Path, interface: str, seed: int) -> None:
    """More requests at once than a queue of the ring has entries, and longer ones than an entry's payload."""
    threads, wrong = 8, list[str]()
    share = SIZE // threads
    with served(tmp_path, *WORDS):
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
                    wrong.append(f"{interface}: thread {number} at {at}")
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


def test_a_request_wakes_a_drive_that_sleeps(tmp_path: Path, interface: str) -> None:
    """Else each would wait until the drive's longest sleep is over."""
    argv = [sys.executable, "-c", SERVER, json.dumps(SLEEPS_AT_ONCE)]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "the drive does not start"
            file = os.open(tmp_path / "file", os.O_RDONLY)
            took_s = [waited_s(lambda: os.pread(file, 4096, 0)) for _ in range(10)]
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
def test_a_drive_that_ends_leaves_no_program_waiting(tmp_path: Path, interface: str, number: signal.Signals) -> None:
    slow = ("--size", str(SIZE), "--no-calibrate", "--set", "read_us=1000000", "--set", "elements=1")
    ended = list[int]()
    with served(tmp_path, *slow, "--transport", "fuse:file") as drive:
        file = os.open(tmp_path / "file", os.O_RDONLY)

        def read() -> None:
            try:
                ended.append(len(os.pread(file, 1 << 20, 0)))
            except OSError as error:
                ended.append(-(error.errno or 0))

        readers = [threading.Thread(target=read, daemon=True) for _ in range(20)]
        for reader in readers:
            reader.start()
        until_in_flight(drive, len(readers))
        drive.process.send_signal(number)
        drive.process.wait(PATIENCE_S)
        for reader in readers:
            reader.join(PATIENCE_S)
        with suppress(OSError):  # the file system is gone, the descriptor is closed all the same
            os.close(file)
    assert len(ended) == len(readers), "a reader waits for a drive that is gone"
    assert max(ended) < 0
    # Of a killed drive a process of its own unmounts the file.
    until(lambda: str(tmp_path) not in Path("/proc/mounts").read_text())
