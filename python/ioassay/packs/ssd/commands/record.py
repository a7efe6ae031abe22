"""ioassay record: a block trace of any command, ready for `ioassay simulate`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay import formats
from ioassay.cli import console, options, syntax
from ioassay.cli.syntax import row
from ioassay.packs.ssd.commands.trace import TO, WRITING, written

if TYPE_CHECKING:
    from ioassay.packs.ssd.command_recording import Recording

Command = Annotated[list[str], syntax.argument("COMMAND…", "The command and its arguments, after --.")]


def register(app: syntax.Group) -> None:
    app.command(interspersed=False)(record)


_OUT = "The trace to write; .gz and .zst compress."
_ALL = "Record requests of all processes, including the kernel's write-back."


@syntax.takes(
    {
        **TO,
        "everybody": row(bool, False, "--all", _ALL),
        "device": row(str, None, "NAME", "Only requests to this block device, such as nvme0n1."),
        **WRITING,
    }
)
def record(
    command: Command,
    output: Annotated[Path, syntax.option("--output, -o OUT", _OUT)],
    *,
    json: options.Json = False,
    **given: Any,
) -> None:
    """Run COMMAND and record each request that reaches a block device, with its issue time.

    Example: ioassay record -o db.csv -- db_bench --benchmarks=fillrandom --db=/mnt/db; then: ioassay simulate db.csv
    """
    from ioassay.packs.ssd import command_recording

    console.use_json(json)
    watch = partial(console.watch_command, quiet=json or str(output) == command_recording.STANDARD_OUTPUT)
    given["lose"] = given["lose"] or ()
    recording = command_recording.run(command, output, watch, **given)
    if recording.lost:
        console.note(f"warning: {recording.lost} requests found no room and are missing in the trace")
    with console.ending(recording.watched.outcome.status):
        _say(recording, [] if given["everybody"] else command, json=json)
        console.say_interruption(recording.watched.outcome.status)


def _say(recording: Recording, may_have_servers: Sequence[str], *, json: bool) -> None:
    output, watched, done = recording.trace, recording.watched, recording.written
    seen = watched.seen
    assert seen is not None
    if json:
        counts = {name: seen.health.get(name, 0) for name in ("dropped", "lost", "missed", "in_flight", "unmatched")}
        ended = {"exit_code": watched.outcome.exit_code, "seconds": watched.outcome.duration_s}
        console.emit({"trace": str(output), **done, **ended, **counts, "layers": list(seen.layers)})
        return
    written(output, done, json=False)
    if failed := console.command_failure(watched.outcome):
        console.note(failed)
    if servers := formats.named_servers(may_have_servers):
        where = "of this host with --all" if all(map(formats.is_of_this_host, servers)) else "on the servers' hosts"
        console.note(f"the command's load is made by {', '.join(servers)}; record the requests {where}")
    elif not done["changes"]["given"]:
        console.note("no request was made: memory answered, or the kernel's write-back wrote for it (see --all)")
    elif str(output) != "-":
        # A disk may be larger than the simulated drive; wrapping keeps neighbours beside each other.
        console.line(f"simulate it with: ioassay simulate {output} --limit 160GiB --beyond wrap")
