"""Figures for a study that asks for none: responses over its factors, latencies, and the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.factors import counts_concurrency, level_axis_numbers
from ioassay.metrics import DIRECTIONS, RATE, metric
from ioassay.records.record import RecordSet, Scalar
from ioassay.report.figures import axes

_MOST_RESPONSES = 6
_PANELS = ("cpu", "disk", "net", "memory")
_MOST_FACTORS = 2
"""What a small panel can tell apart, by place and by colour."""
_SEVERAL = 3
"""Fewer studies than this are seen by their own figures."""


def several(records: RecordSet) -> list[dict[str, Any]]:
    """Tables of a suite that has none of its own: studies side by side, where three or more sweep one factor or two."""
    from ioassay.analysis.measurements import study_view

    varied = {
        study["name"]: sum(len(levels) > 1 for levels in study_view.factors(study).values())
        for study in records.studies
    }
    swept = [name for name, factors in varied.items() if 0 < factors <= _MOST_FACTORS]
    if len(swept) < _SEVERAL:
        return []
    some = {"studies": swept} if len(swept) < len(varied) else {}
    found: list[dict[str, Any]] = [{"kind": "multiples", "name": "overview", **some}]
    watched = records.samples.filter(records.samples["monitor"] == "cpu")["study"].unique().to_list()
    if len(set(watched) & set(swept)) >= _SEVERAL:
        found.append({"kind": "multiples", "name": "overview_cpu", "show": "cpu", **some})
    return found


def tables(records: RecordSet, study: Mapping[str, Any]) -> list[dict[str, Any]]:
    """`[[figures]]` tables, as the study could have written them itself."""
    from ioassay.analysis.measurements import study_view

    if records.tuning is not None:
        return [{"kind": "search", "name": "search"}]
    factors = {name: levels for name, levels in study_view.factors(study).items() if len(levels) > 1}
    responses = study_view.responses(records, study)[:_MOST_RESPONSES]
    if not factors:
        found = [{"kind": "order", "name": _name(response, "order"), "y": response} for response in responses]
        return [*found, *_meanwhile(records, study, None)]
    found = [_response(response, factors) for response in responses]
    rows = records.hist.filter(records.hist["study"] == study["name"])
    for direction in DIRECTIONS:
        if rows.filter((rows["direction"] == direction) & (rows["kind"] == "lat")).height:
            found.append({"kind": "cdf", "name": f"{direction}_lat_cdf", "direction": direction, "latency": "lat"})
    return [*found, *_meanwhile(records, study, _along(factors))]


def _along(factors: Mapping[str, Sequence[Scalar]]) -> str:
    """The longest row of numbers, or the first factor where there is none."""

    long = {
        name: len(levels) for name, levels in factors.items() if len(levels) > 2 and level_axis_numbers(name, levels)
    }
    return max(long, key=lambda name: long[name]) if long else next(iter(factors))


def _response(response: str, factors: Mapping[str, Sequence[Scalar]]) -> dict[str, Any]:
    """A trend over a row of numbers, scaling where they count workers, bars over words; a second factor by colour."""

    x = _along(factors)
    others = [name for name in factors if name != x]
    table: dict[str, Any] = {"name": _name(response, x), "x": x, "y": response}
    if len(factors[x]) < 3 or level_axis_numbers(x, factors[x]) is None:
        table = {"kind": "bar", **table}
    elif not others and counts_concurrency(x) and metric(response).kind == RATE:
        return {"kind": "scaling", **table}
    else:
        table = {"kind": "trend", **table, **({"log_x": True} if axes.geometric(x, factors[x]) else {})}
    return {**table, "color": others[0]} if others else table


def _meanwhile(records: RecordSet, study: Mapping[str, Any], x: str | None) -> list[dict[str, Any]]:
    """What the machine did, as far as it was watched: over `x`, over time, and by system call."""
    watched = set(records.samples.filter(records.samples["study"] == study["name"])["monitor"].unique().to_list())
    found: list[dict[str, Any]] = []
    if x is not None and "cpu" in watched:
        found.append({"kind": "stack", "name": f"cpu_by_{x}".replace(".", "_"), "x": x})
    if panels := [name for name in _PANELS if name in watched]:
        found.append({"kind": "timeline", "name": "timeline", "panels": panels, "order": "levels", "repetition": 0})
    if records.calls.filter(records.calls["study"] == study["name"]).height:
        found.append({"kind": "calls", "name": "calls", **({"x": x} if x in records.calls.columns else {})})
    return found


def _name(response: str, factor: str) -> str:
    return f"{response}_by_{factor}".replace(".", "_")
