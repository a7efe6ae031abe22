"""A real Linux kernel as the drive's client: it connects, makes a filesystem, compares what it wrote, and discards."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from . import kernel, machine, scripts

pytestmark = [pytest.mark.guest, pytest.mark.slow]


@contextmanager
def served(*words: str) -> Iterator[dict[str, Any]]:
    argv = [sys.executable, "-m", "ioassay", "device", "serve", "--json", "--size", "256MiB", *words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


def found() -> kernel.Kernel:
    linux = kernel.find()
    assert linux is not None, "conftest.py skips this test without a kernel"
    return linux


@pytest.mark.parametrize("block_size", [512, 4096])
def test_linux_uses_the_drive_by_nvme_over_tcp(tmp_path: Path, block_size: int) -> None:
    with served("--transport", "nvme-tcp:127.0.0.1:0", "--block-size", str(block_size), "--policy", "epo") as told:
        port = int(told["nvme_tcp"].rpartition(":")[2])
        script = scripts.nvme_tcp(port, told["nqn"], ",hdr_digest,data_digest,nr_io_queues=2,keep_alive_tmo=3")
        modules = (*kernel.NVME_TCP, *kernel.EXT4)
        said = machine.boot(found(), script, modules, machine.NETWORK, tmp_path)
    assert machine.ENDED in said, said
    assert "GUEST: a discovery controller is live" in said, said
    assert said.count("GUEST: compared 51 files") == 2, said
    assert said.count("GUEST: discarded") == 2, said


def test_linux_uses_the_drive_as_nvme_on_pci_over_nbd(tmp_path: Path) -> None:
    socket = tmp_path / "drive.sock"
    with served("--transport", f"nbd:unix:{socket}", "--policy", "epo"):
        modules = (*kernel.NVME_PCI, *kernel.EXT4)
        said = machine.boot(found(), scripts.nvme_pci(), modules, scripts.nbd_drive(str(socket)), tmp_path)
    assert machine.ENDED in said, said
    assert "GUEST: compared 51 files" in said and "GUEST: discarded" in said, said
