"""Signals that a tool's processes mean for the parent they had, and that reach this process instead.

`process` adopts what a tool leaves behind. A program that tells its parent by kill(getppid(2), SIGALRM) that it ends,
as stress-ng's network stressors do, then tells us; and the default action of such a signal ends a process (signal(7)).
Signals by which a user ends a run are not among them.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_BETWEEN_PROCESSES = (
    *(signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGIO, signal.SIGVTALRM, signal.SIGPROF),
    *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
)


@contextmanager
def unmoved() -> Iterator[None]:
    """While this lasts, such signals do nothing to this process, unless it has a use for them itself.

    They have a handler, and are not ignored, because what is started meanwhile would inherit that (execve(2)). Only
    the main thread may set handlers; in another one nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    unused = [number for number in _BETWEEN_PROCESSES if signal.getsignal(number) is signal.SIG_DFL]
    for number in unused:
        signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number in unused:
            signal.signal(number, signal.SIG_DFL)
