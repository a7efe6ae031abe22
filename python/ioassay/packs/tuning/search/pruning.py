"""Whether a candidate's short run already tells that its whole one would be wasted. Decides from values, not clocks.

What a short run says of the whole one is known from those candidates that had both: the spread of the ratios of their
values, on the log scale, is the noise of a prediction. A candidate is given up when its short value is worse than that
of the best by more than such noise explains once in a thousand, and never for less than LEAST. Until ENOUGH candidates
had both, and where values are not above 0, nothing is given up.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

SHARE = 0.25
"""Of the running time, for the short run."""
LEAST = 0.1
ENOUGH = 3
_NORMAL = 3.0902
"""Quantile 0.999 of the normal distribution."""


@dataclass
class Shorts:
    """The values of short runs, and how they foretold the whole ones."""

    maximize: bool
    values: dict[str, float] = field(default_factory=dict)
    """Point's key -> value of its short run."""
    ratios: list[float] = field(default_factory=list)
    """Natural logarithm of whole over short value, of each candidate that had both."""

    def tell(self, key: str, whole: float) -> None:
        """A candidate that had a short run has its whole one."""
        short = self.values.get(key)
        if short is not None and short > 0 and whole > 0:
            self.ratios.append(math.log(whole / short))

    def hopeless(self, key: str, best: str) -> bool:
        """Whether the candidate's short run is clearly worse than the one of the best."""
        one, other = self.values.get(key), self.values.get(best)
        if one is None or other is None or min(one, other) <= 0 or len(self.ratios) < ENOUGH:
            return False
        worse = math.log(other / one) if self.maximize else math.log(one / other)
        noise = math.sqrt(2) * statistics.stdev(self.ratios)  # of two short runs
        return worse > max(_quantile(len(self.ratios) - 1) * noise, math.log1p(LEAST))

    def foretold(self, key: str) -> float:
        """What the whole run would probably have given."""
        return self.values[key] * math.exp(statistics.median(self.ratios or [0.0]))


def _quantile(df: int) -> float:
    """Quantile 0.999 of Student's t, which few ratios deserve: Abramowitz and Stegun, 1964, 26.7.5, two terms."""
    z = _NORMAL
    return z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
