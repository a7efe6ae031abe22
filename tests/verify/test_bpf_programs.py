"""Programs of every habit under the witness: forks, threads, exec, hundreds, milliseconds, a violent end.

And offsets as its programs keep them: every way to move data, against the offsets that a program was given.
"""

from __future__ import annotations

import itertools
import mmap
import os
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ioassay.records.observation import Observation, Pattern

from .conftest import FIO

pytestmark = pytest.mark.bpf


def test_the_first_instruction_is_seen(watch: Any, look: Any, compiled: Any) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("written for x86-64")
    seen = watch("syscalls", compiled("first_instruction_reads", "-nostdlib", "-static"))
    reads = look.by(seen, "read")
    assert (reads.calls, reads.requested_bytes, reads.bytes, reads.short) == (1, 10, 0, 1)
    assert seen.processes == 1


def test_threads_that_share_a_file_lose_no_call(watch: Any, look: Any, compiled: Any, data: Path) -> None:
    seen = watch("syscalls", compiled("threads_of_one_file", "-pthread"))
    reads = look.on_file(seen, "data", "read")
    assert (reads.calls, reads.completed, reads.bytes) == (40000, 40000, 40000 * 512)
    assert seen.processes == 9
    (pread,) = [part for part in seen.operations if part.entry == "pread64"]
    assert sum(pread.latency.counts) == pread.calls.completed >= 40000
    middle = sum(value * count for value, count in zip(pread.latency.values_ns, pread.latency.counts, strict=True))
    assert middle == pytest.approx(pread.calls.sum_ns, rel=0.032)
    assert reads.first_ns < reads.last_ns and reads.min_ns <= reads.sum_ns // reads.completed <= reads.max_ns


BUSY = """
import ctypes, os, time
libc, now = ctypes.CDLL(None), ctypes.create_string_buffer(16)
clock_gettime = {"x86_64": 228, "aarch64": 113}[os.uname().machine]
handle = os.open("data", os.O_RDONLY)
for place in range(20):
    os.pread(handle, 512, 512 * place)
    until = time.monotonic() + 0.005
    while time.monotonic() < until:
        libc.syscall(clock_gettime, 1, now)  # as time.monotonic() does on a machine whose clock the vDSO cannot read
"""


def test_outer_intervals_hold_a_call_and_the_work_around_it(watch: Any, look: Any, data: Path) -> None:
    seen = watch("syscalls", sys.executable, "-S", "-c", BUSY)
    outer, latency = seen.outer_intervals["read"], look.by(seen, "pread64")
    assert sum(outer.counts) >= latency.completed >= 20
    held = sum(count for value, count in zip(outer.values_ns, outer.counts, strict=True) if value >= 2 * 4_900_000)
    assert held >= 19  # all but the first have work on both sides
    assert seen.outer_intervals.keys() <= {"read", "write", "sync"}


def test_a_pipe_has_no_outer_intervals(watch: Any, data: Path) -> None:
    seen = watch("syscalls", "sh", "-c", "echo one | { read line; }")
    parts = [part.calls for part in seen.operations if part.kind == "write"]
    assert sum(part.completed for part in parts) >= 1 and "write" not in seen.outer_intervals


def test_vectors_short_reads_errors_and_flags_are_told(watch: Any, look: Any, compiled: Any, data: Path) -> None:
    seen = watch("syscalls", compiled("vectors"))
    reads, writes = look.on_file(seen, "data", "read"), look.on_file(seen, "out", "write")
    assert (reads.calls, reads.bytes, reads.requested_bytes, reads.short) == (2, 599500, 599500 + 4096, 1)
    assert (writes.calls, writes.bytes) == (1, 303)
    assert look.on_file(seen, "out", "read").errors == 1
    assert look.on_file(seen, "out", "sync").calls == 1
    out = next(file for file in seen.files if file.path == "out")
    (session,) = [session for session in seen.sessions if session.file == out.id]
    assert set(session.flags) == {"write", "dsync", "append", "create"}
    assert session.closed_ns == 0  # it ended without a close
    info = (data.parent / "out").stat()
    assert (out.inode, out.dev, out.kind) == (
        info.st_ino,
        f"{os.major(info.st_dev)}:{os.minor(info.st_dev)}",
        "regular",
    )


