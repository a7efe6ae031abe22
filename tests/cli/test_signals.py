"""SIGINT, SIGTERM and SIGHUP at random instants of every command: a sentence and exit status 130, and no traceback.

The instants are spread over the time that a command took when nothing came in between. A third of them sends three
signals in quick succession, and every second one goes to the whole process group, as a terminal's Ctrl-C does. The
signals are blocked when a command starts, as the launcher blocks them, so that none may end Python before it listens:
no status but 130 and that of the finished command is allowed. What Python does while it starts and imports is the same
for all commands, and interrupted in a few; the others are forked from a process that has everything imported.

IOASSAY_INSTANTS=100 takes that many of each command; by default it is a few, which are others for each command.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ..corpora import cases
from ..patience import until
from .command_server import ENDING, PATIENCE_S, SIGNALLED
from .conftest import NULL, start

ROOT = Path(__file__).parent.parent.parent
INSTANTS = int(os.environ.get("IOASSAY_INSTANTS") or (100 if os.environ.get("IOASSAY_THOROUGH") else 2))


@dataclass(frozen=True)
class Ended:
    """How a command ended, what it said, and how long it took."""

    status: int
    out: str
    err: str
    took_s: float


def ended(
    argv: list[str], cwd: Path, plan: list[tuple[float, signal.Signals]], *, to_group: bool = False, **env: str
) -> Ended:
    """Run the command and send it each signal of the plan, after a pause in s, unless it has ended before."""
    began_s = time.monotonic()
    with start(*argv, cwd=cwd, of_its_own=True, **env) as running:
        send(running, plan, running.wait, to_group=to_group)
        return Ended(running.wait(), running.out, running.err, time.monotonic() - began_s)


def ended_alone(argv: list[str], cwd: Path, plan: list[tuple[float, signal.Signals]], waiting: int = 0) -> Ended:
    """The same of a command with an interpreter of its own, from its first instant; the signal `waiting` comes then."""
    began_s = time.monotonic()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        running = subprocess.Popen(
            [sys.executable, "-I", "-m", "ioassay", *argv],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.kill(os.getpid(), waiting),
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    send(running, plan, running.wait)
    out, err = running.communicate(timeout=PATIENCE_S)
    return Ended(running.returncode, out, err, time.monotonic() - began_s)


def send(
    running: Any, plan: list[tuple[float, signal.Signals]], wait: Callable[[float], int], *, to_group: bool = False
) -> None:
    for pause_s, number in plan:
        try:
            wait(pause_s)
        except subprocess.TimeoutExpired:
            (os.killpg if to_group else os.kill)(running.pid, number)


@contextmanager
def served(folder: Path, size: str) -> Iterator[str]:
    """The socket of a drive that is served meanwhile."""
    words = ("--size", size, "--transport", "nbd:unix:nbd.sock", "--model", "none", "--json", "--no-calibrate")
    with start("device", "serve", *words, cwd=folder, of_its_own=True) as serving:
        until(lambda: serving.out.endswith("}\n") or serving.has_ended())
        yield json.loads(serving.out)["stats"]
        if not serving.has_ended():
            serving.send_signal(signal.SIGTERM)
        assert serving.wait() == 0


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The socket of a drive that is served while the tests of this file run."""
    with served(tmp_path_factory.mktemp("drive"), "16MiB") as socket:
        yield socket


def signals_of(chance: random.Random, place: int, longest_s: float) -> list[tuple[float, signal.Signals]]:
    """The signals of one instant, with the pause before each: one, or three in quick succession."""
    first = (chance.uniform(place, place + 1) / INSTANTS * longest_s, ENDING[chance.randrange(3)])
    return [first, *((chance.uniform(0, 0.02), chance.choice(ENDING)) for _ in range(2 if place % 3 == 2 else 0))]


def check(answer: Ended, finished: int) -> None:
    said = f"{answer.status}\n{answer.out[-500:]}\n{answer.err}"
    assert answer.status in (130, finished), said
    for word in ("Traceback", "Exception ignored", "panicked", "Fatal"):
        assert word not in answer.err + answer.out, said
    if answer.status == 130:
        last = answer.err.strip().splitlines()[-1]
        assert last.startswith("ioassay: ") and ("interrupted" in last or "ended by SIG" in last), said


