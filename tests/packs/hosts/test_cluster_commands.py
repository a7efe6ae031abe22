"""Commands with an executor: what its name means, what they say, what an interruption leaves, and batch systems."""

from __future__ import annotations

import json
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from ioassay.errors import UsageError
from ioassay.packs.hosts import executors as of_dask
from ioassay.packs.hosts.executors import Scheduler, dask_executor
from ioassay.packs.hosts.executors.dask_clusters import SubmittedJobs
from ioassay.runner import executors
from ioassay.runner.worker_pool import NoWorker

from ...cli.command_server import Running
from ...corpora import cases
from ...patience import PATIENCE_S, until
from .hosts import begin

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
    (tmp_path / "pure.toml").write_text(STUDY.format(repetitions=100, sleep="1s"))
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
    assert {record["status"] for record in records} == {"ok"} and len(records) >= 6, process.err


# Names of executors


@cases("cluster", "executor_names")
def test_a_name_means_workers_and_a_wrong_one_is_told_what_is_wanted(case: dict[str, str]) -> None:
    if "means" in case:
        assert repr(of_dask.read(case["text"])) == case["means"]
        return
    with pytest.raises(UsageError, match="^--executor") as raised:
        executors.places(case["text"])
    assert case["says"] in str(raised.value)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("localhost", True), ("127.0.0.8", True), ("[::1]", True), ("10.0.0.1", False), ("node1", False)],
)
def test_only_addresses_of_this_host_are_loopback(host: str, is_loopback: bool) -> None:
    assert Scheduler(host, 1).is_loopback is is_loopback


def test_a_network_that_was_not_called_trusted_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing would be encrypted.*: dask://node1:8786,encryption=none$"):
        executors.places("dask://node1:8786")
    assert executors.places("dask://node1:8786,encryption=none") is None
    assert executors.places("slurm:jobs=3,cores=4") == 12


def test_a_missing_extra_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_dask, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"^--executor dask:local needs distributed; install it: pip install 'ioass"):
        executors.places("dask:local")
    with pytest.raises(UsageError, match="needs dask_jobqueue; install it"):
        executors.places("slurm:jobs=1")
    assert executors.places("local")


# Workers as jobs of a batch system: what is submitted, what is cancelled, and a run on a real Slurm


SBATCH = """#!/bin/sh
cp "$1" "$JOBS/$$.script"
setsid sh "$JOBS/$$.script" > /dev/null 2>&1 &
echo "Submitted batch job $!"
"""
SCANCEL = """#!/bin/sh
echo "$1" >> "$JOBS/cancelled"
kill -- "-$1"
"""
"""A batch system of one host without a queue."""
LOST = """#!/bin/sh
echo 'python: not found' > "$(sed -n 's/^#SBATCH -e \\(.*\\)-%J.err$/\\1/p' "$1")-$$.err"
echo "Submitted batch job $$"
"""
SQUEUE = """#!/bin/sh
cat "$JOBS/states"
"""
NAME = "slurm:partition=short,jobs=2,memory=500MiB,account=a1,walltime=00:10:00,interface=lo"
OF_SLURM = NAME.replace("account=a1,", "")


def ioassay(folder: Path, *words: str, **environment: str) -> tuple[int, str, str]:
    """Exit status, output and errors."""
    (folder / "pure.toml").write_text(STUDY.format(repetitions=20, sleep="0s"))
    with begin(folder, *words, HOME=str(folder / "home"), **environment) as running:
        return running.wait(2 * PATIENCE_S), running.out, running.err


def commands(folder: Path, **scripts: str) -> Mapping[str, str]:
    """The environment in which commands of a batch system are these scripts."""
    (folder / "bin").mkdir()
    (folder / "jobs").mkdir()
    for name, text in scripts.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "JOBS": str(folder / "jobs")}


def test_jobs_are_submitted_compute_and_are_cancelled(tmp_path: Path) -> None:
    environment = commands(tmp_path, sbatch=SBATCH, scancel=SCANCEL)
    words = ("run", "pure.toml", "--output", "run", "--executor", NAME, "--json")
    code, out, err = ioassay(tmp_path, *words, **environment)
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["trials"]["ok"] == 40 == sum(result["computed"]["workers"].values())
    scripts = [path.read_text() for path in (tmp_path / "jobs").glob("*.script")]
    assert len(scripts) == 2
    for script in scripts:
        directives = set(re.findall(r"^#SBATCH (.*)$", script, re.MULTILINE))
        assert {"-p short", "-A a1", "-n 1", "--cpus-per-task=1", "--mem=500M", "-t 00:10:00"} <= directives
        assert "tls://" in script and "--tls-key" in script and f"{shlex.quote(sys.executable)} -m" in script
    assert len(set((tmp_path / "jobs" / "cancelled").read_text().split())) == 2
    assert {path.name for path in tmp_path.iterdir()} - {"home"} == {"bin", "jobs", "pure.toml", "run"}


