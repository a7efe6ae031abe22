"""What strace sees of commands: its lines, with every turn, and real runs whose counts are the tool's own."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ioassay.packs.strace import observer as strace
from ioassay.packs.strace.call_lines import Call, Gone, Lines, target, unescaped
from ioassay.packs.strace.process_tree import Tally
from ioassay.records.observation import COMPAT, READ, STRACE, SYSCALLS, WRITE, Calls, Observation, Session
from ioassay.verify import witness

from ...corpora import cases, has
from ...verify.conftest import table

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


def told(session: Session, kinds: Mapping[int, str]) -> dict[str, Any]:
    """A session with its times in seconds, and the kind of its file."""
    words = ("opened", "closed", "second", "ended")
    times = {f"{word}_s": getattr(session, f"{word}_ns") / 1e9 for word in words}
    return {**asdict(session), **times, "kind": kinds[session.file]}


@cases("strace", "turns")
def test_what_lines_of_strace_tell(case: dict[str, Any]) -> None:
    seen = parsed(*case["lines"].strip().splitlines())
    kinds = {file.id: file.kind for file in seen.files}
    assert has({name: getattr(seen, name) for name in case.get("seen", ())}, case.get("seen", {})), seen
    for path, wanted in case.get("files", {}).items():
        assert has([told(session, kinds) for session in sessions(seen, path)], wanted), path
    operations = {f"{item.entry} {item.kind}": asdict(item.calls) for item in seen.operations}
    assert has(operations, case.get("operations", {})), operations
    assert [text for text in case.get("why", ()) if text not in seen.why] == []
    assert "not_why" not in case or case["not_why"] not in seen.why
    for name in case.keys() & {"calls", "call_errors"}:
        assert getattr(seen, name) == case[name]


def test_garbage_is_counted_as_lost() -> None:
    seen = strace.parse(
        ["1 1.0 pread64(", "\x00\n", "1 1.0 pread64( <unfinished ...>\n", "1 2.0 +++ exited with 0 +++"]
    )
    assert seen.health["lost"] == 2 and seen.health["in_flight"] == 1


# Single lines, and calls counted one by one


def fed(*lines: str) -> list[Call | Gone]:
    return [*Lines().events(lines)]


@table(
    "lines",
    "calls_are_joined_and_taken_apart",
    "results",
    "signs_in_paths_end_no_arguments",
    subject="strace",
)
def test_calls_of_lines(lines: Any, result: str | None, of: Any, returned: int | None) -> None:
    (call,) = fed(*(lines or [f"1 1.0 read(99, 0x7f, 4) = {result} <0.1>"]))
    assert isinstance(call, Call) and call.returned == returned
    assert {name: getattr(call, name) for name in of or ()} == (of or {})


def test_a_number_is_free_when_close_is_entered() -> None:
    events = fed("1 1.0 close(4</f> <unfinished ...>", "2 2.0 close(5</g>) = 0", "1 3.0 <... close resumed>) = 0 <2.0>")
    assert [event.task for event in events] == [1, 2]


def test_what_a_task_was_in_when_it_was_killed() -> None:
    events = fed("1 1.0 read(4</f>,  <unfinished ...>", "1 2.0 +++ killed by SIGKILL (core dumped) +++")
    assert events == [Call(1, "read", "4</f>, ", "?", 10**9, 0), Gone(1)]
    assert fed("1 1.0 +++ exited with 0 +++") == [Gone(1)]
    assert fed("1 1.0 read(4</f>,  <unfinished ...>") == events[:1]


@table("lines", "what_a_descriptor_is_open_to", subject="strace")
def test_what_a_descriptor_is_open_to(text: str, found: Any) -> None:
    seen = target(text)
    assert seen is not None and seen[:4] == found and text.endswith(seen.rest)


def test_escapes() -> None:
    assert unescaped(r"a\303\244\t\\\x41") == "aä\t\\A"
    assert target("AT_FDCWD</tmp>") is None and target("0x7f, 4096, MS_SYNC") is None


def test_garbage_and_a_line_cut_short_are_counted_and_survived(seed: int) -> None:
    chance = random.Random(seed)
    whole = '12 1.0 io_submit(0x7f, 1, [{aio_data=0, aio_fildes=7</f "x>, aio_nbytes=4096}]) = 1 <0.1>'
    reader = Lines()
    lines = []
    for _ in range(3000):
        text = list(whole[: chance.randrange(len(whole) + 1)])
        for _ in range(chance.randrange(3)):
            text.insert(chance.randrange(len(text) + 1), chance.choice('<>"()=\\ \x00é1['))
        lines.append("".join(text))
    *_, last = reader.events([*lines, whole])
    assert reader.senseless > 0 and isinstance(last, Call)


def test_calls_add_up_to_what_was_seen() -> None:
    made = Tally()
    assert made.calls_seen() == Calls()
    for entry_ns, asked in ((50, 100), (20, 100), (70, 100), (90, 100)):
        made.issue(entry_ns, asked)
    made.complete(100, 100, 50, 65)
    made.complete(100, 0, 20, 60)  # the end of the file is short and no error
    made.complete(100, -5, 70, 71)
    assert made.calls_seen() == Calls(
        4, 3, errors=1, short=1, requested_bytes=400, bytes=100, first_ns=20, last_ns=71, sum_ns=56, min_ns=1, max_ns=40
    )


def test_a_clock_that_went_back_gives_no_negative_time() -> None:
    made = Tally()
    made.issue(0, 8)
    made.complete(8, 8, 10, 5)
    assert made.calls_seen() == Calls(1, 1, requested_bytes=8, bytes=8, last_ns=5)


# Its summary


SUMMARY = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 72.96    0.010391           7      1300           getpid
  4.27    0.000608           7        80        40 openat
  0.00    0.000000           0         5           clone
  0.00    0.000000           0         3         1 clone3
------ ----------- ----------- --------- --------- ----------------
100.00    0.014242          10      1388        41 total
System call usage summary for 32 bit mode:
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 50.00    0.000100           7        40           getpid
 50.00    0.000100           7        10         2 read
------ ----------- ----------- --------- --------- ----------------
100.00    0.000200           4        50         2 total
"""