@pytest.mark.timeout(300 + 60 * INSTANTS)
@cases("endings", "commands", having="signals")
def test_a_signal_at_any_instant_ends_a_command_with_a_sentence(
    case: dict[str, Any], workshop: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    name = case["id"]
    served = request.getfixturevalue("drive") if "{drive}" in case["words"] else ""
    argv = [word.format(work=workshop, drive=served) for word in shlex.split(case["words"])]
    whole = uninterrupted(argv, tmp_path) if "longest_s" not in case else Ended(0, "", "", case["longest_s"])
    chance = random.Random(zlib.crc32(name.encode()))
    cut: list[Path] = []
    # A machine that gets faster meanwhile ends every command before its signal: the first has it from its beginning.
    for place in range(INSTANTS + 1):
        folder = tmp_path / str(place)
        folder.mkdir()
        plan = signals_of(chance, place - 1, whole.took_s) if place else []
        before = {} if place else {SIGNALLED: str(int(signal.SIGTERM))}
        answer = ended(argv, folder, plan, to_group=bool(place % 2), **before)
        check(answer, whole.status)
        assert place or answer.status == 130, answer
        if answer.status == 130:
            cut.append(folder)
    for folder in cut[-max(1, INSTANTS // 20) :] if name == "run" else ():
        check_resumed(folder, argv)


@pytest.mark.parametrize("words", ["plan null.toml", "studies", "witness --level counters -- sleep 0.2"])
def test_a_signal_while_python_starts_and_imports_ends_a_command_with_a_sentence(words: str, tmp_path: Path) -> None:
    (tmp_path / "null.toml").write_text(NULL)
    argv = words.split(" ")
    whole = ended_alone(argv, tmp_path, [])
    chance = random.Random(words)
    for place in range(INSTANTS):
        check(ended_alone(argv, tmp_path, signals_of(chance, place, whole.took_s)), 0)
    assert ended_alone(argv, tmp_path, [], signal.SIGHUP).status == 130


def uninterrupted(argv: list[str], folder: Path) -> Ended:
    """The command as it ends by itself."""
    (folder / "whole").mkdir()
    whole = ended(argv, folder / "whole", [])
    assert whole.status in (0, 1, 4) and "No module" not in whole.err, whole.err
    return whole


def check_resumed(folder: Path, argv: list[str]) -> None:
    """What was begun goes on; where nothing was, the same command begins it."""
    planned = (folder / "run" / "plan.jsonl").exists()
    again = ended(["run", "--resume", "run"] if planned else argv, folder, [])
    assert again.status == 0, again.err
    assert len(list((folder / "run" / "trials").glob("*/record.json"))) == 4


def test_a_served_drive_ends_with_its_own_status_or_a_sentence(tmp_path: Path) -> None:
    argv = ["device", "serve", "--size", "16MiB", "--transport", "nbd:unix:n.sock", "--model", "none"]
    longest_s = 4 * ended(["device", "serve", "--help"], tmp_path, []).took_s
    chance = random.Random(1)
    for place in range(INSTANTS):
        folder = tmp_path / str(place)
        folder.mkdir()
        check(ended(argv, folder, signals_of(chance, place, longest_s), to_group=bool(place % 2)), 0)
        assert os.listdir(folder) == []


def test_stopping_a_drive_is_interrupted_with_a_sentence_or_done(tmp_path: Path) -> None:
    chance = random.Random(2)
    longest_s = 2 * ended(["device", "stop", "--help"], tmp_path, []).took_s
    for place in range(max(2, INSTANTS // 4)):
        folder = tmp_path / str(place)
        folder.mkdir()
        with served(folder, "1MiB") as socket:
            check(ended(["device", "stop", socket], folder, signals_of(chance, place, longest_s)), 0)


LATE = """
import os, signal, sys
from ioassay.process import signals
signals.listen()
{body}
"""


def listening(body: str) -> subprocess.CompletedProcess[str]:
    """Newer Pythons warn of a fork beside threads, where the code that forks is that of the main module, as here."""
    argv = [sys.executable, "-I", "-W", "ignore::DeprecationWarning", "-c", LATE.format(body=body)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=240)


def test_a_signal_that_a_destructor_swallows_is_raised_again() -> None:
    body = """
class Swallowing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
try:
    Swallowing()
    signal.sigtimedwait([], 30)
except signals.Signalled as error:
    print(error)
"""
    done = listening(body)
    assert (done.stdout, done.stderr) == ("ended by SIGTERM\n", "")


def test_a_signal_that_did_not_interrupt_the_main_thread_ends_its_wait() -> None:
    """As one does that arrives in the instant before a wait; here it arrives in another thread."""
    body = """
import threading, time
def elsewhere():
    time.sleep(0.3)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    threading.Event().wait()
try:
    threading.Thread(target=elsewhere, daemon=True).start()
    threading.Event().wait()
except signals.Signalled as error:
    print(error)
"""
    done = listening(body)
    assert (done.stdout, done.stderr) == ("ended by SIGTERM\n", "")


def test_signals_that_follow_do_not_tear_a_cleanup_apart_until_the_fifth() -> None:
    body = """
def cleanup(times):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGTERM)
        print(len(signals.received()), flush=True)
try:
    cleanup(3)
except signals.Signalled as error:
    print(error, flush=True)
    signals._State.received = ()
try:
    cleanup(4)
finally:
    print("never")
"""
    done = listening(body)
    assert (done.returncode, done.stdout, done.stderr) == (130, "4\ninterrupted\n", "")


def test_a_forked_child_leaves_the_cleanup_to_its_parent() -> None:
    body = """
child = os.fork()
try:
    if child == 0:
        os.kill(os.getpid(), signal.SIGINT)
finally:
    print("cleaned up", flush=True)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = listening(body)
    assert (done.stdout, done.stderr) == ("cleaned up\n130\n", "")


def test_a_library_that_takes_the_interruption_for_its_own_error_changes_nothing(tmp_path: Path) -> None:
    """An import that ends in another error because a signal came in the middle is an interruption all the same."""
    code = """
import sys, os, signal
from ioassay import cli, __main__
def dispatch(words):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except BaseException:
        raise ImportError("half of a module")
cli._dispatch = dispatch
__main__.main()
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "ioassay: ended by SIGTERM\n")


def test_the_launcher_blocks_signals_until_python_listens(tmp_path: Path) -> None:
    """Its Python is a script here that signals itself: a signal that is blocked does not end it."""
    launcher = made_up_checkout(tmp_path, 'kill -TERM $$; kill -INT $$; kill -HUP $$; echo "went on: $*"')
    done = subprocess.run([launcher, "--help"], capture_output=True, text=True, preexec_fn=default_actions)
    assert (done.returncode, done.stdout) == (0, "went on: -I -m ioassay --help\n"), done.stderr


@pytest.mark.parametrize("number", ENDING)
def test_the_launcher_answers_a_signal_before_python_starts(tmp_path: Path, number: signal.Signals) -> None:
    launcher = made_up_checkout(tmp_path, "echo too far")
    (tmp_path / "bin").mkdir()
    find = tmp_path / "bin" / "find"
    find.write_text(f"#!/bin/sh\nkill -{int(number)} $PPID\n")
    find.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run([launcher, "--help"], capture_output=True, text=True, env=env, preexec_fn=default_actions)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "ioassay: interrupted\n")


def default_actions() -> None:
    """Of the signals in a child, however the tests themselves were started."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def made_up_checkout(folder: Path, python: str) -> Path:
    """A checkout that is set up, whose Python is a shell script."""
    for name in ("setup/ready.sh", "ioassay"):
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    for name in ("crates", ".setup", ".venv/bin", "python/ioassay"):
        (folder / name).mkdir(parents=True)
    for name in ("Cargo.toml", "Cargo.lock", "pyproject.toml", "constraints.txt", "python/ioassay/_core.so"):
        (folder / name).touch()
    interpreter = folder / ".venv" / "bin" / "python"
    interpreter.write_text(f"#!/bin/sh\n{python}\n")
    for path in (interpreter, folder / "ioassay"):
        path.chmod(0o755)
    (folder / ".setup" / "run").write_text(f"{folder.resolve()}\n")
    later_s = time.time() + 60
    os.utime(folder / ".setup" / "run", (later_s, later_s))
    return folder / "ioassay"


WITHIN_AN_EXTENSION = """
import os, signal, sys, time
from ioassay.process import signals

class Kills:
    def find_spec(self, name, path=None, target=None):
        callers = {frame.f_code.co_qualname.partition(".")[0] for frame in frames(sys._getframe())}
        if name == "datetime" and "ExtensionFileLoader" in callers:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
            print("sent", flush=True)

def frames(frame):
    while frame is not None:
        yield frame
        frame = frame.f_back

signals.listen()
sys.modules.pop("datetime", None)
sys.meta_path.insert(0, Kills())
try:
    import pydantic_core
    time.sleep(60)
except signals.Signalled:
    print("ended")
"""


def test_a_signal_while_an_extension_imports_waits_for_it() -> None:
    done = subprocess.run([sys.executable, "-c", WITHIN_AN_EXTENSION], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("sent\nended\n", "")
