"""What a worker process does: it computes trials of pure drivers, one at a time, until it is told no more.

Everything that goes in and out can be pickled, so that any `concurrent.futures.Executor` can take `compute`.
A worker writes nothing but into the trial's raw folder: records are the business of the process that asked.
It imports little, so that it is there at once; a call imports what it needs.
"""

from __future__ import annotations

import gc
import os
import pickle
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import GC_THRESHOLD, registry
from ioassay.drivers import driver
from ioassay.errors import ToolError
from ioassay.process import piped_child
from ioassay.records.record import FAILED
from ioassay.roles import Parsed

if TYPE_CHECKING:
    from ioassay.roles import Trial


@dataclass(frozen=True)
class Computed:
    """One trial of a pure driver: what came out, when it began (Unix time) and how long it took."""

    parsed: Parsed
    started_unix_s: float
    duration_s: float


def compute(driver_name: str, trial: Trial, raw: Path) -> Computed:
    """Compute one trial. What the driver cannot do is a failed trial; OSError where `raw` cannot be written."""

    started_unix_s, started_s = time.time(), time.monotonic()
    try:
        parsed = driver(driver_name).parse(trial, None, raw)
    except ToolError as error:
        parsed = Parsed(FAILED, str(error))
    except MemoryError as error:
        why = f": {error}" if str(error) else ""
        parsed = Parsed(FAILED, f"not enough memory{why}; --workers 1 leaves it the most")
    except Exception as error:
        if not (fault := registry.fault(error)):
            raise
        parsed = Parsed(FAILED, fault)
    return Computed(parsed, started_unix_s, time.monotonic() - started_s)


def serve(parent: int) -> None:
    """Answer calls pickled on standard input, on standard output, until the input ends or process `parent` does.

    The first answer, before any call, says that the worker is ready.
    """
    piped_child.end_with(parent)
    gc.set_threshold(GC_THRESHOLD)
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)  # what a library prints must not look like an answer
    os.close(nowhere)
    message = pickle.dumps((True, None))
    while True:
        pickle.dump(message, answers)  # whole even where the reader cannot make sense of what is in it
        answers.flush()
        try:
            call = pickle.load(calls)
        except EOFError:
            return
        message = _answer(call)


def _answer(call: Callable[[], Any]) -> bytes:
    """Pickled: whether the call succeeded, and its result or its exception."""
    try:
        return pickle.dumps((True, call()))
    except Exception as error:
        error.add_note(f"in a worker process:\n{traceback.format_exc()}")
        try:
            message = pickle.dumps((False, error))
            pickle.loads(message)  # an exception whose arguments are not those of its class cannot be made again
            return message
        except Exception:
            return pickle.dumps((False, RuntimeError(traceback.format_exc())))
