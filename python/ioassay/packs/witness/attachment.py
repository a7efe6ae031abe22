"""Processes that run already, under the witness: nothing of them is stopped, started or changed.

The programs are attached first. Then every task of the processes, their children and their group is listed and
followed, again and again until a list has nobody new: whoever is followed has its children followed by the kernel, so
none is missed in between. What was open is looked up in /proc afterwards, which gives files their paths; flags and
identities come from the kernel with the first call on a file. The group is listed again while it is watched: processes
can join it from outside (`docker exec`).

A group is named by its path, or by the container or the unit whose processes are in it. Runtimes name the groups of
containers after their ids (docker-<id>.scope, libpod-<id>.scope, cri-containerd-<id>.scope, or the id alone where the
runtime manages groups itself), systemd those of services after the unit. A container's name is in no group; those of
docker and podman are read from their own files. No runtime is asked or started.
"""

from __future__ import annotations

import json
import os
import re
import select
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ioassay import _core
from ioassay.errors import ToolError, UsageError
from ioassay.host import block_devices, interference
from ioassay.host.cgroup import Hierarchy, hierarchies, members_of
from ioassay.process import process_table
from ioassay.records.observation import BLOCK, BPF, COUNTERS, EXPLAIN, SYSCALLS, File, Observation, of_witness
from ioassay.roles import Outcome
from ioassay.verify.witness import Observed, Watching
from ioassay.verify.witness.observed_command import AUTO, bpf_unusable, growth, taken_from

_PAUSE_S = 0.25
_MOST_PASSES = 1000


@dataclass(frozen=True)
class Running:
    """What to watch: processes with all that they started, and the group that holds others."""

    pids: tuple[int, ...] = ()
    group: Path | None = None

    def members(self) -> set[int]:
        """The processes of the group."""
        return set() if self.group is None else set(members_of(self.group))

    def tasks(self) -> tuple[set[int], set[int]]:
        """Ids of the processes, and of their threads beside the first."""
        processes = {*process_table.descendants(process_table.statuses(), self.pids), *self.members()}
        return processes, _threads(processes)


def _threads(processes: AbstractSet[int]) -> set[int]:
    """Those beside the first of each process."""
    return {task for pid in processes for task in process_table.threads(pid)} - processes


def running(pids: Sequence[int], group: Path | None = None) -> Running:
    """What can be watched; UsageError names what cannot, and why."""
    everybody = process_table.statuses()
    own, pid = {os.getpid()}, os.getppid()  # this process and those that it descends from
    while pid in everybody and pid not in own:
        own.add(pid)
        pid = everybody[pid].parent
    for pid in pids:
        if why := _unwatchable(pid, everybody, own):
            raise UsageError(f"--pid {pid}: {why}")
    chosen = Running(tuple(dict.fromkeys(pids)), group)
    if group is not None and not (members := chosen.members()):
        raise UsageError(f"{group}: no process is in this control group")
    if group is not None and members & own:
        raise UsageError(
            f"{group}: ioassay itself, or what started it, is in this control group and would be watched; give a group "
            "below it or --pid"
        )
    return chosen


def _unwatchable(pid: int, everybody: Mapping[int, process_table.Status], own: AbstractSet[int]) -> str:
    status = process_table.status(pid)
    if status is None:
        return "there is no such process"
    if pid not in everybody and (leader := process_table.leader(pid)) != pid:
        return f"it is a thread of process {leader}; give --pid {leader}"
    if status.is_kernel_thread:
        return f"'{status.name}' is a thread of the kernel, which makes no system calls"
    if not status.is_alive:
        return "it has ended and waits for its parent"
    if pid in own:
        return "ioassay itself is one of its processes and would watch its own work; give the process of the server"
    return ""


