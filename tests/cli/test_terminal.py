"""A command under the witness has the user's terminal: keys, signals, job control, size and modes.

What a command may do to a terminal is done by real commands on a pseudoterminal (terminal.py); only one waits for a
time, in which nothing may happen. Without a terminal, streams and signals pass through as well.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ioassay.process import process_table

from ..corpora import cases
from ..patience import until
from .conftest import ask, command, start
from .terminal import CTRL_C, CTRL_Z, Terminal

IOASSAY = command()
WITNESS = [*IOASSAY, "witness", "--level", "counters", "--"]
PLAIN = WITNESS[len(IOASSAY) :]
WITHOUT_READING = [*WITNESS[:-1], "--claim", "bytes=1", "--"]
"""Nothing is read from the output of a command whose claim is given: it has our streams themselves."""
BOTH = pytest.mark.parametrize("witness", [WITNESS, WITHOUT_READING], ids=["read", "not-read"])
PROMPT = "PROMPT> "
LINES = 3
BEGIN = "printf 'beg%s\\n' un; "  # what is typed is shown too, and must not be taken for what is printed
ASK = "printf 'na%s' me?; read x; echo got=$x"
RAW = """
import os, tty
tty.setraw(0)
os.write(1, b"in " + b"raw")
key = os.read(0, 1)
os.write(1, b"key=" + key)
{then}
"""


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def is_running(pid: str) -> bool:
    """Whether it is more than an entry that waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


def status(pid: int) -> process_table.Status:
    found = process_table.status(pid)
    assert found is not None
    return found


def words(argv: list[str]) -> str:
    return shlex.join(argv)


@contextmanager
def interactive(folder: Path) -> Iterator[Terminal]:
    """A person's shell, with job control."""
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    with Terminal(["bash", "--norc", "--noprofile", "-i"], folder, {"PS1": PROMPT}) as terminal:
        terminal.until(PROMPT)
        yield terminal


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    with interactive(tmp_path) as terminal:
        yield terminal


@cases("terminal", "sessions")
def test_a_person_and_a_command_share_a_terminal_as_their_row_says(case: dict[str, Any], tmp_path: Path) -> None:
    for witness in (WITNESS, WITHOUT_READING)[: 2 if case.get("both") else 1]:
        text = case.get("run") or case["shell"] + "\n"
        for name, words in {"{ioassay}": IOASSAY, "{witness}": witness, "{python}": python("")[:-1]}.items():
            text = text.replace(name, shlex.join(words))
        # A script of two parts is one word: quoted texts that touch are.
        text = text.replace("{ask}", shlex.quote(ASK)).replace("{begin}", shlex.quote(BEGIN))
        for name, script in case.get("files", {}).items():
            (tmp_path / name).write_text(script)
        with ExitStack() as opened:
            if "run" in case:
                size = tuple(case.get("size", (24, 80)))
                terminal = opened.enter_context(Terminal(shlex.split(text), tmp_path, size=size))
            else:
                terminal = opened.enter_context(interactive(tmp_path))
                terminal.type(text)
            for what, *values in case["steps"]:
                getattr(terminal, what)(*values)
            assert "status" not in case or terminal.ended() in case["status"], terminal.shown
        assert [part for part in case.get("shown", ()) if part not in terminal.shown] == []
        assert [part for part in case.get("hidden", ()) if part in terminal.shown] == []
        if "most" in case:
            lines = terminal.shown.rpartition("end of the command's own output\r\n")[2].rstrip().splitlines()
            assert any(line.startswith("More: --all") for line in lines), lines
            assert len(lines) <= case["most"][0] and max(map(len, lines)) <= case["most"][1], "\n".join(lines)


def test_the_second_interruption_ends_a_command_that_ignores_the_first(tmp_path: Path) -> None:
    script = (
        "trap 'echo no > first' INT; trap 'echo end > second; exit 0' TERM; touch ready; while :; do sleep 0.05; done"
    )
    with start(*PLAIN, "sh", "-c", script, cwd=tmp_path, of_its_own=True) as running:
        until((tmp_path / "ready").exists)
        running.send_signal(signal.SIGINT)
        until((tmp_path / "first").exists)
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130 and running.err.endswith("ioassay: interrupted\n")
    assert (tmp_path / "second").exists()


