"""Trials in executors, of the standard library and of Dask: records are those of a local run, whatever these do.

A Dask cluster loses workers, gets strangers and goes away, and no call is lost, repeated or computed wrongly.
"""

from __future__ import annotations

import dataclasses
import json
import math
import operator
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import distributed
import psutil
import pytest

from ioassay.drivers import driver
from ioassay.errors import RunError
from ioassay.packs.hosts import executors as of_dask
from ioassay.packs.hosts.executors import dask_executor
from ioassay.packs.hosts.executors.dask_executor import DaskExecutor
from ioassay.records.record import FAILED
from ioassay.roles import Parsed, Trial
from ioassay.runner import delivery, executors, worker
from ioassay.runner.progress import Progress
from ioassay.runner.worker_pool import NoWorker, WorkerLost
from ioassay.store.run_folder import RunStore

from ... import computed_runs
from ...corpora import THOROUGH
from ...patience import PATIENCE_S, until


def worker_processes() -> list[int]:
    """Processes of the workers that this process has started with a cluster."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it has just ended
            if any("spawn_main" in word for word in child.cmdline()):
                found.append(child.pid)
    return found


@pytest.fixture(scope="module")
def executor() -> Iterator[DaskExecutor]:
    with executors.opened("dask:local,workers=2") as opened:
        assert opened is not None
        yield opened


def containers(scheduler: Any) -> dict[str, int]:
    """How much a scheduler and what belongs to it keep, by name."""
    owners = {"scheduler": scheduler, **scheduler.extensions, **scheduler.plugins, **scheduler._broker._topics}
    return {
        f"{name}.{key}": len(value)
        for name, owner in owners.items()
        for key, value in vars(owner).items()
        if isinstance(value, dict | list | set) or type(value).__name__ == "deque"
    }


def test_nothing_is_kept_of_calls_that_have_ended(executor: DaskExecutor) -> None:
    """Calls one after another, each of which Dask would remember as a span of its own, and as events."""
    kept = []
    for _ in range(2):
        for number in range(120):  # more than the longest log has entries
            assert executor.submit(abs, -number).result(PATIENCE_S) == number
        kept.append(containers(cast(Any, executor._client.cluster).scheduler))
    assert {name: size for name, size in kept[1].items() if size > kept[0].get(name, 0) + 20} == {}


def test_adaptive_repetition_decides_as_in_a_local_run(tmp_path: Path, executor: DaskExecutor) -> None:
    until = {"metric": "value", "ci": "6%", "min": 3, "max": 9}
    made = computed_runs.suite(repetitions=None, until=until, params={"noise": 0.05}, factors={"x": [1, 2, 3]})
    assert computed_runs.require_same_as_here(tmp_path, made, executor).unneeded > 0


def listening(pids: list[int]) -> set[str]:
    """Addresses on which processes listen."""
    connections = [entry for pid in pids for entry in psutil.Process(pid).net_connections(kind="inet")]
    return {entry.laddr.ip for entry in connections if entry.status == psutil.CONN_LISTEN}


def test_a_cluster_of_ours_listens_on_loopback_only_and_encrypts(executor: DaskExecutor) -> None:
    until(lambda: len(worker_processes()) == 2)
    assert listening([os.getpid(), *worker_processes()]) == {"127.0.0.1"}
    assert executor._client.scheduler.address.startswith("tls://")


def test_an_error_of_a_call_is_its_own(executor: DaskExecutor) -> None:
    wrong = executor.submit(operator.truediv, 1, 0)
    with pytest.raises(ZeroDivisionError):
        wrong.result(PATIENCE_S)
    assert executor.submit(operator.truediv, 1, 2).result(PATIENCE_S) == 0.5


def test_a_call_that_ends_two_workers_is_given_up_and_no_other(executor: DaskExecutor) -> None:
    before = set(worker_processes())
    lethal = executor.submit(os._exit, 3)
    others = [executor.submit(operator.add, number, 1) for number in range(40)]
    assert [other.result(PATIENCE_S) for other in others] == [*range(1, 41)]
    with pytest.raises(WorkerLost, match=r"^its worker ended while it was computed, and a second one of dask:local as"):
        lethal.result(PATIENCE_S)
    until(lambda: len(set(worker_processes()) - before) == 2 == executor.workers)


class Lost:
    """Dask's future of a result whose worker ended before it was fetched."""

    status = "lost"

    def __init__(self) -> None:
        self.callbacks: list[Callable[[Any], None]] = []

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self.callbacks.append(callback)

    def cancel(self) -> None:
        pass


