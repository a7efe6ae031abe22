"""ioassay trace: traces of block requests looked at, converted and made; and the picture of a miss ratio curve."""

from __future__ import annotations

import html
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from ioassay.cli import console, options, syntax
from ioassay.cli.completion_values import listed, words
from ioassay.cli.syntax import row
from ioassay.cli.trace_options import (
    FORMAT,
    NO_CACHE,
    PAGE,
    PREPARING,
    READING,
    cache_note,
    preparing,
    reading,
    trace_formats,
)
from ioassay.errors import UsageError
from ioassay.simulation import traces
from ioassay.units import format_duration, format_ns, format_size

Files = Annotated[list[Path], syntax.argument("FILE…", "Traces; - is standard input.")]
In = Annotated[Path, syntax.argument("IN", "A trace; - is standard input.")]
Out = Annotated[Path, syntax.argument("OUT", "The file to write; .gz and .zst compress, - is standard output.")]

TO = {"to": row(str, None, "NAME", "Format of OUT; by default from its name.", trace_formats)}
_LOSE = "Losses to accept if the format cannot hold them: alignment, devices, kinds."
WRITING = {
    "lose": row(list[str], None, "WHAT", _LOSE, listed(words("alignment", "devices", "kinds"))),
    "force": row(bool, False, "--force", "Replace OUT where it exists."),
}
_LAWS = {
    "requests": row(int, 1_000_000, "N", "Number of requests.", min=1),
    "arrivals": row(
        *(str, "poisson:20000", "LAW"),
        "none, fixed:RATE, uniform:RATE, poisson:RATE or bursts:RATE:LENGTH:PEAK.",
        words("none", "fixed:", "uniform:", "poisson:", "bursts:"),
    ),
    "addresses": row(
        *(str, "uniform", "LAW"),
        "uniform, normal, zipf:THETA, hot-cold:ACCESSES:SPACE or sequential[:RUN[:STREAMS]].",
        words("uniform", "normal", "zipf:", "hot-cold:", "sequential"),
    ),
    "sizes": row(str, "4KiB", "LAW", "SIZE, exponential:MEAN, or SIZE:WEIGHT,SIZE:WEIGHT,…."),
    "reads": row(float, 0.0, "SHARE", "Share of reads, 0 to 1."),
    "trims": row(float, 0.0, "SHARE", "Share of trims; the rest are writes."),
    "range": row(str, "1GiB", "SIZE", "Size of the address range."),
    "align": row(str, None, "SIZE", "Alignment of offsets; by default 4 KiB or the smallest size."),
    "seed": row(int, 1, "N", "Seed of all random choices.", min=0),
}
_CURVE = {
    "of": row(
        *(str, "both", "KINDS", "Requests whose pages are references: reads, writes or both."),
        words("reads", "writes", "both"),
    ),
    **PAGE,
    "sample": row(float, None, "RATE", "Look at this share of the pages."),
    "sample_pages": row(int, None, "N", "Look at N pages at most, whatever the trace's size."),
    "exact": row(bool, False, "--exact", "With a sample: compute the exact curve too, and compare."),
    "points": row(int, 25, "N", "Buffer sizes, from one page to all pages.", min=2),
    "output": row(Path, None, "FILE", "Draw the curve in FILE, which ends in .svg, .png or .html."),
    "force": row(bool, False, "--force", "With --output: replace FILE where it exists."),
}


def register(app: syntax.Group) -> None:
    trace = syntax.Group("Inspect, convert and generate traces of block requests.")
    for command in (info, convert, make, formats, cache, mrc):
        trace.command()(command)
    app.add(trace, "trace")


@syntax.takes({**FORMAT, **PAGE, **READING, **NO_CACHE})
def info(files: Files, *, json: options.Json = False, **given: Any) -> None:
    """Say what traces are like, and what makes them implausible.

    Example: ioassay trace info db.csv
    """
    found = []
    for path in traces.distinct(files):
        seen = {"path": str(path), **traces.info(path, page=given["page"], **_source(given))}
        found.append(seen)
        if not json:
            describe(seen)
        cache_note(seen)
        console.warnings({**doubt, "text": f"{path}: {doubt['text']}"} for doubt in seen["doubts"])
    if json:
        console.emit({"traces": found})


