"""A Dask cluster that loses workers, gets strangers, and goes away: no call is lost, repeated or computed wrongly."""

import json
import math
import operator
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from ..corpora import THOROUGH
from ..patience import PATIENCE_S, until

pytest.importorskip("distributed")

import distributed

from ioassay import cluster
from ioassay.api.progress import Progress
from ioassay.cluster import dask_executor
from ioassay.cluster.dask_executor import DaskExecutor
from ioassay.errors import RunError
from ioassay.roles import Trial
from ioassay.runner import delivery, input_files, program_identity
from ioassay.runner.worker_pool import NoWorker, WorkerLost
from ioassay.store.run_folder import RunStore

from . import computed_runs


def worker_processes() -> list[int]:
    """Processes of the workers that this process has started with a cluster."""
    children = psutil.Process().children()
    return [child.pid for child in children if any("spawn_main" in word for word in child.cmdline())]


@pytest.fixture(scope="module")
def executor() -> Iterator[DaskExecutor]:
    with cluster.opened("dask:local,workers=2") as opened:
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


def test_records_are_those_of_a_local_run(tmp_path: Path, executor: DaskExecutor) -> None:
    computed_runs.require_same_as_here(tmp_path, computed_runs.variety(), executor)
    assert executor.workers == 2
    assert sum(executor.shares.workers.values()) >= 20


