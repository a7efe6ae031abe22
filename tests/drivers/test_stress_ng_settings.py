"""What the driver stress_ng knows of stress-ng's offer, takes from a study, and refuses before a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ioassay import metrics
from ioassay.drivers.stress_ng import StressNg, stressors
from ioassay.errors import StudyError
from ioassay.records.record import FAILED, SKIPPED
from ioassay.roles import Load, Trial

GOLDEN = Path(__file__).parents[1] / "golden" / "stress_ng"
VERSION = "stress-ng, version 0.15.06 (gcc 12.2.0, x86_64 Linux)"
ANSWERS = json.loads((GOLDEN / "0.15.06" / "probes.json").read_text())


@pytest.fixture
def driver() -> StressNg:
    made = StressNg()
    made.configure(VERSION, ANSWERS)
    return made


def refused(driver: StressNg, params: dict[str, Any], target: dict[str, Any] | None = None) -> StudyError:
    with pytest.raises(StudyError) as caught:
        driver.validate(params, target or {})
    return caught.value


def argv(driver: StressNg, params: dict[str, Any], load: Load | None = None, raw: str = "/raw") -> list[str]:
    load = load or Load("null", None, 0, False)
    command = driver.command(Trial("t", "s", "stress_ng", {}, params, {}, {}, 0, 7, 0), load, Path(raw))
    assert command is not None
    return list(command.argv)


def test_the_offer_has_what_the_parser_takes_and_not_what_only_the_help_says() -> None:
    found = stressors.read(ANSWERS)
    assert {"cpu", "l1cache", "io-uring", "pipeherd"} <= set(found.stressors)
    assert {"qsort-method", "shm-objs", "eventfd-nonblock", "cpu-load", "zlib-mem-level"} <= set(found.options)
    assert not {"shm-segs", "eventfs-nonblock"} & set(found.options)  # of its --help, which getopt does not know
    assert found.choices["sched"] == ["batch", "deadline", "fifo", "idle", "other", "rr"]
    assert "int64" in found.choices["cpu-method"] and "direct" in found.choices["hdd-opts"]
    assert "hdd" in found.classes["io"] and "pipeherd" in found.classes["pipe"]


def test_the_offer_says_what_is_disabled_and_what_cannot_run_with_its_own_words() -> None:
    found = stressors.read(ANSWERS)
    assert {"cpu-online", "watchdog", "sysinval"} <= set(found.pathological)
    assert found.absent["ioport"].startswith("ioport cannot access port 0x80")
    assert "without root privilege" in found.absent["bad-ioctl"]  # which it calls bad_ioctl
    assert "MSR" in found.absent["smi"]  # disabled, and impossible as well
    assert not {"watchdog", "cpu", "zlib", "io-uring"} & set(found.absent)


def test_the_summary_of_newer_versions_is_no_refusal_where_nothing_was_skipped() -> None:
    passed = ["skipped: 0", "passed: 1: netdev (1)", "failed: 0", "metrics untrustworthy: 0"]
    assert stressors.hopeless(passed) == ""
    assert stressors.hopeless(["skipped: 1: ioport (1)", "passed: 0"]) == "skipped: 1: ioport (1)"
    assert stressors.hopeless(["skipped: 1: ioport (1)", "ioport: not permitted"]) == "ioport: not permitted"


def test_the_help_serves_where_the_parser_does_not_list_its_options() -> None:
    silent = {name: answer for name, answer in ANSWERS.items() if not name.startswith("options:")}
    assert stressors.read(silent).options["cpu-method"] == "M"


def test_an_empty_answer_offers_nothing_and_refuses_nothing() -> None:
    driver = StressNg()
    driver.configure(VERSION, {})
    assert driver.validate({"stressor": "whatever", "whatever-size": "3k"}, {}) == []


def test_options_go_by_their_own_names_and_flags_as_true(driver: StressNg) -> None:
    params = {
        "stressor": "cache",
        "workers": 4,
        "timeout": "2m",
        "cache-level": 2,
        "cache-fence": True,
        "verify": False,
    }
    made = argv(driver, params)
    assert made[:5] == ["stress-ng", "--cache", "4", "--cache-level=2", "--cache-fence"]
    assert "--timeout=120" in made and "--verify" not in made
    assert {"--yaml=/raw/stress-ng.yaml", "--temp-path=/raw", "--seed=7", "--metrics"} <= set(made)


def test_names_may_have_underscores_and_sizes_may_be_written_as_elsewhere(driver: StressNg) -> None:
    assert "--vm-bytes=64M" in argv(driver, {"stressor": "vm", "vm_bytes": "64MiB"})


def test_a_seed_of_the_study_stays(driver: StressNg) -> None:
    assert [word for word in argv(driver, {"stressor": "cpu", "seed": 3}) if "seed" in word] == ["--seed=3"]


def test_files_go_to_a_folder_that_is_the_target(driver: StressNg) -> None:
    load = Load("folder", Path("/data"), 0, False)
    assert "--temp-path=/data" in argv(driver, {"stressor": "hdd"}, load)


def test_without_a_timeout_it_runs_ten_seconds_or_to_the_number_of_its_operations(driver: StressNg) -> None:
    assert "--timeout=10" in argv(driver, {"stressor": "pipe"})
    assert not any(word.startswith("--timeout") for word in argv(driver, {"stressor": "pipe", "pipe-ops": 100}))
    assert 3 < driver.estimate({"stressor": "pipe", "timeout": "3s"}, {}).seconds < 4


@pytest.mark.parametrize("stressor", ["watchdog", "cpu-online", "sysinval", "bad-altstack", "reboot"])
def test_a_stressor_that_can_harm_the_host_needs_stress_ngs_own_flag(driver: StressNg, stressor: str) -> None:
    assert "pathological = true" in str(refused(driver, {"stressor": stressor}))
    driver.validate({"stressor": stressor, "pathological": True}, {})
    assert "--pathological" in argv(driver, {"stressor": stressor, "pathological": True})


def test_all_that_stress_ng_disables_is_refused(driver: StressNg) -> None:
    for stressor in stressors.read(ANSWERS).pathological:
        refused(driver, {"stressor": stressor})


@pytest.mark.parametrize(
    ("workers", "more", "room"),
    [
        *((3, {"sched": "fifo"}, True), (4, {"sched": "rr"}, False), (0, {"sched": "fifo"}, False)),
        *((4, {"sched": "batch"}, True), (4, {}, True), (9, {"sched": "rr", "taskset": "0,1"}, True)),
        *((9, {"sched": "rr", "taskset": "0-3"}, False), (9, {"sched": "rr", "taskset": "all"}, False)),
    ],
)
def test_real_time_workers_leave_a_processor_to_the_lab(workers: int, more: dict[str, str], room: bool) -> None:
    driver = StressNg(processors=4)
    driver.configure(VERSION, ANSWERS)
    trial = Trial("t", "s", "stress_ng", {}, {"stressor": "cpu", "workers": workers, **more}, {}, {}, 0, 7, 0)
    assert (driver.command(trial, Load("null", None, 0, False), Path("/raw")) is not None) == room
    assert [warning.code for warning in driver.validate(trial.params, {})] == ([] if room else ["will-be-skipped"])
    parsed = driver.parse(trial, None, Path("/raw"))
    assert parsed.status == (FAILED if room else SKIPPED)
    assert room or "would leave none of 4 processors" in parsed.reason


def test_on_a_machine_of_one_processor_no_real_time_worker_runs() -> None:
    trial = Trial("t", "s", "stress_ng", {}, {"stressor": "cpu", "sched": "rr"}, {}, {}, 0, 7, 0)
    assert StressNg(processors=1).parse(trial, None, Path("/raw")).status == SKIPPED


def test_no_metric_bears_the_name_of_a_parameter() -> None:
    """A study could not vary it."""
    assert not metrics.known("workers") and not metrics.known("timeout") and not metrics.known("stressor")
    assert [name for name in stressors.read(ANSWERS).options if metrics.known(name)] == []


def test_a_device_that_an_option_names_is_examined_first(driver: StressNg) -> None:
    assert [str(touch.path) for touch in driver.touches({"stressor": "dev", "dev-file": "/dev/null"})] == ["/dev/null"]
    assert driver.touches({"stressor": "cpu"}) == ()
