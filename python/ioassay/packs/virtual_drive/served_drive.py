"""Simulated drives that are served in real time, one or several, and what each can be asked while it is."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ioassay.errors import ToolError, UsageError
from ioassay.packs.virtual_drive import drive_options, serving
from ioassay.process import supervisor

_CLEARED_S = 15.0
"""A killed tool's last requests end first."""
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8  # umount2(2)
_ADDRESSES = ("nbd", "nvme_tcp", "nqn", "fuse", "vfio_user")


class ServedDrive:
    """A drive that some process serves, by its control socket; `serve` starts one.

    Each method asks the drive. InputError where none answers at the socket, ToolError where it refuses.
    """

    def __init__(self, socket: str | Path, told: Mapping[str, Any] | None = None) -> None:
        self.socket = Path(socket)
        self._told = told or {}

    @property
    def addresses(self) -> dict[str, str]:
        """The first address of each transport: nbd, nvme_tcp (with nqn), fuse, vfio_user. Of a drive of `serve`."""
        return {name: str(self._told[name]) for name in _ADDRESSES if name in self._told}

    @property
    def path(self) -> Path | None:
        """The file that FUSE shows the drive as, where it is one of its transports."""
        return Path(self._told["fuse"]) if "fuse" in self._told else None

    @property
    def size_bytes(self) -> int:
        """The drive's size."""
        return int(self._told["size_bytes"])

    def stats(self, *, buckets: bool = False) -> dict[str, Any]:
        """All that it has counted (docs/virtual-drive.md); with `buckets`, the distributions of latency too."""
        return dict(serving.ask(self.socket, "stats", buckets=buckets)["stats"])

    def metrics(self) -> dict[str, float]:
        """What it has counted as the metrics of a trial: `drive.write.bytes`, `drive.write.lat.p99` (ns), …"""
        return serving.metrics(self.stats(), self._told.get("page_bytes"))

    def reset_stats(self) -> None:
        """Count from now on."""
        serving.ask(self.socket, "reset-stats")

    def power_cut(self, *, keep_connections: bool = False) -> int:
        """Cut its power, which comes back at once; the number of pages that were in its volatile buffer and are lost.

        Connections end, unless they are kept: then commands in flight are answered with an error.
        """
        return int(serving.ask(self.socket, "power-cut", keep_connections=keep_connections)["lost_pages"])

    def inject(self, *faults: str | Path, **fault: object) -> list[int]:
        """Misbehave from now on: files of faults, `NAME=VALUE` words, or one fault by keywords (docs/faults.md).

            drive.inject(kind="latency", delay="50ms", probability=0.01)

        The numbers of the faults. UsageError and InputError for what is none.
        """
        words = [*map(str, faults), *(f"{name.rstrip('_')}={value}" for name, value in fault.items())]
        return list(serving.ask(self.socket, "fault-inject", faults=drive_options.faults_of_words(words))["armed"])

    def faults(self) -> list[dict[str, Any]]:
        """Its faults, and how often each struck."""
        return list(serving.ask(self.socket, "fault-list")["faults"])

    def clear_faults(self, number: int | None = None) -> int:
        """End one fault, or all; how many there were. Commands that are stuck are answered, a lost link is up again."""
        chosen = {} if number is None else {"fault": number}
        return int(serving.ask(self.socket, "fault-clear", **chosen)["cleared"])

    def stop(self) -> None:
        """End it, and wait until it has ended: its backing file has everything then."""
        serving.stop(self.socket)

    def __repr__(self) -> str:
        where = ", ".join(self.addresses.values()) or str(self.socket)
        return f"<ServedDrive at {where}>"


@contextmanager
def folder(prefix: str) -> Iterator[Path]:
    """A new folder that is cleared in the end, also where this process is killed. ToolError: something stays in it."""
    with supervisor.temporary_folder(prefix, clear=_clear) as made:
        yield made
    if made.exists():
        raise ToolError(f"{made}: cannot be removed: something in it is still in use; unmount it and remove it")


