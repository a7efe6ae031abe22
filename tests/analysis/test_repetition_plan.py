"""How many repetitions a study needs before it runs: by assumed noise, and by that of a pilot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioassay.analysis import repetition_plan


def test_more_levels_places_and_noise_need_more_repetitions(lab: Any) -> None:
    small = lab.study(factors={"bs": ["4k", "8k"]})
    large = lab.study(factors={"bs": ["4k", "8k", "16k"], "numjobs": [1, 2, 4]})
    few, many = repetition_plan.assumed(small, 0.05), repetition_plan.assumed(large, 0.05)
    assert [one.noise for one in few] == list(repetition_plan.ASSUMED)
    assert [one.repetitions for one in few] == sorted(one.repetitions for one in few)
    assert all(one.repetitions < other.repetitions for one, other in zip(few[1:], many[1:], strict=True))
    assert repetition_plan.assumed(small, 0.1, [0.03])[0].repetitions < few[1].repetitions


def test_a_pilot_gives_the_noise_of_each_response(lab: Any) -> None:
    random = np.random.default_rng(1)
    made = lab.study(factors={"numjobs": [1, 2, 4, 8]}, responses=["read.bw", "read.lat.mean"])
    pilot = lab.run(
        made,
        lambda p, _: {
            "read.bw": p["numjobs"] * (1 + 0.02 * random.standard_normal()),
            "read.lat.mean": 1 + 0.1 * random.standard_normal(),
        },
        8,
    )
    quiet, noisy = repetition_plan.measured(made, 0.05, lab.records(pilot))
    assert (quiet.response, noisy.response) == ("read.bw", "read.lat.mean")
    assert quiet.noise == pytest.approx(0.02, rel=0.4) and noisy.noise == pytest.approx(0.1, rel=0.4)
    assert 3 <= quiet.repetitions < 15 < noisy.repetitions
    assert repetition_plan.measured(lab.study("other"), 0.05, lab.records(pilot)) == []