class Attachment(Watching):
    """Running processes under the witness. Beside a client command it is that command's `Watching`."""

    def __init__(self, running: Running, level: str, backend: str = AUTO, listing: str | None = None) -> None:
        if level not in (wanted := (BLOCK, SYSCALLS, EXPLAIN)):
            raise UsageError(f"--level {level}: running processes are watched at level {', '.join(wanted)}")
        if backend not in (AUTO, BPF):
            raise UsageError(
                f"--backend {backend}: running processes are watched by {BPF} alone; strace would stop them"
            )
        if why := bpf_unusable():
            raise ToolError(f"running processes cannot be watched: {why}")
        self.running, self._level, self._listing = running, level, listing
        self._disks: Mapping[str, Mapping[str, int]] = {}
        self._programs: _core.Witness | None = None
        self._known, self._files = set[int](), process_table.OpenFiles()
        self._ends, self._pidfds = ExitStack(), list[int]()
        self._why: list[str] = []
        self.names: dict[int, str] = {}
        """What the watched processes are called, by their ids."""
        self.has_ended = False
        self._name(running.tasks()[0])

    def __exit__(self, *error: object) -> None:
        self._programs = None
        self._ends.close()

    def attach(self) -> None:
        """Follow all of them; ToolError when one has ended meanwhile, or when the programs cannot be attached."""
        for pid in self.running.pids:
            try:
                self._pidfds.append(os.pidfd_open(pid))  # readable when it has ended
            except ProcessLookupError:
                raise ToolError(f"--pid {pid}: it ended before it was watched") from None
            self._ends.callback(os.close, self._pidfds[-1])
        group = self.running.group
        try:
            inode = group.stat().st_ino if group is not None else 0
            self._programs = _core.Witness(self._level, running=True, cgroup=inode, listing=self._listing)
            for _ in range(_MOST_PASSES):
                processes, others = self.running.tasks()
                self._name(processes)
                self._known |= processes
                if not self._programs.adopt(sorted(processes), sorted(others)):
                    break
            else:
                self._why.append(
                    "the processes multiply faster than they can be listed: some may not have been followed"
                )
        except OSError as error:
            raise ToolError(f"running processes cannot be watched: {error}") from None
        if self._pidfds and self._look_for_end():
            raise ToolError(f"--pid {self.running.pids[0]}: it ended before it was watched")
        self._files = process_table.read(sorted(self._known))
        links = (block_devices.ROOT / f"sys/dev/block/{number}" for number, _ in self._files.paths)
        used = {link.resolve().name for link in links if link.exists()}
        self._disks = block_devices.disk_counters(block_devices.below(sorted(used)))
        self._held_ns = time.monotonic_ns()

    def _name(self, processes: AbstractSet[int]) -> None:
        for pid in processes - self.names.keys():
            if (status := process_table.status(pid)) is not None:
                self.names[pid] = status.name

    def wait(self, seconds: float) -> None:
        """Watch for so long, or until the processes have ended."""
        give_up_s = time.monotonic() + seconds
        while (left_s := give_up_s - time.monotonic()) > 0 and not self._look_for_end():
            select.select([], [], [], min(left_s, _PAUSE_S))
            if members := self.running.members() - self._known:
                assert self._programs is not None
                with suppress(OSError):  # counted as lost by nobody: the next look tries again
                    self._programs.adopt(sorted(members), sorted(_threads(members)))
                    self._known |= members

    def _look_for_end(self) -> bool:
        over = select.select(self._pidfds, [], [], 0)[0]
        self.has_ended = len(over) == len(self._pidfds) and not self.running.members()
        return self.has_ended

    def held(self, pid: int) -> None:
        self.attach()

    def observation(self, outcome: Outcome | None = None) -> Observation:
        assert self._programs is not None
        programs, self._programs = self._programs, None
        self._ended_ns = self._ended_ns or time.monotonic_ns()
        seen: dict[str, Any] = json.loads(programs.finish(self._files.paths))
        self.listed = taken_from(seen, self._listing)
        disks = block_devices.disk_counters(list(self._disks))
        counted = {name: growth(was, disks[name]) for name, was in self._disks.items() if name in disks}
        health = dict(seen["health"])
        health["in_flight_at_start"] += self._files.uring_requests
        refused = [f"process {pid} may not be looked at ({why})" for pid, why in self._files.unreadable.items()][:1]
        unreadable = [f"the open files of {one}, so they have no paths: run as root" for one in refused]
        why = "; ".join(filter(None, (seen.pop("why"), *self._why, *unreadable)))
        known = {**seen, "backend": BPF, "asked": self._level, "layers": [*seen["layers"], COUNTERS]}
        found = of_witness({**known, "disks": counted, "health": health, "why": why})
        return self.finished(found, self._with_paths(found.files))

    def _with_paths(self, files: Sequence[File]) -> list[File]:
        """The files, those without a whole path (open before, or opened from a folder) under those that /proc has."""
        storage = ("regular", "block", "directory")
        nameless = [file for file in files if not file.path.startswith("/") and file.kind in storage]
        paths = self._files.paths
        if any((file.dev, file.inode) not in paths for file in nameless):
            paths = process_table.read(sorted(self._known)).paths | paths
        named = {file.id: paths.get((file.dev, file.inode), file.path) for file in nameless}
        return [replace(file, path=named.get(file.id, file.path)) for file in files]


