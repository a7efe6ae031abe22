"""A claim that the user states: `bytes=64MiB,ops=16384,seconds=0.5`, for programs whose output nobody reads here.

Sizes and durations are written as everywhere in ioassay (`ioassay.units`). Nothing is derived from what is given: a
rate that does not fit its bytes and seconds is for the verdict to find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ioassay import units
from ioassay.errors import UsageError
from ioassay.formats.number_parsing import real, whole_number
from ioassay.formats.user_claims import KINDS, SOURCE
from ioassay.hints import nearest
from ioassay.records.record import PATTERNS, Claim


def _size(value: str) -> int:
    return whole_number(units.parse_size(value), "size")


def _count(value: str) -> int:
    return whole_number(value, "count")


def _one_of(names: Sequence[str], what: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in names:
            raise ValueError(f"'{value}' is no {what}; expected {', '.join(names)}{nearest(value, names)}")
        return value

    return read


def _flag(value: str) -> bool:
    if value not in ("0", "1", "yes", "no"):
        raise ValueError(f"'{value}' is neither yes nor no")
    return value in ("1", "yes")


# Key -> the field of the claim, how its value is read, and an example.
_KEYS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "bytes": ("bytes", _size, "64MiB"),
    "ops": ("operations", _count, "16384"),
    "seconds": ("seconds", units.parse_duration_s, "0.5"),
    "kind": ("kind", _one_of(KINDS, "kind"), "read"),
    "rate": ("rate_bytes_per_s", lambda value: float(_size(value.removesuffix("/s"))), "128MiB/s"),
    "latency": ("latency_ns", lambda value: {"mean": real(units.parse_duration_s(value) * 1e9, "latency")}, "61us"),
    "path": ("paths", lambda value: tuple(value.split(":")), "/data/file"),
    "record": ("record_bytes", _size, "4KiB"),
    "pattern": ("pattern", _one_of(PATTERNS, "pattern"), "random"),
    "working_set": ("working_set_bytes", _size, "16MiB"),
    "syncs": ("syncs", _count, "1"),
    "direct": ("direct", _flag, "yes"),
    "engine": ("engine", str, "psync"),
    "test": ("test", str, "my-test"),
}
_JUDGED = {"bytes", "operations", "seconds", "rate_bytes_per_s", "latency_ns", "pattern", "working_set_bytes"}


def stated_claim(text: str) -> Claim:
    """The claim behind `key=value,key=value…`; UsageError names the key, the value and the keys that there are.

    Without `kind` it is of reads. At least one number, or a pattern, has to be there.
    """
    found: dict[str, Any] = {}
    for part in text.split(","):
        key, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or key not in _KEYS or not value:
            known = ", ".join(f"{name} ({example})" for name, (_, _, example) in _KEYS.items())
            expected = f"expected key=value with {known}{nearest(key, _KEYS)}"
            raise UsageError(f"--claim {text}: '{part}' is not understood; {expected}")
        field, read, example = _KEYS[key]
        if field in found:
            raise UsageError(f"--claim {text}: {key} is given twice")
        try:
            found[field] = read(value)
        except (ValueError, UsageError) as error:
            raise UsageError(f"--claim {text}: {key}={value}: {error}; expected such as {key}={example}") from None
    if not found.keys() & _JUDGED:
        raise UsageError(f"--claim {text}: claims no number; expected one of bytes, ops, seconds, rate, latency, "
                         "working_set, or pattern")  # fmt: skip
    return Claim(**{"source": SOURCE, "kind": "read", **found})
