"""What a study comes to, in one golden text of its summary and its paragraphs."""

from __future__ import annotations

from typing import Any

import numpy as np

import golden
from ioassay.analysis import conclusion
from ioassay.narrative import conclude_text
from ioassay.narrative.finding import Finding

RNG = np.random.default_rng(1)
SIZES = {"4k": 60e6, "16k": 190e6, "64k": 400e6, "mixed": 95e6}
DEPTHS = {"depth 1": 1, "depth 32": 9}
CASES = [{"name": "mixed", "bssplit": "4KiB/30:16KiB/60:64KiB/10"}] + [
    {"name": name, "bs": name} for name in ("4k", "16k", "64k")
]


def noise(spread: float = 0.01) -> float:
    return float(RNG.lognormal(0, spread))


def saturating(point: Any, _: int) -> dict[str, float]:
    return {"read.bw": 1e8 * min(point["numjobs"], 4) * noise(), "write.bw": 5e7 * point["numjobs"] ** 0.1 * noise()}


def crossing(point: Any, _: int) -> dict[str, float]:
    share = point["rwmixwrite"] / 100
    level = 5e8 * (1 - 0.5 * share) if point["rw"] == "rw" else 1e8 * (1 + share)
    return {"total.bw": level * noise(), "read.iops": 1e4 * noise(0.1)}


def partly_failed(point: Any, repetition: int) -> dict[str, float] | None:
    return None if point["run.scheduler"] == "fifo:99" else {"read.bw": 1e8 + repetition}


def paragraphs(finding: Finding) -> Finding:
    """The finding with its paragraphs where the golden text has caveats."""
    caveats = [*map(str, finding.details), *finding.caveats]
    return Finding(finding.study, "", "", finding.title, finding.statements, caveats=caveats)


def test_conclusions(lab: Any) -> None:
    jobs, share = [1, 2, 4, 6, 8], [0, 25, 50, 75, 100]
    scheduler = {"rw": ["rw", "randrw"], "run.scheduler": ["other", "fifo:99", "idle"]}
    depths = [{"name": name, "iodepth": name.split()[1]} for name in DEPTHS]
    rates = ["total.bw", "read.iops"]
    crossed = lab.study("share", factors={"rw": ["rw", "randrw"], "rwmixwrite": share}, responses=rates)
    latency = lab.study("latency", case=depths, responses=["read.lat.p99"])
    cases: list[tuple[Any, Any, int]] = [
        (lab.study("saturation", factors={"numjobs": jobs}, responses=["read.bw", "write.bw"]), saturating, 8),
        (crossed, crossing, 8),
        (lab.study("mix", case=CASES), lambda p, _: {"read.bw": SIZES[p["case"]] * noise()}, 8),
        (lab.study("cases", case=depths), lambda p, _: {"read.bw": 1e8 * DEPTHS[p["case"]] * noise()}, 8),
        (latency, lambda p, _: {"read.lat.p99": 1e6 * DEPTHS[p["case"]] * noise()}, 8),
        (lab.study("noise", factors={"numjobs": [1, 2, 4]}), lambda *_: {"read.bw": 1e8 * noise(0.2)}, 5),
        (lab.study("alone", responses=["read.bw", "read.iops"]), lambda *_: {"read.bw": 1e8, "read.iops": 8.59e4}, 5),
        (lab.study("single", factors={"numjobs": jobs}), lambda p, _: {"read.bw": 1e8 * p["numjobs"]}, 1),
        (lab.study("failed", factors={"numjobs": [1, 2]}), lambda *_: None, 2),
        (lab.study("partly", factors=scheduler), partly_failed, 2),
    ]
    answers = []
    for study, measure, repetitions in cases:
        answers += conclusion.analyse(lab.records(lab.run(study, measure, repetitions)), study)
    golden.check("conclude", [paragraphs(finding) for finding in conclude_text.findings(answers)])
