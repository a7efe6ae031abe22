"""Running trials: what becomes a record, what ends a run, when repetition is enough. Uses the null drivers.

Trials of pure drivers are computed several at once by worker processes, and recorded as if one after the other.
"""

import errno
import os
import shlex
import shutil
import signal
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ioassay.api import run_results
from ioassay.api import study as api_study
from ioassay.errors import RunError, StudyError, ToolError
from ioassay.host.settings import KEEP
from ioassay.records.record import FAILED, OK, SKIPPED, Buckets, Record
from ioassay.roles import WRITE, Command, Confinement, Consent, Driver, Load, Outcome, Parsed, Tool, Touch, Trial
from ioassay.runner import preflight, run
from ioassay.runner.progress import Progress
from ioassay.runner.run import Patience, Tally
from ioassay.store import frames
from ioassay.store.run_folder import RunStore
from ioassay.study import plan
from ioassay.study.model import Study, Suite, Until, make_study
from ioassay.targets.file_targets import NullTarget

from .computed_runs import AtEnd
from .conftest import tmpfs
from .corpora import THOROUGH, cases
from .patience import alive

WORKERS = 3


class Told(Progress):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    def ended(self, trial: Trial, status: str) -> None:
        self.ends.append(status)


def study(**changes: Any) -> Study:
    table = {"name": "s", "title": "S", "driver": "null", "repetitions": 3, **changes}
    return make_study(table, f"{table['name']}.toml")


def suite(*studies: Study, **changes: Any) -> Suite:
    return Suite(name="s", title="S", studies=list(studies) or [study(**{"watch": {"monitors": []}, **changes})])


def execute(root: Path, made: Suite, told: Progress | None = None, workers: int | None = WORKERS) -> Tally:
    benches = preflight.assemble(made, Consent())
    preflight.ready_tools(benches)
    preflight.examine(benches)
    store = RunStore.open(root) if root.exists() else RunStore.create(root, made, {})
    return run.execute(store, benches, told or Progress(), workers)


def test_every_planned_trial_leaves_its_record_and_is_not_run_again(tmp_path: Path) -> None:
    tally = execute(tmp_path / "run", suite(factors={"x": [1, 2, 3]}))
    found = frames.load(RunStore.open(tmp_path / "run")).trials
    assert (tally.planned, tally.ok) == (9, 9)
    assert found["order"].to_list() == list(range(9))
    assert found["value"].null_count() == 0
    told = Told()
    assert execute(tmp_path / "run", suite(factors={"x": [1, 2, 3]}), told) == tally
    assert told.ends == ["kept"] * 9


def test_a_failed_trial_is_a_record_and_the_run_goes_on(tmp_path: Path) -> None:
    tally = execute(tmp_path / "run", suite(repetitions=40, params={"fail_share": 0.5, "skip_share": 0.2}))
    assert tally.planned == tally.ok + tally.failed + tally.skipped == 40
    assert tally.failed > 0 and tally.skipped > 0
    failed = frames.load(RunStore.open(tmp_path / "run")).trials.filter(status=FAILED)
    assert failed["reason"].str.contains("fail_share").all()


def test_two_runs_in_turns_by_block_end_as_if_each_had_run_at_once(tmp_path: Path) -> None:
    made = api_study.Study.of_suite(suite(factors={"x": [1, 2]}, repetitions=3))
    ended = made.run(tmp_path / "run", blocks=1)
    assert (ended.tally.planned, ended.tally.ok) == (6, 2)
    assert set(ended.trials["repetition"]) == {0}
    assert ended.resume(blocks=2).tally.ok == 4
    assert ended.resume(blocks=1).tally.ok == 4
    whole = ended.resume(blocks=9).tally
    assert (whole.planned, whole.ok) == (6, 6)
    at_once = made.run(tmp_path / "whole")
    values = [run_results.open(tmp_path / name).trials.sort("order")["value"].to_list() for name in ("run", "whole")]
    assert values[0] == values[1] and at_once.tally == whole


def test_adaptive_repetition_stops_where_the_mean_is_known(tmp_path: Path) -> None:
    until = {"metric": "value", "ci": "2%", "min": 3, "max": 30}
    factors = {"x": ["steady", "noisy"]}
    params = {"noise": 0.001}
    steady = execute(tmp_path / "steady", suite(repetitions=None, until=until, factors=factors, params=params))
    assert (steady.ok, steady.unneeded) == (6, 54)
    noisy = execute(tmp_path / "noisy", suite(repetitions=None, until=until, params={"noise": 0.5}))
    assert (noisy.ok, noisy.unneeded) == (30, 0)


