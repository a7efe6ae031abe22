"""What the analyses of storage say, one golden text a question."""

from __future__ import annotations

from typing import Any

import numpy as np

import golden
from ioassay.analysis.storage import latency
from ioassay.narrative import latency_text


def test_latency(lab: Any) -> None:
    rng = np.random.default_rng(1)
    deep, alone = lab.study(factors={"iodepth": [1, 32]}), lab.study()

    def measure(point: Any, _: int) -> dict[str, Any]:
        median_ns = 1e5 * point.get("iodepth", 1) * rng.lognormal(0, 0.05)
        values_ns = np.round(rng.lognormal(np.log(median_ns), 0.3, 300), -2).astype(int)
        return {"read.bw": 1.0, "_hist": [("read", "lat", *np.unique(values_ns, return_counts=True))]}

    answers = [
        *latency.analyse(lab.records(lab.run(deep, measure, 8)), deep),
        *latency.analyse(lab.records(lab.run(alone, measure, 1)), alone),
    ]
    found = latency_text.findings(answers)
    golden.check("latency", found)
    assert any("naive" in column for column in found[0].tables[1].columns)
