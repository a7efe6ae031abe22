"""Claims about a sweep are wrong in at most 5 % of studies: a small part of `benches/inference_coverage.py`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benches"))

from inference_coverage import CLAIMS, SHAPES, counted

STUDIES = 16
MOST = 0.05
"""Of all studies of a noise and a number of repetitions together; the worst of them has half of that in the bench."""


@pytest.mark.parametrize(("noise", "repetitions"), [(0.03, 3), (0.03, 10), (0.1, 5), (0.2, 3)])
def test_claims_are_wrong_as_rarely_as_they_promise(noise: float, repetitions: int) -> None:
    made: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for shape in SHAPES:
        claimed, false = counted(shape, "normal", noise, repetitions, STUDIES)
        made, wrong = made + claimed, wrong + false
    studies = STUDIES * len(SHAPES)
    assert {kind: wrong[kind] / studies for kind in CLAIMS if wrong[kind] > MOST * studies} == {}
    assert made["effect"] > 0.4 * studies, "claims that are never made are never wrong"
    assert made["plateau"] > 0.3 * studies or noise > 0.03 or repetitions < 10


@pytest.mark.parametrize("errors", ["gc", "gcsticky"])
def test_trials_at_half_the_speed_make_no_difference(errors: str) -> None:
    wrong = Counter[str]()
    for shape in ("flat", "linear", "step"):
        wrong += counted(shape, errors, 0.05, 3, 2 * STUDIES)[1]
    assert {kind: number for kind, number in wrong.items() if number > MOST * 6 * STUDIES} == {}
