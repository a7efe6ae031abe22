"""A study whose factor is the drive: each trial is served the drive that its level names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ioassay.store.run_folder import RunStore

DRIVES = ["samsung-980-pro", "qlc-client"]
STUDY = f"""
title = "Two drives"
driver = "fio"
repetitions = 2
seed = 1

[target]
kind = "virtual"
size = "64MiB"
precondition = "full"
ways = ["nbd"]

[params]
ioengine = "nbd"
rw = "randread"
bs = "4KiB"
runtime = "300ms"
time_based = 1

[factors]
"target.drive" = {json.dumps(DRIVES)}

[analysis]
responses = ["read.iops"]
"""


@pytest.mark.fio
@pytest.mark.slow
def test_each_trial_is_served_the_drive_of_its_level(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    argv = [sys.executable, "-m", "ioassay", "run", "study.toml", "--output", "run", "--json"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    records = list(RunStore.open(tmp_path / "run").records())
    assert [record.status for record in records] == ["ok"] * 4, [record.reason for record in records]
    for record in records:
        (told,) = (tmp_path / "run" / "trials").glob(f"{record.trial['id']}/**/drive.json")
        assert json.loads(told.read_text())["drive"]["profile"] == record.trial["point"]["target.drive"]
        assert record.metrics["drive.read.ios"] == record.metrics["read.ios"] > 0
    assert {finding["response"] for finding in json.loads(done.stdout)["findings"]} >= {"read.iops"}
