"""ioassay record: a block trace of any command, ready for `ioassay simulate`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay.cli import command_run, console, options, syntax
from ioassay.errors import RunError, ToolError, UsageError

if TYPE_CHECKING:
    from ioassay.records.observation import Observation
    from ioassay.verify.witness import Observed

Command = Annotated[list[str], syntax.Argument(metavar="COMMAND…", help="The command and its arguments, after --.")]


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("record", interspersed=False)(record)


def record(
    command: Command,
    output: Annotated[
        Path, syntax.Option("--output", "-o", metavar="OUT", help="The trace to write; .gz and .zst compress.")
    ],
    to: Annotated[str | None, syntax.Option(metavar="NAME", help="Format of OUT; by default from its name.")] = None,
    everybody: Annotated[
        bool, syntax.Option("--all", help="Record requests of all processes, including the kernel's write-back.")
    ] = False,
    device: Annotated[
        str | None, syntax.Option(metavar="NAME", help="Only requests to this block device, such as nvme0n1.")
    ] = None,
    lose: Annotated[
        list[str] | None,
        syntax.Option(
            metavar="WHAT", help="Losses to accept if the format cannot hold them: alignment, devices, kinds."
        ),
    ] = None,
    force: Annotated[bool, syntax.Option("--force", help="Replace OUT where it exists.")] = False,
    json: options.Json = False,
) -> None:
    """Run COMMAND and record each request that reaches a block device, with its issue time.

    Example: ioassay record -o db.csv -- db_bench --benchmarks=fillrandom --db=/mnt/db; then: ioassay simulate db.csv
    """
    from ioassay import traces
    from ioassay.process import supervisor
    from ioassay.runner import conditions

    console.use_json(json)
    conditions.remove_leftovers()
    number = _number(device)
    traces.check_output(output, to, force=force)
    beside = None if str(output) == "-" else output.absolute().parent  # a recording may need more room than /tmp has
    with (
        tempfile.TemporaryDirectory(prefix=".ioassay-record-", dir=beside) as name,
        supervisor.if_killed(lambda: shutil.rmtree(name, ignore_errors=True)),
    ):
        watched = _watched(command, Path(name), quiet=json or str(output) == "-")
        recording = {"path": str(Path(name) / "requests.bin"), "own": not everybody}
        described = {"recording": {**recording, "device": number} if number else recording}
        done = _written(described, output, to, lose or (), force=force)
    with console.ending(watched.outcome.status):
        _say(output, watched, done, json=json)
        command_run.say_interruption(watched.outcome.status)


def _written(
    described: Mapping[str, Any], output: Path, to: str | None, lose: Sequence[str], *, force: bool
) -> dict[str, Any]:
    """Write the trace. Where its format cannot hold it, nothing is lost: the command may have run for hours."""
    from ioassay import traces

    try:
        return traces.convert(described, output, to=to, lose=lose, force=force, empty=True)
    except UsageError as error:
        if str(output) == "-":
            raise
        whole = _free(output.with_name(f"{output.name}.csv"))
        traces.convert(described, whole, to="csv", empty=True)
        kept = f"the whole recording is kept as {whole}; change it with: ioassay trace convert {whole} {output}"
        raise UsageError(f"{str(error).rpartition('.tmp: ')[2]}; {kept}") from None


def _free(path: Path) -> Path:
    """A path that is free: `t.csv`, `t.2.csv`, …"""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}.{number}")
    return free


def _number(device: str | None) -> str | None:
    """major:minor of a block device's name; UsageError where there is none."""
    if device is None:
        return None
    path = Path("/sys/class/block") / Path(device).name / "dev"
    try:
        return path.read_text().strip()
    except OSError:
        raise UsageError(f"--device {device}: no block device is called so; see: lsblk") from None


def _watched(command: Sequence[str], folder: Path, *, quiet: bool) -> Observed:
    """The command's run, whose requests are in the folder; ToolError where they cannot be watched."""
    from ioassay.records.observation import RECORD

    watched = command_run.watch(command, RECORD, folder, backend="bpf", quiet=quiet, reads_output=False)
    if watched.seen is None or watched.seen.backend != "bpf":
        raise ToolError(f"requests could not be recorded: {watched.seen.why if watched.seen else ''}")
    if lost := _lost(watched.seen):
        console.note(f"warning: {lost} requests found no room and are missing in the trace")
    if not (folder / "requests.bin").exists():
        raise RunError("the recording is gone; nothing was written")
    return watched


def _lost(seen: Observation) -> int:
    return seen.health.get("dropped", 0) + seen.health.get("lost", 0)


def _say(output: Path, watched: Observed, done: Mapping[str, Any], *, json: bool) -> None:
    from ioassay.cli import trace_text, witness_text

    seen = watched.seen
    assert seen is not None
    if json:
        counts = {name: seen.health.get(name, 0) for name in ("dropped", "lost", "missed", "in_flight", "unmatched")}
        ended = {"exit_code": watched.outcome.exit_code, "seconds": watched.outcome.duration_s}
        console.emit({"trace": str(output), **done, **ended, **counts, "layers": list(seen.layers)})
        return
    trace_text.written(output, done)
    if failed := witness_text.how_it_failed(watched.outcome):
        console.note(failed)
    if not done["changes"]["given"]:
        console.note("no request was made: memory answered, or the kernel's write-back wrote for it (see --all)")
    elif str(output) != "-":
        # A disk may be larger than the simulated drive; wrapping keeps neighbours beside each other.
        console.line(f"simulate it with: ioassay simulate {output} --limit 160GiB --beyond wrap")