def test_a_summary_is_read_with_its_errors_and_32_bit_calls_together(tmp_path: Path) -> None:
    path = tmp_path / "summary"
    path.write_text(SUMMARY)
    seen = strace.read_summary(path)
    assert seen.calls == {"getpid": 1300, "openat": 80, "clone": 5, "clone3": 3, COMPAT: 50}
    assert seen.call_errors == {"openat": 40, "clone3": 1, COMPAT: 2}
    assert seen.processes == 8


@pytest.mark.parametrize("text", ["", "nonsense\n", "\x00\xff", "100.00 0.1 total\n", "  1 2 3 4 5 6 7\n"])
def test_a_summary_that_is_none_counts_nothing_and_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "summary"
    path.write_text(text, encoding="latin-1")
    seen = strace.read_summary(path)
    assert (dict(seen.calls), seen.processes) == ({}, 0)
    assert "strace wrote no summary" in seen.why
    assert "no summary" in strace.read_summary(tmp_path / "absent").why


# Real runs


def watched(folder: Path, *argv: str) -> Observation:
    command = strace.wrap(argv, folder / "calls")
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=240)
    return strace.read(folder / "calls")


@pytest.mark.strace
@pytest.mark.fio
@table("lines", "counts_of_the_file_are_those_of_fio", subject="strace")
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
    assert subprocess.run(killed, capture_output=True, timeout=240).returncode == -9
    failed = strace.wrap(["sh", "-c", "exit 7"], tmp_path / "calls")
    assert subprocess.run(failed, capture_output=True, timeout=240).returncode == 7


@pytest.mark.strace
def test_each_call_is_counted_and_no_time_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = "import os; f = os.open('data', os.O_WRONLY | os.O_CREAT); [os.write(f, bytes(4096)) for _ in range(100)]"
    seen = witness.watch([sys.executable, "-SIc", program], SYSCALLS, tmp_path, backend=STRACE).seen
    assert seen is not None and seen.backend == STRACE
    (session,) = sessions(seen, str(tmp_path / "data"))
    assert (session.write.calls, session.write.bytes) == (100, 409600)
    assert "not to be judged" in seen.why


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


def test_without_strace_the_reason_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install strace" in strace.unusable()
    refusing = tmp_path / "strace"
    refusing.write_text("#!/bin/sh\necho 'strace: PTRACE_TRACEME: Operation not permitted' >&2; exit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert "PTRACE_TRACEME: Operation not permitted" in strace.unusable()


@pytest.mark.strace
@pytest.mark.parametrize("wrap", [strace.wrap, strace.wrap_summary])
def test_what_strace_writes_is_found_wherever_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrap: Callable[..., list[str]]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    command = wrap(["true"], Path("calls"))
    subprocess.run(command, cwd=tmp_path / "elsewhere", check=True, capture_output=True, timeout=240)
    assert (tmp_path / "calls").stat().st_size > 0