def test_an_interruption_without_a_terminal_is_the_commands_as_well(tmp_path: Path) -> None:
    script = "trap 'echo results; exit 9' INT; touch ready; while :; do sleep 0.05; done"
    with start(*PLAIN, "sh", "-c", script, cwd=tmp_path, of_its_own=True) as running:
        until((tmp_path / "ready").exists)
        running.send_signal(signal.SIGINT)
        assert running.wait() == 9
        assert running.out.startswith("results\n") and "ended with exit status 9" in running.out


@BOTH
@pytest.mark.parametrize("backend", ["counters", pytest.param("strace", marks=pytest.mark.strace)])
def test_ctrl_z_stops_the_command_and_fg_continues_it(witness: list[str], backend: str, shell: Terminal) -> None:
    before = shell.modes
    shell.type(f"{words([*witness[:-1], '--backend', backend, '--', 'sh', '-c', ASK])}\n")
    shell.until("name[?]")
    shell.type(CTRL_Z)
    shell.until(r"\[1\].*Stopped")
    shell.until(PROMPT)
    shell.type("fg\n")
    shell.until("sh -c")
    shell.type("joe\n")
    shell.until("got=joe")
    shell.until("Watched by")
    shell.until(PROMPT)
    until(lambda: shell.modes == before)
    shell.type("echo status=$?\n")
    shell.until("status=0")


def test_the_shell_has_the_terminal_once_all_of_the_command_have_stopped(shell: Terminal) -> None:
    """One that has not been scheduled since Ctrl-Z is still in its read(2), and would take the next key."""
    sleepless = "import ctypes, os; c = ctypes.CDLL(None); c.vfork(); print('late=' + str(os.getpid())); c.pause()"
    script = f"{words(python(sleepless))} & {ASK}"
    shell.type(f"PYTHONUNBUFFERED=1 {words([*WITNESS, 'sh', '-c', script])}\n")
    child = int(shell.until(r"late=(\d+)")[1])
    late = status(child).parent  # of the child that it has vforked, whose exec it waits for
    shell.type(CTRL_Z)
    command = status(late).group
    until(lambda: status(command).state == "T")
    until(lambda: status(late).state == "D")
    for _ in range(30):  # it would have the terminal back within some milliseconds
        assert shell.foreground == command
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    shell.until(r"\[1\].*Stopped")
    assert status(late).state == "T"
    os.kill(late, signal.SIGKILL)
    shell.type("fg\n")
    shell.until("sh -c")
    shell.type("joe\n")
    shell.until("got=joe")


def test_a_command_that_nobody_waits_for_is_stopped_with_all_of_its_job(shell: Terminal) -> None:
    """A script in front of us is of the same job: the shell has it again only when all of it has stopped."""
    script = "echo job=$$; " + words([*WITNESS, "sh", "-c", ASK]) + "; printf 'do%s' ne"
    shell.type(f"sh -c {shlex.quote(script)}\n")
    job = int(shell.until(r"job=(\d+)")[1])
    shell.until("name[?]")
    until(lambda: shell.foreground != job and status(shell.foreground).state == "S")  # it reads, so it was lent to it
    shell.type(CTRL_Z)
    shell.until(r"\[1\].*Stopped")
    until(lambda: all(status(pid).state == "T" for pid in process_table.members(job)))
    shell.type("fg\n")
    shell.until("sh -c")
    shell.type("joe\n")
    shell.until("got=joe")
    shell.until("done")


