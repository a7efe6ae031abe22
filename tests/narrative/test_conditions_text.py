"""The trust line: the machine's conditions and the claims, one golden text for all grades and causes."""

from __future__ import annotations

from dataclasses import replace

import golden
from ioassay.analysis.machine_conditions import Conditions, Disturbance, Grade
from ioassay.narrative import conditions_text

FIT = Conditions("study", Grade.FIT, 30, 0, 0, 0.004)
UNFIT = Conditions("study", Grade.UNFIT, 30, 2, 24, 0.62, Disturbance.PROGRAMS, 0.62, ["stress-ng", "make"])
ALL = [
    FIT,
    UNFIT,
    replace(UNFIT, grade=Grade.DOUBTFUL, unfit=1, value=0.071, programs=["apt-get"]),
    replace(UNFIT, disturbance=Disturbance.STEAL, value=0.13),
    replace(UNFIT, disturbance=Disturbance.DEVICE, value=0.41, devices=["nvme0n1"], programs=[]),
    replace(UNFIT, disturbance=Disturbance.MEMORY, value=0.3),
    replace(UNFIT, grade=Grade.DOUBTFUL, trials=1, doubtful=1, unfit=0, disturbance=Disturbance.THROTTLED, value=3.0),
    replace(UNFIT, disturbance=Disturbance.CLOCK, value=0.48),
]


def test_conditions() -> None:
    golden.check("conditions", map(conditions_text.finding, ALL))


def test_what_replaces_a_conclusion_names_the_trials() -> None:
    assert "24 of 30 trials" in str(conditions_text.withheld(UNFIT))
