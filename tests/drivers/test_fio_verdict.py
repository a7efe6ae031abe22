"""A run of fio is a measurement only when its output shows one; everything else fails with a reason and a remedy."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ioassay.drivers.fio import Fio
from ioassay.drivers.fio.fio_outcome import Verdict, judge
from ioassay.drivers.fio.section import Section
from ioassay.formats.fio_results import Direction, Job, Results
from ioassay.roles import Outcome, Trial

TIMED = Section("job", {"rw": "randrw", "runtime": "10", "time_based": "1"})


def outcome(exit_code: int | None = 0, signal: int | None = None, timed_out: bool = False) -> Outcome:
    return Outcome(exit_code, signal, timed_out, 0.0, 10.0, Path("stdout"), Path("stderr"))


def done(reads: int = 100, writes: int = 100, runtime_s: float = 10.0, error: int = 0, **more: Any) -> Results:
    directions = {
        "read": Direction(reads, reads * 4096, runtime_s),
        "write": Direction(writes, writes * 4096, runtime_s),
    }
    return Results("fio-3.33", [Job("job", 0, error, directions, more.pop("options", {}), runtime_s, **more)])


def verdict(results: Results | None, section: Section = TIMED, messages: str = "", **how: Any) -> Verdict:
    return judge(results, [section], outcome(**how), messages, "fio.json: is empty")


@pytest.mark.parametrize(
    "name",
    ["read", "write", "reads-only-mix", "io-uring", "mmap", "null-engine", "trim", "two-sections", "by-size"],
)
def test_a_run_that_did_what_was_asked_is_ok(golden: Any, name: str) -> None:
    found = golden.parsed(name)
    assert (found.status, found.reason) == ("ok", "")
    assert found.metrics["total.bw"] > 0
    assert found.buckets


def test_only_directions_that_did_io_have_metrics(golden: Any) -> None:
    def directions(name: str) -> set[str]:
        return {metric.split(".")[0] for metric in golden.parsed(name).metrics if metric.endswith(".bw")}

    assert directions("read") == {"read", "total"}
    assert directions("trim") == {"trim", "total"}
    assert directions("reads-only-mix") == {"read", "total"}


def test_each_section_of_a_job_file_has_its_own_metrics(golden: Any) -> None:
    found = golden.parsed("two-sections").metrics
    assert found["read.runtime"] == pytest.approx(0.3, rel=0.1)
    together = found["sequential/read.bytes"] + found["random/read.bytes"]
    assert together == found["read.bytes"]


@pytest.mark.parametrize(
    ("name", "said", "remedy"),
    [
        ("mounted", "fio did no write at all, though it was asked for; fio says: fio: /dev/loop", "unmount it"),
        ("no-space", "error 28 (No space left on device)", "lower target.size"),
        ("einval", "error 22 (Invalid argument)", "set direct = 0"),
        ("bad-option", "status 1; fio says: Bad option <bss=4k> / Did you mean bs?", "fio --cmdhelp"),
        ("read-only-missing", "error 2 (No such file or directory)", "refusing extend of file"),
        ("killed", "ended by SIGKILL", ""),
        ("terminated", "fio was ended by SIGTERM", ""),
    ],
)
def test_a_run_that_is_no_measurement_fails_with_what_fio_said(golden: Any, name: str, said: str, remedy: str) -> None:
    found = golden.parsed(name)
    assert found.status == "failed"
    assert said in found.reason
    assert remedy in found.reason
    assert not found.metrics


def test_a_refusal_is_seen_though_fio_exits_with_0_and_reports_no_error(golden: Any) -> None:
    import json

    text = golden.text("mounted")
    assert json.loads(text[text.index("{") :])["jobs"][0]["error"] == 0
    assert json.loads((golden.folder / "mounted" / "case.json").read_text())["outcome"]["exit_code"] == 0
    assert golden.parsed("mounted").status == "failed"


def test_results_cut_off_fail_with_where(golden: Any, tmp_path: Path) -> None:
    for name in ("stdout", "stderr"):
        (tmp_path / name).write_text("")
    (tmp_path / "fio.json").write_text(golden.text("read")[:1000])
    trial = Trial("read", "s", "fio", {}, {"rw": "read"}, {}, {}, 0, 1, 0)
    ended = Outcome(0, None, False, 0.0, 1.0, tmp_path / "stdout", tmp_path / "stderr")
    assert "JSON is cut off after" in Fio().parse(trial, ended, tmp_path).reason


def test_a_path_in_a_message_does_not_choose_the_remedy() -> None:
    said = "fio: io_u error on file /dev/shm/mounted/io_uring: No space left on device"
    assert "free some space" in verdict(None, messages=said, exit_code=1).reason


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_results_never_raise(golden: Any, tmp_path: Path, data: st.DataObject) -> None:
    text = golden.text("two-sections")
    start = data.draw(st.integers(0, len(text) - 1))
    end = start + data.draw(st.integers(0, 40))
    text = text[:start] + data.draw(st.text(alphabet='0123456789.-{}[]",:eE \n', max_size=8)) + text[end:]
    for name in ("stdout", "stderr"):
        (tmp_path / name).write_text("")
    (tmp_path / "fio.json").write_text(text)
    trial = Trial("x", "s", "fio", {}, {"job": "[a]\n", "job_path": "/x/my.fio"}, {}, {}, 0, 1, 0)
    ended = Outcome(0, None, False, 0.0, 1.0, tmp_path / "stdout", tmp_path / "stderr")
    assert Fio().parse(trial, ended, tmp_path).status in ("ok", "failed")


def test_a_trial_whose_fio_wrote_nothing_at_all_fails(tmp_path: Path) -> None:
    trial = Trial("read", "s", "fio", {}, {"rw": "read"}, {}, {}, 0, 1, 0)
    ended = Outcome(0, None, False, 0.0, 1.0, tmp_path / "stdout", tmp_path / "stderr")
    assert "fio wrote no results" in Fio().parse(trial, ended, tmp_path).reason
    assert Fio().parse(trial, None, tmp_path).status == "failed"


def test_steady_state_that_was_not_attained_is_a_warning(golden: Any) -> None:
    found = golden.parsed("steady-state")
    assert found.status == "ok"
    assert [warning.code for warning in found.warnings] == ["steady-state-not-attained"]


def test_a_timeout_says_so_first() -> None:
    assert "did not end within 10 s and was ended; raise run.timeout" in verdict(None, timed_out=True).reason


def test_results_are_not_trusted_when_fio_exits_badly_without_an_error() -> None:
    assert verdict(done(), exit_code=1).reason == "fio exited with status 1"


def test_a_run_must_last_nine_tenths_of_the_time_asked_for() -> None:
    assert verdict(done(runtime_s=9.1)).reason == ""
    assert verdict(done(runtime_s=8.9)).reason == "job job ran 8.9 s of the 10 s asked for"


@pytest.mark.parametrize("option", ["io_size", "number_ios", "steadystate", "exitall"])
def test_a_run_that_something_else_may_end_is_not_held_to_its_time(option: str) -> None:
    assert verdict(done(runtime_s=1.0), Section("job", {**TIMED.options, option: "1"})).reason == ""


def test_a_run_that_lasted_too_long_is_a_warning() -> None:
    assert [warning.code for warning in verdict(done(runtime_s=14.0)).warnings] == ["over-run"]
    assert list(verdict(done(runtime_s=11.0)).warnings) == []


def test_a_mix_of_one_direction_asks_for_that_one_only() -> None:
    reads = Section("job", {**TIMED.options, "rwmixwrite": "0"})
    assert verdict(done(writes=0), reads).reason == ""
    assert "no write at all" in verdict(done(writes=0)).reason


def test_an_idle_job_among_busy_ones_fails() -> None:
    busy, idle = done().jobs[0], done(reads=0, writes=0).jobs[0]
    assert verdict(Results("fio-3.33", [busy, idle])).reason == "job job did no I/O at all"


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (1, "run as root"),
        (5, "see dmesg"),
        (11, "fs.aio-max-nr"),
        (12, "lower iodepth"),
        (13, "run as root"),
        (16, "unmount it or stop"),
        (22, "direct = 0"),
        (24, "ulimit -n"),
        (28, "free some space"),
        (30, "mount it writable"),
        (38, "libaio"),
        (84, "data came back wrong"),
        (95, "cannot do this request"),
    ],
)
def test_errors_come_with_their_remedy(error: int, remedy: str) -> None:
    found = verdict(done(error=error), exit_code=1)
    assert f"error {error} (" in found.reason
    assert remedy in found.reason


def test_errors_that_fio_was_to_continue_after_are_a_warning() -> None:
    told_to = {"options": {"continue_on_error": "all"}}
    found = verdict(done(error=5, **told_to))
    assert found.reason == "" and [warning.code for warning in found.warnings] == ["requests-failed"]
    assert "error 5 (" in verdict(done(error=5, options={"continue_on_error": "none"})).reason
    assert "error 84 (" in verdict(done(error=84, **told_to)).reason  # data that came back wrong
    assert verdict(done(reads=0, writes=0, error=5, **told_to)).reason != ""


def test_io_uring_that_is_disabled_is_named() -> None:
    said = "fio: pid=1, err=1/file:engines/io_uring.c:1015, func=io_queue_init, error=Operation not permitted"
    assert "kernel.io_uring_disabled" in verdict(None, messages=said, exit_code=1).reason


def test_io_uring_that_a_container_refuses_is_named_where_fio_is_silent() -> None:
    """As fio 3.33 does under a seccomp profile that answers io_uring_setup with EPERM."""
    refused = verdict(done(reads=0, writes=0, error=1, options={"ioengine": "io_uring"})).reason
    assert "of ioengine io_uring ended with error 1" in refused and "seccomp" in refused
    assert "seccomp" not in verdict(done(reads=0, writes=0, error=1, options={"ioengine": "libaio"})).reason


def test_notes_of_fio_beside_a_good_result_are_warnings_once_each() -> None:
    note = "note: both iodepth >= 1 and synchronous I/O engine are selected, queue depth will be capped at 1"
    found = verdict(done(), messages=f"{note}\n{note}\nfio: something else\n")
    assert [warning.code for warning in found.warnings] == ["iodepth-ignored", "fio-note"]
    assert found.warnings[0].text == note


def test_writing_as_fast_as_data_can_be_made_is_a_warning() -> None:
    fast = done(writes=10**7, options={"refill_buffers": "1"})
    assert [warning.code for warning in verdict(fast).warnings] == ["refill-limits"]
    assert list(verdict(done(writes=10**7)).warnings) == []


def test_a_job_without_io_of_its_own_may_be_idle() -> None:
    burner = Section("burner", {"ioengine": "cpuio"})
    idle = Job("burner", 0, 0, {"read": Direction(0, 0, 0.0)})
    found = judge(Results("fio-3.33", [done().jobs[0], idle]), [TIMED, burner], outcome(), "")
    assert found.reason == ""


def test_the_summed_run_time_of_a_group_is_not_taken_for_that_of_a_job() -> None:
    """With group_reporting fio 3.33 gives `job_runtime` as the sum of the group's jobs."""

    def group(ran_s: float) -> Verdict:
        directions = {"read": Direction(100, 409600, ran_s), "write": Direction(100, 409600, ran_s)}
        return verdict(Results("fio-3.33", [Job("job", 0, 0, directions, {}, 4 * ran_s)]))

    assert group(10.0) == Verdict("")
    assert "ran 3 s of the 10 s" in group(3.0).reason


