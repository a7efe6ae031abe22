"""The words of the threats to validity, one example of each."""

from __future__ import annotations

from typing import Any

import golden
from ioassay.analysis.threats import Code, Threat
from ioassay.narrative import stability_text
from ioassay.narrative.say import templates

INTERVAL = {"low": -0.5, "high": -0.3, "confidence": 0.95, "method": "t"}
CACHED = {"share_of_claim": {"t1": 0.3}, "least": 0.3, "limit": 0.9, "of": 12, "conditions": ["bs=4KiB"]}
CASES: list[tuple[Code, dict[str, Any]]] = [
    (Code.FAILED, {"trials": ["t1", "t2"], "of": 12, "reasons": {"the tool crashed": 1, "": 1}}),
    (Code.SKIPPED, {"trials": ["t1"], "of": 12, "reasons": {"no permission": 1}}),
    (Code.INCOMPLETE, {"planned": 20, "recorded": 12, "run": "runs/a"}),
    (Code.FEW_REPETITIONS, {"fewest": 1, "conditions": 2, "enough": 5}),
    (Code.FEW_REPETITIONS, {"fewest": 3, "conditions": 2, "enough": 5}),
    (Code.BUFFERED, {"conditions": ["direct=0"], "of": 2, "remedy": "set direct = 1"}),
    (Code.CACHED_READS, CACHED),
    (Code.CACHED_WRITES, CACHED),
    (
        Code.TWO_MODES,
        {
            "modes": {
                "read.bw": {"ratio": 2.0, "share": 0.3, "carries": False, "needed": 12, "p_of_shares": 0.4},
                "read.lat.p99": {"ratio": 1.5, "share": 0.3, "carries": True, "needed": 5, "p_of_shares": 0.4},
            },
            "inside": {"read.bw": {"ratio": 2.0, "share": 0.25}},
        },
    ),
    (
        Code.UNSTABLE,
        {
            "limit": 0.05,
            "cv": {"read.bw": {"bs=4KiB": 0.2}, "read.lat.p99": {"bs=4KiB": 0.3, "bs=8KiB": 0.4}},
            "conditions": {"read.bw": 2, "read.lat.p99": 2},
        },
    ),
    (Code.DRIFT, {"read.bw": {"change": -0.4, "interval": INTERVAL, "p": 0.001}}),
    (
        Code.UNSTEADY,
        {"read.bw": {"conditions": ["bs=4KiB"], "conditions_judged": 2, "trials": 12, "trials_attained": 9}},
    ),
    (Code.SHORT, {"median_s": 1.0, "enough_s": 5.0, "key": "runtime", "target": True}),
    (Code.SHORT, {"median_s": 1.0, "enough_s": 5.0, "key": "timeout", "target": False}),
    (Code.SATURATION, {"factor": "iodepth", "from": 8, "where": {"bs": "4KiB"}, "margin": 0.05}),
    (Code.FEWER_PROCESSORS, {"conditions": ["run.scheduler=fifo:99"], "others": ["run.scheduler=other"]}),
    (Code.DIFFERENT_WORK, {"factors": ["cpu-method"]}),
    (
        Code.IN_MEMORY,
        {
            "trials": 2,
            "of": 12,
            "everywhere": False,
            "text": "d lies on /dev/shm (tmpfs), which is memory: no disk is measured",
        },
    ),
    (Code.DEBUG_BUILD, {"trials": 12, "of": 12, "tool": "db_bench"}),
    (Code.CALIBRATION, {"trials": 2, "of": 12, "conditions": ["bs=4KiB"]}),
    (
        Code.LATE_ANSWERS,
        {
            "trials": 2,
            "of": 12,
            "conditions": ["bs=4KiB"],
            "mean_ns": 104_000.0,
            "late_p50_ns": 2_500.0,
            "late_p99_ns": 8_600_000.0,
        },
    ),
    (Code.FAULTS, {"trials": 2, "of": 12, "conditions": ["target.faults=slow.toml"], "fired": 31}),
    (Code.DEVICE_BUSY, {"limit_percent": 95.0, "trials": 12, "devices": ["vda"], "conditions": ["bs=4KiB"]}),
    (Code.VIRTUAL, {"vm": "kvm", "container": "docker", "target": True}),
    (Code.VIRTUAL, {"vm": "kvm", "target": False}),
    (Code.VIRTUAL, {"vm": "qemu", "target": True, "emulated": True}),
    (Code.GOVERNOR, {"governors": ["powersave"]}),
    (Code.CLOCK, {"source": "hpet"}),
    (Code.INTERRUPTED, {"pauses": 1, "longest_s": 7200.0, "limit_s": 300.0, "before_trials": ["t6"]}),
    (Code.SEQUENTIAL_STOPPING, {"metric": "read.bw", "trials": 12, "planned_at_most": 60}),
]


def test_every_threat_has_its_words() -> None:
    assert set(Code) == {code for code, _ in CASES} and {f"title_{code}" for code in Code} <= {*templates("threats")}


def test_sentences() -> None:
    threats = [
        Threat(code, evidence, response="read.bw" if code == Code.SATURATION else "") for code, evidence in CASES
    ]
    golden.check("threats", map(stability_text.threat_finding, threats))
