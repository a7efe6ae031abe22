"""ioassay device: the simulated drive, served to programs and kernels; and what a served drive can be asked."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay import _core
from ioassay.cli import completion_values, console, options, syntax
from ioassay.cli.completion_values import words
from ioassay.cli.syntax import row
from ioassay.errors import InputError, Interrupted, ToolError, UsageError
from ioassay.packs.virtual_drive.commands import device_text
from ioassay.process import piped_child

if TYPE_CHECKING:
    from ioassay.packs.virtual_drive.served_drive import ServedDrive


_WAYS = (
    "nbd:unix:PATH, nbd:tcp:ADDRESS:PORT, nvme-tcp:ADDRESS:PORT, fuse:PATH, vfio-user:PATH; "
    "separated by commas or repeated. "
    "Beyond this machine with ,tls=FOLDER (NBD), or ,secrets=FILE,encryption=none (NVMe)."
)
_DRIVE = "Drive whose options the model takes: a name (ioassay drive list) or a file; --set overrides its own."
_STATE = "none, full (written once), steady (overwritten at random until amplification settles), or a share of it."
_ZONES = "Serve a zoned drive (ZNS, over nvme-tcp): size of a zone; capacity=, append= (sizes), open=, active=."
_SERVED = {
    "transport": row(list[str], None, "WAY", _WAYS, words("nbd:unix:", "nbd:tcp:", "nvme-tcp:", "fuse:", "vfio-user:")),
    "size": row(str, None, "SIZE", "Size; by default that of the backing file."),
    "namespaces": row(
        list[str], None, "SIZE,SIZE…", "Divide the drive into namespaces of these sizes, numbered from 1."
    ),
    "block_size": row(str, "512", "SIZE", "Logical block: 512 or 4096.", words("512", "4096")),
    "model": row(
        str, "thesis", "NAME", "thesis, or none (answers at once).", lambda text, given: dict(_core.device_models())
    ),
    "drive": row(str, None, "NAME|FILE", _DRIVE, completion_values.drives),
    "policy": row(str, "none", "NAME", "Write-buffer policy, or none.", completion_values.policies),
    "buffer": row(str, None, "SIZE", "Size of the write buffer. [8MiB]"),
    "set_": row(
        *(list[str], None, "NAME=VALUE", "An option of the model, as of simulate: read_us=100."),
        completion_values.of_simulation,
    ),
    "precondition": row(str, None, "STATE", _STATE, words("none", "full", "steady")),
    "zones": row(str, None, "SIZE[,KEY=VALUE…]", _ZONES),
    "backing_file": row(Path, None, "--file FILE", "Store flushed data in this file."),
    "read_only": row(bool, False, "--read-only", "Refuse writes."),
    "pin": row(int, None, "CPU", "Processor that the server runs on.", min=0),
    "keep_awake": row(bool, False, "--keep-awake", "Keep all other processors awake with threads of lowest priority."),
    "realtime": row(bool, False, "--realtime", "Serve under SCHED_FIFO, before all other programs, with a watchdog."),
    "poll": row(
        *(str, "adaptive", "HOW", "adaptive: sleep when idle; always: never sleep."), words("adaptive", "always")
    ),
    "calibrate": row(bool, True, "", "Measure each transport's overhead and subtract it from the model's time."),
    "prefault": row(bool, False, "--prefault", "Allocate all memory at the start."),
    "serial": row(str, None, "TEXT", "Serial number."),
    "faults": row(list[Path], None, "FILE", "Misbehave as this file says, from the time on when it is ready."),
    "stats_socket": row(Path, None, "--stats PATH", "Control socket; by default in a new folder."),
}
_CONFIG = "Serve each [[drive]] of this TOML file; their keys are these options."
_STARTED = {
    "config": row(Path, None, "FILE", _CONFIG),
    "with_parent": row(int, None, "", "Exit when this parent process is gone.", hidden=True),
}
Socket = Annotated[Path, syntax.argument("SOCKET", "The control socket that the drive printed as 'stats'.")]


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


@syntax.takes({**_SERVED, **_STARTED})
def serve(*, json: options.Json = False, **given: Any) -> None:
    """Serve a simulated drive, or several, until Ctrl-C or SIGTERM.

    Without a transport it speaks NBD, at a socket that only this user can reach.

    Example: ioassay device serve --size 1GiB --transport nbd:unix:drive.sock --model thesis --policy epo
    """
    from ioassay.host import drive_folders
    from ioassay.packs.virtual_drive import drive_options as described
    from ioassay.packs.virtual_drive import fault_plan, serving

    console.use_json(json)
    config, parent = (given.pop(name) for name in _STARTED)
    if parent is not None:
        piped_child.end_with(parent, signal.SIGTERM)
    if config is not None:
        _serve_group(config, given, json=json)
        return
    ways = [part for text in given.pop("transport") or () for part in described.transports(text)]
    _require_mount(ways)
    parts = [part for text in given.pop("namespaces") or () for part in text.split(",")] or None
    if given["size"] is None and given["backing_file"] is None and parts is None:
        raise UsageError("no --size given; expected one, such as 1GiB, or --file with a backing file that is there")
    options_of_model = described.settings(given.pop("set_") or ())
    planned = [fault for path in given.pop("faults") or () for fault in fault_plan.read(path)]
    asked = _left_to_the_core()
    with ExitStack() as folders:
        answers_at = folders.enter_context(_socket(given.pop("stats_socket")))
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


def _serve_group(config: Path, given: Mapping[str, Any], *, json: bool) -> None:
    """Serve each drive of a file. UsageError for options that belong into the file."""
    from ioassay.packs.virtual_drive import drive_config, serving

    for name, value in given.items():
        if value != _SERVED[name].default:
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
                device_text.ready(addresses, as_json=json, number=number)

        try:
            counted = serving.serve_group(drives, ready)
        except UsageError as error:
            raise InputError(f"{config}: {error}") from None
    if not json:
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
    interval: Annotated[float, syntax.option("SECONDS", "Polling interval.", min=0.1)] = 1.0,
    count: Annotated[int, syntax.option("-n N", "Number of rows; 0 runs until Ctrl-C.", min=0)] = 0,
    json: options.Json = False,
) -> None:
    """Watch a served drive: a row for each interval.

    Until Ctrl-C or its end. With --json a line for each interval: all that was counted, as stats has it.
    """
    console.use_json(json)
    drive = _drive(socket)
    device_text.follow(lambda: drive.stats(buckets=not json), interval, count, as_json=json)


_KEEP = "Keep the connections: commands in flight are answered with an error."


def power_cut(
    socket: Socket,
    keep_connections: Annotated[bool, syntax.option("--keep-connections", _KEEP)] = False,
    json: options.Json = False,
) -> None:
    """Cut a served drive's power, which comes back at once.

    What is in its volatile buffer and was not flushed is lost, and so are the connections: clients see them end, and
    connect again. Of a mounted file, what is in flight fails.
    """
    console.use_json(json)
    lost = _drive(socket).power_cut(keep_connections=keep_connections)
    console.emit({"lost_pages": lost}) if json else console.line(f"power was cut: {console.count(lost, 'page')} lost")


What = Annotated[
    list[str], syntax.argument("FILE|NAME=VALUE…", "A file with faults, or one fault: kind=read-error offset=1MiB.")
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
    number: Annotated[str | None, syntax.argument("NUMBER", "Of one fault; without it all.")] = None,
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
