"""How many tests may be believed at once: adjusted p values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values that bound the chance of even one false positive.

    Holm, "A simple sequentially rejective multiple test procedure" (Scandinavian Journal of Statistics 6, 1979).
    """
    order = np.argsort(np.asarray(p_values, dtype=np.float64), kind="stable")
    count = len(p_values)
    adjusted = np.empty(count)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = largest
    return [float(value) for value in adjusted]
