"""What the kernel ends for want of memory makes a trial a failed one, also where the tool says that all went well."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import cases
from tests.patience import PATIENCE_S

from ioassay.api.progress import Progress
from ioassay.drivers.null import Null
from ioassay.errors import ConditionError
from ioassay.host import cgroup, oom_killer
from ioassay.process import supervisor
from ioassay.records.record import FAILED, OK, Record
from ioassay.roles import Command, Confinement, Consent, Load, Outcome, Parsed, Trial
from ioassay.runner import preflight, run
from ioassay.runner.conditions import Hold
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite, make_study
from ioassay.study.run_conditions import Conditions

LIMIT_BYTES = 64 << 20
HOG = "held = []\nwhile True: held.append(b'x' * (4 << 20))"
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


def record_of(root: Path, driver: Forgiving, **condition: str) -> Record:
    table = {"title": "S", "driver": "null", "run": condition, "watch": {"monitors": [], "witness": "off"}}
    suite = Suite(name="s", title="S", studies=[make_study({**table, "name": "s"}, "s.toml")])
    benches = preflight.assemble(suite, Consent())
    benches[0].driver = driver
    store = RunStore.create(root, suite, {})
    run.execute(store, benches, Progress())
    (trial,) = store.trials()
    return store.record(trial.id)


@pytest.fixture
def other_group() -> Iterator[cgroup.Group]:
    """A group of little memory that is not the trial's: somebody else's limit, or in small the whole host."""
    try:
        group = cgroup.make(Conditions(memory_limit=LIMIT_BYTES))
    except ConditionError as error:
        pytest.skip(f"not allowed here: {error}")
    yield group
    group.remove()


@pytest.mark.root
def test_a_killed_child_fails_the_trial_whose_tool_says_that_all_went_well(tmp_path: Path) -> None:
    try:
        cgroup.make(Conditions(memory_limit=LIMIT_BYTES)).remove()
    except ConditionError as error:
        pytest.skip(f"not allowed here: {error}")
    record = record_of(tmp_path / "run", Forgiving(), memory_limit="64MiB")
    assert (record.status, record.metrics) == (FAILED, {})
    assert record.reason == f"run.memory_limit = {LIMIT_BYTES} bytes was reached, and the kernel ended a process"


@pytest.mark.root
def test_a_child_that_is_killed_for_want_of_memory_of_the_host_fails_the_trial(
    tmp_path: Path, other_group: cgroup.Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_read_log():
        pytest.skip("needs /dev/kmsg")
    monkeypatch.setattr(oom_killer, "_memory_group", lambda root: None)  # the other group stands for the host
    driver = Forgiving()
    driver.groups = tuple(str(folder / "cgroup.procs") for _, folder in other_group.folders.values())
    record = record_of(tmp_path / "run", driver)
    assert record.status == FAILED
    assert record.reason.startswith("the host ran out of memory, and the kernel ended python")


@pytest.mark.root
def test_a_tool_that_is_killed_itself_needs_no_log(
    tmp_path: Path, other_group: cgroup.Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oom_killer, "_opened", lambda path: None)
    groups = [str(folder / "cgroup.procs") for _, folder in other_group.folders.values()]
    text = f"import sys\nfor group in sys.argv[1:]: open(group, 'w').write('0')\n{HOG}"
    with Hold(Conditions(), tag="", timeout_s=PATIENCE_S) as hold:
        supervisor.run(
            [sys.executable, "-c", text, *groups],
            stdout=tmp_path / "out",
            stderr=tmp_path / "err",
            timeout_s=PATIENCE_S,
            on_held=hold.apply,
            on_ended=hold.ended,
        )
    assert hold.over_memory.startswith("the host ran out of memory, and the kernel ended python")


def can_read_log() -> bool:
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


@cases("conditions", "victims")
def test_victims(fake_root: Callable[..., Path], case: dict[str, str]) -> None:
    """Process 7 has ended; nobody has waited for it."""
    stat = f"7 ({case['comm']}) Z {' '.join('0' for _ in range(49))}\n"
    log = {"dev/kmsg": ""} if "log" in case else {}  # who may not read it knows of no victims of others
    root = fake_root({"proc/vmstat": "oom_kill 4\n", "proc/7/comm": f"{case['comm']}\n", "proc/7/stat": stat, **log})
    if "own" in case:
        fake_root({"proc/self/cgroup": case["own"], "proc/self/ns/cgroup": Path(case["namespace"])})
    watch = oom_killer.Watch(case["program"], root)
    if "log" in case:
        fake_root({"proc/vmstat": "pgfault 9\noom_kill 5\n", "dev/kmsg": case["log"]})
    watch.ended(7)
    watch.close()
    assert (watch.of_trial, watch.of_others) == (case["of_trial"], case["of_others"])
