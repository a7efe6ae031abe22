"""ioassay trace: traces of block requests looked at, converted and made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from ioassay import _core
from ioassay.cli import console, options, syntax
from ioassay.cli.completion_values import listed, words
from ioassay.cli.syntax import row
from ioassay.errors import UsageError
from ioassay.packs.ssd import traces
from ioassay.packs.ssd.commands import trace_text
from ioassay.packs.ssd.traces import trace_file
from ioassay.units import format_size


def trace_formats(text: str, given: syntax.Given) -> dict[str, str]:
    """The formats of traces, for a shell."""
    return {each["name"]: each["about"] for each in _core.trace_formats()}


Files = Annotated[list[Path], syntax.argument("FILE…", "Traces; - is standard input.")]
In = Annotated[Path, syntax.argument("IN", "A trace; - is standard input.")]
Out = Annotated[Path, syntax.argument("OUT", "The file to write; .gz and .zst compress, - is standard output.")]

CSV = {
    "columns": row(str, None, "A,B,…", "Column names of a CSV trace; - skips a column."),
    "skip_header": row(bool, False, "--skip-header", "With --columns: the first line is a header."),
    "time_unit": row(str, None, "UNIT", "Unit of a CSV trace's times: s, ms, us or ns.", words("s", "ms", "us", "ns")),
    "offset_unit": row(str, None, "SIZE", "Bytes per unit of a CSV trace's offsets, such as 512."),
    "length_unit": row(str, None, "SIZE", "Bytes per unit of a CSV trace's lengths."),
    "kinds": row(
        *(str, None, "CODE", "Directions of a CSV trace: words, read-is-1, write-is-1 or scsi."),
        words("words", "read-is-1", "write-is-1", "scsi"),
    ),
}
READING = {
    "out_of_order": row(
        *(str, None, "HOW", "Decreasing times: refuse, keep, or sort:PLACES."), words("refuse", "keep", "sort:")
    ),
    "zero_length": row(str, None, "HOW", "Empty requests: refuse or skip.", words("refuse", "skip")),
    "bad_lines": row(int, 0, "N", "Skip up to N unreadable lines.", min=0),
    **CSV,
    "event": row(
        *(str, None, "NAME", "Events of a blkparse trace: queued, issued or completed."),
        words("queued", "issued", "completed"),
    ),
}
PAGE = {"page": row(str, "4KiB", "SIZE", "Page size in bytes.")}
PREPARING = {
    "devices": row(
        *(str, None, "HOW", "ignore, only:NUMBER or side-by-side:SIZE."), words("ignore", "only:", "side-by-side:")
    ),
    "keep": row(
        *(str, None, "KINDS", "Kinds to keep: reads, writes, trims, flushes, separated by commas."),
        listed(words("reads", "writes", "trims", "flushes")),
    ),
    "drop_empty": row(bool, False, "--drop-empty", "Drop empty requests."),
    "shrink": row(str, None, "SIZE", "Shrink the address range evenly to this size."),
    "shrink_from": row(str, None, "SIZE", "End of the trace's addresses; without it the trace is read twice."),
    **PAGE,
    "offsets": row(str, None, "HOW", "Offsets within a page: keep, down or refuse.", words("keep", "down", "refuse")),
    "sizes": row(
        *(str, None, "HOW", "Lengths: keep, round-out, cut, split or split:SIZE."),
        words("keep", "round-out", "cut", "split", "split:"),
    ),
    "limit": row(str, None, "SIZE", "Last address at which a request may end."),
    "beyond": row(str, None, "HOW", "Requests beyond it: refuse, wrap or drop.", words("refuse", "wrap", "drop")),
    "skip": row(int, 0, "N", "Skip the first N of the remaining requests.", min=0),
    "first": row(int, None, "N", "Keep the first N of the remaining requests.", min=1),
    "rebase": row(bool, False, "--rebase", "Shift times to begin at 0."),
    "time_scale": row(float, 1.0, "X", "Multiply times; 0.5 is twice as fast."),
}
FORMAT = {"format": row(str, None, "NAME", "Format of FILE; detected by default.", trace_formats)}
NO_CACHE = {
    "no_cache": row(bool, False, "--no-cache", "Parse the trace, and keep nothing of it in the cache of parsed traces.")
}
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
    """Add the commands to `app`."""
    trace = syntax.Group("Inspect, convert and generate traces of block requests.")
    for command in (info, convert, make, formats, cache, mrc):
        trace.command()(command)
    app.add(trace, "trace")


@syntax.takes({**FORMAT, **PAGE, **READING, **NO_CACHE})
def info(files: Files, *, json: options.Json = False, **given: Any) -> None:
    """Say what traces are like, and what makes them implausible.

    Example: ioassay trace info db.csv
    """
    console.use_json(json)
    found = []
    for path in files:
        seen = {"path": str(path), **traces.info(path, page=given["page"], **_source(given))}
        found.append(seen)
        if not json:
            trace_text.describe(seen)
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
    console.use_json(json)
    _check_streams(output, json)
    read, prepare = reading(given), preparing(given)
    source = {"format": given["from_"], "read": read, "prepare": prepare, "cache": not given["no_cache"]}
    done = traces.convert(trace, output, to=given["to"], lose=given["lose"] or (), force=given["force"], **source)
    cache_note(done)
    _written(output, done, json)


@syntax.takes({**_LAWS, **TO, **WRITING})
def make(output: Out, *, json: options.Json = False, **given: Any) -> None:
    """Make a trace; the same options give the same trace on every machine.

    Example: ioassay trace make hot.csv --requests 100000 --addresses zipf:0.9
    """
    console.use_json(json)
    _check_streams(output, json)
    laws = {name: given[name] for name in _LAWS}
    # No name tells it of standard output, and the simulator reads any.
    to = given["to"] or ("disksim" if str(output) == "-" else None)
    _written(output, traces.make(output, to=to, lose=given["lose"] or (), force=given["force"], **laws), json)


def formats(json: options.Json = False) -> None:
    """List the formats of traces."""
    console.use_json(json)
    known = traces.formats()
    if json:
        console.emit({"formats": known})
    else:
        console.table(["format", "what", "columns"], [[each["name"], each["about"], each["columns"]] for each in known])


@syntax.takes({**_CURVE, **FORMAT, **READING, **NO_CACHE})
def mrc(trace: In, *, json: options.Json = False, **given: Any) -> None:
    """Say how the misses of an LRU buffer depend on its size: the miss ratio curve."""
    console.use_json(json)
    output, force = given["output"], given["force"]
    if output is not None:
        trace_text.check_picture(output)
        trace_file.check(output, force=force)
    elif force:
        raise UsageError("--force goes with --output FILE")
    of, how = given["of"], {name: given[name] for name in ("page", "sample", "sample_pages", "exact", "points")}
    curve = traces.mrc(trace, of=of, **how, **_source(given))
    cache_note(curve)
    if output is not None:
        with trace_file.replaced(output, force=force) as unfinished:
            trace_text.draw(unfinished, trace_text.chart(str(trace), of, curve), output.suffix.lower())
    if json:
        drawn = {} if output is None else {"output": str(output)}
        console.emit({"trace": str(trace), "of": of, **curve, **drawn})
    else:
        trace_text.miss_ratio_curve(str(trace), of, curve)
        if output is not None:
            console.line(f"the curve is drawn in {output}")


def cache(
    clear: Annotated[bool, syntax.option("--clear", "Remove all parsed traces.")] = False, json: options.Json = False
) -> None:
    """List the parsed traces that are kept, or remove them."""
    console.use_json(json)
    freed = trace_file.clear_cache() if clear else 0
    kept = {
        "folder": str(trace_file.cache_folder()),
        "limit_bytes": trace_file.cache_limit_bytes(),
        "entries": trace_file.cache_entries(),
    }
    if json:
        console.emit({**kept, "freed_bytes": freed})
    elif clear:
        console.line(f"{format_size(freed)} of parsed traces removed")
    else:
        trace_text.cache_entries(kept)


def cache_note(done: Mapping[str, Any]) -> None:
    """What went wrong with the cache of parsed traces, in one line; of `ioassay simulate` as well."""
    if note := done["cache"]["note"]:
        console.note(f"note: {note}")


def _source(given: Mapping[str, Any]) -> dict[str, Any]:
    """How a trace is read that is only looked at: times that decrease are counted."""
    read = reading({**given, "out_of_order": given["out_of_order"] or "keep"})
    return {"format": given["format"], "read": read, "cache": not given["no_cache"]}


def reading(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of reading, those that were given; of `ioassay simulate` as well."""
    how: str | int | None = given["out_of_order"]
    if isinstance(how, str) and how.startswith("sort:"):
        places = how.removeprefix("sort:")
        if not places.isdecimal():
            raise UsageError(f"--out-of-order is '{how}', expected refuse, keep or sort:PLACES")
        how = int(places)
    read = {"out_of_order": how, "zero_length": given["zero_length"], "event": given["event"]}
    read["bad_lines"] = given["bad_lines"] or None
    csv = traces.csv(**{name: given[name] for name in CSV})
    return {**{name: value for name, value in read.items() if value is not None}, **csv}


def preparing(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of preparation, those that were given; of `ioassay simulate` as well."""
    return traces.preparation(**{name: given[name] for name in PREPARING})


def _check_streams(output: Path, json: bool) -> None:
    if str(output) == "-" and json:
        raise UsageError("--json and a trace cannot both go to standard output; write the trace to a file")


def _written(output: Path, done: Mapping[str, Any], json: bool) -> None:
    if json:
        console.emit({"output": str(output), **done})
    else:
        trace_text.written(output, done)
