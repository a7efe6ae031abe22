"""What each layer sees of each way to do I/O, against fio: exact operations and bytes on the file, and of the device.

The rows are those that no tool of user space sees all of: libaio, io_uring, SQPOLL, mmap, engines that do nothing.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ioassay import _core
from ioassay.process import supervisor
from ioassay.records.observation import from_dict

from ..corpora import has
from ..patience import PATIENCE_S
from .conftest import FIO, cold, table

pytestmark = [pytest.mark.bpf, pytest.mark.fio]

MIB = 1 << 20
SIZE, OPS = 16 * MIB, 4096
# Metadata, and the pages of fio and its libraries where they were not in memory, again where others need that memory.
BESIDES = 256 * MIB
READS_OF_OTHERS = """
reads() { read -r count rest < /sys/block/$0/stat; echo $count; }
before=$(reads); until [ $(reads) -gt $((before + 1)) ]; do sleep 0.01; done
"""
"""A script that ends when the device that is its $0 has done two more."""
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
    assert look.own(seen, "read").bytes >= SIZE and look.read_for(seen, "data") <= SIZE + BESIDES
    (session,) = [s for s in seen.sessions if s.read.calls == OPS]
    assert "direct" in session.flags and session.first.calls == 1 and session.first.bytes == 4096
    two_ns = (session.first.first_ns, session.second_ns)  # of registered files in either order, before Linux 6.13
    assert session.opened_ns < min(two_ns) <= max(two_ns) <= session.ended_ns


@table("bpf_layers", "synchronisations_count_by_what_they_had_to_do")
def test_synchronisations_count_by_what_they_had_to_do(
    watch: Any, data: Path, program: str, counts: Any, other_path: str | None
) -> None:
    made = "import os; fd, other = (os.open('data', os.O_RDWR) for _ in 'ab'); s = os.fdatasync\n"
    made += f"def w(fd, flags=0): os.pwritev(fd, [b'x' * 4096], 0, flags)\n{program}"
    seen = watch("syscalls", sys.executable, "-SIc", made)
    (file,) = [each for each in seen.files if each.path == "data"]
    found = [(each.sync.calls, each.dirty_syncs, each.synced_writes) for each in seen.sessions if each.file == file.id]
    assert found == [*counts] and file.other_path == (other_path or "") and seen.syncs_followed


@table("bpf_layers", "each_way_is_seen_on_the_file_and_on_the_device")
def test_each_way_is_seen_on_the_file_and_on_the_device(
    watch: Any, look: Any, data: Path, options: str, file: Any, device: Any, cached_mib: int | None
) -> None:
    cold(data)
    seen = watch("syscalls", *fio(data, *options.split()))
    for kind, counts in file.items():
        assert has(asdict(look.on_file(seen, "data", kind)), counts), kind
    for kind, (least, most) in device.items():
        assert least <= look.own(seen, kind).bytes / MIB, kind
        assert (look.read_for(seen, "data") if kind == "read" else look.own(seen, kind).bytes) / MIB <= most, kind
    if cached_mib is not None:
        assert next(file.page_cache_bytes for file in seen.files if file.path.endswith("/data")) == cached_mib * MIB


@table("bpf_layers", "parts_of_latencies_sum_to_what_fio_measured")
def test_parts_of_latencies_sum_to_what_fio_measured(witnessed: Any, data: Path, options: str, device: Any) -> None:
    cold(data)
    result = witnessed(data.parent, fio(data, *options.split()), level="explain")
    if "block_io_start" in result["why"]:
        pytest.skip(result["why"])
    found = result["latency_parts"][0]
    assert OPS - 32 <= found["operations"] <= OPS + 256, found  # the last of io_uring; those of the loader
    # fio may wait for a processor between its clock and the call, where the kernel cannot see it.
    assert 0.75 * found["mean_ns"] <= found["seen_ns"] <= found["sum_ns"] <= 1.05 * found["mean_ns"], found
    (mean_ns,) = [part["mean_ns"] for part in found["parts"] if part["name"] == "device"] or [0]
    assert device[0] * found["mean_ns"] <= mean_ns <= device[1] * found["mean_ns"], found


def test_the_ways_into_the_kernel_are_measured_by_calls_that_are_in_no_count(watch: Any, data: Path) -> None:
    program = "import os; fd = os.open('data', os.O_RDONLY); [os.pread(fd, 4096, 0) for _ in range(1000)]"
    plain, seen = (watch(level, sys.executable, "-SIc", program) for level in ("syscalls", "explain"))
    if "block_io_start" in seen.why:
        pytest.skip(seen.why)
    assert seen.entry_exit.calls == 256 and plain.entry_exit is None
    own_ns = seen.entry_exit.entry_ns + seen.entry_exit.exit_ns
    assert 0 < seen.entry_exit.p25_ns <= seen.entry_exit.p75_ns and own_ns < 100_000
    assert [seen.calls[name] for name in ("pread64", "openat")] == [plain.calls[name] for name in ("pread64", "openat")]
    assert [file.path for file in seen.files] == [file.path for file in plain.files]


def test_level_block_sees_io_uring_and_no_system_call(watch: Any, look: Any, data: Path) -> None:
    seen = watch("block", *fio(data, "--direct=1", "--ioengine=io_uring", "--iodepth=16", "--rw=randread"))
    assert [(part.entry, part.kind) for part in seen.operations] == [("uring", "read")]
    assert look.by(seen, "uring").bytes == SIZE
    assert sum(seen.operations[0].latency.counts) == OPS
    assert look.own(seen, "read").bytes >= SIZE
    assert (set(seen.layers) - {"bios"}, list(seen.files), list(seen.sessions)) == ({"block", "uring"}, [], [])
    assert (dict(seen.calls), dict(seen.call_errors)) == ({}, {})


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
    assert look.own(first, "read").bytes >= SIZE > look.read_for(warm, "data")


def test_a_hole_is_read_without_the_device(watch: Any, look: Any, data: Path) -> None:
    hole = data.with_name("hole")
    with hole.open("wb") as file:
        file.truncate(SIZE)
    seen = watch("syscalls", *fio(hole, "--direct=1", "--ioengine=psync", "--rw=randread"))
    reads = look.on_file(seen, "hole", "read")
    assert (reads.calls, reads.bytes) == (OPS, SIZE)
    assert look.read_for(seen, "hole") < SIZE


def test_buffered_writes_stay_in_memory_until_they_are_synced(watch: Any, look: Any, data: Path) -> None:
    job = fio(data, "--ioengine=psync", "--rw=randwrite", "--invalidate=0")
    deferred = watch("syscalls", *job)
    synced = watch("syscalls", *job, "--end_fsync=1")
    for seen, syncs in ((deferred, 0), (synced, 1)):
        writes = look.on_file(seen, "data", "write")
        assert (writes.calls, writes.bytes, look.on_file(seen, "data", "sync").calls) == (OPS, SIZE, syncs)
    assert look.own(deferred, "write").bytes < SIZE // 4
    assert look.own(synced, "write").bytes > 0  # less than all where another program's sync wrote some pages first
    flushed = [part for part in synced.block if part.kind == ("flush" if part.own else "write")]  # or by the journal
    assert sum(part.calls.calls for part in flushed) >= 1


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


# Block requests as kernels before 6.5 tell them, by who submitted their bios: the same programs, used here as well


OLDEST = ["oldest"]


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
    theirs = fio(device, "--direct=1", "--ioengine=psync", "--rw=randread", "--loops=9999", "--thinktime=100")
    with subprocess.Popen(theirs, stdout=subprocess.DEVNULL) as other:
        try:
            seen = watch("block", "sh", "-c", f"{shlex.join(mine)}; {READS_OF_OTHERS}", device.name, layers=OLDEST)
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
    small = watch("block", *fio(device, "--direct=1", "--ioengine=libaio", *BATCH, "--rw=read"), layers=OLDEST)
    requests, volume = by_kind(small, device.name)["read"]
    (part,) = [part for part in small.block if part.own and part.name == device.name and part.kind == "read"]
    assert volume == SIZE and requests + part.merges == OPS


def test_a_sync_writes_and_flushes_in_its_callers_name(watch: Any, look: Any, data: Path) -> None:
    job = fio(data, "--ioengine=psync", "--rw=randwrite", "--invalidate=0", "--end_fsync=1")
    newer, older = watch("syscalls", *job), watch("syscalls", *job, layers=OLDEST)
    for seen in (newer, older):
        assert look.on_file(seen, "data", "write").bytes == SIZE
        # Less than all where another program's sync wrote some of its pages first.
        assert 0 < look.own(seen, "write").bytes <= SIZE + BESIDES
    assert bool(look.own(newer, "flush").calls) == bool(look.own(older, "flush").calls)


def test_a_flush_alone_is_counted_and_ends(watch: Any, look: Any, data: Path) -> None:
    program = "import os; fd = os.open('data', os.O_RDWR); [os.fsync(fd) for _ in range(10)]"
    newer = look.own(watch("block", sys.executable, "-SIc", program), "flush")
    older = look.own(watch("block", sys.executable, "-SIc", program, layers=OLDEST), "flush")
    assert newer.calls == older.calls
    for seen in (newer, older):
        assert seen.calls // 2 <= seen.completed <= seen.calls  # the kernel skips a program now and then


# Recordings: every block request of a command, as a trace in any format


JOB = [*FIO, "--filename=data", "--size=16m", "--bs=4k", "--minimal", "--direct=1", "--ioengine=io_uring"]


@pytest.mark.parametrize("older", [[], ["bios"]], ids=["requests", "bios"])
def test_a_recording_has_every_request_once_and_in_order(watch: Any, look: Any, data: Path, older: list[str]) -> None:
    record = data.with_name("requests.bin")
    job = [*JOB, "--iodepth=32", "--rw=randrw"]
    seen = watch("record", *job, record=record, layers=OLDEST if older else [])
    assert {"block", *older, "uring", "record"} <= set(seen.layers) and "syscalls" not in seen.layers
    source = {"recording": {"path": str(record), "own": True}}
    info = _core.trace_info(source)
    for kind in ("read", "write"):
        counted = look.own(seen, kind)
        assert info["kinds"][kind] == {"requests": counted.calls, "bytes": counted.bytes}
    assert info["kinds"]["read"]["bytes"] + info["kinds"]["write"]["bytes"] >= 16 * MIB
    assert (info["time"]["first_ns"], info["time"]["backward"]) == (0, 0)
    own = [part for part in seen.block if part.own]
    first = min(part.calls.first_ns for part in own)
    last = max(part.calls.last_ns for part in own)
    assert 0 < info["time"]["last_ns"] < last - first


def test_a_recording_is_written_in_the_formats_of_traces(watch: Any, data: Path) -> None:
    record = data.with_name("requests.bin")
    seen = watch("record", *JOB, "--iodepth=8", "--rw=randread", record=record, layers=["syscalls"])
    assert {"syscalls", "aio", "record"} <= set(seen.layers)
    device = next(part.dev for part in seen.block if part.own and part.kind == "read")
    source = {"recording": {"path": str(record), "own": True, "device": device}}
    trace = data.with_name("trace.csv")
    written = _core.trace_write(source, trace, "csv")
    again = _core.trace_info({"path": str(trace)})
    assert written["from"] == "recording"
    assert again["requests"] == _core.trace_info(source)["requests"] >= 4000  # neighbours may be merged
    everyone = _core.trace_info({"recording": {"path": str(record)}})
    assert everyone["requests"] >= again["requests"]


def test_what_is_no_recording_is_named(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_text("something else")
    with pytest.raises(_core.CoreError, match="other: .*no recording"):
        _core.trace_info({"recording": {"path": str(path)}})
    with pytest.raises(_core.CoreError, match="numbers as in 8:0"):
        _core.trace_info({"recording": {"path": str(path), "device": "sda"}})
    with pytest.raises(FileNotFoundError):
        _core.trace_info({"recording": {"path": str(tmp_path / "absent")}})


def test_a_recording_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent/requests.bin' cannot be written"):
        _core.Witness("record", tmp_path / "absent" / "requests.bin")
    with pytest.raises(ValueError, match="wants a file"):
        _core.Witness("record")


def test_a_recording_that_finds_no_room_costs_only_itself(watch: Any, data: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    seen = watch("record", *JOB, "--iodepth=8", "--rw=randread", record=full)
    assert {"block", "uring"} <= set(seen.layers) and "record" not in seen.layers
    assert "the recording '/dev/full' cannot be written: No space left on device" in seen.why
    assert sum(part.calls.calls + part.merges for part in seen.block) >= 4096


def test_requests_that_found_no_room_in_the_ring_are_counted(
    tmp_path: Path, compiled: Callable[..., str], data: Path
) -> None:
    """A million events to a recording that nobody takes: a pipe that is full. Its ring holds a third of them."""
    recording = tmp_path / "recording"
    os.mkfifo(recording)
    reader = os.open(recording, os.O_RDONLY | os.O_NONBLOCK)
    programs = _core.Witness("record", recording, ["synthetic"])
    supervisor.run(
        [compiled("million_reads")],
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
        timeout_s=PATIENCE_S,
        cwd=tmp_path,
        on_held=programs.follow,
    )
    taken = threading.Thread(target=_drain, args=(reader,), daemon=True)
    taken.start()
    health = from_dict({**json.loads(programs.finish()), "backend": "bpf", "asked": "record"}).health
    assert health["dropped"] > 100_000
    taken.join(PATIENCE_S)
    os.close(reader)


def _drain(reader: int) -> None:
    """Read until the other end is closed."""
    os.set_blocking(reader, True)
    while os.read(reader, 1 << 20):
        pass
