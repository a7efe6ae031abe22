"""A claim that the user states: `bytes=64MiB,ops=16384,seconds=0.5`, for programs whose output nobody reads here.

Sizes and durations are written as everywhere in ioassay (`ioassay.units`). Nothing is derived from what is given: a
rate that does not fit its bytes and seconds is for the verdict to find.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ioassay import units
from ioassay.errors import UsageError
from ioassay.formats.number_parsing import real, whole_number
from ioassay.hints import nearest
from ioassay.records.record import PATTERNS, Claim

NAME = "user"
KINDS = ("read", "write", "trim", "mixed", "keys")
_SMALLEST_RATE_STEP = 1.0


def _size(value: str) -> int:
    return whole_number(units.parse_size(value), "size")


def _rate(value: str) -> float:
    """`100MB/s`, `100MB` or bytes a second."""
    return float(_size(value.removesuffix("/s")))


def _count(value: str) -> int:
    return whole_number(value, "count")


def _nanoseconds(value: str) -> dict[str, float]:
    return {"mean": real(units.parse_duration_s(value) * 1e9, "latency")}


def _kind(value: str) -> str:
    if value not in KINDS:
        raise ValueError(f"'{value}' is no kind; wanted {', '.join(KINDS)}{nearest(value, KINDS)}")
    return value


def _pattern(value: str) -> str:
    if value not in PATTERNS:
        raise ValueError(f"'{value}' is no pattern; wanted {', '.join(PATTERNS)}{nearest(value, PATTERNS)}")
    return value


def _flag(value: str) -> bool:
    if value not in ("0", "1", "yes", "no"):
        raise ValueError(f"'{value}' is neither yes nor no")
    return value in ("1", "yes")


def _names(value: str) -> tuple[str, ...]:
    return tuple(value.split(":"))


# Key -> the field of the claim, how its value is read, and an example.
_KEYS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "bytes": ("bytes", _size, "64MiB"),
    "ops": ("operations", _count, "16384"),
    "seconds": ("seconds", units.parse_duration_s, "0.5"),
    "kind": ("kind", _kind, "read"),
    "rate": ("rate_bytes_per_s", _rate, "128MiB/s"),
    "latency": ("latency_ns", _nanoseconds, "61us"),
    "path": ("paths", _names, "/data/file"),
    "record": ("record_bytes", _size, "4KiB"),
    "pattern": ("pattern", _pattern, "random"),
    "working_set": ("working_set_bytes", _size, "16MiB"),
    "syncs": ("syncs", _count, "1"),
    "direct": ("direct", _flag, "yes"),
    "engine": ("engine", str, "psync"),
    "test": ("test", str, "my-test"),
}


_JUDGED = frozenset({"bytes", "operations", "seconds", "rate_bytes_per_s", "latency_ns", "pattern",
                     "working_set_bytes"})  # fmt: skip


def parse(text: str) -> Claim:
    """The claim behind `key=value,key=value…`; UsageError names the key, the value and the keys that there are.

    Without `kind` it is of reads. At least one number, or a pattern, has to be there.
    """
    found: dict[str, Any] = {}
    for part in text.split(","):
        key, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or key not in _KEYS or not value:
            hint = nearest(key, _KEYS)
            raise UsageError(f"--claim {text}: '{part}' is not understood; wanted key=value with {_known()}{hint}")
        field, read, example = _KEYS[key]
        if field in found:
            raise UsageError(f"--claim {text}: {key} is given twice")
        try:
            found[field] = read(value)
        except (ValueError, UsageError) as error:
            raise UsageError(f"--claim {text}: {key}={value}: {error}; wanted such as {key}={example}") from None
    if not found.keys() & _JUDGED:
        raise UsageError(f"--claim {text}: claims no number; wanted one of bytes, ops, seconds, rate, latency, "
                         "working_set, or pattern")  # fmt: skip
    return Claim(source=NAME, kind=found.pop("kind", "read"), rate_unit_bytes=_SMALLEST_RATE_STEP, **found)


def _known() -> str:
    return ", ".join(f"{key} ({example})" for key, (_, _, example) in _KEYS.items())
