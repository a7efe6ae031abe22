"""Executors: worker processes that may die, hang, print and be given up without harming anything but their own call."""

import operator
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from ioassay.host.machine import Machine
from ioassay.runner import worker, worker_pool

from .patience import PATIENCE_S, alive, until

MEMINFO = "MemTotal: 8000 kB\nMemAvailable: 1000 kB\n"
ORPHAN = """
import os, time
from ioassay.runner import worker_pool
workers = worker_pool.Workers(2, {tag!r})
calls = [workers.submit(os.getpid) for _ in range(2)]
[call.result() for call in calls]
calls = [workers.submit(time.sleep, 1000) for _ in range(2)]
print("ready", flush=True)
calls[0].result()
"""


def _lost_there() -> None:
    """A function that workers look for in a module where it is not."""


_lost_there.__module__ = "ioassay.runner.worker"
worker._lost_there = _lost_there  # type: ignore[attr-defined]


@pytest.fixture
def tag(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture
def workers(tag: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[worker_pool.Workers]:
    monkeypatch.setattr(worker_pool, "_GRACE_S", PATIENCE_S)
    with worker_pool.Workers(2, tag) as made:
        yield made
        made.shutdown(cancel_futures=True)


def test_calls_are_answered_by_processes_that_are_used_again(workers: worker_pool.Workers) -> None:
    assert [workers.submit(operator.mul, 6, number).result() for number in range(20)] == [*range(0, 120, 6)]
    pids = {workers.submit(os.getpid).result() for _ in range(20)}
    assert 1 <= len(pids) <= 2
    assert os.getpid() not in pids
    assert workers.submit(os.getsid, 0).result() != os.getsid(0), "Ctrl-C of the terminal would reach it"


def test_an_exception_comes_back_with_where_it_was_raised(workers: worker_pool.Workers) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        workers.submit(os.stat, "/no/such/file").result()
    assert raised.value.errno == 2
    assert "in a worker process" in "".join(raised.value.__notes__)


WORKER = "__import__('ioassay').runner.worker"
UNREADABLE = {
    "lambda: 1": (RuntimeError, pickle.PicklingError, AttributeError),
    "exec('class Odd(Exception):\\n def __init__(self, a, b): pass\\nraise Odd(1, 2)')": RuntimeError,
    f"setattr({WORKER}, 'There', type('There', (), {{'__module__': 'ioassay.runner.worker'}})) or {WORKER}.There()": (
        AttributeError
    ),
}


@pytest.mark.parametrize("code", UNREADABLE, ids=["no answer", "no error", "an answer of there"])
def test_what_cannot_be_pickled_or_read_is_an_error_and_not_the_end(workers: worker_pool.Workers, code: str) -> None:
    with pytest.raises(UNREADABLE[code]):
        workers.submit(eval, code).result()
    assert workers.submit(operator.add, 1, 2).result() == 3


def test_what_a_call_prints_is_not_taken_for_its_answer(workers: worker_pool.Workers) -> None:
    assert workers.submit(eval, "[print('x' * 100_000), 7][1]").result() == 7
    assert workers.submit(eval, "__import__('os').write(1, b'raw')").result() == 3
    assert workers.submit(eval, "__import__('sys').stdin.read()").result() == ""


def test_a_worker_that_ends_loses_its_own_call_only_and_its_signal_is_named(workers: worker_pool.Workers) -> None:
    beside = workers.submit(eval, "__import__('time').sleep(0.3) or 'whole'")
    lost = workers.submit(os._exit, 3)
    with pytest.raises(worker_pool.WorkerLost, match="worker process ended with code 3"):
        lost.result()
    assert beside.result() == "whole"
    for number, said in {signal.SIGKILL: "as the kernel does when memory runs out", signal.SIGSEGV: "Segmen"}.items():
        with pytest.raises(worker_pool.WorkerLost, match=said):
            workers.submit(signal.raise_signal, number).result()
    assert [workers.submit(operator.neg, 1).result() for _ in range(4)] == [-1] * 4


def test_what_a_worker_said_at_its_end_is_told_and_nothing_of_earlier_calls(workers: worker_pool.Workers) -> None:
    assert {call.result() for call in [workers.submit(os.write, 2, b"earlier\n") for _ in range(8)]} == {8}
    code = "import os; os.write(2, b'memory allocation failed\\nsecond line'); os.abort()"
    with pytest.raises(worker_pool.WorkerLost, match=r"it said: memory allocation failed$"):
        workers.submit(exec, code).result()


def test_a_call_that_a_worker_cannot_read_says_why(workers: worker_pool.Workers) -> None:
    with pytest.raises(worker_pool.WorkerLost, match=r"ended with code 1; it said: AttributeError: .*_lost_there"):
        workers.submit(_lost_there).result()
    assert workers.submit(operator.add, 1, 2).result() == 3


def test_a_worker_that_never_starts_is_an_error_of_the_run(
    workers: worker_pool.Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python").write_text('#!/bin/sh\necho start >> "${0%/*}/starts"\necho no module >&2\nexit 9\n')
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(
        worker_pool.NoWorker, match="a worker process cannot start: it ended with code 9; it said: no module"
    ):
        workers.submit(os.getpid).result()
    assert (tmp_path / "starts").read_text() == "start\n" * 3
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere"))
    with pytest.raises(worker_pool.NoWorker, match="cannot start: cannot start .*nowhere': No such file"):
        workers.submit(os.getpid).result()
    monkeypatch.undo()
    assert workers.submit(operator.add, 1, 2).result() == 3


def test_giving_up_ends_what_runs_and_leaves_no_process(tag: str) -> None:
    with pytest.raises(KeyboardInterrupt), worker_pool.Workers(2, tag) as workers:
        running = [workers.submit(time.sleep, 1000) for _ in range(6)]
        until(lambda: len(alive(tag)) == 2)
        raise KeyboardInterrupt
    assert alive(tag) == []
    assert all(call.done() for call in running)


def test_a_signal_while_a_thread_starts_is_the_only_error(tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        begin(thread)
        until(lambda: alive(tag))
        raise KeyboardInterrupt

    for _ in range(5):  # the worker was closed by two threads at once
        with pytest.raises(KeyboardInterrupt), worker_pool.Workers(2, tag) as workers:
            monkeypatch.setattr(threading.Thread, "start", interrupted)
            try:
                workers.submit(time.sleep, 1000)
            finally:
                monkeypatch.undo()
        assert alive(tag) == []
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("ioassay-worker")]


def test_the_end_of_a_pool_waits_for_what_was_asked(tag: str) -> None:
    with worker_pool.Workers(2, tag) as workers:
        calls = [workers.submit(operator.add, number, 1) for number in range(10)]
    assert [call.result() for call in calls] == [*range(1, 11)]
    assert alive(tag) == []


def test_no_worker_outlives_a_killed_runner(tag: str) -> None:
    command = [sys.executable, "-c", ORPHAN.format(tag=tag)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == "ready\n"
        until(lambda: len(alive(tag)) == 2)
        runner.kill()
    until(lambda: alive(tag) == [])


def test_one_worker_is_this_process(tag: str) -> None:
    with worker_pool.executor(1, tag) as here:
        assert here.submit(os.getpid).result() == os.getpid()
        with pytest.raises(ZeroDivisionError):
            here.submit(operator.truediv, 1, 0).result()
    assert isinstance(worker_pool.executor(2, tag), worker_pool.Workers)


def test_a_library_in_the_working_directory_shadows_nothing(
    workers: worker_pool.Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pickle.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    assert workers.submit(os.getcwd).result() == str(tmp_path)


def test_memory_and_the_control_group_bound_the_number_of_workers(
    fake_root: Callable[[Mapping[str, str]], Path], tmp_path: Path
) -> None:
    machine = Machine(fake_root({"proc/meminfo": MEMINFO}))
    assert worker_pool.fitted(8, [None, 5 << 10, 100 << 10], machine) == (8, [])
    number, (warning,) = worker_pool.fitted(8, [None, 300 << 10, 100 << 10], machine)
    assert number == 2
    assert warning.code == "fewer-workers"
    assert warning.text == "2 of 8 workers are used: a trial takes up to 300 KiB and 1000 KiB are available"
    assert worker_pool.fitted(8, [5 << 20], machine)[0] == 1
    assert worker_pool.fitted(1, [5 << 20], machine) == (1, [])
    group = {
        "sys/fs/cgroup/cgroup.controllers": "memory",
        "proc/self/cgroup": "0::/box",
        "sys/fs/cgroup/box/memory.max": str(500 << 10),
    }
    assert worker_pool.fitted(8, [100 << 10], Machine(fake_root(group)))[0] == 4
    assert worker_pool.fitted(8, [1 << 60], Machine(tmp_path)) == (8, []), "a machine that tells nothing bounds nothing"
