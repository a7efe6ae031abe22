"""ioassay trace: traces of block requests looked at, converted and made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from ioassay import _core
from ioassay.cli import completion_values, console, options, syntax
from ioassay.errors import UsageError
from ioassay.packs.ssd import traces
from ioassay.packs.ssd.commands import trace_text
from ioassay.packs.ssd.traces import trace_file


def trace_formats(text: str, given: syntax.Given) -> dict[str, str]:
    """The formats of traces, for a shell."""
    return {each["name"]: each["about"] for each in _core.trace_formats()}


Format = Annotated[
    str | None,
    syntax.Option("--format", metavar="NAME", values=trace_formats, help="Format of FILE; detected by default."),
]
From = Annotated[
    str | None,
    syntax.Option("--from", metavar="NAME", values=trace_formats, help="Format of IN; detected by default."),
]
To = Annotated[
    str | None,
    syntax.Option("--to", metavar="NAME", values=trace_formats, help="Format of OUT; by default from its name."),
]
Lose = Annotated[
    list[str] | None,
    syntax.Option(
        metavar="WHAT",
        values=completion_values.listed(completion_values.words("alignment", "devices", "kinds")),
        help="Losses to accept if the format cannot hold them: alignment, devices, kinds.",
    ),
]
Force = Annotated[bool, syntax.Option("--force", help="Replace OUT where it exists.")]
OutOfOrder = Annotated[
    str | None,
    syntax.Option(
        metavar="HOW",
        values=completion_values.words("refuse", "keep", "sort:"),
        help="Decreasing times: refuse, keep, or sort:PLACES.",
    ),
]
ZeroLength = Annotated[
    str | None,
    syntax.Option(
        metavar="HOW", values=completion_values.words("refuse", "skip"), help="Empty requests: refuse or skip."
    ),
]
BadLines = Annotated[int, syntax.Option(min=0, metavar="N", help="Skip up to N unreadable lines.")]
Page = Annotated[str, syntax.Option(metavar="SIZE", help="Page size in bytes.")]
Files = Annotated[list[Path], syntax.Argument(metavar="FILE…", help="Traces; - is standard input.")]
In = Annotated[Path, syntax.Argument(metavar="IN", help="A trace; - is standard input.")]
Out = Annotated[
    Path, syntax.Argument(metavar="OUT", help="The file to write; .gz and .zst compress, - is standard output.")
]
Devices = Annotated[
    str | None,
    syntax.Option(
        metavar="HOW",
        values=completion_values.words("ignore", "only:", "side-by-side:"),
        help="ignore, only:NUMBER or side-by-side:SIZE.",
    ),
]
Keep = Annotated[
    str | None,
    syntax.Option(
        metavar="KINDS",
        values=completion_values.listed(completion_values.words("reads", "writes", "trims", "flushes")),
        help="Kinds to keep: reads, writes, trims, flushes, separated by commas.",
    ),
]
DropEmpty = Annotated[bool, syntax.Option("--drop-empty", help="Drop empty requests.")]
Shrink = Annotated[str | None, syntax.Option(metavar="SIZE", help="Shrink the address range evenly to this size.")]
ShrinkFrom = Annotated[
    str | None, syntax.Option(metavar="SIZE", help="End of the trace's addresses; without it the trace is read twice.")
]
Offsets = Annotated[
    str | None,
    syntax.Option(
        metavar="HOW",
        values=completion_values.words("keep", "down", "refuse"),
        help="Offsets within a page: keep, down or refuse.",
    ),
]
Sizing = Annotated[
    str | None,
    syntax.Option(
        metavar="HOW",
        values=completion_values.words("keep", "round-out", "cut", "split", "split:"),
        help="Lengths: keep, round-out, cut, split or split:SIZE.",
    ),
]
Limit = Annotated[str | None, syntax.Option(metavar="SIZE", help="Last address at which a request may end.")]
Beyond = Annotated[
    str | None,
    syntax.Option(
        metavar="HOW",
        values=completion_values.words("refuse", "wrap", "drop"),
        help="Requests beyond it: refuse, wrap or drop.",
    ),
]
Skip = Annotated[int, syntax.Option(min=0, metavar="N", help="Skip the first N of the remaining requests.")]
First = Annotated[int | None, syntax.Option(min=1, metavar="N", help="Keep the first N of the remaining requests.")]
Rebase = Annotated[bool, syntax.Option("--rebase", help="Shift times to begin at 0.")]
TimeScale = Annotated[float, syntax.Option(metavar="X", help="Multiply times; 0.5 is twice as fast.")]
Requests = Annotated[int, syntax.Option(min=1, metavar="N", help="Number of requests.")]
Arrivals = Annotated[
    str,
    syntax.Option(
        metavar="LAW",
        values=completion_values.words("none", "fixed:", "uniform:", "poisson:", "bursts:"),
        help="none, fixed:RATE, uniform:RATE, poisson:RATE or bursts:RATE:LENGTH:PEAK.",
    ),
]
Addresses = Annotated[
    str,
    syntax.Option(
        metavar="LAW",
        values=completion_values.words("uniform", "normal", "zipf:", "hot-cold:", "sequential"),
        help="uniform, normal, zipf:THETA, hot-cold:ACCESSES:SPACE or sequential[:RUN[:STREAMS]].",
    ),
]
Sizes = Annotated[str, syntax.Option(metavar="LAW", help="SIZE, exponential:MEAN, or SIZE:WEIGHT,SIZE:WEIGHT,….")]
Reads = Annotated[float, syntax.Option(metavar="SHARE", help="Share of reads, 0 to 1.")]
Trims = Annotated[float, syntax.Option(metavar="SHARE", help="Share of trims; the rest are writes.")]
Range = Annotated[str, syntax.Option("--range", metavar="SIZE", help="Size of the address range.")]
Align = Annotated[
    str | None, syntax.Option(metavar="SIZE", help="Alignment of offsets; by default 4 KiB or the smallest size.")
]
Seed = Annotated[int, syntax.Option(min=0, metavar="N", help="Seed of all random choices.")]
Columns = Annotated[str | None, syntax.Option(metavar="A,B,…", help="Column names of a CSV trace; - skips a column.")]
SkipHeader = Annotated[bool, syntax.Option("--skip-header", help="With --columns: the first line is a header.")]
TimeUnit = Annotated[
    str | None,
    syntax.Option(
        metavar="UNIT",
        values=completion_values.words("s", "ms", "us", "ns"),
        help="Unit of a CSV trace's times: s, ms, us or ns.",
    ),
]
OffsetUnit = Annotated[
    str | None, syntax.Option(metavar="SIZE", help="Bytes per unit of a CSV trace's offsets, such as 512.")
]
LengthUnit = Annotated[str | None, syntax.Option(metavar="SIZE", help="Bytes per unit of a CSV trace's lengths.")]
KindCode = Annotated[
    str | None,
    syntax.Option(
        "--kinds",
        metavar="CODE",
        values=completion_values.words("words", "read-is-1", "write-is-1", "scsi"),
        help="Directions of a CSV trace: words, read-is-1, write-is-1 or scsi.",
    ),
]
Event = Annotated[
    str | None,
    syntax.Option(
        metavar="NAME",
        values=completion_values.words("queued", "issued", "completed"),
        help="Events of a blkparse trace: queued, issued or completed.",
    ),
]
ReferencesOf = Annotated[
    str,
    syntax.Option(
        "--of",
        metavar="KINDS",
        values=completion_values.words("reads", "writes", "both"),
        help="Requests whose pages are references: reads, writes or both.",
    ),
]
Sample = Annotated[float | None, syntax.Option("--sample", metavar="RATE", help="Look at this share of the pages.")]
SamplePages = Annotated[
    int | None, syntax.Option("--sample-pages", metavar="N", help="Look at N pages at most, whatever the trace's size.")
]
Exact = Annotated[bool, syntax.Option("--exact", help="With a sample: compute the exact curve too, and compare.")]
Points = Annotated[int, syntax.Option(min=2, metavar="N", help="Buffer sizes, from one page to all pages.")]
CurveOutput = Annotated[
    Path | None,
    syntax.Option("--output", metavar="FILE", help="Draw the curve in FILE, which ends in .svg, .png or .html."),
]
CurveForce = Annotated[bool, syntax.Option("--force", help="With --output: replace FILE where it exists.")]
NoCache = Annotated[
    bool, syntax.Option("--no-cache", help="Parse the trace, and keep nothing of it in the cache of parsed traces.")
]
Clear = Annotated[bool, syntax.Option("--clear", help="Remove all parsed traces.")]

CSV = ("columns", "skip_header", "time_unit", "offset_unit", "length_unit", "kinds")
"""Names of the options that say how a CSV trace is read."""
READING = ("out_of_order", "zero_length", "bad_lines", *CSV, "event")
PREPARING = (
    *("devices", "keep", "drop_empty", "shrink", "shrink_from", "offsets", "sizes"),
    *("limit", "beyond", "skip", "first", "rebase", "time_scale"),
)


def register(app: syntax.Group) -> None:
    """Add the commands to `app`."""
    trace = syntax.Group("Inspect, convert and generate traces of block requests.")
    trace.command()(info)
    trace.command()(convert)
    trace.command()(make)
    trace.command()(formats)
    trace.command()(cache)
    trace.command()(mrc)
    app.add(trace, "trace")


def info(
    files: Files,
    format: Format = None,
    page: Page = "4KiB",
    out_of_order: OutOfOrder = None,
    zero_length: ZeroLength = None,
    bad_lines: BadLines = 0,
    columns: Columns = None,
    skip_header: SkipHeader = False,
    time_unit: TimeUnit = None,
    offset_unit: OffsetUnit = None,
    length_unit: LengthUnit = None,
    kinds: KindCode = None,
    event: Event = None,
    no_cache: NoCache = False,
    json: options.Json = False,
) -> None:
    """Say what traces are like, and what makes them implausible.

    Example: ioassay trace info db.csv
    """
    given = dict(locals())

    console.use_json(json)
    read = reading({**given, "out_of_order": out_of_order or "keep"})
    found = []
    for path in files:
        seen = {"path": str(path), **traces.info(path, page=page, format=format, read=read, cache=not no_cache)}
        found.append(seen)
        if not json:
            trace_text.describe(seen)
        cache_note(seen)
        console.warnings({**doubt, "text": f"{path}: {doubt['text']}"} for doubt in seen["doubts"])
    if json:
        console.emit({"traces": found})


def convert(
    trace: In,
    output: Out,
    from_: From = None,
    to: To = None,
    out_of_order: OutOfOrder = None,
    zero_length: ZeroLength = None,
    bad_lines: BadLines = 0,
    columns: Columns = None,
    skip_header: SkipHeader = False,
    time_unit: TimeUnit = None,
    offset_unit: OffsetUnit = None,
    length_unit: LengthUnit = None,
    kinds: KindCode = None,
    event: Event = None,
    devices: Devices = None,
    keep: Keep = None,
    drop_empty: DropEmpty = False,
    shrink: Shrink = None,
    shrink_from: ShrinkFrom = None,
    page: Page = "4KiB",
    offsets: Offsets = None,
    sizes: Sizing = None,
    limit: Limit = None,
    beyond: Beyond = None,
    skip: Skip = 0,
    first: First = None,
    rebase: Rebase = False,
    time_scale: TimeScale = 1.0,
    lose: Lose = None,
    force: Force = False,
    no_cache: NoCache = False,
    json: options.Json = False,
) -> None:
    """Write a trace in another format, prepared as the options say, in the order of this list.

    Example: ioassay trace convert db.csv writes.disksim --keep writes --rebase
    """
    given = dict(locals())

    console.use_json(json)
    _check_streams(output, json)
    read, prepare = reading(given), preparing(given)
    options_: dict[str, Any] = {"format": from_, "read": read, "prepare": prepare, "lose": lose or (), "force": force}
    done = traces.convert(trace, output, to=to, cache=not no_cache, **options_)
    cache_note(done)
    _written(output, done, json)


def make(
    output: Out,
    requests: Requests = 1_000_000,
    arrivals: Arrivals = "poisson:20000",
    addresses: Addresses = "uniform",
    sizes: Sizes = "4KiB",
    reads: Reads = 0.0,
    trims: Trims = 0.0,
    range_: Range = "1GiB",
    align: Align = None,
    seed: Seed = 1,
    to: To = None,
    lose: Lose = None,
    force: Force = False,
    json: options.Json = False,
) -> None:
    """Make a trace; the same options give the same trace on every machine.

    Example: ioassay trace make hot.csv --requests 100000 --addresses zipf:0.9
    """
    console.use_json(json)
    _check_streams(output, json)
    laws = {"requests": requests, "arrivals": arrivals, "addresses": addresses, "sizes": sizes, "reads": reads}
    laws |= {"trims": trims, "range": range_, "align": align, "seed": seed}
    to = to or ("disksim" if str(output) == "-" else None)  # no name tells it, and the simulator reads any
    done = traces.make(output, to=to, lose=lose or (), force=force, **laws)
    _written(output, done, json)


def formats(json: options.Json = False) -> None:
    """List the formats of traces."""
    console.use_json(json)
    known = traces.formats()
    if json:
        console.emit({"formats": known})
    else:
        console.table(["format", "what", "columns"], [[each["name"], each["about"], each["columns"]] for each in known])


def mrc(
    trace: In,
    of: ReferencesOf = "both",
    page: Page = "4KiB",
    sample: Sample = None,
    sample_pages: SamplePages = None,
    exact: Exact = False,
    points: Points = 25,
    output: CurveOutput = None,
    force: CurveForce = False,
    format: Format = None,
    out_of_order: OutOfOrder = None,
    zero_length: ZeroLength = None,
    bad_lines: BadLines = 0,
    columns: Columns = None,
    skip_header: SkipHeader = False,
    time_unit: TimeUnit = None,
    offset_unit: OffsetUnit = None,
    length_unit: LengthUnit = None,
    kinds: KindCode = None,
    event: Event = None,
    no_cache: NoCache = False,
    json: options.Json = False,
) -> None:
    """Say how the misses of an LRU buffer depend on its size: the miss ratio curve."""
    given = dict(locals())

    console.use_json(json)
    _check_picture(output, force=force)
    sampling: dict[str, Any] = {"sample": sample, "sample_pages": sample_pages, "exact": exact, "points": points}
    read = reading({**given, "out_of_order": out_of_order or "keep"})
    curve = traces.mrc(trace, page=page, of=of, format=format, read=read, cache=not no_cache, **sampling)
    cache_note(curve)
    if output is not None:
        _draw(output, str(trace), of, curve, force=force)
    if json:
        drawn = {} if output is None else {"output": str(output)}
        console.emit({"trace": str(trace), "of": of, **curve, **drawn})
    else:
        trace_text.miss_ratio_curve(str(trace), of, curve)
        if output is not None:
            console.line(f"the curve is drawn in {output}")


def _check_picture(output: Path | None, *, force: bool) -> None:
    from ioassay.packs.ssd.traces import miss_ratio_chart

    if output is not None:
        miss_ratio_chart.check(output)
        trace_file.check(output, force=force)
    elif force:
        raise UsageError("--force goes with --output FILE")


def _draw(output: Path, trace: str, of: str, curve: Mapping[str, Any], *, force: bool) -> None:
    from ioassay.packs.ssd.traces import miss_ratio_chart

    with trace_file.replaced(output, force=force) as unfinished:
        spec = miss_ratio_chart.chart(trace, of, miss_ratio_chart.Curve.of(curve))
        miss_ratio_chart.write(unfinished, spec, output.suffix.lower())


def cache(clear: Clear = False, json: options.Json = False) -> None:
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
        trace_text.cache_cleared(freed)
    else:
        trace_text.cache_entries(kept)


def cache_note(done: Mapping[str, Any]) -> None:
    """What went wrong with the cache of parsed traces, in one line; of `ioassay simulate` as well."""
    if note := done["cache"]["note"]:
        console.note(f"note: {note}")


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
    return traces.preparation(page=given["page"], **{name: given[name] for name in PREPARING})


def _check_streams(output: Path, json: bool) -> None:
    if str(output) == "-" and json:
        raise UsageError("--json and a trace cannot both go to standard output; write the trace to a file")


def _written(output: Path, done: Mapping[str, Any], json: bool) -> None:
    if json:
        console.emit({"output": str(output), **done})
    else:
        trace_text.written(output, done)
