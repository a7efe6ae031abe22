"""Drivers make the load: one file or package each, one literal list here, and what drivers of programs share.

A driver is pure: it describes a command and reads what the tool left; `ioassay.process` alone starts anything.

To add one: `drivers/<tool>.py` with a class that implements `roles.Driver`, its line in `DRIVERS`, its tests with real
captured outputs in `tests/golden/<tool>/<version>/`, its section in docs/drivers.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ioassay import units
from ioassay.errors import StudyError, ToolError
from ioassay.pack import listed
from ioassay.registry import Contract, Registry
from ioassay.roles import Driver, Outcome, Tool

__all__ = ["DRIVERS", "REGISTRY", "driver", "tools"]

DRIVERS: dict[str, str] = listed(
    "drivers", {"null": "ioassay.drivers.null:Null", "null_pure": "ioassay.drivers.null:NullPure"}
)
"""Name -> module:class, imported when asked for."""
_LONGEST_QUOTE, _TAIL_BYTES = 200, 2000


def _probe(entry: type[Driver], name: str) -> str:
    """A driver is made, and asked for its tool, by commands that do not use it."""
    made = entry()
    made.tool()
    return "" if made.name == name else f"calls itself '{made.name}'"


_MEMBERS = ("name", "measures", "validate", "access", "estimate", "command", "parse")
REGISTRY = Registry("drivers", "driver", DRIVERS, Contract(*_MEMBERS, role=Driver, probe=_probe))


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


def require_version(tool: Tool, said: str, pattern: str, example: str, instead: str = "") -> None:
    """ToolError for a program that is another, or older than the tool's minimum.

    `said` is its answer, whose two numbers `pattern` has; `instead` follows what is expected.
    """
    found = re.search(pattern, said, re.M)
    if found is None:
        raise ToolError(f"{' '.join(tool.version_argv)} said '{said.strip()[:80]}'; expected {example}")
    if (int(found[1]), int(found[2])) < tool.minimum:
        wanted = ".".join(map(str, tool.minimum))
        name = Path(tool.executable).name
        raise ToolError(f"{name} is {found[1]}.{found[2]}; expected {wanted} or newer{instead}")


def flag(params: Mapping[str, Any], name: str) -> bool:
    """A parameter that is true or false, false where it is not given; StudyError names it."""
    value = params.get(name, False)
    if not isinstance(value, bool):
        raise StudyError(f"is {value!r}; expected true or false", key=f"params.{name}")
    return value


def ended_badly(outcome: Outcome, name: str, remedy: str, words: Callable[[], str] = str) -> str:
    """A time-out or a signal as the reason of a failure, the latter with the program's own words; '' for neither."""
    if outcome.timed_out:
        return f"{name} timed out after {units.format_duration(outcome.duration_s)} and was ended; {remedy}"
    return f"{name} was ended by signal {outcome.signal}{words()}" if outcome.signal is not None else ""


def text_of(path: Path) -> str:
    """What a program wrote; '' where there is no such file."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def last_words(*paths: Path) -> str:
    """The last line of the first of these files that has any, for a message; '' where none has."""
    for path in paths:
        with suppress(OSError), path.open("rb") as file:
            file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
            if lines := file.read().decode("utf-8", errors="replace").strip().splitlines():
                return lines[-1].strip()[:_LONGEST_QUOTE]
    return ""
