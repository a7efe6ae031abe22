"""Doubts: each is raised by its evidence and by nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioassay.analysis.threats import threat_findings
from ioassay.analysis.threats.threat import Threat

FACTORS = {"bs": ["4KiB", "64KiB"]}


def raised(lab: Any, measure: Any = None, repetitions: int = 6, host: Any = None, **keys: Any) -> dict[str, Threat]:
    rng = np.random.default_rng(1)
    study = lab.study(**{"factors": FACTORS, **keys})
    rows = lab.run(study, measure or (lambda *_: {"read.bw": rng.normal(1e8, 1e6)}), repetitions)
    for row in rows.trials:
        row["duration_s"] = 10.0
        row["started_unix_s"] = 1.7e9 + 11 * row["order"]
    return {doubt.code: doubt for doubt in threat_findings.threats(lab.records(rows, host=host), study)}


def test_a_clean_run_raises_no_doubt(lab: Any) -> None:
    assert raised(lab, host={"clock": {"source": "tsc"}, "virtualisation": {}}) == {}


def test_failed_trials_are_counted_with_their_reasons(lab: Any) -> None:
    found = raised(lab, lambda p, r: None if r == 0 else {"read.bw": 1e8 + r})
    assert "2 of 12 trials failed" in found["trials-failed"].text
    assert "2× the tool crashed" in found["trials-failed"].text


def test_a_run_that_ended_early_says_how_to_go_on(lab: Any) -> None:
    study = lab.study(factors=FACTORS)
    rows = lab.run(study, lambda p, r: {"read.bw": 1e8 + r}, 6)
    rows.trials.extend([])
    records = lab.records(rows)
    object.__setattr__(records, "planned", {"study": 20})
    (doubt,) = [one for one in threat_findings.threats(records, study) if one.code == "incomplete"]
    assert "12 of 20" in doubt.text and "--resume" in doubt.remedy


def test_few_repetitions_weigh_by_their_number(lab: Any) -> None:
    assert raised(lab, repetitions=4)["few-repetitions"].severity == "info"
    assert raised(lab, repetitions=1)["few-repetitions"].severity == "warning"
    assert "few-repetitions" not in raised(lab, repetitions=5)


def test_unstable_conditions_are_named_with_their_variation(lab: Any) -> None:
    rng = np.random.default_rng(2)
    found = raised(lab, lambda p, _: {"read.bw": 1e8 * rng.lognormal(0, 0.2 if p["bs"] == "4KiB" else 0.005)})
    assert list(found["unstable"].evidence["cv"]["read.bw"]) == ["bs=4KiB"]
    assert "1 of 2 conditions" in found["unstable"].text


def test_drift_and_unsteady_state_are_doubts(lab: Any) -> None:
    found = raised(lab, lambda p, r: {"read.bw": 1e8 * 0.9**r})
    assert "read bandwidth falls by" in found["drift"].text
    assert found["unsteady"].evidence["read.bw"]["conditions"] == ["bs=4KiB", "bs=64KiB"]


def test_buffered_conditions_are_named(lab: Any) -> None:
    found = raised(lab, factors={"direct": [0, 1]}, params={"ioengine": "libaio"})
    assert found["buffered"].evidence["conditions"] == ["direct=0"]
    assert "buffered" not in raised(lab, params={"direct": 0, "ioengine": "null"})
    assert "buffered" in raised(lab, params={"direct": 1, "ioengine": "mmap"})
    assert "buffered" not in raised(lab, params={}, driver="null")


@pytest.mark.parametrize(("share", "raises"), [(0.3, True), (1.02, False)])
def test_bytes_that_never_reached_the_device_are_a_cache(lab: Any, share: float, raises: bool) -> None:
    claimed = 100e6

    def measure(point: Any, repetition: int) -> dict[str, Any]:
        moved = claimed * (share if point["bs"] == "4KiB" else 1.0) / 512
        samples = [("disk", "vda.read_sectors", 0.0, 7e6), ("disk", "vda.read_sectors", 10.0, 7e6 + moved)]
        return {"read.bw": 1e8 + 1e5 * repetition, "read.bytes": claimed, "_samples": samples}

    found = raised(lab, measure)
    assert ("cached-reads" in found) == raises
    if raises:
        assert "30 %" in found["cached-reads"].text and "bs=4KiB" in found["cached-reads"].text
        assert found["cached-reads"].evidence["least"] == pytest.approx(0.3)


def test_a_full_device_and_stolen_time_are_seen_in_the_samples(lab: Any) -> None:
    def measure(point: Any, repetition: int) -> dict[str, Any]:
        samples = [("disk", "vda.io_ms", t, 990.0 * t) for t in (0.0, 5.0, 10.0)]
        samples += [
            ("cpu", f"all.{s}", t, r * t) for t in (0.0, 5.0, 10.0) for s, r in (("idle", 95.0), ("steal", 5.0))
        ]
        return {"read.bw": 1e8 + 1e5 * repetition, "_samples": samples}

    found = raised(lab, measure)
    assert "vda had a request in flight" in found["device-busy"].text
    assert "bs=4KiB and bs=64KiB" in found["device-busy"].text
    assert found["steal"].evidence["largest_percent"] == pytest.approx(5.0)


@pytest.mark.parametrize(("idle", "told"), [(50.0, True), (74.0, False)])
def test_others_on_the_processors_are_told_from_the_load_itself(lab: Any, idle: float, told: bool) -> None:
    def measure(point: Any, repetition: int) -> dict[str, Any]:
        states = (("idle", idle), ("user", 100 - idle))
        samples = [("cpu", f"all.{state}", t, share * t) for t in (0.0, 5.0, 10.0) for state, share in states]
        own = {"usr_time": 9.9, "sys_time": 0.1, "real_time": 10.0}  # one of four processors
        return {"read.bw": 1e8 + 1e5 * repetition, **own, "_samples": samples}

    found = raised(lab, measure, host={"cpu": {"cpus": 4}})
    assert ("contended" in found) is told
    if told:
        assert found["contended"].evidence["largest_percent"] == pytest.approx(25)
        assert found["contended"].severity == "warning"


def test_saturation_over_queue_depth_is_named(lab: Any) -> None:
    rng = np.random.default_rng(3)
    found = raised(
        lab,
        lambda p, _: {"read.bw": 1e8 * min(p["iodepth"], 8) * rng.lognormal(0, 0.01)},
        factors={"iodepth": [1, 2, 4, 8, 16, 32]},
    )
    assert found["saturation"].evidence["from"] == 8


def test_the_host_s_doubts(lab: Any) -> None:
    host = {
        "virtualisation": {"vm": "kvm", "container": "docker"},
        "clock": {"source": "hpet"},
        "cpu": {"governors": ["powersave"]},
    }
    found = raised(lab, host=host, run={"governor": "keep"})
    assert "kvm and docker" in found["virtual"].text
    assert "hpet" in found["clock"].text
    assert "powersave" in found["governor"].text
    assert "governor" not in raised(lab, host=host)


def test_a_processor_fewer_under_some_conditions_is_said_beside_what_they_are_compared_with(lab: Any) -> None:
    warned = [("affinity-narrowed", "run.scheduler = fifo:99: runs on 1-3, since processor 0 is left to the lab")]

    def measure(point: Any, repetition: int, everywhere: bool = False) -> dict[str, Any]:
        real_time = everywhere or point["run.scheduler"] == "fifo:99"
        return {"read.bw": 1e8 + repetition, **({"_warnings": warned} if real_time else {})}

    factors = {"run.scheduler": ["other", "fifo:99"]}
    doubt = raised(lab, measure, factors=factors)["fewer-processors"]
    assert "fifo:99 ran on one processor fewer than" in doubt.text and "other" in doubt.text
    assert "fewer-processors" not in raised(lab, lambda p, r: measure(p, r, everywhere=True), factors=factors)


def test_bogo_operations_that_are_other_work_are_not_to_be_compared(lab: Any) -> None:
    def measure(point: Any, repetition: int) -> dict[str, Any]:
        return {"bogo_ops_real_rate": 1e6 + repetition}

    def found(**keys: Any) -> str:
        doubt = raised(lab, measure, responses=["bogo_ops_real_rate"], **keys).get("different-work")
        return doubt.text if doubt else ""

    assert "for each CPU method" in found(factors={"cpu-method": ["int16", "int64"]})
    cases = [{"name": "a", "stressor": "cpu"}, {"name": "b", "stressor": "pipe"}]
    assert "for each stressor" in found(factors={}, case=cases)
    assert found(factors={"workers": [1, 2]}) == ""
    assert "different-work" not in raised(lab, factors={"cpu-method": ["int16", "int64"]})


def test_a_pause_in_the_run_is_named(lab: Any) -> None:
    study = lab.study(factors=FACTORS)
    rows = lab.run(study, lambda p, r: {"read.bw": 1e8 + r}, 6)
    for row in rows.trials:
        row["started_unix_s"] = 1.7e9 + 11 * row["order"] + (7200 if row["order"] > 5 else 0)
    found = {doubt.code: doubt for doubt in threat_findings.threats(lab.records(rows), study)}
    assert "paused 1 time" in found["interrupted"].text and "120 minutes" in found["interrupted"].text


def test_short_trials_and_adaptive_repetition_are_said(lab: Any) -> None:
    study = lab.study(factors=FACTORS, until={"metric": "read.bw", "ci": 0.05, "min": 3, "max": 30})
    rows = lab.run(study, lambda p, r: {"read.bw": 1e8 + r}, 6)
    found = {doubt.code: doubt for doubt in threat_findings.threats(lab.records(rows), study)}
    assert "1 s" in found["short"].text
    assert "narrow" in found["sequential-stopping"].text
    assert "incomplete" not in found


def test_a_doubt_becomes_a_finding_with_its_next_step(lab: Any) -> None:
    study = lab.study(factors=FACTORS)
    records = lab.records(lab.run(study, lambda p, r: {"read.bw": 1e8 + r}, 2))
    few = next(one for one in threat_findings.analyse(records, study) if one.statistics["code"] == "few-repetitions")
    assert few.question == "caveats" and few.caveats[0].startswith("Next step: repeat")
