"""The options of `ioassay trace`: what they are called and what their help says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ioassay.cli import completion_values, syntax


def trace_formats(text: str, given: syntax.Given) -> dict[str, str]:
    """The formats of traces, for a shell."""
    from ioassay import _core

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
