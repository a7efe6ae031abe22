"""What tests of executors share, and what they leave behind in their process."""

from collections.abc import Iterator
from multiprocessing import resource_tracker

import pytest


@pytest.fixture(scope="module", autouse=True)
def no_resource_tracker() -> Iterator[None]:
    """Spawned processes have Python start one that outlives them. Other tests look for what was left behind."""
    yield
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]
