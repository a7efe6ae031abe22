"""How a trace is read and prepared: from what people write to what the core takes. The core checks the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.errors import UsageError
from ioassay.units import parse_size


def preparation(
    *,
    keep: str | Sequence[str] | None = None,
    devices: str | None = None,
    drop_empty: bool = False,
    shrink: str | int | None = None,
    shrink_from: str | int | None = None,
    page: str | int | None = None,
    offsets: str | None = None,
    sizes: str | None = None,
    limit: str | int | None = None,
    beyond: str | None = None,
    skip: int = 0,
    first: int | None = None,
    rebase: bool = False,
    time_scale: float = 1.0,
) -> dict[str, Any]:
    """What is done to a trace, in this order; what is not told is not done. docs/workloads.md has it in full.

    `devices`: ignore, only:NUMBER or side-by-side:SIZE. `keep`: kinds such as writes, or reads,writes. `drop_empty`
    drops requests of no bytes. `shrink`: evenly to that size, from `shrink_from` or where the trace ends.
    `offsets`: keep, down, refuse. `sizes`: keep, round-out, cut, split (pages of `page`, 4 KiB), split:SIZE (cut to
    SIZE, then split). `limit`: where requests may end, and what is `beyond`: refuse, wrap, drop. `skip` and `first`
    count what is left. `rebase` lets times begin at 0, `time_scale` multiplies them. Raises UsageError.
    """
    if first == 0:
        raise UsageError("first is 0, expected at least 1: nothing would be left of the trace")
    kinds = keep.split(",") if isinstance(keep, str) else keep
    sizing, cut_bytes = _sizes(sizes) if sizes else (None, None)
    wanted = {
        "devices": _devices(devices) if devices else None,
        "keep": [kind.strip() for kind in kinds] if kinds else None,
        "drop_empty": drop_empty or None,
        "shrink_to_bytes": _size("shrink", shrink),
        "shrink_from_bytes": _size("shrink-from", shrink_from),
        "page_bytes": _size("page", page),
        "offsets": offsets,
        "cut_bytes": cut_bytes,
        "sizes": sizing,
        "limit_bytes": _size("limit", limit),
        "beyond": beyond,
        "skip": skip or None,
        "first": first,
        "rebase": rebase or None,
        "time_scale": None if time_scale == 1.0 else time_scale,
    }
    if shrink_from is not None and shrink is None:
        raise UsageError("shrink-from is given without shrink, expected both or none")
    return {name: value for name, value in wanted.items() if value is not None}


_DROPS = {
    "dropped_device": "devices",
    "dropped_kind": "keep",
    "dropped_empty": "drop_empty",
    "dropped_beyond": "beyond",
    "skipped": "skip",
}
"""Counts of what a preparation leaves out, and the option that is the reason."""


def nothing_left(changes: Mapping[str, int], prepare: Mapping[str, Any] | None) -> str:
    """Why a preparation left no request: each option with its value and count; '' where it left some.

    `changes` are the counts of the core, `prepare` is what `preparation` returned.
    """
    if changes["given"]:
        return ""
    if not changes["seen"]:
        return "the trace has no requests"
    values = prepare or {}
    drops = [
        f"{option.replace('_', '-')} is {_written(values.get(option, True))} and leaves out {changes[count]:,}"
        for count, option in _DROPS.items()
        if changes[count]
    ]
    return f"nothing is left of the trace's {changes['seen']:,} requests: {', '.join(drops)}"


def _written(value: Any) -> str:
    """A value as a user writes it: `reads,writes`, `only:3`."""
    if isinstance(value, tuple):
        return ":".join(map(str, value))
    return ",".join(value) if isinstance(value, list) else str(value)


def _sizes(text: str) -> tuple[str, int | None]:
    """`split:4KiB` -> ("split", 4096)."""
    name, colon, size = text.partition(":")
    if colon and name != "split":
        raise UsageError(f"sizes is '{text}', expected keep, round-out, cut, split or split:SIZE")
    return name, _size("sizes", size) if colon else None


def _devices(text: str) -> str | tuple[str, int]:
    name, _, number = text.partition(":")
    if name == "only" and number.isdecimal():
        return name, int(number)
    if name == "side-by-side" and number:
        return name, _size("devices", number) or 0
    if text in ("keep", "ignore"):
        return text
    raise UsageError(f"devices is '{text}', expected keep, ignore, only:NUMBER or side-by-side:SIZE")


def _size(name: str, text: str | int | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def csv(
    columns: str | Sequence[str] | None = None,
    skip_header: bool = False,
    time_unit: str | None = None,
    offset_unit: str | int | None = None,
    length_unit: str | int | None = None,
    kinds: str | None = None,
) -> dict[str, Any]:
    """Options for `read`, where a CSV trace's header does not say everything.

    `columns`: their names in order, `-` for one of no interest; `skip_header`: the first line is one nevertheless.
    `time_unit`: s, ms, us, ns. `offset_unit` and `length_unit`: bytes of one, such as 512. `kinds`: words, read-is-1,
    write-is-1 or scsi. Raises UsageError.
    """
    names = columns.split(",") if isinstance(columns, str) else columns
    given = {
        "columns": [name.strip() for name in names] if names else None,
        "skip_header": skip_header or None,
        "time_unit": time_unit,
        "offset_unit_bytes": _size("offset-unit", offset_unit),
        "length_unit_bytes": _size("length-unit", length_unit),
        "kinds": kinds,
    }
    return {name: value for name, value in given.items() if value is not None}
