"""SPDK's own tools as hosts of the served drive, where they were built: setup/spdk.sh."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ..cli.drives import Drive, served

FOLDER = Path(os.environ.get("IOASSAY_SPDK") or Path(__file__).parents[2] / ".setup" / "spdk")
PATIENCE_S = 120
NO_HUGE_PAGES = ("--no-huge", "-s", "1024")
SERVE = ("--size", "64MiB", "--transport", "nvme-tcp:127.0.0.1:0", "--model", "none", "--no-calibrate")
_PAGES_MIB = 128
"""Huge pages that tools take which cannot do without."""

pytestmark = pytest.mark.skipif(
    not (FOLDER / "version").exists(), reason="needs SPDK's tools: setup/spdk.sh, or IOASSAY_SPDK with their folder"
)


def place(drive: Drive) -> str:
    host, _, port = drive.told["nvme_tcp"].rpartition(":")
    return f"trtype:TCP adrfam:IPv4 traddr:{host} trsvcid:{port} subnqn:{drive.told['nqn']}"


def run(tool: str, *words: object) -> str:
    """What it said. Its own exit status and its log tell of errors."""
    argv = [str(FOLDER / tool), *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, cwd="/")
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "*ERROR*" not in said, said
    return said


def needs_huge_pages() -> None:
    counts = dict(re.findall(r"(HugePages_Free|Hugepagesize): +(\d+)", Path("/proc/meminfo").read_text()))
    free_kib = int(counts["HugePages_Free"]) * int(counts["Hugepagesize"])
    if free_kib < _PAGES_MIB << 10 or " hugetlbfs " not in Path("/proc/mounts").read_text():
        pytest.skip(f"needs {_PAGES_MIB} MiB of huge pages (sysctl vm.nr_hugepages) and a mounted hugetlbfs")


def ended_well(drive: Drive) -> None:
    found: dict[str, Any] = drive.ask("stats")
    assert [found[kind]["errors"] for kind in ("reads", "writes", "trims", "flushes")] == [0, 0, 0, 0]
    assert drive.end() == (0, "")


def test_identify_prints_the_controller_and_leaves(tmp_path: Path) -> None:
    needs_huge_pages()
    with served(tmp_path, *SERVE) as drive:
        for _ in range(3):
            said = run("spdk_nvme_identify", "-d", 64, "-r", place(drive))
            assert re.search(r"Serial Number: +IOASSAY1\b", said), said
            assert re.search(r"Namespace ID: *1\b", said), said
        ended_well(drive)


@pytest.mark.parametrize("options", [(), ("-H",), ("-I",), ("-H", "-I")], ids=["plain", "header", "data", "both"])
@pytest.mark.parametrize("depth", [1, 32])
def test_perf_runs_with_digests_and_without(tmp_path: Path, depth: int, options: tuple[str, ...]) -> None:
    load = ("-q", depth, "-o", 4096, "-w", "randrw", "-M", 50, "-t", 1)
    with served(tmp_path, *SERVE) as drive:
        said = run("spdk_nvme_perf", *NO_HUGE_PAGES, *load, *options, "-r", place(drive))
        assert re.search(r"^Total +: +\d+", said, re.M), said
        found = drive.ask("stats")
        assert found["reads"]["commands"] > 0 < found["writes"]["commands"]
        ended_well(drive)


def test_perf_opens_as_many_queues_as_a_controller_has(tmp_path: Path) -> None:
    with served(tmp_path, *SERVE) as drive:
        load = ("-q", 64, "-P", 16, "-o", 4096, "-w", "randread", "-t", 1)
        run("spdk_nvme_perf", *NO_HUGE_PAGES, *load, "-r", place(drive))
        ended_well(drive)


def test_abort_aborts_what_waits(tmp_path: Path) -> None:
    """The drive holds reads for 10 ms, so that they are there to be aborted."""
    slow = ("--size", "64MiB", "--transport", "nvme-tcp:127.0.0.1:0", "--no-calibrate", "--set", "read_us=10000")
    with served(tmp_path, *slow) as drive:
        load = ("-q", 64, "-o", 4096, "-w", "randread", "-t", 2, "-a", 1)
        said = run("abort", *NO_HUGE_PAGES, *load, "-r", place(drive))
        (aborted,) = re.findall(r"success (\d+), unsucc", said)
        (failed,) = re.findall(r"I/O completed: \d+, failed: (\d+)", said)
        assert int(aborted) == int(failed) > 0, said
        assert drive.ask("stats")["reads"]["errors"] == int(aborted)
        assert drive.end() == (0, "")


def test_bdevperf_reads_back_what_it_wrote(tmp_path: Path) -> None:
    with served(tmp_path, *SERVE) as drive:
        host, _, port = drive.told["nvme_tcp"].rpartition(":")
        controller = {
            "method": "bdev_nvme_attach_controller",
            "params": {
                "name": "Nvme0",
                "trtype": "TCP",
                "adrfam": "IPv4",
                "traddr": host,
                "trsvcid": port,
                "subnqn": drive.told["nqn"],
                "hdgst": True,
                "ddgst": True,
            },
        }
        configuration = tmp_path / "bdev.json"
        configuration.write_text(json.dumps({"subsystems": [{"subsystem": "bdev", "config": [controller]}]}))
        load = ("-q", 16, "-o", 16384, "-w", "verify", "-t", 2)
        run("bdevperf", *NO_HUGE_PAGES, "--json", configuration, *load)
        ended_well(drive)


def test_the_load_of_reconnect_runs_to_its_end(tmp_path: Path) -> None:
    needs_huge_pages()
    with served(tmp_path, *SERVE) as drive:
        load = ("-q", 16, "-o", 4096, "-w", "randrw", "-M", 50, "-t", 3, "-c", "0x1")
        run("reconnect", *load, "-r", place(drive))
        ended_well(drive)