def _clear(made: Path) -> None:
    """Unmount what is mounted in the folder, and remove it; only what lies in itself, whatever stays mounted."""
    give_up_s = time.monotonic() + _CLEARED_S
    while made.exists():
        with suppress(OSError):
            for entry in made.iterdir():
                detach(entry)
                entry.rmdir() if entry.is_dir() and not entry.is_symlink() else entry.unlink()
            made.rmdir()
        if time.monotonic() > give_up_s:
            return
        time.sleep(0.01)


def detach(point: Path) -> None:
    """Unmount, as soon as nobody uses it; nothing where nothing is mounted, or where that requires root."""
    ctypes.CDLL(None).umount2(os.fsencode(point), _MNT_DETACH | _UMOUNT_NOFOLLOW)


@contextmanager
def serve(
    size: str | int | None = None,
    transports: Sequence[str] | None = None,
    *,
    drive: str | Path | None = None,
    policy: str = "none",
    buffer: str | int | None = None,
    model: str = "reference",
    faults: Sequence[str | Path] = (),
    options: Mapping[str, object] | None = None,
    namespaces: Sequence[str | int] | None = None,
    block_size: str | int = 512,
    precondition: str | float | None = None,
    zones: str | None = None,
    backing_file: str | Path | None = None,
    read_only: bool = False,
    pin: int | None = None,
    keep_awake: bool = False,
    realtime: bool = False,
    poll: str = "adaptive",
    calibrate: bool = True,
    prefault: bool = False,
    serial: str | None = None,
) -> Iterator[ServedDrive]:
    """Serve a simulated drive in a process of its own while this lasts.

        with serve("1GiB", policy="epo", buffer="8MiB") as drive:
            drive.addresses["nbd"], drive.stats()

    The arguments are the options of `ioassay device serve`; `options` are those of its `--set`, such as
    `{"read_us": 100}`. `transports` are by default NBD at a Unix socket in a folder that goes with the drive. The drive
    ends with this context, and at the latest with the thread that entered it: nothing stays, even where the program is
    killed. UsageError for what cannot be served so, ToolError where serving fails.
    """
    given = dict(locals())
    if size is None and backing_file is None and namespaces is None:
        raise UsageError("size is None; expected one, such as '1GiB', or a backing_file that is there")
    with folder("ioassay-served-") as place:
        ways = given.pop("transports")
        ways = (f"nbd:unix:{place}/nbd.sock",) if ways is None else ways
        given["faults"] = [fault for file in faults for fault in drive_options.read_faults(Path(file))]
        given["set_"] = {name: str(value) for name, value in (given.pop("options") or {}).items()}
        parts = [part for way in ways for part in drive_options.transports(way)]
        description = drive_options.of_options(parts, stats_socket=place / "stats.sock", **given)
        with serving.served([description], signal.SIGTERM) as (_, (told,)):
            yield ServedDrive(told["stats"], told)


@contextmanager
def serve_group(drives: str | Path | Sequence[Mapping[str, object]]) -> Iterator[list[ServedDrive]]:
    """Serve several simulated drives in one process while this lasts, each by a thread of its own.

        with serve_group([{"size": "1GiB", "drive": "samsung-980-pro"}, {"size": "1GiB", "policy": "lru"}]) as drives:
            [drive.addresses["nbd"] for drive in drives]

    `drives` are the tables of a file for `ioassay device serve --config`, or its name (docs/virtual-drive.md); a table
    of Python needs no transport, as for `serve`. They end as the drive of `serve` does. UsageError for what cannot be
    served so, with the drive and its key; ToolError where serving fails: then none is served.
    """
    with folder("ioassay-served-") as place:
        if isinstance(drives, str | Path):
            described = drive_options.read_drives(Path(drives))
        elif drives and all(isinstance(one, Mapping) for one in drives):
            ways = (f"nbd:unix:{place}/nbd-{number}.sock" for number in range(len(drives)))
            described = drive_options.drives({"transport": way, **one} for way, one in zip(ways, drives, strict=True))
        else:
            raise UsageError(
                f"drives is {drives!r}; expected a list of at least one table, such as [{{'size': '1GiB'}}]"
            )
        for number, drive in enumerate(described):
            drive.setdefault("stats_socket", f"{place}/stats-{number}.sock")
        with serving.served(described, signal.SIGTERM) as (_, told):
            yield [ServedDrive(one["stats"], one) for one in told]
