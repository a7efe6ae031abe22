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

for _module in ("role_contracts", "reader_contracts"):
    pytest.register_assert_rewrite(f"ioassay.testing.{_module}")

from ioassay.testing.made_records import outcome, records, trial  # noqa: E402
from ioassay.testing.reader_contracts import AnalysisContract, ClaimsContract, FigureContract  # noqa: E402
from ioassay.testing.role_contracts import DriverContract, MonitorContract, TargetContract  # noqa: E402

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