def test_adaptive_repetition_decides_the_same_when_resumed(tmp_path: Path) -> None:
    made = suite(repetitions=None, until={"metric": "value", "ci": "1%", "max": 30}, factors={"x": [1, 2]})
    first = execute(tmp_path / "run", made)
    told = Told()
    assert execute(tmp_path / "run", made, told) == first
    assert set(told.ends) == {"kept", "unneeded"}


def test_an_adaptive_metric_that_nobody_measures_ends_at_the_cap(tmp_path: Path) -> None:
    made = suite(repetitions=None, until={"metric": "typo", "max": 4})
    benches = preflight.assemble(made, Consent())
    assert [warning.code for warning in preflight.examine(benches)] == ["until-metric-unknown"]
    assert execute(tmp_path / "run", made).ok == 4


class Stub(Driver):
    """A driver that runs a shell line, to break what a real tool rarely breaks."""

    name = "stub"
    measures = True

    def __init__(self, line: str, timeout_s: float = 600.0) -> None:
        self.line, self.timeout_s = line, timeout_s
        self.outcomes: list[Outcome | None] = []

    def tool(self) -> Tool | None:
        return None

    def access(self, params: Any) -> str:
        return "nothing"

    def touches(self, params: Any) -> list[Any]:
        return []

    def command(self, trial: Trial, load: Load, raw: Path) -> Command | None:
        return Command(["sh", "-c", self.line], self.timeout_s, files={"job": "text"})

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        self.outcomes.append(outcome)
        assert outcome is not None
        return Parsed(FAILED if outcome.exit_code else "ok", reason=(raw / "stderr").read_text())


def run_by(stub: Stub, root: Path, **changes: Any) -> tuple[Tally, RunStore]:
    made = suite(**changes)
    store = RunStore.create(root, made, {})
    bench = preflight.PreparedStudy(made.studies[0], stub, Consent())  # type: ignore[arg-type]
    return run.execute(store, [bench], Progress()), store


def run_stub(tmp_path: Path, stub: Stub, **changes: Any) -> Record:
    return next(run_by(stub, tmp_path / "run", repetitions=1, **changes)[1].records())


def test_a_record_keeps_command_output_and_exit_code(tmp_path: Path) -> None:
    record = run_stub(tmp_path, Stub("echo out; echo err >&2; exit 7"))
    assert (record.status, record.reason, record.exit_code) == (FAILED, "err\n", 7)
    assert list(record.command)[:2] == ["sh", "-c"]
    assert list(record.raw) == ["confinement.json", "job", "stderr", "stdout"]


def test_what_no_repetition_can_do_is_tried_once_at_each_point(tmp_path: Path) -> None:
    class Unable(Stub):
        def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
            self.outcomes.append(outcome)
            return Parsed(SKIPPED, "no such path here", lasting=trial.point["x"] == 1)

    stub = Unable("exit 0")
    tally, store = run_by(stub, tmp_path / "run", repetitions=4, factors={"x": [1, 2]})
    assert (tally.skipped, len(stub.outcomes)) == (8, 5)
    assert {record.reason for record in store.records()} == {"no such path here"}


def test_a_hanging_tool_is_ended_at_the_studys_timeout(tmp_path: Path) -> None:
    stub = Stub("exec sleep 300")
    run_stub(tmp_path, stub, run={"timeout": "300ms"})
    (outcome,) = stub.outcomes
    assert outcome is not None and outcome.timed_out and outcome.duration_s < 250


def test_what_a_tool_leaves_behind_is_said(tmp_path: Path) -> None:
    record = run_stub(tmp_path, Stub("sleep 300 & exit 0"))
    assert {"processes-left-behind", "witness-limited"} <= {warning.code for warning in record.warnings}


def test_monitors_watch_from_before_the_load_to_after_it(tmp_path: Path) -> None:
    run_stub(tmp_path, Stub("sleep 0.3"), watch={"monitors": ["cpu", "pressure"], "interval": "50ms"})
    samples = frames.load(RunStore.open(tmp_path / "run")).samples
    times_s = samples.filter(monitor="cpu")["time_s"].unique().sort()
    assert times_s[0] < 0.3 <= times_s[-1]  # how many are between them depends on what else runs
    record = next(RunStore.open(tmp_path / "run").records())
    assert record.monitor_cost["interval_s"] == 0.05
    assert record.monitor_cost["cpu_s"] > 0


