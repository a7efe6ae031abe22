"""Threats to validity: each is raised by its evidence and by nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioassay.analysis import threats
from ioassay.analysis.threats import Code, Threat
from ioassay.narrative import finding, stability_text

FACTORS = {"bs": ["4KiB", "64KiB"]}


def raised(lab: Any, measure: Any = None, repetitions: int = 6, host: Any = None, **keys: Any) -> dict[str, Threat]:
    rng = np.random.default_rng(1)
    study = lab.study(**{"factors": FACTORS, **keys})
    rows = lab.run(study, measure or (lambda *_: {"read.bw": rng.normal(1e8, 1e6)}), repetitions)
    for row in rows.trials:
        row["duration_s"] = 10.0
        row["started_unix_s"] = 1.7e9 + 11 * row["order"]
    return {threat.code: threat for threat in threats.analyse(lab.records(rows, host=host), study)}


def test_a_clean_run_has_no_threats(lab: Any) -> None:
    assert raised(lab, host={"clock": {"source": "tsc"}, "virtualisation": {}}) == {}


def test_failed_trials_are_counted_with_their_reasons(lab: Any) -> None:
    found = raised(lab, lambda p, r: None if r == 0 else {"read.bw": 1e8 + r})
    evidence = found["trials-failed"].evidence
    assert (len(evidence["trials"]), evidence["of"], evidence["reasons"]) == (2, 12, {"the tool crashed": 2})


def test_a_run_that_ended_early_is_incomplete(lab: Any) -> None:
    study = lab.study(factors=FACTORS)
    rows = lab.run(study, lambda p, r: {"read.bw": 1e8 + r}, 6)
    rows.trials.extend([])
    records = lab.records(rows)
    object.__setattr__(records, "planned", {"study": 20})
    (threat,) = [one for one in threats.analyse(records, study) if one.code == Code.INCOMPLETE]
    assert threat.evidence == {"recorded": 12, "planned": 20, "run": "run"}


def test_few_repetitions_weigh_by_their_number(lab: Any) -> None:
    assert raised(lab, repetitions=4)["few-repetitions"].severity == "info"
    assert raised(lab, repetitions=1)["few-repetitions"].severity == "warning"
    assert "few-repetitions" not in raised(lab, repetitions=5)


def test_unstable_conditions_are_named_with_their_variation(lab: Any) -> None:
    rng = np.random.default_rng(2)
    found = raised(lab, lambda p, _: {"read.bw": 1e8 * rng.lognormal(0, 0.2 if p["bs"] == "4KiB" else 0.005)})
    assert list(found["unstable"].evidence["cv"]["read.bw"]) == ["bs=4KiB"]
    assert found["unstable"].evidence["conditions"] == {"read.bw": 2}


def test_drift_and_unsteady_state_are_threats(lab: Any) -> None:
    found = raised(lab, lambda p, r: {"read.bw": 1e8 * 0.9**r})
    assert found["drift"].evidence["read.bw"]["change"] < 0
    assert found["unsteady"].evidence["read.bw"]["conditions"] == ["bs=4KiB", "bs=64KiB"]


def test_buffered_conditions_are_named(lab: Any) -> None:
    found = raised(lab, factors={"direct": [0, 1]}, params={"ioengine": "libaio"})
    assert found["buffered"].evidence["conditions"] == ["direct=0"]
    assert "buffered" not in raised(lab, params={"direct": 0, "ioengine": "null"})
    assert "buffered" in raised(lab, params={"direct": 1, "ioengine": "mmap"})
    assert "buffered" not in raised(lab, params={}, driver="null")


@pytest.mark.parametrize(("share", "raises"), [(0.3, True), (0.899, True), (0.9, False), (1.02, False)])
def test_bytes_that_never_reached_the_device_are_a_cache(lab: Any, share: float, raises: bool) -> None:
    claimed = 100e6

    def measure(point: Any, repetition: int) -> dict[str, Any]:
        moved = claimed * (share if point["bs"] == "4KiB" else 1.0) / 512
        samples = [("disk", "vda.read_sectors", 0.0, 7e6), ("disk", "vda.read_sectors", 10.0, 7e6 + moved)]
        return {"read.bw": 1e8 + 1e5 * repetition, "read.bytes": claimed, "_samples": samples}

    found = raised(lab, measure)
    assert ("cached-reads" in found) == raises
    if raises:
        assert found["cached-reads"].evidence["conditions"] == ["bs=4KiB"]
        assert found["cached-reads"].evidence["least"] == pytest.approx(share)


@pytest.mark.parametrize(("claimed", "raises"), [(1 << 20, False), ((1 << 20) + 1, True)])
def test_a_megabyte_is_too_little_to_miss_at_the_device(lab: Any, claimed: int, raises: bool) -> None:
    samples = [("disk", "vda.write_sectors", t, 7e6) for t in (0.0, 10.0)]
    found = raised(lab, lambda p, r: {"read.bw": 1e8 + 1e5 * r, "write.bytes": claimed, "_samples": samples})
    assert ("cached-writes" in found) == raises


@pytest.mark.parametrize(("busy_ms", "raises"), [(949.0, False), (950.0, True), (1000.0, True)])
def test_a_device_is_full_from_95_percent(lab: Any, busy_ms: float, raises: bool) -> None:
    samples = [("disk", "vda.io_ms", t, busy_ms * t) for t in (0.0, 5.0, 10.0)]
    found = raised(lab, lambda p, r: {"read.bw": 1e8 + 1e5 * r, "_samples": samples})
    assert set(found) == ({"device-busy"} if raises else set())
    if raises:
        assert found["device-busy"].evidence["devices"] == ["vda"]
        assert found["device-busy"].evidence["conditions"] == ["bs=4KiB", "bs=64KiB"]


def test_saturation_over_queue_depth_is_named(lab: Any) -> None:
    rng = np.random.default_rng(3)
    found = raised(
        lab,
        lambda p, _: {"read.bw": 1e8 * min(p["iodepth"], 8) * rng.lognormal(0, 0.01)},
        factors={"iodepth": [1, 2, 4, 8, 16, 32]},
    )
    assert found["saturation"].evidence["from"] == 8


def test_threats_from_the_host(lab: Any) -> None:
    host = {
        "virtualisation": {"vm": "kvm", "container": "docker"},
        "clock": {"source": "hpet"},
        "cpu": {"governors": ["powersave"]},
    }
    found = raised(lab, host=host, run={"governor": "keep"})
    assert (found["virtual"].evidence["vm"], found["virtual"].evidence["container"]) == ("kvm", "docker")
    assert found["clock"].evidence == {"source": "hpet"} and found["governor"].evidence == {"governors": ["powersave"]}
    assert "governor" not in raised(lab, host=host)


def test_facts_of_a_host_are_held_against_what_it_measured(lab: Any) -> None:
    """Of the machine that started the run nothing is said, since it measured nothing."""
    slow = {"clock": {"source": "hpet"}, "virtualisation": {"vm": "kvm"}}
    host = {"clock": {"source": "acpi_pm"}, "hosts": {"a": slow, "b": {"virtualisation": {"vm": "kvm"}}, "c": {}}}

    def found(names: list[str]) -> dict[str, Any]:
        study = lab.study(run={"hosts": names})
        records = lab.records(lab.run(study, lambda *_: {"read.bw": 1e8}, 3), host=host)
        return {threat.code: threat.evidence for threat in threats.analyse(records, study)}

    assert found(["a", "b", "c"])["clock"] == {"source": "hpet", "hosts": ["a"]}
    assert found(["a", "b", "c"])["virtual"]["hosts"] == ["a", "b"]
    assert "hosts" not in found(["a", "b"])["virtual"]
    assert "clock" not in found(["b", "c"])


def test_an_uncertain_calibration_is_a_threat(lab: Any) -> None:
    def measure(point: Any, repetition: int) -> dict[str, Any]:
        code = "calibration-uncertain" if repetition else "floor-unknown"
        warned = [(code, "the machine was busy")] if point["bs"] == "4KiB" and repetition < 2 else []
        return {"read.bw": 1e8 + repetition, "_warnings": warned}

    threat = raised(lab, measure)["calibration-uncertain"]
    assert (threat.evidence["trials"], threat.evidence["conditions"]) == (2, ["bs=4KiB"])
    assert threat.evidence["of"] > 2
    assert "calibration-uncertain" not in raised(lab)


def test_a_tool_that_checks_itself_is_a_threat(lab: Any) -> None:
    def measure(point: Any, repetition: int) -> dict[str, Any]:
        return {"read.bw": 1e8 + repetition, "_warnings": [("debug-build", "Assertions are enabled")]}

    threat = raised(lab, measure)["debug-build"]
    assert threat.evidence["trials"] == threat.evidence["of"] > 2
    assert "debug-build" not in raised(lab)


@pytest.mark.parametrize(("conditions", "premises"), [(FACTORS["bs"], 1), (["4KiB"], 0)])
def test_a_target_in_memory_is_said_before_any_number(lab: Any, conditions: list[str], premises: int) -> None:
    def measure(point: Any, repetition: int) -> dict[str, Any]:
        warned = [("memory-filesystem", "data lies on /dev/shm (tmpfs), which is memory: no disk is measured")]
        return {"read.bw": 1e8 + repetition, "_warnings": warned if point["bs"] in conditions else []}

    found = stability_text.threat_finding(raised(lab, measure)["memory-filesystem"])
    assert found.statement.startswith("data lies on /dev/shm" if premises else "In 6 of 12 trials: data lies on")
    assert finding.premises([found]) == [found.statement] * premises  # where it is so of some, those were meant to be
    assert finding.premises([*map(stability_text.threat_finding, raised(lab).values())]) == []


def test_answers_that_come_late_are_a_threat(lab: Any) -> None:
    def measure(late_ns: float, tail_ns: float) -> Any:
        def values(point: Any, repetition: int) -> dict[str, Any]:
            late = point["bs"] == "4KiB" and repetition < 3
            drive = {"read.ios": 900, "read.lat.mean": 1e5, "write.ios": 100, "write.lat.mean": 2e5}
            drive |= {"late.p50": late_ns if late else 400, "late.p99": tail_ns if late else 9_000}
            return {"read.bw": 1e8 + repetition, **{f"drive.{name}": float(value) for name, value in drive.items()}}

        return values

    for late_ns, tail_ns in ((40_000, 50_000), (500, 8.6e6)):
        threat = raised(lab, measure(late_ns, tail_ns))["late-answers"]
        assert (threat.evidence["trials"], threat.evidence["conditions"]) == (3, ["bs=4KiB"])
        assert threat.evidence["mean_ns"] == pytest.approx(1.1e5)
        assert (threat.evidence["late_p50_ns"], threat.evidence["late_p99_ns"]) == (late_ns, tail_ns)
    assert "late-answers" not in raised(lab, measure(30_000, 105_000))
    assert "late-answers" not in raised(lab)


def test_faults_that_struck_are_a_threat(lab: Any) -> None:
    def measure(point: Any, repetition: int) -> dict[str, Any]:
        fired = 2.0 if point["bs"] == "4KiB" and repetition < 3 else 0.0
        return {"read.bw": 1e8 + repetition, "drive.faults": fired}

    threat = raised(lab, measure)["faults-injected"]
    assert (threat.evidence["trials"], threat.evidence["conditions"]) == (3, ["bs=4KiB"])
    assert threat.evidence["fired"] == 6
    assert "faults-injected" not in raised(lab)


def test_a_processor_fewer_under_some_conditions_is_a_threat(lab: Any) -> None:
    warned = [("affinity-narrowed", "run.scheduler = fifo:99: runs on 1-3, since processor 0 is left to the lab")]

    def measure(point: Any, repetition: int, everywhere: bool = False) -> dict[str, Any]:
        real_time = everywhere or point["run.scheduler"] == "fifo:99"
        return {"read.bw": 1e8 + repetition, **({"_warnings": warned} if real_time else {})}

    factors = {"run.scheduler": ["other", "fifo:99"]}
    threat = raised(lab, measure, factors=factors)["fewer-processors"]
    assert threat.evidence == {"conditions": ["run.scheduler=fifo:99"], "others": ["run.scheduler=other"]}
    assert "fewer-processors" not in raised(lab, lambda p, r: measure(p, r, everywhere=True), factors=factors)


def test_bogo_operations_that_are_other_work_are_not_to_be_compared(lab: Any) -> None:
    def measure(point: Any, repetition: int) -> dict[str, Any]:
        return {"bogo_ops_real_rate": 1e6 + repetition}

    def factors(**keys: Any) -> list[str]:
        threat = raised(lab, measure, responses=["bogo_ops_real_rate"], **keys).get("different-work")
        return threat.evidence["factors"] if threat else []

    assert factors(factors={"cpu-method": ["int16", "int64"]}) == ["cpu-method"]
    cases = [{"name": "a", "stressor": "cpu"}, {"name": "b", "stressor": "pipe"}]
    assert factors(factors={}, case=cases) == ["stressor"]
    assert factors(factors={"workers": [1, 2]}) == []
    assert "different-work" not in raised(lab, factors={"cpu-method": ["int16", "int64"]})


def test_a_pause_in_the_run_is_named(lab: Any) -> None:
    study = lab.study(factors=FACTORS)
    rows = lab.run(study, lambda p, r: {"read.bw": 1e8 + r}, 6)
    for row in rows.trials:
        row["started_unix_s"] = 1.7e9 + 11 * row["order"] + (7200 if row["order"] > 5 else 0)
    found = {threat.code: threat for threat in threats.analyse(lab.records(rows), study)}
    assert found["interrupted"].evidence["pauses"] == 1
    assert found["interrupted"].evidence["longest_s"] == pytest.approx(7210)


@pytest.mark.parametrize(("pause_s", "raises"), [(300.0, False), (301.0, True)])
def test_a_pause_of_five_minutes_is_none(lab: Any, pause_s: float, raises: bool) -> None:
    study = lab.study(factors=FACTORS)
    rows = lab.run(study, lambda p, r: {"read.bw": 1e8 + r}, 6)
    for row in rows.trials:
        row["duration_s"] = 10.0
        row["started_unix_s"] = 1.7e9 + 10 * row["order"] + (pause_s if row["order"] > 5 else 0)
    codes = {threat.code for threat in threats.analyse(lab.records(rows), study)}
    assert (Code.INTERRUPTED in codes) == raises


def test_short_trials_and_adaptive_repetition_are_said(lab: Any) -> None:
    study = lab.study(factors=FACTORS, until={"metric": "read.bw", "ci": 0.05, "min": 3, "max": 30})
    rows = lab.run(study, lambda p, r: {"read.bw": 1e8 + r}, 6)
    found = {threat.code: threat for threat in threats.analyse(lab.records(rows), study)}
    assert found["short"].evidence["median_s"] == 1.0
    assert found["sequential-stopping"].evidence["trials"] == 12
    assert "incomplete" not in found
