"""Runs in threads and event loops: one measures at a time, and what the caller started is left alone."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ioassay as ia
from ioassay.process import process_table, supervisor
from ioassay.roles import Trial

from .conftest import computed

LONG_S = 240
_PR_GET_CHILD_SUBREAPER = 37


def run_tool(script: str, held: threading.Event, go: threading.Event) -> int | None:
    """The exit code of a shell that waits until the test lets it go."""

    def on_held(pid: int) -> None:
        held.set()
        assert go.wait(LONG_S)

    env = {supervisor.TRIAL_VARIABLE: f"thread of {os.getpid()}"}
    files = {"stdout": Path("out"), "stderr": Path("err")}
    return supervisor.run(["sh", "-c", script], **files, timeout_s=LONG_S, env=env, on_held=on_held).exit_code


def test_processes_of_the_caller_live_on_and_daemons_of_the_tool_do_not() -> None:
    held, go = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        script = "setsid sh -c 'echo $$ > daemon; exec sleep 300' & until [ -s daemon ]; do sleep 0.01; done"
        tool = pool.submit(run_tool, script, held, go)
        assert held.wait(LONG_S)
        go.set()
        mine = [subprocess.Popen(["sleep", "300"], start_new_session=apart) for apart in (False, True)]
        ended = subprocess.Popen(["sh", "-c", "exit 7"])
        try:
            assert tool.result(LONG_S) == 0
            assert [child.poll() for child in mine] == [None, None]
            assert ended.wait(LONG_S) == 7
            assert process_table.group_of(int(Path("daemon").read_text())) is None
        finally:
            for child in mine:
                child.kill()
                child.wait()


def test_a_process_adopts_only_while_it_measures() -> None:
    flag = ctypes.c_int(-1)
    seen = []

    def on_held(pid: int) -> None:
        ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(flag), 0, 0, 0)
        seen.append(flag.value)

    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)
    supervisor.run(["true"], stdout=Path("out"), stderr=Path("err"), timeout_s=LONG_S, on_held=on_held)
    ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(flag), 0, 0, 0)
    assert (seen, flag.value) == ([1], 0)


def test_a_tool_that_signals_its_parent_does_not_end_a_program_that_measures_in_a_thread() -> None:
    number = int(signal.SIGALRM)
    program = f"""
import signal, threading
from pathlib import Path
from ioassay.process import supervisor
def measure():
    supervisor.run(["sh", "-c", "kill -{number} $PPID"], stdout=Path("out"), stderr=Path("err"), timeout_s=60)
for blocked in (False, True):
    # A thread that waits for a processor takes a signal late: as if it were blocked until the tool has ended.
    signal.pthread_sigmask(signal.SIG_BLOCK if blocked else signal.SIG_UNBLOCK, [{number}])
    thread = threading.Thread(target=measure)
    thread.start(); thread.join()
signal.pthread_sigmask(signal.SIG_UNBLOCK, [{number}])
assert signal.getsignal({number}) is signal.SIG_DFL
print("alive")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LONG_S)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


class Together(ia.Progress):
    """How many trials run at once, over all runs that have it."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.lock = threading.Lock()

    def started(self, trial: Trial) -> None:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)

    def ended(self, trial: Trial, status: str) -> None:
        with self.lock:
            self.running -= 1


def test_measuring_trials_of_two_threads_run_one_at_a_time() -> None:
    study = ia.Study(driver="null", repetitions=5, params={"sleep": 0.02}, watch={"monitors": []})
    together = Together()
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(study.run, f"run-{number}", progress=together) for number in range(2)]
        assert [each.result(LONG_S).tally.ok for each in runs] == [5, 5]
    assert together.most == 1


def test_computed_trials_of_two_threads_run_at_once() -> None:
    meeting = threading.Barrier(2, timeout=LONG_S)

    class Meeting(ia.Progress):
        met = False

        def started(self, trial: Trial) -> None:
            if not self.met:
                self.met = True
                meeting.wait()

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(computed().run, f"run-{number}", progress=Meeting(), workers=2) for number in range(2)]
        assert [each.result(LONG_S).tally.ok for each in runs] == [6, 6]
    assert not meeting.broken


def test_a_run_in_an_event_loop_leaves_the_loop_free() -> None:
    async def ticking(done: asyncio.Event) -> int:
        ticks = 0
        while not done.is_set():
            ticks += 1
            await asyncio.sleep(0)
        return ticks

    async def both() -> tuple[int, ia.Run]:
        done = asyncio.Event()
        ticks = asyncio.create_task(ticking(done))
        run = await asyncio.to_thread(computed().run, "out", workers=1)
        done.set()
        return await ticks, run

    ticks, run = asyncio.run(both())
    assert ticks > 0 and run.tally.ok == 6


def test_ctrl_c_in_the_main_thread_ends_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    program = """
import sys, ioassay as ia
class Ready(ia.Progress):
    def started(self, trial):
        print("started", flush=True)
study = ia.Study(driver="null", repetitions=3, params={"sleep": 60}, watch={"monitors": []})
try:
    study.run("out", progress=Ready())
except ia.Interrupted as error:
    print(error)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "started\n"
        child.send_signal(signal.SIGINT)
        said, _ = child.communicate(timeout=LONG_S)
    assert said == "interrupted; what was recorded is kept. Go on with: ioassay run --resume out\n"
    assert ia.open("out").trials.height == 0


@pytest.mark.fio
def test_fio_is_measured_in_a_thread_with_its_claims_confirmed() -> None:
    study = ia.Study(
        driver="fio",
        target={"kind": "file", "path": "data", "size": "8MiB"},
        params={"rw": "randread", "bs": "4k", "size": "1MiB"},
        repetitions=2,
        watch={"monitors": [], "witness": "counters"},
    )
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(study.run, "out").result(LONG_S)
    assert run.tally.ok == 2 and run.claims.height == 2
    assert run.contradicted == 0