def test_a_tool_that_cannot_start_is_a_failed_trial(tmp_path: Path) -> None:
    class Missing(Stub):
        def command(self, trial: Trial, load: Load, raw: Path) -> Command:
            return Command(["no-such-tool"], 600)

    record = run_stub(tmp_path, Missing(""))
    assert record.status == FAILED and "no-such-tool" in record.reason


@cases("studies", "preflight")
def test_what_cannot_run_or_is_doubtful_is_named_before_anything_runs(case: dict[str, Any]) -> None:
    made = suite(study(**case["study"]))
    if "refused" in case:
        with pytest.raises(StudyError, match=case["refused"]):
            preflight.examine(preflight.assemble(made, Consent()))
    else:
        warnings = preflight.examine(preflight.assemble(made, Consent()))
        assert [warning.code for warning in warnings] == case["warned"]
        assert "text" not in case or case["text"] in warnings[0].text


def test_a_missing_tool_is_named_with_its_package() -> None:
    with pytest.raises(ToolError, match="no-such-tool: not found.*apt-get install the-package"):
        preflight.tool_version(Tool("no-such-tool", ["no-such-tool", "--version"], (1,), "the-package"))
    with pytest.raises(ToolError, match="not found; install it$"):
        preflight.tool_version(Tool("no-such-tool", ["no-such-tool", "--version"], (1,), ""))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 MiB, of which 52 MiB are free: what is left alone is 39 MiB."""
    with tmpfs(tmp_path / "disk", 128 << 10) as folder:
        (folder / "others").write_bytes(bytes(76 << 20))
        yield folder


class Filling(Stub):
    """A tool that writes 5 MiB a second, forever."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"while head -c 1M /dev/zero >> {shlex.quote(str(path))}; do sleep 0.2; done")

    def tool(self) -> Tool:
        return Tool("sh", ["sh", "-c", "true"], (0,), "dash")

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        self.outcomes.append(outcome)
        return Parsed("ok")


@pytest.mark.root
@pytest.mark.parametrize("where", ["run's folder", "target"])
def test_a_tool_that_fills_a_file_system_is_ended_before_it_is_full(
    small_disk: Path, tmp_path: Path, where: str
) -> None:
    class Named(Filling):
        def touches(self, params: Any) -> list[Any]:
            return [Touch(small_disk / "growing", WRITE)] if where == "target" else []

        def confinement(self, params: Any) -> Confinement:
            return Confinement(layouts=[small_disk / "growing"], host=[small_disk])

    stub = Named(small_disk / "growing")
    root = (small_disk if where == "run's folder" else tmp_path) / "run"
    with pytest.raises(RunError, match=r"no trial is begun: .*everything recorded before is kept\. Go on with"):
        run_by(stub, root, repetitions=2)
    store = RunStore.open(root)
    (record,) = store.records()
    assert record.status == FAILED
    assert record.reason.startswith("ended by the lab: the file system of ")
    assert "are reserved: free some space" in record.reason
    space = os.statvfs(small_disk)
    assert space.f_bavail * space.f_frsize > 4 << 20
    (small_disk / "growing").unlink()
    assert store.has(record.trial["id"])


def test_repetition_of_a_percentile_waits_for_the_interval_of_all_requests(tmp_path: Path) -> None:
    """Each repetition's own percentile may agree by luck while one of them has nearly all slow requests."""
    until = Until(metric="read.lat.p99", ci=0.05, min=3, max=30)
    steady, mixed = Patience(until), Patience(until)
    trials = list(plan.trials(suite(repetitions=4)))
    for trial, slow in zip(trials[:3], (5, 200, 5), strict=True):
        for patience, buckets in ((steady, 10), (mixed, slow)):
            folder = tmp_path / f"{trial.id}-{buckets}"
            folder.mkdir()
            latencies = Buckets("read", "lat", (1000, 9000), (10_000, buckets))
            frames.write(folder, {"study": trial.study, "trial": trial.id}, [latencies], [], [])
            record = Record(trial=asdict(trial), status=OK, metrics={"read.lat.p99": 1000.0})
            patience.note(record, folder)
    assert steady.enough(trials[3])
    assert not mixed.enough(trials[3])


