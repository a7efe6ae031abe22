"""SPDK's own tools as hosts of the served drive, where they were built: setup/spdk.sh."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .drives import PATIENCE_S, Drive, served

FOLDER = Path(os.environ.get("IOASSAY_SPDK") or Path(__file__).parents[3] / ".setup" / "spdk")
NO_HUGE_PAGES = ("--no-huge", "-s", "1024")
SERVE = ("--size", "64MiB", "--transport", "nvme-tcp:127.0.0.1:0", "--model", "none", "--no-calibrate")
_PAGES_MIB = 128
"""Huge pages that tools take which cannot do without."""

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(
        not (FOLDER / "version").exists(), reason="needs SPDK's tools: setup/spdk.sh, or IOASSAY_SPDK with their folder"
    ),
]


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


def over_shared_memory(drive: Drive) -> tuple[str, ...]:
    """SPDK's options for a drive that is served by vfio-user. It shares memory of one file only (`-g`), and takes a
    controller without the name of a subsystem for a discovery service."""
    needs_huge_pages()
    if b"Can only use SPDK_NVME_TRANSPORT_VFIOUSER" not in (FOLDER / "spdk_nvme_perf").read_bytes():
        pytest.skip("needs SPDK with vfio-user: setup/spdk.sh with the submodule libvfio-user")
    folder = Path(drive.told["vfio_user"]).parent
    return "-g", "-r", f"trtype:VFIOUSER traddr:{folder} subnqn:nqn.2016-06.io.example:drive"


def ended_well(drive: Drive) -> None:
    found: dict[str, Any] = drive.ask("stats")
    assert [found[kind]["errors"] for kind in ("reads", "writes", "trims", "flushes")] == [0, 0, 0, 0]
    assert drive.end() == (0, "")


def identified(*words: str) -> str:
    said = run("spdk_nvme_identify", "-d", 64, *words)
    assert re.search(r"Serial Number: +IOASSAY1\b", said), said
    assert re.search(r"Namespace ID: *1\b", said), said
    return said


def test_identify_prints_the_controller_and_leaves(tmp_path: Path) -> None:
    needs_huge_pages()
    with served(tmp_path, *SERVE) as drive:
        for _ in range(3):
            identified("-r", place(drive))
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
        at = {"trtype": "TCP", "adrfam": "IPv4", "traddr": host, "trsvcid": port, "subnqn": drive.told["nqn"]}
        params = {"name": "Nvme0", **at, "hdgst": True, "ddgst": True}
        controller = {"method": "bdev_nvme_attach_controller", "params": params}
        configuration = tmp_path / "bdev.json"
        configuration.write_text(json.dumps({"subsystems": [{"subsystem": "bdev", "config": [controller]}]}))
        load = ("-q", 16, "-o", 16384, "-w", "verify", "-t", 2)
        run("bdevperf", *NO_HUGE_PAGES, "--json", configuration, *load)
        ended_well(drive)


@pytest.mark.parametrize(
    ("tool", "load"),
    [
        pytest.param(
            "spdk_nvme_perf", (*NO_HUGE_PAGES, "-q", 64, "-P", 16, "-w", "randread", "-t", 1), id="all queues"
        ),
        pytest.param("reconnect", ("-q", 16, "-w", "randrw", "-M", 50, "-t", 3, "-c", "0x1"), id="reconnect"),
    ],
)
def test_a_load_runs_to_its_end(tmp_path: Path, tool: str, load: tuple[object, ...]) -> None:
    if tool == "reconnect":
        needs_huge_pages()
    with served(tmp_path, *SERVE) as drive:
        run(tool, "-o", 4096, *load, "-r", place(drive))
        ended_well(drive)


def shared(folder: Path, *words: str) -> tuple[str, ...]:
    """A drive over vfio-user in a short folder: Unix sockets have short paths."""
    return ("--size", "64MiB", "--transport", f"vfio-user:{folder}", "--model", "none", "--no-calibrate", *words)


def test_identify_prints_the_controller_that_is_shared(tmp_path: Path) -> None:
    with served(tmp_path, *shared(tmp_path)) as drive:
        for _ in range(3):
            assert re.search(r"Doorbell Stride: +4 bytes", identified(*over_shared_memory(drive)))
        ended_well(drive)


@pytest.mark.parametrize(
    "load",
    [
        *[
            ("-q", depth, "-o", 4096, "-w", *load)
            for depth in (1, 32)
            for load in (("randread",), ("randrw", "-M", 50))
        ],
        ("-q", 8, "-o", 262144, "-w", "randrw", "-M", 50),
    ],
    ids=lambda load: " ".join(map(str, load)),
)
def test_perf_runs_over_shared_memory(tmp_path: Path, load: tuple[object, ...]) -> None:
    with served(tmp_path, *shared(tmp_path)) as drive:
        said = run("spdk_nvme_perf", "-s", 64, *load, "-t", 1, *over_shared_memory(drive))
        assert re.search(r"^Total +: +\d+", said, re.M), said
        assert drive.ask("stats")["reads"]["commands"] > 0
        ended_well(drive)


@pytest.mark.parametrize("way", ["nvme-tcp", "vfio-user"])
def test_copied_blocks_are_read_back(tmp_path: Path, way: str) -> None:
    needs_huge_pages()
    with served(tmp_path, *(SERVE if way == "nvme-tcp" else shared(tmp_path))) as drive:
        where = place(drive) if way == "nvme-tcp" else over_shared_memory(drive)[-1]
        said = run("simple_copy", "-r", where)
        assert "LBAs matching Written Data: 64" in said, said
        ended_well(drive)


@pytest.mark.fio
@pytest.mark.skipif(
    not (FOLDER / "spdk_bdev").exists(), reason="needs SPDK's fio plugin in IOASSAY_SPDK (docs/drivers.md)"
)
def test_a_study_runs_the_fio_plugin_confined_and_the_drive_confirms_it(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parent / "spdk.toml", tmp_path)
    environment = {**os.environ, "IOASSAY_SPDK_FIO": str(FOLDER)}
    argv = [sys.executable, "-m", "ioassay", "run", "spdk.toml", "--output", "run", "--json"]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S * 5)
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["trials"]["ok"] == 2, done.stdout + done.stderr
    for path in (tmp_path / "run/trials").glob("*/record.json"):
        record = json.loads(path.read_text())
        codes = {warning["code"] for warning in record["warnings"]}
        assert not codes & {"unconfined", "fio-note", "will-be-skipped"}, record["warnings"]
        for way in ("read", "write"):
            assert record["metrics"][f"drive.{way}.ios"] == record["metrics"][f"{way}.ios"], "nobody else read it"
        assert record["metrics"]["cpu.uncounted"] == 0.0
    (verdict,) = [finding for finding in found["findings"] if finding["question"] == "verdict"]
    assert set(verdict["statistics"]["categories"]) == {"CONFIRMED"}
