"""Fits the built-in study `quick` into a budget of time: size of the file, run time of a trial, repetitions.

The disk's write speed is sampled first, because writing the test file is part of the budget.
"""

from __future__ import annotations

import mmap
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ioassay import units
from ioassay.errors import StudyError, UsageError

MINIMUM_BUDGET_S = 15.0
_SAMPLE_BYTES = 16 * 2**20
_SAMPLE_LIMIT_S = 1.0
_FILL_SHARE = 0.15
"""Share of the budget for writing the test file."""
_FILE = "ioassay-quick-"
"""Name of the test file, before the number of the process."""
_REPORT_S = 5.0
_TRIAL_OVERHEAD_S = 0.5
"""What a trial costs beside its run time: fio's start and end, and the durable record."""
_SIZES_BYTES = (64 * 2**20, 2**30)
_LEAST_FREE_BYTES = 4 * _SIZES_BYTES[0]
_RUN_S = (0.5, 3.0)
_REPETITIONS = (3, 10)
_USUAL_REPETITIONS = 5
"""Up to here time goes into repetitions (the interval's t factor falls from 4.3 to 2.8), then into longer trials."""


@dataclass(frozen=True)
class Fit:
    """How the study was cut to its budget."""

    size_bytes: int
    run_s: float
    repetitions: int


def check_budget(budget_s: float) -> None:
    """UsageError when the budget is too short, before anything is written."""
    if budget_s < MINIMUM_BUDGET_S:
        raise UsageError(
            f"--budget {budget_s:g}: too short for three repetitions; wanted {MINIMUM_BUDGET_S:g} s or more"
        )


def fit(budget_s: float, write_bytes_per_s: float, free_bytes: int, workloads: int) -> Fit:
    """The largest file and the longest trials that fit; UsageError when the budget is too short."""
    check_budget(budget_s)
    size_bytes = _size(budget_s, write_bytes_per_s, free_bytes)
    left_s = budget_s - size_bytes / write_bytes_per_s - _REPORT_S
    repetitions = _REPETITIONS[0]
    while repetitions < _REPETITIONS[1] and _run_s(left_s, workloads, repetitions + 1) >= _wanted_run_s(repetitions):
        repetitions += 1
    run_s = min(max(_run_s(left_s, workloads, repetitions), _RUN_S[0]), _RUN_S[1])
    return Fit(size_bytes, round(run_s, 1), repetitions)


def _size(budget_s: float, write_bytes_per_s: float, free_bytes: int) -> int:
    wanted = min(write_bytes_per_s * budget_s * _FILL_SHARE, free_bytes / 4)
    clamped = min(max(wanted, _SIZES_BYTES[0]), _SIZES_BYTES[1])
    return int(clamped) // 2**20 * 2**20


def _wanted_run_s(repetitions: int) -> float:
    """How long a trial should last before one more repetition is worth it."""
    return 0.7 if repetitions < _USUAL_REPETITIONS else 2.0


def _run_s(left_s: float, workloads: int, repetitions: int) -> float:
    return left_s / (workloads * repetitions) - _TRIAL_OVERHEAD_S


def write_speed(folder: Path) -> tuple[float, int]:
    """(bytes/s, free bytes) of the disk under `folder`, from a second or less of synchronous writes to a new file."""
    path = folder / f".ioassay-sample-{os.getpid()}"
    block = mmap.mmap(-1, 2**20)
    block.write(os.urandom(2**20))
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StudyError(f"{folder}: cannot be written: {error.strerror}; name another folder") from None
    try:
        path.unlink()  # it lives as long as the descriptor, so that not even SIGKILL leaves it
        with suppress(OSError):  # some filesystems know no direct I/O; the sync below is slower, but as honest
            import fcntl

            fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_DIRECT)
        speed = _sample(descriptor, block)
    except OSError as error:
        raise StudyError(f"{folder}: cannot be written: {error.strerror}; name another folder") from None
    finally:
        os.close(descriptor)
    space = os.statvfs(folder)
    free_bytes = space.f_bavail * space.f_frsize
    if free_bytes < _LEAST_FREE_BYTES:
        found, wanted = units.format_size(free_bytes), units.format_size(_LEAST_FREE_BYTES)
        raise StudyError(f"{folder}: {found} are free; wanted {wanted} or more: free some, or name another folder")
    return speed, free_bytes


def _sample(descriptor: int, block: mmap.mmap) -> float:
    began_s = time.monotonic()
    written = 0
    while written < _SAMPLE_BYTES and time.monotonic() - began_s < _SAMPLE_LIMIT_S:
        written += os.write(descriptor, block)
        os.fdatasync(descriptor)
    return written / max(time.monotonic() - began_s, 1e-9)


def files_of_killed(folder: Path) -> list[Path]:
    """Files that bear the name of a test file in `folder` and the number of a process that is gone."""
    named = ((path, path.name.removeprefix(_FILE)) for path in sorted(folder.glob(f"{_FILE}*")))
    return [path for path, pid in named if pid.isdecimal() and not Path("/proc", pid).exists()]


def fitted(table: dict[str, Any], folder: Path, fit: Fit) -> dict[str, Any]:
    """The study's table with a fit applied, its file in `folder`."""
    target = {**table["target"], "path": str(folder / f"{_FILE}{os.getpid()}"), "size": fit.size_bytes}
    params = {**table["params"], "runtime": f"{round(fit.run_s * 1000)}ms"}
    return {**table, "target": target, "params": params, "repetitions": fit.repetitions}
