"""How many repetitions a study needs before it runs: by assumed noise, and by that of a pilot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioassay.analysis.descriptive import NOISES, noise_of_responses, repetition_plan


def test_more_levels_places_and_noise_need_more_repetitions(lab: Any) -> None:
    small = lab.study(factors={"bs": ["4k", "8k"]})
    large = lab.study(factors={"bs": ["4k", "8k", "16k"], "numjobs": [1, 2, 4]})
    few, many = ([repetition_plan(study, 0.05, noise) for noise in NOISES] for study in (small, large))
    assert [one.repetitions for one in few] == sorted(one.repetitions for one in few)
    assert all(one.repetitions < other.repetitions for one, other in zip(few[1:], many[1:], strict=True))
    assert repetition_plan(small, 0.1, 0.03).repetitions < few[1].repetitions


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
    noises = noise_of_responses(made, lab.records(pilot))
    assert noises == {"read.bw": pytest.approx(0.02, rel=0.4), "read.lat.mean": pytest.approx(0.1, rel=0.4)}
    quiet, noisy = (repetition_plan(made, 0.05, noise, response) for response, noise in noises.items())
    assert (quiet.response, noisy.response) == ("read.bw", "read.lat.mean")
    assert 3 <= quiet.repetitions < 15 < noisy.repetitions
    assert noise_of_responses(lab.study("other"), lab.records(pilot)) == {}
