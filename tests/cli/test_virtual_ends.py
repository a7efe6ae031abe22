"""Studies on a virtual drive whose drive or runner is killed in the middle of a trial, as they are typed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

STUDY = """
title = "Ends"
driver = "fio"
repetitions = 2
seed = 1
[target]
kind = "virtual"
size = "32MiB"
form = "device"
model = "none"
ways = ["fuse"]
calibrate = false
[params]
rw = "randwrite"
bs = "4k"
ioengine = "libaio"
direct = 1
runtime = "3s"
[watch]
monitors = []
witness = "off"
"""
PATIENCE_S = 240
pytestmark = [pytest.mark.root, pytest.mark.fio]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short path, for sockets: all that a run leaves is in it."""
    with tempfile.TemporaryDirectory(prefix="ve-") as name:
        (Path(name) / "s.toml").write_text(STUDY)
        yield Path(name)


def started(place: Path, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(place)}
    argv = [sys.executable, "-m", "ioassay", "run", *words]
    return subprocess.Popen(
        argv, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def until(true: Callable[[], Any]) -> Any:
    give_up_s = time.monotonic() + PATIENCE_S
    while not (found := true()):
        assert time.monotonic() < give_up_s, "it does not happen"
        time.sleep(0.02)
    return found


def child(runner: subprocess.Popen[str], of: bytes) -> int | None:
    """A child of the runner whose command line has this in it."""
    for pid in Path(f"/proc/{runner.pid}/task/{runner.pid}/children").read_text().split():
        with suppress(OSError):
            if of in Path(f"/proc/{pid}/cmdline").read_bytes():
                return int(pid)
    return None


def left(place: Path) -> list[str]:
    """Mounts, loop devices, folders and processes of the run."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"{place}/" in line]
    loops = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            loops.append(path.read_text())
    processes = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"TMPDIR={place}".encode() in path.read_bytes().split(b"\0"):
                processes.append((path.parent / "comm").read_text())
    folders = [path.name for path in place.glob("ioassay-*")]
    return [*mounts, *(file for file in loops if f"{place}/" in file), *folders, *processes]


def records(place: Path) -> list[dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in place.glob("out/trials/*/record.json")]
    return sorted(found, key=lambda record: record["started_unix_s"])


def test_a_drive_that_is_killed_fails_its_trial_and_the_next_goes_on(place: Path) -> None:
    with started(place, "s.toml", "--output", "out") as runner:
        until(lambda: child(runner, b"job.fio"))
        drive = child(runner, b"serve")
        assert drive is not None
        os.kill(drive, signal.SIGKILL)
        said, _ = runner.communicate(timeout=2 * PATIENCE_S)
    assert "Traceback" not in said
    first, second = records(place)
    assert (first["status"], first["reason"]) == (
        "failed",
        "the virtual drive ended during the trial, killed by SIGKILL",
    )
    assert second["status"] == "ok"
    assert second["metrics"]["drive.write.ios"] > 0
    assert left(place) == []


def test_a_run_that_is_killed_leaves_nothing_and_is_resumed(place: Path) -> None:
    with started(place, "s.toml", "--output", "out") as runner:
        until(lambda: child(runner, b"job.fio"))
        assert left(place)
        runner.kill()
    until(lambda: not left(place))
    with started(place, "--resume", "out") as runner:
        said, _ = runner.communicate(timeout=2 * PATIENCE_S)
        assert runner.returncode == 0, said
    assert [record["status"] for record in records(place)] == ["ok", "ok"]
    assert left(place) == []


def test_an_interrupted_run_leaves_nothing(place: Path) -> None:
    with started(place, "s.toml", "--output", "out") as runner:
        until(lambda: child(runner, b"job.fio"))
        runner.send_signal(signal.SIGINT)
        said, _ = runner.communicate(timeout=PATIENCE_S)
        assert runner.returncode == 130 and "--resume out" in said
    assert left(place) == []
