"""Looking things up in host facts, where any section or key may be absent."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

Facts = Mapping[str, Any]
Said = tuple[str, str] | None
"""What a check says: text with the value seen, and the remedy; None when all is well or nothing is known."""


def fact(facts: Facts, *keys: str) -> Any:
    """`look(facts, "cpu", "turbo")`: the value there, None where any of it is absent."""
    here: Any = facts
    for key in keys:
        if not isinstance(here, Mapping) or key not in here:
            return None
        here = here[key]
    return here


def devices(facts: Facts) -> Sequence[Facts]:
    """The block devices under the path, from the mounted one down to the drives."""
    return fact(facts, "disk", "devices") or ()


def drives(facts: Facts) -> Sequence[Facts]:
    """Of these, the drives at the bottom."""
    return [device for device in devices(facts) if device.get("kind") == "disk"]


def names(found: Sequence[Facts]) -> str:
    """Their names, for people."""
    return ", ".join(str(device.get("name")) for device in found)


def on_each(command: str, found: Sequence[Facts]) -> str:
    """One shell command for several devices; `{}` in it is the name in sysfs."""
    return "; ".join(command.format(str(device.get("name")).replace("/", "!")) for device in found)


def option(facts: Facts, *wanted: str) -> str | None:
    """The first of the mount's options that is one of these."""
    return next((given for given in fact(facts, "disk", "mount", "options") or () if given in wanted), None)


def mount_point(facts: Facts) -> str:
    """Where the file system is mounted, as it may stand in a shell command."""
    return shlex.quote(str(fact(facts, "disk", "mount", "point") or ""))
