"""How amounts are said: what was claimed, what was seen, and what would tell the two apart.

Deliberately not here: what follows from them (`counts`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ioassay.units import format_duration, format_ns, format_size
from ioassay.verify.claim_groups import Group
from ioassay.verify.evidence import Evidence

if TYPE_CHECKING:
    from ioassay.verify.operation_counts import Expected


def amount(want: Expected) -> str:
    """What was claimed, in words."""
    parts = [_operations(want.operations) if want.operations is not None else ""]
    parts.append(format_size(want.bytes) if want.bytes is not None else "")
    return " and ".join(filter(None, parts))


def _operations(number: int) -> str:
    return f"{number} operation{'' if number == 1 else 's'}"


def apart(want: Expected, seen: Evidence) -> str:
    """Claimed and seen, with all digits of bytes that look the same when they are rounded."""
    told = f"{amount(want)} were claimed; the kernel saw {seen_amount(seen)}"
    if want.bytes is not None and want.bytes != seen.bytes and format_size(want.bytes) == format_size(seen.bytes):
        told += f" ({want.bytes} bytes were claimed, and {seen.bytes} moved)"
    return told


def seen_amount(seen: Evidence) -> str:
    """What was seen, in words."""
    where = {
        "files": "on its files",
        "calls": "in all calls of the process tree",
        "process": "in the totals of the process tree",
    }
    return f"{_operations(seen.operations)} and {format_size(seen.bytes)} {where.get(seen.source, '')}".strip()


def percent(want: Expected, seen: Evidence) -> str:
    short = []
    if want.bytes:
        short.append(1 - seen.bytes / want.bytes)
    if want.operations:
        short.append(1 - seen.operations / want.operations)
    return f"{max(short, default=0.0) * 100:.3g} %"


def how_to_tell(group: Group, seen: Evidence) -> str:
    """What would tell them apart, where anything is left to be done."""
    level = "use the level syscalls" if seen.source != "files" else ""
    files = "name its files" if not any(claim.paths for claim in group.claims) else ""
    steps = " and ".join(filter(None, (files, level)))
    return f" To know, {steps}." if steps else ""


def duration(seconds: float) -> str:
    """A length of time with three digits, below a second in the unit that fits it."""
    return format_ns(seconds * 1e9) if 0 < seconds < 1 else format_duration(seconds)


def too_high(ratio: float) -> str:
    """How much a rate that should be 1 exceeds it: in percent, or, from ten times on, as a factor."""
    return f"{ratio:.3g} times what it was" if ratio >= 10 else f"{(ratio - 1) * 100:.3g} % too high"
