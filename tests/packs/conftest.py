"""The builder of data sets, for the questions of packs."""

import pytest

from ..lab import Lab


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab()
