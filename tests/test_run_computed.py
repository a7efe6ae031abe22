"""Trials of pure drivers: computed several at once by worker processes, recorded as if one after the other."""

import errno
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ioassay.api.progress import Progress
from ioassay.errors import RunError, StudyError
from ioassay.host.settings import KEEP
from ioassay.process import process_table, supervisor
from ioassay.records.record import FAILED, Record
from ioassay.roles import Consent, Trial
from ioassay.runner import preflight, run
from ioassay.runner.run import Tally
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Study, Suite, make_study

WORKERS = 3


def study(**changes: Any) -> Study:
    table = {"name": "s", "title": "S", "driver": "null_pure", "repetitions": 3, **changes}
    return make_study(table, f"{table['name']}.toml")


def suite(*studies: Study, **changes: Any) -> Suite:
    return Suite(name="s", title="S", studies=list(studies) or [study(**changes)])


def execute(root: Path, made: Suite, told: Progress | None = None, workers: int | None = WORKERS) -> Tally:
    benches = preflight.assemble(made, Consent())
    preflight.examine(benches)
    store = RunStore.open(root) if root.exists() else RunStore.create(root, made, {})
    return run.execute(store, benches, told or Progress(), workers)


def records(root: Path) -> list[Record]:
    return list(RunStore.open(root).records())


def workers_of(root: Path) -> set[int]:
    wanted = os.fsencode(f"{supervisor.TRIAL_VARIABLE}={root}")
    return {pid for pid in process_table.everyone() if wanted in process_table.environment(pid)}


