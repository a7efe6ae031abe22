"""numpy with one thread. Does nothing where numpy is there already.

The matrices of a search are small. On a machine with other work the threads of numpy's OpenBLAS wait for each other a
hundred times as long as they compute (seconds an ask instead of milliseconds), and while they wait they burn the
processors that are being measured. OpenBLAS reads the number once, when it is loaded; children must not inherit it.
"""

from __future__ import annotations

import os
import sys

_THREADS = "OPENBLAS_NUM_THREADS"


def load_numpy() -> None:
    """Import numpy so that it computes in the calling thread only, unless the environment says how many it has."""
    if "numpy" in sys.modules or _THREADS in os.environ:
        return
    os.environ[_THREADS] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[_THREADS]
