"""Block requests as kernels before 6.5 tell them, by who submitted their bios: the same programs, used here as well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ioassay import _core

from .conftest import FIO

pytestmark = [pytest.mark.bpf, pytest.mark.fio]

MIB = 1 << 20
SIZE, OPS = 16 * MIB, 4096
BESIDES = 64 * MIB  # metadata, and the pages of fio itself where they were not in memory
OLDEST = ["oldest"]


def fio(path: Path, *options: str) -> list[str]:
    return [*FIO, f"--filename={path}", "--size=16m", "--bs=4k", "--minimal", *options]


def by_kind(seen: Any, name: str, *, own: bool = True) -> dict[str, tuple[int, int]]:
    """Requests and bytes of each kind to one device."""
    parts = [part for part in seen.block if part.name == name and part.own == own]
    return {part.kind: (part.calls.calls, part.calls.bytes) for part in parts}


@pytest.mark.parametrize("rw", ["randread", "randwrite"])
@pytest.mark.parametrize(
    "engine", [["psync"], ["libaio"], ["io_uring"], ["io_uring", "--sqthread_poll=1"]], ids=lambda options: options[-1]
)
def test_direct_io_is_its_submitters(watch: Any, look: Any, data: Path, engine: list[str], rw: str) -> None:
    options = ["--direct=1", "--iodepth=16", f"--ioengine={engine[0]}", *engine[1:], f"--rw={rw}"]
    seen = watch("block", *fio(data, *options), layers=OLDEST)
    assert list(seen.layers) == ["block", "bios", "uring"]
    done = look.own(seen, rw.removeprefix("rand"))
    merges = sum(part.merges for part in seen.block if part.own)
    assert SIZE <= done.bytes <= SIZE + BESIDES and done.calls + merges >= OPS
    assert 0 < done.completed <= done.calls and done.last_ns > done.first_ns > 0


@pytest.mark.root
def test_a_device_has_each_request_once(watch: Any, loop_device: Any) -> None:
    device = loop_device(SIZE)
    read = watch("block", *fio(device, "--direct=1", "--ioengine=psync", "--rw=randread"), layers=OLDEST)
    # Readers of partition tables (udev) come when a device that was open for writing is closed: in their own context.
    write = watch("block", *fio(device, "--direct=1", "--ioengine=libaio", "--rw=randwrite"), layers=OLDEST)
    assert by_kind(read, device.name)["read"] == (OPS, SIZE)
    assert by_kind(write, device.name)["write"] == (OPS, SIZE)
    below = [part for part in read.block if part.name != device.name and part.kind == "read"]
    assert sum(part.calls.bytes for part in below if part.own) < BESIDES


@pytest.mark.root
def test_requests_of_others_stay_apart(watch: Any, loop_device: Any) -> None:
    device = loop_device(SIZE)
    mine = fio(device, "--direct=1", "--ioengine=libaio", "--iodepth=8", "--rw=randread", "--io_size=8m")
    theirs = fio(device, "--direct=1", "--ioengine=psync", "--rw=randread", "--loops=100", "--thinktime=100")
    with subprocess.Popen(theirs, stdout=subprocess.DEVNULL) as other:
        try:
            seen = watch("block", *mine, layers=OLDEST)
        finally:
            other.terminate()
    assert by_kind(seen, device.name)["read"] == (OPS // 2, 8 * MIB)
    assert by_kind(seen, device.name, own=False).get("read", (0, 0))[0] > 0


@pytest.mark.root
def test_what_is_split_and_merged_keeps_its_bytes(watch: Any, loop_device: Any) -> None:
    device = loop_device(SIZE)
    large = watch("block", *fio(device, "--direct=1", "--ioengine=psync", "--rw=read", "--bs=8m"), layers=OLDEST)
    requests, volume = by_kind(large, device.name)["read"]
    assert requests > 2 and volume == SIZE
    batch = ["--iodepth=16", "--iodepth_batch=16", "--iodepth_batch_complete_min=16"]
    small = watch("block", *fio(device, "--direct=1", "--ioengine=libaio", *batch, "--rw=read"), layers=OLDEST)
    requests, volume = by_kind(small, device.name)["read"]
    (part,) = [part for part in small.block if part.own and part.name == device.name and part.kind == "read"]
    assert volume == SIZE and requests + part.merges == OPS


def test_a_sync_writes_and_flushes_in_its_callers_name(watch: Any, look: Any, data: Path) -> None:
    job = fio(data, "--ioengine=psync", "--rw=randwrite", "--invalidate=0", "--end_fsync=1")
    newer, older = watch("syscalls", *job), watch("syscalls", *job, layers=OLDEST)
    for seen in (newer, older):
        assert look.on_file(seen, "data", "write").bytes == SIZE
        assert SIZE <= look.own(seen, "write").bytes <= SIZE + BESIDES
    assert bool(look.own(newer, "flush").calls) == bool(look.own(older, "flush").calls)


def test_a_flush_alone_is_counted_and_ends(watch: Any, look: Any, data: Path) -> None:
    program = "import os; fd = os.open('data', os.O_RDWR); [os.fsync(fd) for _ in range(10)]"
    newer = look.own(watch("block", sys.executable, "-SIc", program), "flush")
    older = look.own(watch("block", sys.executable, "-SIc", program, layers=OLDEST), "flush")
    assert (newer.calls, newer.completed) == (older.calls, older.completed)


def test_a_recording_has_every_request(watch: Any, look: Any, data: Path) -> None:
    record = data.with_name("requests.bin")
    job = fio(data, "--direct=1", "--ioengine=io_uring", "--iodepth=32", "--rw=randrw")
    seen = watch("record", *job, record=record, layers=OLDEST)
    assert list(seen.layers) == ["block", "bios", "uring", "record"]
    info = _core.trace_info({"recording": {"path": str(record), "own": True}})
    for kind in ("read", "write"):
        counted = look.own(seen, kind)
        assert info["kinds"][kind] == {"requests": counted.calls, "bytes": counted.bytes}
    assert info["kinds"]["read"]["bytes"] + info["kinds"]["write"]["bytes"] >= SIZE
    assert (info["time"]["first_ns"], info["time"]["backward"]) == (0, 0)
