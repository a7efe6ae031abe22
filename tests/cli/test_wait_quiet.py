"""Waiting for a quiet machine: when a trial is measured, repeated, and marked; by scripted readings of the machine."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ioassay.drivers.null import Null
from ioassay.records.record import Environment, Record
from ioassay.roles import Command as Argv
from ioassay.roles import Consent, Load, Outcome, Parsed, Trial
from ioassay.runner import preflight, run
from ioassay.runner.progress import Progress
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite, make_study

from ..patience import until
from .conftest import start

FIT = Environment(
    seconds=1.0, processors=2, own_share=0.9, others_share=0.01, kernel_share=0.0, steal_share=0.0, programs=[]
)
DOUBTFUL = replace(FIT, others_share=0.1)
UNFIT = replace(FIT, own_share=0.4, others_share=0.6)


class Echo(Null):
    """Counts how often it was run."""

    measures = True

    def __init__(self) -> None:
        self.runs = 0

    def command(self, trial: Trial, load: Load, raw: Path) -> Argv | None:
        return Argv(["echo", str(self.runs)], 60.0)

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        self.runs += 1
        return Parsed("ok")


class Scripted:
    """A meter that reads what it was given; the last reading stays."""

    def __init__(self, before: Iterable[Environment], during: Iterable[Environment]) -> None:
        self.before, self.during, self.observed = list(before), list(during), 0

    def observe(self) -> Environment:
        self.observed += 1
        return self.before.pop(0) if len(self.before) > 1 else self.before[0]

    def begin(self, processors: object = None) -> None: ...

    def end(self, own: object) -> Environment:
        return self.during.pop(0) if len(self.during) > 1 else self.during[0]

    def device_shares(self, seen: object) -> dict[str, float]:
        return {}


class Heard(Progress):
    """Remembers what was said while a trial was prepared."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def preparing(self, what: str, share: float) -> None:
        self.said.append(what)


def measured(tmp_path: Path, meter: Scripted, wait_quiet_s: float, heard: Heard | None = None) -> tuple[Record, Echo]:
    """The record of one trial, and the driver that ran it."""
    table = {"name": "s", "title": "S", "driver": "null", "repetitions": 1, "watch": {"monitors": []}}
    made = Suite(name="s", title="S", studies=[make_study(table, "s.toml")])
    store, driver = RunStore.create(tmp_path / "run", made, {}), Echo()
    bench = preflight.PreparedStudy(made.studies[0], driver, Consent())
    bench.meter = meter  # type: ignore[assignment]
    run.execute(store, [bench], heard or Heard(), wait_quiet_s=wait_quiet_s)
    return next(store.records()), driver


def codes(record: Record) -> list[str]:
    return [warning.code for warning in record.warnings if warning.code in ("never-quiet", "repeated")]


@pytest.mark.parametrize(
    ("during", "runs", "grade_of"),
    [
        ([FIT], 1, FIT),
        ([DOUBTFUL], 1, DOUBTFUL),  # marked, and kept
        ([UNFIT, FIT], 2, FIT),
        ([UNFIT, UNFIT, DOUBTFUL], 3, DOUBTFUL),
        ([UNFIT, UNFIT, UNFIT, FIT], 3, UNFIT),  # twice again is enough
    ],
)
def test_a_disturbed_trial_is_measured_again(
    tmp_path: Path, during: list[Environment], runs: int, grade_of: Environment
) -> None:
    meter = Scripted([FIT], during)
    record, driver = measured(tmp_path, meter, 60.0)
    assert (driver.runs, record.status, record.environment) == (runs, "ok", grade_of)
    assert codes(record) == ["repeated"] * (runs > 1)
    assert [path.read_text() for path in (tmp_path / "run").rglob("stdout")] == [f"{runs - 1}\n"]


def test_without_the_option_nothing_waits_or_is_repeated(tmp_path: Path) -> None:
    meter = Scripted([UNFIT], [UNFIT])
    record, driver = measured(tmp_path, meter, 0.0)
    assert (driver.runs, meter.observed, codes(record)) == (1, 0, [])
    assert record.environment == UNFIT


def test_a_trial_begins_once_the_machine_is_quiet(tmp_path: Path) -> None:
    heard, meter = Heard(), Scripted([UNFIT, DOUBTFUL, FIT], [FIT])
    record, driver = measured(tmp_path, meter, 600.0, heard)
    assert (driver.runs, meter.observed, codes(record)) == (1, 3, [])
    waiting = [text for text in heard.said if text.startswith("waiting")]
    assert waiting == [f"waiting for a quiet machine (others use {share}), waited" for share in ("60%", "10%")]


def test_a_machine_that_never_becomes_quiet_is_measured_and_the_record_says_so(tmp_path: Path) -> None:
    record, driver = measured(tmp_path, Scripted([DOUBTFUL], [DOUBTFUL]), 0.01)
    assert (driver.runs, codes(record)) == (1, ["never-quiet"])


@contextmanager
def busy() -> Iterator[None]:
    """Every processor has something else to do, in processes that belong to nobody here."""
    line = "while :; do :; done & echo $!"
    pids = []
    try:
        for _ in range(os.cpu_count() or 1):
            starter = subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE, text=True)
            assert starter.stdout is not None
            pids.append(int(starter.stdout.readline()))
            starter.wait()
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


def test_a_wait_can_be_ended(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text("[global]\nioengine=null\nsize=1m\n[job]\nrw=read\n")
    words = ("run", "job.fio", "--wait-quiet", "10m", "--output", "run", "--log-level", "debug")
    with busy(), start(*words, cwd=tmp_path, of_its_own=True) as waiting:
        until(lambda: "waiting for a quiet machine" in waiting.err or waiting.has_ended())
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait() == 130, waiting.err
        assert "--resume" in waiting.err and "Traceback" not in waiting.err