@syntax.takes(
    {
        "from_": row(str, None, "NAME", "Format of IN; detected by default.", trace_formats),
        **TO,
        **READING,
        **PREPARING,
        **WRITING,
        **NO_CACHE,
    }
)
def convert(trace: In, output: Out, *, json: options.Json = False, **given: Any) -> None:
    """Write a trace in another format, prepared as the options say, in the order of this list.

    Example: ioassay trace convert db.csv writes.disksim --keep writes --rebase
    """
    _check_streams(output, json)
    read, prepare = reading(given), preparing(given)
    source = {"format": given["from_"], "read": read, "prepare": prepare, "cache": not given["no_cache"]}
    done = traces.convert(trace, output, to=given["to"], lose=given["lose"] or (), force=given["force"], **source)
    cache_note(done)
    written(output, done, json=json)


@syntax.takes({**_LAWS, **TO, **WRITING})
def make(output: Out, *, json: options.Json = False, **given: Any) -> None:
    """Make a trace; the same options give the same trace on every machine.

    Example: ioassay trace make hot.csv --requests 100000 --addresses zipf:0.9
    """
    _check_streams(output, json)
    laws = {name: given[name] for name in _LAWS}
    # No name tells it of standard output, and the simulator reads any.
    to = given["to"] or ("disksim" if str(output) == "-" else None)
    done = traces.make(output, to=to, lose=given["lose"] or (), force=given["force"], **laws)
    written(output, done, json=json)


def formats(json: options.Json = False) -> None:
    """List the formats of traces."""
    known = traces.formats()
    rows = [[each["name"], each["about"], each["columns"]] for each in known]
    console.answer(lambda: {"formats": known}, lambda: console.table(["format", "what", "columns"], rows))


@syntax.takes({**_CURVE, **FORMAT, **READING, **NO_CACHE})
def mrc(trace: In, *, json: options.Json = False, **given: Any) -> None:
    """Say how the misses of an LRU buffer depend on its size: the miss ratio curve."""
    output, force = given["output"], given["force"]
    if output is not None:
        if output.suffix.lower() not in _ENDINGS:
            kinds = ", ".join(_ENDINGS)
            raise UsageError(f"{output}: the name tells no kind of picture, expected one that ends in {kinds}")
        traces.check_file(output, force=force)
    elif force:
        raise UsageError("--force goes with --output FILE")
    of, how = given["of"], {name: given[name] for name in ("page", "sample", "sample_pages", "exact", "points")}
    curve = traces.mrc(trace, of=of, **how, **_source(given))
    cache_note(curve)
    if output is not None:
        with traces.replaced(output, force=force) as unfinished:
            draw(unfinished, chart(str(trace), of, curve), output.suffix.lower())
    if json:
        drawn = {} if output is None else {"output": str(output)}
        console.emit({"trace": str(trace), "of": of, **curve, **drawn})
    else:
        miss_ratio_curve(str(trace), of, curve)
        if output is not None:
            console.line(f"the curve is drawn in {output}")


def cache(
    clear: Annotated[bool, syntax.option("--clear", "Remove all parsed traces.")] = False, json: options.Json = False
) -> None:
    """List the parsed traces that are kept, or remove them."""
    freed = traces.clear_cache() if clear else 0
    kept: dict[str, Any] = {
        "folder": str(traces.cache_folder()),
        "limit_bytes": traces.cache_limit_bytes(),
        "entries": traces.cache_entries(),
    }
    if json:
        console.emit({**kept, "freed_bytes": freed})
    elif clear:
        console.line(f"{format_size(freed)} of parsed traces removed")
    else:
        total_bytes = sum(entry["bytes"] for entry in kept["entries"])
        limit = f"of at most {format_size(kept['limit_bytes'])}" if kept["limit_bytes"] else "and off"
        number = console.count(len(kept["entries"]), "trace")
        console.line(f"{kept['folder']}: {number}, {format_size(total_bytes)} {limit}")
        rows = [
            [entry["name"], format_size(entry["bytes"]), f"{datetime.fromtimestamp(entry['used_s']):%Y-%m-%d %H:%M}"]
            for entry in kept["entries"]
        ]
        if rows:
            console.table(["name", "size", "last use"], rows)


def _source(given: Mapping[str, Any]) -> dict[str, Any]:
    """How a trace is read that is only looked at: times that decrease are counted."""
    read = reading({**given, "out_of_order": given["out_of_order"] or "keep"})
    return {"format": given["format"], "read": read, "cache": not given["no_cache"]}


def _check_streams(output: Path, json: bool) -> None:
    if str(output) == "-" and json:
        raise UsageError("--json and a trace cannot both go to standard output; write the trace to a file")


# What people are told

