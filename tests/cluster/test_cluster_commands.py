"""Commands with an executor: what they say, and what an interruption leaves."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytest.importorskip("distributed")

STUDY = """
title = "Pure"
driver = "null_pure"
repetitions = {repetitions}
[params]
sleep = "{sleep}"
noise = 0.05
[factors]
x = [1, 2]
"""


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(folder / "temporary"), "HOME": str(folder)}
    (folder / "temporary").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "ioassay", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def recorded(run: Path) -> int:
    return len(list(run.glob("trials/*/record.json")))


def require_recorded(run: Path, number: int, process: subprocess.Popen[str]) -> None:
    deadline_s = time.monotonic() + 120
    while recorded(run) < number:
        assert process.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.02)


def require_gone(children: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []


def test_a_run_says_where_it_was_computed_and_nothing_of_dask(tmp_path: Path) -> None:
    (tmp_path / "pure.toml").write_text(STUDY.format(repetitions=10, sleep="0s"))
    process = start(tmp_path, "run", "pure.toml", "--output", "run", "--executor", "dask:local,workers=1", "--json")
    output, errors = process.communicate(timeout=200)
    assert (process.returncode, errors) == (0, "")
    assert json.loads(output)["computed"] == {"executor": "dask:local,workers=1", "workers": {"0": 20}}
    assert list((tmp_path / "temporary").iterdir()) == []


def test_an_executor_is_not_opened_for_trials_that_measure(tmp_path: Path) -> None:
    study = STUDY.format(repetitions=1, sleep="0s").replace("null_pure", "null")
    (tmp_path / "null.toml").write_text(f'{study}[watch]\nmonitors = []\nwitness = "off"\n')
    process = start(tmp_path, "run", "null.toml", "--output", "run", "--executor", "dask:local", "--json")
    output, errors = process.communicate(timeout=200)
    assert (process.returncode, errors) == (0, "")
    answer = json.loads(output)
    assert answer["computed"] is None
    (unused,) = [warning for warning in answer["warnings"] if warning["code"] == "executor-unused"]
    assert unused["text"] == "--executor dask:local is not used: the driver 'null' measures this machine"


def test_an_interruption_ends_what_was_started_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "pure.toml").write_text(STUDY.format(repetitions=100, sleep="100ms"))
    process = start(tmp_path, "run", "pure.toml", "--output", "run", "--executor", "dask:local,workers=1")
    require_recorded(tmp_path / "run", 3, process)
    children = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 130
    assert errors == (
        "ioassay: interrupted; what was recorded is kept. "
        "Go on with: ioassay run --resume run --executor dask:local,workers=1\n"
    )
    require_gone(children)
    assert list((tmp_path / "temporary").iterdir()) == []
    assert 3 <= recorded(tmp_path / "run") < 200


def test_workers_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "pure.toml").write_text(STUDY.format(repetitions=100, sleep="100ms"))
    process = start(tmp_path, "run", "pure.toml", "--output", "run", "--executor", "dask:local,workers=1")
    require_recorded(tmp_path / "run", 1, process)
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    process.kill()
    process.communicate()
    require_gone(children)


def test_a_search_asks_as_many_at_once_as_there_are_workers(tmp_path: Path) -> None:
    (tmp_path / "pure.toml").write_text(STUDY.format(repetitions=2, sleep="0s").replace("[1, 2]", "[1, 2, 3, 4]"))
    words = ["--maximize", "value", "--trials", "4", "--confirm", "2", "--executor", "dask:local,workers=1", "--json"]
    process = start(tmp_path, "tune", "pure.toml", "--output", "run", *words)
    _, errors = process.communicate(timeout=200)
    assert process.returncode in (0, 1), errors
    assert json.loads((tmp_path / "run" / "tune.json").read_text())["batch"] == 1
    records = [json.loads(path.read_text()) for path in (tmp_path / "run").glob("trials/*/record.json")]
    assert {record["status"] for record in records} == {"ok"} and len(records) >= 6


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--executor", "dask:locl"], "--executor is 'dask:locl'; wanted local, dask:local"),
        (["--executor", "dask:local", "--workers", "3"], "such as --executor dask:local,workers=3"),
        (["--executor", "dask://10.0.0.1:8786"], "nothing would be encrypted"),
    ],
)
def test_a_wrong_executor_is_one_line_and_makes_no_run(tmp_path: Path, words: list[str], told: str) -> None:
    (tmp_path / "pure.toml").write_text(STUDY.format(repetitions=1, sleep="0s"))
    process = start(tmp_path, "run", "pure.toml", "--output", "run", *words)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 2
    assert told in errors and errors.count("\n") == 1
    assert not (tmp_path / "run").exists()