def test_a_result_that_is_lost_is_waited_for_again(executor: DaskExecutor) -> None:
    task = Lost()
    call = dask_executor._Call(-1, len, [()], {}, Future(), key="lost", task=cast(Any, task))
    executor._calls["lost"] = call
    executor._fall(call, task.status)
    del executor._calls["lost"]
    assert len(task.callbacks) == 1
    assert executor.submit(operator.add, 1, 1).result(PATIENCE_S) == 2


def test_what_is_cancelled_is_not_computed(tmp_path: Path, executor: DaskExecutor) -> None:
    waits = ["sh", "-c", 'until [ -e "$0" ]; do sleep 0.02; done', str(tmp_path / "go")]
    blocking = [executor.submit(subprocess.check_call, waits) for _ in range(2)]
    queued = [executor.submit((tmp_path / str(number)).touch) for number in range(10)]
    client = cast(Any, executor._client)
    until(lambda: len(client.cluster.scheduler.tasks) == 12)
    assert all(call.cancel() for call in queued)
    until(lambda: len(client.cluster.scheduler.tasks) == 2)
    until(lambda: sum(client.run(lambda dask_worker: len(dask_worker.state.tasks)).values()) == 2)
    (tmp_path / "go").touch()
    for call in blocking:
        call.result(PATIENCE_S)
    assert os.listdir(tmp_path) == ["go"]


@pytest.fixture
def hidden_trace(tmp_path: Path) -> Iterator[delivery.InputFile]:
    """A file whose path means something else in every other process."""
    place = tmp_path / "small.trace"
    place.write_text(computed_runs.TRACE)
    with place.open() as file:
        os.dup2(file.fileno(), 200)
    size, digest = place.stat().st_size, delivery.digest(place)
    yield delivery.InputFile("trace", "small.trace", "/proc/self/fd/200", size, digest)
    os.close(200)


def kept_inputs(dask_worker: distributed.Worker) -> list[Path]:
    folder = Path(dask_worker.local_directory) / delivery.INPUTS
    return sorted(path for path in folder.rglob("*") if path.is_file())


def spoil_inputs(dask_worker: distributed.Worker) -> None:
    for path in kept_inputs(dask_worker):
        path.write_bytes(b"x" * path.stat().st_size)


def test_a_trace_goes_to_each_worker_once_and_is_checked_on_each_use(
    executor: DaskExecutor, hidden_trace: delivery.InputFile
) -> None:
    params = {"trace": "small.trace", "format": "disksim", "elements": 2}
    order = delivery.Order(trial(driver="simulate", params=params), delivery.identity(), [hidden_trace])

    def computed() -> None:
        calls = [executor.submit(delivery.compute, order) for _ in range(12)]
        for result in [call.result(PATIENCE_S) for call in calls]:
            assert isinstance(result, delivery.Delivered)
            assert result.computed.parsed.status == "ok"
            assert b'"trace": "small.trace"' in result.files["summary.json"]

    computed()
    places = executor._client.run(kept_inputs)
    assert [len(paths) for paths in places.values() if paths] == [1] * sum(map(bool, places.values()))
    assert {path.parent.parent.stat().st_mode & 0o777 for paths in places.values() for path in paths} == {0o700}
    executor._client.run(spoil_inputs)
    computed()


