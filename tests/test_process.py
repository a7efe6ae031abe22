"""Real processes: exit codes, holding, timeouts, groups, orphans; the process table, and what processes have open."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ioassay.errors import RunError, ToolError
from ioassay.process import process_table, supervisor
from ioassay.store.run_folder import RunStore

from .patience import alive, children, until


def run(tmp_path: Path, *argv: str, timeout_s: float = 600.0, **options: object):
    return supervisor.run(argv, stdout=tmp_path / "out", stderr=tmp_path / "err", timeout_s=timeout_s, **options)


def runner(folder: Path, code: str, *words: str) -> subprocess.Popen[str]:
    """Another Python, in which `code` has the supervisor as `process` and the folder as `root`."""
    head = (
        "import os, pathlib, signal, sys, threading\n"
        "from ioassay.process import supervisor as process\n"
        "root = pathlib.Path(sys.argv[1])\n"
        "def run(argv, **more):\n"
        "    return process.run(argv, stdout=root / 'o', stderr=root / 'e', timeout_s=600, **more)\n"
    )
    argv = [sys.executable, "-c", head + code, str(folder), *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def tag() -> dict[str, str]:
    """The environment of a child that marks it and all that it starts."""
    return {supervisor.TRIAL_VARIABLE: f"test-{os.getpid()}-{time.monotonic_ns()}"}


def is_there(pid: int) -> bool:
    return process_table.group_of(pid) is not None


def number_in(path: Path, by: subprocess.Popen[str] | None = None) -> int:
    """What a process has written there, once it has."""
    until(lambda: (path.exists() and path.read_text().endswith("\n")) or (by is not None and by.poll() is not None))
    return int(path.read_text())


def test_output_and_exit_code_are_kept(tmp_path: Path) -> None:
    outcome = run(tmp_path, "sh", "-c", "echo said; echo wrong >&2; exit 3")
    assert (outcome.exit_code, outcome.signal, outcome.timed_out) == (3, None, False)
    assert outcome.stdout.read_text() == "said\n"
    assert outcome.stderr.read_text() == "wrong\n"


def test_a_child_can_be_looked_at_before_it_begins_and_before_it_is_reaped(tmp_path: Path) -> None:
    mark, seen = tmp_path / "mark", []

    def on_held(pid: int) -> None:
        time.sleep(0.1)
        seen.append((mark.exists(), is_there(pid)))

    def on_ended(pid: int) -> None:
        seen.append(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])

    outcome = run(tmp_path, "touch", str(mark), on_held=on_held, on_ended=on_ended)
    assert (outcome.exit_code, mark.exists(), seen) == (0, True, [(False, True), "Z"])
    assert outcome.usage is not None and outcome.usage.ru_maxrss > 0


def test_a_held_child_that_is_ended_by_others_is_a_tool_error(tmp_path: Path) -> None:
    def on_held(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_there(pid))

    with pytest.raises(ToolError, match="cannot start 'true': its process was ended before it began"):
        run(tmp_path, "true", on_held=on_held)


def test_a_hanging_program_is_ended_at_its_time(tmp_path: Path) -> None:
    outcome = run(tmp_path, "sleep", "300", timeout_s=0.2)
    assert (outcome.timed_out, outcome.ended_for) == (True, "")
    captured = supervisor.capture(["sleep", "300"], timeout_s=0.2)
    assert (captured.timed_out, captured.exit_code) == (True, None)


def test_a_reason_to_end_kills_the_whole_group_that_does_not_end_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "GRACE_S", 0.3)
    child = tmp_path / "child"
    script = "trap '' TERM; sleep 300 & echo $! > \"$1\"; sleep 300"
    must_end = lambda: "enough" if child.exists() and child.read_text() else ""  # noqa: E731
    outcome = run(tmp_path, "sh", "-c", script, "sh", str(child), must_end=must_end)
    assert (outcome.ended_for, outcome.timed_out, outcome.signal) == ("enough", False, signal.SIGKILL)
    assert not is_there(number_in(child))


def test_an_interrupt_ends_the_group_before_it_goes_on(tmp_path: Path) -> None:
    script = 'echo $$ > "$1/child"; exec sleep 300'
    with runner(tmp_path, f"run(['sh', '-c', {script!r}, 'sh', str(root)])") as process:
        child = number_in(tmp_path / "child", process)
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate()[1]
    assert not is_there(child)


def test_a_child_dies_with_a_killed_runner_and_its_children_are_found_by_tag(
    tmp_path: Path, tag: dict[str, str]
) -> None:
    script = 'cd "$1"; sleep 300 & echo $! > grandchild; echo $$ > child; wait'
    with runner(tmp_path, f"run(['sh', '-c', {script!r}, 'sh', str(root)], env={tag!r})") as process:
        child = number_in(tmp_path / "child", process)
        process.kill()
    until(lambda: not is_there(child))
    grandchild = number_in(tmp_path / "grandchild")
    assert supervisor.end_orphans(tag[supervisor.TRIAL_VARIABLE]) == [grandchild]
    assert not is_there(grandchild)


PYTHON = shlex.quote(sys.executable)
SESSION = (
    "import os, sys, time; os.setsid(); print(os.getpid(), file=open(sys.argv[1], 'w'), flush=True); time.sleep(300)"
)
"""As fio's jobs do: a session of its own, out of reach of its parent's group."""

SHELL_CHILD = 'sleep 300 & echo $! > "$1"'
AWAY = f'{PYTHON} -c {shlex.quote(SESSION)} "$1" & while [ ! -s "$1" ]; do sleep 0.01; done'


@pytest.mark.parametrize(
    "script",
    [SHELL_CHILD, AWAY, f"env -i {AWAY}"],
    ids=["in its group", "in a session of its own", "there without its environment"],
)
def test_processes_left_behind_are_ended_and_named(tmp_path: Path, tag: dict[str, str], script: str) -> None:
    child = tmp_path / "child"
    outcome = run(tmp_path, "sh", "-c", script, "sh", str(child), env={} if script == SHELL_CHILD else tag)
    assert (outcome.exit_code, list(outcome.leftovers)) == (0, [number_in(child)])
    assert not is_there(number_in(child))


ORPHAN = (
    "import os, signal, sys\n"
    "if not os.fork():\n"
    "    parent = os.getppid()\n"
    "    if os.fork():\n"
    "        os._exit(0)\n"
    "    while os.getppid() != int(sys.argv[1]):\n"
    "        pass\n"
    "    for number in (signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGRTMIN):\n"
    "        os.kill(os.getppid(), number)\n"
    "    print('told', flush=True)\n"
    "    os._exit(0)\n"
    "os.wait()\n"
    "while not open(sys.argv[2]).read():\n"
    "    pass\n"
)
"""A process whose parent ends, and which then tells its parent: the runner, which adopted it."""


def test_what_an_orphan_tells_its_parent_does_not_end_the_runner(tmp_path: Path) -> None:
    code = (
        "print(run([sys.executable, '-c', sys.argv[2], str(os.getpid()), str(root / 'o')]).exit_code)\n"
        "print(signal.getsignal(signal.SIGALRM) is signal.SIG_DFL)\n"
    )
    with runner(tmp_path, code, ORPHAN) as process:
        out, err = process.communicate()
    assert (process.returncode, out) == (0, "0\nTrue\n"), err


DAEMONS = (
    "import os, pathlib, sys, time\n"
    "runner = pathlib.Path('/proc', sys.argv[1], 'task', sys.argv[1], 'children')\n"
    "before = runner.read_text()\n"
    "for _ in range(20):\n"
    "    if not os.fork():\n"
    "        os.setsid()\n"
    "        os.fork()\n"
    "        os._exit(0)\n"
    "    os.wait()\n"
    "while runner.read_text() != before:\n"
    "    time.sleep(0.01)\n"
)
"""Waits until no daemon that it made, and that has ended, is a child of the runner any more."""


def test_ended_daemons_of_a_tool_are_reaped_while_it_runs(tmp_path: Path) -> None:
    code = "print(run([sys.executable, '-c', sys.argv[2], str(os.getpid())]).exit_code)"
    with runner(tmp_path, code, DAEMONS) as process:
        out, err = process.communicate()
    assert out == "0\n", err


CHAIN = (
    "import os, sys, time\n"
    "until_s = time.monotonic() + 30\n"
    "if os.fork():\n"
    "    while not os.path.exists(sys.argv[1]):\n"
    "        time.sleep(0.01)\n"
    "    os._exit(0)\n"
    "os.setsid()\n"
    "open(sys.argv[1], 'w').close()\n"
    "while time.monotonic() < until_s:\n"
    "    if os.fork():\n"
    "        os._exit(0)\n"
)
"""A daemon that is another process all the time: each starts the next one and ends."""


def test_a_chain_of_daemons_is_ended_though_it_goes_on_meanwhile(tmp_path: Path, tag: dict[str, str]) -> None:
    outcome = run(tmp_path, sys.executable, "-c", CHAIN, str(tmp_path / "begun"), env=tag)
    assert outcome.exit_code == 0
    assert alive(tag[supervisor.TRIAL_VARIABLE]) == []


def test_a_chain_that_is_never_caught_by_number_is_ended_by_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = children()
    monkeypatch.setattr(supervisor, "_end_child", lambda pid: False)
    run(tmp_path, sys.executable, "-c", CHAIN, str(tmp_path / "begun"), env={supervisor.TRIAL_VARIABLE: "chain"})
    assert children() <= before


def test_what_is_started_for_a_held_child_is_not_taken_for_its_own(tmp_path: Path, tag: dict[str, str]) -> None:
    helpers = []

    def on_held(pid: int) -> None:
        helpers.append(subprocess.Popen(["sleep", "300"]))

    def refused(pid: int) -> None:
        on_held(pid)
        raise ToolError("refused")

    try:
        assert run(tmp_path, "true", on_held=on_held, env=tag).leftovers == ()
        with pytest.raises(ToolError, match="refused"):
            run(tmp_path, "true", on_held=refused, env=tag)
        assert [helper.poll() for helper in helpers] == [None, None]
    finally:
        for helper in helpers:
            helper.kill()
            helper.wait()


def test_nothing_lives_on_when_the_runner_is_killed(tmp_path: Path, tag: dict[str, str]) -> None:
    words = ["sh", "-c", f'{PYTHON} -c {shlex.quote(SESSION)} "$1" & wait', "sh", str(tmp_path / "child")]
    code = f"with process.kill_orphans_after({tag[supervisor.TRIAL_VARIABLE]!r}):\n    run({words!r}, env={tag!r})\n"
    with runner(tmp_path, code) as process:
        child = number_in(tmp_path / "child", process)
        process.kill()
    until(lambda: not is_there(child))


def test_the_watch_ends_with_what_it_watches() -> None:
    before = children()
    with supervisor.kill_orphans_after("nothing"):
        assert children() - before
    assert not children() - before


def test_a_child_has_its_words_its_input_and_the_usual_actions_of_signals(tmp_path: Path) -> None:
    words = ["$HOME", "a b", "*", "'", "; exit 1"]
    assert run(tmp_path, "printf", "%s\n", *words).stdout.read_text().splitlines() == words
    seen = "import signal as s; print(all(s.getsignal(n) is s.SIG_DFL for n in (s.SIGALRM, s.SIGUSR1, s.SIGRTMIN)))"
    assert run(tmp_path, sys.executable, "-c", seen).stdout.read_text() == "True\n"
    (tmp_path / "in").write_text("given")
    with (tmp_path / "in").open() as given:
        assert run(tmp_path, "cat", stdin=given.fileno(), timeout_s=float("inf")).stdout.read_text() == "given"
    assert run(tmp_path, "cat").stdout.read_text() == ""


def test_a_program_that_is_missing_or_cannot_be_prepared_is_a_tool_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no-such-program.*No such file"):
        run(tmp_path, "no-such-program")
    with pytest.raises(ToolError, match="no-such-program"):
        supervisor.capture(["no-such-program"])
    with pytest.raises(ToolError, match="cannot start 'true': No such file"):
        run(tmp_path, "true", cwd=tmp_path / "missing")
    with pytest.raises(ToolError, match="cannot start 'true': No such file"):
        supervisor.run(["true"], stdout=tmp_path / "no" / "out", stderr=tmp_path / "err", timeout_s=5)


KILL = "def kill():\n    next(root.glob('within/its-*')) and (root / 'seen').touch()\n    os.kill(os.getpid(), 9)\n"
USE = (
    "with process.if_killed((root / 'undone').touch), process.temporary_folder('its-', root / 'within') as made:\n"
    "    (made / 'a').mkdir()\n    "
)
MADE_AND_KILLED = "make = pathlib.Path.mkdir\npathlib.Path.mkdir = lambda path, **how: (make(path, **how), kill())\n"


@pytest.mark.parametrize(
    "ahead, last", [("", "pass"), ("", "kill()"), ("", "raise OSError"), (MADE_AND_KILLED, "pass")]
)
def test_what_a_killed_process_would_leave_is_undone_and_its_temporary_folder_goes(
    tmp_path: Path, ahead: str, last: str
) -> None:
    (within := tmp_path / "within").mkdir()
    with runner(tmp_path, f"{KILL}{ahead}{USE}{last}\n") as process:
        process.communicate()
    killed = process.returncode == -signal.SIGKILL
    assert killed == (tmp_path / "seen").exists() == ("kill" in ahead + last)
    until(lambda: not [*within.iterdir()] and (tmp_path / "undone").exists() == killed)


def test_a_thread_may_end_between_the_list_of_threads_and_its_list_of_children(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    read_text, asked = Path.read_text, []

    def read(path: Path, **options: Any) -> str:
        asked.append(path.parent.name)
        if path.parent.name == str(thread.native_id) and thread.is_alive():
            over.set()
            thread.join()
            while path.parent.exists():
                time.sleep(0.001)
        return read_text(path, **options)

    monkeypatch.setattr(Path, "read_text", read)
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            assert child.pid in children()
        finally:
            child.kill()
    assert str(thread.native_id) in asked
    assert child.pid not in children()


LATE_THREAD = """
import ctypes, os, threading, time
def late():
    libc = ctypes.PyDLL(None)  # keeps the lock, so that no other thread runs with the child's
    libc.vfork()
    os.write(1, f"{os.getpid()}\\n".encode())
    libc.pause()