POLLED = Section("job", {"rw": "randread", "ioengine": "io_uring", "hipri": "1", "runtime": "1", "time_based": "1"})


def refused(moved_bytes: int, error: int = 95) -> Results:
    """fio counts the refused request, and no bytes of it."""
    return Results("fio-3.33", [Job("job", 0, error, {"read": Direction(1, moved_bytes, 0.001)}, {}, 0.001)])


def test_a_path_that_cannot_be_polled_is_no_failure() -> None:
    found = verdict(refused(0), POLLED, "fio: io_u error on file /d: Operation not supported: read", exit_code=1)
    assert found.cannot and "EOPNOTSUPP" in found.reason and "hipri=0" in found.reason


MIXED = Section("job", {**POLLED.options, "rw": "randrw"})


def mixed(read_bytes: int, written_bytes: int) -> Results:
    directions = {"read": Direction(3, read_bytes, 0.001), "write": Direction(2, written_bytes, 0.001)}
    return Results("fio-3.33", [Job("job", 0, 95, directions, {}, 0.001)])


def test_writes_that_a_file_system_does_not_poll_for_are_no_sign_of_another_failure() -> None:
    assert verdict(mixed(0, 8192), MIXED, exit_code=1).cannot


@pytest.mark.parametrize(
    ("results", "section"),
    [
        (refused(4096), POLLED),
        (mixed(4096, 0), MIXED),
        (mixed(0, 8192), Section("job", {**POLLED.options, "rw": "randwrite"})),
        (refused(0, error=5), POLLED),
        (refused(0), Section("job", {"rw": "randread", "ioengine": "io_uring"})),
        (refused(0), Section("job", {"rw": "randread", "ioengine": "libaio", "hipri": "1"})),
    ],
)
def test_other_refusals_of_requests_are_failures(results: Results, section: Section) -> None:
    found = verdict(results, section, exit_code=1)
    assert found.reason and not found.cannot
