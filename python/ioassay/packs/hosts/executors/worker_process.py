"""What a worker of our own cluster does first (Dask's `preload`): Ctrl-C is for the run, which ends its workers."""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:
    """Called by Dask in the worker's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
