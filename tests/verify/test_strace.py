"""What strace sees of commands: made-up lines with every turn, and real runs whose counts are the tool's own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ioassay.records.observation import READ, WRITE, Observation, Session
from ioassay.verify.witness import strace, strace_summary

from ..corpora import cases, has
from .conftest import table

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


# Real runs


def watched(folder: Path, *argv: str) -> Observation:
    command = strace.wrap(argv, folder / "calls")
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=240)
    return strace.read(folder / "calls")


@pytest.mark.strace
@pytest.mark.fio
@table("strace", "counts_of_the_file_are_those_of_fio")
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
    subprocess.run(command, cwd=tmp_path / "elsewhere", check=True, capture_output=True, timeout=240)
    assert (tmp_path / "calls").stat().st_size > 0