def rounds_needed(until: Until, rounds: list[dict[str, float | None]]) -> int:
    """After how many rounds of the points `a` and `b` no more is run; None is a trial that failed."""
    patience, made = Patience(until), suite(repetitions=30, factors={"x": ["a", "b"]}, order="listed")
    trials = list(plan.trials(made))
    for number, values in enumerate(rounds):
        own = trials[2 * number : 2 * number + 2]
        if all(map(patience.enough, own)):
            return number
        for trial in own:
            value = values[str(trial.point["x"])]
            metrics = {} if value is None else {"write.iops": value, "write.bytes": 100.0}
            patience.note(Record(trial=asdict(trial), status=FAILED if value is None else OK, metrics=metrics), Path())
    return len(rounds)


def test_rounds_end_when_the_tracked_points_are_steady_and_stay_ended() -> None:
    until = Until(metric="write.iops", steady=[{"x": "b"}], min=3, max=30)
    cliff = [{"a": 1e3 * number, "b": level} for number, level in enumerate([9e4, 4e4, *[1e4] * 12])]
    assert rounds_needed(until, cliff) == 7  # five rounds after the cliff, whatever the other point does
    assert rounds_needed(Until(metric="write.iops", steady=True, max=30), cliff) == len(cliff)
    broken = [*cliff[:5], {"a": 0.0, "b": None}, *cliff[5:]]
    assert rounds_needed(until, broken) == 11  # five in a row
    patience = Patience(until)
    trials = list(plan.trials(suite(repetitions=9, factors={"x": ["b"]})))
    for trial in trials[:5]:
        patience.note(Record(trial=asdict(trial), status=OK, metrics={"write.iops": 1e4}), Path())
    assert all(map(patience.enough, trials[5:])) and not patience.enough(trials[4])


def test_rounds_end_when_enough_is_written() -> None:
    until = Until(metric="write.iops", written="700", min=2, max=30)
    assert rounds_needed(until, [{"a": 1.0, "b": 1e9 * number} for number in range(9)]) == 4
    assert rounds_needed(until, [{"a": 1.0, "b": None}] * 9) == 7


def test_targets_are_renewed_before_the_first_trial_of_a_study_and_not_where_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed: list[str] = []
    monkeypatch.setattr(NullTarget, "renew", lambda target: renewed.append("null"), raising=False)
    made = suite(study(name="a"), study(name="b"))
    execute(tmp_path / "run", made)
    assert renewed == ["null", "null"]
    store = RunStore.open(tmp_path / "run")
    shutil.rmtree(store.folder(list(store.trials())[-1].id))
    assert execute(tmp_path / "run", made).ok == 6 and len(renewed) == 2


def test_hosts_are_not_purged() -> None:
    target = {"kind": "file", "path": "x", "size": "1MiB", "purge": "discard"}
    with pytest.raises(StudyError, match="target.purge: is for a run of this host"):
        preflight.assemble(suite(target=target, run={"hosts": ["one"]}), Consent())


def pure(*studies: Study, **changes: Any) -> Suite:
    return suite(*studies or [study(driver="null_pure", **changes)])


def records(root: Path) -> list[Record]:
    return list(RunStore.open(root).records())


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
        self.processes |= {*alive(self.root)}
        self.unrecorded.append(sum(not (path / "record.json").exists() for path in (self.root / "trials").iterdir()))


def shown(root: Path) -> list[tuple[Any, ...]]:
    """What does not depend on when and where a trial ran."""
    return [(record.trial["id"], record.status, record.reason, record.metrics) for record in records(root)]


def test_workers_compute_what_one_process_does(tmp_path: Path) -> None:
    made = pure(factors={"x": [1, 2, 3, 4]}, params={"fail_share": 0.2, "samples": 3, "latencies": {"read.lat": 1e5}})
    assert execute(tmp_path / "one", made, workers=1) == execute(tmp_path / "many", made)
    assert shown(tmp_path / "one") == shown(tmp_path / "many")
    files = [sorted(path.name for path in (tmp_path / run).rglob("*.parquet")) for run in ("one", "many")]
    assert files[0] == files[1] != []


def test_a_few_trials_run_at_once_in_processes_of_their_own(tmp_path: Path) -> None:
    told = Watching(tmp_path / "run")
    execute(tmp_path / "run", pure(repetitions=12, params={"sleep": "50ms"}), told)
    assert max(map(len, told.at_once)) == WORKERS
    assert max(told.unrecorded) <= 2 * WORKERS
    assert told.begun == [*range(12)]
    assert len(told.processes) == WORKERS
    assert os.getpid() not in told.processes
    assert alive(tmp_path / "run") == []


def test_one_worker_is_this_process_one_trial_after_the_other(tmp_path: Path) -> None:
    told = Watching(tmp_path / "run")
    execute(tmp_path / "run", pure(repetitions=5), told, workers=1)
    assert told.at_once == [["null_pure"]] * 5
    assert max(told.unrecorded) == 0
    assert told.processes == set()


