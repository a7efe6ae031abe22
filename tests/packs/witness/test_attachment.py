"""Running processes under the witness: nobody is missed, what was open has its name, and what is too much is said."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ioassay as ia
from ioassay import _core
from ioassay.errors import ToolError, UsageError
from ioassay.packs.witness.attachment import Attachment, Running, running
from ioassay.packs.witness.witness_judgement import stated_claim
from ioassay.process import process_table
from ioassay.records.observation import BPF, Observation, Session, from_dict
from ioassay.verify.judge import judge

from ...patience import PATIENCE_S
from ...verify.conftest import Witnessed

pytestmark = [pytest.mark.root, pytest.mark.bpf]

Server = Callable[..., subprocess.Popen[str]]

CALLS = """
import os, sys, threading, time
def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.05)
def read(descriptor, times):
    for place in range(times):
        os.pread(descriptor, 512, place * 512)
"""
TREE = (
    CALLS
    + """
descriptor = os.open("data", os.O_RDONLY)
def work():
    wait_for("go")
    read(descriptor, 100)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
if not os.fork():
    if not os.fork():
        print("ready", flush=True)  # by the last of the tree
        wait_for("go")
        with open("data", "rb", buffering=0) as again:
            read(again.fileno(), 100)
        os._exit(0)
    work()
    os.wait()
    os._exit(0)
work()
[thread.join() for thread in threads]
os.wait()
"""
)
STORM = (
    CALLS
    + """
descriptor = os.open("data", os.O_RDONLY)
print("ready", flush=True)
for number in range(300):
    time.sleep(0.01)
    if number == 200:
        wait_for("attached")
    if not os.fork():
        if number % 2 and not os.fork():
            wait_for("go")
            read(descriptor, 10)
            os._exit(0)
        if number % 3:
            other = threading.Thread(target=lambda: (wait_for("go"), read(descriptor, 10)))
            other.start()
            other.join()
        wait_for("go")
        read(descriptor, 10)
        if number % 2:
            os.wait()
        os._exit(0)
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
"""
)
STORM_READS = 10 * (300 + 150 + 200)
"""Of children, of grandchildren, and of threads."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """`server(source)`: a Python program that runs in `tmp_path`, beside 64 KiB of `data`, and has said it is ready."""
    (tmp_path / "data").write_bytes(os.urandom(1 << 16))
    started: list[subprocess.Popen[str]] = []

    def start(source: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-SIc", source]
        process = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def followed(process: subprocess.Popen[str], folder: Path, *signs: str) -> Observation:
    """What was seen of a process from now to its end; `signs` are files that it waits for meanwhile."""
    with Attachment(Running((process.pid,)), "syscalls") as attached:
        attached.attach()
        for sign in signs:
            (folder / sign).touch()
        attached.wait(PATIENCE_S)
        seen = attached.observation()
    assert attached.has_ended
    assert process.wait(PATIENCE_S) == 0
    return seen


def reads(seen: Observation) -> dict[str, int]:
    return {each.entry: each.calls.calls for each in seen.operations if each.kind == "read"}


def of_file(seen: Observation, path: Path) -> list[Session]:
    ids = {file.id for file in seen.files if file.path in (str(path), path.name)}
    return [session for session in seen.sessions if session.file in ids]


def test_threads_children_and_open_files_count_from_the_moment_of_attaching(server: Server, tmp_path: Path) -> None:
    process = server(TREE)
    seen = followed(process, tmp_path, "go")
    assert reads(seen)["pread64"] == 600
    assert (seen.processes, seen.threads, seen.most_alive) == (6, 3, None)
    [before, again] = sorted(of_file(seen, tmp_path / "data"), key=lambda session: session.opened_ns)
    assert (before.opened_ns, before.flags, before.read.calls) == (0, ["read"], 500)
    assert (again.opened_ns > 0, again.read.calls) == (True, 100)
    data = tmp_path / "data"
    assert [file.path for file in seen.files if file.inode == data.stat().st_ino] == [str(data)]


def test_no_child_is_missed_while_the_tree_goes_on_forking(server: Server, tmp_path: Path) -> None:
    process = server(STORM)
    seen = followed(process, tmp_path, "attached", "go")  # a third of the children is still to come
    assert seen.why == ""
    assert reads(seen)["pread64"] == STORM_READS


def test_a_descriptor_that_is_used_again_is_another_file(server: Server, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(bytes(4096))
    process = server(
        CALLS
        + """
