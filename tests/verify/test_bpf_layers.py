"""What each layer sees of each way to do I/O, against fio: exact operations and bytes on the file.

The rows are those that no tool of user space sees all of: libaio, io_uring, SQPOLL, mmap, engines that do nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from .conftest import FIO, cold

pytestmark = [pytest.mark.bpf, pytest.mark.fio]

MIB = 1 << 20
SIZE, OPS = 16 * MIB, 4096
# Metadata, and the pages of fio itself where they were not in memory.
BESIDES = 64 * MIB
BATCH = ["--iodepth=16", "--iodepth_batch=16", "--iodepth_batch_complete_min=16"]


def fio(path: Path, *options: str) -> list[str]:
    return [*FIO, f"--filename={path}", "--size=16m", "--bs=4k", "--minimal", *options]


@pytest.mark.parametrize(
    ("options", "entry"),
    [
        (["--ioengine=psync", "--rw=randread"], "pread64"),
        (["--ioengine=sync", "--rw=read"], "read"),
        (["--ioengine=pvsync2", "--rw=randread"], "preadv2"),
        (["--ioengine=libaio", "--iodepth=16", "--rw=randread"], "aio"),
        (["--ioengine=libaio", *BATCH, "--rw=read"], "aio"),
        (["--ioengine=libaio", "--iodepth=256", "--iodepth_batch=256", "--rw=randread"], "aio"),
        (["--ioengine=io_uring", "--iodepth=16", "--rw=randread"], "uring"),
        (["--ioengine=io_uring", "--iodepth=16", "--sqthread_poll=1", "--rw=randread"], "uring"),
        (["--ioengine=io_uring", "--iodepth=16", "--nonvectored=0", "--fixedbufs=0", "--rw=randread"], "uring"),
    ],
    ids=["psync", "sync", "pvsync2", "libaio", "libaio-batch", "libaio-256", "io_uring", "sqpoll", "io_uring-vectored"],
)  # fmt: skip
def test_direct_reads_are_seen_exactly(watch: Any, look: Any, data: Path, options: list[str], entry: str) -> None:
    seen = watch("syscalls", *fio(data, "--direct=1", *options))
    reads = look.on_file(seen, "data", "read")
    assert (reads.calls, reads.completed, reads.bytes, reads.requested_bytes) == (OPS, OPS, SIZE, SIZE)
    assert (reads.errors, reads.short) == (0, 0)
    whole = look.by(seen, entry, "read")
    assert whole.calls >= OPS and whole.bytes >= SIZE
    device = look.own(seen, "read")
    assert SIZE <= device.bytes <= SIZE + BESIDES
    (session,) = [s for s in seen.sessions if s.read.calls == OPS]
    assert "direct" in session.flags and session.first.calls == 1 and session.first.bytes == 4096
    assert session.opened_ns < session.first.first_ns <= session.second_ns <= session.ended_ns


def test_level_block_sees_io_uring_and_no_system_call(watch: Any, look: Any, data: Path) -> None:
    seen = watch("block", *fio(data, "--direct=1", "--ioengine=io_uring", "--iodepth=16", "--rw=randread"))
    assert [(part.entry, part.kind) for part in seen.operations] == [("uring", "read")]
    assert look.by(seen, "uring").bytes == SIZE
    assert sum(seen.operations[0].latency.counts) == OPS
    assert look.own(seen, "read").bytes >= SIZE
    assert (list(seen.layers), list(seen.files), list(seen.sessions)) == (["block", "uring"], [], [])


def test_merged_requests_keep_their_bytes(watch: Any, look: Any, data: Path) -> None:
    seen = watch("block", *fio(data, "--direct=1", "--ioengine=libaio", *BATCH, "--rw=read"))
    reads = next(part for part in seen.block if part.own and part.kind == "read")
    assert reads.calls.bytes >= SIZE
    # A device that does not merge (no plug held them together) has a request for each.
    assert reads.calls.calls + reads.merges >= OPS


def test_buffered_reads_come_from_the_device_once(watch: Any, look: Any, data: Path, in_memory: Any) -> None:
    cold(data)
    job = fio(data, "--ioengine=psync", "--rw=read", "--invalidate=0")
    first = watch("syscalls", *job)
    in_memory(data)
    warm = watch("syscalls", *job)
    assert [look.on_file(seen, "data", "read").bytes for seen in (first, warm)] == [SIZE, SIZE]
    pages = [
        next(file.page_cache_bytes for file in seen.files if file.path.endswith("/data")) for seen in (first, warm)
    ]
    assert pages == [SIZE, 0]
    assert look.own(first, "read").bytes >= SIZE > look.own(warm, "read").bytes


def test_buffered_io_uring_is_seen_in_its_worker_threads(watch: Any, look: Any, data: Path) -> None:
    cold(data)
    seen = watch("syscalls", *fio(data, "--ioengine=io_uring", "--iodepth=16", "--rw=randread", "--force_async=1"))
    reads = look.on_file(seen, "data", "read")
    assert (reads.calls, reads.bytes) == (OPS, SIZE)
    assert look.own(seen, "read").bytes >= SIZE


def test_mapped_reads_are_seen_by_the_page_cache_and_the_device_only(watch: Any, look: Any, data: Path) -> None:
    cold(data)
    seen = watch("syscalls", *fio(data, "--ioengine=mmap", "--rw=randread"))
    assert look.on_file(seen, "data", "read").calls == 0
    assert next(file.page_cache_bytes for file in seen.files if file.path.endswith("/data")) == SIZE
    assert look.own(seen, "read").bytes >= SIZE


def test_an_engine_that_does_nothing_is_seen_to_do_nothing(watch: Any, look: Any, data: Path) -> None:
    seen = watch("syscalls", *fio(data, "--ioengine=null", "--rw=read"))
    assert look.on_file(seen, "data", "read").calls == 0
    assert look.own(seen, "read").bytes < SIZE


def test_a_hole_is_read_without_the_device(watch: Any, look: Any, data: Path) -> None:
    hole = data.with_name("hole")
    with hole.open("wb") as file:
        file.truncate(SIZE)
    seen = watch("syscalls", *fio(hole, "--direct=1", "--ioengine=psync", "--rw=randread"))
    reads = look.on_file(seen, "hole", "read")
    assert (reads.calls, reads.bytes) == (OPS, SIZE)
    assert look.own(seen, "read").bytes < SIZE


def test_buffered_writes_stay_in_memory_until_they_are_synced(watch: Any, look: Any, data: Path) -> None:
    job = fio(data, "--ioengine=psync", "--rw=randwrite", "--invalidate=0")
    deferred = watch("syscalls", *job)
    synced = watch("syscalls", *job, "--end_fsync=1")
    for seen, syncs in ((deferred, 0), (synced, 1)):
        writes = look.on_file(seen, "data", "write")
        assert (writes.calls, writes.bytes) == (OPS, SIZE)
        assert look.on_file(seen, "data", "sync").calls == syncs
    assert look.own(deferred, "write").bytes < SIZE // 4
    assert look.own(synced, "write").bytes >= SIZE
    assert look.own(synced, "flush").calls >= 1


def test_each_sync_is_counted_and_flushes(watch: Any, look: Any, data: Path) -> None:
    seen = watch("syscalls", *fio(data, "--ioengine=psync", "--rw=write", "--fsync=1", "--io_size=1m"))
    assert look.on_file(seen, "data", "write").calls == 256
    assert look.on_file(seen, "data", "sync").calls == 255  # fio leaves the last one out
    assert look.own(seen, "write").bytes >= 255 * 4096


@pytest.mark.parametrize("engine", ["psync", "libaio"])
def test_direct_writes_are_seen_exactly(watch: Any, look: Any, data: Path, engine: str) -> None:
    seen = watch("syscalls", *fio(data, "--direct=1", f"--ioengine={engine}", "--iodepth=8", "--rw=randwrite"))
    writes = look.on_file(seen, "data", "write")
    assert (writes.calls, writes.bytes, writes.short) == (OPS, SIZE, 0)
    assert look.own(seen, "write").bytes >= SIZE


def test_writes_below_a_page_read_it_first(watch: Any, look: Any, data: Path) -> None:
    cold(data)
    job = fio(data, "--ioengine=psync", "--rw=randwrite", "--invalidate=0", "--io_size=1m")
    seen = watch("syscalls", *job, "--bs=512")
    writes = look.on_file(seen, "data", "write")
    assert (writes.calls, writes.bytes) == (2048, MIB)
    assert look.own(seen, "read").bytes > MIB


@pytest.mark.root
def test_a_block_device_is_known_by_its_own_number(watch: Any, look: Any, loop_device: Any) -> None:
    device = loop_device(16 * MIB)
    seen = watch("syscalls", *fio(device, "--direct=1", "--ioengine=psync", "--rw=randread"))
    (file,) = [file for file in seen.files if file.path == str(device)]
    number = device.stat().st_rdev
    assert (file.kind, file.dev) == ("block", f"{os.major(number)}:{os.minor(number)}")
    assert look.on_file(seen, device.name, "read").bytes == SIZE
    (reads,) = [part for part in seen.block if part.own and part.name == device.name and part.kind == "read"]
    assert (reads.dev, reads.calls.calls, reads.calls.bytes) == (file.dev, OPS, SIZE)


def test_memory_has_no_device(watch: Any, look: Any, data: Path) -> None:
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        pytest.skip("needs a tmpfs at /dev/shm")
    path = shared / f"ioassay-{os.getpid()}"
    try:
        seen = watch("syscalls", *fio(path, "--ioengine=psync", "--rw=write", "--end_fsync=1"))
    finally:
        path.unlink(missing_ok=True)
    writes = look.on_file(seen, path.name, "write")
    assert writes.bytes >= SIZE and writes.errors == 0
    assert look.own(seen, "write").bytes < SIZE
