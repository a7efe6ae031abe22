"""Workers as jobs of a batch system: what is submitted, what is cancelled, and a run on a real Slurm."""

import json
import os
import queue
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ioassay import cluster
from ioassay.cluster.batch_jobs import SubmittedJobs
from ioassay.runner.worker_pool import NoWorker

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


def ioassay(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "pure.toml").write_text(STUDY)
    return subprocess.run(
        [sys.executable, "-m", "ioassay", *words],
        cwd=folder,
        env={**os.environ, "HOME": str(folder / "home"), **environment},
        capture_output=True,
        text=True,
        timeout=250,
    )


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
    done = ioassay(tmp_path, "run", "pure.toml", "--output", "run", "--executor", NAME, "--json", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert result["trials"]["ok"] == 40 == sum(result["computed"]["workers"].values())
    scripts = [path.read_text() for path in (tmp_path / "jobs").glob("*.script")]
    assert len(scripts) == 2
    for script in scripts:
        directives = set(re.findall(r"^#SBATCH (.*)$", script, re.MULTILINE))
        assert {"-p short", "-A a1", "-n 1", "--cpus-per-task=1", "--mem=500M", "-t 00:10:00"} <= directives
        assert "tls://" in script and "--tls-key" in script and f"{sys.executable} -m" in script
    assert len(set((tmp_path / "jobs" / "cancelled").read_text().split())) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "home", "jobs", "pure.toml", "run"]


def test_jobs_that_are_refused_are_one_line_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    refusing = "#!/bin/sh\necho 'sbatch: error: invalid partition specified: short' >&2\nexit 1\n"
    environment = commands(tmp_path, sbatch=refusing, scancel=SCANCEL)
    done = ioassay(tmp_path, "run", "pure.toml", "--output", "run", "--executor", NAME, **environment)
    assert done.returncode == 1
    assert done.stderr == (
        "ioassay: slurm: the jobs cannot be submitted: sbatch: error: invalid partition specified: short. "
        f"Continue with: ioassay run --resume run --executor {NAME}\n"
    )
    assert ioassay(tmp_path, "run", "--resume", "run").returncode == 0


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
        submitted = re.match(r"slurm: submitted (2 jobs \((\d+), (\d+)\)); ", said.get(timeout=60))
        assert submitted
        states.write_text(f"{submitted[2]} PENDING\n{submitted[3]} RUNNING\n")
        future = executor.submit(os.getpid)
        waiting = said.get(timeout=60)
        while "pending" not in waiting:
            waiting = said.get(timeout=60)
        assert re.fullmatch(r"slurm: 2 jobs \(.*\) gave no worker for \d+ s: 1 pending, 1 running", waiting)
        states.write_text(f"{submitted[2]} FAILED\n{submitted[3]} CANCELLED\n")
        message = f"slurm: {submitted[1]} ended and no worker is left; the log of one says: python: not found"
        with pytest.raises(NoWorker, match=re.escape(message)):
            future.result(timeout=60)


@pytest.mark.parametrize(
    ("system", "command", "script", "left"),
    [
        ("slurm", "squeue", "echo '  7 PENDING'; echo '8 COMPLETED'", {"7": "pending"}),
        ("slurm", "squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", {}),
        ("slurm", "squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", None),
        ("pbs", "qstat", "echo '7.host  dask-worker  user  00:00:00 Q workq'; echo '8.host w u 0 F workq'", {"7": "q"}),
        ("pbs", "qstat", "echo 'qstat: Unknown Job Id 7' >&2; exit 153", {}),
        ("pbs", "qstat", "echo 'qstat: 7.host Job has finished, use -x or -H' >&2; exit 35", {}),
        ("pbs", "qstat", "echo 'Connection refused' >&2; exit 1", None),
        ("lsf", "bjobs", "echo '7      PEND'; echo '8      EXIT'", {"7": "pend"}),
        ("lsf", "bjobs", "echo 'Job <7> is not found' >&2; exit 255", {}),
        ("lsf", "bjobs", "echo 'LSF is down. Please wait ...' >&2; exit 255", None),
    ],
)
def test_only_what_the_batch_system_says_ends_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, command: str, script: str, left: dict[str, str] | None
) -> None:
    monkeypatch.setenv("PATH", commands(tmp_path, **{command: f"#!/bin/sh\n{script}\n"})["PATH"])
    assert SubmittedJobs(system, ["7", "8"], tmp_path).left() == left


def test_a_batch_system_without_its_command_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    jobs = SubmittedJobs("slurm", ["7"], tmp_path)
    assert (jobs.left(), jobs.last_words()) == (None, "their logs are empty")