descriptor = os.open("data", os.O_RDONLY)
print("ready", flush=True)
wait_for("go")
read(descriptor, 5)
os.close(descriptor)
assert os.open("other", os.O_RDWR | os.O_DSYNC) == descriptor
read(descriptor, 7)
"""
    )
    seen = followed(process, tmp_path, "go")
    [data], [other] = of_file(seen, tmp_path / "data"), of_file(seen, tmp_path / "other")
    assert (data.read.calls, data.flags, data.closed_ns > 0) == (5, ["read"], True)
    assert (other.read.calls, other.flags) == (7, ["read", "write", "dsync"])


def test_what_was_in_flight_is_stated_and_in_no_count(server: Server, tmp_path: Path) -> None:
    """A thread that waits for a processor may do so between two calls. One of eight is in a call nearly always."""
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 28)
    process = server(
        """
import os, threading
descriptor = os.open("large", os.O_RDONLY)
def work():
    place, ended = bytearray(1 << 25), False
    while True:
        os.preadv(descriptor, [place], 0)
        if not ended and os.path.exists("attached"):
            ended = True
            os.write(1, b"ended\\n")
for _ in range(8):
    threading.Thread(target=work).start()
print("ready", flush=True)
"""
    )
    assert process.stdout is not None
    with Attachment(Running((process.pid,)), "syscalls") as attached:
        attached.attach()
        (tmp_path / "attached").touch()
        assert [process.stdout.readline() for _ in range(8)] == ["ended\n"] * 8
        attached.wait(0.1)
        seen = attached.observation()
    assert not attached.has_ended
    assert process.poll() is None
    # Entries and exits are attached one after the other: a thread may end one call, and begin the next, in between.
    assert 1 <= seen.health["in_flight_at_start"] <= 16
    assert all(each.calls.completed == each.calls.calls for each in seen.operations)


def test_a_group_is_watched_with_those_that_join_it(server: Server, tmp_path: Path) -> None:
    from ioassay.host import cgroup

    trees = sorted(cgroup.hierarchies(Path("/")), key=lambda tree: -tree.version)
    if not trees:
        pytest.skip("no control groups are mounted")
    group = trees[0].mount / f"test-attachment-{os.getpid()}"
    group.mkdir()
    source = CALLS + "print('ready', flush=True)\nwait_for('go')\nread(os.open('data', os.O_RDONLY), 100)\n"
    first, second, stranger = (server(source) for _ in range(3))
    try:
        (group / "cgroup.procs").write_text(str(first.pid))
        with Attachment(running([], group), "syscalls") as attached:
            attached.attach()
            (group / "cgroup.procs").write_text(str(second.pid))
            attached.wait(1)
            (tmp_path / "go").touch()
            attached.wait(PATIENCE_S)
            seen = attached.observation()
        stranger.wait(PATIENCE_S)
    finally:
        for each in (first, second):
            each.kill()
            each.wait()
        group.rmdir()
    assert attached.has_ended
    assert reads(seen)["pread64"] == 200


def test_a_process_that_ends_meanwhile_is_refused(server: Server) -> None:
    process = server("import time\nprint('ready', flush=True)\ntime.sleep(600)")
    chosen = running([process.pid])
    with Attachment(chosen, "block") as attached:
        process.kill()
        process.wait()
        with pytest.raises(ToolError, match="ended before it was watched"):
            attached.attach()


def test_before_linux_6_9_a_thread_is_followed_from_its_next_call(server: Server, tmp_path: Path) -> None:
    process = server(TREE)
    programs = _core.Witness("syscalls", layers=["oldest"], running=True)
    processes, _ = Running((process.pid,)).tasks()
    assert programs.adopt(sorted(processes), []) == 3
    assert programs.adopt(sorted(processes), []) == 0
    (tmp_path / "go").touch()
    assert process.wait(PATIENCE_S) == 0
    seen = from_dict({**json.loads(programs.finish()), "backend": BPF, "asked": "syscalls"})
    assert (reads(seen)["pread64"], seen.processes, seen.threads) == (600, 6, 3)


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
            [thread] = [task for task in process_table.threads(process.pid) if task != process.pid]
            os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
            for pid, why in (
                (thread, f"thread of process {process.pid}"),
                (ended.pid, "waits for its parent"),
                (os.getpid(), "ioassay itself"),
                (os.getppid(), "ioassay itself"),
                (2**22 + 1, "no such process"),
            ):
                with pytest.raises(UsageError, match=why):
                    running([pid])
            assert running([process.pid, process.pid]).pids == (process.pid,)
        finally:
            process.kill()


def test_levels_and_backends_that_cannot_attach_are_refused() -> None:
    for level, backend in (("counters", "auto"), ("record", "auto"), ("syscalls", "strace"), ("block", "counters")):
        with pytest.raises(UsageError, match="running processes are watched"):
            Attachment(Running(), level, backend=backend)


# More than the witness keeps apart: counts stay exact, memory is bounded, and what is not kept is said


MOST_SESSIONS = MOST_FILES = 32_768
OPENED = 40_000
MOST_MIB = 400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").write_bytes(os.urandom(1 << 20))
    return tmp_path


def calls(result: dict[str, Any], entry: str) -> dict[str, Any]:
    (found,) = [each["calls"] for each in result["operations"] if each["entry"] == entry]
    return dict(found)


def test_a_file_that_is_opened_too_often_to_keep_each_session(
    folder: Path, compiled: Any, witnessed: Witnessed
) -> None:
    claim = f"kind=write,ops={OPENED},bytes={OPENED * 512},path=data"
    result = witnessed(folder, [compiled("many_opens"), "data", "512"], claims=[claim])
    assert calls(result, "pwrite64")["calls"] == OPENED
    assert result["health"]["untracked_sessions"] >= OPENED - MOST_SESSIONS
    (verdict,) = result["verdicts"]
    assert {each["name"]: each["reason"] for each in verdict["properties"]}["files"] == "EVENTS-LOST"
    assert result["verdict"] == "INCOMPLETE"


@pytest.fixture
def in_memory_folder() -> Iterator[Path]:
    """A folder that is gone after the test: so many files on a disk take longer to remove than to make."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="witness-") as name:
        yield Path(name)


