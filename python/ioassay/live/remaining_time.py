"""How long the rest of a run will take: by its own trials, and before the first of them by the plan."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class RemainingTime:
    """The remaining time of `total` trials. Where several run at once, a trial counts for its share of the time."""

    def __init__(self, total: int, forecast_s: float, clock: Callable[[], float]) -> None:
        self.total, self.completed = total, 0
        self._clock = clock
        self._each_s = forecast_s / max(total, 1)
        self._measured_s: deque[float] = deque(maxlen=50)
        """Of the latest trials."""
        self._began_s: dict[str, float] = {}

    def start(self, trial_id: str) -> None:
        """A trial begins."""
        self._began_s[trial_id] = self._clock()

    def end(self, trial_id: str) -> None:
        """A trial ended. One that never began was kept or not needed, and says nothing about the time."""
        at_once = len(self._began_s)
        if (began_s := self._began_s.pop(trial_id, None)) is not None:
            self._measured_s.append((self._clock() - began_s) / at_once)
        self.completed += 1

    def seconds(self) -> float:
        """What the trials that have not ended will take; of those that run what is left of them."""
        each_s = sum(self._measured_s) / len(self._measured_s) if self._measured_s else self._each_s
        at_once, now_s = len(self._began_s), self._clock()
        spent_s = sum(min((now_s - began_s) / at_once, each_s) for began_s in self._began_s.values())
        return max((self.total - self.completed) * each_s - spent_s, 0.0)
