"""process.py against real processes: exit codes, holding, timeouts, groups and orphans."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ioassay.errors import ToolError
from ioassay.process import process_table, supervisor


def run(tmp_path: Path, *argv: str, timeout_s: float = 20.0, **options: object):
    return supervisor.run(argv, stdout=tmp_path / "out", stderr=tmp_path / "err", timeout_s=timeout_s, **options)


def test_output_and_exit_code_are_kept(tmp_path: Path) -> None:
    outcome = run(tmp_path, "sh", "-c", "echo said; echo wrong >&2; exit 3")
    assert (outcome.exit_code, outcome.signal, outcome.timed_out) == (3, None, False)
    assert outcome.stdout.read_text() == "said\n"
    assert outcome.stderr.read_text() == "wrong\n"


def test_a_missing_program_is_a_tool_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no-such-program.*No such file"):
        run(tmp_path, "no-such-program")
    with pytest.raises(ToolError, match="no-such-program"):
        supervisor.capture(["no-such-program"])


def test_a_held_child_has_done_nothing_yet(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    seen = []

    def on_held(pid: int) -> None:
        time.sleep(0.1)
        seen.append((pid, mark.exists(), Path(f"/proc/{pid}").exists()))

    outcome = run(tmp_path, "touch", str(mark), on_held=on_held)
    assert outcome.exit_code == 0
    assert mark.exists()
    assert [entry[1:] for entry in seen] == [(False, True)]


def test_a_held_child_that_is_ended_by_others_is_a_tool_error(tmp_path: Path) -> None:
    def on_held(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        while process_table.group_of(pid) is not None:
            time.sleep(0.001)

    with pytest.raises(ToolError, match="cannot start 'true': its process was ended before it began"):
        run(tmp_path, "true", on_held=on_held)


def test_a_hanging_program_is_ended_with_its_whole_group(tmp_path: Path) -> None:
    script = f"sleep 300 & echo $! > {tmp_path}/child; trap '' TERM; sleep 300"
    process_grace, supervisor.GRACE_S = supervisor.GRACE_S, 0.3
    try:
        outcome = run(tmp_path, "sh", "-c", script, timeout_s=0.5)
    finally:
        supervisor.GRACE_S = process_grace
    assert outcome.timed_out
    assert outcome.signal == signal.SIGKILL
    assert process_table.group_of(int((tmp_path / "child").read_text())) is None


def test_a_reason_to_end_ends_the_whole_group_before_its_time(tmp_path: Path) -> None:
    asked: list[str] = []

    def must_end() -> str:
        asked.append("" if len(asked) < 2 else "enough")
        return asked[-1]

    outcome = run(tmp_path, "sh", "-c", "sleep 300 & sleep 300", timeout_s=200.0, must_end=must_end)
    assert (outcome.ended_for, outcome.timed_out) == ("enough", False)
    assert asked == ["", "", "enough"]
    assert outcome.duration_s < 150


def test_processes_left_behind_are_ended_and_named(tmp_path: Path) -> None:
    outcome = run(tmp_path, "sh", "-c", f"sleep 300 & echo $! > {tmp_path}/child")
    child = int((tmp_path / "child").read_text())
    assert outcome.exit_code == 0
    assert list(outcome.leftovers) == [child]
    assert process_table.group_of(child) is None


def test_an_interrupt_ends_the_group_before_it_goes_on(tmp_path: Path) -> None:
    script = (
        "import pathlib, signal, threading, os\n"
        "from ioassay.process import supervisor as process\n"
        f"root = pathlib.Path({str(tmp_path)!r})\n"
        "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "process.run(['sh', '-c', f'echo $$ > {root}/child; exec sleep 300'],"
        " stdout=root / 'o', stderr=root / 'e', timeout_s=60)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "KeyboardInterrupt" in ended.stderr
    assert process_table.group_of(int((tmp_path / "child").read_text())) is None


def test_a_child_dies_with_a_killed_runner_and_its_children_are_found_by_tag(tmp_path: Path) -> None:
    tag = f"test-{os.getpid()}-{time.monotonic_ns()}"
    script = (
        "import pathlib\n"
        "from ioassay.process import supervisor as process\n"
        f"root = pathlib.Path({str(tmp_path)!r})\n"
        "process.run(['sh', '-c', f'sleep 300 & echo $! > {root}/grandchild; echo $$ > {root}/child; wait'],"
        f" stdout=root / 'o', stderr=root / 'e', timeout_s=60, env={{process.TRIAL_VARIABLE: {tag!r}}})\n"
    )
    runner = subprocess.Popen([sys.executable, "-c", script])
    child = tmp_path / "child"
    while not (child.exists() and child.read_text().strip()):
        time.sleep(0.01)
    runner.kill()
    runner.wait()
    while process_table.group_of(int(child.read_text())) is not None:
        time.sleep(0.01)
    grandchild = int((tmp_path / "grandchild").read_text())
    assert supervisor.end_orphans(tag) == [grandchild]
    assert process_table.group_of(grandchild) is None


PYTHON = shlex.quote(sys.executable)
SESSION = (
    "import os, sys, time; os.setsid(); print(os.getpid(), file=open(sys.argv[1], 'w'), flush=True); time.sleep(300)"
)
"""As fio's jobs do: a session of its own, out of reach of its parent's group."""


def test_children_that_left_the_group_are_ended_with_it(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = f"{PYTHON} -c {shlex.quote(SESSION)} {child} & while [ ! -s {child} ]; do sleep 0.01; done"
    tag = f"test-{os.getpid()}-{time.monotonic_ns()}"
    outcome = run(tmp_path, "sh", "-c", script, env={supervisor.TRIAL_VARIABLE: tag})
    assert list(outcome.leftovers) == [int(child.read_text())]
    assert process_table.group_of(int(child.read_text())) is None


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
    script = (
        "import os, pathlib, signal, sys\n"
        "from ioassay.process import supervisor as process\n"
        f"root = pathlib.Path({str(tmp_path)!r})\n"
        f"argv = [sys.executable, '-c', {ORPHAN!r}, str(os.getpid()), str(root / 'o')]\n"
        "print(process.run(argv, stdout=root / 'o', stderr=root / 'e', timeout_s=60).exit_code)\n"
        "print(signal.getsignal(signal.SIGALRM) is signal.SIG_DFL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "0\nTrue\n"), ended.stderr


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
    script = (
        "import os, pathlib, sys\n"
        "from ioassay.process import supervisor as process\n"
        f"root = pathlib.Path({str(tmp_path)!r})\n"
        f"argv = [sys.executable, '-c', {DAEMONS!r}, str(os.getpid())]\n"
        "print(process.run(argv, stdout=root / 'o', stderr=root / 'e', timeout_s=60).exit_code)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.stdout == "0\n", ended.stderr


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


def test_a_chain_of_daemons_is_ended_though_it_goes_on_meanwhile(tmp_path: Path) -> None:
    tag = f"test-{os.getpid()}-{time.monotonic_ns()}"
    outcome = run(tmp_path, sys.executable, "-c", CHAIN, str(tmp_path / "begun"), env={supervisor.TRIAL_VARIABLE: tag})
    assert outcome.exit_code == 0
    tagged = os.fsencode(f"{supervisor.TRIAL_VARIABLE}={tag}")
    assert [pid for pid in process_table.everyone() if tagged in process_table.environment(pid)] == []


def test_a_chain_that_is_never_caught_by_number_is_ended_by_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_end_child", lambda pid: False)
    run(tmp_path, sys.executable, "-c", CHAIN, str(tmp_path / "begun"), env={supervisor.TRIAL_VARIABLE: "chain"})
    assert process_table.children() == []


def test_a_child_has_the_usual_actions_of_signals(tmp_path: Path) -> None:
    seen = "import signal as s; print(all(s.getsignal(n) is s.SIG_DFL for n in (s.SIGALRM, s.SIGUSR1, s.SIGRTMIN)))"
    assert run(tmp_path, sys.executable, "-c", seen).stdout.read_text() == "True\n"


def test_a_daemon_without_its_environment_is_ended_as_well(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = f"env -i {PYTHON} -c {shlex.quote(SESSION)} {child} & while [ ! -s {child} ]; do sleep 0.01; done"
    tag = f"test-{os.getpid()}-{time.monotonic_ns()}"
    outcome = run(tmp_path, "sh", "-c", script, env={supervisor.TRIAL_VARIABLE: tag})
    assert list(outcome.leftovers) == [int(child.read_text())]
    assert process_table.group_of(int(child.read_text())) is None


def test_what_is_started_for_a_held_child_is_not_taken_for_its_own(tmp_path: Path) -> None:
    helpers = []
    tag = f"test-{os.getpid()}-{time.monotonic_ns()}"

    def on_held(pid: int) -> None:
        helpers.append(subprocess.Popen(["sleep", "300"]))

    def refused(pid: int) -> None:
        on_held(pid)
        raise ToolError("refused")

    try:
        assert run(tmp_path, "true", on_held=on_held, env={supervisor.TRIAL_VARIABLE: tag}).leftovers == ()
        with pytest.raises(ToolError, match="refused"):
            run(tmp_path, "true", on_held=refused, env={supervisor.TRIAL_VARIABLE: tag})
        assert [helper.poll() for helper in helpers] == [None, None]
    finally:
        for helper in helpers:
            helper.kill()
            helper.wait()


def test_nothing_lives_on_when_the_runner_is_killed(tmp_path: Path) -> None:
    child, tag = tmp_path / "child", f"test-{os.getpid()}-{time.monotonic_ns()}"
    words = ["sh", "-c", f"{PYTHON} -c {shlex.quote(SESSION)} {child} & wait"]
    script = (
        "import pathlib\n"
        "from ioassay.process import supervisor as process\n"
        f"root = pathlib.Path({str(tmp_path)!r})\n"
        f"with process.guarded({tag!r}):\n"
        f"    process.run({words!r}, stdout=root / 'o', stderr=root / 'e', timeout_s=60,"
        f" env={{process.TRIAL_VARIABLE: {tag!r}}})\n"
    )
    runner = subprocess.Popen([sys.executable, "-c", script])
    while not (child.exists() and child.read_text().strip()):
        assert runner.poll() is None
        time.sleep(0.01)
    runner.kill()
    runner.wait()
    deadline_s = time.monotonic() + 30
    while process_table.group_of(int(child.read_text())) is not None:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_the_watch_ends_with_what_it_watches(tmp_path: Path) -> None:
    before = set(process_table.everyone())
    with supervisor.guarded("nothing"):
        pass
    own = {pid for pid in set(process_table.everyone()) - before if f"PPid:\t{os.getpid()}\n" in _status(pid)}
    assert not own


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""


def test_arguments_reach_the_program_as_they_are(tmp_path: Path) -> None:
    words = ["$HOME", "a b", "*", "'", "; exit 1"]
    outcome = run(tmp_path, "printf", "%s\n", *words)
    assert outcome.stdout.read_text().splitlines() == words


def test_capture_times_out(tmp_path: Path) -> None:
    captured = supervisor.capture(["sleep", "300"], timeout_s=0.2)
    assert captured.timed_out
    assert captured.exit_code is None


def test_an_ended_child_can_be_looked_at_before_it_is_reaped(tmp_path: Path) -> None:
    seen = []

    def on_ended(pid: int) -> None:
        seen.append(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])

    outcome = run(tmp_path, "true", on_ended=on_ended)
    assert seen == ["Z"]
    assert outcome.usage is not None and outcome.usage.ru_maxrss > 0


def test_a_child_reads_what_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("given")
    with (tmp_path / "in").open() as given:
        assert run(tmp_path, "cat", stdin=given.fileno(), timeout_s=float("inf")).stdout.read_text() == "given"
    assert run(tmp_path, "cat").stdout.read_text() == ""


def test_a_child_that_cannot_be_prepared_is_a_tool_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot start 'true': No such file"):
        run(tmp_path, "true", cwd=tmp_path / "missing")
    with pytest.raises(ToolError, match="cannot start 'true': No such file"):
        supervisor.run(["true"], stdout=tmp_path / "no" / "out", stderr=tmp_path / "err", timeout_s=5)


@pytest.mark.parametrize("killed", [False, True])
def test_what_a_killed_process_would_leave_is_undone_and_else_left_to_it(tmp_path: Path, killed: bool) -> None:
    undone = tmp_path / "undone"
    last = "os.kill(os.getpid(), 9)" if killed else "pass"
    code = (
        "import os, pathlib\nfrom ioassay.process import supervisor as process\n"
        f"with process.if_killed(lambda: pathlib.Path({str(undone)!r}).touch()):\n    {last}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=not killed)
    give_up_s = time.monotonic() + (10 if killed else 0)
    while not undone.exists() and time.monotonic() < give_up_s:
        time.sleep(0.01)
    assert undone.exists() == killed
