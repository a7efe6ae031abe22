"""The options of a simulation: the core's table for the Python function, the command line and the driver's parameters.

Here is how what people write is read; names, defaults, help and what values may be, the core has (`crates/sim`).
Names are snake case; the command line writes them with dashes. Defaults are those of the reference drive.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ioassay import _core, units
from ioassay.errors import StudyError, UsageError
from ioassay.hints import nearest, suggestion

DRIVE, CONTROLLER, BUFFER, FEED, PRECONDITION = "drive", "controller", "buffer", "feed", "precondition"
COUNT, NUMBER, NUMBERS, SHARE, SIZE, FLAG, CHOICE = "count", "number", "numbers", "share", "size", "flag", "choice"
WINDOW, FEEDING, POLICY, AUTO_SHARE, AUTO_COUNT = "window", "feeding", "name", "share or auto", "count or auto"
NONE, AUTO = "none", "auto"
MEMORY_SHARE = 0.8
"""Of the memory that is available, what one simulated drive or miss ratio curve may take."""
PADDED = "bplru-padded"
"""BPLRU as its authors describe it: a name of its own, so that it stands next to the one without padding."""
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    PADDED: {"policy": "bplru", "padding": True, "compensation": True, "block_requests": True}
}
"""Names of policies with fixed options, and those options."""


@dataclass(frozen=True)
class Option:
    """One option. `unit` is that of a number, `range` what a value may be whatever the others are."""

    name: str
    group: str
    kind: str
    unit: str
    default: Any
    range: tuple[float, float] | None
    choices: list[str]
    is_timing: bool
    """Whether it only decides when things are done, so that a drive with a state may change it."""
    about: str


OPTIONS = tuple(Option(group=group, **row) for group, rows in _core.simulation_options() for row in rows)
NAMES = {option.name: option for option in OPTIONS}


def policy_meanings() -> dict[str, str]:
    """What each write buffer does, by name, and none."""
    known = {each["name"]: each["about"] for each in _core.policies()}
    for name, fixed in VARIANTS.items():
        words = ", ".join(option.replace("_", " ") for option in fixed if option != "policy")
        known[name] = f"{fixed['policy']} with {words}"
    return known


def known(name: str) -> Option:
    """The option called `name`; UsageError with the nearest names otherwise."""
    if name in NAMES:
        return NAMES[name]
    hint = suggestion(name, NAMES, f"expected one of {', '.join(NAMES)}")
    raise UsageError(f"no option of a simulation is called '{name}'; {hint}")


@contextmanager
def of_key(key: str) -> Iterator[None]:
    """What is wrong with a value, with its key in the study; what has its key already stays as it is."""
    try:
        yield
    except StudyError:
        raise
    except UsageError as error:
        raise StudyError(str(error), key=key) from None
    except (TypeError, AttributeError, ValueError) as error:
        raise StudyError(f"a value is of the wrong kind: {error}", key=key) from None


def setup(options: Mapping[str, Any]) -> dict[str, Any]:
    """The core's description of drive, buffer, feeding and preconditioning. Raises UsageError."""
    values = {name: read(known(name), value) for name, value in expanded(options).items()}
    groups: dict[str, Any] = {DRIVE: {}, BUFFER: {}, FEED: {}, PRECONDITION: {}}
    for option in OPTIONS:
        value = values[option.name] if option.name in values else read(option, option.default)
        groups[DRIVE if option.group == CONTROLLER else option.group][option.name] = value
    if groups[BUFFER]["policy"] == NONE:
        del groups[BUFFER]
    share = groups.pop(PRECONDITION)[PRECONDITION]
    return {**groups, PRECONDITION: {"share": share}} if share else groups


def expanded(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with those that the name of the policy fixes; UsageError for one that contradicts them."""
    variant = VARIANTS.get(str(options.get("policy")), {})
    for name in variant.keys() & options.keys() - {"policy"}:
        if read(known(name), options[name]) != variant[name]:
            raise UsageError(
                f"{name} is {options[name]!r}, and '{options['policy']}' fixes it to {variant[name]!r}; "
                f"expected policy = '{variant['policy']}'"
            )
    return {**options, **variant}


def read(option: Option, value: Any) -> Any:
    """What the core takes for it. Raises UsageError."""
    kind = option.kind
    if kind in (AUTO_SHARE, AUTO_COUNT) and value in (AUTO, None):
        return AUTO
    if kind == WINDOW and value in (NONE, None, 0):
        return 0
    if kind == POLICY and not isinstance(value, str):
        raise UsageError(f"policy is {value!r}, expected the name of one; several are runs of sweep(trace, runs)")
    if kind == POLICY and value not in (known := policy_meanings()):
        raise UsageError(f"no policy is called '{value}'; {suggestion(str(value), known)}")
    if kind == CHOICE and value not in option.choices:
        raise _wrong(option, value, " or ".join(option.choices))
    if kind == NUMBERS:
        if isinstance(value, str):
            value = [] if value == NONE else value.split("/")
        return [_number(option, part) for part in (value if isinstance(value, list | tuple) else [value])]
    return _READERS[kind](option, value) if kind in _READERS else value


def _wrong(option: Option, value: Any, wanted: str) -> UsageError:
    return UsageError(f"{option.name} is '{value}', expected {wanted}{nearest(value, option.choices)}")


def _size(option: Option, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _wrong(option, value, "a size such as 8MiB")
    try:
        return units.parse_size(value)
    except ValueError as error:
        raise UsageError(f"{option.name}: {error}") from None


def _whole(option: Option, value: Any) -> int:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _wrong(option, value, "a whole number" + (" or none" if option.kind == WINDOW else ""))
    return value


def _number(option: Option, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError):
        raise _wrong(option, value, "a number") from None


def _flag(option: Option, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "yes", "on", 1):
        return True
    if value in ("false", "no", "off", 0):
        return False
    raise _wrong(option, value, "true or false")


_READERS: Mapping[str, Callable[[Option, Any], Any]] = {
    SIZE: _size,
    FLAG: _flag,
    FEEDING: lambda option, value: feeding(value),
    **dict.fromkeys((COUNT, AUTO_COUNT, WINDOW), _whole),
    **dict.fromkeys((NUMBER, SHARE, AUTO_SHARE), _number),
}
"""Kind of an option -> what reads a value of it."""


def feeding(text: Any) -> str:
    """`open`, `scaled:0.5`, `closed:32` or `batch:48@5ms` as the core takes it, in microseconds. Raises UsageError."""
    name, _, rest = str(text).partition(":")
    if name == "open" and not rest:
        return "open"
    if name == "scaled":
        with suppress(ValueError):
            if 0 < (factor := float(rest)) < float("inf"):
                return f"scaled:{factor}"
    if name == "closed" and rest.isdecimal() and int(rest) > 0:
        return f"closed:{int(rest)}"
    if name == "batch" and (match := re.fullmatch(r"([1-9]\d*)@(.+)", rest)):
        try:
            return f"batch:{int(match[1])}@{units.parse_duration_s(match[2]) * 1e6}"
        except ValueError as error:
            raise UsageError(f"feed: {error}") from None
    wanted = "expected open, scaled:FACTOR, closed:OUTSTANDING or batch:SIZE@GAP (batch:48@5ms)"
    raise UsageError(f"feed is '{text}', {wanted}{nearest(name, ('open', 'scaled', 'closed', 'batch'))}")


def available_bytes() -> int:
    """Of memory, as the kernel estimates it."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