def test_an_attempt_that_ends_twice_is_received_once(executor: DaskExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that Dask computes again after its result was lost."""
    usual = executor._await

    def twice(task: distributed.Future, key: str) -> None:
        usual(task, key)
        usual(task, key)

    monkeypatch.setattr(executor, "_await", twice)
    futures = [executor.submit(operator.add, number, 1) for number in range(50)]
    assert [future.result(PATIENCE_S) for future in futures] == list(range(1, 51))
    assert executor.submit(operator.add, 1, 1).result(PATIENCE_S) == 2


class Killing(Progress):
    """Kills a worker at random instants while a run goes on."""

    def __init__(self, kills: int, chance: random.Random) -> None:
        self.left, self.chance, self.killed = kills, chance, list[int]()
        self.trials, self.next = 0, 10.0
        self.timers: list[threading.Timer] = []

    def ended(self, trial: Trial, status: str) -> None:
        self.trials += 1
        if self.left and self.trials >= self.next:
            self.left -= 1
            self.next = math.inf
            self.timers.append(threading.Timer(self.chance.uniform(0, 0.05), self.kill))
            self.timers[-1].start()

    def kill(self) -> None:
        pid = self.chance.choice(worker_processes())
        os.kill(pid, signal.SIGKILL)
        self.killed.append(pid)
        # A trial is not killed a second time: what the worker held has been computed again by then.
        self.next = self.trials + self.chance.randint(30, 40)


def test_workers_killed_at_random_instants_lose_and_repeat_nothing(
    tmp_path: Path, executor: DaskExecutor, seed: int
) -> None:
    kills = 10 if THOROUGH else 3
    repetitions = 16 * kills
    params = {"sleep": "3ms", "noise": 0.1}
    made = computed_runs.suite(repetitions=repetitions, factors={"x": [1, 2, 3, 4]}, params=params)
    killing = Killing(kills, random.Random(seed))
    tally = computed_runs.execute(tmp_path / "dask", made, executor, killing)
    for timer in killing.timers:
        timer.join()
    until(lambda: executor.workers == 2)
    assert (tally.ok, killing.trials, len(killing.killed)) == (4 * repetitions, 4 * repetitions, kills)
    assert computed_runs.execute(tmp_path / "local", made) == tally
    computed_runs.require_same(tmp_path / "local", tmp_path / "dask")


# Clusters of others


STRANGER = """
import dataclasses, sys, types
from ioassay.runner import delivery
mine = delivery.identity()
{change}
from distributed.cli.dask_worker import main
main()
"""
SAME = ""
OTHER_BUILD = "delivery.identity = lambda: dataclasses.replace(mine, compiled='0' * 64)"
OTHER_PYTHON = """
import distributed.versions
distributed.versions.sys = types.SimpleNamespace(**{**vars(sys), "version_info": (3, 9, 1, "final", 0)})
"""
WITHOUT = "sys.modules['ioassay.packs.hosts.executors'] = None"


class Foreign:
    """A scheduler and workers in processes of their own, as their users start them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, list[subprocess.Popen[bytes]]()
        self.file = folder / "scheduler.json"
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(self.file)]
        code = "from distributed.cli.dask_scheduler import main; main()"
        self.scheduler = self.start(code, *options, "--dashboard-address", "127.0.0.1:0")
        until(lambda: self.file.exists() and self.file.read_text().endswith("}"))
        self.address = str(json.loads(self.file.read_text())["address"])
        self.name = self.address.replace("tcp://", "dask://")

    def start(self, code: str, *words: str) -> subprocess.Popen[bytes]:
        argv, silent = [sys.executable, "-c", code, *words], subprocess.DEVNULL
        process = subprocess.Popen(argv, cwd=self.folder, stdout=silent, stderr=silent)
        self.processes.append(process)
        return process

    def worker(self, name: str, change: str = SAME) -> subprocess.Popen[bytes]:
        options = ["--no-nanny", "--nthreads", "1", "--host", "127.0.0.1", "--no-dashboard", "--name", name]
        return self.start(STRANGER.format(change=change), self.address, *options)

    def end(self, *processes: subprocess.Popen[bytes]) -> None:
        for process in processes or self.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def foreign_scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    made = Foreign(tmp_path_factory.mktemp("foreign"))
    yield made
    made.end()


