"""Figures for a study that asks for none: its responses over its first factors, and its latencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.metrics import DIRECTIONS
from ioassay.record import RecordSet, Scalar
from ioassay.report.figures import axes

_MOST_RESPONSES = 6
_SEVERAL = 3
"""Fewer studies than this are seen by their own figures."""


def several(records: RecordSet) -> list[dict[str, Any]]:
    """Tables of a suite that has none of its own: its studies side by side, where at least three sweep something."""
    from ioassay.analysis import asked

    swept = [
        study["name"] for study in records.studies if any(len(levels) > 1 for levels in asked.factors(study).values())
    ]
    if len(swept) < _SEVERAL:
        return []
    found: list[dict[str, Any]] = [{"kind": "multiples", "name": "overview"}]
    watched = records.samples.filter(records.samples["monitor"] == "cpu")["study"].unique().to_list()
    if len(set(watched) & set(swept)) >= _SEVERAL:
        found.append({"kind": "multiples", "name": "overview_cpu", "show": "cpu"})
    return found


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
    if long and axes.geometric(factors[x]):
        table["log_x"] = True
    return {**table, "color": others[0]} if others else table


def _name(response: str, factor: str) -> str:
    return f"{response}_by_{factor}".replace(".", "_")
