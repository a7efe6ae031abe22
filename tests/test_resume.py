"""A run that is killed at any instant goes on with no trial lost and none repeated."""

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ioassay.store.run_folder import RunStore

KILLS = 50 if os.environ.get("IOASSAY_THOROUGH") else 6
AT_ONCE = 2
NULL = 'title = "Null"\ndriver = "null"\nrepetitions = 60\n[params]\nsleep = "5ms"\n[factors]\nx = [1, 2, 3, 4, 5]\n'
PURE = NULL.replace('"null"', '"null_pure"')
FIO = """
title = "fio"
driver = "fio"
repetitions = 4
[target]
kind = "file"
path = "{path}"
size = "4MiB"
[params]
ioengine = "psync"
rw = "randread"
bs = "4KiB"
runtime = "100ms"
[factors]
iodepth = [1]
direct = [0, 1]
"""


def start(*argv: str, cwd: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "ioassay", "run", *argv]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(root: Path) -> dict[str, tuple[int, int]]:
    """Trial -> what identifies its record file: a record that is written again would change it."""
    found = root.glob("trials/*/record.json")
    return {path.parent.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


def kill_until_done(root: Path, first: "subprocess.Popen[str]", chance: random.Random, longest_s: float) -> int:
    """Kill and resume until the run is done; number of kills that hit a running process. Checks each step.

    A machine on which nothing gets done before the kill is given more time from then on.
    """
    kills, process, before = 0, first, finished(root)
    planned = sum(1 for _ in RunStore.open(root).trials())
    while True:
        if len(before) < planned:
            time.sleep(chance.uniform(0, longest_s))
            if process.poll() is None:
                process.kill()
                kills += 1
        _, errors = process.communicate()
        assert process.returncode in (0, -9), errors
        after = finished(root)
        assert before.items() <= after.items(), "a record that existed was lost or written again"
        if process.returncode == 0:
            return kills
        longest_s *= 1.0 if len(after) > len(before) else 1.2
        before = after
        process = start("--resume", str(root), cwd=root.parent)


def wait_for_plan(root: Path, process: "subprocess.Popen[str]") -> None:
    wait_for((root / "plan.jsonl").exists, process)


def wait_for(is_so: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    while not is_so():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)


def check_whole(root: Path) -> None:
    store = RunStore.open(root)
    planned = [trial.id for trial in store.trials()]
    assert sorted(planned) == sorted(finished(root))
    assert [record.trial["id"] for record in store.records()] == planned
    assert {record.status for record in store.records()} == {"ok"}


@pytest.mark.slow
@pytest.mark.parametrize("study", [NULL, PURE], ids=["measured", "computed"])
def test_kills_lose_and_repeat_nothing(tmp_path: Path, study: str) -> None:
    seed = int(os.environ.get("IOASSAY_SEED", time.time_ns() % 2**32))
    print(f"IOASSAY_SEED={seed}")
    (tmp_path / "null.toml").write_text(study)

    def killed_until_done(number: int) -> int:
        root = tmp_path / f"run-{number}"
        process = start("null.toml", "--output", str(root), cwd=tmp_path)
        wait_for_plan(root, process)
        kills = kill_until_done(root, process, random.Random(f"{seed}-{number}"), 1.2)
        check_whole(root)
        assert tagged(str(root.resolve())) == []
        return kills

    kills, numbers = 0, itertools.count()
    with ThreadPoolExecutor(AT_ONCE) as pool:  # starting Python is most of it, and runs do not meet
        while kills < KILLS:
            kills += sum(pool.map(killed_until_done, itertools.islice(numbers, AT_ONCE)))


def test_a_killed_run_of_many_workers_goes_on(tmp_path: Path) -> None:
    (tmp_path / "pure.toml").write_text(PURE.replace("5ms", "20ms").replace("= 60", "= 20"))
    root = tmp_path / "run"
    process = start("pure.toml", "--output", str(root), "--workers", "8", cwd=tmp_path)
    wait_for(lambda: len(finished(root)) >= 20, process)
    assert 1 <= len(tagged(str(root.resolve()))) <= 8
    process.kill()
    process.communicate()
    before = finished(root)
    assert 20 <= len(before) < 100
    _, errors = start("--resume", str(root), "--workers", "2", cwd=tmp_path).communicate()
    assert before.items() <= finished(root).items(), errors
    check_whole(root)
    assert tagged(str(root.resolve())) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_of_many_workers_says_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "pure.toml").write_text(PURE.replace("5ms", "1000s"))
    root = tmp_path / "run"
    process = start("pure.toml", "--output", str(root), "--workers", "3", cwd=tmp_path)
    wait_for(lambda: len(tagged(str(root.resolve()))) == 3, process)
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert f"ioassay run --resume {root}" in errors
    assert tagged(str(root.resolve())) == []
    assert finished(root) == {}


@pytest.mark.slow
@pytest.mark.fio
def test_killed_fio_runs_resume_and_leave_no_fio_behind(tmp_path: Path) -> None:
    seed = int(os.environ.get("IOASSAY_SEED", time.time_ns() % 2**32))
    print(f"IOASSAY_SEED={seed}")
    (tmp_path / "fio.toml").write_text(FIO.format(path=tmp_path / "file"))
    root = tmp_path / "run"
    process = start("fio.toml", "--output", str(root), cwd=tmp_path)
    wait_for_plan(root, process)
    assert kill_until_done(root, process, random.Random(seed), 3.0) > 0
    check_whole(root)
    assert tagged(str(root.resolve())) == []


def tagged(root: str) -> list[int]:
    """Processes that still carry the run's tag."""
    wanted = f"IOASSAY_TRIAL={root}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue
            if wanted in environment.split(b"\0"):
                found.append(int(folder.name))
    return found


def test_a_terminated_run_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "null.toml").write_text(NULL.replace("5ms", "1s"))
    root = tmp_path / "run"
    process = start("null.toml", "--output", str(root), cwd=tmp_path)
    wait_for_plan(root, process)
    time.sleep(0.3)
    process.terminate()
    _, errors = process.communicate()
    assert process.returncode == 130
    assert f"ioassay run --resume {root}" in errors


def test_resume_takes_no_other_change(tmp_path: Path) -> None:
    process = start("null", "--resume", str(tmp_path), cwd=tmp_path)
    _, errors = process.communicate()
    assert process.returncode == 2
    assert "--resume goes on with a run as it was planned" in errors
