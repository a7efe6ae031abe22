"""Drivers make the load: one file or package each, one literal list here.

A driver is pure: it describes a command and reads what the tool left; `ioassay.process` alone starts anything.

To add one: `drivers/<tool>.py` with a class that implements `roles.Driver`, its line in `DRIVERS`, its tests with real
captured outputs in `tests/golden/<tool>/<version>/`, its section in docs/drivers.md.
"""

from __future__ import annotations

from ioassay.errors import StudyError
from ioassay.pack import listed
from ioassay.registry import Contract, Registry
from ioassay.roles import Driver, Tool

__all__ = ["DRIVERS", "REGISTRY", "driver", "tools"]

DRIVERS: dict[str, str] = listed(
    "drivers",
    {
        "null": "ioassay.drivers.null:Null",
        "null_pure": "ioassay.drivers.null:NullPure",
    },
)
"""Name -> module:class, imported when asked for."""


def _probe(entry: type[Driver], name: str) -> str:
    """A driver is made, and asked for its tool, by commands that do not use it."""
    made = entry()
    made.tool()
    return "" if made.name == name else f"calls itself '{made.name}'"


REGISTRY = Registry(
    "drivers",
    "driver",
    DRIVERS,
    Contract(
        *("name", "measures", "validate", "access", "touches", "estimate", "command", "parse"),
        role=Driver,
        probe=_probe,
    ),
)


def driver(name: str) -> Driver:
    """A new driver called `name`; StudyError (key `driver`) when there is none."""
    if why := REGISTRY.refusal(name):
        raise StudyError(why, key="driver")
    made: Driver = REGISTRY.load(name)()
    return made


def tools() -> dict[str, Tool]:
    """The program that each driver needs, by the driver's name; drivers that need none are left out."""
    needed = {name: driver(name).tool() for name in REGISTRY}
    return {name: tool for name, tool in needed.items() if tool is not None}
