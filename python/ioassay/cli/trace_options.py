"""The options of `ioassay trace`: what they are called and what their help says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ioassay.cli import syntax

Format = Annotated[str | None, syntax.Option("--format", metavar="NAME", help="Format of FILE; otherwise it is found.")]
From = Annotated[str | None, syntax.Option("--from", metavar="NAME", help="Format of IN; otherwise it is found.")]
To = Annotated[str | None, syntax.Option("--to", metavar="NAME", help="Format of OUT; otherwise its name tells it.")]
Lose = Annotated[
    list[str] | None,
    syntax.Option(metavar="WHAT", help="What may be lost if the format cannot hold it: alignment, devices, kinds."),
]
Force = Annotated[bool, syntax.Option("--force", help="Replace OUT where it exists.")]
OutOfOrder = Annotated[
    str | None, syntax.Option(metavar="HOW", help="Times that go back: refuse, keep, or sort:PLACES.")
]
ZeroLength = Annotated[str | None, syntax.Option(metavar="HOW", help="Requests of no bytes: refuse or skip.")]
BadLines = Annotated[int, syntax.Option(min=0, metavar="N", help="Leave out up to N lines that cannot be read.")]
Page = Annotated[str, syntax.Option(metavar="SIZE", help="Bytes of a page.")]
Files = Annotated[list[Path], syntax.Argument(metavar="FILE…", help="Traces; - is standard input.")]
In = Annotated[Path, syntax.Argument(metavar="IN", help="A trace; - is standard input.")]
Out = Annotated[
    Path, syntax.Argument(metavar="OUT", help="The file to write; .gz and .zst compress, - is standard output.")
]
Devices = Annotated[str | None, syntax.Option(metavar="HOW", help="ignore, only:NUMBER or side-by-side:SIZE.")]
Keep = Annotated[
    str | None, syntax.Option(metavar="KINDS", help="Only these: reads, writes, trims, flushes, with commas.")
]
DropEmpty = Annotated[bool, syntax.Option("--drop-empty", help="Drop requests of no bytes.")]
Shrink = Annotated[str | None, syntax.Option(metavar="SIZE", help="Shrink the address range evenly to this size.")]
ShrinkFrom = Annotated[
    str | None, syntax.Option(metavar="SIZE", help="Where the trace ends; otherwise it is read twice.")
]
Offsets = Annotated[str | None, syntax.Option(metavar="HOW", help="Offsets within a page: keep, down or refuse.")]
Sizing = Annotated[str | None, syntax.Option(metavar="HOW", help="Lengths: keep, round-out, cut or split.")]
Limit = Annotated[str | None, syntax.Option(metavar="SIZE", help="Where requests have to end.")]
Beyond = Annotated[str | None, syntax.Option(metavar="HOW", help="Those that do not: refuse, wrap or drop.")]
Skip = Annotated[int, syntax.Option(min=0, metavar="N", help="Leave out the first N of what is left.")]
First = Annotated[int | None, syntax.Option(min=0, metavar="N", help="Keep the first N of what is left.")]
Rebase = Annotated[bool, syntax.Option("--rebase", help="Let times begin at 0.")]
TimeScale = Annotated[float, syntax.Option(metavar="X", help="Multiply times; 0.5 is twice as fast.")]
Requests = Annotated[int, syntax.Option(min=0, metavar="N", help="Number of requests.")]
Arrivals = Annotated[
    str,
    syntax.Option(metavar="LAW", help="none, fixed:RATE, uniform:RATE, poisson:RATE or bursts:RATE:LENGTH:PEAK."),
]
Addresses = Annotated[
    str,
    syntax.Option(
        metavar="LAW", help="uniform, normal, zipf:THETA, hot-cold:ACCESSES:SPACE or sequential[:RUN[:STREAMS]]."
    ),
]
Sizes = Annotated[str, syntax.Option(metavar="LAW", help="SIZE, exponential:MEAN, or SIZE:WEIGHT,SIZE:WEIGHT,….")]
Reads = Annotated[float, syntax.Option(metavar="SHARE", help="Share of reads, 0 to 1.")]
Trims = Annotated[float, syntax.Option(metavar="SHARE", help="Share of trims; the rest writes.")]
Range = Annotated[str, syntax.Option("--range", metavar="SIZE", help="Addresses lie below this.")]
Align = Annotated[
    str | None, syntax.Option(metavar="SIZE", help="Offsets are multiples of it; 4 KiB or the smallest size.")
]
Seed = Annotated[int, syntax.Option(min=0, metavar="N", help="All that is random follows from it.")]
Columns = Annotated[
    str | None, syntax.Option(metavar="A,B,…", help="Names of a CSV trace's columns; - is one of no interest.")
]
SkipHeader = Annotated[bool, syntax.Option("--skip-header", help="With --columns: the first line is a header.")]
TimeUnit = Annotated[str | None, syntax.Option(metavar="UNIT", help="Of a CSV trace's times: s, ms, us or ns.")]
OffsetUnit = Annotated[
    str | None, syntax.Option(metavar="SIZE", help="One unit of a CSV trace's offsets, such as 512.")
]
LengthUnit = Annotated[str | None, syntax.Option(metavar="SIZE", help="One unit of a CSV trace's lengths.")]
KindCode = Annotated[
    str | None, syntax.Option("--kinds", metavar="CODE", help="A CSV trace's: words, read-is-1, write-is-1 or scsi.")
]
Event = Annotated[
    str | None, syntax.Option(metavar="NAME", help="Of a blkparse trace: queued, issued or completed requests.")
]

CSV = ("columns", "skip_header", "time_unit", "offset_unit", "length_unit", "kinds")
"""Names of the options that say how a CSV trace is read."""
