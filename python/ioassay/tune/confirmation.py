"""The trials after a search: winner and default side by side, each repeated freshly.

The best of many noisy values is a lucky one (the winner's curse), so none of the search's own values is used: both
points are repeated anew, in blocks of two in a drawn order, so that a machine that drifts drifts for both. What they
prove is said in `ioassay.analysis.optimum.tuning`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from ioassay.roles import Trial
from ioassay.study import plan
from ioassay.study.model import Study
from ioassay.study.plan import Point

CONFIRM = "confirm"


def confirmation(study: Study, winner: Point, default: Point, repetitions: int, before: Iterable[Trial]) -> list[Trial]:
    """The trials of the confirmation, after those that were planned `before`; none where the default itself won."""
    if dict(winner) == dict(default):
        return []
    planned = list(before)
    fresh = 1 + max((trial.repetition for trial in planned if trial.point in (winner, default)), default=-1)
    trials: list[Trial] = []
    for repetition in range(fresh, fresh + repetitions):
        block = [default, winner]
        random.Random(f"{study.seed}/{study.name}/{CONFIRM}/{repetition}").shuffle(block)
        for point in block:
            order = len(planned) + len(trials)
            trials.append(plan.make_trial(study, point, repetition, order, search=CONFIRM))
    return trials
