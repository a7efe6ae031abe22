"""The studentized range against scipy's and the published tables."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ioassay.stats import distributions


@pytest.mark.parametrize("means", [2, 3, 11, 40])
def test_the_studentized_range_is_scipy_s(means: int) -> None:
    q, df = np.array([0.5, 2.0, 3.5, 5.0, 9.0]), np.array([1.0, 2.5, 9.0, 18.3, 200.0])
    wanted = stats.studentized_range.cdf(q, means, df)
    assert distributions.range_cdf(q, means, df) == pytest.approx(wanted, abs=1e-8)


def test_quantiles_of_the_studentized_range_are_the_tabulated_ones() -> None:
    """Pearson and Hartley, "Biometrika Tables for Statisticians", table 29: upper 5 % points."""
    table = {(2, 10): 3.15, (3, 10): 3.88, (10, 10): 5.60, (5, 20): 4.23, (3, 5): 4.60}
    for (means, df), wanted in table.items():
        found = distributions.range_quantile(0.95, means, np.array([float(df)]))[0]
        assert found == pytest.approx(wanted, abs=0.0051)