class Watching(Progress):
    """Remembers what ran at once, and which processes there were."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.running: list[Trial] = []
        self.begun: list[int] = []
        self.at_once: list[list[str]] = []
        self.unrecorded: list[int] = []
        self.processes: set[int] = set()

    def started(self, trial: Trial) -> None:
        self.running.append(trial)
        self.begun.append(trial.order)
        self.at_once.append([running.driver for running in self.running])

    def ended(self, trial: Trial, status: str) -> None:
        self.running = [running for running in self.running if running.id != trial.id]
        self.processes |= workers_of(self.root)
        self.unrecorded.append(sum(not (path / "record.json").exists() for path in (self.root / "trials").iterdir()))


def shown(root: Path) -> list[tuple[Any, ...]]:
    """What does not depend on when and where a trial ran."""
    return [(record.trial["id"], record.status, record.reason, record.metrics) for record in records(root)]


def test_workers_compute_what_one_process_does(tmp_path: Path) -> None:
    made = suite(factors={"x": [1, 2, 3, 4]}, params={"fail_share": 0.2, "samples": 3, "latencies": {"read.lat": 1e5}})
    assert execute(tmp_path / "one", made, workers=1) == execute(tmp_path / "many", made)
    assert shown(tmp_path / "one") == shown(tmp_path / "many")
    files = [sorted(path.name for path in (tmp_path / run).rglob("*.parquet")) for run in ("one", "many")]
    assert files[0] == files[1] != []


def test_trials_run_in_processes_of_their_own_several_at_once(tmp_path: Path) -> None:
    told = Watching(tmp_path / "run")
    execute(tmp_path / "run", suite(repetitions=12, params={"sleep": "50ms"}), told)
    assert max(map(len, told.at_once)) == WORKERS
    assert told.begun == [*range(12)]
    assert len(told.processes) == WORKERS
    assert os.getpid() not in told.processes
    assert workers_of(tmp_path / "run") == set()


def test_few_trials_are_in_flight_however_many_there_are(tmp_path: Path) -> None:
    told = Watching(tmp_path / "run")
    assert execute(tmp_path / "run", suite(repetitions=60), told).ok == 60
    assert max(told.unrecorded) <= 2 * WORKERS


def test_one_worker_is_this_process_one_trial_after_the_other(tmp_path: Path) -> None:
    told = Watching(tmp_path / "run")
    execute(tmp_path / "run", suite(repetitions=5), told, workers=1)
    assert told.at_once == [["null_pure"]] * 5
    assert max(told.unrecorded) == 0
    assert told.processes == set()


class Killing(Progress):
    """Kills one worker when the first trial has ended."""

    def __init__(self, root: Path) -> None:
        self.root, self.killed = root, 0

    def ended(self, trial: Trial, status: str) -> None:
        if not self.killed:
            self.killed = min(workers_of(self.root))
            os.kill(self.killed, signal.SIGKILL)


def test_a_killed_worker_fails_its_trial_and_no_other(tmp_path: Path) -> None:
    tally = execute(tmp_path / "run", suite(repetitions=12, params={"sleep": "200ms"}), Killing(tmp_path / "run"))
    assert (tally.ok, tally.failed) == (11, 1)
    failed = next(record for record in records(tmp_path / "run") if record.status == FAILED)
    assert failed.reason.startswith("its worker process was ended by SIGKILL")
    assert failed.duration_s >= 0
    assert execute(tmp_path / "run", suite(repetitions=12, params={"sleep": "200ms"})) == tally


def test_a_run_without_workers_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("sys.executable", str(tmp_path / "nowhere"))
        with pytest.raises(RunError, match="a worker process cannot start: .*nowhere.* Go on with: ioassay run --res"):
            execute(tmp_path / "run", suite())
    assert execute(tmp_path / "run", suite()).ok == 3


def test_a_full_disk_ends_the_run_and_not_its_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ioassay.drivers.null.NullPure.parse", full)
    with pytest.raises(RunError, match="cannot be written: No space left on device.* Fix that, then go on"):
        execute(tmp_path / "run", suite(), workers=1)
    assert records(tmp_path / "run") == []


class Stopping(Progress):
    """Ctrl-C when a few trials have ended."""

    def __init__(self, ends: int) -> None:
        self.ends = ends

    def ended(self, trial: Trial, status: str) -> None:
        self.ends -= 1
        if not self.ends:
            raise KeyboardInterrupt


def test_an_interrupted_run_leaves_no_worker_and_goes_on(tmp_path: Path) -> None:
    made = suite(repetitions=12, params={"sleep": "100ms"})
    with pytest.raises(KeyboardInterrupt):
        execute(tmp_path / "run", made, Stopping(3))
    assert workers_of(tmp_path / "run") == set()
    before = {record.trial["id"]: record.started_unix_s for record in records(tmp_path / "run")}
    assert 3 <= len(before) < 12
    assert execute(tmp_path / "run", made).ok == 12
    after = {record.trial["id"]: record.started_unix_s for record in records(tmp_path / "run")}
    assert before.items() <= after.items()


@pytest.mark.parametrize("first", range(3))
def test_adaptive_repetition_decides_alike_for_any_number_of_workers(tmp_path: Path, first: int) -> None:
    until = {"metric": "value", "ci": "4%", "min": 3, "max": 12}
    params = {"noise": 0.05, "fail_share": 0.1}
    made = suite(repetitions=None, until=until, params=params, seed=first, factors={"x": [1, 2, 3]})
    tallies = [execute(tmp_path / f"{number}", made, workers=number) for number in (1, 2, 5)]
    assert tallies[0] == tallies[1] == tallies[2]
    assert tallies[0].unneeded > 0
    assert shown(tmp_path / "1") == shown(tmp_path / "2") == shown(tmp_path / "5")


def test_what_measures_runs_alone(tmp_path: Path) -> None:
    kinds = [("a", "null_pure"), ("b", "null"), ("c", "null_pure")]
    watch = {"monitors": []}
    made = suite(*(study(name=name, driver=driver, repetitions=6, watch=watch) for name, driver in kinds))
    told = Watching(tmp_path / "run")
    seen: list[set[int]] = []

    class Both(Watching):
        def started(self, trial: Trial) -> None:
            told.started(trial)
            if trial.driver == "null":
                seen.append(workers_of(tmp_path / "run"))

        def ended(self, trial: Trial, status: str) -> None:
            told.ended(trial, status)

    assert execute(tmp_path / "run", made, Both(tmp_path / "run")).ok == 18
    assert [drivers for drivers in told.at_once if "null" in drivers] == [["null"]] * 6
    assert seen == [set()] * 6
    assert ["null_pure"] * WORKERS in told.at_once


def codes(found: Sequence[Any]) -> list[str]:
    return [warning.code for warning in found]


def test_trials_too_large_for_the_memory_run_with_fewer_workers(tmp_path: Path) -> None:
    told = Watching(tmp_path / "run")
    execute(tmp_path / "run", suite(params={"memory_bytes": 2**60}), told, workers=4)
    assert told.at_once == [["null_pure"]] * 3
    assert [codes(record.warnings) for record in records(tmp_path / "run")] == [["fewer-workers"]] * 3


def test_a_pure_driver_leaves_the_host_as_it_is() -> None:
    assert run._governor(preflight.assemble(suite(), Consent())) == KEEP


def test_a_pure_driver_takes_no_target() -> None:
    benches = preflight.assemble(suite(target={"kind": "file", "path": "x", "size": "1MiB"}), Consent())
    with pytest.raises(StudyError, match=r"target\.kind: is 'file'; wanted 'null': the driver 'null_pure' computes"):
        preflight.examine(benches)


def test_what_serves_measuring_is_said_to_be_unused() -> None:
    assert preflight.examine(preflight.assemble(suite(), Consent())) == []
    assert preflight.examine(preflight.assemble(suite(watch={"monitors": []}), Consent())) == []
    odd = suite(watch={"monitors": ["net"]}, run={"cooldown": "1s", "governor": "keep"})
    (warning,) = preflight.examine(preflight.assemble(odd, Consent()))
    assert warning.code == "not-measured"
    assert "s: run.cooldown, watch.monitors: not used" in warning.text


def test_the_forecast_knows_how_many_run_at_once() -> None:
    (bench,) = preflight.assemble(suite(repetitions=8, params={"sleep": "1s"}, run={"cooldown": "9s"}), Consent())
    assert preflight.forecast(bench, 1).seconds == 8
    assert preflight.forecast(bench, 4).seconds == 2
    assert preflight.forecast(bench, 100).seconds == 1
