"""Was steady state attained (SNIA's criterion)? Over repetitions as rounds and, where logs exist, within each trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.analysis.measurements.log_samples import Samples, rounds
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.result import Undefined, plain
from ioassay.stats.steady_state import MAX_RANGE, MAX_SLOPE, ROUNDS, SteadyState, steady_state

ENOUGH = 0.9
"""Share of the trials that must end in steady state: single ones miss the criterion by noise."""
CRITERION = (
    f"SNIA's criterion: over the last {ROUNDS} rounds, values within {phrases.percent(MAX_RANGE)} of their average "
    f"from lowest to highest, and a fitted line that moves by at most {phrases.percent(MAX_SLOPE)}"
)


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
        judged.append(Judged(cell, steady_state(cell.values[np.argsort(cell.order, kind="stable")]), known))
    return judged


def steady(found: Cells, logged: Mapping[str, Samples]) -> Finding | None:
    """One finding for all conditions; None where there are neither five repetitions nor logs."""
    judged = judge(found, logged)
    by_repetition = [one for one in judged if isinstance(one.repetitions, SteadyState)]
    trials = sum(len(one.trials) for one in judged)
    if not by_repetition and not trials:
        return None
    unsteady = [one.cell.label for one in by_repetition if _unsteady(one.repetitions)]
    within = sum(one.attained_within for one in judged)
    return Finding(
        study=found.study,
        question="stability",
        response=found.response,
        title=f"{phrases.name(found.response)}: steady state",
        statement=_statement(len(by_repetition), unsteady, trials, within),
        statistics={
            "criterion": CRITERION,
            "points": [_numbers(one) for one in judged],
            "unsteady": unsteady,
            "conditions_judged": len(by_repetition),
            "trials_judged": trials,
            "trials_attained": within,
            "attained": not unsteady and within == trials,
        },
        tables=[_table(found, judged)],
        caveats=_caveats(judged, bool(by_repetition)),
        severity="info" if not unsteady and within >= ENOUGH * trials else "warning",
    )


def _unsteady(state: SteadyState | Undefined) -> bool:
    return isinstance(state, SteadyState) and not state.attained


def _statement(conditions: int, unsteady: Sequence[str], trials: int, within: int) -> str:
    parts = []
    if conditions:
        parts.append(
            f"Over repetitions, {conditions - len(unsteady)} of {phrases.count(conditions, 'condition')} "
            f"{'is' if conditions == 1 else 'are'} in steady state"
            + (f"; not {phrases.listed(unsteady)}" if unsteady else "")
        )
    if trials:
        parts.append(f"{within} of {phrases.count(trials, 'trial')} with logs ended in steady state")
    return f"{'. '.join(part[0].upper() + part[1:] for part in parts)}. ({CRITERION}.)"


def _numbers(one: Judged) -> dict[str, Any]:
    since = [trial.since_s for trial in one.trials.values() if trial.since_s is not None]
    return {
        "point": dict(one.cell.point),
        "label": one.cell.label,
        "repetitions": plain(one.repetitions),
        "trials_judged": len(one.trials),
        "trials_attained": one.attained_within,
        "median_since_s": float(np.median(since)) if since else None,
        "not_attained": [trial for trial, state in one.trials.items() if not state.state.attained],
    }


def _table(found: Cells, judged: Sequence[Judged]) -> Table:
    columns = ["over repetitions", "range (%)", "slope (%)", "trials steady at their end", "steady since (s, median)"]
    return Table([*found.factors, *columns], [_row(one) for one in judged])


def _row(one: Judged) -> list[Any]:
    state = one.repetitions if isinstance(one.repetitions, SteadyState) else None
    numbers = _numbers(one)
    return [
        *one.cell.point.values(),
        "not judged" if state is None else "steady" if state.attained else "not steady",
        None if state is None else phrases.in_percent(state.final.range),
        None if state is None else phrases.in_percent(state.final.slope),
        f"{one.attained_within} of {len(one.trials)}" if one.trials else "no logs",
        None if numbers["median_since_s"] is None else round(numbers["median_since_s"], 2),
    ]


def _caveats(judged: Sequence[Judged], by_repetition: bool) -> list[str]:
    said = []
    if not by_repetition:
        said.append(f"Fewer than {ROUNDS} repetitions: steady state over repetitions is not judged.")
    round_s = [trial.round_s for one in judged for trial in one.trials.values()]
    if round_s:
        said.append(
            f"Rounds within a trial last {float(np.median(round_s)):.2g} s here. SNIA's last a minute, after the drive "
            "was filled twice: a short trial that looks steady can still be served by a cache that fills up later."
        )
    return said
