"""The driver `simulate`: parameters that cannot be are named, traces that are absent or broken are told, metrics."""

import json
from pathlib import Path
from typing import Any

import pytest

from ioassay import metrics
from ioassay.drivers.simulate import ELEMENTS, SUMMARY, Simulate
from ioassay.drivers.simulate.trace_lookup import FOLDERS
from ioassay.errors import StudyError
from ioassay.records.record import FAILED, OK, SKIPPED
from ioassay.roles import NOTHING, Load, Parsed, Trial

SMALL = {"elements": 4, "blocks": 64, "window": "none"}
MADE = {**SMALL, "make": {"requests": 4000, "arrivals": "poisson:8000", "range": "16MiB", "seed": 7}}
WALL = "sim.wall"


def trial(params: dict[str, Any], repetition: int = 0) -> Trial:
    return Trial("id", "study", "simulate", {}, params, {}, {}, repetition, 1, 0)


def result(raw: Path, params: dict[str, Any], repetition: int = 0) -> Parsed:
    return Simulate().parse(trial(params, repetition), None, raw)


def measured(raw: Path, params: dict[str, Any], repetition: int = 0) -> dict[str, float]:
    """The metrics but the time that the simulation took."""
    found = result(raw, params, repetition)
    assert (found.status, found.reason) == (OK, "")
    return {name: value for name, value in found.metrics.items() if name != WALL}


def codes(parsed: Parsed) -> list[str]:
    return [warning.code for warning in parsed.warnings]


# Contract


def test_it_starts_no_process_touches_nothing_and_is_pure() -> None:
    driver = Simulate()
    assert driver.tool() is None
    assert driver.measures is False
    assert driver.command(trial(MADE), Load("null", None, 0, True), Path("unused")) is None
    assert (driver.access(MADE), list(driver.touches(MADE))) == (NOTHING, [])


def test_the_estimate_says_memory_and_grows_with_the_requests(tmp_path: Path) -> None:
    few, many = (Simulate().estimate({"make": {"requests": n}}, {}) for n in (1000, 100_000_000))
    assert few.written_bytes == 0
    assert few.memory_bytes > 48 * 8 * 2048 * 64  # more than a byte for each page of the reference drive
    assert Simulate().estimate(MADE, {}).memory_bytes < few.memory_bytes / 100
    assert 0 < few.seconds < 1 < many.seconds
    assert Simulate().estimate({"make": {"requests": 100_000_000}, "first": 1000}, {}).seconds == few.seconds
    assert Simulate().estimate({"trace": "nowhere.spc", "get": "look"}, {}).seconds < 1
    assert Simulate().estimate({"trace": "oltp"}, {}).seconds > few.seconds


# Parameters


# Traces


@pytest.mark.parametrize("name", ["oltp", "web", "database"])
def test_a_shipped_trace_is_simulated_by_its_name(tmp_path: Path, name: str) -> None:
    params = {"trace": name, "prepare": {"shrink": "drive"}, "first": 2000, "policy": "epo", "buffer": "256KiB"}
    found = measured(tmp_path, params)
    assert found["total.lat.mean"] > 0
    assert 0 <= found["sim.hit_ratio"] < 1
    assert json.loads((tmp_path / SUMMARY).read_text())["trace"] == name
    assert len(json.loads((tmp_path / ELEMENTS).read_text())["erases"]) == 48


def test_a_trace_that_may_be_absent_is_skipped_with_the_way_to_get_it(tmp_path: Path) -> None:
    params = {"trace": ["a.spc", "b.spc"], "get": "fetch it from the shelf"}
    (warning,) = Simulate().validate(params, {})
    assert (warning.code, warning.remedy) == ("trace-absent", "fetch it from the shelf")
    found = result(tmp_path, params)
    assert found.status == SKIPPED
    assert "no file a.spc or b.spc here" in found.reason
    assert found.reason.endswith("fetch it from the shelf")


