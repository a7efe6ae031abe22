"""What a served drive tells, for people."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ioassay import _core, units
from ioassay.cli import console
from ioassay.errors import InputError, ToolError

_UNCALIBRATED = {"calibration-uncertain", "floor-unknown"}
"""Warnings that its latencies may not be the model's."""
_OPS = ("reads", "writes", "trims", "flushes")


def ready(told: Mapping[str, Any], *, as_json: bool, number: int | None = None) -> None:
    """Clients can connect: one line of JSON, or how to reach it. `number` is its place among several drives."""
    if as_json:
        console.line(json.dumps(told if number is None else {"drive": number, **told}))
    else:
        which = "" if number is None else f"drive[{number}]: "
        what = f"{units.format_size(told['size_bytes'])}, {_model(told)}, policy {told['policy']}"
        uncertain = ", calibration uncertain" if _UNCALIBRATED & {item["kind"] for item in told["warnings"]} else ""
        console.line(f"serving {which}{what}{uncertain}")
        if zones := told.get("zones"):
            console.line(f"  zones     {_zones(zones)}")
        for way in told["ways"]:
            floor = f", takes {units.format_ns(way['floor_ns'])} by itself" if way.get("floor_ns") else ""
            through = f", through {way['interface']}" if way.get("interface") else ""
            console.line(f"  {way['transport']:8}  {way['address']}{through}{floor}")
            if way.get("nqn"):
                console.line(f"            {way['nqn']}")
        if len(told["namespaces"]) > 1:
            sizes = [f"{one['id']}: {units.format_size(one['size_bytes'])}" for one in told["namespaces"]]
            console.line(f"  namespaces  {', '.join(sizes)}")
        console.line(f"  stats     {told['stats']}")
        console.line(f"  memory    at most {units.format_size(told['memory_bytes'])}, with the drive's content")
    if told["faults"] and not as_json:
        console.line(f"  faults    {console.count(told['faults'], 'fault')} armed")
    for item in told["warnings"]:  # each of its own: there is no report that would have the rest
        console.warnings([{"code": item["kind"], "text": item["text"], "remedy": ""}])
    console.flush()


def _model(told: Mapping[str, Any]) -> str:
    profile = f" ({told['profile']})" if told["profile"] else ""
    return f"model {told['model']}{profile}"


def ended(counted: Mapping[str, Any], number: int | None = None) -> None:
    """The drive has ended."""
    which = "" if number is None else f"drive[{number}] "
    done = [f"{console.count(counted[name]['commands'], name[:-1])}" for name in ("reads", "writes")]
    console.line(f"{which}served {' and '.join(done)} in {units.format_duration(counted['served_s'])}")


def statistics(found: Mapping[str, Any]) -> None:
    """All that was counted."""
    rows = []
    for name in _OPS:
        one = found[name]
        times = one["latency_ns"]
        rows.append(
            [
                name,
                units.format_count(one["commands"]),
                units.format_size(one["bytes"]),
                str(one["errors"]),
                *(latency(times[key]) for key in ("mean", "p50", "p99", "max")),
            ]
        )
    console.table(["", "commands", "bytes", "errors", "mean", "p50", "p99", "max"], rows)
    if len(found["namespaces"]) > 1:
        _namespaces(found["namespaces"])
    console.line()
    if (buffer := found.get("buffer")) and buffer["capacity_pages"]:
        console.line(
            f"buffer    {buffer['held_pages']} of {buffer['capacity_pages']} pages held; found in it: "
            f"{_share(buffer['write_hits'], buffer['written_pages'])} of written, "
            f"{_share(buffer['read_hits'], buffer['read_pages'])} of read"
        )
    if flash := found.get("flash"):
        amplification = flash["write_amplification"]
        console.line(
            f"flash     {units.format_count(flash['written_pages'])} pages written, {flash['erases']} blocks erased"
            + (f", write amplification {amplification:.3f}" if amplification else "")
        )
    if zones := found.get("zones"):
        console.line(f"zones     {_zones(zones)}")
    if mapping := found.get("mapping"):
        read = mapping["hits"] + mapping["misses"]
        console.line(
            f"mapping   {_share(mapping['hits'], read)} of read pages found in the cache; "
            f"{units.format_count(mapping['translation_reads'])} translation pages read, "
            f"{units.format_count(mapping['translation_writes'])} written"
        )
    if found["faults"] or found["faults_fired"]:
        armed = console.count(len(found["faults"]), "fault")
        console.line(f"faults    {armed} armed; struck {console.count(found['faults_fired'], 'time')}")
    console.line(f"volatile  {console.count(found['volatile_pages'], 'page')} that would be lost with the power")
    console.line(
        f"late      {latency(found['late_ns']['p50'])} in the middle, {latency(found['late_ns']['p99'])} at 99 %"
    )


def _namespaces(found: Sequence[Mapping[str, Any]]) -> None:
    """How much each namespace was used. Flushes concern the whole drive."""
    console.line()
    rows = []
    for one in found:
        row = [str(one["id"]), units.format_size(one["size_bytes"])]
        for name in _OPS[:3]:
            row += [units.format_count(one[name]["commands"]), units.format_size(one[name]["bytes"])]
        rows.append([*row, str(sum(one[name]["errors"] for name in _OPS[:3]))])
    console.table(["namespace", "size", "reads", "bytes", "writes", "bytes", "trims", "bytes", "errors"], rows)