def test_simulations_of_a_trace_file_are_those_of_a_local_run(
    tmp_path: Path, executor: DaskExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the workers are elsewhere, and read it at its absolute path
    Path("small.trace").write_text(computed_runs.TRACE)
    assert computed_runs.require_same_as_here(tmp_path, computed_runs.simulations(), executor).ok == 3


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
    until(lambda: len(set(worker_processes()) - before) == 2)
    assert executor.submit(operator.add, 1, 1).result(PATIENCE_S) == 2


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
    blocking = [executor.submit(time.sleep, 0.5) for _ in range(2)]
    queued = [executor.submit((tmp_path / str(number)).touch) for number in range(10)]
    assert all(call.cancel() for call in queued)
    for call in blocking:
        call.result(PATIENCE_S)
    assert executor.submit(operator.add, 1, 1).result(PATIENCE_S) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def hidden_trace(tmp_path: Path) -> Iterator[input_files.InputFile]:
    """A file whose path means something else in every other process."""
    place = tmp_path / "small.trace"
    place.write_text(computed_runs.TRACE)
    with place.open() as file:
        os.dup2(file.fileno(), 200)
    yield input_files.InputFile(
        "trace", "small.trace", "/proc/self/fd/200", place.stat().st_size, input_files.digest(place)
    )
    os.close(200)


def kept_inputs(dask_worker: distributed.Worker) -> list[Path]:
    folder = Path(dask_worker.local_directory) / delivery.INPUTS
    return sorted(path for path in folder.rglob("*") if path.is_file())


def spoil_inputs(dask_worker: distributed.Worker) -> None:
    for path in kept_inputs(dask_worker):
        path.write_bytes(b"x" * path.stat().st_size)


def test_a_trace_goes_to_each_worker_once_and_is_checked_on_each_use(
    executor: DaskExecutor, hidden_trace: input_files.InputFile
) -> None:
    params = {"trace": "small.trace", "format": "disksim", "elements": 2}
    kept = {"point": {}, "target": {}, "run": {}, "repetition": 0, "seed": 1, "order": 0}
    trial = Trial(id="t", study="s", driver="simulate", params=params, **kept)
    order = delivery.Order(trial, program_identity.identity(), [hidden_trace])

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
    assert (tally.ok, killing.trials, len(killing.killed)) == (4 * repetitions, 4 * repetitions, kills)
    assert computed_runs.execute(tmp_path / "local", made) == tally
    computed_runs.require_same(tmp_path / "local", tmp_path / "dask")


# Clusters of others


STRANGER = """
import dataclasses, sys, types
from ioassay.runner import program_identity
mine = program_identity.identity()
{change}
from distributed.cli.dask_worker import main
main()
"""
SAME = ""
OTHER_BUILD = "program_identity.identity = lambda: dataclasses.replace(mine, compiled='0' * 64)"
OTHER_PYTHON = """
import distributed.versions
distributed.versions.sys = types.SimpleNamespace(**{**vars(sys), "version_info": (3, 9, 1, "final", 0)})
"""
WITHOUT = "sys.modules['ioassay.cluster'] = None"


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

    def start(self, code: str, *words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *words],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
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
def foreign(foreign_scheduler: Foreign, tmp_path: Path) -> Iterator[Foreign]:
    """The one scheduler, without workers; one of its own where it is gone."""
    made = Foreign(tmp_path) if foreign_scheduler.scheduler.poll() is not None else foreign_scheduler
    yield made
    made.end(*made.processes[1:] if made is foreign_scheduler else made.processes)
    del made.processes[1:]


def test_workers_of_another_program_are_refused_by_name_whenever_they_come(foreign: Foreign) -> None:
    told: list[str] = []
    foreign.worker("other-build", OTHER_BUILD)
    name = foreign.address.replace("tcp://", "dask://")
    with cluster.opened(name, told.append) as executor:
        assert executor is not None
        with pytest.raises(
            NoWorker, match=r"may compute: worker 'other-build' at tcp://.*: it has the compiled module"
        ):
            executor.submit(operator.add, 1, 2).result(PATIENCE_S)
        foreign.worker("same")
        until(lambda: executor.shares.workers or executor.submit(operator.add, 1, 2).exception() is None)
        foreign.worker("old-python", OTHER_PYTHON)
        foreign.worker("without", WITHOUT)
        until(lambda: len(told) == 3)
        assert [executor.submit(operator.add, 1, number).result(PATIENCE_S) for number in range(30)] == [*range(1, 31)]
        assert executor.shares.workers.keys() == {"same"}
    by_name = {text.split("'")[1]: text for text in told}
    assert "is refused: it has Python 3.9; wanted 3." in by_name["old-python"]
    assert "it cannot load ioassay" in by_name["without"]
    assert f"worker 'other-build' at {foreign.address.rpartition(':')[0]}:" in by_name["other-build"]
    assert all(process.poll() is None for process in foreign.processes), "a cluster of others was touched"


class At(Progress):
    """Does something once when a number of trials have ended."""

    def __init__(self, number: int, deed: Callable[[], Any]) -> None:
        self.number, self.deed = number, deed

    def ended(self, trial: Trial, status: str) -> None:
        self.number -= 1
        if not self.number:
            self.deed()


def test_a_scheduler_that_goes_away_ends_the_run_and_it_goes_on(foreign: Foreign, tmp_path: Path) -> None:
    made = computed_runs.suite(repetitions=200, params={"sleep": "5ms"})
    foreign.worker("same")
    with (
        cluster.opened(foreign.address.replace("tcp://", "dask://")) as executor,
        pytest.raises(
            RunError, match="the scheduler of dask://127.0.0.1:[0-9]+ went away; everything .* Go on with: i"
        ),
    ):
        computed_runs.execute(tmp_path / "run", made, executor, At(20, foreign.scheduler.kill))
    before = {record.trial["id"]: record.started_unix_s for record in RunStore.open(tmp_path / "run").records()}
    assert 20 <= len(before) < 200
    assert computed_runs.execute(tmp_path / "run", made).ok == 200
    after = {record.trial["id"]: record.started_unix_s for record in RunStore.open(tmp_path / "run").records()}
    assert before.items() <= after.items()


def test_an_executor_of_a_client_of_dask_is_taken_as_it_is(foreign: Foreign, tmp_path: Path) -> None:
    made = computed_runs.suite(repetitions=20)
    foreign.worker("same")
    with (
        distributed.Client(foreign.address, set_as_default=False) as client,
        cluster.adapted(client.get_executor()) as executor,
    ):
        assert computed_runs.require_same_as_here(tmp_path, made, executor).ok == 20
        assert client.submit(operator.add, 1, 2).result(PATIENCE_S) == 3
