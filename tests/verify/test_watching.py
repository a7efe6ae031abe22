"""One command under the witness: which backend is chosen, what is said when it is not the best, and what it tells."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay import _core
from ioassay.errors import ToolError, UsageError
from ioassay.host import process_capabilities
from ioassay.verify import witness
from ioassay.verify.witness import Attachment, Running, attachment, strace
from ioassay.verify.witness.capability import best, bpf_unusable
from ioassay.verify.witness.observed_command import with_filesystems

WRITES = "import os; f = os.open('data', os.O_WRONLY | os.O_CREAT); [os.write(f, bytes(4096)) for _ in range(100)]"


def watch(folder: Path, level: str, *argv: str, **options: Any) -> witness.Observed:
    return witness.watch(argv or (sys.executable, "-SIc", WRITES), level, folder, **options)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_nothing_is_seen_where_nothing_is_to_be_watched(tmp_path: Path) -> None:
    assert watch(tmp_path, "off").seen is None


def test_counters_see_what_the_kernel_counts_anyway(tmp_path: Path) -> None:
    watched = watch(tmp_path, "counters")
    seen = watched.seen
    assert seen is not None and watched.outcome.exit_code == 0
    assert (seen.backend, list(seen.layers), seen.why) == ("counters", ["counters"], "")
    assert seen.counters["wchar"] >= 409600
    assert seen.kernel == os.uname().release
    assert 0 < seen.held_ns < seen.ended_ns


def test_without_bpf_counters_watch_and_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "witness_capability", lambda: "BPF is forbidden here", raising=False)
    seen = watch(tmp_path, "syscalls").seen
    assert seen is not None and seen.backend == "counters" and seen.asked == "syscalls"
    assert "BPF is forbidden here" in seen.why
    with pytest.raises(ToolError, match="BPF is forbidden here"):
        watch(tmp_path, "syscalls", backend="bpf")


def test_programs_that_cannot_be_attached_after_all_leave_the_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refused:
        def __init__(self, *_: object, **__: object) -> None:
            raise OSError("the verifier said no")

    monkeypatch.setattr(_core, "witness_capability", lambda: "", raising=False)
    monkeypatch.setattr(_core, "Witness", Refused, raising=False)
    seen = watch(tmp_path, "block").seen
    assert seen is not None and seen.backend == "counters"
    assert "the verifier said no" in seen.why


def test_a_command_that_does_not_exist_is_a_tool_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no-such-program"):
        watch(tmp_path, "counters", "no-such-program")


@pytest.mark.parametrize(("level", "backend"), [("everything", "auto"), ("block", "ptrace")])
def test_an_unknown_level_or_backend_is_an_error(level: str, backend: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="wanted"):
        watch(tmp_path, level, backend=backend)


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_strace_counts_each_call_and_judges_no_time(tmp_path: Path) -> None:
    seen = watch(tmp_path, "syscalls", backend="strace").seen
    assert seen is not None and seen.backend == "strace"
    [file] = [file for file in seen.files if file.path.endswith("data")]
    [session] = [session for session in seen.sessions if session.file == file.id]
    assert (session.write.calls, session.write.bytes) == (100, 409600)
    assert "not to be judged" in seen.why


def test_files_are_told_with_the_filesystem_that_is_mounted() -> None:
    from ioassay.records.observation import File

    status = Path("/proc/self/mountinfo").stat()
    number = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    [known, unknown] = with_filesystems(
        [File(0, number, 1, "/proc/x", "regular"), File(1, "999:1", 1, "/x", "regular")]
    )
    assert (known.filesystem, unknown.filesystem) == ("proc", "")


def test_an_observation_is_json(tmp_path: Path) -> None:
    seen = watch(tmp_path, "counters").seen
    assert seen is not None
    json.dumps(seen.as_dict(), allow_nan=False)


def test_paths_are_guessed_from_a_command_line(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    argv = ["dd", "if=data", f"of={tmp_path}/new", "bs=4k", "--output", "/no/such/place", "-f", str(tmp_path), "\0"]
    assert set(map(str, witness.paths_in(argv))) == {"data", f"{tmp_path}/new", str(tmp_path)}


# Which backend is chosen


@pytest.fixture
def bpf(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let BPF be unusable for a reason; '' makes it usable."""
    return lambda reason: monkeypatch.setattr(_core, "witness_capability", lambda: reason, raising=False)