@pytest.fixture
def foreign(foreign_scheduler: Foreign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Foreign]:
    """The one scheduler, without workers; one of its own where it is gone."""
    monkeypatch.setattr(of_dask, "_PATIENCE_S", PATIENCE_S)
    made = Foreign(tmp_path) if foreign_scheduler.scheduler.poll() is not None else foreign_scheduler
    yield made
    made.end(*made.processes[1:] if made is foreign_scheduler else made.processes)
    del made.processes[1:]


def test_workers_of_another_program_are_refused_by_name_whenever_they_come(foreign: Foreign) -> None:
    told: list[str] = []
    refused = r"may compute: worker 'other-build' at tcp://.*: it has the compiled module"
    foreign.worker("other-build", OTHER_BUILD)
    with executors.opened(foreign.name, told.append) as executor:
        assert executor is not None
        with pytest.raises(NoWorker, match=refused):
            executor.submit(operator.add, 1, 2).result(PATIENCE_S)
        foreign.worker("same")
        until(lambda: executor.shares.workers or executor.submit(operator.add, 1, 2).exception() is None)
        foreign.worker("old-python", OTHER_PYTHON)
        foreign.worker("without", WITHOUT)
        until(lambda: len(told) == 3)
        assert [executor.submit(operator.add, 1, number).result(PATIENCE_S) for number in range(30)] == [*range(1, 31)]
        assert executor.shares.workers.keys() == {"same"}
    by_name = {text.split("'")[1]: text for text in told}
    assert "is refused: it has Python 3.9; expected 3." in by_name["old-python"]
    assert "it cannot load ioassay" in by_name["without"]
    assert f"worker 'other-build' at {foreign.address.rpartition(':')[0]}:" in by_name["other-build"]
    assert all(process.poll() is None for process in foreign.processes), "a cluster of others was touched"


def test_a_scheduler_that_goes_away_ends_the_run_and_it_goes_on(foreign: Foreign, tmp_path: Path) -> None:
    made = computed_runs.suite(repetitions=200, params={"sleep": "5ms"})
    foreign.worker("same")
    gone = "the scheduler of dask://127.0.0.1:[0-9]+ went away; everything .* Go on with: i"
    with executors.opened(foreign.name) as executor, pytest.raises(RunError, match=gone):
        computed_runs.execute(tmp_path / "run", made, executor, computed_runs.AtEnd(20, foreign.scheduler.kill))

    def begun() -> dict[str, float]:
        return {record.trial["id"]: record.started_unix_s for record in RunStore.open(tmp_path / "run").records()}

    before = begun()
    assert 20 <= len(before) < 200
    assert computed_runs.execute(tmp_path / "run", made).ok == 200
    assert before.items() <= begun().items()


def test_an_executor_of_a_client_of_dask_is_taken_as_it_is(foreign: Foreign, tmp_path: Path) -> None:
    made = computed_runs.suite(repetitions=20)
    foreign.worker("same")
    with (
        distributed.Client(foreign.address, set_as_default=False) as client,
        executors.adapted(client.get_executor()) as executor,
    ):
        assert computed_runs.require_same_as_here(tmp_path, made, executor).ok == 20
        assert client.submit(operator.add, 1, 2).result(PATIENCE_S) == 3


# Whatever executes


@pytest.fixture(params=["threads", "processes", "dask"])
def any_executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "dask":
        yield request.getfixturevalue("executor")
        return
    with ThreadPoolExecutor(2) if request.param == "threads" else ProcessPoolExecutor(2, get_context("spawn")) as made:
        yield made


