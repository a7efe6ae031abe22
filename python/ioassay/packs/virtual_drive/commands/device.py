"""ioassay device: the simulated drive, served to programs and kernels; and what a served drive can be asked."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay import _core, units
from ioassay.cli import completion_values, console, options, syntax
from ioassay.cli.completion_values import words
from ioassay.cli.syntax import row
from ioassay.errors import InputError, Interrupted, ToolError, UsageError
from ioassay.process import piped_child

if TYPE_CHECKING:
    from ioassay.packs.virtual_drive.served_drive import ServedDrive


_WAYS = (
    "nbd:unix:PATH, nbd:tcp:ADDRESS:PORT, nvme-tcp:ADDRESS:PORT, fuse:PATH, vfio-user:PATH; "
    "separated by commas or repeated. "
    "Beyond this machine with ,tls=FOLDER (NBD), or ,encryption=none (NVMe)."
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
        str, "reference", "NAME", "reference, or none (no latency).", lambda text, given: dict(_core.device_models())
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

    Example: ioassay device serve --size 1GiB --transport nbd:unix:drive.sock --model reference --policy epo
    """
    from ioassay.packs.virtual_drive import serving

    config, parent = (given.pop(name) for name in _STARTED)
    if parent is not None:
        piped_child.end_with(parent, signal.SIGTERM)
    # Signals that end a drive are the core's, whose own handlers end it. Those that come before it has any are here.
    asked: list[signal.Signals] = []
    for signal_number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(signal_number) is not signal.SIG_IGN:
            signal.signal(signal_number, lambda came, _: asked.append(signal.Signals(came)))
    with ExitStack() as folders:
        drives = [_of_options(given, folders)] if config is None else _of_file(config, given, folders)

        def ready(told: list[dict[str, Any]]) -> None:
            if asked:
                raise Interrupted(f"ended by {asked[0].name} before {'it' if config is None else 'they'} served")
            for number, addresses in enumerate(told):
                _say_ready(addresses, as_json=json, number=None if config is None else number)

        try:
            counted = serving.serve(drives, ready)
        except UsageError as error:
            if config is None:
                raise
            raise InputError(f"{config}: {error}") from None
    for number, one in enumerate(counted if not json else ()):
        which = "" if config is None else f"drive[{number}] "
        done = [f"{console.count(one[name]['commands'], name[:-1])}" for name in ("reads", "writes")]
        console.line(f"{which}served {' and '.join(done)} in {units.format_duration(one['served_s'])}")


def _of_options(given: dict[str, Any], folders: ExitStack) -> dict[str, Any]:
    from ioassay.packs.virtual_drive import drive_options

    ways = [part for text in given.pop("transport") or () for part in drive_options.transports(text)]
    _require_mount(ways)
    parts = [part for text in given.pop("namespaces") or () for part in text.split(",")] or None
    if given["size"] is None and given["backing_file"] is None and parts is None:
        raise UsageError("no --size given; expected one, such as 1GiB, or --file with a backing file that is there")
    of_model = drive_options.settings(given.pop("set_") or ())
    faults = [fault for path in given.pop("faults") or () for fault in drive_options.read_faults(path)]
    given["stats_socket"] = given["stats_socket"] or _new_socket(folders)
    ways = ways or [f"nbd:unix:{_new_socket(folders, of_drive=True)}"]
    return drive_options.of_options(ways, set_=of_model, namespaces=parts, faults=faults, **given)


def _of_file(config: Path, given: Mapping[str, Any], folders: ExitStack) -> list[dict[str, Any]]:
    """UsageError for options that belong into the file."""
    from ioassay.packs.virtual_drive import drive_options

    for name, value in given.items():
        if value != _SERVED[name].default:
            key = drive_options.keys(drive_options.Drive).get(name, name)
            raise UsageError(f"--{key} is not used with --config; expected '{key}' in a [[drive]] of {config}")
    drives = drive_options.read_drives(config)
    _require_mount([way for drive in drives for way in drive["transports"]])
    for drive in drives:
        if "stats_socket" not in drive:
            drive["stats_socket"] = str(_new_socket(folders))
    return drives


