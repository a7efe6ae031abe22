"""The trials of a search as optuna keeps them: asked, told, failed, pruned; and what its TPE sampler suggests.

Kept in memory only, because a search is resumed from the records of its run. Optuna sees ordered axes as 0 … 1 and
words as categories. Its log is silenced for the process: what a search does is shown by the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ioassay.tune.grid import Grid, Key

if TYPE_CHECKING:
    import optuna

_FAR = 1e9
"""Optuna takes no infinite violations."""


class Trials:
    """The optuna study of a search."""

    def __init__(self, grid: Grid, maximize: bool, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._grid = grid
        self._sampler_seed = seed % 2**32
        sampler = optuna.samplers.TPESampler(seed=self._sampler_seed, multivariate=False)
        self._study = optuna.create_study(direction="maximize" if maximize else "minimize", sampler=sampler)
        self._out: list[tuple[Key, optuna.Trial]] = []
        self._distributions: dict[str, optuna.distributions.BaseDistribution] = {
            axis.name: optuna.distributions.FloatDistribution(0.0, 1.0)
            if ordered
            else optuna.distributions.CategoricalDistribution(list(range(len(axis.levels))))
            for axis, ordered in zip(grid.axes, grid.ordered, strict=True)
        }
        self._suggestion: tuple[Key, optuna.Trial] | None = None

    def pending(self) -> tuple[Key, ...]:
        """What was asked and not told, in the order of the asks."""
        return tuple(key for key, _ in self._out)

    def suggested(self) -> Key:
        """What TPE would measure next; the trial is begun, and `ask` with another point takes it over."""
        if self._suggestion is None:
            trial = self._study.ask(self._distributions)
            row = [float(trial.params[axis.name]) for axis in self._grid.axes]
            self._suggestion = self._grid.nearest(row), trial
        return self._suggestion[0]

    def ask(self, key: Key) -> None:
        """Begin a trial of a point."""
        suggestion, self._suggestion = self._suggestion, None
        if suggestion is not None:
            if suggestion[0] == key:
                self._out.append(suggestion)
                return
            self._finish(suggestion[1], None, (), pruned=False)
        self._study.enqueue_trial(self._params(key))
        self._out.append((key, self._study.ask(self._distributions)))

    def tell(self, key: Key, value: float | None, violations: Sequence[float], *, pruned: bool) -> None:
        """End the oldest trial of a point; one that nobody asked for is begun first."""
        if key not in self.pending():
            self.ask(key)
        place = self.pending().index(key)
        self._finish(self._out.pop(place)[1], value, violations, pruned=pruned)

    def _finish(self, trial: optuna.Trial, value: float | None, violations: Sequence[float], *, pruned: bool) -> None:
        from optuna.trial import TrialState

        for place, violation in enumerate(violations):
            trial.set_constraint(str(place), max(-_FAR, min(_FAR, violation)))
        if value is None:
            self._study.tell(trial, state=TrialState.FAIL)
        elif pruned:
            trial.report(value, 0)
            self._study.tell(trial, state=TrialState.PRUNED)
        else:
            self._study.tell(trial, value)

    def _params(self, key: Key) -> dict[str, float | int]:
        return {
            axis.name: float(places[index]) if ordered else index
            for axis, places, index, ordered in zip(
                self._grid.axes, self._grid.places, key, self._grid.ordered, strict=True
            )
        }