def test_hundreds_of_short_processes_are_followed_through_exec(watch: Any, look: Any, data: Path) -> None:
    script = "i=0; while [ $i -lt 300 ]; do /bin/dd if=data of=/dev/null bs=4096 count=1 2>/dev/null; i=$((i+1)); done"
    seen = watch("syscalls", "/bin/sh", "-c", script)
    reads = look.on_file(seen, "data", "read")
    assert (reads.calls, reads.bytes) == (300, 300 * 4096)
    assert (seen.processes, seen.threads, seen.most_alive) == (301, 0, 2)
    assert seen.calls["execve"] == seen.calls["exit_group"] == 301
    assert sum(seen.calls.get(name, 0) for name in ("vfork", "clone", "clone3")) == 300
    assert len([session for session in seen.sessions if session.read.bytes == 4096 and session.read.calls == 1]) >= 300


def test_a_file_is_one_session_whatever_descriptors_it_has(watch: Any, look: Any, data: Path) -> None:
    program = """
import os
fd = os.open("data", os.O_RDONLY)
copy = os.dup(fd)
os.read(fd, 100)
os.close(fd)
child = os.fork()
os.read(copy, 100)
if child:
    os.wait()
    os.close(copy)
    again = os.open("data", os.O_RDONLY)
    os.read(again, 100)
    os.close(again)
"""
    seen = watch("syscalls", sys.executable, "-SIc", program)
    (file,) = [file for file in seen.files if file.path == "data"]
    first, second = [session for session in seen.sessions if session.file == file.id]
    assert (first.read.calls, first.first.bytes, second.read.calls) == (3, 100, 1)
    assert first.opened_ns < first.ended_ns < first.closed_ns < second.opened_ns < second.closed_ns


def test_flags_that_change_between_calls_begin_a_session(watch: Any, data: Path) -> None:
    program = """
import fcntl, mmap, os
memory = mmap.mmap(-1, 4096)
fd = os.open("data", os.O_RDONLY)
def read(flags, calls):
    fcntl.fcntl(fd, fcntl.F_SETFL, flags)
    fcntl.fcntl(fd, fcntl.F_GETFL)
    for _ in range(calls):
        os.preadv(fd, [memory], 0)
read(os.O_DIRECT, 1)
read(os.O_DIRECT, 1)
read(0, 3)
read(os.O_DIRECT | os.O_NONBLOCK, 4)
one, other = os.pipe()
os.write(other, b"12")
os.read(one, 1)
fcntl.fcntl(one, fcntl.F_SETFL, os.O_NONBLOCK)
os.read(one, 1)
"""
    seen = watch("syscalls", sys.executable, "-SIc", program)
    (file,) = [file for file in seen.files if file.path == "data"]
    found = [session for session in seen.sessions if session.file == file.id]
    assert [("direct" in session.flags, session.read.calls) for session in found] == [(True, 2), (False, 3), (True, 4)]
    assert [session.opened_ns for session in found] == sorted(session.opened_ns for session in found)
    assert found[0].opened_ns and found[0].ended_ns < found[1].opened_ns and seen.flags_followed
    pipes = {file.id for file in seen.files if file.kind == "pipe"}
    assert max(session.read.calls for session in seen.sessions if session.file in pipes) == 2


def test_files_closed_together_have_ended(watch: Any, data: Path) -> None:
    program = "import os; a = os.open('data', 0); os.read(a, 9); os.closerange(a, 4000); os.open('data', 0)"
    seen = watch("syscalls", sys.executable, "-SIc", program)
    (file,) = [file for file in seen.files if file.path == "data"]
    closed, left_open = [session for session in seen.sessions if session.file == file.id]
    assert closed.read.bytes == 9 and closed.closed_ns > closed.ended_ns > 0 and left_open.closed_ns == 0


def test_a_file_that_was_open_before_has_a_session_without_an_open(watch: Any) -> None:
    seen = watch("syscalls", "/bin/echo", "hello")
    (session,) = [session for session in seen.sessions if session.write.bytes == 6]
    (file,) = [file for file in seen.files if file.id == session.file]
    assert (session.opened_ns, file.path, file.kind) == (0, "", "regular")


def test_a_death_by_signal_keeps_what_was_seen(watch: Any, look: Any, data: Path) -> None:
    program = """
import os, signal, threading, time
fd = os.open("data", os.O_RDONLY)
[os.pread(fd, 4096, 0) for _ in range(100)]
reading, writing = os.pipe()
def kill():
    while "pipe_read" not in open(f"/proc/self/task/{os.getpid()}/wchan").read():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=kill).start()
os.read(reading, 77)
"""
    seen = watch("syscalls", sys.executable, "-SIc", program)
    assert look.on_file(seen, "data", "read").bytes == 409600
    kinds = {file.id: file.kind for file in seen.files}
    (waiting,) = [s for s in seen.sessions if kinds[s.file] == "pipe" and s.read.requested_bytes == 77]
    assert (waiting.read.calls, waiting.read.completed, waiting.closed_ns) == (1, 0, 0)