def _new_socket(folders: ExitStack, *, of_drive: bool = False) -> Path:
    """For the answers of a drive that was told no place, or for the drive itself: in a folder that goes with it."""
    from ioassay.host import drive_folders

    socket = folders.enter_context(drive_folders.socket_of_this_process())
    return socket.with_name(drive_folders.NBD) if of_drive else socket


def _require_mount(ways: Sequence[str]) -> None:
    """ToolError for a way by FUSE in a container that withholds what mounting takes."""
    from ioassay.host import process_capabilities

    mounted = [way for way in ways if way.startswith("fuse:")]
    if mounted and (remedy := process_capabilities.fuse_obstacle()):
        raise ToolError(f"{mounted[0]}: a drive cannot be mounted here; {remedy}")


def _drive(socket: Path) -> ServedDrive:
    from ioassay.packs.virtual_drive.served_drive import ServedDrive

    return ServedDrive(socket)


def stats(socket: Socket, json: options.Json = False) -> None:
    """Say what a served drive has counted."""
    found = _drive(socket).stats(buckets=json)
    console.emit(found) if json else _say_statistics(found)


def top(
    socket: Socket,
    interval: Annotated[float, syntax.option("SECONDS", "Polling interval.", min=0.1)] = 1.0,
    count: Annotated[int, syntax.option("-n N", "Number of rows; 0 runs until Ctrl-C.", min=0)] = 0,
    json: options.Json = False,
) -> None:
    """Watch a served drive: a row for each interval.

    Until Ctrl-C or its end. With --json a line for each interval: all that was counted, as stats has it.
    """
    drive = _drive(socket)
    try:
        before, number = drive.stats(buckets=not json), 0
        while not count or number < count:
            time.sleep(interval)
            try:
                now = drive.stats(buckets=not json)
            except (InputError, ToolError):  # one that is about to end still listens, and refuses
                if not json:
                    console.line("the drive has ended")
                return
            if json:
                console.line(dumps(now))
            else:
                if number % _HEAD_EVERY == 0:
                    console.line(_aligned(name for name, _ in _COLUMNS))
                console.line(_aligned(interval_row(before, now)))
            console.flush()
            before, number = now, number + 1
    except KeyboardInterrupt:
        if count:  # without a count that is its end, and no interruption
            raise


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
    lost = _drive(socket).power_cut(keep_connections=keep_connections)
    console.emit({"lost_pages": lost}) if json else console.line(f"power was cut: {console.count(lost, 'page')} lost")


What = Annotated[
    list[str], syntax.argument("FILE|NAME=VALUE…", "A file with faults, or one fault: kind=read-error offset=1MiB.")
]


def fault_inject(socket: Socket, what: What, json: options.Json = False) -> None:
    """Make a served drive misbehave from now on.

    Example: ioassay device fault inject drive.stats kind=latency delay=50ms probability=0.01
    """
    armed = _drive(socket).inject(*what)
    console.emit({"armed": armed}) if json else console.line(f"armed: {', '.join(map(str, armed))}")


def fault_list(socket: Socket, json: options.Json = False) -> None:
    """List the faults of a served drive, and how often each struck."""
    faults = _drive(socket).faults()
    if json:
        console.emit({"faults": faults})
    elif not faults:
        console.line("no faults")
    else:
        counts = [(str(one["matched"]), str(one["fired"])) for one in faults]
        rows = [[str(one["id"]), one["kind"], _concerned(one), *each] for one, each in zip(faults, counts, strict=True)]
        console.table(["", "kind", "concerns", "matched", "fired"], rows)


def fault_clear(
    socket: Socket,
    number: Annotated[str | None, syntax.argument("NUMBER", "Fault to clear; default: all.")] = None,
    json: options.Json = False,
) -> None:
    """End a fault of a served drive, or all: commands that are stuck are answered, a lost link is up again."""
    if number is not None and not (number.isascii() and number.isdigit() and len(number) < 20):
        raise UsageError(f"NUMBER is '{number}', expected that of a fault (ioassay device fault list SOCKET)")
    cleared = _drive(socket).clear_faults(None if number is None else int(number))
    if number is not None and not cleared:
        raise UsageError(f"the drive has no fault {number} (ioassay device fault list {socket})")
    console.emit({"cleared": cleared}) if json else console.line(f"cleared {console.count(cleared, 'fault')}")


