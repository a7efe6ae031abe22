"""A mix of block sizes: against each fixed size, and against the prediction from its parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioassay.analysis import conclusion
from ioassay.analysis.measurements.cells import cells
from ioassay.analysis.one_factor import level_families
from ioassay.factors import CASE
from ioassay.packs.fio import mixes
from ioassay.stats.contrasts import Ratio
from ioassay.stats.result import Undefined

CASES = [
    {"name": "mixed", "bssplit": "4KiB/30:16KiB/60:64KiB/10"},
    {"name": "4k", "bs": "4KiB"},
    {"name": "16k", "bs": "16KiB"},
    {"name": "64k", "bs": "64KiB"},
]
ALONE = {"4k": 60e6, "16k": 190e6, "64k": 400e6}


def predicted() -> float:
    shares = {"4k": (0.3, 4096), "16k": (0.6, 16384), "64k": (0.1, 65536)}
    volume = sum(share * size for share, size in shares.values())
    return volume / sum(share * size / ALONE[name] for name, (share, size) in shares.items())


def mixed_sizes(lab: Any, cost: float, repetitions: int = 8) -> Any:
    rng = np.random.default_rng(1)
    study = lab.study(factors={"rw": ["randread"]}, case=CASES)
    means = {**ALONE, "mixed": predicted() * (1 - cost)}
    return study, lambda p, _: {"read.bw": means[p["case"]] * rng.lognormal(0, 0.01)}


def test_a_mix_is_compared_with_each_size_and_with_its_parts(lab: Any) -> None:
    study, measure = mixed_sizes(lab, cost=0.22)
    (answer,) = conclusion.analyse(lab.records(lab.run(study, measure, 8)), study)
    (part,) = answer.parts
    assert isinstance(part, mixes.Mix) and isinstance(part.predicted, Ratio)
    predicted_ratio, largest = part.predicted, part.against["64k"]
    assert predicted_ratio.ratio == pytest.approx(0.78, abs=0.02)
    assert predicted_ratio.interval.low < 0.78 < predicted_ratio.interval.high
    assert isinstance(largest, Ratio) and largest.ratio == pytest.approx(0.78 * predicted() / 400e6, rel=0.02)


def test_the_prediction_of_a_mix_covers_as_often_as_it_says(lab: Any) -> None:
    hits = 0
    study, measure = mixed_sizes(lab, cost=0.1)
    for seed in range(80):
        found = cells(lab.records(lab.run(study, measure, 6, seed=seed)), study, "read.bw")
        (one,) = mixes.parts(found, level_families(found, CASE, 0.95), study)
        assert isinstance(one.predicted, Ratio)
        hits += one.predicted.interval.low <= 0.9 <= one.predicted.interval.high
    assert hits >= 70


def test_a_mix_without_its_parts_has_no_prediction(lab: Any) -> None:
    study = lab.study(case=CASES[:3])
    records = lab.records(lab.run(study, lambda p, r: {"read.bw": 100.0 + r}, 4))
    found = cells(records, study, "read.bw")
    (one,) = mixes.parts(found, level_families(found, CASE, 0.95), study)
    assert isinstance(one.predicted, Undefined)
    assert set(one.against) == {"4k", "16k"}


def test_block_size_splits_are_read_as_fio_reads_them() -> None:
    assert mixes.parse_split("4k/30:16k/60:64k/10") == {4096.0: 0.3, 16384.0: 0.6, 65536.0: 0.1}
    assert mixes.parse_split("4k/50:8k:16k") == {4096.0: 0.5, 8192.0: 0.25, 16384.0: 0.25}
    assert mixes.parse_split("4k/50:8k/50,4k/10:8k/90") == {}
