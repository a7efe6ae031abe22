"""The driver against the stress-ng that is installed: what it emits is taken, and what it foretells happens."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay.drivers.stress_ng import StressNg
from ioassay.process import supervisor
from ioassay.records.record import FAILED, OK, SKIPPED
from ioassay.roles import Load, Outcome, Parsed, Trial

pytestmark = pytest.mark.stress


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> StressNg:
    """A driver that has asked the installed stress-ng for its offer."""
    made = StressNg()
    tool = made.tool()
    assert tool is not None
    answers = {}
    for name, argv in tool.probes.items():
        captured = supervisor.capture(argv, timeout_s=30)
        answers[name] = captured.stdout + captured.stderr
    made.configure(supervisor.capture(tool.version_argv).stdout, answers)
    return made


def run(
    driver: StressNg,
    params: dict[str, Any],
    raw: Path,
    folder: Path | None = None,
    timeout_s: float | None = None,
    on_held: Callable[[int], None] | None = None,
) -> tuple[Parsed, Outcome]:
    """Run one trial as `ioassay.runner.run` would."""
    raw.mkdir(exist_ok=True)
    load = Load("folder", folder, 0, False) if folder else Load("null", None, 0, False)
    trial = Trial("t", "s", "stress_ng", {}, params, {}, {}, 0, 1, 0)
    command = driver.command(trial, load, raw)
    outcome = supervisor.run(
        command.argv,
        stdout=raw / "stdout",
        stderr=raw / "stderr",
        timeout_s=timeout_s or command.timeout_s,
        cwd=command.cwd,
        on_held=on_held,
    )
    return driver.parse(trial, outcome, raw), outcome


def test_the_offer_of_the_installed_one_is_found(driver: StressNg) -> None:
    driver.validate({"stressor": "cpu", "cpu-method": "int16", "sched": "rr", "sched-prio": 6}, {})
    driver.validate({"stressor": "l1cache", "l1cache-sets": 64}, {})
    driver.validate({"stressor": "zlib", "zlib-mem-level": 9}, {})
    driver.validate({"stressor": "shm", "workers": 3}, {})
    driver.validate({"stressor": "cpu", "sched": "deadline", "sched-deadline": 100000}, {})


def test_a_load_of_the_processor_is_measured(driver: StressNg, tmp_path: Path) -> None:
    params = {"stressor": "cpu", "workers": 2, "timeout": 1, "cpu-method": "int64"}
    driver.validate(params, {})
    parsed, _ = run(driver, params, tmp_path)
    assert parsed.status == OK, parsed.reason
    assert parsed.metrics["bogo_ops"] > 0 and parsed.metrics["workers_started"] == 2
    assert parsed.metrics["context_switches"] > 0


def test_files_are_made_in_the_folder_and_removed(driver: StressNg, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    params = {"stressor": "hdd", "timeout": 1, "hdd-bytes": "4MiB", "hdd-ops": 50}
    parsed, _ = run(driver, params, tmp_path / "raw", folder)
    assert parsed.status == OK, parsed.reason
    assert list(folder.iterdir()) == [] and not list((tmp_path / "raw").glob("tmp-*"))


def test_a_stressor_that_is_foretold_to_be_impossible_is_skipped(driver: StressNg, tmp_path: Path) -> None:
    foretold = [
        name for name in ("rdrand", "ioport", "rawdev", "gpu", "plugin") if driver.validate({"stressor": name}, {})
    ]
    absent = [
        name for name in foretold if any(w.code == "will-be-skipped" for w in driver.validate({"stressor": name}, {}))
    ]
    assert absent, "a plugin without its library can never run"
    for name in absent:
        parsed, _ = run(driver, {"stressor": name, "timeout": 1}, tmp_path / name)
        assert parsed.status == SKIPPED, f"{name}: {parsed.status}: {parsed.reason}"


def test_workers_do_not_outlive_a_trial_that_took_too_long(driver: StressNg, tmp_path: Path) -> None:
    parsed, outcome = run(
        driver, {"stressor": "vm", "workers": 2, "vm-bytes": "1m", "timeout": 30}, tmp_path, None, 0.5
    )
    assert outcome.timed_out and "raise run.timeout" in parsed.reason
    assert [path for path in Path("/proc").glob("[0-9]*/cwd") if leads_to(path, tmp_path)] == []


def leads_to(link: Path, folder: Path) -> bool:
    """Its workers give themselves other names, but stay in the folder that they were started in."""
    try:
        return link.readlink() == folder
    except OSError:
        return False


@pytest.mark.parametrize(("number", "status"), [(signal.SIGKILL, FAILED), (signal.SIGSEGV, FAILED)])
def test_a_worker_that_others_end_is_a_failure(
    driver: StressNg, tmp_path: Path, number: signal.Signals, status: str
) -> None:
    def end_a_worker(pid: int) -> None:
        while not (workers := Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(int(workers[0]), number)

    def on_held(pid: int) -> None:
        threading.Thread(target=end_a_worker, args=(pid,)).start()

    parsed, outcome = run(driver, {"stressor": "cpu", "workers": 2, "timeout": 2}, tmp_path, on_held=on_held)
    assert parsed.status == status, parsed
    assert outcome.leftovers == ()
