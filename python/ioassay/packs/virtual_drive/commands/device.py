"""ioassay device: the simulated drive, served to programs and kernels; and what a served drive can be asked."""

from __future__ import annotations

import inspect
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay import _core
from ioassay.cli import completion_values, console, options, syntax
from ioassay.errors import InputError, Interrupted, ToolError, UsageError
from ioassay.packs.virtual_drive.commands import device_text
from ioassay.process import piped_child

if TYPE_CHECKING:
    from ioassay.packs.virtual_drive.served_drive import ServedDrive


def _models(text: str, given: syntax.Given) -> dict[str, str]:
    return dict(_core.device_models())


Ways = Annotated[
    list[str] | None,
    syntax.Option(
        "--transport",
        metavar="WAY",
        values=completion_values.words("nbd:unix:", "nbd:tcp:", "nvme-tcp:", "fuse:", "vfio-user:"),
        help="nbd:unix:PATH, nbd:tcp:ADDRESS:PORT, nvme-tcp:ADDRESS:PORT, fuse:PATH, vfio-user:PATH; "
        "separated by commas or repeated. "
        "Beyond this machine with ,tls=FOLDER (NBD), or ,secrets=FILE,encryption=none (NVMe).",
    ),
]
Size = Annotated[str | None, syntax.Option(metavar="SIZE", help="Size; by default that of the backing file.")]
Namespaces = Annotated[
    list[str] | None,
    syntax.Option(
        "--namespaces", metavar="SIZE,SIZE…", help="Divide the drive into namespaces of these sizes, numbered from 1."
    ),
]
Config = Annotated[
    Path | None,
    syntax.Option(
        "--config", metavar="FILE", help="Serve each [[drive]] of this TOML file; their keys are these options."
    ),
]
Block = Annotated[
    str,
    syntax.Option(
        "--block-size",
        metavar="SIZE",
        values=completion_values.words("512", "4096"),
        help="Logical block: 512 or 4096.",
    ),
]
Model = Annotated[
    str,
    syntax.Option(metavar="NAME", values=_models, help="thesis, or none (answers at once)."),
]
Drive = Annotated[
    str | None,
    syntax.Option(
        "--drive",
        metavar="NAME|FILE",
        values=completion_values.drives,
        help="Drive whose options the model takes: a name (ioassay drive list) or a file; --set overrides its own.",
    ),
]
Policy = Annotated[
    str, syntax.Option(metavar="NAME", values=completion_values.policies, help="Write-buffer policy, or none.")
]
Buffer = Annotated[str | None, syntax.Option(metavar="SIZE", help="Size of the write buffer. [8MiB]")]
OfModel = Annotated[
    list[str] | None,
    syntax.Option(
        "--set",
        metavar="NAME=VALUE",
        values=completion_values.of_simulation,
        help="An option of the model, as of simulate: read_us=100.",
    ),
]
Precondition = Annotated[
    str | None,
    syntax.Option(
        metavar="STATE",
        values=completion_values.words("none", "full", "steady"),
        help="none, full (written once), steady (overwritten at random until amplification settles), or a share of it.",
    ),
]
Zones = Annotated[
    str | None,
    syntax.Option(
        metavar="SIZE[,KEY=VALUE…]",
        help="Serve a zoned drive (ZNS, over nvme-tcp): size of a zone; capacity=, append= (sizes), open=, active=.",
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
Poll = Annotated[
    str,
    syntax.Option(
        metavar="HOW",
        values=completion_values.words("adaptive", "always"),
        help="adaptive: sleep when idle; always: never sleep.",
    ),
]
Calibrate = Annotated[
    bool, syntax.Option(help="Measure each transport's overhead and subtract it from the model's time.")
]
Prefault = Annotated[bool, syntax.Option("--prefault", help="Allocate all memory at the start.")]
Faults = Annotated[
    list[Path] | None,
    syntax.Option("--faults", metavar="FILE", help="Misbehave as this file says, from the time on when it is ready."),
]
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
    fault = syntax.Group("Make a served drive misbehave ('ioassay help faults').")
    fault.command("inject")(fault_inject)
    fault.command("list")(fault_list)
    fault.command("clear")(fault_clear)
    device.add(fault, "fault")
    app.add(device, "device")


def serve(
    transport: Ways = None,
    size: Size = None,
    namespaces: Namespaces = None,
    block_size: Block = "512",
    model: Model = "thesis",
    drive: Drive = None,
    policy: Policy = "none",
    buffer: Buffer = None,
    set_: OfModel = None,
    precondition: Precondition = None,
    zones: Zones = None,
    backing_file: Backing = None,
    read_only: ReadOnly = False,
    pin: Pin = None,
    keep_awake: Awake = False,
    realtime: Realtime = False,
    poll: Poll = "adaptive",
    calibrate: Calibrate = True,
    prefault: Prefault = False,
    serial: Serial = None,
    faults: Faults = None,
    stats_socket: Stats = None,
    config: Config = None,
    with_parent: WithParent = None,
    json: options.Json = False,
) -> None:
    """Serve a simulated drive, or several, until Ctrl-C or SIGTERM.

    Without a transport it speaks NBD, at a socket that only this user can reach.

    Example: ioassay device serve --size 1GiB --transport nbd:unix:drive.sock --model thesis --policy epo
    """
    given = dict(locals())
    from ioassay.host import drive_folders
    from ioassay.packs.virtual_drive import drive_options as described
    from ioassay.packs.virtual_drive import fault_plan, serving

    console.use_json(json)
    if with_parent is not None:
        piped_child.end_with(with_parent, signal.SIGTERM)
    if config is not None:
        _serve_group(config, given)
        return
    for name in ("json", "transport", "namespaces", "set_", "stats_socket", "config", "with_parent", "faults"):
        del given[name]
    ways = [part for text in transport or () for part in described.transports(text)]
    _require_mount(ways)
    parts = [part for text in namespaces or () for part in text.split(",")] or None
    if size is None and backing_file is None and parts is None:
        raise UsageError("no --size given; expected one, such as 1GiB, or --file with a backing file that is there")
    options_of_model = described.settings(set_ or ())
    planned = [fault for path in faults or () for fault in fault_plan.read(path)]
    asked = _left_to_the_core()
    with ExitStack() as folders:
        answers_at = folders.enter_context(_socket(stats_socket))
        if not ways:
            ways = [f"nbd:unix:{folders.enter_context(_socket(None)).with_name(drive_folders.NBD)}"]
        told = described.of_options(
            ways, set_=options_of_model, namespaces=parts, stats_socket=answers_at, faults=planned, **given
        )

        def ready(addresses: Mapping[str, Any]) -> None:
            if asked:
                raise Interrupted(f"ended by {asked[0].name} before it served")
            device_text.ready(addresses, as_json=json)

        counted = serving.serve(told, ready)
    if not json:
        device_text.ended(counted)


def _require_mount(ways: Sequence[str]) -> None:
    """ToolError for a way by FUSE in a container that withholds what mounting takes."""
    from ioassay.host import process_capabilities

    mounted = [way for way in ways if way.startswith("fuse:")]
    if mounted and (remedy := process_capabilities.fuse_obstacle()):
        raise ToolError(f"{mounted[0]}: a drive cannot be mounted here; {remedy}")


def _serve_group(config: Path, given: Mapping[str, Any]) -> None:
    """Serve each drive of a file. UsageError for options that belong into the file."""
    from ioassay.packs.virtual_drive import drive_config, serving

    defaults = inspect.signature(serve).parameters
    for name, value in given.items():
        if name not in ("config", "json", "with_parent") and value != defaults[name].default:
            key = drive_config.key_of(name)
            raise UsageError(f"--{key} is not used with --config; expected '{key}' in a [[drive]] of {config}")
    drives = drive_config.read(config)
    _require_mount([way for drive in drives for way in drive["transports"]])
    asked = _left_to_the_core()
    with ExitStack() as stack:
        for drive in drives:
            if "stats_socket" not in drive:
                drive["stats_socket"] = str(stack.enter_context(_socket(None)))

        def ready(told: list[dict[str, Any]]) -> None:
            if asked:
                raise Interrupted(f"ended by {asked[0].name} before they served")
            for number, addresses in enumerate(told):
                device_text.ready(addresses, as_json=given["json"], number=number)

        try:
            counted = serving.serve_group(drives, ready)
        except UsageError as error:
            raise InputError(f"{config}: {error}") from None
    if not given["json"]:
        for number, one in enumerate(counted):
            device_text.ended(one, number)


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


def _drive(socket: Path) -> ServedDrive:
    from ioassay.packs.virtual_drive.served_drive import ServedDrive

    return ServedDrive(socket)


def stats(socket: Socket, json: options.Json = False) -> None:
    """Say what a served drive has counted."""
    console.use_json(json)
    found = _drive(socket).stats(buckets=json)
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
    console.use_json(json)
    drive = _drive(socket)
    device_text.follow(lambda: drive.stats(buckets=not json), interval, count, as_json=json)


def power_cut(socket: Socket, keep_connections: KeepConnections = False, json: options.Json = False) -> None:
    """Cut a served drive's power, which comes back at once.

    What is in its volatile buffer and was not flushed is lost, and so are the connections: clients see them end, and
    connect again. Of a mounted file, what is in flight fails.
    """
    console.use_json(json)
    lost = _drive(socket).power_cut(keep_connections=keep_connections)
    console.emit({"lost_pages": lost}) if json else console.line(f"power was cut: {console.count(lost, 'page')} lost")


What = Annotated[
    list[str],
    syntax.Argument(metavar="FILE|NAME=VALUE…", help="A file with faults, or one fault: kind=read-error offset=1MiB."),
]


def fault_inject(socket: Socket, what: What, json: options.Json = False) -> None:
    """Make a served drive misbehave from now on.

    Example: ioassay device fault inject drive.stats kind=latency delay=50ms probability=0.01
    """
    console.use_json(json)
    armed = _drive(socket).inject(*what)
    console.emit({"armed": armed}) if json else console.line(f"armed: {', '.join(map(str, armed))}")


def fault_list(socket: Socket, json: options.Json = False) -> None:
    """List the faults of a served drive, and how often each struck."""
    console.use_json(json)
    faults = _drive(socket).faults()
    console.emit({"faults": faults}) if json else device_text.faults(faults)


def fault_clear(
    socket: Socket,
    number: Annotated[str | None, syntax.Argument(metavar="NUMBER", help="Of one fault; without it all.")] = None,
    json: options.Json = False,
) -> None:
    """End a fault of a served drive, or all: commands that are stuck are answered, a lost link is up again."""
    console.use_json(json)
    if number is not None and not (number.isascii() and number.isdigit() and len(number) < 20):
        raise UsageError(f"NUMBER is '{number}', expected that of a fault (ioassay device fault list SOCKET)")
    cleared = _drive(socket).clear_faults(None if number is None else int(number))
    if number is not None and not cleared:
        raise UsageError(f"the drive has no fault {number} (ioassay device fault list {socket})")
    console.emit({"cleared": cleared}) if json else console.line(f"cleared {console.count(cleared, 'fault')}")


def stop(socket: Socket, json: options.Json = False) -> None:
    """End a served drive as SIGTERM does, and wait until it has ended."""
    console.use_json(json)
    _drive(socket).stop()
    if json:
        console.emit({"stopped": str(socket)})
