"""Trials in executors of the standard library: the records are those of a local run, whatever the executor does."""

import dataclasses
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from ioassay.api.progress import Progress
from ioassay.errors import RunError
from ioassay.records.record import FAILED
from ioassay.roles import Trial
from ioassay.runner import delivery, input_files, program_identity, worker
from ioassay.store.run_folder import RunStore

from . import computed_runs


@pytest.fixture(params=["threads", "processes"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    with ThreadPoolExecutor(2) if request.param == "threads" else ProcessPoolExecutor(2, get_context("spawn")) as made:
        yield made


def test_records_are_those_of_a_local_run(tmp_path: Path, executor: Executor) -> None:
    computed_runs.require_same_as_here(tmp_path, computed_runs.variety(), executor)
    statuses = {record.status for record in RunStore.open(tmp_path / "here").records()}
    assert statuses == {"ok", "failed", "skipped"}


def test_simulations_of_a_trace_file_are_those_of_a_local_run(
    tmp_path: Path, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.trace").write_text(computed_runs.TRACE)
    assert computed_runs.require_same_as_here(tmp_path, computed_runs.simulations(), executor).ok == 3
    assert executor.submit(max, 1, 2).result() == 2, "the run has shut down an executor that it did not make"


class Elsewhere(Executor):
    """Computes in this process as if it had no file of the run: another folder, and paths that do not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.orders = folder, list[delivery.Order]()
        folder.mkdir()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        (order,) = args
        self.orders.append(order)
        hidden = [dataclasses.replace(file, path=f"/nowhere{file.path}") for file in order.inputs]
        answer = fn(dataclasses.replace(order, inputs=hidden), self.folder)
        if isinstance(answer, delivery.Lacking):
            answer = dataclasses.replace(answer, files=order.inputs)
        future: Future[Any] = Future()
        future.set_result(answer)
        return future


def test_a_trace_that_a_worker_lacks_is_sent_once_and_results_do_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.trace").write_text(computed_runs.TRACE)
    monkeypatch.setattr(input_files, "PART_BYTES", 1000)
    elsewhere = Elsewhere(tmp_path / "elsewhere")
    assert computed_runs.require_same_as_here(tmp_path, computed_runs.simulations(), elsewhere).ok == 3
    sent = [order for order in elsewhere.orders if order.contents]
    assert len(sent) == 1 and len(sent[0].contents) > 10
    assert b"".join(part.content for part in sent[0].contents).decode() == computed_runs.TRACE


def test_an_error_of_a_trace_names_the_path_of_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.trace").write_text(computed_runs.TRACE + "no request\n")
    elsewhere = Elsewhere(tmp_path / "elsewhere")
    assert computed_runs.require_same_as_here(tmp_path, computed_runs.simulations(), elsewhere).failed == 3
    (reason,) = {record.reason for record in RunStore.open(Path("there")).records()}
    assert reason.startswith("small.trace: ")


def test_a_drive_of_a_file_goes_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ioassay.drivers import driver

    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(
        'about = "A drive."\n[sources]\nme = "A guess."\n[drive]\n'
        'elements = { value = 4, basis = "assumed", source = "me" }\n'
    )
    needs = driver("simulate").portable({"make": {"requests": 10}, "drive": "mine.toml", "policy": "lru"})
    assert needs.params["elements"] == 4 and needs.params["policy"] == "lru"
    assert "drive" not in needs.params and needs.inputs == {}


def trial(**changes: Any) -> Trial:
    kept = {"point": {}, "params": {}, "target": {}, "run": {}, "repetition": 0, "seed": 1, "order": 0}
    return Trial(**{"id": "t", "study": "s", "driver": "null_pure", **kept, **changes})


def test_another_program_computes_nothing() -> None:
    mine = program_identity.identity()
    other = dataclasses.replace(mine, compiled="0" * 64)
    with pytest.raises(delivery.UnfitWorker, match="the compiled module of ioassay .*; wanted 000000000000$"):
        delivery.compute(delivery.Order(trial(), other))
    assert mine.difference(mine) == ""
    assert mine.difference(dataclasses.replace(mine, python="3.9")).startswith("Python 3.9; wanted 3.")


def test_a_trial_that_leaves_too_much_fails_and_says_what_computes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def much(name: str, trial: Trial, raw: Path) -> worker.Computed:
        (raw / "large").write_bytes(b"x" * 5000)
        return worker.Computed(worker.Parsed("ok"), 0.0, 1.0)

    monkeypatch.setattr(worker, "compute", much)
    monkeypatch.setattr(delivery, "MOST_RETURNED_BYTES", 4096)
    delivered = delivery.compute(delivery.Order(trial(), program_identity.identity()))
    assert isinstance(delivered, delivery.Delivered)
    assert delivered.computed.parsed.status == FAILED and not delivered.files
    assert delivered.computed.parsed.reason.endswith("returns at most 4 KiB; --executor local computes it here")


@pytest.mark.parametrize("name", ["/etc/passwd", "../record.json", "a/../../b"])
def test_no_file_that_returns_leaves_the_raw_folder(tmp_path: Path, name: str) -> None:
    computed = worker.Computed(worker.Parsed("ok"), 0.0, 1.0)
    with pytest.raises(delivery.UnfitWorker, match="wanted a path in the trial's raw folder"):
        delivery.unpack(delivery.Delivered(computed, {name: b""}), tmp_path)
    delivery.unpack(delivery.Delivered(computed, {"a/b": b"1"}), tmp_path)
    assert (tmp_path / "a" / "b").read_bytes() == b"1"


def test_a_broken_executor_ends_the_run_and_it_goes_on(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as broken:
        broken.submit(os._exit, 1).exception()
        with pytest.raises(RunError, match=r"executor .*; everything recorded before is kept. Go on with: ioassay run"):
            computed_runs.execute(tmp_path / "run", computed_runs.suite(), broken)
    assert computed_runs.execute(tmp_path / "run", computed_runs.suite()).ok == 3


class Stopping(Progress):
    """Ctrl-C when a trial has ended."""

    def ended(self, trial: Trial, status: str) -> None:
        raise KeyboardInterrupt


class Late(Executor):
    """Ends its calls when it is told to, from another thread."""

    workers = 8

    def __init__(self) -> None:
        self.calls: list[tuple[Future[Any], Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.calls.append((future, fn(*args)))
        future.set_running_or_notify_cancel()  # so that it cannot be cancelled
        if len(self.calls) == 2:
            self.end()
        return future

    def end(self) -> None:
        future, result = self.calls.pop(0)
        ending = threading.Thread(target=future.set_result, args=[result])
        ending.start()
        ending.join()


def test_what_ends_after_an_interruption_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "small.trace").write_text(computed_runs.TRACE)
    late, made = Late(), computed_runs.simulations(str(tmp_path / "small.trace"))
    with pytest.raises(KeyboardInterrupt):
        computed_runs.execute(tmp_path / "run", made, late, Stopping())
    assert len(late.calls) == 1
    before = computed_runs.contents(tmp_path / "run")
    late.end()
    assert computed_runs.contents(tmp_path / "run") == before
    assert computed_runs.execute(tmp_path / "run", made).ok == 3