def faults(found: Sequence[Mapping[str, Any]]) -> None:
    """The faults of a drive, and how often they struck."""
    if not found:
        console.line("no faults")
        return
    rows = [[str(one["id"]), one["kind"], _concerned(one), str(one["matched"]), str(one["fired"])] for one in found]
    console.table(["", "kind", "concerns", "matched", "fired"], rows)


_STATES = ("empty", "implicitly_opened", "explicitly_opened", "closed", "full", "read_only", "offline")


def _zones(found: Mapping[str, Any]) -> str:
    """How many zones there are, and in which states."""
    states = ", ".join(f"{found[name]} {name.replace('_', ' ')}" for name in _STATES if found[name])
    return f"{found['zones']} of {units.format_size(found['zone_bytes'])}: {states}"


def _concerned(fault: Mapping[str, Any]) -> str:
    """Which commands a fault concerns, and what it does to them."""
    said = [", ".join(fault["op"])] if fault["op"] else []
    if fault["namespace"] is not None:
        said.append(f"namespace {fault['namespace']}")
    if fault["offset_bytes"] or fault["length_bytes"] is not None:
        length, offset = fault["length_bytes"], _exact_size(fault["offset_bytes"])
        said.append(f"from {offset}" if length is None else f"{_exact_size(length)} at {offset}")
    for name in ("after", "for", "every", "delay", "down"):
        if time_us := fault[f"{name}_us"]:
            said.append(f"{name} {units.format_ns(time_us * 1000)}")
    if fault["bytes_per_s"]:
        said.append(units.format_rate(fault["bytes_per_s"]))
    if fault["probability"] < 1:
        said.append(f"{units.format_percent(fault['probability'])} % of {fault['scope']}s")
    if fault["count"] is not None:
        said.append(f"{console.count(fault['count'], 'time')} at most")
    return "; ".join(said) or "all"


def _exact_size(size_bytes: int) -> str:
    """A size that can be given back: in bytes where a larger unit would round it."""
    text = units.format_size(size_bytes)
    return text if units.parse_size(text) == size_bytes else f"{size_bytes} B"


def latency(value: float | None) -> str:
    """A time, or a gap where nothing happened."""
    return "-" if value is None else units.format_ns(value)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"


_COLUMNS = (
    *(("r/s", 6), ("w/s", 6), ("read", 9), ("written", 9), ("r p50", 7), ("w p50", 7)),
    *(("depth", 5), ("buffer", 6), ("late p99", 8)),
)
"""Names, of which iostat has the first two, and widths; a row is less than 80 characters long."""
_HEAD_EVERY = 20


def follow(look: Callable[[], Mapping[str, Any]], interval_s: float, rows: int, *, as_json: bool) -> None:
    """A row for each interval, until Ctrl-C or the drive's end; as JSON all that is counted, one line each.

    `look` gives the drive's statistics; rows need them with buckets.
    """
    try:
        _follow(look, interval_s, rows, as_json=as_json)
    except KeyboardInterrupt:
        if rows:  # without a count that is its end, and no interruption
            raise


def _follow(look: Callable[[], Mapping[str, Any]], interval_s: float, rows: int, *, as_json: bool) -> None:
    before, number = look(), 0
    while not rows or number < rows:
        time.sleep(interval_s)
        try:
            now = look()
        except (InputError, ToolError):  # one that is about to end still listens, and refuses
            if not as_json:
                console.line("the drive has ended")
            return
        if as_json:
            console.line(json.dumps(now))
        else:
            if number % _HEAD_EVERY == 0:
                console.line(_aligned(name for name, _ in _COLUMNS))
            console.line(_aligned(row(before, now)))
        console.flush()
        before, number = now, number + 1


def row(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What happened between two looks; depth and buffer as they are now."""
    if now["counted_s"] < before["counted_s"]:
        before = {}  # counting began anew
    seconds: float = max(now["served_s"] - before["served_s"] if before else now["counted_s"], 1e-9)

    def rate(name: str, key: str) -> float:
        gained: float = now[name][key] - (before[name][key] if before else 0)
        return gained / seconds

    def quantile(of: Callable[[Mapping[str, Any]], Mapping[str, Any]], q: float) -> str:
        return latency(_quantile(of(before)["buckets"] if before else [], of(now)["buckets"], q))

    buffer = now.get("buffer")
    return [
        units.format_count(rate("reads", "commands")),
        units.format_count(rate("writes", "commands")),
        units.format_rate(rate("reads", "bytes")),
        units.format_rate(rate("writes", "bytes")),
        quantile(lambda found: found["reads"]["latency_ns"], 0.5),
        quantile(lambda found: found["writes"]["latency_ns"], 0.5),
        str(now["depth_now"]),
        units.format_count(buffer["held_pages"]) if buffer and buffer["capacity_pages"] else "-",
        quantile(lambda found: found["late_ns"], 0.99),
    ]


def _quantile(before: Iterable[tuple[int, int]], now: Iterable[tuple[int, int]], q: float) -> float | None:
    """Of what came between two states of a distribution; None of nothing."""
    was = dict(before)
    gained = _core.Histogram()
    for value, times in now:
        if (more := times - was.get(value, 0)) > 0:
            gained.record(value, more)
    return gained.quantile(q) if gained.count else None


def _aligned(cells: Iterable[str]) -> str:
    return "  ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, _COLUMNS, strict=True))
