"""A simulated SSD over a trace: `ioassay.simulate` in Python. The work is done in Rust, without the GIL.

`simulation_options.OPTIONS` lists the options, `results.Simulation` is the outcome, `result_files.save` stores it.
How the drive works: docs/simulator.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ioassay import traces
from ioassay.errors import InputError, UsageError
from ioassay.simulator.result_files import save
from ioassay.simulator.results import Simulation
from ioassay.simulator.simulation_options import NAMES, OPTIONS, Option, setup

__all__ = ["NAMES", "OPTIONS", "Option", "Simulation", "check", "policies", "save", "setup", "simulate"]

MEMORY_SHARE = 0.8
"""Of the memory that is available, what one simulated drive may take."""


def policies() -> list[dict[str, str]]:
    """The write buffers there are: name and what they do."""
    from ioassay import _core

    return _core.policies()


def simulate(
    trace: traces.Trace,
    *,
    drive: Mapping[str, Any] | None = None,
    policy: str = "none",
    format: str | None = None,
    read: Mapping[str, Any] | None = None,
    prepare: Mapping[str, Any] | None = None,
    cache: bool = True,
    **options: Any,
) -> Simulation:
    """Run a trace over a simulated SSD.

    `trace` is a file, or a recipe (`ioassay.traces.recipes`). `drive` and the other keywords are those of
    `OPTIONS`: `elements=48, page="4KiB", buffer="8MiB", feed="closed:32", window=None, …`. `prepare` is what
    `traces.preparation` returns, `cache` as in `traces.source`. Other threads run meanwhile. Raises UsageError for what
    cannot be set so, InputError for a trace that cannot be used.
    """
    from ioassay import _core

    described = traces.source(trace, format=format, read=read, prepare=prepare, cache=cache)
    wanted = setup({**(drive or {}), "policy": policy, **options})
    wanted["available_bytes"] = int(available_bytes() * MEMORY_SHARE)
    try:
        return Simulation(_core.simulate(described, wanted))
    except _core.CoreError as error:
        path = described.get("path")
        raise (InputError if path and str(error).startswith(str(path)) else UsageError)(str(error)) from None
    except OSError as error:
        if error.filename != described.get("path"):
            raise
        raise InputError(f"{error.filename}: {error.strerror}") from None


def check(options: Mapping[str, Any]) -> dict[str, Any]:
    """Whether a simulation with these options can be, without running it; UsageError otherwise.

    Returns what the drive is: `pages`, `capacity_bytes`, and `memory_bytes` that simulating it takes.
    """
    from ioassay import _core

    wanted = setup(options)
    try:
        return _core.drive_check(wanted)
    except _core.CoreError as error:
        raise UsageError(str(error)) from None


def available_bytes() -> int:
    """Memory that this process may take."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
