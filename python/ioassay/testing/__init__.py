"""Contract tests for entries of our lists, as classes for pytest. Our own entries are tested by the same.

    from ioassay.testing import DriverContract

    class TestDd(DriverContract):
        driver = Dd
        params = {"bs": "4KiB"}

What an entry does with its own tool is for tests of its own; `trial`, `outcome` and `records` make what these need.
pytest is imported here and nowhere else in the package.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("ioassay.testing.contracts")

from ioassay.testing.contracts import (  # noqa: E402
    AnalysisContract,
    ClaimsContract,
    DriverContract,
    FigureContract,
    MonitorContract,
    TargetContract,
    outcome,
    records,
    trial,
)

__all__ = [
    "AnalysisContract",
    "ClaimsContract",
    "DriverContract",
    "FigureContract",
    "MonitorContract",
    "TargetContract",
    "outcome",
    "records",
    "trial",
]
