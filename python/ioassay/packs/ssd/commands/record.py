"""ioassay record: a block trace of any command, ready for `ioassay simulate`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from ioassay import formats
from ioassay.cli import console, options, syntax
from ioassay.cli.syntax import row
from ioassay.packs.ssd.commands.trace import TO, WRITING, written
from ioassay.units import format_ns

Command = Annotated[list[str], syntax.argument("COMMAND…", "The command and its arguments, after --.")]
Output = Annotated[Path, syntax.option("--output, -o OUT", "The trace to write; .gz and .zst compress.")]


def register(app: syntax.Group) -> None:
    app.command(interspersed=False)(record)


_SHOWN = ("mean", "p50", "p99")
_ALL = "Record requests of all processes, including the kernel's write-back."


@syntax.takes(
    {
        **TO,
        "everybody": row(bool, False, "--all", _ALL),
        "device": row(str, None, "NAME", "Only requests to this block device, such as nvme0n1."),
        **WRITING,
    }
)
def record(command: Command, output: Output, *, json: options.Json = False, **given: Any) -> None:
    """Run COMMAND, record each request that reaches a block device with its issue time, and state latencies.

    Example: ioassay record -o db.csv -- db_bench --benchmarks=fillrandom --db=/mnt/db; then: ioassay simulate db.csv
    """
    from ioassay.packs.ssd import command_recording

    watch = partial(console.watch_command, quiet=json or str(output) == command_recording.STANDARD_OUTPUT)
    given["lose"] = given["lose"] or ()
    recording = command_recording.run(command, output, watch, **given)
    if recording.lost:
        console.note(f"warning: {recording.lost} requests found no room and are missing in the trace")
    watched, done, seen = recording.watched, recording.written, recording.watched.seen
    assert seen is not None
    with console.ending(watched.outcome.status):
        if json:
            names = ("dropped", "lost", "missed", "in_flight", "unmatched")
            counts = {name: seen.health.get(name, 0) for name in names}
            ended = {"exit_code": watched.outcome.exit_code, "seconds": watched.outcome.duration_s}
            took = {kind: each.latency_ns for kind, each in recording.times.items()}
            found = {"trace": str(output), **done, **ended, **counts, "latency_ns": took}
            console.emit({**found, "layers": list(seen.layers)})
        else:
            written(output, done, json=False)
            if str(output) != command_recording.STANDARD_OUTPUT:
                for kind, each in recording.times.items():
                    parts = (f"{name} {format_ns(value)}" for name, value in each.latency_ns.items() if name in _SHOWN)
                    console.line(f"  {kind}s took {', '.join(parts)}, from dispatch to completion")
            if failed := console.command_failure(watched.outcome):
                console.note(failed)
            if servers := formats.named_servers([] if given["everybody"] else command):
                is_here = all(map(formats.is_of_this_host, servers))
                where = "of this host with --all" if is_here else "on the servers' hosts"
                console.note(f"the command's load is made by {', '.join(servers)}; record the requests {where}")
            elif not done["changes"]["given"]:
                why = "memory answered, or the kernel's write-back wrote for it (see --all)"
                console.note(f"no request was made: {why}")
            elif str(output) != "-":
                # A disk may be larger than the simulated drive; wrapping keeps neighbours beside each other.
                console.line(f"simulate it with: ioassay simulate {output} --limit 160GiB --beyond wrap")
        console.say_interruption(watched.outcome.status)
