"""Conditions in studies: how they are written, what preflight says, what is skipped, what a record keeps."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import cases
from tests.patience import PATIENCE_S

from ioassay import units
from ioassay.drivers.null import Null
from ioassay.errors import ConditionError, StudyError
from ioassay.host import cgroup
from ioassay.records.record import FAILED, OK, SKIPPED
from ioassay.roles import Command, Confinement, Consent, Load, Outcome, Parsed, Trial
from ioassay.runner import conditions, preflight, run
from ioassay.runner.progress import Progress
from ioassay.runner.run import Tally
from ioassay.store import frames
from ioassay.store.run_folder import RunStore
from ioassay.study import plan, run_conditions
from ioassay.study.model import Suite, make_study

from .conftest import HOG, allowed_here, members

SEEN = "import json, os; print(json.dumps([os.sched_getscheduler(0), os.nice(0)]))"
ALLOWED = sorted(os.sched_getaffinity(0))


PARENT = f"""
import subprocess, sys
for group in sys.argv[1:]:
    open(group, 'w').write('0')
ended = subprocess.run([sys.executable, '-c', {HOG!r}]).returncode
print('ended by', ended)
"""
"""A tool whose child is killed, and that ends with 0 all the same."""


class Forgiving(Null):
    """Runs PARENT and finds that all went well."""

    groups: tuple[str, ...] = ()

    def command(self, trial: Trial, load: Load, raw: Path) -> Command | None:
        return Command([sys.executable, "-c", PARENT, *self.groups], timeout_s=PATIENCE_S)

    def confinement(self, params: Mapping[str, Any]) -> Confinement:
        """It moves itself into the groups."""
        return Confinement(host=[Path(group) for group in self.groups])

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        assert outcome is not None
        assert outcome.exit_code == 0, outcome.stderr.read_text()
        assert "ended by -9" in outcome.stdout.read_text()
        return Parsed(OK, metrics={"script.rounds": 1.0})


class Script(Null):
    """Runs the Python of the parameter `text`; its output becomes the metrics."""

    def command(self, trial: Trial, load: Load, raw: Path) -> Command | None:
        return Command([sys.executable, "-c", trial.params["text"]], timeout_s=PATIENCE_S)

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        assert outcome is not None
        if outcome.exit_code != 0:
            return Parsed(FAILED, f"the script ended with {outcome.exit_code or outcome.signal}")
        policy, nice = json.loads(outcome.stdout.read_text())
        return Parsed(OK, metrics={"script.policy": policy, "script.nice": nice})


SCRIPT = Script()


def study(driver: str = "null", **changes: Any) -> Suite:
    table = {"name": "s", "title": "S", "driver": driver, "watch": {"monitors": [], "witness": "off"}, **changes}
    return Suite(name="s", title="S", studies=[make_study(table, "s.toml")])


def execute(root: Path, suite: Suite, driver: Null | None = SCRIPT) -> tuple[Tally, list[str]]:
    benches = preflight.assemble(suite, Consent())
    for bench in benches:
        bench.driver = driver or bench.driver
    preflight.ready_tools(benches)
    warned = [f"{warning.code}: {warning.text}" for warning in preflight.examine(benches)]
    return run.execute(RunStore.create(root, suite, {}), benches, Progress()), warned


def warnings_of(store: RunStore) -> set[str]:
    return set(frames.load(store).warnings["code"].to_list())


@cases("conditions", "spellings")
def test_spellings(case: dict[str, Any]) -> None:
    """As a level of a factor they reach the trial in the one spelling; a mistake in one is named as well."""
    key, value = case["key"], case["value"]
    if "says" in case:
        with pytest.raises(StudyError, match=f"run.{key}: {case['says']}"):
            study(run={key: value})
        with pytest.raises(StudyError, match=f"factors.run.{key}: "):
            study(factors={f"run.{key}": [value]})
        return
    for written in (value, case["kept"]):
        made = study(factors={f"run.{key}": [written]}).studies[0]
        assert [plan.make_trial(made, point, 0, 0).run[key] for point in plan.points(made)] == [case["kept"]]


def test_a_trial_without_conditions_does_not_speak_of_them() -> None:
    trial = plan.make_trial(study().studies[0], {}, 0, 0)
    assert not set(run_conditions.KEYS) & set(trial.run)
    assert not run_conditions.Conditions.of(trial.run)


def test_a_list_of_processors_is_read_as_it_was_written(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        numbers = frozenset(chance.sample(range(64), chance.randint(1, 20)))
        assert units.parse_processors(units.format_processors(numbers)) == numbers


@pytest.mark.root
@pytest.mark.alone
def test_a_scheduler_is_a_factor_like_any_other(tmp_path: Path) -> None:
    allowed_here(scheduler="fifo:1")
    levels: Mapping[str, int] = {"other": os.SCHED_OTHER, "batch": os.SCHED_BATCH, "fifo:1": os.SCHED_FIFO}
    factors = {"run.scheduler": list(levels)}
    made = study(factors=factors, run={"nice": 3}, params={"text": SEEN}, repetitions=2)
    tally, warned = execute(tmp_path / "run", made)
    trials = frames.load(RunStore.open(tmp_path / "run")).trials
    assert (tally.ok, tally.planned) == (6, 6), trials["reason"].to_list()
    assert dict(zip(trials["run.scheduler"], trials["script.policy"], strict=True)) == levels
    assert set(trials["script.nice"]) == {3}
    assert [text.split(":")[0] for text in warned] == ["nice-unused", "affinity-narrowed"]
    assert warnings_of(RunStore.open(tmp_path / "run")) >= {"affinity-narrowed"}
    kept = [json.loads(path.read_text()) for path in (tmp_path / "run").glob("trials/*/raw/conditions.json")]
    assert [one["took_effect"]["nice"] for one in kept] == [3] * 6


def test_what_the_host_refuses_is_said_before_and_skipped_with_the_reason(tmp_path: Path) -> None:
    made = study(factors={"run.affinity": [ALLOWED[0], 8000]}, params={"text": SEEN})
    tally, warned = execute(tmp_path / "run", made)
    reasons = frames.load(RunStore.open(tmp_path / "run")).trials["reason"].to_list()
    assert (tally.ok, tally.skipped, tally.failed) == (1, 1, 0), reasons
    (text,) = warned
    assert text.startswith("condition-unavailable: s: run.affinity = 8000: this host has no processor 8000; it has ")
    assert text.endswith("; trials that ask for it will be skipped")
    trials = frames.load(RunStore.open(tmp_path / "run")).trials
    (reason,) = trials.filter(status=SKIPPED)["reason"]
    assert reason.startswith("run.affinity = 8000: this host has no processor 8000")


def test_what_is_refused_only_when_the_tool_is_held_is_skipped_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "ran"

    def put(*_: object) -> None:
        raise ConditionError("run.nice = 5: the kernel refused (as a test wants it)")

    monkeypatch.setattr(conditions, "put", put)
    monkeypatch.setattr(conditions, "rehearse", lambda wanted: [])
    watch = {"monitors": ["cpu"], "witness": "counters"}
    made = study(run={"nice": 5}, params={"text": f"open({str(mark)!r}, 'w')"}, watch=watch)
    tally, _ = execute(tmp_path / "run", made)
    assert (tally.skipped, tally.planned) == (1, 1)
    assert not mark.exists()
    (reason,) = frames.load(RunStore.open(tmp_path / "run")).trials["reason"]
    assert reason == "run.nice = 5: the kernel refused (as a test wants it)"


@pytest.mark.root
def test_a_failure_at_the_limit_of_memory_says_so(tmp_path: Path) -> None:
    allowed_here(memory_limit=2**26)
    tally, _ = execute(tmp_path / "run", study(run={"memory_limit": "64MiB"}, params={"text": HOG}))
    assert tally.failed == 1
    (reason,) = frames.load(RunStore.open(tmp_path / "run")).trials["reason"]
    assert (
        reason
        == f"run.memory_limit = {2**26} bytes was reached, and the kernel ended a process: the script ended with 9"
    )
    (kept,) = (tmp_path / "run").glob("trials/*/raw/conditions.json")
    assert json.loads(kept.read_text())["account"]["oom_kill"] == 1


@pytest.mark.root
@pytest.mark.parametrize("of", ["the trial", "the host"])
def test_a_killed_child_fails_the_trial_whose_tool_says_that_all_went_well(
    tmp_path: Path, other_group: cgroup.Group, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    driver, made = Forgiving(), study(run={"memory_limit": "64MiB"} if of == "the trial" else {})
    reason = f"run.memory_limit = {64 << 20} bytes was reached, and the kernel ended a process"
    if of == "the host":
        if not can_read_log():
            pytest.skip("needs /dev/kmsg")
        monkeypatch.setattr(conditions, "_memory_group", lambda root: None)  # the other group stands for the host
        driver.groups = tuple(members(other_group))
        reason = "the host ran out of memory, and the kernel ended python"
    execute(tmp_path / "run", made, driver)
    store = RunStore.open(tmp_path / "run")
    (record,) = (store.record(trial.id) for trial in store.trials())
    assert (record.status, record.metrics) == (FAILED, {})
    assert record.reason.startswith(reason)


def can_read_log() -> bool:
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def test_a_trial_that_starts_no_process_says_that_its_conditions_were_not_used(tmp_path: Path) -> None:
    tally, warned = execute(tmp_path / "run", study(factors={"run.scheduler": ["batch", "other"]}), driver=None)
    assert (tally.ok, warned) == (2, [])
    assert "conditions-unused" in warnings_of(RunStore.open(tmp_path / "run"))


def test_a_limit_of_time_under_a_real_time_policy_is_an_error_of_the_study(tmp_path: Path) -> None:
    made = study(factors={"run.scheduler": ["other", "rr:1"]}, run={"cpu_limit": "50%"})
    with pytest.raises(StudyError, match=r"s: run.cpu_limit: is 0.5; limits normal policies only.*rr:1: remove one"):
        execute(tmp_path / "run", made)


def test_limits_beyond_the_host_are_warned_of() -> None:
    wanted = conditions.Conditions(cpu_limit=float(os.cpu_count() or 1), memory_limit=2**60)
    assert [warning.code for warning in conditions.check(wanted)] == ["limit-unused", "limit-unused"]


@pytest.mark.root
@pytest.mark.fio
def test_fio_and_its_jobs_run_within_their_limits(tmp_path: Path) -> None:
    allowed_here(cpu_limit=0.3, memory_limit=2**28)
    params = {"ioengine": "null", "rw": "read", "bs": "4k", "size": "1g", "runtime": "500ms", "numjobs": 2}
    made = study("fio", params=params, factors={"run.cpu_limit": ["30%"]}, run={"memory_limit": "256MiB"})
    tally, _ = execute(tmp_path / "run", made, driver=None)
    assert tally.ok == 1
    (kept,) = (tmp_path / "run").glob("trials/*/raw/conditions.json")
    told = json.loads(kept.read_text())
    assert told["took_effect"]["cpu_limit"] == pytest.approx(0.3)
    # That it was throttled depends on how much the others leave it; that periods were counted shows whose limit it was.
    assert told["account"]["nr_periods"] > 0
