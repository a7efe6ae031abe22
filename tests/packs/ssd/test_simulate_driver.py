"""The driver `simulate`: traces, estimates and metrics. Its parameters are among those of test_drivers.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ioassay import metrics
from ioassay.errors import StudyError
from ioassay.packs.ssd.driver import ELEMENTS, SUMMARY, Simulate
from ioassay.records.record import OK
from ioassay.roles import Parsed
from ioassay.simulation import traces
from ioassay.simulation.trace_parameters import FOLDERS

from ...corpora import cases
from ...drivers.trials import lay_out, trial

SMALL = {"elements": 4, "blocks": 64, "window": "none"}
MADE = {**SMALL, "make": {"requests": 4000, "arrivals": "poisson:8000", "range": "16MiB", "seed": 7}}


def result(raw: Path, params: dict[str, Any], repetition: int = 0) -> Parsed:
    return Simulate().parse(trial("simulate", params, repetition=repetition), None, raw)


def measured(raw: Path, params: dict[str, Any], repetition: int = 0) -> dict[str, float]:
    """The metrics but the time that the simulation took."""
    found = result(raw, params, repetition)
    assert (found.status, found.reason) == (OK, "")
    return {name: value for name, value in found.metrics.items() if name != "sim.wall"}


def test_the_estimate_says_memory_and_grows_with_the_requests() -> None:
    def estimate(**params: Any) -> Any:
        return Simulate().estimate(params, {})

    few, many = (estimate(make={"requests": n}) for n in (1000, 100_000_000))
    assert few.written_bytes == 0
    assert few.memory_bytes > 48 * 8 * 2048 * 64  # more than a byte for each page of the reference drive
    assert estimate(**MADE).memory_bytes < few.memory_bytes / 100
    assert 0 < few.seconds < 1 < many.seconds
    assert estimate(make={"requests": 100_000_000}, first=1000).seconds == few.seconds
    assert estimate(trace="nowhere.spc", get="look").seconds < 1
    assert estimate(trace="oltp").seconds > few.seconds


@pytest.mark.parametrize("name", ["oltp", "web", "database"])
def test_a_shipped_trace_is_simulated_by_its_name(tmp_path: Path, name: str) -> None:
    params = {"trace": name, "prepare": {"shrink": "drive"}, "first": 2000, "policy": "epo", "buffer": "256KiB"}
    found = measured(tmp_path, params)
    assert found["total.lat.mean"] > 0
    assert 0 <= found["sim.hit_ratio"] < 1
    assert json.loads((tmp_path / SUMMARY).read_text())["trace"] == name
    assert len(json.loads((tmp_path / ELEMENTS).read_text())["erases"]) == 48


@cases("drivers", "simulate_outcomes")
def test_a_trial_measures_or_says_why_not(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path, case.get("files", {}))
    monkeypatch.chdir(tmp_path)
    found = result(tmp_path, case["params"])
    assert found.status == case["status"], found.reason
    assert case.get("says", "") in found.reason and "Traceback" not in found.reason
    assert found.reason.endswith(case["params"].get("get", ""))
    assert {warning.code for warning in found.warnings} >= set(case.get("warns", ()))
    assert {name: found.metrics[name] for name in case.get("has", {})} == case.get("has", {})
    assert not found.metrics.keys() & set(case.get("lacks", ()))


def test_a_bare_name_is_looked_for_in_the_named_folders_compressed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_metrics_are_known_to_the_registry_and_agree_with_each_other(tmp_path: Path) -> None:
    mixed = {**MADE, "make": {**MADE["make"], "reads": 0.3}}
    found = measured(tmp_path, mixed)
    assert [name for name in found if not metrics.known(name)] == []
    assert found["read.ios"] + found["write.ios"] == found["total.ios"] == 4000
    assert found["total.bytes"] == 4000 * 4096
    assert found["total.iops"] == pytest.approx(4000 / found["sim.span"])
    assert found["write.lat.p50"] <= found["write.lat.p99"] <= found["write.lat.max"]
    assert found["sim.saturated"] == 0
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
    assert "saturated" in [warning.code for warning in found.warnings]
    assert found.metrics["sim.saturated"] == 1
    assert found.metrics["write.bw"] > 0
    assert [name for name in found.metrics if ".lat." in name] == []
    assert list(found.buckets) == []
    assert "total.lat.mean" not in {one.metric for one in found.series}
    assert json.loads((tmp_path / SUMMARY).read_text())["summary"]["mean_response_ms"] > 0


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


def test_padded_bplru_reads_what_is_missing_of_its_blocks(tmp_path: Path) -> None:
    plain = measured(tmp_path, {**MADE, "policy": "bplru", "buffer": "512KiB"})
    padded = measured(tmp_path, {**MADE, "policy": "bplru-padded", "buffer": "512KiB"})
    assert "read.ios" not in plain
    assert padded["read.ios"] > 0
    assert padded["sim.written_pages"] > plain["sim.written_pages"]
