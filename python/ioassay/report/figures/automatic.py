"""Figures for a study that asks for none: its responses over its first factors, and its latencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.metrics import DIRECTIONS
from ioassay.record import RecordSet, Scalar

_MOST_RESPONSES = 6
_MANY_FOLD = 16
"""Numbers that span at least this factor are seen best on a logarithmic axis."""


def tables(records: RecordSet, study: Mapping[str, Any]) -> list[dict[str, Any]]:
    """`[[figures]]` tables, as the study could have written them itself."""
    from ioassay.analysis import asked

    factors = {name: levels for name, levels in asked.factors(study).items() if len(levels) > 1}
    responses = asked.responses(records, study)[:_MOST_RESPONSES]
    if not factors:
        return [{"kind": "order", "name": _name(response, "order"), "y": response} for response in responses]
    found = [_response(response, factors) for response in responses]
    rows = records.hist.filter(records.hist["study"] == study["name"])
    for direction in DIRECTIONS:
        if rows.filter((rows["direction"] == direction) & (rows["kind"] == "lat")).height:
            found.append({"kind": "cdf", "name": f"{direction}_lat_cdf", "direction": direction, "latency": "lat"})
    return found


def _response(response: str, factors: Mapping[str, Sequence[Scalar]]) -> dict[str, Any]:
    """A trend over the longest row of numbers, bars where there is none; a second factor by colour."""
    from ioassay.analysis import asked

    numeric = {name: known for name, levels in factors.items() if (known := asked.numbers(tuple(levels)))}
    long = [name for name in numeric if len(numeric[name]) > 2]
    x = max(long, key=lambda name: len(numeric[name])) if long else next(iter(factors))
    others = [name for name in factors if name != x]
    table: dict[str, Any] = {"kind": "trend" if long else "bar", "name": _name(response, x), "x": x, "y": response}
    if long and min(numeric[x]) > 0 and max(numeric[x]) >= _MANY_FOLD * min(numeric[x]):
        table["log_x"] = True
    return {**table, "color": others[0]} if others else table


def _name(response: str, factor: str) -> str:
    return f"{response}_by_{factor}".replace(".", "_")
