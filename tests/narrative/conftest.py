"""The builder of data sets for texts that follow from numbers, and the golden texts of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importmode=importlib leaves a test's own folder out
sys.path.insert(0, str(Path(__file__).parent.parent))

from lab import Lab


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab()
