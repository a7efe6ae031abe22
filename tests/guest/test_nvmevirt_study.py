"""A study on a real drive of NVMeVirt, in a guest, to its report: where its module was built (docs/targets.md)."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from ioassay.store.run_folder import RunStore

from . import kernel, machine, shared_root

FOLDER = Path(os.environ.get("IOASSAY_NVMEVIRT") or Path(__file__).parents[2] / ".setup" / "nvmevirt")
CHECKOUT = Path(__file__).parents[2]
HARDWARE = machine.Hardware(4, "3G", "memmap=128M$1G isolcpus=2,3", limit_s=3600)
STUDY = """
title = "A drive of NVMeVirt"
driver = "fio"
repetitions = 2
seed = 1

[target]
kind = "nvmevirt"
module = "nvmev.ko"
memmap_start = "1GiB"
memmap_size = "128MiB"
cpus = [2, 3]

[params]
ioengine = "libaio"
direct = 1
bs = "4KiB"
runtime = "1s"
time_based = 1

[factors]
rw = ["randread", "randwrite"]
iodepth = [1, 4]

[analysis]
responses = ["read.iops", "write.iops"]
"""

pytestmark = [
    pytest.mark.guest,
    pytest.mark.slow,
    pytest.mark.foreign,
    pytest.mark.fio,
    pytest.mark.timeout(4000),
    pytest.mark.skipif(
        not (FOLDER / "nvmev.ko").exists(),
        reason="needs NVMeVirt: a folder with nvmev.ko for the guest's kernel in IOASSAY_NVMEVIRT",
    ),
]


@pytest.fixture
def linux() -> kernel.Kernel:
    found = kernel.find()
    assert found is not None, "conftest.py skips this test without a kernel"
    magic = re.search(rb"vermagic=(\S+)", (FOLDER / "nvmev.ko").read_bytes())
    assert magic is not None, "nvmev.ko is no kernel module"
    release = magic[1].decode()
    if found.modules.parent.name != release:
        pytest.skip(f"needs NVMeVirt for {found.modules.parent.name}, and it was built for {release}")
    if not found.has("9p"):
        pytest.skip("needs a guest's kernel with 9p: remove .setup/guest-kernel, and run tests/guest/kernel.py")
    return found


def test_a_study_runs_on_its_drive_to_a_report(linux: kernel.Kernel, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "nvmev.ko").write_bytes((FOLDER / "nvmev.ko").read_bytes())
    program = shlex.join([sys.executable, "-m", "ioassay"])
    # In memory: Linux 6.1 does not recognise the folders of a 9p mount to which Landlock confines fio.
    lines = f"""
mkdir /run/study
cd /run/study
cp {shared_root.KEPT}/study.toml {shared_root.KEPT}/nvmev.ko .
status=0
{program} run study.toml --output run --json >told 2>{shared_root.KEPT}/said || status=$?
echo "GUEST: ioassay ended with $status"
if grep nvmev /proc/modules; then echo "GUEST: the module stays"; fi
dmesg >log
cp -r run told log {shared_root.KEPT}
"""
    files = (*kernel.SHARED_ROOT, *kernel.NVME_PCI)
    environment = [f"PYTHONPATH={CHECKOUT / 'python'}", "PYTHONFAULTHANDLER=1", "PYTHONDONTWRITEBYTECODE=1"]
    script = shared_root.script(lines, CHECKOUT, environment)
    with machine.running(linux, script, files, shared_root.arguments(tmp_path), tmp_path, hardware=HARDWARE) as guest:
        said = guest.wait()
    assert machine.ENDED in said, said
    assert "GUEST: ioassay ended with 0" in said, (said, (tmp_path / "said").read_text())
    assert "GUEST: the module stays" not in said, said
    log = (tmp_path / "log").read_text()
    assert log.count("NVMeVirt: Virtual NVMe device created") == 8, log
    store = RunStore.open(tmp_path / "run")
    records = list(store.records())
    assert [record.status for record in records] == ["ok"] * 8, [record.reason for record in records]
    assert all(sum(record.metrics.get(f"{way}.iops", 0) for way in ("read", "write")) > 0 for record in records)
    told = json.loads((tmp_path / "told").read_text())
    assert (tmp_path / "run/report/index.html").stat().st_size > 0, told