_CHANGES = {
    "dropped_device": "dropped, of another device",
    "dropped_kind": "dropped, of another kind",
    "dropped_empty": "dropped, of no bytes",
    "dropped_beyond": "dropped, out of range",
    "skipped": "skipped",
    "folded": "moved beside another device",
    "shrunk": "moved by shrinking the range",
    "rounded": "begin at their page now",
    "lengthened": "longer than they were",
    "cut": "shorter than they were",
    "split": "split into pages",
    "wrapped": "moved into the range",
}


def describe(seen: Mapping[str, Any]) -> None:
    time, space = seen["time"], seen["space"]
    console.line(f"{seen['path']}: {seen['format']}, {seen['requests']:,} requests")
    if not seen["requests"]:
        return
    for kind, amount in seen["kinds"].items():
        if amount["requests"]:
            share = amount["requests"] / seen["requests"]
            size = f"  {format_size(amount['bytes'])}" if amount["bytes"] else ""
            _row(f"{kind}s" if kind != "flush" else "flushes", f"{amount['requests']:,} ({share:.1%}){size}")
    per_s = time["requests_per_s"]
    rate = "no rate" if per_s is None else f"{per_s:,.4g} requests/s"
    _row("span", f"{format_duration(time['span_s'])}, {rate}, {time['distinct']:,} time stamps")
    _row("gaps", _spread(time["gap_ns"], format_ns))
    _row("bursts", f"up to {console.count(time['largest_burst'], 'request')} on one time stamp")
    _row("sizes", _spread(seen["size_bytes"], format_size))
    _row("reach", f"{format_size(space['end_bytes'])}, {console.count(space['devices'], 'device')}")
    _row("aligned", f"offsets to {_align(space['offset_align_bytes'])}, sizes to {_align(space['length_align_bytes'])}")
    about = "" if space["pages_exact"] else "about "
    touched = format_size(space["distinct_pages"] * space["page_bytes"])
    _row("touched", f"{about}{space['distinct_pages']:,} pages of {format_size(space['page_bytes'])}, {touched}")
    if space["hottest_1_percent_share"] is not None:
        hot = f"{space['hottest_1_percent_share']:.1%} of accesses to the hottest 1 % of them"
        _row("hottest", f"{hot}, {space['hottest_20_percent_share']:.1%} to 20 %")
    if space["sequential_share"] is not None:
        _row("in order", f"{space['sequential_share']:.1%} begin where the one before ended")


BAR_COLUMNS = 40
"""Width of a miss ratio of 1 in the drawing of a curve."""


def miss_ratio_curve(trace: str, of: str, curve: Mapping[str, Any]) -> None:
    """A table of sizes with their miss ratios, drawn as bars."""
    kinds, pages = _subject(of, curve)
    console.line(f"{trace}: {kinds}, {curve['references']:,} references to {pages}")
    sampled = any(error is not None for error in curve["error"])
    exact = curve["exact_miss_ratio"]
    if sampled:
        share = f"{curve['rate']:.3g} of the pages, {curve['sampled']:,} references"
        largest = max(error or 0.0 for error in curve["error"])
        _row("sample", f"{share}; each ratio is within its error with 95 % confidence, {largest:.4f} at most")
    if sampled and exact:
        differences = [abs(mine - other) for mine, other in zip(curve["miss_ratio"], exact, strict=True)]
        mean, worst = sum(differences) / len(differences), max(differences)
        _row("compared", f"with the exact curve, the sample is off by {mean:.4f} on average and {worst:.4f} at most")
    rows = []
    for at, (pages, ratio) in enumerate(zip(curve["size_pages"], curve["miss_ratio"], strict=True)):
        cells = [format_size(pages * curve["page_bytes"]), f"{pages:,}", f"{ratio:.4f}"]
        cells += [f"{curve['error'][at]:.4f}"] if sampled else []
        cells += [f"{exact[at]:.4f}"] if exact else []
        rows.append([*cells, "█" * round(BAR_COLUMNS * ratio)])
    columns = ["buffer", "pages", "miss ratio", *(["error"] if sampled else []), *(["exact"] if exact else []), ""]
    console.table(columns, rows)


def written(output: Path, done: Mapping[str, Any], *, json: bool) -> None:
    """What was written and what was changed; beside the trace where that goes to standard output."""
    if json:
        console.emit({"output": str(output), **done})
        return
    say = console.note if str(output) == "-" else console.line
    if say is console.note:
        console.use_stdout()
    changes = done["changes"]
    kept = f"{changes['given']:,} requests, {format_size(changes['bytes_given'])}"
    say(f"{output}: {done['to']}, {kept}")
    same = (changes["seen"], changes["bytes_seen"]) == (changes["given"], changes["bytes_given"])
    if done["from"] is not None and not same:
        say(f"  {changes['seen']:,} requests read, {format_size(changes['bytes_seen'])}")
    for name, text in _CHANGES.items():
        if changes[name]:
            say(f"  {changes[name]:,} {text}")


