"""A run that is killed at any instant goes on with no trial lost and none repeated. Its commands are forked."""

import os
import random
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ioassay.store.run_folder import RunStore

from .cli import command_server
from .cli.command_server import Running
from .cli.conftest import ask, start
from .patience import alive, until

KILLS = 50 if os.environ.get("IOASSAY_THOROUGH") else 4
PATIENCE_S = 300
NULL = 'title = "Null"\ndriver = "null"\nrepetitions = 20\n[params]\nsleep = "5ms"\n[factors]\nx = [1, 2, 3, 4, 5]\n'
PURE = NULL.replace('"null"', '"null_pure"').replace("5ms", "20ms")
FIO = """
title = "fio"
driver = "fio"
repetitions = 4
[target]
kind = "file"
path = "file"
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


@pytest.fixture(scope="module", autouse=True)
def commands() -> Iterator[None]:
    """The server that forks commands ends with this file."""
    yield
    command_server.end()


def finished(root: Path) -> dict[str, tuple[int, int]]:
    """Trial -> what identifies its record file: a record that is written again would change it."""
    found = root.glob("trials/*/record.json")
    return {path.parent.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


def wait_for(is_so: Callable[[], object], run: Running) -> None:
    until(lambda: is_so() or run.has_ended())
    assert is_so(), run.err


def kill_until_done(root: Path, run: Running, chance: random.Random) -> int:
    """Kill and resume until the run is done; number of kills that hit a running process. Checks each step.

    A machine on which nothing gets done before the kill is given more time from then on.
    """
    wait_for((root / "plan.jsonl").exists, run)
    planned, kills, longest_s = sum(1 for _ in RunStore.open(root).trials()), 0, 1.0
    while True:
        before = finished(root)
        with run:
            if len(before) < planned:
                time.sleep(chance.uniform(0, longest_s))
                kills += not run.has_ended()
                run.send_signal(signal.SIGKILL)
            status = run.wait(PATIENCE_S)
            assert status in (0, -signal.SIGKILL), run.err
        after = finished(root)
        assert before.items() <= after.items(), "a record that existed was lost or written again"
        if status == 0:
            return kills
        longest_s *= 1.0 if len(after) > len(before) else 1.2
        run = start("run", "--resume", root, cwd=root.parent)


def check_whole(root: Path) -> None:
    store = RunStore.open(root)
    planned = [trial.id for trial in store.trials()]
    assert sorted(planned) == sorted(finished(root))
    assert [record.trial["id"] for record in store.records()] == planned
    assert {record.status for record in store.records()} == {"ok"}
    assert alive(root.resolve()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "study", [NULL, PURE, pytest.param(FIO, marks=pytest.mark.fio)], ids=["measured", "computed", "fio"]
)
def test_kills_lose_and_repeat_nothing(tmp_path: Path, study: str, seed: int) -> None:
    (tmp_path / "study.toml").write_text(study)
    kills = number = 0
    while kills < KILLS:
        root = tmp_path / f"run-{(number := number + 1)}"
        run = start("run", "study.toml", "--output", root, cwd=tmp_path)
        kills += kill_until_done(root, run, random.Random(f"{seed}-{number}"))
        check_whole(root)


def test_a_killed_run_of_many_workers_goes_on(tmp_path: Path) -> None:
    (tmp_path / "pure.toml").write_text(PURE.replace("20ms", "100ms"))  # the kill comes before its end
    root = tmp_path / "run"
    with start("run", "pure.toml", "--output", root, "--workers", "4", cwd=tmp_path) as run:
        wait_for(lambda: len(finished(root)) >= 10, run)
        assert 1 <= len(alive(root.resolve())) <= 4
        run.send_signal(signal.SIGKILL)
        assert run.wait(PATIENCE_S) == -signal.SIGKILL
    before = finished(root)
    assert 10 <= len(before) < 100
    resumed = ask("run", "--resume", root, "--workers", "2", cwd=tmp_path)
    assert before.items() <= finished(root).items(), resumed.err
    check_whole(root)


@pytest.mark.parametrize(
    ("study", "workers", "number"), [(PURE, 3, signal.SIGINT), (PURE, 3, signal.SIGTERM), (NULL, 1, signal.SIGTERM)]
)
def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path, study: str, workers: int, number: signal.Signals) -> None:
    (tmp_path / "study.toml").write_text(study.replace("20ms", "1000s").replace("5ms", "1000s"))
    root = tmp_path / "run"
    with start("run", "study.toml", "--output", root, "--workers", workers, cwd=tmp_path) as run:
        wait_for(
            lambda: any(root.glob("trials/*")) and len(alive(root.resolve())) >= (workers if study == PURE else 0), run
        )
        run.send_signal(number)
        assert run.wait(PATIENCE_S) == 130
        assert "Traceback" not in run.err
        assert f"ioassay run --resume {shlex.quote(str(root))}" in run.err
    assert alive(root.resolve()) == []
    assert finished(root) == {}


def test_resume_takes_no_other_change(tmp_path: Path) -> None:
    refused = ask("run", "null", "--resume", tmp_path, cwd=tmp_path)
    assert refused.code == 2
    assert "--resume goes on with a run as it was planned" in refused.err
