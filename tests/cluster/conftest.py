"""What tests of executors share, and what they leave behind in their process."""

from collections.abc import Iterator
from multiprocessing import resource_tracker

import pytest

from .hosts import commands


@pytest.fixture(scope="module", autouse=True)
def nothing_left() -> Iterator[None]:
    """Spawned processes have Python start a tracker that outlives them. Other tests look for what was left behind."""
    yield
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]
    if commands.cache_info().currsize:
        commands().close()
        commands.cache_clear()
