"""What the driver stress_ng knows of stress-ng's offer, takes from a study, and refuses before a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ioassay import metrics
from ioassay.drivers.stress_ng import StressNg, stressors
from ioassay.errors import StudyError, ToolError
from ioassay.records.record import FAILED, SKIPPED
from ioassay.roles import NOTHING, WRITE, Load, Trial

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


@pytest.mark.parametrize(
    ("version", "words"), [("stress-ng, version 0.14.03", "0.15 or newer"), ("stress 1.0.7", "wanted a line")]
)
def test_a_version_that_cannot_be_read_is_refused(version: str, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        StressNg().configure(version, {})


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


@pytest.mark.parametrize(
    ("params", "key", "words"),
    [
        ({}, "stressor", "wanted the name of one stressor"),
        ({"stressor": ["cpu", "vm"]}, "stressor", "one stressor a trial"),
        ({"stressor": "cpus"}, "stressor", "did you mean 'cpu'"),
        ({"stressor": "--cpu"}, "stressor", "wanted the name"),
        ({"stressor": "cpu", "workers": "many"}, "workers", "is 'many'; wanted a whole number"),
        ({"stressor": "cpu", "workers": -1}, "workers", "whole number"),
        ({"stressor": "cpu", "workers": True}, "workers", "whole number"),
        ({"stressor": "cpu", "workers": 2.5}, "workers", "whole number"),
        ({"stressor": "cpu", "timeout": "soon"}, "timeout", "not a duration"),
        ({"stressor": "cpu", "timeout": "500ms"}, "timeout", "whole seconds"),
        ({"stressor": "cpu", "timeout": 0}, "timeout", "whole seconds"),
        ({"stressor": "cpu", "timeout": True}, "timeout", "whole seconds"),
        ({"stressor": "cpu", "vm": 2}, "vm", "one stressor a trial"),
        ({"stressor": "cpu", "all": 2}, "all", "one stressor a trial"),
        ({"stressor": "cpu", "cpu-metod": "int64"}, "cpu-metod", "did you mean 'cpu-method'"),
        ({"stressor": "cpu", "cpu-method": "int63"}, "cpu-method", "did you mean 'int64'"),
        ({"stressor": "hdd", "hdd-opts": "direct,later"}, "hdd-opts", "is 'direct,later'"),
        ({"stressor": "cpu", "cpu-load": "half"}, "cpu-load", "number"),
        ({"stressor": "zlib", "zlib-mem-level": "most"}, "zlib-mem-level", "wanted a number"),
        ({"stressor": "cpu", "sched-prio": "high"}, "sched-prio", "wanted a number"),
        ({"stressor": "cpu", "cpu-method": True}, "cpu-method", "is true; wanted a value"),
        ({"stressor": "cpu", "cpu-load": [1, 2]}, "cpu-load", "wanted a number"),
        ({"stressor": "hdd", "temp-path": "/"}, "temp-path", "kind = 'folder'"),
        ({"stressor": "cpu", "yaml": "mine"}, "yaml", "the lab reads"),
        ({"stressor": "cpu", "ignite-cpu": True}, "ignite-cpu", "could not put them back"),
    ],
)
def test_what_is_wrong_is_refused_by_its_key(driver: StressNg, params: dict[str, Any], key: str, words: str) -> None:
    error = refused(driver, params)
    assert error.key == f"params.{key}"
    assert words in str(error)


@pytest.mark.parametrize("stressor", ["watchdog", "cpu-online", "sysinval", "bad-altstack", "reboot"])
def test_a_stressor_that_can_harm_the_host_needs_stress_ngs_own_flag(driver: StressNg, stressor: str) -> None:
    assert "pathological = true" in str(refused(driver, {"stressor": stressor}))
    driver.validate({"stressor": stressor, "pathological": True}, {})
    assert "--pathological" in argv(driver, {"stressor": stressor, "pathological": True})


def test_all_that_stress_ng_disables_is_refused(driver: StressNg) -> None:
    for stressor in stressors.read(ANSWERS).pathological:
        refused(driver, {"stressor": stressor})


def test_what_cannot_run_here_is_said_before_the_run(driver: StressNg) -> None:
    (warning,) = driver.validate({"stressor": "ioport"}, {})
    assert warning.code == "will-be-skipped" and "port 0x80" in warning.text


@pytest.mark.parametrize(
    ("stressor", "access"),
    [
        *(("cpu", NOTHING), ("l1cache", NOTHING), ("zlib", NOTHING), ("pipe", NOTHING), ("shm", NOTHING)),
        *(("ioprio", WRITE), ("netdev", NOTHING), ("hdd", WRITE), ("iomix", WRITE), ("io", WRITE), ("dir", WRITE)),
    ],
)
def test_only_stressors_of_the_file_system_touch_the_target(driver: StressNg, stressor: str, access: str) -> None:
    params = {"stressor": stressor}
    assert driver.access(params) == access
    warned = [warning.code for warning in driver.validate(params, {"kind": "null"})]
    assert warned == (["files-beside-run"] if access == WRITE else [])
    assert driver.validate(params, {"kind": "folder"}) == []
    assert driver.estimate(params, {}).written_bytes == (None if access == WRITE else 0)


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


def test_a_disk_or_a_file_is_no_target(driver: StressNg) -> None:
    assert refused(driver, {"stressor": "hdd"}, {"kind": "device"}).key == "target.kind"


def test_a_device_that_an_option_names_is_examined_first(driver: StressNg) -> None:
    assert [str(touch.path) for touch in driver.touches({"stressor": "dev", "dev-file": "/dev/null"})] == ["/dev/null"]
    assert driver.touches({"stressor": "cpu"}) == ()
