"""Commands with an executor: what its name means, what they say, and what an interruption leaves."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from ioassay import cluster
from ioassay.cluster import executor_name
from ioassay.cluster.executor_name import Scheduler
from ioassay.errors import UsageError

from ..cli.command_server import Running
from ..corpora import cases
from ..patience import PATIENCE_S, until
from .hosts import begin

pytest.importorskip("distributed")
LOCAL = ("--executor", "dask:local,workers=1")

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


def start(folder: Path, *words: str) -> Running:
    (folder / "temporary").mkdir(exist_ok=True)
    return begin(folder, *words, TMPDIR=str(folder / "temporary"), HOME=str(folder))


def recorded(run: Path) -> int:
    return len(list(run.glob("trials/*/record.json")))


def require_recorded(run: Path, number: int, process: Running) -> None:
    until(lambda: recorded(run) >= number or process.has_ended())
    assert not process.has_ended(), process.err


def require_gone(children: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    assert alive == []


def test_a_run_says_where_it_was_computed_and_nothing_of_dask(tmp_path: Path) -> None:
    (tmp_path / "pure.toml").write_text(STUDY.format(repetitions=4, sleep="0s"))
    with start(tmp_path, "run", "pure.toml", "--output", "run", *LOCAL, "--json") as process:
        assert (process.wait(), process.err) == (0, "")
        assert json.loads(process.out)["computed"] == {"executor": LOCAL[1], "workers": {"0": 8}}
    assert list((tmp_path / "temporary").iterdir()) == []


def test_an_executor_is_not_opened_for_trials_that_measure(tmp_path: Path) -> None:
    study = STUDY.format(repetitions=1, sleep="0s").replace("null_pure", "null")
    (tmp_path / "null.toml").write_text(f'{study}[watch]\nmonitors = []\nwitness = "off"\n')
    with start(tmp_path, "run", "null.toml", "--output", "run", "--executor", "dask:local", "--json") as process:
        assert (process.wait(), process.err) == (0, "")
        answer = json.loads(process.out)
    assert answer["computed"] is None
    (unused,) = [warning for warning in answer["warnings"] if warning["code"] == "executor-unused"]
    assert unused["text"] == "--executor dask:local is not used: the driver 'null' measures this machine"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_what_was_started_ends_with_a_run_that_is_stopped(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "pure.toml").write_text(STUDY.format(repetitions=100, sleep="100ms"))
    with start(tmp_path, "run", "pure.toml", "--output", "run", *LOCAL) as process:
        require_recorded(tmp_path / "run", 3, process)
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
            assert process.wait() == 130
            assert process.err == (
                "ioassay: interrupted; what was recorded is kept. "
                "Go on with: ioassay run --resume run --executor dask:local,workers=1\n"
            )
        else:
            process.send_signal(number)
            process.wait()
        require_gone(children)
    assert 3 <= recorded(tmp_path / "run") < 200
    assert number == signal.SIGKILL or list((tmp_path / "temporary").iterdir()) == []


def test_a_search_asks_as_many_at_once_as_there_are_workers(tmp_path: Path) -> None:
    (tmp_path / "pure.toml").write_text(STUDY.format(repetitions=2, sleep="0s").replace("[1, 2]", "[1, 2, 3, 4]"))
    words = ["--maximize", "value", "--trials", "4", "--confirm", "2", *LOCAL, "--json"]
    with start(tmp_path, "tune", "pure.toml", "--output", "run", *words) as process:
        assert process.wait() in (0, 1), process.err
    assert json.loads((tmp_path / "run" / "tune.json").read_text())["batch"] == 1
    records = [json.loads(path.read_text()) for path in (tmp_path / "run").glob("trials/*/record.json")]
    assert {record["status"] for record in records} == {"ok"} and len(records) >= 6


# Names of executors


@cases("cluster", "executor_names")
def test_a_name_means_workers_and_a_wrong_one_is_told_what_is_wanted(case: dict[str, str]) -> None:
    if "means" in case:
        assert repr(executor_name.read(case["text"])) == case["means"]
        return
    with pytest.raises(UsageError, match="^--executor") as raised:
        executor_name.read(case["text"])
    assert case["says"] in str(raised.value)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("localhost", True), ("127.0.0.8", True), ("[::1]", True), ("10.0.0.1", False), ("node1", False)],
)
def test_only_addresses_of_this_host_are_loopback(host: str, is_loopback: bool) -> None:
    assert Scheduler(host, 1).is_loopback is is_loopback


def test_a_network_that_was_not_called_trusted_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing would be encrypted.*: dask://node1:8786,encryption=none$"):
        cluster.places("dask://node1:8786")
    assert cluster.places("dask://node1:8786,encryption=none") is None
    assert cluster.places("slurm:jobs=3,cores=4") == 12


def test_a_missing_extra_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"^--executor dask:local needs distributed; install it: pip install 'ioass"):
        cluster.places("dask:local")
    with pytest.raises(UsageError, match="needs dask_jobqueue; install it"):
        cluster.places("slurm:jobs=1")
    assert cluster.places("local")
