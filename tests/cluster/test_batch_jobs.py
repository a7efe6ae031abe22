"""Workers as jobs of a batch system: what is submitted, what is cancelled, and a run on a real Slurm."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("dask_jobqueue")

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
NAME = "slurm:partition=short,jobs=2,memory=500MiB,account=a1,walltime=00:10:00,interface=lo"


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


@pytest.mark.foreign
@pytest.mark.root
def test_a_run_on_a_real_slurm(tmp_path: Path) -> None:
    if not (slurm := os.environ.get("IOASSAY_SLURM")):
        pytest.skip("needs Slurm: setup/slurm.sh FOLDER unpacks it, IOASSAY_SLURM names the folder")
    (tmp_path / "pure.toml").write_text(STUDY)
    (tmp_path / "slurm").mkdir()
    node = ["unshare", "--net", "--mount", "sh", str(Path(__file__).parent / "slurm_node.sh")]
    words = ["run", "pure.toml", "--output", "run", "--executor", NAME.replace("account=a1,", ""), "--json"]
    command = [*node, str(Path(slurm).resolve()), str(tmp_path / "slurm"), sys.executable, "-m", "ioassay", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["trials"]["ok"] == 40
    assert result["computed"]["workers"].keys() <= {"SLURMCluster-0", "SLURMCluster-1"}
    assert (tmp_path / "slurm" / "left").read_text() == "", "a job was left"
