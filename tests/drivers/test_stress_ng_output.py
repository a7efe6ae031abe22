"""What stress-ng left, read: real captured outputs, and outputs that no measurement leaves."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ioassay import metrics, units
from ioassay.drivers.stress_ng import StressNg
from ioassay.formats import stress_ng_yaml
from ioassay.records.record import FAILED, OK, SKIPPED
from ioassay.roles import Outcome, Parsed, Trial

GOLDEN = Path(__file__).parents[1] / "golden" / "stress_ng"
VERSIONS = sorted(path.name for path in GOLDEN.glob("[0-9]*"))
pytestmark = pytest.mark.parametrize("version", VERSIONS)


def trial(params: dict[str, Any]) -> Trial:
    return Trial("t", "golden", "stress_ng", {}, params, {}, {}, 0, 1, 0)


def parsed(version: str, name: str) -> Parsed:
    """The driver's reading of a captured case."""
    folder = GOLDEN / version / name
    case = json.loads((folder / "case.json").read_text())
    outcome = Outcome(**case["outcome"], stdout=folder / "stdout", stderr=folder / "stderr")
    return StressNg().parse(trial(case["params"]), outcome, folder)


def read(
    version: str, folder: Path, params: dict[str, Any], log: str = "", yaml: str | None = None, **how: Any
) -> Parsed:
    """The reading of a made case; by default stress-ng ended with 0 after a second, with the results of case cpu."""
    (folder / "stderr").write_text(log)
    text = (GOLDEN / version / "cpu" / "stress-ng.yaml").read_text() if yaml is None else yaml
    (folder / "stress-ng.yaml").write_text(text)
    ended = {"exit_code": 0, "signal": None, "timed_out": False, "started_unix_s": 0.0, "duration_s": 1.0, **how}
    return StressNg().parse(trial(params), Outcome(**ended, stdout=folder / "stdout", stderr=folder / "stderr"), folder)


def test_bogo_operations_and_times_are_those_of_the_yaml(version: str) -> None:
    found = parsed(version, "cpu")
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
    params = {"stressor": "cpu", "workers": 2, "timeout": "1s"}
    seen = read(version, tmp_path, params, processes=7, threads=4, most_alive=9)
    assert seen.status == OK, seen.reason
    told = {name: seen.metrics[name] for name in ("processes", "sub_processes", "threads", "tasks_at_once")}
    assert told == {"processes": 7, "sub_processes": 4, "threads": 4, "tasks_at_once": 9}
    assert all(metrics.known(name) for name in told)
    unseen = read(version, tmp_path, params)
    assert not unseen.metrics.keys() & told.keys() and unseen.metrics["workers_started"] == 2


CPU = {"stressor": "cpu", "workers": 2, "timeout": "2s"}
LINE = "stress-ng: {}:  [7] {}\n"


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        (1, FAILED, "refused its options"),
        (2, FAILED, "says that the stressor failed (exit status 2): cpu: the checksum is wrong"),
        (3, FAILED, "want of resources"),
        (4, SKIPPED, "has not implemented"),
        (5, FAILED, "a signal ended a worker"),
        (6, FAILED, "ended in an unexpected way"),
        (7, FAILED, "cannot be trusted"),
        (99, FAILED, "exit status 99"),
    ],
)
def test_every_exit_status_has_its_words(version: str, tmp_path: Path, code: int, status: str, words: str) -> None:
    log = LINE.format("fail", "cpu: the checksum is wrong")
    found = read(version, tmp_path, CPU, log, exit_code=code)
    assert found.status == status and words in found.reason


def test_want_of_resources_is_skipped_only_where_stress_ng_says_that_it_skips(version: str, tmp_path: Path) -> None:
    log = LINE.format("info", "cpu: system call not implemented, skipping stressor")
    assert read(version, tmp_path, CPU, log, yaml="", exit_code=3).status == SKIPPED
    log = LINE.format("fail", "cpu: cannot write: no space left on device")
    assert read(version, tmp_path, CPU, log, yaml="", exit_code=3).status == FAILED


def test_what_stress_ng_skips_after_some_workers_had_begun_is_skipped(version: str, tmp_path: Path) -> None:
    log = LINE.format("info", "cpu: cannot test accounting on available devices, skipping stressor")
    assert read(version, tmp_path, CPU, log, exit_code=3).status == SKIPPED
    assert read(version, tmp_path, CPU, log, exit_code=2).status == FAILED


def test_a_complaint_of_several_workers_is_quoted_once(version: str, tmp_path: Path) -> None:
    log = LINE.format("fail", "cpu: is wrong") * 3 + LINE.format("fail", "cpu: is odd")
    found = read(version, tmp_path, CPU, log, exit_code=2)
    assert found.reason.endswith("(exit status 2): cpu: is wrong; cpu: is odd")


