"""How long tests wait: for what they mean, and never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 240.0
"""More than any wait takes on a machine that has much else to do."""


def until(happened: Callable[[], object], within_s: float = PATIENCE_S) -> None:
    """Wait for what is sure to happen; fails where it does not."""
    deadline_s = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < deadline_s, "it did not happen"
        time.sleep(0.01)
