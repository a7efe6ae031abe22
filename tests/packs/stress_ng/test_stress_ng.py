"""The driver stress_ng: what it reads in an offer, takes from a study and makes of outputs; the installed one."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from ioassay import metrics, units
from ioassay.errors import StudyError
from ioassay.packs.stress_ng.claims import stressor_metrics
from ioassay.packs.stress_ng.driver import StressNg, remove_shared_memory, stressor_parameters
from ioassay.process import process_table
from ioassay.records.record import FAILED, OK, SKIPPED
from ioassay.roles import Load, Parsed

from ...corpora import cases
from ...drivers.trials import (
    GOLDEN,
    NOWHERE,
    OFFERS,
    STRESS_NG,
    asked,
    captured,
    ended,
    lay_out,
    offered,
    run,
    trial,
    versions,
)
from ...patience import until


@pytest.fixture
def driver() -> StressNg:
    made: StressNg = offered("stress_ng")
    return made


def test_the_offer_has_what_the_parser_takes_and_not_what_only_the_help_says() -> None:
    found = stressor_parameters.capabilities(STRESS_NG)
    assert {"cpu", "l1cache", "io-uring", "pipeherd"} <= set(found.stressors)
    assert {"qsort-method", "shm-objs", "eventfd-nonblock", "cpu-load", "zlib-mem-level"} <= set(found.options)
    assert not {"shm-segs", "eventfs-nonblock"} & set(found.options)  # of its --help, which getopt does not know
    assert found.choices["sched"] == ["batch", "deadline", "fifo", "idle", "other", "rr"]
    assert "int64" in found.choices["cpu-method"] and "direct" in found.choices["hdd-opts"]
    assert "hdd" in found.classes["io"] and "pipeherd" in found.classes["pipe"]
    silent = {name: answer for name, answer in STRESS_NG.items() if not name.startswith("options:")}
    assert stressor_parameters.capabilities(silent).options["cpu-method"] == "M"  # of its help


def test_the_offer_says_what_is_disabled_and_what_cannot_run_with_its_own_words() -> None:
    found = stressor_parameters.capabilities(STRESS_NG)
    assert {"cpu-online", "watchdog", "sysinval"} <= set(found.pathological)
    assert found.absent["ioport"].startswith("ioport cannot access port 0x80")
    assert "without root privilege" in found.absent["bad-ioctl"]  # which it calls bad_ioctl
    assert "MSR" in found.absent["smi"]  # disabled, and impossible as well
    assert not {"watchdog", "cpu", "zlib", "io-uring"} & set(found.absent)


def test_the_summary_of_newer_versions_is_no_refusal_where_nothing_was_skipped() -> None:
    passed = ["skipped: 0", "passed: 1: netdev (1)", "failed: 0", "metrics untrustworthy: 0"]
    assert stressor_parameters.hopeless(passed) == ""
    assert stressor_parameters.hopeless(["skipped: 1: ioport (1)", "passed: 0"]) == "skipped: 1: ioport (1)"
    assert stressor_parameters.hopeless(["skipped: 1: ioport (1)", "ioport: not permitted"]) == "ioport: not permitted"


def test_an_empty_answer_offers_nothing_and_refuses_nothing() -> None:
    driver = StressNg()
    driver.configure(OFFERS["stress_ng"][0], {})
    assert driver.validate({"stressor": "whatever", "whatever-size": "3k"}, {}) == []


def test_all_that_stress_ng_disables_is_refused_without_its_own_flag(driver: StressNg) -> None:
    for stressor in (*stressor_parameters.capabilities(STRESS_NG).pathological, "bad-altstack", "reboot"):
        with pytest.raises(StudyError, match="pathological = true"):
            driver.validate({"stressor": stressor}, {})
        driver.validate({"stressor": stressor, "pathological": True}, {})


@cases("drivers", "stress_ng_real_time")
def test_real_time_workers_leave_a_processor_to_the_lab(case: dict[str, Any]) -> None:
    driver, room = StressNg(processors=4), case["room"]
    driver.configure(*OFFERS["stress_ng"])
    wanted = trial("stress_ng", {"stressor": "cpu", "workers": case["workers"], **case["params"]})
    assert (driver.command(wanted, NOWHERE, Path("/raw")) is not None) == room
    assert [warning.code for warning in driver.validate(wanted.params, {})] == ([] if room else ["will-be-skipped"])
    parsed = driver.parse(wanted, None, Path("/raw"))
    assert parsed.status == (FAILED if room else SKIPPED)
    assert room or "would leave no CPU of 4" in parsed.reason


def test_on_a_machine_of_one_processor_no_real_time_worker_runs() -> None:
    alone = trial("stress_ng", {"stressor": "cpu", "sched": "rr"})
    assert StressNg(processors=1).parse(alone, None, Path("/raw")).status == SKIPPED


def test_no_metric_bears_the_name_of_a_parameter() -> None:
    """A study could not vary it."""
    names = {"workers", "timeout", "stressor", *stressor_parameters.capabilities(STRESS_NG).options}
    assert [name for name in names if metrics.known(name)] == []


def test_a_device_that_an_option_names_is_examined_first(driver: StressNg) -> None:
    assert [str(touch.path) for touch in driver.touches({"stressor": "dev", "dev-file": "/dev/null"})] == ["/dev/null"]
    assert driver.touches({"stressor": "cpu"}) == ()


# What stress-ng left: outputs of real runs, and outputs that no measurement leaves

CPU = {"stressor": "cpu", "workers": 2, "timeout": "2s"}


@pytest.fixture(params=versions("stress_ng"))
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def read(
    version: str, folder: Path, params: dict[str, Any], log: str = "", yaml: str | None = None, **how: Any
) -> Parsed:
    """The reading of a made case; by default stress-ng ended with 0 after a second, with the results of case cpu."""
    results = (GOLDEN / "stress_ng" / version / "cpu" / "stress-ng.yaml").read_text() if yaml is None else yaml
    lay_out(folder, {"stress-ng.yaml": results})
    return StressNg().parse(trial("stress_ng", params), ended(folder, stderr=log, **how), folder)


def test_bogo_operations_and_times_are_those_of_the_yaml(version: str) -> None:
    found = captured("stress_ng", version, "cpu")
    assert (found.status, found.reason, found.claims) == (OK, "", ())
    assert found.metrics["workers_started"] == 2
    assert found.metrics["bogo_ops"] / found.metrics["real_time"] == pytest.approx(
        found.metrics["bogo_ops_real_rate"], rel=0.01
    )
    spent_s = found.metrics["usr_time"] + found.metrics["sys_time"]
    assert found.metrics["bogo_ops"] / spent_s == pytest.approx(found.metrics["bogo_ops_cpu_rate"], rel=0.01)
    assert found.metrics["cpu_used"] == pytest.approx(100 * spent_s / found.metrics["real_time"] / 2, rel=0.01)
    assert found.metrics["rss_max"] % 1024 == 0


def test_processes_that_the_witness_saw_are_told_and_nothing_is_made_up(version: str, tmp_path: Path) -> None:
    params = {**CPU, "timeout": "1s"}
    seen = read(version, tmp_path, params, processes=7, threads=4, most_alive=9)
    assert seen.status == OK, seen.reason
    told = {name: seen.metrics[name] for name in ("processes", "sub_processes", "threads", "tasks_at_once")}
    assert told == {"processes": 7, "sub_processes": 4, "threads": 4, "tasks_at_once": 9}
    assert all(metrics.known(name) for name in told)
    unseen = read(version, tmp_path, params)
    assert not unseen.metrics.keys() & told.keys() and unseen.metrics["workers_started"] == 2


@cases("drivers", "stress_ng_outcomes", having="status")
def test_what_is_no_measurement_fails_with_the_reason(version: str, tmp_path: Path, case: dict[str, Any]) -> None:
    lines = [line.partition(": ") for line in case.get("log", ())]
    log = "".join(f"stress-ng: {kind}:  [7] {text}\n" for kind, _, text in lines)
    how = {name: case[name] for name in ("exit_code", "timed_out", "signal") if name in case}
    if "signal" in how:
        how["exit_code"] = None
    found = read(version, tmp_path, {**CPU, **case.get("params", {})}, log, case.get("yaml"), **how)
    assert (found.status, bool(found.reason)) == (case["status"], case["status"] != OK), found.reason
    assert case.get("says", "") in found.reason
    codes = {warning.code for warning in found.warnings}
    assert codes == set(case.get("warns", codes))


@cases("drivers", "stress_ng_outcomes", having="key")
def test_names_of_other_metrics_read_well(case: dict[str, Any]) -> None:
    assert stressor_metrics.slug(case["key"]) == case["name"]


def test_a_stressor_that_ended_early_says_when(version: str, tmp_path: Path) -> None:
    took = units.format_duration(captured("stress_ng", version, "cpu").metrics["real_time"])
    assert f"ended after {took} of 10 s" in read(version, tmp_path, {**CPU, "timeout": "10s"}).reason


def test_a_run_without_files_failed(tmp_path: Path) -> None:
    missing = ended(tmp_path, stdout="", stderr="")
    (tmp_path / "stdout").unlink()
    assert StressNg().parse(trial("stress_ng", CPU), missing, tmp_path).status == FAILED
    assert StressNg().parse(trial("stress_ng", CPU), None, tmp_path).reason == "stress-ng was not started"


def test_files_left_behind_are_named(version: str, tmp_path: Path) -> None:
    (tmp_path / "tmp-stress-ng-hdd-7-0").mkdir()
    (warning,) = read(version, tmp_path, CPU, exit_code=2).warnings
    assert warning.code == "files-left-behind" and "tmp-stress-ng-hdd-7-0" in warning.text


def test_damaged_results_never_raise(version: str, tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    text = (GOLDEN / "stress_ng" / version / "zlib" / "stress-ng.yaml").read_text()
    for _ in range(100):
        cut = sorted(choose.randrange(len(text)) for _ in range(2))
        damaged = text[: cut[0]] + choose.choice(["", "\0", ": ", "\n    - stressor: zlib\n"]) + text[cut[1] :]
        found = read(version, tmp_path, {"stressor": "zlib", "timeout": "1s"}, yaml=damaged)
        assert found.status in (OK, FAILED) and (found.status == OK) == (not found.reason)


def test_two_metrics_that_are_described_alike_are_both_kept() -> None:
    yaml = "metrics:\n    - stressor: cpu\n      a-rate: 1.0\n      a-rate: 2.0\n"
    assert stressor_metrics.yaml_metrics(yaml)["cpu"] == {"extra.a_rate": 1.0, "extra.a_rate_2": 2.0}


def test_only_forgotten_objects_of_the_trial_are_removed_from_shared_memory(tmp_path: Path) -> None:
    folder, proc = tmp_path / "shm", tmp_path / "proc"
    (proc / "21").mkdir(parents=True)
    others = {"stress-ng-21-1a-c99ca433": 0, "stress-ng-20-1a": 0, "mine": 0}
    forgotten = folder / "stress-ng-20-1a-c99ca433"
    lay_out(folder, {forgotten.name: 4096, **others, "stress-ng-23-0-0": {"link": forgotten}})
    (folder / "stress-ng-22-0-0").mkdir()
    since_unix_s = forgotten.stat().st_ctime
    assert remove_shared_memory(since_unix_s + 1, folder, proc) == []
    (warning,) = remove_shared_memory(since_unix_s, folder, proc)
    assert warning.text == f"stress-ng left 1 object of shared memory (4 KiB) in {folder}; removed"
    assert set(os.listdir(folder)) == {"stress-ng-22-0-0", "stress-ng-23-0-0", *others}
    assert remove_shared_memory(0.0, tmp_path / "none") == []


# The installed one: what the driver emits is taken, and what it foretells happens


@pytest.fixture(scope="module")
def installed() -> StressNg:
    """A driver that has asked the installed stress-ng for its offer."""
    made: StressNg = asked("stress_ng")
    return made


@pytest.mark.stress
def test_the_offer_of_the_installed_one_is_found(installed: StressNg) -> None:
    installed.validate({"stressor": "cpu", "cpu-method": "int16", "sched": "rr", "sched-prio": 6}, {})
    installed.validate({"stressor": "l1cache", "l1cache-sets": 64}, {})
    installed.validate({"stressor": "zlib", "zlib-mem-level": 9}, {})
    installed.validate({"stressor": "shm", "workers": 3}, {})
    installed.validate({"stressor": "cpu", "sched": "deadline", "sched-deadline": 100000}, {})


@pytest.mark.stress
def test_a_load_of_the_processor_is_measured(installed: StressNg, tmp_path: Path) -> None:
    params = {"stressor": "cpu", "workers": 2, "timeout": 60, "cpu-ops": 20, "cpu-method": "int64", "cpu-load": 20}
    installed.validate(params, {})
    parsed, _ = run(installed, params, NOWHERE, tmp_path)
    assert parsed.status == OK, parsed.reason
    assert parsed.metrics["bogo_ops"] > 0 and parsed.metrics["workers_started"] == 2
    assert parsed.metrics["context_switches"] > 0


@pytest.mark.stress
def test_files_are_made_in_the_folder_and_removed(installed: StressNg, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    params = {"stressor": "hdd", "timeout": 60, "hdd-bytes": "4MiB", "hdd-ops": 50}
    parsed, _ = run(installed, params, Load("folder", folder, 0, read_only=False), tmp_path / "raw")
    assert parsed.status == OK, parsed.reason
    assert list(folder.iterdir()) == [] and not list((tmp_path / "raw").glob("tmp-*"))


@pytest.mark.stress
def test_a_stressor_that_is_foretold_to_be_impossible_is_skipped(installed: StressNg, tmp_path: Path) -> None:
    foretold = {name: installed.validate({"stressor": name}, {}) for name in ("rdrand", "ioport", "rawdev", "gpu")}
    foretold["plugin"] = installed.validate({"stressor": "plugin"}, {})
    absent = [name for name, warned in foretold.items() if any(each.code == "will-be-skipped" for each in warned)]
    assert absent, "a plugin without its library can never run"
    for name in absent:
        parsed, _ = run(installed, {"stressor": name, "timeout": 1}, NOWHERE, tmp_path / name)
        assert parsed.status == SKIPPED, f"{name}: {parsed.status}: {parsed.reason}"


def leads_to(link: Path, folder: Path) -> bool:
    """Its workers give themselves other names, but stay in the folder that they were started in."""
    try:
        return link.readlink() == folder
    except OSError:
        return False


@pytest.mark.stress
def test_workers_do_not_outlive_a_trial_that_took_too_long(installed: StressNg, tmp_path: Path) -> None:
    params = {"stressor": "vm", "workers": 2, "vm-bytes": "1m", "timeout": 300}
    parsed, outcome = run(installed, params, NOWHERE, tmp_path, timeout_s=0.5)
    assert outcome.timed_out and "raise run.timeout" in parsed.reason
    until(lambda: not any(leads_to(Path(f"/proc/{pid}/cwd"), tmp_path) for pid in process_table.everyone()))


def begun_workers(pid: int) -> list[int]:
    """Children of stress-ng that have come to their load: each then calls itself `stress-ng-cpu [run]`."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            found += [int(child)] * (b"[run]" in Path(f"/proc/{child}/cmdline").read_bytes())
        except OSError:
            continue  # one that has ended meanwhile
    return found


@pytest.mark.stress
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_that_others_end_is_a_failure(installed: StressNg, tmp_path: Path, number: signal.Signals) -> None:
    def end_the_workers(pid: int) -> None:
        until(lambda: len(begun_workers(pid)) == 2)
        first, second = begun_workers(pid)
        os.kill(first, number)
        os.kill(second, signal.SIGALRM)  # as stress-ng itself ends it when its time is over

    def on_held(pid: int) -> None:
        threading.Thread(target=end_the_workers, args=(pid,)).start()

    params = {"stressor": "cpu", "workers": 2, "timeout": 300}
    parsed, outcome = run(installed, params, NOWHERE, tmp_path, on_held=on_held)
    assert parsed.status == FAILED and "ended after" not in parsed.reason, parsed
    assert outcome.leftovers == ()
