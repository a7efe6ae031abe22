"""Running trials: what becomes a record, what ends a run, when repetition is enough. Uses the null driver."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ioassay.api import run_results
from ioassay.api.progress import Progress
from ioassay.api.study import Study
from ioassay.errors import RunError, StudyError, ToolError
from ioassay.records.record import FAILED, OK, SKIPPED, Buckets, Record
from ioassay.roles import (
    WRITE,
    Command,
    Confinement,
    Consent,
    Driver,
    Load,
    Outcome,
    Parsed,
    Tool,
    Touch,
    Trial,
)
from ioassay.runner import preflight, run
from ioassay.runner.run import Tally
from ioassay.store import frames, parquet
from ioassay.store.run_folder import RunStore
from ioassay.study import plan
from ioassay.study.model import Suite, Until, make_study


class Told(Progress):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    def ended(self, trial: Trial, status: str) -> None:
        self.ends.append(status)


def suite(**changes: Any) -> Suite:
    table = {"name": "s", "title": "S", "driver": "null", "repetitions": 3, "watch": {"monitors": []}, **changes}
    return Suite(name="s", title="S", studies=[make_study(table, "s.toml")])


def execute(root: Path, made: Suite, told: Told | None = None) -> Tally:
    benches = preflight.assemble(made, Consent())
    preflight.ready_tools(benches)
    preflight.examine(benches)
    store = RunStore.open(root) if root.exists() else RunStore.create(root, made, {})
    return run.execute(store, benches, told or Told())


def test_every_planned_trial_leaves_its_record(tmp_path: Path) -> None:
    tally = execute(tmp_path / "run", suite(factors={"x": [1, 2, 3]}))
    found = frames.load(RunStore.open(tmp_path / "run")).trials
    assert (tally.planned, tally.ok) == (9, 9)
    assert found["order"].to_list() == list(range(9))
    assert found["value"].null_count() == 0


def test_a_failed_trial_is_a_record_and_the_run_goes_on(tmp_path: Path) -> None:
    tally = execute(tmp_path / "run", suite(repetitions=40, params={"fail_share": 0.5, "skip_share": 0.2}))
    assert tally.planned == tally.ok + tally.failed + tally.skipped == 40
    assert tally.failed > 0
    assert tally.skipped > 0
    failed = frames.load(RunStore.open(tmp_path / "run")).trials.filter(status=FAILED)
    assert failed["reason"].str.contains("fail_share").all()


def test_two_runs_in_turns_by_block_end_as_if_each_had_run_at_once(tmp_path: Path) -> None:
    made = Study.of_suite(suite(factors={"x": [1, 2]}, repetitions=3))
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


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    execute(tmp_path / "run", suite())
    told = Told()
    tally = execute(tmp_path / "run", suite(), told)
    assert told.ends == ["kept"] * 3
    assert tally.ok == 3


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

    def __init__(self, line: str, timeout_s: float = 20.0) -> None:
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


def run_stub(tmp_path: Path, stub: Stub, **changes: Any) -> Record:
    made = suite(repetitions=1, **changes)
    store = RunStore.create(tmp_path / "run", made, {})
    bench = preflight.Bench(made.studies[0], stub, Consent())  # type: ignore[arg-type]
    run.execute(store, [bench], Told())
    return next(store.records())


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
    made = suite(repetitions=4, factors={"x": [1, 2]})
    store = RunStore.create(tmp_path / "run", made, {})
    bench = preflight.Bench(made.studies[0], stub, Consent())  # type: ignore[arg-type]
    tally = run.execute(store, [bench], Told())
    assert (tally.skipped, len(stub.outcomes)) == (8, 5)
    assert {record.reason for record in store.records()} == {"no such path here"}


def test_a_hanging_tool_is_ended_at_the_studys_timeout(tmp_path: Path) -> None:
    stub = Stub("exec sleep 300")
    run_stub(tmp_path, stub, run={"timeout": "300ms"})
    assert stub.outcomes[0] is not None
    assert stub.outcomes[0].timed_out
    assert stub.outcomes[0].duration_s < 60


def test_what_a_tool_leaves_behind_is_said(tmp_path: Path) -> None:
    record = run_stub(tmp_path, Stub("sleep 300 & exit 0"))
    assert [warning.code for warning in record.warnings] == ["processes-left-behind", "witness-limited"]


def test_monitors_watch_from_before_the_load_to_after_it(tmp_path: Path) -> None:
    run_stub(tmp_path, Stub("sleep 0.3"), watch={"monitors": ["cpu", "pressure"], "interval": "50ms"})
    samples = frames.load(RunStore.open(tmp_path / "run")).samples
    times_s = samples.filter(monitor="cpu")["time_s"].unique().sort()
    assert len(times_s) >= 4
    assert times_s[0] <= 0.05
    assert times_s[-1] >= 0.3
    record = next(RunStore.open(tmp_path / "run").records())
    assert record.monitor_cost["interval_s"] == 0.05
    assert record.monitor_cost["cpu_s"] > 0


def test_a_tool_that_cannot_start_is_a_failed_trial(tmp_path: Path) -> None:
    class Missing(Stub):
        def command(self, trial: Trial, load: Load, raw: Path) -> Command:
            return Command(["no-such-tool"], 5)

    record = run_stub(tmp_path, Missing(""))
    assert record.status == FAILED
    assert "no-such-tool" in record.reason


def test_an_unknown_driver_or_monitor_is_named_before_anything_runs() -> None:
    with pytest.raises(StudyError, match="no driver is called 'fioo'; did you mean 'fio'"):
        preflight.assemble(suite(driver="fioo"), Consent())
    with pytest.raises(StudyError, match="s: watch.monitors: no monitor is called 'gpu'"):
        preflight.assemble(suite(watch={"monitors": ["gpu"]}), Consent())


def test_an_unknown_question_is_named_before_anything_runs() -> None:
    with pytest.raises(
        StudyError, match=r"s: analysis\.questions: no question is called 'efect'; did you mean 'effect'"
    ):
        preflight.assemble(suite(analysis={"questions": ["efect"]}), Consent())


def test_a_response_that_may_be_misspelt_is_warned_about() -> None:
    benches = preflight.assemble(suite(analysis={"responses": ["read.bww", "read.bw"]}), Consent())
    assert [warning.code for warning in preflight.examine(benches)] == ["response-unknown"]


def test_an_impossible_point_is_named() -> None:
    benches = preflight.assemble(suite(factors={"fail_share": [0.5, 7]}), Consent())
    with pytest.raises(StudyError, match=r"s at fail_share=7: .*wanted a share"):
        preflight.examine(benches)


def test_a_missing_tool_is_named_with_its_package() -> None:
    with pytest.raises(ToolError, match="no-such-tool: not found.*apt-get install the-package"):
        preflight.tool_version(Tool("no-such-tool", ["no-such-tool", "--version"], (1,), "the-package"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 MiB, of which 52 MiB are free: what is left alone is 39 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", folder], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"needs to mount a tmpfs: {done.stderr.strip()}")
    (folder / "others").write_bytes(bytes(76 << 20))
    yield folder
    subprocess.run(["umount", folder], check=True)


class Filling(Stub):
    """A tool that writes 5 MiB a second, forever."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"while head -c 1048576 /dev/zero >> {path}; do sleep 0.2; done", timeout_s=300)

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
    made = suite(repetitions=2)
    store = RunStore.create((small_disk if where == "run's folder" else tmp_path) / "run", made, {})
    bench = preflight.Bench(made.studies[0], stub, Consent())  # type: ignore[arg-type]
    with pytest.raises(RunError, match=r"no trial is begun: .*everything recorded before is kept\. Go on with"):
        run.execute(store, [bench], Told())
    (record,) = store.records()
    assert record.status == FAILED
    assert record.reason.startswith("ended by the lab: the file system of ")
    assert "are left alone: make room" in record.reason
    space = os.statvfs(small_disk)
    assert space.f_bavail * space.f_frsize > 4 << 20
    (small_disk / "growing").unlink()
    assert store.has(record.trial["id"])


def test_repetition_of_a_percentile_waits_for_the_interval_of_all_requests(tmp_path: Path) -> None:
    """Each repetition's own percentile may agree by luck while one of them has nearly all slow requests."""
    until = Until(metric="read.lat.p99", ci=0.05, min=3, max=30)
    steady, mixed = run._Patience(until), run._Patience(until)
    trials = list(plan.trials(suite(repetitions=4)))
    for trial, slow in zip(trials[:3], (5, 200, 5), strict=True):
        for patience, buckets in ((steady, 10), (mixed, slow)):
            folder = tmp_path / f"{trial.id}-{buckets}"
            folder.mkdir()
            latencies = Buckets("read", "lat", (1000, 9000), (10_000, buckets))
            parquet.write(folder, {"study": trial.study, "trial": trial.id}, [latencies], [], [])
            record = Record(trial=asdict(trial), status=OK, metrics={"read.lat.p99": 1000.0})
            patience.note(record, folder)
    assert steady.enough(trials[3])
    assert not mixed.enough(trials[3])
