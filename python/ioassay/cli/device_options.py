"""The options of `ioassay device serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ioassay.cli import syntax

Ways = Annotated[
    list[str] | None,
    syntax.Option(
        "--transport",
        metavar="WAY",
        help="nbd:unix:PATH, nbd:tcp:ADDRESS:PORT, nvme-tcp:ADDRESS:PORT, fuse:PATH; separated by commas or repeated.",
    ),
]
Size = Annotated[str | None, syntax.Option(metavar="SIZE", help="Size; by default that of the backing file.")]
Block = Annotated[str, syntax.Option("--block-size", metavar="SIZE", help="Logical block: 512 or 4096.")]
Model = Annotated[str, syntax.Option(metavar="NAME", help="thesis, or none (answers at once).")]
Policy = Annotated[str, syntax.Option(metavar="NAME", help="Write-buffer policy, or none.")]
Buffer = Annotated[str | None, syntax.Option(metavar="SIZE", help="Size of the write buffer. [8MiB]")]
OfModel = Annotated[
    list[str] | None,
    syntax.Option("--set", metavar="NAME=VALUE", help="An option of the model, as of simulate: read_us=100."),
]
Precondition = Annotated[
    str | None,
    syntax.Option(
        metavar="STATE",
        help="none, full (written once), steady (overwritten at random until amplification settles), or a share of it.",
    ),
]
Backing = Annotated[Path | None, syntax.Option("--file", metavar="FILE", help="Store flushed data in this file.")]
ReadOnly = Annotated[bool, syntax.Option("--read-only", help="Refuse writes.")]
Pin = Annotated[int | None, syntax.Option(min=0, metavar="CPU", help="Processor that the server runs on.")]
Awake = Annotated[
    bool, syntax.Option("--keep-awake", help="Keep all other processors awake with threads of lowest priority.")
]
Poll = Annotated[str, syntax.Option(metavar="HOW", help="adaptive: sleep when idle; always: never sleep.")]
Calibrate = Annotated[
    bool, syntax.Option(help="Measure each transport's overhead and subtract it from the model's time.")
]
Prefault = Annotated[bool, syntax.Option("--prefault", help="Allocate all memory at the start.")]
Serial = Annotated[str | None, syntax.Option(metavar="TEXT", help="Serial number.")]
Stats = Annotated[
    Path | None, syntax.Option("--stats", metavar="PATH", help="Control socket; by default in a new folder.")
]
WithParent = Annotated[int | None, syntax.Option(hidden=True, help="Exit when this parent process is gone.")]
