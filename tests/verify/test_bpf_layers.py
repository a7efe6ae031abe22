"""What each layer sees of each way to do I/O, against fio: exact operations and bytes on the file.

The rows are those that no tool of user space sees all of: libaio, io_uring, SQPOLL, mmap, engines that do nothing.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ..corpora import has
from .conftest import FIO, cold, table

pytestmark = [pytest.mark.bpf, pytest.mark.fio]

MIB = 1 << 20
SIZE, OPS = 16 * MIB, 4096
# Metadata, and the pages of fio itself where they were not in memory.
BESIDES = 64 * MIB
BATCH = ["--iodepth=16", "--iodepth_batch=16", "--iodepth_batch_complete_min=16"]


def fio(path: Path, *options: str) -> list[str]:
    return [*FIO, f"--filename={path}", "--size=16m", "--bs=4k", "--minimal", *options]


@table("bpf_layers", "direct_reads_are_seen_exactly")
def test_direct_reads_are_seen_exactly(watch: Any, look: Any, data: Path, options: str, entry: str) -> None:
    seen = watch("syscalls", *fio(data, "--direct=1", *options.split()))
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


@table("bpf_layers", "each_way_is_seen_on_the_file_and_on_the_device")
def test_each_way_is_seen_on_the_file_and_on_the_device(
    watch: Any, look: Any, data: Path, options: str, file: Any, device: Any, cached_mib: int | None
) -> None:
    cold(data)
    seen = watch("syscalls", *fio(data, *options.split()))
    for kind, counts in file.items():
        assert has(asdict(look.on_file(seen, "data", kind)), counts), kind
    for kind, (least, most) in device.items():
        assert least <= look.own(seen, kind).bytes / MIB <= most, kind
    if cached_mib is not None:
        assert next(file.page_cache_bytes for file in seen.files if file.path.endswith("/data")) == cached_mib * MIB


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
