"""What `ioassay simulate` says to people."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.cli import console
from ioassay.packs.ssd.simulator import NAMES, OfflineOptimum, Simulation
from ioassay.units import format_count, format_duration, format_rate, format_size


def describe(simulation: Simulation, drive: Mapping[str, Any], given: Mapping[str, Any], trace: str) -> None:
    """One simulation, one thing a line. `drive` is what `simulation.check` returned."""
    found = simulation.summary
    format_ = simulation.raw["format"]
    console.line(f"{trace}: {f'{format_}, ' if format_ else ''}{found['requests']:,} requests measured")
    done = simulation.raw["preconditioned"]
    state = f"preconditioned with {_pages(done['pages'])}" if done else "every page written once before"
    _row("drive", f"{_value(given, 'elements')} elements, {format_size(drive['capacity_bytes'])}, {state}")
    _row("buffer", _buffer(given))
    queue = f"window {_value(given, 'window')}, driver {_value(given, 'driver')}"
    _row("feed", f"{_value(given, 'feed')}, {queue}")
    _row("response", _response(found))
    _row("throughput", _throughput(found))
    if found["written_pages"]:
        amplification = f"write amplification {found['write_amplification']:.4g}"
        _row("flash", f"{_pages(found['written_pages'])} written, {amplification}")
        moved = f"{_pages(found['moved_pages'])} moved"
        spread = f"{found['least_element_erases']:,} to {found['most_element_erases']:,} an element"
        collected = f"{console.count(found['cleanings'], 'block')} collected"
        _row("garbage", f"{collected}, {moved}, {found['erases']:,} erases ({spread})")
    if (free := found["slc_free_share"]) is not None:
        slc = f"{_pages(found['slc_pages'])} written, {_pages(found['folded_pages'])} folded"
        _row("SLC", f"{slc}, {free:.1%} of the region free at the end")
    if _value(given, "policy") != "none":
        _row("hits", f"{found['hit_ratio']:.2%} of written pages, {found['left_in_buffer']:,} pages left in the buffer")
    if found["pad_reads"] or found["pad_writes"]:
        _row("padding", f"{_pages(found['pad_reads'])} read, {_pages(found['pad_writes'])} written")
    if found["translation_reads"] is not None:
        hits = "no lookups" if found["mapping_hit_ratio"] is None else f"{found['mapping_hit_ratio']:.2%} hits"
        reads, writes = _pages(found["translation_reads"]), f"{found['translation_writes']:,} written"
        _row("mapping", f"{hits}, translation {reads} read, {writes}")
    if found["mean_utilisation"] is not None:
        _row("busy", f"elements {found['mean_utilisation']:.1%} of the time")
    _row("took", f"{format_duration(found['wall_s'])} for {format_duration(found['simulated_s'])} simulated")


def compare(found: Sequence[Mapping[str, Any]], optima: Mapping[tuple[str, ...], OfflineOptimum]) -> None:
    """Several simulations, one a line, and the bound of their hits."""
    columns = [
        "policy",
        "mean ms",
        "median ms",
        "99 % ms",
        "99.9 % ms",
        "MB/s",
        "hits",
        "of optimum",
        "write amp.",
        "erases",
        "moved",
    ]
    names = list(dict.fromkeys(name for each in found for name in each.get("set", ())))
    rows = []
    for each in found:
        policy, *cells = _cells(each)
        rows.append([policy, *(each.get("set", {}).get(name, "-") for name in names), *cells])
    for levels, optimum in optima.items():
        bound = dict.fromkeys(columns, "-") | dict(zip(names, levels, strict=False))
        bound |= {"policy": "offline optimum", "hits": f"{optimum.hit_ratio:.2%}"}
        rows.append([bound[name] for name in (columns[0], *names, *columns[1:])])
    console.table([columns[0], *names, *columns[1:]], rows)


def sampled(found: Sequence[Mapping[str, Any]]) -> None:
    """The hit ratios of a sample, one buffer a line."""
    first = found[0]
    names = list(dict.fromkeys(name for each in found for name in each.get("set", ())))
    pages = f"{first['written_pages']:,} page writes and {first['read_pages']:,} page reads"
    console.line(f"{first['trace']}: {first['requests']:,} requests, {pages}")
    _row("sample", "each ratio is within its error with 95 % confidence; times and wear are not those of a sample")
    rows = []
    for each in found:
        ratios = [_estimate(each, name) for name in ("hit_ratio", "read_hit_ratio", "optimum_hit_ratio")]
        cells = [f"{each['sample_rate']:.4g}", f"{each['sampled_pages']:,}", *itertools.chain(*ratios)]
        rows.append([each["policy"], *(each.get("set", {}).get(name, "-") for name in names), *cells])
    columns = ["hits", "error", "read hits", "error", "optimum", "error"]
    console.table(["policy", *names, "sample", "pages", *columns], rows)


def _estimate(found: Mapping[str, Any], name: str) -> tuple[str, str]:
    ratio, error = found[name], found[f"{name}_error"]
    return "-" if ratio is None else f"{ratio:.2%}", "-" if error is None else f"{error:.2%}"


def policies(known: Sequence[Mapping[str, Any]]) -> None:
    """The write buffers, one a line."""
    rows = [[each["name"], each["about"], ", ".join(dashed(name) for name in each["options"])] for each in known]
    console.table(["policy", "what it does", "options"], rows)


def dashed(name: str) -> str:
    """An option as the command line has it."""
    return f"--{name.replace('_', '-')}"


def _cells(found: Mapping[str, Any]) -> list[str]:
    times = [_number(found[name]) for name in ("p50_ms", "p99_ms", "p999_ms")]
    mean = "saturated" if found["saturated"] else _number(found["mean_response_ms"])
    return [
        *(found["policy"], mean, *times, _number(found["throughput_mb_s"])),
        *(f"{found['hit_ratio']:.2%}", "-" if found["gain_share"] is None else f"{found['gain_share']:.1%}"),
        _number(found["write_amplification"]),
        *(f"{found['erases']:,}", f"{found['moved_pages']:,}"),
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _row(name: str, text: str) -> None:
    console.line(f"  {name:<10} {text}")


def _pages(number: int) -> str:
    return f"{number:,} page{'' if number == 1 else 's'}"


def _value(given: Mapping[str, Any], name: str) -> Any:
    return given.get(name, NAMES[name].default)


def _buffer(given: Mapping[str, Any]) -> str:
    if _value(given, "policy") == "none":
        return "none"
    return f"{_value(given, 'policy')}, {_value(given, 'buffer')}, {_value(given, 'mode')}"


def _response(found: Mapping[str, Any]) -> str:
    """A saturated run has no mean: it is as large as the trace is long."""
    if not found["requests"]:
        return "none: no request was measured"
    if found["saturated"]:
        return "none that is steady: requests came faster than the drive completes them"
    parts = [("mean", "mean_response_ms"), ("median", "p50_ms"), ("95 %", "p95_ms"), ("99 %", "p99_ms")]
    parts += [("99.9 %", "p999_ms"), ("largest", "max_ms")]
    said = ", ".join(f"{word} {found[key]:.4g}" for word, key in parts)
    return f"{said} ms{'' if found['steady'] else ' (not steady)'}"


def _throughput(found: Mapping[str, Any]) -> str:
    if found["throughput_mb_s"] is None:
        return "none: no time passed"
    return f"{format_rate(found['throughput_mb_s'] * 1e6)}, {format_count(found['iops'])} requests/s"
