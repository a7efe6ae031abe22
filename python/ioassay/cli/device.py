"""ioassay device: the simulated drive, served to programs and kernels; and what a served drive can be asked."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ioassay.cli import console, options
from ioassay.errors import UsageError

Socket = Annotated[Path, typer.Argument(metavar="SOCKET", help="The socket that the drive said as 'stats'.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    device = typer.Typer(
        help="Serve the simulated drive, and ask a drive that is served.",
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    device.command()(serve)
    device.command()(stats)
    device.command()(top)
    device.command("power-cut")(power_cut)
    device.command()(stop)
    app.add_typer(device, name="device")


def serve(
    transport: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WAY",
            help="nbd:unix:PATH, nbd:tcp:ADDRESS:PORT, nvme-tcp:ADDRESS:PORT, fuse:PATH; several by commas, or often.",
        ),
    ] = None,
    size: Annotated[str | None, typer.Option(metavar="SIZE", help="Size; without it that of the backing file.")] = None,
    block_size: Annotated[str, typer.Option(metavar="SIZE", help="Logical block: 512 or 4096.")] = "512",
    model: Annotated[str, typer.Option(metavar="NAME", help="thesis, or none: it answers at once.")] = "thesis",
    policy: Annotated[str, typer.Option(metavar="NAME", help="Policy of the write buffer, or none.")] = "none",
    buffer: Annotated[str | None, typer.Option(metavar="SIZE", help="Size of the write buffer. [8MiB]")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An option of the model, as of simulate: read_us=100."),
    ] = None,
    precondition: Annotated[
        float | None, typer.Option(min=0, metavar="SHARE", help="Overwrite this share of the model's drive first.")
    ] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep what is flushed in this file.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse writes.")] = False,
    pin: Annotated[int | None, typer.Option(min=0, metavar="CPU", help="The processor that serves.")] = None,
    keep_awake: Annotated[
        bool, typer.Option("--keep-awake", help="Keep all other processors awake with threads of lowest priority.")
    ] = False,
    poll: Annotated[str, typer.Option(metavar="HOW", help="adaptive: sleep when idle; always: never.")] = "adaptive",
    calibrate: Annotated[
        bool, typer.Option(help="Measure the transports' own time and take it off the model's.")
    ] = True,
    prefault: Annotated[bool, typer.Option("--prefault", help="Take all memory at the start.")] = False,
    serial: Annotated[str | None, typer.Option(metavar="TEXT", help="Serial number.")] = None,
    stats_socket: Annotated[
        Path | None, typer.Option("--stats", metavar="PATH", help="Socket for questions; by default in a new folder.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Serve a simulated drive until Ctrl-C or SIGTERM.

    Example: ioassay device serve --size 1GiB --transport nbd:unix:drive.sock --model thesis --policy epo
    """
    from ioassay import device
    from ioassay.cli import device_text
    from ioassay.device import options as described

    console.use_json(json)
    ways = [part for text in transport or () for part in described.transports(text)]
    if not ways:
        raise UsageError("no --transport given; wanted at least one, such as nbd:unix:drive.sock")
    of_model: dict[str, Any] = {"policy": policy, **({"buffer": buffer} if buffer else {})}
    with _socket(stats_socket) as answers_at:
        wanted = described.described(
            {**of_model, **described.settings(set_ or ())},
            transports=ways,
            size=size,
            block_size=block_size,
            model=model,
            precondition=precondition,
            backing_file=file,
            read_only=read_only,
            pin=pin,
            keep_awake=keep_awake,
            poll=poll,
            calibrate=calibrate,
            prefault=prefault,
            serial=serial,
            stats_socket=answers_at,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)  # the core's own handlers end the drive, and no other is to follow
        counted = device.serve(wanted, lambda told: device_text.ready(told, as_json=json))
    if not json:
        device_text.ended(counted)


@contextmanager
def _socket(path: Path | None) -> Iterator[Path]:
    """Where the drive answers: as asked for, or in a folder of its own that goes with it."""
    if path is not None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="ioassay-device-") as folder:
        yield Path(folder) / "stats"


def stats(socket: Socket, json: options.Json = False) -> None:
    """Say what a served drive has counted."""
    from ioassay.cli import device_text
    from ioassay.device import control

    console.use_json(json)
    found = control.ask(socket, "stats", buckets=json)["stats"]
    console.emit(found) if json else device_text.statistics(found)


def top(
    socket: Socket,
    interval: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Time between two looks.")] = 1.0,
    count: Annotated[int, typer.Option("-n", min=0, metavar="N", help="Rows; 0: until Ctrl-C.")] = 0,
) -> None:
    """Watch a served drive: a row for each interval."""
    from ioassay.cli import device_text
    from ioassay.device import control

    device_text.follow(lambda: control.ask(socket, "stats")["stats"], interval, count)


def power_cut(socket: Socket, json: options.Json = False) -> None:
    """Cut a served drive's power: what was not flushed and is in its volatile buffer is lost. It comes back at once."""
    from ioassay.device import control

    console.use_json(json)
    lost = control.ask(socket, "power-cut")["lost_pages"]
    console.emit({"lost_pages": lost}) if json else console.line(f"power was cut: {console.count(lost, 'page')} lost")


def stop(socket: Socket) -> None:
    """End a served drive, as SIGTERM does."""
    from ioassay.device import control

    control.ask(socket, "stop")