def _row(name: str, text: str) -> None:
    console.line(f"  {name:<9} {text}")


def _spread(of: Mapping[str, Any], show: Any) -> str:
    if of["mean"] is None:
        return "none"
    parts = [("mean", "mean"), ("p50", "median"), ("p99", "99 %"), ("max", "largest")]
    return ", ".join(f"{word} {show(of[key])}" for key, word in parts)


def _align(align_bytes: int) -> str:
    return format_size(align_bytes) if align_bytes else "anything (all are 0)"


_ENDINGS = (".svg", ".png", ".html")


def draw(path: Path, spec: Mapping[str, Any], ending: str) -> None:
    """Write a chart to `path` as the kind of picture that `ending` names: .svg, .png or .html."""
    from ioassay.report import page

    drawn = page.svg(dict(spec))
    if ending == ".png":
        path.write_bytes(page.png(drawn))
        return
    title = html.escape(" ".join(spec["title"]["text"]))
    head = f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>\n'
    text = f"{head}<body>\n{drawn}\n</body></html>\n" if ending == ".html" else drawn
    path.write_text(text, encoding="utf-8")


def chart(trace: str, of: str, curve: Mapping[str, Any]) -> dict[str, Any]:
    """The curve that `traces.mrc` returned, for Vega-Lite: its ratios as a line, in the band of their errors, with the
    exact ones where there are any."""
    from ioassay.report.figures.axes import labels_at
    from ioassay.report.figures.chart import VegaView, channel

    sizes_bytes, exact = [pages * curve["page_bytes"] for pages in curve["size_pages"]], curve["exact_miss_ratio"] or ()
    is_sampled = any(error is not None for error in curve["error"])
    rows: list[dict[str, Any]] = []
    for size_bytes, ratio, error in zip(sizes_bytes, curve["miss_ratio"], curve["error"], strict=True):
        band = {} if error is None else {"low": max(0.0, ratio - error), "high": min(1.0, ratio + error)}
        rows.append({"bytes": size_bytes, "ratio": ratio, "curve": "sample" if is_sampled else "exact", **band})
    rows += ({"bytes": at, "ratio": ratio, "curve": "exact"} for at, ratio in zip(sizes_bytes, exact, strict=False))
    ticks = {2.0**power: format_size(2**power) for power in range(0, 63, 2) if 2**power <= sizes_bytes[-1]}
    axis = {"values": [*ticks], "labelExpr": labels_at(ticks), "labelOverlap": True}
    scale = {"type": "log", "base": 2, "nice": False}
    x = channel("bytes:Q", scale=scale, axis=axis, title="size of an LRU buffer")
    y = channel("ratio:Q", scale={"domain": [0, 1]}, title="miss ratio")
    layers = [VegaView().mark("line", strokeWidth=1.8).encode(x=x, y=y)]
    if any("low" in row for row in rows):
        band_layer = VegaView(transform=[{"filter": "isValid(datum.low)"}]).mark("area", opacity=0.22, aria=False)
        layers.insert(0, band_layer.encode(x=x, y={**y, "field": "low"}, y2="high:Q"))
    kinds, pages = _subject(of, curve)
    title, subtitle = (
        f"Miss ratio of {kinds} in LRU buffers",
        [f"{trace}: {curve['references']:,} references to {pages}"],
    )
    if is_sampled:
        share = f"sample of {curve['rate']:.3g} of the pages"
        subtitle.append(f"{share}; the band has the exact ratio with 95 % confidence")
    legend = {"symbolType": "stroke", "symbolOpacity": 1} if exact else None
    domain = list(dict.fromkeys(row["curve"] for row in rows))
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": [title], "subtitle": subtitle},
        "description": f"{title}: {'; '.join(subtitle)}",
        "width": 640,
        "height": 340,
        "data": {"values": rows},
        "encoding": {"color": channel("curve:N", title=None, scale={"domain": domain}, legend=legend)},
        "layer": layers,
    }


def _subject(of: str, curve: Mapping[str, Any]) -> tuple[str, str]:
    """What refers, and to how many pages."""
    kinds = "reads and writes" if of == "both" else of
    return kinds, f"{round(curve['pages']):,} pages of {format_size(curve['page_bytes'])}"