@pytest.mark.parametrize(
    ("witness", "then", "status"),
    [
        (WITNESS, "", 0),
        (WITNESS, "os.kill(os.getpid(), 9)", 128 + 9),
        (WITHOUT_READING, "os.kill(os.getpid(), 11)", 128 + 11),
        (WITHOUT_READING, "os._exit(3)", 3),
    ],
    ids=["read-ends", "read-killed", "not-read-crashes", "not-read-fails"],
)
def test_a_terminal_that_a_command_leaves_raw_is_as_before(
    witness: list[str], then: str, status: int, tmp_path: Path
) -> None:
    script = f"ulimit -c 0; {words([*witness, *python(RAW.format(then=then))])}; echo status=$?; read x; echo got=$x"
    with Terminal(["sh", "-c", script], tmp_path) as terminal:
        terminal.until("in raw")
        assert not terminal.modes[LINES] & termios.ICANON
        terminal.type("k")
        terminal.until("key=k")
        terminal.until(f"status={status}")
        assert terminal.modes == terminal.modes_before
        terminal.type("joe\n")
        terminal.until("got=joe")
        assert terminal.ended() == 0


@pytest.mark.parametrize(
    ("witness", "number"),
    [
        (WITNESS, signal.SIGKILL),
        (WITHOUT_READING, signal.SIGKILL),
        (WITNESS, signal.SIGTERM),
        (WITHOUT_READING, signal.SIGHUP),
    ],
    ids=["read-KILL", "not-read-KILL", "read-TERM", "not-read-HUP"],
)
def test_when_we_are_ended_the_terminal_is_given_back(
    witness: list[str], number: signal.Signals, tmp_path: Path
) -> None:
    """Also by SIGKILL, in a script, where no interactive shell would mend it."""
    os.mkfifo(tmp_path / "go")  # given back soon, not at once: a script that reads earlier gets an error of the kernel
    script = f"{words([*witness, *python(RAW.format(then=''))])}; echo status=$?; cat go; read x; echo got=$x"
    with Terminal(["sh", "-c", script], tmp_path) as terminal:
        terminal.until("in raw")
        command = terminal.foreground
        assert command != terminal.pid
        status = Path(f"/proc/{command}/status").read_text()
        os.kill(int(re.findall(r"^PPid:\s+(\d+)", status, re.MULTILINE)[0]), number)
        terminal.until(f"status={137 if number == signal.SIGKILL else 130}")
        until(lambda: terminal.modes == terminal.modes_before and terminal.foreground == terminal.pid)
        until(lambda: not is_running(str(command)))
        (tmp_path / "go").write_text("")
        terminal.type("joe\n")
        terminal.until("got=joe")
        assert terminal.ended() == 0


def test_raw_modes_are_the_commands_again_after_fg(shell: Terminal) -> None:
    shell.type(f"{words([*WITNESS, *python(RAW.format(then=''))])}\n")
    shell.until("in raw")
    command = shell.foreground
    os.killpg(command, signal.SIGTSTP)  # in raw mode Ctrl-Z is a key like others
    shell.until("Stopped")
    shell.until(PROMPT)
    shell.type("fg\n")
    until(lambda: shell.foreground == command and not shell.modes[LINES] & termios.ICANON)
    shell.type("k")
    shell.until("key=k")
    shell.until(PROMPT)
    shell.type("stty -a\n")
    shell.until("[^-]icanon")


def test_a_full_screen_program_has_its_keys(tmp_path: Path) -> None:
    script = """
import curses
screen = curses.initscr()
curses.cbreak(); curses.noecho()
screen.addstr(0, 0, "cur" + "ses"); screen.refresh()
key = screen.getch()
curses.endwin()
print("key", key)
"""
    with Terminal([*WITNESS, *python(script)], tmp_path, {"TERM": "xterm"}) as terminal:
        terminal.until("curses")
        terminal.type("k")
        terminal.until(f"key {ord('k')}")
        assert terminal.ended() == 0
        assert terminal.modes == terminal.modes_before


def test_a_shell_that_is_the_command_has_job_control_of_its_own(shell: Terminal) -> None:
    """Where nothing is read from its output: its standard error is the terminal then."""
    shell.type(f"PS1='in''side> ' {words([*WITHOUT_READING, 'bash', '--norc', '--noprofile', '-i'])}\n")
    shell.until("inside> ")
    shell.type(f"sh -c {shlex.quote(BEGIN + 'exec sleep 1000')}\n")
    shell.until("begun")
    shell.type(CTRL_Z)
    shell.until("Stopped")
    shell.until("inside> ")
    inner = shell.foreground
    shell.type("fg\n")
    until(lambda: shell.foreground != inner)
    shell.type(CTRL_C)
    shell.until("inside> ")
    shell.type("exit 7\n")
    shell.until("exit status 7")
    shell.until(PROMPT)