def stop(socket: Socket, json: options.Json = False) -> None:
    """End a served drive as SIGTERM does, and wait until it has ended."""
    _drive(socket).stop()
    if json:
        console.emit({"stopped": str(socket)})


# What a served drive tells, for people

_UNCALIBRATED = {"calibration-uncertain", "floor-unknown"}
"""Warnings that its latencies may not be the model's."""
_OPS = ("reads", "writes", "trims", "flushes")


def _say_ready(told: Mapping[str, Any], *, as_json: bool, number: int | None = None) -> None:
    """Clients can connect: one line of JSON, or how to reach it. `number` is its place among several drives."""
    if as_json:
        console.line(dumps(told if number is None else {"drive": number, **told}))
    else:
        which = "" if number is None else f"drive[{number}]: "
        profile = f" ({told['profile']})" if told["profile"] else ""
        model = f"model {told['model']}{profile}, policy {told['policy']}"
        what = f"{units.format_size(told['size_bytes'])}, {model}"
        uncertain = ", calibration uncertain" if _UNCALIBRATED & {item["kind"] for item in told["warnings"]} else ""
        console.line(f"serving {which}{what}{uncertain}")
        if zones := told.get("zones"):
            console.line(f"  zones     {_zones(zones)}")
        for way in told["ways"]:
            floor = f", takes {units.format_ns(way['floor_ns'])} by itself" if way.get("floor_ns") else ""
            console.line(f"  {way['transport']:8}  {way['address']}{floor}")
            if way.get("nqn"):
                console.line(f"            {way['nqn']}")
        if len(told["namespaces"]) > 1:
            sizes = [f"{one['id']}: {units.format_size(one['size_bytes'])}" for one in told["namespaces"]]
            console.line(f"  namespaces  {', '.join(sizes)}")
        console.line(f"  stats     {told['stats']}")
        console.line(f"  memory    at most {units.format_size(told['memory_bytes'])}, with the drive's content")
    if told["faults"] and not as_json:
        console.line(f"  faults    {console.count(told['faults'], 'fault')} armed")
    for item in told["warnings"]:  # each of its own: there is no report that would have the rest
        console.warnings([{"code": item["kind"], "text": item["text"], "remedy": ""}])
    console.flush()


def _say_statistics(found: Mapping[str, Any]) -> None:
    rows = []
    for name in _OPS:
        one = found[name]
        counts = [units.format_count(one["commands"]), units.format_size(one["bytes"]), str(one["errors"])]
        rows.append([name, *counts, *(_latency(one["latency_ns"][key]) for key in ("mean", "p50", "p99", "max"))])
    console.table(["", "commands", "bytes", "errors", "mean", "p50", "p99", "max"], rows)
    if len(found["namespaces"]) > 1:
        console.line()
        rows = []
        for one in found["namespaces"]:  # flushes concern the whole drive
            row = [str(one["id"]), units.format_size(one["size_bytes"])]
            for name in _OPS[:3]:
                row += [units.format_count(one[name]["commands"]), units.format_size(one[name]["bytes"])]
            rows.append([*row, str(sum(one[name]["errors"] for name in _OPS[:3]))])
        console.table(["namespace", "size", "reads", "bytes", "writes", "bytes", "trims", "bytes", "errors"], rows)
    console.line()
    if (buffer := found.get("buffer")) and buffer["capacity_pages"]:
        console.line(
            f"buffer    {buffer['held_pages']} of {buffer['capacity_pages']} pages held; found in it: "
            f"{_share(buffer['write_hits'], buffer['written_pages'])} of written, "
            f"{_share(buffer['read_hits'], buffer['read_pages'])} of read"
        )
    if flash := found.get("flash"):
        amplification = flash["write_amplification"]
        console.line(
            f"flash     {units.format_count(flash['written_pages'])} pages written, {flash['erases']} blocks erased"
            + (f", write amplification {amplification:.3f}" if amplification else "")
        )
    if zones := found.get("zones"):
        console.line(f"zones     {_zones(zones)}")
    if mapping := found.get("mapping"):
        read = mapping["hits"] + mapping["misses"]
        console.line(
            f"mapping   {_share(mapping['hits'], read)} of read pages found in the cache; "
            f"{units.format_count(mapping['translation_reads'])} translation pages read, "
            f"{units.format_count(mapping['translation_writes'])} written"
        )
    if found["faults"] or found["faults_fired"]:
        armed = console.count(len(found["faults"]), "fault")
        console.line(f"faults    {armed} armed; struck {console.count(found['faults_fired'], 'time')}")
    console.line(f"volatile  {console.count(found['volatile_pages'], 'page')} that would be lost with the power")
    console.line(
        f"late      {_latency(found['late_ns']['p50'])} in the middle, {_latency(found['late_ns']['p99'])} at 99 %"
    )