def test_a_trial_that_took_too_long_says_what_to_raise(version: str, tmp_path: Path) -> None:
    found = read(version, tmp_path, CPU, timed_out=True, exit_code=None, signal=9)
    assert found.status == FAILED and "raise run.timeout" in found.reason


def test_a_stressor_that_ends_early_failed_unless_it_had_its_operations(version: str, tmp_path: Path) -> None:
    took = units.format_duration(parsed(version, "cpu").metrics["real_time"])
    found = read(version, tmp_path, {**CPU, "timeout": "10s"})
    assert found.status == FAILED and f"ended after {took} of 10 s" in found.reason
    assert read(version, tmp_path, {**CPU, "timeout": "10s", "cpu-ops": 5}).status == OK


def test_nothing_printed_is_no_measurement(version: str, tmp_path: Path) -> None:
    found = read(version, tmp_path, CPU, yaml="")
    assert found.status == FAILED and "wrote no results of 'cpu'" in found.reason
    (tmp_path / "stress-ng.yaml").unlink()
    missing = Outcome(0, None, False, 0.0, 1.0, tmp_path / "nowhere", tmp_path / "nowhere")
    assert StressNg().parse(trial(CPU), missing, tmp_path).status == FAILED
    assert StressNg().parse(trial(CPU), None, tmp_path).reason == "stress-ng was not started"


def test_results_of_another_stressor_are_not_taken(version: str, tmp_path: Path) -> None:
    assert "no results of 'vm'" in read(version, tmp_path, {"stressor": "vm", "timeout": 1}).reason


def test_fewer_workers_an_over_run_and_complaints_are_warnings(version: str, tmp_path: Path) -> None:
    log = LINE.format("debug", "cpu: started [8] (instance 0)") + LINE.format("warn", "it was slow")
    found = read(version, tmp_path, {**CPU, "timeout": "1s", "cpu-ops": 9}, log)
    assert {warning.code for warning in found.warnings} == {"fewer-workers-started", "stress-ng-note"}
    yaml = "metrics:\n    - stressor: cpu\n      bogo-ops: 5\n      wall-clock-time: 9.5\n"
    assert {warning.code for warning in read(version, tmp_path, CPU, yaml=yaml).warnings} == {"over-run"}


def test_files_left_behind_are_named(version: str, tmp_path: Path) -> None:
    (tmp_path / "tmp-stress-ng-hdd-7-0").mkdir()
    (warning,) = read(version, tmp_path, CPU, exit_code=2).warnings
    assert warning.code == "files-left-behind" and "tmp-stress-ng-hdd-7-0" in warning.text


@pytest.mark.parametrize("number", ["nan", "inf", "many", "1e999"])
def test_a_number_that_is_none_fails_the_trial(version: str, tmp_path: Path, number: str) -> None:
    yaml = f"metrics:\n    - stressor: cpu\n      bogo-ops: {number}\n"
    found = read(version, tmp_path, CPU, yaml=yaml)
    assert found.status == FAILED and "wanted a number" in found.reason


def test_damaged_results_never_raise(version: str, tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    text = (GOLDEN / version / "zlib" / "stress-ng.yaml").read_text()
    for _ in range(300):
        cut = sorted(choose.randrange(len(text)) for _ in range(2))
        damaged = text[: cut[0]] + choose.choice(["", "\0", ": ", "\n    - stressor: zlib\n"]) + text[cut[1] :]
        found = read(version, tmp_path, {"stressor": "zlib", "timeout": "1s"}, yaml=damaged)
        assert found.status in (OK, FAILED) and (found.status == OK) == (not found.reason)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("mbsec-compression-rate", "compression_rate_mb_per_s"),
        ("mb-per-sec-copy-rate", "copy_rate_mb_per_s"),
        ("-compression-ratio", "compression_ratio"),
        ("nanosecs-per-mlock-call", "nanosecs_per_mlock_call"),
        ("mb-written-per-sec", "written_mb_per_s"),
        ("ns-duration-per-schedyield-call", "nanosecs_per_schedyield_call"),
        ("nanosecs-to-start-a-pthread", "to_start_a_pthread_in_nanosecs"),
        ("-of-2048-pthreads-created", "percent_of_2048_pthreads_created"),
        ("%", "unnamed"),
    ],
)
def test_names_of_other_metrics_read_well(version: str, key: str, name: str) -> None:
    assert stress_ng_yaml.slug(key) == name


def test_two_metrics_that_are_described_alike_are_both_kept(version: str) -> None:
    yaml = "metrics:\n    - stressor: cpu\n      a-rate: 1.0\n      a-rate: 2.0\n"
    found = stress_ng_yaml.parse(yaml, "cpu")
    assert found is not None and found.metrics == {"extra.a_rate": 1.0, "extra.a_rate_2": 2.0}
