"""A simulated SSD over a trace: `ioassay.simulate` in Python. The work is done in Rust, without the GIL.

`simulation_options.OPTIONS` lists the options, `drive_files` reads descriptions of drives, `drive_accuracy` compares
them with measurements. `results.Simulation` is the outcome, `result_files.save` stores it.
How the drive works: docs/simulator.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ioassay import traces
from ioassay.errors import InputError, UsageError
from ioassay.simulator.drive_files import drive_options
from ioassay.simulator.result_files import save
from ioassay.simulator.results import OfflineOptimum, Simulation
from ioassay.simulator.simulation_options import NAMES, OPTIONS, VARIANTS, Option, setup

__all__ = [
    "NAMES",
    "OPTIONS",
    "OfflineOptimum",
    "Option",
    "Simulation",
    "check",
    "drive_options",
    "offline_optimum",
    "policies",
    "save",
    "setup",
    "simulate",
]

MEMORY_SHARE = 0.8
"""Of the memory that is available, what one simulated drive may take."""


def policies() -> list[dict[str, Any]]:
    """The write buffers there are: name, what they do, and the options that they know."""
    from ioassay import _core

    known = {each["name"]: each for each in _core.policies()}
    for name, fixed in VARIANTS.items():
        base = known[fixed["policy"]]
        words = ", ".join(option.replace("_", " ") for option in fixed if option != "policy")
        free = [option for option in base["options"] if option not in fixed]
        known[name] = {"name": name, "about": f"{fixed['policy']} with {words}", "options": free}
    return list(known.values())


def simulate(
    trace: traces.Trace,
    *,
    drive: str | Path | Mapping[str, Any] | None = None,
    policy: str = "none",
    format: str | None = None,
    read: Mapping[str, Any] | None = None,
    prepare: Mapping[str, Any] | None = None,
    threads: int = 1,
    **options: Any,
) -> Simulation:
    """Run a trace over a simulated SSD.

    `trace` is a file, or a recipe (`ioassay.traces.recipes`). `drive` is the name of a drive, the path of a file that
    describes one (`drive_files`), or a mapping of options. The other keywords are those of `OPTIONS`, and override
    the drive's: `elements=48, page="4KiB", buffer="8MiB", feed="closed:32", window=None, …`. `prepare` is what
    `traces.preparation` returns. `threads` share the simulation where elements do not depend on each other. Results
    do not depend on it. Other threads of Python run meanwhile.
    Raises UsageError for what cannot be set so, InputError for a trace that cannot be used.
    """
    from ioassay import _core

    described = traces.source(trace, format=format, read=read, prepare=prepare)
    wanted = setup({**drive_options(drive), "policy": policy, **options})
    wanted["available_bytes"] = int(available_bytes() * MEMORY_SHARE)
    with _errors_of(described):
        simulated = _core.simulate(described, wanted, threads)
        return Simulation({**simulated, "prepare": described.get("prepare")})


def offline_optimum(
    trace: traces.Trace,
    *,
    format: str | None = None,
    read: Mapping[str, Any] | None = None,
    prepare: Mapping[str, Any] | None = None,
    **options: Any,
) -> OfflineOptimum:
    """The offline optimum of the buffer that the options describe, on a trace: the bound of every policy's write hits.

    Arguments and errors as of `simulate`. The policy does not matter, nor when requests are issued.
    """
    from ioassay import _core

    described = traces.source(trace, format=format, read=read, prepare=prepare)
    wanted = setup({**options, "policy": "fifo"})
    with _errors_of(described):
        return OfflineOptimum(*_core.offline_optimum(described, wanted))


@contextmanager
def _errors_of(described: Mapping[str, Any]) -> Iterator[None]:
    """Turn errors of the core into UsageError, or InputError where they are about the trace."""
    from ioassay import _core

    try:
        yield
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
