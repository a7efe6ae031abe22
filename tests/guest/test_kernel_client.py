"""A real Linux kernel as the drive's client: it connects, makes a filesystem, compares what it wrote, and discards;
and it goes on where its drive was away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ioassay.virtual_drive import control

from . import kernel, machine, scripts

pytestmark = [pytest.mark.guest, pytest.mark.slow]

TCP = "nvme-tcp:127.0.0.1:0"
PATIENCE_S = 120


@contextmanager
def served(*words: str) -> Iterator[dict[str, Any]]:
    """A drive, and what it says of itself."""
    argv = [sys.executable, "-m", "ioassay", "device", "serve", "--json", "--with-parent", str(os.getpid())]
    with subprocess.Popen([*argv, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            assert line, process.stderr.read()
            yield json.loads(line)
        finally:
            process.kill()


def found() -> kernel.Kernel:
    linux = kernel.find()
    assert linux is not None, "conftest.py skips this test without a kernel"
    return linux


def test_linux_uses_drives_by_nvme_over_tcp(tmp_path: Path) -> None:
    drive = ("--size", "128MiB", "--transport", TCP)
    for_one_host = ("--size", "128MiB", "--transport", f"{TCP},host={scripts.HOST_NAME}")
    short_lived = ("--size", "4MiB", "--set", "endurance=1", "--transport", f"{TCP},advertise={machine.HOST}")
    with (
        served(*for_one_host, "--drive", "samsung-980-pro") as small,
        served(*drive, "--block-size", "4096") as large,
        served(*short_lived) as brief,
    ):
        script = scripts.nvme_tcp(small, large, brief)
        modules = (*kernel.NVME_TCP, *kernel.EXT4)
        said = machine.boot(found(), script, modules, machine.NETWORK, tmp_path, scripts.PROGRAMS)
    assert machine.ENDED in said, said
    for line in (
        *(f"discovered {small['nqn']}", f"discovered {large['nqn']}", "queues 3"),
        *("it compares", "it refuses", "logged LBA Out of Range", "firmware (", "tells events 0x00000100"),
        *("nvme1n1 logical_block_size 512", "nvme1n1 write_cache write back", "nvme1n1 fua 1"),
        *("nvme0n1 physical_block_size 4096", "nvme1n1 physical_block_size 4096"),
        *("nvme0n1 logical_block_size 4096", "nvme0n1 write_cache write through"),
        *("compared 51 files on /dev/nvme1n1", "compared 51 files on /dev/nvme0n1", "interrupted 0"),
        *("format: Invalid Command Opcode", "write cache 00000000", "queues to write, read and poll 4"),
        f"connected to all: {brief['nqn']}",
        *("ro 0", "ro 1"),
        *("another host discovers 0", "another host is refused", "Linux says that it is not allowed"),
        *("discarded /dev/nvme1n1", "discarded /dev/nvme0n1", "zeroed /dev/nvme1n1", "zeroed /dev/nvme0n1"),
    ):
        assert f"GUEST: {line}" in said, (line, said)
    assert said.count("GUEST: zeroed /dev/nvme1n1") == 2, "with digests and without"


def test_linux_uses_drives_as_nvme_on_pci_over_nbd(tmp_path: Path) -> None:
    drive = ("--size", "128MiB", "--policy", "epo", "--transport")
    with (
        served(*drive, f"nbd:unix:{tmp_path}/small") as small,
        served(*drive, f"nbd:unix:{tmp_path}/large", "--block-size", "4096") as large,
    ):
        modules = (*kernel.NVME_PCI, *kernel.EXT4)
        drives = scripts.nbd_drives(small, large)
        said = machine.boot(found(), scripts.nvme_pci(), modules, drives, tmp_path, scripts.PROGRAMS)
    assert machine.ENDED in said, said
    names = ("nvme0n1", "nvme1n1")  # Linux probes both at once, so either may come first
    for name in names:
        assert f"GUEST: {name} write_cache write back" in said, said
        for what in ("compared 51 files on", "discarded", "zeroed"):
            assert f"GUEST: {what} /dev/{name}" in said, (what, said)
    sizes = [size for size in (512, 4096) for name in names if f"GUEST: {name} logical_block_size {size}\n" in said]
    assert sizes == [512, 4096], said


def test_linux_goes_on_where_its_drive_lost_power_dropped_it_or_was_killed(tmp_path: Path) -> None:
    """What Linux was told to be durable is there afterwards, and no write of it fails."""
    drive = ("--size", "512MiB", "--policy", "lru", "--buffer", "4MiB", "--file", str(tmp_path / "kept"))
    with ExitStack() as first:
        told = first.enter_context(served(*drive, "--transport", TCP))
        script = scripts.nvme_tcp_interrupted(told)
        with machine.running(found(), script, kernel.NVME_TCP, machine.NETWORK, tmp_path, scripts.PROGRAMS) as guest:
            guest.wait_for("GUEST: listens")
            control.ask(Path(told["stats"]), "power-cut")
            goes_on(guest, "after the power cut")
            with guest.frozen():
                until_silent(Path(told["stats"]))
            goes_on(guest, "after it was dropped")
            first.close()
            with served(*drive, "--transport", f"nvme-tcp:{told['nvme_tcp']}") as again:
                assert again["nqn"] == told["nqn"]
                goes_on(guest, "after the kill")
                guest.tell("enough")
                said = guest.wait()
    assert machine.ENDED in said, said
    assert "GUEST: a write failed" not in said and "differs" not in said, said
    assert "GUEST: compared" in said and "GUEST: came back 0 times" not in said, said


def goes_on(guest: machine.Guest, words: str) -> None:
    guest.tell(words)
    guest.wait_for(f"GUEST: {words}")


def until_silent(stats: Path) -> None:
    """Until the drive has let go of all its hosts."""
    give_up_s = time.monotonic() + PATIENCE_S
    while any(way["connections"] for way in control.ask(stats, "stats")["stats"]["ways"]):
        assert time.monotonic() < give_up_s, "a host that is silent was never dropped"
        time.sleep(0.1)
