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


@dataclass(frozen=True)
class Steadiness:
    """All conditions of one response."""

    conditions: tuple[Judged, ...]

    @property
    def by_repetition(self) -> dict[str, SteadyState]:
        """Label -> state, of the conditions with repetitions enough."""
        states = ((condition.cell.label, condition.repetitions) for condition in self.conditions)
        return {label: state for label, state in states if isinstance(state, SteadyState)}

    @property
    def unsteady(self) -> list[str]:
        """Labels of the conditions that are not steady over their repetitions."""
        return [label for label, state in self.by_repetition.items() if not state.attained]

    @property
    def within(self) -> list[WithinTrial]:
        """The trials with logs."""
        return [trial for condition in self.conditions for trial in condition.trials.values()]

    @property
    def trials(self) -> int:
        """Number of trials with logs."""
        return len(self.within)

    @property
    def trials_attained(self) -> int:
        """Number of those that ended in steady state."""
        return sum(trial.state.attained for trial in self.within)

    @property
    def outcome(self) -> Outcome:
        """UNSTEADY where a condition, or more than a few trials, did not attain steady state."""
        if self.unsteady or self.trials_attained < ENOUGH * self.trials:
            return Outcome.UNSTEADY
        return Outcome.STEADY if self.trials_attained == self.trials else Outcome.MOSTLY_STEADY


def steadiness(found: Cells, logged: Mapping[str, Samples]) -> Steadiness | None:
    """All conditions in the study's order; None where there are neither five repetitions nor logs."""
    judged = []
    for cell in found.cells:
        trials = {trial: one for trial in cell.trials if trial in logged and (one := within_trial(logged[trial]))}
        judged.append(Judged(cell, steady_state(cell.measured[np.argsort(cell.order, kind="stable")]), trials))
    answer = Steadiness(tuple(judged))
    return answer if answer.by_repetition or answer.trials else None


def within_trial(found: Samples) -> WithinTrial | None:
    """Judge one trial by its log samples; None of fewer than five rounds."""
    cut = rounds(found)
    state = steady_state(cut.values)
    if isinstance(state, Undefined):
        return None
    return WithinTrial(state, None if state.since is None else cut.start_s + state.since * cut.round_s, cut.round_s)