@pytest.fixture
def small_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trace in the folder that its name is relative to; other processes are elsewhere."""
    monkeypatch.chdir(tmp_path)
    Path("small.trace").write_text(computed_runs.TRACE)
    return tmp_path


def test_records_are_those_of_a_local_run(tmp_path: Path, any_executor: Executor) -> None:
    computed_runs.require_same_as_here(tmp_path, computed_runs.variety(), any_executor)
    statuses = {record.status for record in RunStore.open(tmp_path / "here").records()}
    assert statuses == {"ok", "failed", "skipped"}
    if isinstance(any_executor, DaskExecutor):
        assert any_executor.workers == 2 and sum(any_executor.shares.workers.values()) >= 20


def test_simulations_of_a_trace_file_are_those_of_a_local_run(small_trace: Path, any_executor: Executor) -> None:
    assert computed_runs.require_same_as_here(small_trace, computed_runs.simulations(), any_executor).ok == 3
    assert any_executor.submit(max, 1, 2).result() == 2, "the run has shut down an executor that it did not make"


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
    small_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "PART_BYTES", 1000)
    elsewhere = Elsewhere(small_trace / "elsewhere")
    assert computed_runs.require_same_as_here(small_trace, computed_runs.simulations(), elsewhere).ok == 3
    sent = [order for order in elsewhere.orders if order.contents]
    assert len(sent) == 1 and len(sent[0].contents) > 10
    assert b"".join(part.content for part in sent[0].contents).decode() == computed_runs.TRACE


def test_an_error_of_a_trace_names_the_path_of_the_study(small_trace: Path) -> None:
    Path("small.trace").write_text(computed_runs.TRACE + "no request\n")
    elsewhere = Elsewhere(small_trace / "elsewhere")
    assert computed_runs.require_same_as_here(small_trace, computed_runs.simulations(), elsewhere).failed == 3
    (reason,) = {record.reason for record in RunStore.open(Path("there")).records()}
    assert reason.startswith("small.trace: ")


def test_a_drive_of_a_file_goes_along(small_trace: Path) -> None:
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
    mine = delivery.identity()
    other = dataclasses.replace(mine, compiled="0" * 64)
    with pytest.raises(delivery.UnfitWorker, match="the compiled module of ioassay .*; expected 000000000000$"):
        delivery.compute(delivery.Order(trial(), other))
    assert mine.difference(mine) == ""
    assert mine.difference(dataclasses.replace(mine, python="3.9")).startswith("Python 3.9; expected 3.")


def test_a_trial_that_leaves_too_much_fails_and_says_what_computes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def much(name: str, trial: Trial, raw: Path) -> worker.Computed:
        (raw / "large").write_bytes(b"x" * 5000)
        return worker.Computed(Parsed("ok"), 0.0, 1.0)

    monkeypatch.setattr(worker, "compute", much)
    monkeypatch.setattr(delivery, "MOST_RETURNED_BYTES", 4096)
    delivered = delivery.compute(delivery.Order(trial(), delivery.identity()))
    assert isinstance(delivered, delivery.Delivered)
    assert delivered.computed.parsed.status == FAILED and not delivered.files
    assert delivered.computed.parsed.reason.endswith("returns at most 4 KiB; --executor local computes it here")


@pytest.mark.parametrize("name", ["/etc/passwd", "../record.json", "a/../../b"])
def test_no_file_that_returns_leaves_the_raw_folder(tmp_path: Path, name: str) -> None:
    computed = worker.Computed(Parsed("ok"), 0.0, 1.0)
    with pytest.raises(delivery.UnfitWorker, match="expected a path in the trial's raw folder"):
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


def test_what_ends_after_an_interruption_writes_nothing(small_trace: Path) -> None:
    tmp_path, late, made = small_trace, Late(), computed_runs.simulations()
    with pytest.raises(KeyboardInterrupt):
        computed_runs.execute(tmp_path / "run", made, late, Stopping())
    assert len(late.calls) == 1
    before = computed_runs.contents(tmp_path / "run")
    late.end()
    assert computed_runs.contents(tmp_path / "run") == before
    assert computed_runs.execute(tmp_path / "run", made).ok == 3
