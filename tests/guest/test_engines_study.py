"""A study of engines on one device, in a guest whose kernel connects to the drive.

Its report is made here: on the processor that qemu 7.2 emulates, polars has ended by SIGSEGV, in a gather of AVX2.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ioassay.store.run_folder import RunStore

from . import kernel, machine, shared_root

CHECKOUT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "ioassay")
PROGRAM = shlex.join(COMMAND)
HARDWARE = machine.Hardware(2, "2G", limit_s=1500)
CASES = 3
STUDY = """
title = "Engines on one device"
driver = "fio"
repetitions = 1
seed = 1

[target]
kind = "virtual"
size = "16MiB"
model = "none"
calibrate = true

[params]
direct = 1
bs = "4KiB"
rw = "randread"
runtime = "500ms"
time_based = 1

[[case]]
name = "psync"
ioengine = "psync"
"target.form" = "kernel"

[[case]]
name = "io_uring polled"
ioengine = "io_uring"
hipri = 1
"target.form" = "kernel"

[[case]]
name = "io_uring passthrough"
ioengine = "io_uring_cmd"
cmd_type = "nvme"
direct = 0
"target.form" = "nvme-character"

[analysis]
responses = ["total.iops"]
lead = "choice"
"""

pytestmark = [pytest.mark.thorough, pytest.mark.guest, pytest.mark.fio, pytest.mark.timeout(1600)]


def test_the_kernels_engines_load_one_subsystem(tmp_path: Path) -> None:
    linux = kernel.find()
    assert linux is not None, "conftest.py skips this test without a kernel"
    (tmp_path / "study.toml").write_text(STUDY)
    # In memory: Linux 6.1 does not recognise the folders of a 9p mount to which Landlock confines fio.
    lines = f"""
mkdir /run/study
cd /run/study
cp {shared_root.KEPT}/study.toml .
{PROGRAM} run study.toml --output run >said 2>&1 || true
ls /sys/class/nvme | sed 's/^/GUEST: stays connected /'
cp -r run said {shared_root.KEPT}
"""
    environment = [f"PYTHONPATH={CHECKOUT / 'python'}", "PYTHONDONTWRITEBYTECODE=1"]
    script = shared_root.script(lines, CHECKOUT, environment)
    files = (*kernel.SHARED_ROOT, *kernel.NVME_TCP)
    with machine.running(linux, script, files, shared_root.arguments(tmp_path), tmp_path, hardware=HARDWARE) as guest:
        said = guest.wait()
    assert machine.ENDED in said, said
    assert "GUEST: stays connected" not in said, said

    records = list(RunStore.open(tmp_path / "run").records())
    assert [record.status for record in records] == ["ok"] * CASES, [record.reason for record in records]
    for record in records:
        assert record.metrics["drive.block_device"] == 1.0
        assert record.metrics["drive.read.ios"] >= record.metrics["read.ios"] > 0
    found = json.loads(subprocess.check_output([*COMMAND, "report", tmp_path / "run", "--json"]))
    (costs,) = (finding["premises"] for finding in found["findings"] if finding["question"] == "costs")
    assert costs[0]["code"] == "costs.subsystem"
    assert found["trust"]["contradicted"] == 0
