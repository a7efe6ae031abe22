"""What tests of executors share, and what they leave behind in their process."""

from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path

import pytest

from .hosts import commands


@pytest.fixture(scope="module", autouse=True)
def no_resource_tracker() -> Iterator[None]:
    """Spawned processes have Python start one that outlives them. Other tests look for what was left behind."""
    yield
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End what forks commands with this folder's tests: others look at the children of this process."""
    if commands.cache_info().currsize and (nextitem is None or nextitem.path.parent != Path(__file__).parent):
        commands().close()
        commands.cache_clear()
