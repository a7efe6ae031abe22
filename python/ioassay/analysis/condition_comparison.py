"""Pairs of conditions compared: is the second faster than the first, slower, the same, or do the data not decide?

All conditions of a response have one model (`stats/condition_means.py`); each pair has two claims from it: a difference
(the interval of the ratio of means excludes 1) and equivalence (two one-sided tests against the margin). All claims
that are judged together hold at once. The cause of a difference is not examined.

Where the scatter from run to run is unknown, a difference is one of two runs, and no verdict on what was changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import compress

from ioassay import metrics
from ioassay.analysis.measurements.cells import Cell
from ioassay.metrics import lower_bounds
from ioassay.records.record import Scalar
from ioassay.stats.condition_means import ConditionMeans, fit
from ioassay.stats.contrasts import (
    MARGIN,
    Contrasts,
    Equivalence,
    Ratio,
    equivalence,
    ratio_interval,
    repetitions_needed,
)
from ioassay.stats.result import Interval, Undefined, mean_of


class Verdict(StrEnum):
    """How B compares with A, worst first. Only what is a speed is slower or faster, such as a rate or a latency."""

    SLOWER = "slower"
    DIFFERS = "differs"
    """The two runs differ, and nobody knows by how much any two runs would."""
    FASTER = "faster"
    CHANGED = "changed"
    """It differs, and the response is no speed: a hit ratio, or what has no better direction."""
    UNDECIDED = "undecided"
    SAME = "same"
    """It is proved to be within the margin."""
    WITHHELD = "withheld"
    """A run was measured on an unfit machine, or the kernel contradicts its claims."""


class RunScatter(StrEnum):
    """What tells how much two runs of the same thing differ."""

    NONE = "none"
    """Not at all: both conditions are of one run, or computed."""
    TURNS = "turns"
    """From the pairs of turns in which the two runs were measured."""
    HISTORY = "history"
    """From earlier runs."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Row:
    """One condition and response in both runs.

    `ratio` is B's mean divided by A's, its interval among those of all rows; `p_adjusted` its p value adjusted over all
    rows. `needed`: the repetitions of each run that would show a difference of the margin; None where nothing tells it.
    """

    study: str
    point: dict[str, Scalar]
    label: str
    response: str
    n_a: int
    n_b: int
    mean_a: float
    mean_b: float
    ratio: Ratio | Undefined
    margin: float = MARGIN
    equivalence: Equivalence | None = None
    needed: int | None = None
    p_adjusted: float | None = None
    verdict: Verdict = Verdict.UNDECIDED
    scatter: RunScatter = RunScatter.NONE

    @property
    def interval(self) -> Interval | None:
        """The one that the verdict is read from: of 'same' that of the two one-sided tests."""
        if self.verdict == Verdict.SAME and self.equivalence is not None:
            return self.equivalence.interval
        return self.ratio.interval if isinstance(self.ratio, Ratio) else None


_CERTAIN: dict[tuple[int, ...], Verdict] = {(0,): Verdict.FASTER, (1,): Verdict.SLOWER}
"""Where A, or B, is a lower bound: what it leaves out can only make it slower."""


def judged_pairs(
    study: str, response: str, pairs: Sequence[tuple[Cell, Cell]], margin: float = MARGIN, confidence: float = 0.95
) -> list[Row]:
    """Each second condition, whose point the row bears, judged against the first: all of one response and study."""
    return judged(pair_rows(study, response, pairs, margin, confidence), 1 - confidence)


def pair_rows(
    study: str,
    response: str,
    pairs: Sequence[tuple[Cell, Cell]],
    margin: float,
    confidence: float,
    *,
    exact: bool = False,
) -> list[Row]:
    """A row without a verdict for each pair, all from one model; passes of two runs differ, hence no blocks."""
    known = [all((exact or one.values.size > 1) and mean_of(one.values) > 0 for one in pair) for pair in pairs]
    values = [one.values for pair in compress(pairs, known) for one in pair]
    model, place = fit(values, exact=exact) if values else Undefined(""), 0
    rows = []
    for (a, b), is_known in zip(pairs, known, strict=True):
        ratio: Ratio | Undefined = Undefined("a mean is not above 0, so there is no ratio")
        needed = None
        if is_known and isinstance(model, ConditionMeans):
            contrasts = Contrasts(model.part([place, place + 1]), confidence, margin)
            ratio, needed = contrasts.ratio(1, 0), None if model.exact else repetitions_needed(contrasts)
            place += 2
        elif is_known and isinstance(model, Undefined):
            ratio = model
        elif min(a.values.size, b.values.size) < 2:
            ratio = Undefined("a condition has one repetition only, so its spread is unknown")
        rows.append(
            Row(
                study=study,
                point=dict(b.point),
                label=b.label,
                response=response,
                n_a=int(a.values.size),
                n_b=int(b.values.size),
                mean_a=a.mean,
                mean_b=b.mean,
                ratio=ratio,
                margin=margin,
                needed=needed,
            )
        )
    return rows


def judged(rows: Sequence[Row], risk: float, claims: int | None = None) -> list[Row]:
    """The verdicts, read from intervals that hold for all rows at once: `claims`, where some rows restate others.

    Each claim has one part of the risk (Bonferroni's inequality), which bounds the chance of even one false verdict: of
    a row either a difference or equality can be false. That all rows are the same is one claim, for which each is
    tested at the whole risk (Berger, Technometrics 24, 1982).
    """
    part, found = risk / max(claims or sum(isinstance(row.ratio, Ratio) for row in rows), 1), []
    is_one = all(isinstance(row.ratio, Ratio) and equivalence(row.ratio, row.margin, risk).equivalent for row in rows)
    for row in rows:
        if isinstance(ratio := row.ratio, Undefined):
            found.append(row)
            continue
        if ratio.se > 0:
            bounds = ratio_interval(math.log(ratio.ratio), ratio.se, ratio.df, 1 - part)
            ratio = replace(ratio, interval=replace(bounds, confidence=1 - risk))
        same = equivalence(ratio, row.margin, risk if is_one else part)
        same = replace(same, interval=replace(same.interval, confidence=1 - 2 * risk))
        apart = not ratio.interval.low <= 1 <= ratio.interval.high
        direction = Verdict.DIFFERS if row.scatter == RunScatter.UNKNOWN else Verdict.CHANGED
        if direction == Verdict.CHANGED and (metric := metrics.metric(row.response)).is_speed:
            direction = Verdict.FASTER if (ratio.ratio > 1) == (metric.better == "higher") else Verdict.SLOWER
        verdict = Verdict.SAME if same.equivalent else direction if apart else row.verdict
        if (bounded := lower_bounds((row.mean_a, row.mean_b))) and verdict != _CERTAIN.get(bounded):
            verdict, row = Verdict.UNDECIDED, replace(row, needed=None)
        p = min(1.0, ratio.p * risk / part)
        found.append(replace(row, ratio=ratio, equivalence=same, p_adjusted=p, verdict=verdict))
    return found