@BOTH
def test_a_command_that_is_killed_from_elsewhere_is_reported(witness: list[str], tmp_path: Path) -> None:
    with Terminal([*witness, "sh", "-c", "echo pid=$$; read x"], tmp_path) as terminal:
        os.kill(int(terminal.until(r"pid=(\d+)\r")[1]), signal.SIGKILL)
        assert terminal.ended() == 128 + signal.SIGKILL
    assert "The command was ended by SIGKILL." in terminal.shown


def test_a_command_that_is_stopped_from_elsewhere_goes_on_without_us_being_stopped(tmp_path: Path) -> None:
    """Nobody would continue us where there is no terminal."""
    os.mkfifo(tmp_path / "go")
    with start(*PLAIN, "sh", "-c", "echo $$; cat go", cwd=tmp_path) as running:
        until(lambda: running.out.endswith("\n"))
        pid = int(running.out)
        for number in (signal.SIGSTOP, signal.SIGTSTP):
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)
        (tmp_path / "go").write_text("went on\n")
        assert running.wait() == 0 and "went on\n" in running.out


def test_nobody_waits_for_ever_for_a_terminal_that_is_not_ours(tmp_path: Path) -> None:
    """In a background job whose shell is gone, read(2) fails; the command is ended in its place (SIGHUP)."""
    job = f"({words([*WITNESS, 'sh', '-c', 'read x'])} > out 2>&1 < /dev/tty; echo $? > status) &"
    inner = f"set -m; {job} sleep 0.1"
    with Terminal(
        ["sh", "-c", f"sh -c {shlex.quote(inner)}; while [ ! -s status ]; do sleep 0.05; done"], tmp_path
    ) as t:
        t.ended()
    assert int((tmp_path / "status").read_text()) in (1, 128 + signal.SIGHUP)


@BOTH
def test_when_we_are_killed_all_that_the_command_started_ends(witness: list[str], tmp_path: Path) -> None:
    """Its children and daemons, too, which the kernel does not end with it."""
    script = "sleep 1000 & echo $! > child; setsid sh -c 'echo $$ > daemon; exec sleep 1000' & wait"
    files = [tmp_path / "child", tmp_path / "daemon"]
    with start(*witness[len(IOASSAY) :], "sh", "-c", script, cwd=tmp_path) as running:
        until(lambda: all(path.exists() and path.read_text().strip() for path in files))
        pids = [path.read_text().strip() for path in files]
        running.send_signal(signal.SIGKILL)
        running.wait()
        until(lambda: not any(map(is_running, pids)))


MUCH = """
import os, random
left = memoryview(random.Random(1).randbytes({size}){then})
while left:
    left = left[os.write(1, left):]
"""


@BOTH
def test_all_that_a_command_prints_arrives_in_order(witness: list[str], tmp_path: Path) -> None:
    """3 MiB of bytes that are no text and end without a line's end; on a terminal the same in letters."""
    size = 3 << 20
    printed = random.Random(1).randbytes(size)
    done = ask(*witness[len(IOASSAY) :], *python(MUCH.format(size=size, then="")), cwd=tmp_path)
    assert done.out.encode(errors="surrogateescape")[:size] == printed
    with Terminal([*witness, *python(MUCH.format(size=size // 10, then=".hex().encode()"))], tmp_path) as terminal:
        assert terminal.ended() == 0
        assert terminal.shown.startswith(printed[: size // 10].hex())


def test_under_json_the_result_alone_is_on_stdout(tmp_path: Path) -> None:
    argv = [*IOASSAY, "witness", "--json", "--level", "counters", "--", "sh", "-c", "test -t 1 && echo terminal"]
    with Terminal(["sh", "-c", f"{words(argv)} > out"], tmp_path) as terminal:
        assert terminal.ended() == 0
    assert terminal.shown == "terminal\r\n"
    assert '"exit_code": 0' in (tmp_path / "out").read_text()