def test_jobs_that_are_refused_are_one_line_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    refusing = "#!/bin/sh\necho 'sbatch: error: invalid partition specified: short' >&2\nexit 1\n"
    environment = commands(tmp_path, sbatch=refusing, scancel=SCANCEL)
    code, _, err = ioassay(tmp_path, "run", "pure.toml", "--output", "run", "--executor", NAME, **environment)
    assert code == 1
    assert err == (
        "ioassay: slurm: the jobs cannot be submitted: sbatch: error: invalid partition specified: short. "
        f"Continue with: ioassay run --resume run --executor {NAME}\n"
    )
    assert ioassay(tmp_path, "run", "--resume", "run")[0] == 0


def real_slurm(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command on a node of Slurm; skips where there is none."""
    if not (slurm := os.environ.get("IOASSAY_SLURM")):
        pytest.skip("needs Slurm: setup/slurm.sh FOLDER unpacks it, IOASSAY_SLURM names the folder")
    (folder / "pure.toml").write_text(STUDY.format(repetitions=20, sleep="0s"))
    (folder / "slurm").mkdir()
    node = ["unshare", "--net", "--mount", "sh", str(Path(__file__).parent / "slurm_node.sh")]
    command = [*node, str(Path(slurm).resolve()), str(folder / "slurm"), sys.executable, "-m", "ioassay", *words]
    variables = {**os.environ, **environment}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=280)


@pytest.mark.foreign
@pytest.mark.root
def test_a_run_on_a_real_slurm(tmp_path: Path) -> None:
    done = real_slurm(tmp_path, "run", "pure.toml", "--output", "run", "--executor", OF_SLURM, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["trials"]["ok"] == 40
    assert result["computed"]["workers"].keys() <= {"SLURMCluster-0", "SLURMCluster-1"}
    assert (tmp_path / "slurm" / "left").read_text() == "", "a job was left"


@pytest.mark.foreign
@pytest.mark.root
def test_jobs_of_a_real_slurm_that_fail_at_once_end_the_run(tmp_path: Path) -> None:
    python = {"DASK_JOBQUEUE__SLURM__PYTHON": "/nowhere/python"}
    done = real_slurm(tmp_path, "run", "pure.toml", "--output", "run", "--executor", OF_SLURM, **python)
    assert done.returncode == 1
    assert "ended and no worker is left; the log of one says: " in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("ioassay: ")]
    assert "/nowhere/python: " in line and "ioassay run --resume run" in line


def test_jobs_that_wait_are_told_of_and_without_any_left_the_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No job ever gives a worker: first they wait, then all of them have ended."""
    for name, value in commands(tmp_path, sbatch=LOST, squeue=SQUEUE, scancel=SCANCEL).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dask_executor, "_FIRST_QUESTION_S", 0.1)
    monkeypatch.setattr(dask_executor, "_LONGEST_INTERVAL_S", 0.1)
    states, said = tmp_path / "jobs" / "states", queue.SimpleQueue[str]()
    states.write_text("")
    with executors.opened(NAME, said.put) as executor:
        assert executor is not None
        submitted = re.match(r"slurm: submitted (2 jobs \((\d+), (\d+)\)); ", said.get(timeout=PATIENCE_S))
        assert submitted
        states.write_text(f"{submitted[2]} PENDING\n{submitted[3]} RUNNING\n")
        future = executor.submit(os.getpid)
        waiting = said.get(timeout=PATIENCE_S)
        while "pending" not in waiting:
            waiting = said.get(timeout=PATIENCE_S)
        assert re.fullmatch(r"slurm: 2 jobs \(.*\) gave no worker for \d+ s: 1 pending, 1 running", waiting)
        states.write_text(f"{submitted[2]} FAILED\n{submitted[3]} CANCELLED\n")
        message = f"slurm: {submitted[1]} ended and no worker is left; the log of one says: python: not found"
        with pytest.raises(NoWorker, match=re.escape(message)):
            future.result(timeout=PATIENCE_S)


@cases("cluster", "batch_jobs")
def test_only_what_the_batch_system_says_ends_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: dict[str, Any]
) -> None:
    answering = commands(tmp_path, **{case["command"]: f"#!/bin/sh\n{case['script']}\n"})
    monkeypatch.setenv("PATH", answering["PATH"])
    wanted = None if case.get("unknown") else case["left"]
    assert SubmittedJobs(case["system"], ["7", "8"], tmp_path).left() == wanted


def test_a_batch_system_without_its_command_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    jobs = SubmittedJobs("slurm", ["7"], tmp_path)
    assert (jobs.left(), jobs.last_words()) == (None, "their logs are empty")
