"""Programs of every habit under the witness: forks, threads, exec, hundreds, milliseconds, a violent end."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

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
    assert seen.processes == 301
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
import os, signal, threading
fd = os.open("data", os.O_RDONLY)
[os.pread(fd, 4096, 0) for _ in range(100)]
reading, writing = os.pipe()
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGKILL)).start()
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
