"""Workers as jobs of a batch system: what is submitted, what is cancelled, and a run on a real Slurm."""

import json
import os
import queue
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ioassay import cluster
from ioassay.cluster.batch_jobs import SubmittedJobs
from ioassay.runner.worker_pool import NoWorker

from ..corpora import cases
from ..patience import PATIENCE_S
from .hosts import begin

pytest.importorskip("dask_jobqueue")
from ioassay.cluster import dask_executor

STUDY = """
title = "Pure"
driver = "null_pure"
repetitions = 20
[params]
noise = 0.05
[factors]
x = [1, 2]
"""
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
    (folder / "pure.toml").write_text(STUDY)
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
    (folder / "pure.toml").write_text(STUDY)
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
    with cluster.opened(NAME, said.put) as executor:
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