_STATES = ("empty", "implicitly_opened", "explicitly_opened", "closed", "full", "read_only", "offline")


def _zones(found: Mapping[str, Any]) -> str:
    states = ", ".join(f"{found[name]} {name.replace('_', ' ')}" for name in _STATES if found[name])
    return f"{found['zones']} of {units.format_size(found['zone_bytes'])}: {states}"


def _concerned(fault: Mapping[str, Any]) -> str:
    said = [", ".join(fault["op"])] if fault["op"] else []
    if fault["namespace"] is not None:
        said.append(f"namespace {fault['namespace']}")
    if fault["offset_bytes"] or fault["length_bytes"] is not None:
        length, offset = fault["length_bytes"], _exact_size(fault["offset_bytes"])
        said.append(f"from {offset}" if length is None else f"{_exact_size(length)} at {offset}")
    for name in ("after", "for", "every", "delay", "down"):
        if time_us := fault[f"{name}_us"]:
            said.append(f"{name} {units.format_ns(time_us * 1000)}")
    if fault["bytes_per_s"]:
        said.append(units.format_rate(fault["bytes_per_s"]))
    if fault["probability"] < 1:
        said.append(f"{units.format_percent(fault['probability'])} % of {fault['scope']}s")
    if fault["count"] is not None:
        said.append(f"{console.count(fault['count'], 'time')} at most")
    return "; ".join(said) or "all"


def _exact_size(size_bytes: int) -> str:
    """A size that can be given back: in bytes where a larger unit would round it."""
    text = units.format_size(size_bytes)
    return text if units.parse_size(text) == size_bytes else f"{size_bytes} B"


def _latency(value: float | None) -> str:
    """A time, or a gap where nothing happened."""
    return "-" if value is None else units.format_ns(value)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"


_COLUMNS = (
    *(("r/s", 6), ("w/s", 6), ("read", 9), ("written", 9), ("r p50", 7), ("w p50", 7)),
    *(("depth", 5), ("buffer", 6), ("late p99", 8)),
)
"""Names, of which iostat has the first two, and widths; a row is less than 80 characters long."""
_HEAD_EVERY = 20


def interval_row(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What happened between two looks; depth and buffer as they are now."""
    if now["counted_s"] < before["counted_s"]:
        before = {}  # counting began anew
    seconds: float = max(now["served_s"] - before["served_s"] if before else now["counted_s"], 1e-9)

    def rate(name: str, key: str) -> float:
        gained: float = now[name][key] - (before[name][key] if before else 0)
        return gained / seconds

    def quantile(of: Callable[[Mapping[str, Any]], Mapping[str, Any]], q: float) -> str:
        return _latency(_quantile(of(before)["buckets"] if before else [], of(now)["buckets"], q))

    buffer = now.get("buffer")
    return [
        units.format_count(rate("reads", "commands")),
        units.format_count(rate("writes", "commands")),
        units.format_rate(rate("reads", "bytes")),
        units.format_rate(rate("writes", "bytes")),
        quantile(lambda found: found["reads"]["latency_ns"], 0.5),
        quantile(lambda found: found["writes"]["latency_ns"], 0.5),
        str(now["depth_now"]),
        units.format_count(buffer["held_pages"]) if buffer and buffer["capacity_pages"] else "-",
        quantile(lambda found: found["late_ns"], 0.99),
    ]


def _quantile(before: Iterable[tuple[int, int]], now: Iterable[tuple[int, int]], q: float) -> float | None:
    """Of what came between two states of a distribution; None of nothing."""
    was = dict(before)
    gained = _core.Histogram()
    for value, times in now:
        if (more := times - was.get(value, 0)) > 0:
            gained.record(value, more)
    return gained.quantile(q) if gained.count else None


def _aligned(cells: Iterable[str]) -> str:
    return "  ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, _COLUMNS, strict=True))
