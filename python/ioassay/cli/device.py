"""ioassay device: the simulated drive, served to programs and kernels; and what a served drive can be asked."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from ioassay.cli import console, options, syntax
from ioassay.errors import Interrupted, UsageError

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
Drive = Annotated[
    str | None,
    syntax.Option(
        "--drive",
        metavar="NAME|FILE",
        values=options.drive_names,
        help="Drive whose options the model takes: a name (ioassay drive list) or a file; --set overrides its own.",
    ),
]
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
Realtime = Annotated[
    bool, syntax.Option("--realtime", help="Serve under SCHED_FIFO, before all other programs, with a watchdog.")
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
Socket = Annotated[
    Path, syntax.Argument(metavar="SOCKET", help="The control socket that the drive printed as 'stats'.")
]

KeepConnections = Annotated[
    bool,
    syntax.Option("--keep-connections", help="Keep the connections: commands in flight are answered with an error."),
]


def register(app: syntax.Group) -> None:
    """Add the commands to `app`."""
    device = syntax.Group("Serve the simulated drive, and query a served drive.")
    device.command()(serve)
    device.command()(stats)
    device.command()(top)
    device.command("power-cut")(power_cut)
    device.command()(stop)
    app.add(device, "device")


def serve(
    transport: Ways = None,
    size: Size = None,
    block_size: Block = "512",
    model: Model = "thesis",
    drive: Drive = None,
    policy: Policy = "none",
    buffer: Buffer = None,
    set_: OfModel = None,
    precondition: Precondition = None,
    backing_file: Backing = None,
    read_only: ReadOnly = False,
    pin: Pin = None,
    keep_awake: Awake = False,
    realtime: Realtime = False,
    poll: Poll = "adaptive",
    calibrate: Calibrate = True,
    prefault: Prefault = False,
    serial: Serial = None,
    stats_socket: Stats = None,
    with_parent: WithParent = None,
    json: options.Json = False,
) -> None:
    """Serve a simulated drive until Ctrl-C or SIGTERM.

    Example: ioassay device serve --size 1GiB --transport nbd:unix:drive.sock --model thesis --policy epo
    """
    given = dict(locals())
    from ioassay import virtual_drive
    from ioassay.cli import device_text
    from ioassay.process import piped_child
    from ioassay.virtual_drive import drive_options as described

    console.use_json(json)
    if with_parent is not None:
        piped_child.end_with(with_parent, signal.SIGTERM)
    for name in ("json", "transport", "drive", "policy", "buffer", "set_", "stats_socket", "with_parent"):
        del given[name]
    ways = [part for text in transport or () for part in described.transports(text)]
    if not ways:
        raise UsageError("no --transport given; wanted at least one, such as nbd:unix:drive.sock")
    if size is None and backing_file is None:
        raise UsageError("no --size given; wanted one, such as 1GiB, or --file with a backing file that is there")
    of_model: dict[str, Any] = {"policy": policy, **({"buffer": buffer} if buffer else {})}
    of_model = {**described.of_drive(drive), **described.together(of_model, described.settings(set_ or ()))}
    if useless := described.unused(model, of_model, precondition) or described.unbuffered(of_model):
        raise UsageError(useless)
    asked = _left_to_the_core()
    with _socket(stats_socket) as answers_at:
        told = described.described(of_model, transports=ways, stats_socket=answers_at, **given)

        def ready(addresses: Mapping[str, Any]) -> None:
            if asked:
                raise Interrupted(f"ended by {asked[0].name} before it served")
            device_text.ready(addresses, as_json=json)

        counted = virtual_drive.serve(told, ready)
    if not json:
        device_text.ended(counted)


def _left_to_the_core() -> list[signal.Signals]:
    """Signals that end a drive are the core's, whose own handlers end it, and nothing else follows of them. Those that
    come before it has handlers are in what this returns.
    """
    asked: list[signal.Signals] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: asked.append(signal.Signals(number)))
    return asked


@contextmanager
def _socket(path: Path | None) -> Iterator[Path]:
    """Where the drive answers: as asked for, or in a folder of its own that goes with it."""
    from ioassay.host import drive_folders

    if path is not None:
        yield path
        return
    with drive_folders.socket_of_this_process() as socket:
        yield socket


def stats(socket: Socket, json: options.Json = False) -> None:
    """Say what a served drive has counted."""
    from ioassay.cli import device_text
    from ioassay.virtual_drive import control

    console.use_json(json)
    found = control.ask(socket, "stats", buckets=json)["stats"]
    console.emit(found) if json else device_text.statistics(found)


def top(
    socket: Socket,
    interval: Annotated[float, syntax.Option(min=0.1, metavar="SECONDS", help="Polling interval.")] = 1.0,
    count: Annotated[int, syntax.Option("-n", min=0, metavar="N", help="Number of rows; 0 runs until Ctrl-C.")] = 0,
    json: options.Json = False,
) -> None:
    """Watch a served drive: a row for each interval.

    Until Ctrl-C or its end. With --json a line for each interval: all that was counted, as stats has it.
    """
    from ioassay.cli import device_top
    from ioassay.virtual_drive import control

    console.use_json(json)
    device_top.follow(lambda: control.ask(socket, "stats", buckets=not json)["stats"], interval, count, as_json=json)


def power_cut(socket: Socket, keep_connections: KeepConnections = False, json: options.Json = False) -> None:
    """Cut a served drive's power, which comes back at once.

    What is in its volatile buffer and was not flushed is lost, and so are the connections: clients see them end, and
    connect again. Of a mounted file, what is in flight fails.
    """
    from ioassay.virtual_drive import control

    console.use_json(json)
    lost = control.ask(socket, "power-cut", keep_connections=keep_connections)["lost_pages"]
    console.emit({"lost_pages": lost}) if json else console.line(f"power was cut: {console.count(lost, 'page')} lost")


def stop(socket: Socket, json: options.Json = False) -> None:
    """End a served drive as SIGTERM does, and wait until it has ended."""
    from ioassay.virtual_drive import control

    console.use_json(json)
    control.stop(socket)
    if json:
        console.emit({"stopped": str(socket)})