def test_more_files_than_are_kept_apart(
    folder: Path, in_memory_folder: Path, compiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens, claim = [compiled("many_opens"), f"{in_memory_folder}/%d"], "kind=write,ops={0},bytes={0}"
    monkeypatch.chdir(folder)
    found = ia.witness([*opens, "1"], claims=[claim.format(OPENED)])
    result = found.as_dict()
    assert calls(result, "pwrite64")["bytes"] == OPENED
    assert result["health"]["untracked_files"] >= OPENED - MOST_FILES
    assert result["verdict"] not in ("CONTRADICTED", "UNSUBSTANTIATED"), result["verdicts"]
    (lying,) = judge([stated_claim(claim.format(2 * OPENED))], found.seen)
    assert lying.category == "CONTRADICTED"
    small = ["witness", "--json", "--claim", claim.format(9), "--exit-verdict", "never", "--", *opens, "0"]
    with (folder / "out").open("w+") as out:
        process = subprocess.Popen([sys.executable, "-m", "ioassay", *small], stdout=out)
        most_kib = 0  # not that of wait4(2), which begins with what this process has
        while process.poll() is None:
            peak = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
            most_kib = max(most_kib, int(peak[1]) if peak else 0)
            time.sleep(0.01)
    assert process.returncode == 0 and 0 < most_kib < MOST_MIB * 1024
    unknown = json.loads((folder / "out").read_text())
    assert unknown["verdict"] != "CONFIRMED" and "use the level syscalls" not in json.dumps(unknown["verdicts"])


def test_two_hundred_threads_at_once(folder: Path, compiled: Any, witnessed: Witnessed) -> None:
    program = compiled("two_hundred_threads", "-pthread")
    result = witnessed(folder, [program], claims=["ops=100000,bytes=51200000,path=data"])
    assert (result["verdict"], result["lost"]) == ("CONFIRMED-CACHED", 0), result["verdicts"]
    assert result["threads"] == 200


def test_a_tree_that_forks_faster_than_it_reaps(folder: Path, compiled: Any, witnessed: Witnessed) -> None:
    result = witnessed(folder, [compiled("many_forks")])
    assert (result["processes"], result["lost"]) == (1 + 2 * 600, 0)
    assert result["calls"]["exit_group"] >= 1 + 600  # a grandchild may outlive the command, and is ended with it
