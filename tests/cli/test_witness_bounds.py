"""More than the witness keeps apart: counts stay exact, memory is bounded, and what is not kept is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.root, pytest.mark.bpf]

MOST_SESSIONS = MOST_FILES = 32_768
MOST_MIB = 400
OPENS = """
import os, sys
for number in range(40_000):
    file = os.open(sys.argv[1].replace("N", str(number)), os.O_RDWR | os.O_CREAT)
    os.pwrite(file, b"x" * 512, 0)
    os.close(file)
"""
THREADS = """
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static void *work(void *number) {
    char buffer[512];
    int fd = open("data", O_RDONLY);
    for (long i = 0; i < 500; i++) if (pread(fd, buffer, 512, i * 512) != 512) _exit(1);
    return number;
}
int main(void) {
    pthread_t threads[200];
    for (int i = 0; i < 200; i++) if (pthread_create(&threads[i], 0, work, 0)) return 2;
    for (int i = 0; i < 200; i++) pthread_join(threads[i], 0);
    return 0;
}
"""
FORKS = """
import os, sys, time
until = time.monotonic() + float(sys.argv[1])
number = 0
while time.monotonic() < until:
    if os.fork() == 0:
        os.close(os.open("data", os.O_RDONLY))
        if os.fork():
            os._exit(0)
        os._exit(0)
    number += 1
    if number % 20 == 0:
        while True:
            try:
                os.waitpid(-1, os.WNOHANG)[0] or time.sleep(0.001)
            except ChildProcessError:
                break
"""


def witness(folder: Path, *argv: str) -> dict[str, Any]:
    """The result as JSON. The witness does not grow beyond MOST_MIB."""
    command = [sys.executable, "-m", "ioassay", "witness", "--json", *argv]
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, (folder / "err").read_text()
        assert usage.ru_maxrss < MOST_MIB * 1024
        result: dict[str, Any] = json.loads((folder / "out").read_text())
    return result


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").write_bytes(os.urandom(1 << 20))
    return tmp_path


def test_a_file_that_is_opened_too_often_to_keep_each_session(folder: Path) -> None:
    argv = ["--", sys.executable, "-c", OPENS, "data"]
    result = witness(folder, "--claim", "kind=write,ops=40000,bytes=20480000,path=data", *argv)
    assert {each["entry"]: each["calls"]["calls"] for each in result["operations"]}["pwrite64"] == 40_000
    assert result["health"]["untracked_sessions"] >= 40_000 - MOST_SESSIONS
    assert result["verdict"] not in ("CONTRADICTED", "UNSUBSTANTIATED"), result["verdicts"]
    (verdict,) = result["verdicts"]
    assert {each["name"]: each["reason"] for each in verdict["properties"]}["files"] == "EVENTS-LOST"
    assert result["verdict"] == "INCOMPLETE"


@pytest.fixture
def in_memory_folder() -> Iterator[Path]:
    """A folder that is gone after the test: so many files on a disk take longer to remove than to make."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="witness-") as name:
        yield Path(name)


def test_more_files_than_are_kept_apart(folder: Path, in_memory_folder: Path) -> None:
    argv = ["--", sys.executable, "-c", OPENS, f"{in_memory_folder}/N"]
    result = witness(folder, "--claim", "kind=write,ops=40000,bytes=20480000", *argv)
    assert {each["entry"]: each["calls"]["bytes"] for each in result["operations"]}["pwrite64"] == 40_000 * 512
    assert result["health"]["untracked_files"] >= 40_000 - MOST_FILES
    assert result["verdict"] not in ("CONTRADICTED", "UNSUBSTANTIATED"), result["verdicts"]
    small = ["--claim", "kind=write,ops=9,bytes=9", "--exit-verdict", "never"]
    unknown = witness(folder, *small, "--", sys.executable, "-c", OPENS.replace('b"x" * 512', 'b""'), argv[-1])
    assert unknown["verdict"] != "CONFIRMED" and "use the level syscalls" not in json.dumps(unknown["verdicts"])
    lying = witness(folder, "--claim", "kind=write,ops=80000,bytes=40960000", "--exit-verdict", "never", *argv)
    assert lying["verdict"] == "CONTRADICTED"


def test_two_hundred_threads_at_once(folder: Path, built: Any) -> None:
    result = witness(folder, "--claim", "ops=100000,bytes=51200000,path=data", "--", built(THREADS))
    assert (result["verdict"], result["lost"]) == ("CONFIRMED-CACHED", 0), result["verdicts"]
    assert result["threads"] == 200


def test_a_tree_that_never_stops_forking(folder: Path) -> None:
    result = witness(folder, "--", sys.executable, "-c", FORKS, "3")
    assert result["processes"] > 500 and result["lost"] == 0
    assert result["calls"]["exit_group"] >= result["processes"] * 0.9
