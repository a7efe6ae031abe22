"""What strace sees of commands: made-up lines with every turn, and real runs whose counts are the tool's own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ioassay.records.observation import READ, SYNC, WRITE, Calls, Observation, Session
from ioassay.verify.witness import strace, strace_summary

KIB = 1024


def parsed(*lines: str) -> Observation:
    """Lines without their stamps: one comes each second and takes a half."""
    stamped = []
    for second, line in enumerate(lines, 1):
        task, _, text = line.partition(" ")
        took = "" if text.startswith("+++") or text.endswith("<unfinished ...>") else " <0.500000>"
        stamped.append(f"{task} {second}.000000 {text}{took}\n")
    return strace.parse(stamped)


def sessions(seen: Observation, path: str) -> list[Session]:
    ids = {file.id for file in seen.files if file.path == path}
    return [session for session in seen.sessions if session.file in ids]


def operation(seen: Observation, entry: str, kind: str) -> Calls:
    found = [item.calls for item in seen.operations if (item.entry, item.kind) == (entry, kind)]
    return found[0] if found else Calls()


OPEN = '1 openat(AT_FDCWD</>, "/d", O_RDWR|O_CREAT|O_DIRECT, 0600) = 3</d>'
SECOND = 10**9


def test_a_session_from_its_open_to_its_close() -> None:
    seen = parsed(
        OPEN,
        '1 pwrite64(3</d>, ""..., 4096, 0) = 4096',
        '1 read(3</d>, ""..., 4096) = 100',
        "1 read(3</d>, 0x7f, 4096) = -1 EIO (Input/output error)",
        "1 fsync(3</d>) = 0",
        "1 close(3</d>) = 0",
        "1 +++ exited with 0 +++",
    )
    (session,) = sessions(seen, "/d")
    assert session.flags == ["read", "write", "create", "direct"]
    assert (session.opened_ns, session.closed_ns) == (1.5 * SECOND, 6.5 * SECOND)
    assert (session.write.calls, session.write.bytes, session.first.bytes) == (1, 4096, 4096)
    assert (session.read.calls, session.read.bytes, session.read.short, session.read.errors) == (2, 100, 1, 1)
    assert (session.read.requested_bytes, session.sync.calls) == (8192, 1)
    assert (session.second_ns, session.ended_ns) == (3 * SECOND, 5.5 * SECOND)
    assert operation(seen, "fsync", SYNC).calls == 1
    assert (seen.backend, list(seen.layers), seen.processes) == ("strace", ["syscalls", "aio"], 1)
    assert "not to be judged" in seen.why


def test_children_share_what_was_open_and_threads_share_numbers() -> None:
    seen = parsed(
        OPEN,
        "1 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7f) = 2",
        "1 close(3</d>) = 0",
        '2 write(3</d>, ""..., 10) = 10',
        "2 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD, stack=0x7f} => {parent_tid=[4]}, 88) = 4",
        "4 close(3</d>) = 0",
        '2 openat(AT_FDCWD</>, "/e", O_WRONLY) = 3</e>',
        '4 write(3</e>, ""..., 5) = 5',
    )
    (first,), (second,) = sessions(seen, "/d"), sessions(seen, "/e")
    assert (first.write.bytes, first.closed_ns) == (10, 6.5 * SECOND)
    assert (second.write.bytes, second.closed_ns) == (5, 0)
    assert seen.processes == 3


def test_a_child_whose_lines_come_before_its_parent_knows_of_it() -> None:
    seen = parsed(
        OPEN,
        "1 vfork( <unfinished ...>",
        '2 write(3</d>, ""..., 10) = 10',
        '2 execve("/bin/true", [""...], [""...]) = 0',
        "2 +++ exited with 0 +++",
        "1 <... vfork resumed>) = 2",
        "1 close(3</d>) = 0",
    )
    (session,) = sessions(seen, "/d")
    assert (session.write.bytes, session.closed_ns) == (10, 7.5 * SECOND)
    assert seen.health["in_flight"] == 0


def test_copies_of_a_number_lead_to_one_session_and_exec_closes_those_marked_for_it() -> None:
    seen = parsed(
        '1 openat(AT_FDCWD</>, "/d", O_WRONLY|O_CLOEXEC) = 3</d>',
        "1 fcntl(3</d>, F_DUPFD, 9) = 9</d>",
        "1 dup2(9</d>, 1</dev/pts/0<char 136:0>>) = 1</d>",
        "1 fcntl(1</d>, F_SETFL, O_WRONLY|O_DIRECT) = 0",
        "1 close_range(5, 4294967295, 0) = 0",
        '1 execve("/bin/x", [""...], [""...]) = 0',
        '1 openat(AT_FDCWD</>, "/d", O_RDONLY) = 3</d>',
        '1 write(1</d>, ""..., 4) = 4',
        "1 close(1</d>) = 0",
    )
    first, second = sessions(seen, "/d")
    assert (first.write.bytes, first.closed_ns, first.flags) == (4, 9.5 * SECOND, ["write", "direct"])
    assert (second.read.calls, second.flags) == (0, ["read"])


def test_flags_that_change_between_calls_begin_a_session() -> None:
    seen = parsed(
        '1 openat(AT_FDCWD</>, "/d", O_RDWR) = 3</d>',
        "1 fcntl(3</d>, F_SETFL, O_RDWR|O_DIRECT) = 0",
        '1 read(3</d>, ""..., 512) = 512',
        "1 fcntl(3</d>, F_SETFL, O_RDWR|O_DIRECT|O_NONBLOCK) = 0",
        '1 read(3</d>, ""..., 512) = 512',
        "1 fcntl(3</d>, F_SETFL, O_RDWR|O_APPEND) = 0",
        '1 write(3</d>, ""..., 9) = 9',
        "1 close(3</d>) = 0",
    )
    direct, buffered = sessions(seen, "/d")
    assert (direct.read.bytes, direct.write.bytes, direct.flags) == (1024, 0, ["read", "write", "direct"])
    assert (buffered.read.bytes, buffered.write.bytes, buffered.flags) == (0, 9, ["read", "write", "append"])
    assert (direct.closed_ns, buffered.opened_ns, buffered.closed_ns) == (0, 6.5 * SECOND, 8.5 * SECOND)
    assert seen.flags_followed


def test_a_range_of_numbers_is_closed_from_its_first_to_its_last() -> None:
    opened = [f'1 openat(AT_FDCWD</>, "/{number}", O_RDONLY) = {number}</{number}>' for number in (3, 4, 5, 6)]
    seen = parsed(*opened, "1 close_range(4, 5, 0) = 0", "1 close_range(6, 6, 0) = -1 EINVAL (Invalid argument)")
    closed_ns = [sessions(seen, f"/{number}")[0].closed_ns for number in (3, 4, 5, 6)]
    assert closed_ns == [0, 5.5 * SECOND, 5.5 * SECOND, 0]
    assert (seen.health["untracked_files"], seen.health["untracked_sessions"]) == (0, 0)


def test_interrupted_calls_are_no_calls_and_killed_ones_are_in_flight() -> None:
    seen = parsed(
        "1 read(0<pipe:[5]>, 0x7f, 10) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)",
        '1 read(0<pipe:[5]>, ""..., 10) = 10',
        "1 read(0<pipe:[5]>,  <unfinished ...>",
        "1 +++ killed by SIGKILL +++",
    )
    calls = operation(seen, "read", READ)
    assert (calls.calls, calls.completed, calls.bytes, calls.errors) == (2, 1, 10, 0)
    assert seen.health["in_flight"] == 1
    assert seen.files[0].kind == "pipe" and seen.sessions[0].opened_ns == 0


def test_asynchronous_calls_are_matched_by_data_and_size() -> None:
    def block(data: int, what: str, size: int) -> str:
        return f"{{aio_data={data}, aio_lio_opcode=IOCB_CMD_{what}, aio_fildes=3</d>, aio_buf=0x1, aio_nbytes={size}}}"

    seen = parsed(
        OPEN,
        f"1 io_submit(0x7f, 3, [{block(0, 'PREAD', 4096)}, {block(0, 'PREAD', 512)}, {block(7, 'PWRITE', 8192)}]) = 3",
        f"1 io_submit(0x7f, 2, [{block(0, 'PREAD', 64)}, {block(0, 'PREAD', 64)}]) = 1",
        "1 io_getevents(0x7f, 1, 8, [{data=0, obj=0x1, res=512, res2=0}, {data=0x7, obj=0x1, res=8192, res2=0}], NULL)"
        " = 2",
        "1 io_getevents(0x7f, 1, 8, [{data=7, obj=0x1, res=8192, res2=0}, {data=0, obj=0x1, res=-5, res2=0}], NULL)"
        " = 2",
    )
    (session,) = sessions(seen, "/d")
    assert (session.read.calls, session.read.completed, session.read.bytes, session.read.errors) == (3, 2, 512, 1)
    assert (session.write.calls, session.write.bytes) == (1, 8192)
    assert (seen.health["unmatched"], seen.health["in_flight"]) == (1, 1)
    assert operation(seen, "aio", WRITE).completed == 1


def test_rings_are_named_as_what_cannot_be_seen() -> None:
    seen = parsed("1 io_uring_setup(8, {flags=0}) = 4<anon_inode:[io_uring]>")
    assert "io_uring was used" in seen.why and "uring" not in seen.layers
    assert parsed("1 io_uring_setup(8, {flags=0}) = 0<anon_inode:[io_uring]>").why == seen.why
    assert "io_uring" not in parsed("1 io_uring_setup(8, {flags=0}) = -1 ENOSYS (Function not implemented)").why


def test_garbage_is_counted_as_lost() -> None:
    seen = strace.parse(
        ["1 1.0 pread64(", "\x00\n", "1 1.0 pread64( <unfinished ...>\n", "1 2.0 +++ exited with 0 +++"]
    )
    assert seen.health["lost"] == 2 and seen.health["in_flight"] == 1


# Real runs


def watched(folder: Path, *argv: str) -> Observation:
    command = strace.wrap(argv, folder / "calls")
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=100)
    return strace.read(folder / "calls")


@pytest.mark.strace
@pytest.mark.fio
@pytest.mark.parametrize(
    "options",
    [
        ("--ioengine=psync", "--rw=randrw", "--direct=1"),
        ("--ioengine=psync", "--rw=write", "--thread", "--numjobs=3", "--end_fsync=1"),
        ("--ioengine=vsync", "--rw=read", "--numjobs=3"),
        ("--ioengine=libaio", "--rw=randrw", "--direct=1", "--iodepth=16"),
        (
            "--ioengine=libaio",
            "--rw=randwrite",
            "--iodepth=32",
            "--iodepth_batch=32",
            "--iodepth_batch_complete_max=32",
        ),
    ],
    ids=lambda options: "-".join(option.removeprefix("--") for option in options),
)
def test_counts_of_the_file_are_those_of_fio(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "data").write_bytes(bytes(512 * KIB))
    common = ("--name=j", "--filename=data", "--size=512k", "--bs=4k", "--group_reporting", "--invalidate=0")
    seen = watched(tmp_path, "fio", *common, *options, "--output-format=json", "--output=told")
    job = json.loads((tmp_path / "told").read_text())["jobs"][0]
    of_file = sessions(seen, str(tmp_path / "data"))
    for kind in (READ, WRITE):
        calls = [getattr(session, kind) for session in of_file]
        assert sum(part.bytes for part in calls) == job[kind]["io_bytes"]
        if "vsync" not in options[0]:  # which joins adjacent ones
            assert sum(part.calls for part in calls) == job[kind]["total_ios"]
    assert any(("direct" in session.flags) for session in of_file) == ("--direct=1" in options)
    assert sum(session.sync.calls for session in of_file) == (3 if "--end_fsync=1" in options else 0)
    assert set(seen.health.values()) == {0}, seen.health


@pytest.mark.strace
@pytest.mark.fio
def test_io_uring_is_said_to_be_invisible(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(64 * KIB))
    seen = watched(tmp_path, "fio", "--name=j", "--filename=data", "--size=64k", "--bs=4k", "--ioengine=io_uring")
    assert "io_uring was used" in seen.why


@pytest.mark.strace
def test_the_first_call_of_a_command_is_seen_and_its_end_is_its_own(tmp_path: Path) -> None:
    seen = watched(tmp_path, "dd", "if=/dev/zero", "of=out", "bs=4k", "count=9", "conv=fsync")
    (session,) = sessions(seen, str(tmp_path / "out"))
    assert (session.write.calls, session.write.bytes, session.sync.calls) == (9, 36 * KIB, 1)
    (zeros,) = sessions(seen, "/dev/zero")
    assert (zeros.read.calls, next(file.kind for file in seen.files if file.id == zeros.file)) == (9, "char")
    killed = strace.wrap(["sh", "-c", "kill -9 $$"], tmp_path / "calls")
    assert subprocess.run(killed, capture_output=True, timeout=100).returncode == -9
    failed = strace.wrap(["sh", "-c", "exit 7"], tmp_path / "calls")
    assert subprocess.run(failed, capture_output=True, timeout=100).returncode == 7


@pytest.mark.strace
def test_strange_names_deletion_and_kills(tmp_path: Path) -> None:
    program = (
        "import os, signal\n"
        "f = os.open('we<i>rd) = 3\\n\"\\xe4', os.O_RDWR | os.O_CREAT)\n"
        "os.write(f, bytes(5)); os.unlink('we<i>rd) = 3\\n\"\\xe4'); os.write(f, bytes(6))\n"
        "r, w = os.pipe()\n"
        "if not (pid := os.fork()): os.write(f, bytes(7)); os.read(r, 1)\n"
        "signal.alarm(100); os.kill(pid, 9); os.waitpid(pid, 0)\n"
    )
    seen = watched(tmp_path, sys.executable, "-SIc", program)
    (session,) = sessions(seen, str(tmp_path / 'we<i>rd) = 3\n"ä'))
    assert session.write.calls in (2, 3)  # the child may be killed before it writes
    assert session.write.bytes == 11 + 7 * (session.write.completed - 2)
    assert seen.health["lost"] == 0 and seen.processes == 2


def test_calls_are_counted_by_name_whatever_they_are_about() -> None:
    seen = parsed(
        "1 getpid() = 1",
        "1 futex(0x7f, FUTEX_WAIT, 1, NULL <unfinished ...>",
        "1 <... futex resumed>) = -1 EAGAIN (Resource temporarily unavailable)",
        "1 pause() = ? ERESTARTNOHAND (To be restarted if no handler)",
        "1 rt_sigreturn({mask=[]}) = -1 EINTR (Interrupted system call)",
        "1 syscall_0x270f(0, 0, 0, 0, 0, 0) = -1 ENOSYS (Function not implemented)",
        "1 syscall_0xffffffffffffffff(0, 0, 0, 0, 0, 0) = -1 ENOSYS (Function not implemented)",
        "1 read(0<pipe:[1]>, <unfinished ...>",
        "1 +++ killed by SIGKILL +++",
        "3 ???( <unfinished ...>",
        "3 <... ??? resumed>) = ?",
        "3 +++ killed by SIGKILL +++",
        "2 exit_group(0) = ?",
    )
    once = ("getpid", "futex", "pause", "rt_sigreturn", "syscall_9999", "syscall_4294967295", "read", "exit_group")
    assert seen.calls == dict.fromkeys(once, 1)
    assert seen.call_errors == dict.fromkeys(("futex", "syscall_9999", "syscall_4294967295"), 1)
    assert seen.health["lost"] == 0


def test_a_call_without_a_name_that_returned_is_lost() -> None:
    assert parsed("3 ???( <unfinished ...>", "3 <... ??? resumed>) = 5").health["lost"] == 1


def test_without_strace_the_reason_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install strace" in strace.available()
    refusing = tmp_path / "strace"
    refusing.write_text("#!/bin/sh\necho 'strace: PTRACE_TRACEME: Operation not permitted' >&2; exit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert "PTRACE_TRACEME: Operation not permitted" in strace.available()


@pytest.mark.strace
def test_strace_can_be_used_here() -> None:
    assert strace.available() == ""


@pytest.mark.strace
@pytest.mark.parametrize("form", [strace, strace_summary])
def test_what_strace_writes_is_found_wherever_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: ModuleType
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    command = form.wrap(["true"], Path("calls"))
    subprocess.run(command, cwd=tmp_path / "elsewhere", check=True, capture_output=True, timeout=100)
    assert (tmp_path / "calls").stat().st_size > 0