def test_a_killed_worker_fails_its_trial_and_no_other(tmp_path: Path) -> None:
    sleeps = [*(f"{ms}ms" for ms in range(11)), "1h"]
    root, made = tmp_path / "run", pure(repetitions=1, seed=16, factors={"sleep": sleeps})  # the hour comes last
    tally = execute(root, made, AtEnd(11, lambda: [os.kill(pid, signal.SIGKILL) for pid in alive(root)]))
    assert (tally.ok, tally.failed) == (11, 1)
    (failed,) = (record for record in records(root) if record.status == FAILED)
    assert failed.reason.startswith("its worker process was ended by SIGKILL") and failed.duration_s >= 0
    assert execute(root, made) == tally


def test_a_run_without_workers_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("sys.executable", str(tmp_path / "nowhere"))
        with pytest.raises(RunError, match="a worker process cannot start: .*nowhere.* Go on with: ioassay run --res"):
            execute(tmp_path / "run", pure())
    assert execute(tmp_path / "run", pure()).ok == 3


def test_a_full_disk_ends_the_run_and_not_its_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ioassay.drivers.null.NullPure.parse", full)
    with pytest.raises(RunError, match="cannot be written: No space left on device.* Fix that, then go on"):
        execute(tmp_path / "run", pure(), workers=1)
    assert records(tmp_path / "run") == []


def test_an_interrupted_run_leaves_no_worker_and_goes_on(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    def begun() -> dict[str, float]:
        return {record.trial["id"]: record.started_unix_s for record in records(root)}

    root, made = tmp_path / "run", pure(repetitions=12, params={"sleep": "100ms"})
    with pytest.raises(KeyboardInterrupt):
        execute(root, made, AtEnd(3, interrupt))
    assert alive(root) == []
    before = begun()
    assert 3 <= len(before) < 12
    assert execute(root, made).ok == 12
    assert before.items() <= begun().items()


@pytest.mark.parametrize("first", range(3 if THOROUGH else 1))
def test_adaptive_repetition_decides_alike_for_any_number_of_workers(tmp_path: Path, first: int) -> None:
    until = {"metric": "value", "ci": "4%", "min": 3, "max": 12}
    params = {"noise": 0.05, "fail_share": 0.1}
    made = pure(repetitions=None, until=until, params=params, seed=first, factors={"x": [1, 2, 3]})
    tallies = [execute(tmp_path / f"{number}", made, workers=number) for number in (1, 2, 5)]
    assert tallies[0] == tallies[1] == tallies[2]
    assert tallies[0].unneeded > 0
    assert shown(tmp_path / "1") == shown(tmp_path / "2") == shown(tmp_path / "5")


def test_what_measures_runs_alone(tmp_path: Path) -> None:
    kinds = [("a", "null_pure"), ("b", "null"), ("c", "null_pure")]
    watch = {"monitors": []}
    made = pure(*(study(name=name, driver=driver, repetitions=6, watch=watch) for name, driver in kinds))
    seen: list[list[int]] = []

    class Alone(Watching):
        def started(self, trial: Trial) -> None:
            super().started(trial)
            if trial.driver == "null":
                seen.append(alive(self.root))

    told = Alone(tmp_path / "run")
    assert execute(tmp_path / "run", made, told).ok == 18
    assert [drivers for drivers in told.at_once if "null" in drivers] == [["null"]] * 6
    assert seen == [[]] * 6
    assert ["null_pure"] * WORKERS in told.at_once


def test_trials_too_large_for_the_memory_run_with_fewer_workers(tmp_path: Path) -> None:
    told = Watching(tmp_path / "run")
    execute(tmp_path / "run", pure(params={"memory_bytes": 2**60}), told, workers=4)
    assert told.at_once == [["null_pure"]] * 3
    warned = [[warning.code for warning in record.warnings] for record in records(tmp_path / "run")]
    assert warned == [["fewer-workers"]] * 3


def test_a_pure_driver_leaves_the_host_as_it_is_and_its_forecast_knows_how_many_run_at_once() -> None:
    (bench,) = preflight.assemble(pure(repetitions=8, params={"sleep": "1s"}, run={"cooldown": "9s"}), Consent())
    assert [preflight.forecast(bench, workers).seconds for workers in (1, 4, 100)] == [8, 2, 1]
    assert run._governor(preflight.assemble(pure(), Consent())) == KEEP
