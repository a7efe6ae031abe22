"""Was steady state attained (SNIA's criterion)? Over repetitions as rounds and, where logs exist, within each trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.analysis.measurements.log_samples import Samples, rounds
from ioassay.stats.result import Undefined
from ioassay.stats.steady_state import SteadyState, steady_state

ENOUGH = 0.9
"""Share of the trials that must end in steady state: single ones miss the criterion by noise."""


class Outcome(Enum):
    """Whether conditions and trials end in steady state."""

    STEADY = "steady"
    MOSTLY_STEADY = "mostly steady"
    """All conditions over their repetitions, and of the trials at least the share ENOUGH."""
    UNSTEADY = "unsteady"


@dataclass(frozen=True)
class WithinTrial:
    """One trial judged over equal spans of its time. `since_s`: start of its steady part, None if there is none."""

    state: SteadyState
    since_s: float | None
    round_s: float


@dataclass(frozen=True)
class Judged:
    """One condition: over its repetitions, and each of its logged trials (trial id -> result)."""

    cell: Cell
    repetitions: SteadyState | Undefined
    trials: Mapping[str, WithinTrial]

    @property
    def attained_within(self) -> int:
        """Number of trials that ended in steady state."""
        return sum(trial.state.attained for trial in self.trials.values())

    @property
    def median_since_s(self) -> float | None:
        """Median start of the trials' steady part; None where no trial has one."""
        since = [trial.since_s for trial in self.trials.values() if trial.since_s is not None]
        return float(np.median(since)) if since else None


def within_trial(found: Samples) -> WithinTrial | Undefined:
    """Judge one trial by its log samples (at least five)."""
    cut = rounds(found)
    state = steady_state(cut.values)
    if isinstance(state, Undefined):
        return state
    return WithinTrial(state, None if state.since is None else cut.start_s + state.since * cut.round_s, cut.round_s)


def judge(found: Cells, logged: Mapping[str, Samples]) -> list[Judged]:
    """Every condition, in the study's order."""
    judged = []
    for cell in found.cells:
        trials = {trial: within_trial(logged[trial]) for trial in cell.trials if trial in logged}
        known = {trial: state for trial, state in trials.items() if isinstance(state, WithinTrial)}
        judged.append(Judged(cell, steady_state(cell.measured[np.argsort(cell.order, kind="stable")]), known))
    return judged


@dataclass(frozen=True)
class Steadiness:
    """All conditions of one response."""

    cells: Cells
    conditions: tuple[Judged, ...]

    @property
    def by_repetition(self) -> dict[str, SteadyState]:
        """Label -> state, of the conditions with repetitions enough."""
        return {
            condition.cell.label: condition.repetitions
            for condition in self.conditions
            if isinstance(condition.repetitions, SteadyState)
        }

    @property
    def unsteady(self) -> list[str]:
        """Labels of the conditions that are not steady over their repetitions."""
        return [label for label, state in self.by_repetition.items() if not state.attained]

    @property
    def trials(self) -> int:
        """Number of trials with logs."""
        return sum(len(condition.trials) for condition in self.conditions)

    @property
    def trials_attained(self) -> int:
        """Number of those that ended in steady state."""
        return sum(condition.attained_within for condition in self.conditions)

    @property
    def outcome(self) -> Outcome:
        """UNSTEADY where a condition, or more than a few trials, did not attain steady state."""
        if self.unsteady or self.trials_attained < ENOUGH * self.trials:
            return Outcome.UNSTEADY
        return Outcome.STEADY if self.trials_attained == self.trials else Outcome.MOSTLY_STEADY


def steadiness(found: Cells, logged: Mapping[str, Samples]) -> Steadiness | None:
    """All conditions; None where there are neither five repetitions nor logs."""
    answer = Steadiness(found, tuple(judge(found, logged)))
    return answer if answer.by_repetition or answer.trials else None
