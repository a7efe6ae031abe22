"""Made-up runs for the report's tests: numbers from a seed, no disk touched."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ioassay.store.dataset import Dataset

sys.path.insert(0, str(Path(__file__).parent))  # importmode=importlib leaves a test's own folder out

import synthetic


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The four studies of the block I/O suite, five repetitions of each point; must not be changed."""
    return synthetic.block_io(tmp_path_factory.mktemp("suite"), repetitions=5)


@pytest.fixture(scope="session")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The same studies, of which every trial failed."""
    return synthetic.block_io(tmp_path_factory.mktemp("lost"), repetitions=1, failed_share=1.0)
