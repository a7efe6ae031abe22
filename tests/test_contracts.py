"""What every driver, target and monitor promises, whichever it is: one set of tests over the lists.

What a single one does with its own tool or device is tested beside it; tests/test_complete.py sees that it is.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ioassay import metrics, monitors, roles
from ioassay.drivers import DRIVERS, driver
from ioassay.errors import StudyError, UsageError
from ioassay.monitors import MONITORS, monitor
from ioassay.records import record
from ioassay.roles import Consent, Load, Outcome, Trial
from ioassay.targets import TARGETS, target

EVERY_DRIVER = pytest.mark.parametrize("name", DRIVERS)
EVERY_MONITOR = pytest.mark.parametrize("name", MONITORS)

# What a tool may leave when it was killed, when the disk was full, or when it is another tool.
GARBAGE = {
    "nothing": b"",
    "a line": b"error: no such engine\n",
    "half of it": b'{"fio version" : "fio-3.33", "jobs" : [ { "jobname" : "a", "read" : {',
    "an empty object": b"{}",
    "another object": b'{"jobs": [], "fio version": 3, "timestamp": null}',
    "a list": b"[1, 2, 3]",
    "no text": bytes(range(256)) * 16,
}

# What a driver cannot do without.
LEAST = {"db_bench": {"benchmarks": "fillseq"}, "stress_ng": {"stressor": "cpu"}}


def trial(name: str) -> Trial:
    return Trial(
        id="0" * 16,
        study="contract",
        driver=name,
        point={},
        params=LEAST.get(name, {}),
        target={},
        run={},
        repetition=0,
        seed=1,
        order=0,
    )


@EVERY_DRIVER
def test_a_driver_says_who_it_is_and_what_it_needs(name: str) -> None:
    made = driver(name)
    assert made.name == name
    assert isinstance(made.measures, bool)
    tool = made.tool()
    assert tool is None or (tool.executable and tool.package and tool.minimum and tool.version_argv)


@EVERY_DRIVER
@pytest.mark.parametrize("params", [{}, {"direct": None, "ioengine": 3}, {"job": "/no/such/file", "tests": {}}])
def test_a_driver_states_facts_whatever_the_parameters_of_an_old_run_are(name: str, params: dict[str, object]) -> None:
    made = driver(name)
    assert isinstance(made.page_cache_remedy(params), str)
    assert not (made.deterministic and made.measures)
    assert all(metrics.known(response) for response in made.responses)


@EVERY_DRIVER
@pytest.mark.parametrize("left", GARBAGE)
@pytest.mark.parametrize("exit_code", [0, 1, None])
def test_output_that_cannot_be_believed_is_a_failed_trial_with_a_reason(
    name: str, left: str, exit_code: int | None, tmp_path: Path
) -> None:
    made = driver(name)
    if made.tool() is None:
        return  # it reads no output
    command = made.command(trial(name), Load("file", tmp_path / "data", 1 << 20, False), tmp_path)
    assert command is not None and command.argv and command.timeout_s > 0
    stdout, stderr = tmp_path / "stdout", tmp_path / "stderr"
    stdout.write_bytes(GARBAGE[left])
    stderr.write_bytes(b"")
    outcome = Outcome(exit_code, 9 if exit_code is None else None, False, 0.0, 1.0, stdout, stderr)
    parsed = made.parse(trial(name), outcome, tmp_path)
    assert parsed.status == record.FAILED
    assert parsed.reason


@EVERY_DRIVER
def test_a_driver_names_nothing_outside_the_trial_unless_it_is_asked_to(name: str) -> None:
    made = driver(name)
    assert made.access({}) in (roles.READ, roles.WRITE, roles.NOTHING)
    assert list(made.touches({})) == []


# Loads that run for a time, and how long.
TIMED = {
    "fio": ({"rw": "read", "bs": "4k", "runtime": "8s"}, {"kind": "file", "path": "data", "size": "1MiB"}),
    "stress_ng": ({"stressor": "cpu", "timeout": "8s"}, {}),
    "db_bench": ({"benchmarks": "readrandom", "duration": 8}, {"kind": "folder", "path": "."}),
    "null": ({"sleep": "8s"}, {}),
    "null_pure": ({"sleep": 8}, {}),
}


@EVERY_DRIVER
def test_a_load_that_runs_for_a_time_can_be_shortened_and_no_other(name: str) -> None:
    made = driver(name)
    params, where = TIMED.get(name, (LEAST.get(name, {}), {}))
    short = made.shortened(params, 0.25)
    assert (short is not None) == (name in TIMED)
    if short is not None:
        made.validate(short, where)
        assert made.estimate(short, where).seconds == pytest.approx(made.estimate(params, where).seconds - 6, abs=0.1)
        assert set(short) == set(params)
        assert (
            made.shortened(
                {**params, **{key: 1 for key in ("runtime", "timeout", "sleep", "duration") if key in params}}, 0.25
            )
            is None
        )


def settings(kind: str, folder: Path) -> dict[str, object]:
    """The least that a study says of a target of this kind."""
    least = {
        "null": {},
        "file": {"path": str(folder / "data"), "size": "1MiB"},
        "virtual": {"size": "1MiB", "model": "none"},
        "nvmevirt": {
            "module": str(folder / "nvmev.ko"),
            "memmap_start": "1GiB",
            "memmap_size": "512MiB",
            "cpus": [0, 1],
        },
    }
    return {"kind": kind, **least.get(kind, {"path": str(folder / "data")})}


@pytest.mark.parametrize("kind", TARGETS)
def test_a_target_refuses_a_setting_that_it_does_not_know(kind: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no_such_setting"):
        target({**settings(kind, tmp_path), "no_such_setting": 1}, Consent())


@pytest.mark.parametrize("kind", TARGETS)
def test_a_target_that_was_only_made_has_touched_nothing(kind: str, tmp_path: Path) -> None:
    made = target(settings(kind, tmp_path), Consent())
    assert made.kind == kind
    made.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", TARGETS)
def test_a_target_that_nothing_is_done_to_needs_nothing(kind: str, tmp_path: Path) -> None:
    made = target(settings(kind, tmp_path), Consent())
    assert list(made.inspect(roles.NOTHING)) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [kind for kind in TARGETS if kind not in ("null", "file", "virtual")])
def test_what_a_target_lacks_is_said_before_anything_is_touched(kind: str, tmp_path: Path) -> None:
    made = target(settings(kind, tmp_path), Consent())
    with pytest.raises(StudyError, match=r"no such|does not exist|is no file|takes root") as found:
        made.inspect(roles.WRITE)
    assert (found.value.key or "").startswith("target.")
    assert list(tmp_path.iterdir()) == []


@EVERY_MONITOR
def test_a_monitor_reads_numbers_of_fields_that_are_documented(name: str) -> None:
    made = monitor(name)
    assert made.name == name
    for field_name, value in made.read().items():
        assert monitors.field(name, field_name) is not None, f"{field_name} is not in FIELDS"
        assert math.isfinite(value)


@EVERY_MONITOR
def test_the_counters_of_a_monitor_never_fall(name: str) -> None:
    made = monitor(name)
    before, after = made.read(), made.read()
    for field_name in before.keys() & after.keys():
        known = monitors.field(name, field_name)
        # Idle time is an estimate of the kernel's and may shrink a little (proc_stat(5)).
        if known is not None and known.kind == monitors.COUNTER and not field_name.endswith(("iowait", "idle")):
            assert after[field_name] >= before[field_name], field_name


@pytest.mark.parametrize(("ask", "error"), [(driver, StudyError), (monitor, UsageError)])
def test_a_name_that_nobody_has_is_answered_with_the_nearest(ask: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="'null'"):
        ask("nul")  # type: ignore[operator]
