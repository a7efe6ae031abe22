"""How long tests wait: for an event, never for a fixed time. And which of their processes live."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from ioassay.process import process_table, supervisor

PATIENCE_S = 240.0
"""More than any wait takes on a machine that has much else to do."""


def until(happened: Callable[[], object], within_s: float = PATIENCE_S) -> None:
    """Wait for what is sure to happen; fails where it does not."""
    deadline_s = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < deadline_s, "it did not happen"
        time.sleep(0.01)


def alive(tag: object) -> list[int]:
    """The living processes that carry a tag: that of a run is its folder."""
    wanted = os.fsencode(f"{supervisor.TRIAL_VARIABLE}={tag}")
    return [pid for pid in process_table.everyone() if wanted in process_table.environment(pid)]


def children() -> set[int]:
    """The living children of this process, adopted ones among them."""
    return {pid for pid in process_table.offspring() if process_table.group_of(pid) is not None}