def test_copies_within_the_kernel_read_one_file_and_write_another(watch: Any, look: Any, data: Path) -> None:
    program = """
import os
a, b, c = os.open("data", 0), os.open("b", os.O_WRONLY | os.O_CREAT), os.open("c", os.O_WRONLY | os.O_CREAT)
assert os.sendfile(b, a, 0, 8192) == 8192
assert os.copy_file_range(a, c, 4096, 0) == 4096
"""
    seen = watch("syscalls", sys.executable, "-SIc", program)
    assert look.on_file(seen, "data", "read").bytes == 12288
    assert look.on_file(seen, "b", "write").bytes == 8192
    assert look.on_file(seen, "c", "write").bytes == 4096
    assert look.by(seen, "sendfile", "read").bytes == look.by(seen, "sendfile", "write").bytes == 8192


def test_a_program_that_does_nothing_has_nothing(watch: Any, look: Any) -> None:
    seen = watch("syscalls", "/bin/true")
    assert look.by(seen, "pwrite64").calls == 0 and seen.processes == 1
    assert seen.cost["attach_s"] > 0 and seen.cost["cpu_s"] > 0


# Offsets


KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
Calls = Sequence[tuple[int, int]]

MOVER = """
import os, sys
way, calls = sys.argv[1], eval(sys.argv[2])
file, other = os.open("data", os.O_RDWR), os.open("other", os.O_RDWR | os.O_CREAT)
for offset, size in calls:
    data = b"x" * size
    if way in ("read", "readv", "write", "writev"):
        os.lseek(file, offset, 0)
    if way == "read": os.read(file, size)
    if way == "readv": os.readv(file, [bytearray(size // 2), bytearray(size - size // 2)])
    if way == "pread": os.pread(file, size, offset)
    if way == "preadv": os.preadv(file, [bytearray(size)], offset)
    if way == "write": os.write(file, data)
    if way == "writev": os.writev(file, [data[:9], data[9:]])
    if way == "pwrite": os.pwrite(file, data, offset)
    if way == "pwritev": os.pwritev(file, [data], offset)
    if way == "sendfile": os.sendfile(other, file, offset, size)
    if way == "copy": os.copy_file_range(file, other, size, offset, 0)
    if way == "copy-out": os.copy_file_range(other, file, size, 0, offset)
"""
READS = ("read", "readv", "pread", "preadv", "sendfile", "copy")
WRITES = ("write", "writev", "pwrite", "pwritev", "copy-out")


