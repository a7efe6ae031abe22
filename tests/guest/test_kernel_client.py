"""A real Linux kernel as the drive's client: it connects, makes a filesystem, compares what it wrote, and discards;
and it goes on where its drive was away."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ioassay.packs.virtual_drive import serving
from ioassay.packs.virtual_drive.targets import nvme_host

from ..packs.virtual_drive import drives
from ..patience import until
from . import kernel, machine, scripts

pytestmark = [pytest.mark.guest, pytest.mark.fio, pytest.mark.slow]

TCP = "nvme-tcp:127.0.0.1:0"


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all workers."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@contextmanager
def served(*words: str) -> Iterator[dict[str, Any]]:
    """A drive, and what it says of itself. It is killed at the end."""
    with drives.served(Path.cwd(), *words) as drive:
        try:
            yield drive.told
        finally:
            drive.process.send_signal(signal.SIGKILL)


def found() -> kernel.Kernel:
    linux = kernel.find()
    assert linux is not None, "conftest.py skips this test without a kernel"
    return linux


def says(script: str, folder: Path, shared: Path) -> str:
    """What a guest says that runs `script` to its end."""
    with machine.restored(found(), script, folder, shared) as guest:
        said = guest.wait()
    assert machine.ENDED in said, said
    return said


def test_linux_uses_drives_by_nvme_over_tcp(tmp_path: Path, shared: Path) -> None:
    drive = ("--size", "128MiB", "--transport", TCP)
    for_one_host = ("--size", "128MiB", "--transport", f"{TCP},host={scripts.HOST_NAME}")
    short_lived = ("--size", "4MiB", "--set", "endurance=1", "--transport", f"{TCP},advertise={scripts.HOST}")
    with (
        served(*for_one_host, "--drive", "samsung-980-pro") as small,
        served(*drive, "--block-size", "4096") as large,
        served(*short_lived) as brief,
    ):
        drives = {"small_": small, "large_": large, "brief_": brief}
        variables = {
            name: text for prefix, told in drives.items() for name, text in scripts.place(told, prefix).items()
        }
        said = says(scripts.text("tcp", **variables), tmp_path, shared)
    for line in (
        *(f"discovered {small['nqn']}", f"discovered {large['nqn']}", "queues 3"),
        *("it compares", "it copies", "it refuses", "logged LBA Out of Range", "firmware (", "tells events 0x00000100"),
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


def test_linux_uses_a_zoned_drive(tmp_path: Path, shared: Path) -> None:
    """blkzone, nvme-cli, zonefs and fio find what they expect of a host-managed zoned drive."""
    zones = ("--zones", "1MiB,capacity=768KiB,open=6,active=8,append=256KiB")
    with served("--size", "64MiB", "--model", "none", "--transport", TCP, *zones) as told:
        script = scripts.text("zoned", **scripts.place(told), super_block=scripts.zonefs_super_block())
        said = says(script, tmp_path, shared)
    for line in (
        *("zoned host-managed", "nr_zones 64", "chunk_sectors 2048", "zone_append_max_bytes 262144"),
        *("max_open_zones 6", "max_active_zones 8", "it refuses", "empty 64"),
        *("mar 0x7", "mor 0x5", "ozcs 1", "zasl 6"),
        *("files of zones 63", "appended 786432", "the zone is full", "truncated 0", "fio verified", "fio wrote"),
    ):
        assert f"GUEST: {line}" in said, (line, said)
    assert "fio failed" not in said, said


def test_linux_uses_the_namespaces_of_a_drive_apart(tmp_path: Path, shared: Path) -> None:
    with served("--namespaces", "64MiB,48MiB,16MiB", "--policy", "epo", "--transport", TCP) as told:
        said = says(scripts.text("namespaces", **scripts.place(told)), tmp_path, shared)
        counted = serving.ask(Path(told["stats"]), "stats")["stats"]["namespaces"]
    for line in (
        *("namespaces 0x10x20x3", "identifiers 3"),
        *(f"namespace {id_} has {size * 2048} sectors" for id_, size in ((1, 64), (2, 48), (3, 16))),
        *("compared 51 files on /dev/nvme0n1", "compared 51 files on /dev/nvme0n2"),
        *("discarded /dev/nvme0n1", "discarded /dev/nvme0n2", "namespace 2 stays discarded"),
        "nothing is read beyond the end",
    ):
        assert f"GUEST: {line}" in said, (line, said)
    assert said.count("GUEST: namespace 3 kept what it had") == 3
    assert all(one["writes"]["commands"] for one in counted)


def test_linux_is_connected_by_the_text_of_the_target_and_reads_through_every_engine(
    tmp_path: Path, shared: Path
) -> None:
    with served("--size", "64MiB", "--model", "none", "--transport", TCP) as told:
        port = told["nvme_tcp"].rpartition(":")[2]
        subsystem = nvme_host.Subsystem(f"{scripts.HOST}:{port}", told["nqn"], "IOASSAY1", told["size_bytes"])
        text = nvme_host.options(subsystem, 2, "00000000-0000-4000-8000-000000000001")
        said = says(scripts.text("engines", text=text), tmp_path, shared)
        stats = serving.ask(Path(told["stats"]), "stats")["stats"]
    for line in (
        *(f"subsysnqn {told['nqn']}", "transport tcp", f"address traddr={scripts.HOST},trsvcid={port}"),
        *(f"of the disk subsysnqn {told['nqn']}", "of the disk serial IOASSAY1"),
        f"bytes {told['size_bytes']}",
        "queues 5",  # the admin queue, two for I/O, and two that are polled
        *("read by psync", "read by libaio", "read by io_uring", "read by io_uring fixed", "read by io_uring SQPOLL"),
        *("read by io_uring polled", "read by io_uring passthrough"),
        "disconnected",
    ):
        assert f"GUEST: {line}" in said, (line, said)
    assert stats["reads"]["errors"] == 0


def test_linux_uses_drives_as_nvme_on_pci_over_nbd(tmp_path: Path) -> None:
    drive = ("--size", "128MiB", "--policy", "epo", "--transport")
    with (
        served(*drive, f"nbd:unix:{tmp_path}/small") as small,
        served(*drive, f"nbd:unix:{tmp_path}/large", "--block-size", "4096") as large,
    ):
        modules = (*kernel.NVME_PCI, *kernel.EXT4)
        drives = scripts.nbd_drives(small, large)
        with machine.running(found(), scripts.text("pci"), modules, drives, tmp_path, machine.PROGRAMS) as guest:
            said = guest.wait()
    assert machine.ENDED in said, said
    names = ("nvme0n1", "nvme1n1")  # Linux probes both at once, so either may come first
    for name in names:
        assert f"GUEST: {name} write_cache write back" in said, said
        for what in ("compared 51 files on", "discarded", "zeroed"):
            assert f"GUEST: {what} /dev/{name}" in said, (what, said)
    sizes = [size for size in (512, 4096) for name in names if f"GUEST: {name} logical_block_size {size}\n" in said]
    assert sizes == [512, 4096], said


def test_linux_goes_on_where_its_drive_lost_power_dropped_it_or_was_killed(tmp_path: Path, shared: Path) -> None:
    """What Linux was told to be durable is there afterwards, and no write of it fails."""
    drive = ("--size", "512MiB", "--policy", "lru", "--buffer", "4MiB", "--file", str(tmp_path / "kept"))
    tcp = f"nvme-tcp:127.0.0.1:{20_000 + os.getpid() % 10_000}"  # no port that Linux gives to others in between
    with ExitStack() as first:
        told = first.enter_context(served(*drive, "--transport", tcp))
        script = scripts.text("interrupted", **scripts.place(told))
        with machine.restored(found(), script, tmp_path, shared) as guest:
            guest.wait_for("GUEST: listens")
            serving.ask(Path(told["stats"]), "power-cut")
            goes_on(guest, "after the power cut")
            with guest.frozen():
                until_silent(Path(told["stats"]))
            goes_on(guest, "after it was dropped")
            first.close()
            with served(*drive, "--transport", tcp) as again:
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


def test_linux_meets_the_faults_of_its_drive(tmp_path: Path, shared: Path) -> None:
    """Errors are those of a medium and are not tried again; what is stuck, reset or away comes back by itself."""
    with ExitStack() as stack:
        told = stack.enter_context(served("--size", "320MiB", "--model", "none", "--transport", TCP))
        stats = Path(told["stats"])
        script = scripts.text("told", **scripts.place(told))
        guest = stack.enter_context(machine.restored(found(), script, tmp_path, shared))
        guest.wait_for("GUEST: listens")
        steps = iter(range(1, 100))

        def does(line: str, *, fails: bool = False) -> None:
            number = next(steps)
            guest.tell(line)
            guest.wait_for(f"GUEST: {number} ")
            ended = "failed" if fails else "went well"
            guest.wait_for(f"GUEST: {number} {ended}")

        def fired(**fault: Any) -> None:
            serving.ask(stats, "fault-clear")
            serving.ask(stats, "fault-inject", faults=[fault])

        def struck() -> int:
            (fault,) = serving.ask(stats, "fault-list")["faults"]
            return int(fault["fired"])

        does("mkfs.xfs -q -f $drive && mount -t xfs $drive /mnt && cp /tmp/random /mnt/file && umount /mnt")
        does("mount -t xfs $drive /mnt && cmp /tmp/random /mnt/file && umount /mnt")
        does("write 0 256 && same 0 256")
        fired(kind="read-error", offset_bytes=8 * 4096, length_bytes=4096, count=1)
        does("read_back 8 1", fails=True)
        assert struck() == 1, "it was not tried again"
        does("kernel_says 'critical medium error, dev nvme0' && read_back 8 1")
        fired(kind="write-error", count=1)
        does("write 0 1", fails=True)
        fired(kind="bit-rot", count=1, offset_bytes=0, length_bytes=4096)
        does("same 0 1", fails=True)
        assert struck() == 1
        does("write 0 1 && same 0 1")
        fired(kind="controller-reset", op=["write"], count=1)
        does("write 0 256 && same 0 256")
        does("kernel_says 'Successfully reconnected'")
        fired(kind="link-loss", down_us=3_000_000)
        does("write 0 256 && same 0 256")
        fired(kind="stuck", op=["read"], count=1)
        does("time_out_after 2000 && same 0 1")
        does("kernel_says 'timeout' && same 0 256")
        assert struck() == 1
        serving.ask(stats, "fault-clear")
        guest.tell("enough")
        said = guest.wait()
    assert machine.ENDED in said, said


def until_silent(stats: Path) -> None:
    """Until the drive has let go of all its hosts."""
    until(lambda: not any(way["connections"] for way in serving.ask(stats, "stats")["stats"]["ways"]))