def attend(running: Attachment, seconds: float, on_attached: Callable[[], object]) -> Observed:
    """Watch what runs already for so long, until it has ended, or until a signal of the user's ends the watch.

    `on_attached` is called when everything is counted, and a signal ends the watch.
    """
    meter = interference.Meter(servers=running.names.values())
    with running:
        meter.begin()
        running.attach()
        started_unix_s, started_s = time.time(), time.monotonic()
        with suppress(KeyboardInterrupt):
            on_attached()
            running.wait(seconds)
        took_s, nowhere = time.monotonic() - started_s, Path(os.devnull)
        outcome = Outcome(0, None, False, started_unix_s, took_s, stdout=nowhere, stderr=nowhere)
        seen = running.observation()
        return Observed(outcome, seen, meter.end(interference.CpuTime()), listed=running.listed)


# Control groups that a user names

_OF_CONTAINER = re.compile(
    r"^(?:(?:docker|libpod|cri-containerd|crio|containerd|nerdctl)-)?([0-9a-f]{64})(?:\.scope)?$"
)
_SHORTEST_ID = 4
_DOCKER = "var/lib/docker/containers"
_PODMAN = "var/lib/containers/storage"
_UNITS = ("{}", "{}.service", "{}.scope", "{}.slice", "machine-{}.scope", "lxc.payload.{}")


def group_of(name: str, root: Path = Path("/")) -> Path:
    """The group of a container, by its id, the beginning of it or its name, or of a systemd unit.

    UsageError when there is none with a process in it, or more than one.
    """
    ids = {known for known, names in _names(root).items() if name in names}
    units = {pattern.format(name) for pattern in _UNITS}
    fitting: dict[str, Path] = {}
    below = (Path(at, name) for tree in _trees(root) for at, names, _ in os.walk(tree.mount) for name in sorted(names))
    for folder in below:
        match = _OF_CONTAINER.match(folder.name)
        container = match[1] if match else ""
        is_begun = len(name) >= _SHORTEST_ID and container.startswith(name.lower())
        if (folder.name in units or container in ids or is_begun) and any(members_of(folder)):
            fitting.setdefault(container or folder.name, folder)
    if len(fitting) > 1:
        raise UsageError(f"--container {name}: more than one fits: {', '.join(sorted(fitting))}; give more of its name")
    if not fitting:
        raise UsageError(
            f"--container {name}: no running container or systemd unit of this id or name has a control group here; "
            f"give its id (docker inspect -f '{{{{.Id}}}}' {name}), --cgroup with its group, or --pid with its process "
            f"(docker inspect -f '{{{{.State.Pid}}}}' {name})"
        )
    return next(iter(fitting.values()))


def group_at(path: str, root: Path = Path("/")) -> Path:
    """The folder of a group: `path` itself, or below a mounted tree as /proc/<pid>/cgroup writes it.

    UsageError when there is none.
    """
    for place in (Path(path), *(tree.mount / path.lstrip("/") for tree in _trees(root))):
        if (place / "cgroup.procs").is_file():
            return place
    raise UsageError(
        f"--cgroup {path}: there is no such control group; those of a process are in /proc/<pid>/cgroup, all of them "
        "below /sys/fs/cgroup"
    )


def _trees(root: Path) -> list[Hierarchy]:
    """Of version 2 first: it alone holds every process in a single group."""
    return sorted(hierarchies(root), key=lambda tree: -tree.version)


def _names(root: Path) -> dict[str, set[str]]:
    """Names of the containers of docker (a file each) and of podman (a file for each storage driver), by their ids."""
    found: dict[str, set[str]] = {}
    of_docker = (root / _DOCKER).glob("*/config.v2.json")
    for path in (*sorted(of_docker), *sorted((root / _PODMAN).glob("*-containers/containers.json"))):
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(table, dict):
            table = [{"id": path.parent.name, "names": [str(table.get("Name", "")).lstrip("/")]}]
        for each in table if isinstance(table, list) else ():
            if isinstance(each, dict) and isinstance(each.get("names"), list):
                found[str(each.get("id"))] = set(map(str, each["names"]))
    return found