def expected(calls: Calls) -> Pattern:
    """Of calls that are whole granules."""
    ends = [(offset, offset + size) for offset, size in calls]
    touched: set[int] = set()
    reused, lowest, rewinds, fresh, continued = 0, ends[0][0], 0, 0, 0
    for (_, before), (start, end) in zip([(0, -1), *ends], ends, strict=False):
        granules = set(range(start // 512, end // 512))
        reused += granules <= touched
        fresh += not granules & touched
        continued += not granules & touched and start // 512 - 1 in touched
        touched |= granules
        rewinds += before >= 0 and start == lowest and start != before
        lowest = min(lowest, start)
    return Pattern(
        calls=len(calls),
        sequential=sum(after[0] == before[1] for before, after in itertools.pairwise(ends)),
        rewinds=rewinds,
        reused=reused,
        fresh=fresh,
        continued=continued,
        unique_bytes=512 * len(touched),
        lowest_bytes=lowest,
        highest_bytes=max(end for _, end in ends),
    )


def on_data(seen: Observation, kind: str) -> list[Pattern]:
    ids = {file.id for file in seen.files if file.path.rpartition("/")[2] == "data"}
    found = [getattr(session, f"{kind}_pattern") for session in seen.sessions if session.file in ids]
    return [pattern for pattern in found if pattern is not None]


def of(seen: Observation, kind: str) -> Pattern:
    (pattern,) = on_data(seen, kind)
    return pattern


def order(pattern: Pattern) -> Pattern:
    """Without what is a vote by majority."""
    return Pattern(**{**vars(pattern), "stride_bytes": 0, "stride_calls": 0})


def random_calls(seed: int, number: int = 150, granule: int = 512) -> list[tuple[int, int]]:
    """Within 2 MiB: jumps, runs, and places that were touched before."""
    chance, found = random.Random(seed), [(0, granule)]
    for _ in range(number):
        size = granule * chance.choice((1, 1, 2, 8, 65))
        places = (found[-1][0] + found[-1][1], found[0][0], chance.randrange(2 * MIB // granule) * granule)
        found.append((chance.choice(places) % (2 * MIB), size))
    return found


@pytest.mark.parametrize("way", [*READS, *WRITES])
def test_each_way_to_move_data_has_its_offsets(watch: Any, data: Path, way: str) -> None:
    calls = random_calls(seed=len(way))
    (data.parent / "other").write_bytes(b"y" * MIB)
    seen = watch("syscalls", sys.executable, "-SIc", MOVER, way, repr(calls))
    assert order(of(seen, "read" if way in READS else "write")) == expected(calls)


@pytest.mark.parametrize("granule", [512, 4096])
def test_direct_io_is_exact(watch: Any, data: Path, granule: int) -> None:
    program = """
import mmap, os, sys
file, page = os.open("data", os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 1 << 20)
for offset, size in eval(sys.argv[1]):
    assert os.preadv(file, [memoryview(page)[:size]], offset) == size
"""
    calls = random_calls(granule, granule=granule)
    try:
        probe = os.open(data, os.O_RDONLY | os.O_DIRECT)
        os.preadv(probe, [memoryview(mmap.mmap(-1, 4096))[:granule]], 0)
        os.close(probe)
    except OSError:
        pytest.skip("this disk's blocks are larger")
    seen = watch("syscalls", sys.executable, "-SIc", program, repr(calls))
    assert order(of(seen, "read")) == expected(calls)


@pytest.mark.fio
@pytest.mark.parametrize(
    "engine", [("libaio", "--iodepth_batch=8"), ("io_uring",), ("io_uring", "--sqthread_poll=1"), ("posixaio",)]
)
@pytest.mark.parametrize("rw", ["read", "randread"])
def test_requests_are_in_the_order_of_their_submission(watch: Any, data: Path, engine: Sequence[str], rw: str) -> None:
    options = [f"--ioengine={engine[0]}", *engine[1:], "--iodepth=16", "--direct=1", f"--rw={rw}", "--bs=4k"]
    seen = watch("syscalls", *FIO, f"--filename={data}", "--size=16m", *options)
    pattern = max(on_data(seen, "read"), key=lambda found: found.calls)
    release = tuple(map(int, os.uname().release.split(".")[:2]))
    if "--sqthread_poll=1" in engine and release <= (6, 12):  # docs/backends.md
        assert pattern.calls == 0
        return
    assert (pattern.calls, pattern.unique_bytes, pattern.reused, pattern.error_bytes) == (4096, 16 * MIB, 0, 0)
    if engine[0] != "posixaio":  # whose threads make the calls when they can
        assert pattern.switches == 0
        assert pattern.sequential == 4095 if rw == "read" else pattern.sequential < 400


def test_a_ring_may_use_the_position_of_the_file(watch: Any, compiled: Any, data: Path) -> None:
    found = of(watch("syscalls", compiled("ring_at_position")), "read")
    assert (found.calls, found.sequential, found.unsure) == (40, 38, 0)
    assert (found.unique_bytes, found.highest_bytes) == (40 * 4096, MIB + 20 * 4096)


def test_strides_are_seen_in_both_directions(watch: Any, data: Path) -> None:
    forward = [(17 * 4096 * place % (15 * MIB), 4096) for place in range(400)]
    backward = [(offset, 4096) for offset in range(8 * MIB, 0, -4096)]
    for calls, stride in ((forward, 17 * 4096), (backward, -4096)):
        found = of(watch("syscalls", sys.executable, "-SIc", MOVER, "pread", repr(calls)), "read")
        assert found.stride_bytes == stride
        strides = Counter(after - before for (before, _), (after, _) in itertools.pairwise(calls))
        assert 0.9 * strides[stride] <= found.stride_calls <= strides[stride]


def test_granules_grow_with_the_offset_and_calls_may_be_of_any_size(watch: Any, data: Path) -> None:
    os.truncate(data, 8 * TIB)
    calls = [(0, 64 * MIB), (3 * GIB, MIB), *((place * 4096, 4096) for place in (1 << 20, 1 << 25, 1 << 30))]
    found = of(watch("syscalls", sys.executable, "-SIc", MOVER, "pread", repr(calls)), "read")
    touched = sum(size for _, size in calls)
    assert found.unique_bytes - found.error_bytes <= touched <= found.unique_bytes
    assert found.unique_bytes > touched  # 4 TiB far, a granule is 8 MiB
    assert (found.calls, found.unsure, found.highest_bytes) == (5, 0, 4096 + (1 << 42))
    near = of(watch("syscalls", sys.executable, "-SIc", MOVER, "pread", repr(calls[:1])), "read")
    assert (near.unique_bytes, near.error_bytes) == (64 * MIB, 0)


def test_odd_calls_are_bounded_and_a_run_of_them_is_exact(watch: Any, data: Path) -> None:
    chance = random.Random(5)
    calls = [(chance.randrange(MIB), chance.randrange(1, 9000)) for _ in range(100)]
    touched = len({byte for offset, size in calls for byte in range(offset, offset + size)})
    found = of(watch("syscalls", sys.executable, "-SIc", MOVER, "pread", repr(calls)), "read")
    assert found.unique_bytes - found.error_bytes <= touched <= found.unique_bytes
    run = [(7 + 1000 * place, 1000) for place in range(100)]
    found = of(watch("syscalls", sys.executable, "-SIc", MOVER, "read", repr(run)), "read")
    assert (found.sequential, found.unique_bytes, found.error_bytes) == (99, 100_000, 0)


def test_what_is_appended_lies_at_the_end_wherever_it_was_asked_for(watch: Any, data: Path) -> None:
    program = """
import os
file = os.open("data", os.O_WRONLY | os.O_APPEND)
for _ in range(20): os.write(file, b"x" * 4096); os.pwrite(file, b"x" * 4096, 0)
"""
    found = of(watch("syscalls", sys.executable, "-SIc", program), "write")
    assert (found.lowest_bytes, found.sequential, found.unique_bytes) == (16 * MIB, 39, 40 * 4096)


def test_the_end_of_a_file_is_touched_as_far_as_it_was_read(watch: Any, data: Path) -> None:
    os.truncate(data, 10_000)
    found = of(watch("syscalls", sys.executable, "-SIc", "open('data', 'rb', 0).readall()"), "read")
    assert (found.unique_bytes, found.error_bytes, found.highest_bytes) == (10_000, 0, 10_000)


def test_tasks_that_share_an_open_file_are_told_by_their_turns(watch: Any, compiled: Any, data: Path) -> None:
    program = """
import os, threading
file, turns = os.open("data", os.O_RDONLY), [threading.Semaphore(1), threading.Semaphore(0)]
def work(mine):
    for place in range(100):
        turns[mine].acquire(); os.pread(file, 4096, (2 * place + mine) * 4096); turns[1 - mine].release()
both = [threading.Thread(target=work, args=(mine,)) for mine in (0, 1)]
[one.start() for one in both]; [one.join() for one in both]
"""
    found = of(watch("syscalls", sys.executable, "-SIc", program), "read")
    assert (found.calls, found.sequential, found.switches, found.unique_bytes) == (200, 199, 199, 200 * 4096)


def test_pipes_and_other_levels_have_no_offsets(watch: Any, data: Path) -> None:
    seen = watch("syscalls", "/bin/sh", "-c", "cat data | cat > out")
    kinds = {file.id: file.kind for file in seen.files}
    patterns = [(kinds[s.file], p) for s in seen.sessions for p in (s.read_pattern, s.write_pattern) if p is not None]
    assert {kind for kind, _ in patterns} == {"regular"}
    assert of(seen, "read").unique_bytes == 16 * MIB
    assert not watch("block", "/bin/cat", str(data)).sessions


def test_bitmaps_without_room_are_said_to_be_unsure(watch: Any, data: Path) -> None:
    os.truncate(data, 15 * TIB)
    program = """
import os
for _ in range(40):
    file = os.open("data", os.O_RDONLY)
    for power in range(24, 44): os.pread(file, 4096, (1 << power) - 4096)
"""
    found = on_data(watch("syscalls", sys.executable, "-SIc", program), "read")
    assert [pattern.calls for pattern in found] == [20] * 40
    assert found[0].unsure == 0 and found[0].reused == 0
    assert found[-1].unsure > 0
