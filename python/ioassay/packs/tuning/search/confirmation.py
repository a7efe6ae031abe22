"""The trials after a search: candidate and default side by side, each repeated freshly.

The best of many noisy values is a lucky one (the winner's curse), so none of the search's own values is used: both
points are repeated anew, in blocks of two in a drawn order, so that a machine that drifts drifts for both. What they
prove is said in `ioassay.packs.tuning.questions.tuned`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from statistics import NormalDist, fmean, variance

from ioassay.roles import Trial
from ioassay.study import plan
from ioassay.study.model import Study
from ioassay.study.plan import Point

CONFIRM = "confirm"


def repetitions_for(groups: Sequence[Sequence[float]], margin: float) -> int:
    """Repetitions of two points after which the 95 % interval of their ratio is expected to be `margin` wide each way.

    `groups`: repeated values, whose scatter is pooled as a share of their means; 0 where none was repeated.
    """
    usable = [(len(values) - 1, variance(values) / fmean(values) ** 2) for values in groups if fmean(values)]
    if not usable:
        return 0
    scatter = sum(degrees * share for degrees, share in usable) / sum(degrees for degrees, _ in usable)
    return math.ceil(2 * scatter * (NormalDist().inv_cdf(0.975) / margin) ** 2)


def confirmation(
    study: Study, candidate: Point, default: Point, repetitions: int, before: Iterable[Trial]
) -> list[Trial]:
    """The trials that confirm a candidate, after those that were planned `before`.

    Both points have the same numbers of repetition, which tell the default's of one candidate from those of another.
    """
    planned = list(before)
    fresh = 1 + max((trial.repetition for trial in planned if trial.point in (candidate, default)), default=-1)
    trials: list[Trial] = []
    for repetition in range(fresh, fresh + repetitions):
        block = [default, candidate]
        random.Random(f"{study.seed}/{study.name}/{CONFIRM}/{repetition}").shuffle(block)
        for point in block:
            order = len(planned) + len(trials)
            trials.append(plan.make_trial(study, point, repetition, order, search=CONFIRM))
    return trials
