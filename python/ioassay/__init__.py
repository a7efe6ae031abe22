"""ioassay: how fast is this storage, or this kernel subsystem, really, and why?

The package root stays light: heavy libraries are imported where they are used. `ioassay.simulate` runs a trace over a
simulated SSD.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"
__all__ = ["__version__", "simulate"]

GC_THRESHOLD = 100_000
"""Objects made before Python looks for cycles among them: its 700 cost a command a tenth of its time."""


def __getattr__(name: str) -> Any:
    if name == "simulate":
        from ioassay.simulator import simulate

        return simulate
    raise AttributeError(f"module 'ioassay' has no attribute '{name}'")