def test_a_trace_that_vanished_after_the_check_fails_its_trial(tmp_path: Path) -> None:
    path = tmp_path / "t.disksim"
    path.write_text("0.0 0 0 8 0\n")
    assert list(Simulate().validate({"trace": str(path)}, {})) == []
    path.unlink()
    found = result(tmp_path, {"trace": str(path)})
    assert found.status == FAILED
    assert f"no file {path} here" in found.reason


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.spc", "0,8,4096,w,0.1\n0,8,4096,w\n", "spc: line 2"),
        ("t.disksim", "5.0 0 0 8 0\n1.0 0 8 8 0\n", "line 2"),
        ("t.disksim", "0.0 0 999999999999 8 0\n", "drive"),
        ("t.disksim", "", "t.disksim"),
    ],
)
def test_a_trace_that_makes_no_sense_fails_with_the_reason(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    found = result(tmp_path, {"trace": str(tmp_path / name)})
    assert found.status == FAILED
    assert message in found.reason
    assert "Traceback" not in found.reason


def test_a_bare_name_is_looked_for_in_the_named_folders_compressed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ioassay import traces

    traces.make(tmp_path / "mine.disksim.gz", requests=100, range="1MiB")
    monkeypatch.chdir(tmp_path.parent)
    with pytest.raises(StudyError, match="no file mine.disksim here"):
        Simulate().validate({"trace": "mine.disksim"}, {})
    monkeypatch.setenv(FOLDERS, f"{tmp_path / 'nowhere'}:{tmp_path}")
    assert list(Simulate().validate({"trace": "mine.disksim"}, {})) == []
    assert measured(tmp_path, {"trace": "mine.disksim", "prepare": {"keep": "writes"}})["write.ios"] == 100


@pytest.mark.parametrize(("page", "pages"), [("1KiB", 4), ("2KiB", 2), ("4KiB", 1)])
def test_requests_are_split_into_the_pages_of_the_drive(tmp_path: Path, page: str, pages: int) -> None:
    """Of requests with any size and offset; `cut` leaves one page of each."""
    make = {"requests": 500, "arrivals": "poisson:500", "sizes": "exponential:3900", "align": "1KiB", "range": "64MiB"}
    split = measured(tmp_path, {"make": make, "page": page, "sizes": "split:4KiB"})
    assert (split["write.ios"], split["write.bytes"]) == (500 * pages, 500 * 4096)
    cut = measured(tmp_path, {"make": make, "page": page, "sizes": "cut"})
    assert (cut["write.ios"], cut["write.bytes"]) == (500, 500 * 4096 / pages)


def test_a_buffer_that_keeps_all_is_no_measurement(tmp_path: Path) -> None:
    found = result(tmp_path, {**MADE, "first": 100, "policy": "lru"})
    assert found.status == SKIPPED
    assert found.reason.startswith("nothing was measured: no request reached the drive: the buffer kept all of the ")


def test_a_preparation_that_leaves_nothing_is_no_measurement(tmp_path: Path) -> None:
    found = result(tmp_path, {"trace": "oltp", "prepare": {"keep": "trims"}})
    assert found.status == SKIPPED
    assert "nothing is left of the trace's 10,000 requests: keep is trims and leaves out 10,000" in found.reason


def test_a_run_that_is_given_up_before_any_completion_is_saturated(tmp_path: Path) -> None:
    """It is no trial that measured nothing: its condition stands among the others as saturated."""
    found = result(tmp_path, {"make": {"requests": 1000, "arrivals": "none"}, "max_outstanding": 100})
    assert (found.status, found.metrics["sim.saturated"]) == (OK, 1.0)
    assert "write.lat.mean" not in found.metrics


# Results


def test_metrics_are_known_to_the_registry_and_agree_with_each_other(tmp_path: Path) -> None:
    mixed = {**MADE, "make": {**MADE["make"], "reads": 0.3}}
    found = measured(tmp_path, mixed)
    assert [name for name in found if not metrics.known(name)] == []
    assert found["read.ios"] + found["write.ios"] == found["total.ios"] == 4000
    assert found["total.bytes"] == 4000 * 4096
    assert found["total.iops"] == pytest.approx(4000 / found["sim.span"])
    assert found["write.lat.p50"] <= found["write.lat.p99"] <= found["write.lat.max"]
    assert found["sim.saturated"] == 0


def test_means_are_those_of_the_simulator_in_nanoseconds(tmp_path: Path) -> None:
    found = measured(tmp_path, MADE)
    summary = json.loads((tmp_path / SUMMARY).read_text())["summary"]
    assert found["total.lat.mean"] == pytest.approx(summary["mean_response_ms"] * 1e6)
    assert found["total.bw"] == pytest.approx(summary["throughput_mb_s"] * 1e6)


def test_distributions_and_series_are_those_of_the_requests(tmp_path: Path) -> None:
    found = result(tmp_path, MADE)
    kept = [(buckets.direction, buckets.kind, sum(buckets.counts)) for buckets in found.buckets]
    assert kept == [("write", "lat", 4000), ("total", "lat", 4000)]
    assert {one.metric for one in found.series} >= {"total.lat.mean", "sim.outstanding", "sim.utilisation"}
    assert all(metrics.known(one.metric) and len(one.time_s) == len(one.value) > 0 for one in found.series)


def test_a_saturated_run_has_no_latencies_and_says_so(tmp_path: Path) -> None:
    params = {**MADE, "make": {**MADE["make"], "arrivals": "poisson:200000", "requests": 20000}}
    found = result(tmp_path, params)
    assert found.status == OK
    assert "saturated" in codes(found)
    assert found.metrics["sim.saturated"] == 1
    assert found.metrics["write.bw"] > 0
    assert [name for name in found.metrics if ".lat." in name] == []
    assert list(found.buckets) == []
    assert "total.lat.mean" not in {one.metric for one in found.series}
    assert json.loads((tmp_path / SUMMARY).read_text())["summary"]["mean_response_ms"] > 0


def test_a_fresh_drive_that_never_cleaned_is_said_to_be_one(tmp_path: Path) -> None:
    assert "never-cleaned" in codes(result(tmp_path, {**MADE, "first": 200}))


def test_the_same_trial_gives_the_same_metrics(tmp_path: Path) -> None:
    assert measured(tmp_path, {**MADE, "policy": "epo", "buffer": "64KiB"}) == measured(
        tmp_path, {**MADE, "policy": "epo", "buffer": "64KiB"}
    )


def test_repetitions_of_a_recipe_differ_unless_it_has_a_seed(tmp_path: Path) -> None:
    assert measured(tmp_path, MADE, 0) == measured(tmp_path, MADE, 1)
    unseeded = {**MADE, "make": {name: value for name, value in MADE["make"].items() if name != "seed"}}
    assert measured(tmp_path, unseeded, 0) != measured(tmp_path, unseeded, 1)
    assert measured(tmp_path, unseeded, 1) == measured(tmp_path, unseeded, 1)


def test_all_policies_of_a_repetition_meet_the_same_requests(tmp_path: Path) -> None:
    unseeded = {**SMALL, "make": {"requests": 500, "arrivals": "none", "range": "16MiB"}}
    described = []
    for policy in ("none", "lru"):
        result(tmp_path, {**unseeded, "policy": policy, "buffer": "64KiB"}, 3)
        described.append(json.loads((tmp_path / SUMMARY).read_text())["trace"])
    assert described[0] == described[1]
    assert described[0]["seed"] == 4


def test_the_first_requests_are_those_that_the_preparation_leaves(tmp_path: Path) -> None:
    assert measured(tmp_path, {**MADE, "first": 300})["total.ios"] == 300
    of_file = {"trace": "oltp", "prepare": {"keep": "writes", "shrink": "drive"}, "first": 300}
    assert measured(tmp_path, of_file)["write.ios"] == 300


def test_padded_bplru_reads_what_is_missing_of_its_blocks(tmp_path: Path) -> None:
    plain = measured(tmp_path, {**MADE, "policy": "bplru", "buffer": "512KiB"})
    padded = measured(tmp_path, {**MADE, "policy": "bplru-padded", "buffer": "512KiB"})
    assert "read.ios" not in plain
    assert padded["read.ios"] > 0
    assert padded["sim.written_pages"] > plain["sim.written_pages"]
