"""What a statistic returns: numbers with a name, or the reason why there are none.

Deliberately without NaN: a number that does not exist is `Undefined` with a reason that a reader understands.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

WIDEST = 10.0
"""Intervals of a ratio whose ends differ by more than this factor bound nothing."""
Floats: TypeAlias = "npt.NDArray[np.float64]"


@dataclass(frozen=True)
class Undefined:
    """A statistic that does not exist for these data. `reason` completes the sentence 'not computed: …'."""

    reason: str


@dataclass(frozen=True)
class Interval:
    """A confidence interval in the unit of its data. `method` names how it was made ('t', 'log t', …)."""

    low: float
    high: float
    confidence: float
    method: str

    def scaled(self, factor: float) -> Interval:
        """The interval of `factor` times the quantity (`factor` > 0)."""
        return Interval(self.low * factor, self.high * factor, self.confidence, self.method)

    @property
    def vague(self) -> bool:
        """True of a ratio's interval that says nothing: its ends differ by more than a factor of WIDEST."""
        return self.low >= 0 and self.high > WIDEST * self.low

    def inverse(self) -> Interval:
        """The interval of one divided by the quantity, which must be positive."""
        return Interval(1 / self.high, 1 / self.low, self.confidence, self.method)


def plain(value: Any) -> Any:
    """`value` as JSON-able data: dataclasses become dictionaries, arrays lists, non-finite numbers None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # an array, or a number, of numpy
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def as_floats(values: npt.ArrayLike) -> Floats:
    """`values` as a one-dimensional array of finite float64; ValueError otherwise (a missing value is no number)."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64).ravel()
    if not np.isfinite(array).all():
        raise ValueError("values hold NaN or infinity; expected finite numbers (drop missing ones and say so)")
    return array


def mean_of(values: Floats) -> float:
    """Mean by differences from the first value: exact for equal values, and safe for a large common offset."""
    return float(values[0] + (values - values[0]).mean())


def sum_of_squares(values: Floats) -> float:
    """Sum of squared deviations from the mean, two passes; exactly 0 for equal values.

    The correction term is that of Chan, Golub and LeVeque, "Algorithms for computing the sample variance"
    (The American Statistician 37, 1983), equation 1.7.
    """
    shifted = values - values[0]
    deviations = shifted - shifted.mean()
    return float(max((deviations**2).sum() - deviations.sum() ** 2 / deviations.size, 0.0))
