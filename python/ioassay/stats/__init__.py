"""The statistics: pure functions of arrays that return frozen dataclasses. They know nothing of studies and records.

What cannot be computed is not an error and not NaN: it is an `Undefined` that says why (`result.py`).
Definitions and sources are gathered in docs/METHOD.md.
"""

from __future__ import annotations

import os
import sys

_THREADS = "OPENBLAS_NUM_THREADS"


def load_numpy() -> None:
    """Import numpy so that it computes in the calling thread only, unless the environment says how many it has.

    Our matrices are small. On a busy machine the threads of numpy's OpenBLAS wait for each other a hundred times as
    long as they compute, and keep the processors busy that are being measured, or that draw. OpenBLAS reads the number
    once, when it is loaded; children must not inherit it. Does nothing where numpy is loaded already.
    """
    if "numpy" in sys.modules or _THREADS in os.environ:
        return
    os.environ[_THREADS] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[_THREADS]