@pytest.mark.parametrize("level", ["block", "syscalls", "record"])
def test_bpf_where_it_works(bpf: Callable[[str], None], level: str) -> None:
    bpf("")
    choice = best(level)
    assert (choice.backend, choice.why) == ("bpf", "")
    assert {level, "block", "counters"} <= set(choice.layers)
    assert best("counters").backend == "counters" and best("counters").why == ""


def test_counters_where_bpf_does_not_work(bpf: Callable[[str], None]) -> None:
    bpf("the kernel has no BTF")
    choice = best("block")
    assert (choice.backend, list(choice.layers)) == ("counters", ["counters"])
    assert choice.why == "only counters were read, nothing of level block: the kernel has no BTF"
    with pytest.raises(ToolError, match="the kernel has no BTF"):
        best("block", "bpf")


def test_capabilities_that_are_missing_are_named_with_the_way_to_grant_them(
    bpf: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bpf("missing CAP_PERFMON: run as root, or give the process these capabilities")
    monkeypatch.setattr(process_capabilities, "is_withheld", lambda name: False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    said = (
        "missing CAP_PERFMON: run as root, or give the process these capabilities ('ioassay help backends' shows how)"
    )
    assert bpf_unusable() == said
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert bpf_unusable().startswith("missing CAP_PERFMON: start the container with --cap-add=PERFMON (docker or")


def test_a_build_without_programs_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(_core, "witness_capability", raising=False)
    assert "no witness: it is of another version" in bpf_unusable()


def test_strace_only_by_name(bpf: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    bpf("no")
    monkeypatch.setattr(strace, "available", lambda: "")
    assert best("syscalls").backend == "counters"
    assert best("syscalls", "strace").why == ""
    assert "block layer" in best("block", "strace").why
    monkeypatch.setattr(strace, "available", lambda: "ptrace is forbidden")
    with pytest.raises(ToolError, match="ptrace is forbidden"):
        best("syscalls", "strace")


def test_counters_by_name_say_what_they_leave_out(bpf: Callable[[str], None]) -> None:
    bpf("")
    assert "nothing of level syscalls" in best("syscalls", "counters").why
    assert best("counters", "counters").why == ""


@pytest.mark.parametrize(("level", "backend"), [("off", "auto"), ("everything", "auto"), ("block", "dtrace")])
def test_what_does_not_exist(level: str, backend: str) -> None:
    with pytest.raises(UsageError):
        best(level, backend)


WITH_A_THREAD = """
import threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print("ready", flush=True)
"""


def test_what_cannot_be_watched_is_refused_by_its_reason() -> None:
    argv = [sys.executable, "-SIc", WITH_A_THREAD]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process, subprocess.Popen(["true"]) as ended:
        try:
            assert process.stdout and process.stdout.readline() == "ready\n"
            [thread] = [task for task in attachment.threads(process.pid) if task != process.pid]
            os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
            for pid, why in (
                (thread, f"thread of process {process.pid}"),
                (ended.pid, "waits for its parent"),
                (os.getpid(), "ioassay itself"),
                (os.getppid(), "ioassay itself"),
                (2**22 + 1, "no such process"),
            ):
                with pytest.raises(UsageError, match=why):
                    attachment.running([pid])
            assert attachment.running([process.pid, process.pid]).pids == (process.pid,)
        finally:
            process.kill()


def test_levels_and_backends_that_cannot_attach_are_refused() -> None:
    for level, backend in (("counters", "auto"), ("record", "auto"), ("syscalls", "strace"), ("block", "counters")):
        with pytest.raises(UsageError, match="running processes are watched"):
            Attachment(Running(), level, backend=backend)