threading.Thread(target=late).start()
time.sleep(600)
"""


def test_a_process_has_stopped_when_all_its_threads_have() -> None:
    """A thread that waits for the exec of its vfork stops after it, and the first thread at once."""
    with subprocess.Popen([sys.executable, "-c", LATE_THREAD], stdout=subprocess.PIPE, process_group=0) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            assert not process_table.has_yet_to_stop(process.pid)
            process.send_signal(signal.SIGTSTP)
            while (found := process_table.status(process.pid)) is not None and found.state != "T":
                time.sleep(0.001)
            assert process_table.has_yet_to_stop(process.pid)
            os.kill(child, signal.SIGKILL)
            while process_table.has_yet_to_stop(process.pid):
                time.sleep(0.001)
        finally:
            process.kill()
    assert not process_table.has_yet_to_stop(process.pid)


def test_a_run_that_stops_names_the_file_that_was_not_its_own(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run")
    folder = store.folder("0" * 16)
    for path, said in (("/proc/self/task/7/children", r" \(/proc/self/task/7/children\)"), (str(folder / "raw"), "")):
        with pytest.raises(RunError, match=f"No such file or directory{said}; everything"), store.writing(folder):
            raise FileNotFoundError(2, os.strerror(2), path)


MOUNTS = "30 1 254:1 / / rw - ext4 /dev/vda1 rw\n31 30 0:45 / /data rw - btrfs /dev/vdb rw\n"
RING = "mnt_id:\t15\nino:\t9\nCachedSqHead:\t12\nCachedCqTail:\t9\n"


def test_files_are_those_of_mount_and_inode_and_requests_of_each_ring_are_counted_once(tmp_path: Path) -> None:
    data, process = tmp_path / "data", tmp_path / "root/proc/7"
    data.touch()
    for name in ("fd", "fdinfo"):
        (process / name).mkdir(parents=True)
    (process / "mountinfo").write_text(MOUNTS)
    ring = ("anon_inode:[io_uring]", RING)
    file = (str(data), "pos:\t0\nflags:\t02\nmnt_id:\t31\nino:\t77\n")
    for number, (link, lines) in enumerate([file, ring, ring, ("pipe:[5]", "")], 3):
        (process / "fd" / str(number)).symlink_to(link)
        (process / "fdinfo" / str(number)).write_text(lines)
    found = process_table.read([7, 8], tmp_path / "root")  # 8 has ended
    assert found.paths == {("0:45", 77): str(data)}
    assert (found.descriptors, found.uring_requests, found.unreadable) == (1, 3, {})


def test_the_files_of_this_process_are_those_that_stat_names(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.touch()
    with path.open() as file:
        found = process_table.read([os.getpid()])
        status = os.fstat(file.fileno())
    assert [identity[1] for identity, name in found.paths.items() if name == str(path)] == [status.st_ino]


def test_an_ended_process_has_nothing_open_and_what_may_not_be_looked_at_is_stated(tmp_path: Path) -> None:
    assert process_table.read([7], tmp_path) == process_table.OpenFiles()
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/fd").touch()  # no folder: the error is another one, and is treated the same
    assert process_table.read([7], tmp_path).unreadable == {7: "Not a directory"}
