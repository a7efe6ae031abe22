"""One run of any command under the witness, or of what runs already, outside of a study."""

from __future__ import annotations

import errno
import json
import math
import os
import select
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ioassay import _core
from ioassay.errors import StartError, ToolError, UsageError
from ioassay.host import block_devices, cgroup, interference
from ioassay.host.block_devices import ROOT
from ioassay.host.interference import Meter
from ioassay.process import process_table, supervisor
from ioassay.process.job_control import Job, OutputRelay
from ioassay.records.observation import BLOCK, BPF, COUNTERS, EXPLAIN, SYSCALLS, File, Observation, of_witness
from ioassay.records.record import Environment
from ioassay.roles import Outcome
from ioassay.verify.witness.counters import growth
from ioassay.verify.witness.observed_command import AUTO, CallListing, Watching, bpf_unusable, taken_from, watching

_NO_SUCH_PROGRAM, _NOT_EXECUTABLE = 127, 126  # sh(1p), "Exit Status"


@dataclass(frozen=True)
class Observed:
    """How a command ended, and what the witness saw of it."""

    outcome: Outcome
    seen: Observation | None
    """None for level OFF."""
    environment: Environment | None
    """What else used the machine."""
    is_output_truncated: bool = False
    """It printed more than is kept for who reads its claims."""
    unshown: OSError | None = None
    """Why a part of its output could not be shown."""
    was_interrupted: bool = False
    """The user ended it, or asked it to end, by a signal."""
    listed: CallListing | None = None
    """The listing of calls that was asked for."""


def watch(
    argv: Sequence[str],
    level: str,
    folder: Path,
    devices: Sequence[str] = (),
    *,
    backend: str = AUTO,
    layers: Sequence[str] = (),
    stdin: int | None = None,
    shown: tuple[int, int] | None = None,
    reads_output: bool = True,
    server: Attachment | None = None,
    listing: str | None = None,
) -> Observed:
    """Run `argv` to its end; what it prints goes to `stdout` and `stderr` in `folder`, a new folder for each run.

    `level`, `devices`, `backend`, `layers` and `listing` are those of `watching`. With `server` the command is a
    client, and what is watched meanwhile is the server alone. With `shown` the command is a job of the user's terminal,
    and its output goes to these two descriptors, and to the files only with `reads_output`. StartError, with the exit
    status of a shell, when it cannot be started; ToolError when a backend that was asked for by name cannot run.
    """
    meter = Meter(servers=server.names.values() if server else ())
    tag = f"witness of {os.getpid()} in {folder}"
    kept = folder / "stdout", folder / "stderr"
    with (
        OutputRelay(shown, kept if reads_output else ()) if shown else nullcontext() as relay,
        Job(relay) if relay else nullcontext() as job,
        supervisor.if_killed(lambda: _clean_up(tag, job), terminal=job.terminal if job else None),
        server or watching(level, devices, folder, backend=backend, layers=layers, listing=listing) as watched,
    ):
        before = process_table.foster_children()

        def held(pid: int) -> None:
            meter.begin(os.sched_getaffinity(pid))
            watched.held(pid)
            if job:
                job.begin(pid)

        def ended(pid: int) -> None:
            watched.ended(pid)
            if job:
                job.end()

        try:
            outcome = supervisor.run(
                watched.command(argv),
                stdout=kept[0],
                stderr=kept[1],
                timeout_s=math.inf,
                on_held=held,
                on_ended=ended,
                on_wait=job.look if job else None,
                env={supervisor.TRIAL_VARIABLE: tag},
                stdin=stdin,
                outputs=relay.ends if relay else None,
                spare_daemons=True,
            )
        except StartError as error:
            error.exit_code = _NO_SUCH_PROGRAM if error.number == errno.ENOENT else _NOT_EXECUTABLE
            raise
        environment = meter.end(interference.cpu_time(outcome.usage))
        was_interrupted = job is not None and job.was_interrupted(outcome)
        if was_interrupted:
            supervisor.end_orphans(tag)
        adopted = {pid for pid in supervisor.adopted(before) if process_table.group_of(pid) is not None}
        if relay:
            relay.finish()
            if adopted:
                relay.discard()
        seen = _with_outlived(watched.observation(outcome), adopted)
        return Observed(
            outcome,
            seen,
            environment,
            is_output_truncated=relay.is_truncated if relay else False,
            unshown=relay.failure if relay else None,
            was_interrupted=was_interrupted,
            listed=watched.listed,
        )


def attend(running: Attachment, seconds: float, on_attached: Callable[[], object]) -> Observed:
    """Watch what runs already for so long, until it has ended, or until a signal of the user's ends the watch.

    `on_attached` is called when everything is counted, and a signal ends the watch.
    """
    meter = Meter(servers=running.names.values())
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


def _clean_up(tag: str, job: Job | None) -> None:
    """After this process was killed: the terminal is the user's again, and what the command started has ended."""
    if job:
        job.settle()
    supervisor.end_orphans(tag)


def _with_outlived(seen: Observation | None, processes: AbstractSet[int]) -> Observation | None:
    """Daemons left the command's group and were adopted: they go on, and nobody watches them any more."""
    if seen is None or not processes:
        return seen
    number = "1 process" if len(processes) == 1 else f"{len(processes)} processes"
    why = f"{number} outlived the command, and what it left to do was not watched"
    health = {**seen.health, "outlived": len(processes)}
    return replace(seen, health=health, why="; ".join(filter(None, (seen.why, why))))


# Processes that run already, under the witness: nothing of them is stopped, started or changed. The programs are
# attached first. Then every task of the processes, their children and their group is listed and followed, again and
# again until a list has nobody new: whoever is followed has its children followed by the kernel, so none is missed in
# between. What was open is looked up in /proc afterwards, which gives files their paths; flags and identities come from
# the kernel with the first call on a file. The group is listed again while it is watched: processes can join it from
# outside (`docker exec`).

PAUSE_S = 0.25
_MOST_PASSES = 1000


@dataclass(frozen=True)
class Running:
    """What to watch: processes with all that they started, and the group that holds others."""

    pids: tuple[int, ...] = ()
    group: Path | None = None

    def tasks(self) -> tuple[set[int], set[int]]:
        """Ids of the processes, and of their threads beside the first."""
        processes = process_table.descendants(process_table.statuses(), self.pids)
        if self.group is not None:
            processes |= set(cgroup.members_of(self.group))
        return processes, {task for pid in processes for task in process_table.threads(pid)} - processes


def running(pids: Sequence[int], group: Path | None = None) -> Running:
    """What can be watched; UsageError names what cannot, and why."""
    everybody = process_table.statuses()
    for pid in pids:
        if why := _unwatchable(pid, everybody):
            raise UsageError(f"--pid {pid}: {why}")
    if group is not None:
        members = set(cgroup.members_of(group))
        if not members:
            raise UsageError(f"{group}: no process is in this control group")
        if members & _line(everybody):
            raise UsageError(
                f"{group}: ioassay itself, or what started it, is in this control group and would be watched; give a "
                "group below it or --pid"
            )
    return Running(tuple(dict.fromkeys(pids)), group)


def _unwatchable(pid: int, everybody: Mapping[int, process_table.Status]) -> str:
    status = process_table.status(pid)
    if status is None:
        return "there is no such process"
    if pid not in everybody and (leader := process_table.leader(pid)) != pid:
        return f"it is a thread of process {leader}; give --pid {leader}"
    if status.is_kernel_thread:
        return f"'{status.name}' is a thread of the kernel, which makes no system calls"
    if not status.is_alive:
        return "it has ended and waits for its parent"
    if pid in _line(everybody):
        return "ioassay itself is one of its processes and would watch its own work; give the process of the server"
    return ""


def _line(everybody: Mapping[int, process_table.Status]) -> set[int]:
    """This process and those that it descends from."""
    line, pid = {os.getpid()}, os.getppid()
    while pid in everybody and pid not in line:
        line.add(pid)
        pid = everybody[pid].parent
    return line


class Attachment(Watching):
    """Running processes under the witness. Beside a client command it is that command's `Watching`."""

    def __init__(
        self,
        running: Running,
        level: str,
        devices: Collection[str] = (),
        backend: str = AUTO,
        listing: str | None = None,
    ) -> None:
        _check(level, backend)
        self._listing = listing
        self.running, self._level = running, level
        self._devices, self._disks = list(devices), dict[str, dict[str, int]]()
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
            self._follow()
        except OSError as error:
            raise ToolError(f"running processes cannot be watched: {error}") from None
        if self._pidfds and self._look_for_end():
            raise ToolError(f"--pid {self.running.pids[0]}: it ended before it was watched")
        self._files = process_table.read(sorted(self._known))
        numbers = {device for device, _ in self._files.paths}
        links = (ROOT / f"sys/dev/block/{number}" for number in numbers)
        used = {link.resolve().name for link in links if link.exists()}
        self._devices = block_devices.below(sorted({*self._devices, *used}))
        self._disks = block_devices.disk_counters(self._devices)
        self._held_ns = time.monotonic_ns()

    def _follow(self) -> None:
        """Follow everybody who is not followed; a list without anybody new is the last one."""
        assert self._programs is not None
        for _ in range(_MOST_PASSES):
            processes, others = self.running.tasks()
            self._name(processes)
            self._known |= processes
            if not self._programs.adopt(sorted(processes), sorted(others)):
                return
        self._why.append("the processes multiply faster than they can be listed: some may not have been followed")

    def _name(self, processes: AbstractSet[int]) -> None:
        for pid in processes - self.names.keys():
            if (status := process_table.status(pid)) is not None:
                self.names[pid] = status.name

    def wait(self, seconds: float) -> None:
        """Watch for so long, or until the processes have ended."""
        give_up_s = time.monotonic() + seconds
        while (left_s := give_up_s - time.monotonic()) > 0 and not self._look_for_end():
            select.select([], [], [], min(left_s, PAUSE_S))
            group = self.running.group
            if group is not None and (members := set(cgroup.members_of(group)) - self._known):
                assert self._programs is not None
                others = {task for pid in members for task in process_table.threads(pid)} - members
                with suppress(OSError):  # counted as lost by nobody: the next look tries again
                    self._programs.adopt(sorted(members), sorted(others))
                    self._known |= members

    def _look_for_end(self) -> bool:
        over = select.select(self._pidfds, [], [], 0)[0]
        group = self.running.group
        self.has_ended = len(over) == len(self._pidfds) and (group is None or not any(cgroup.members_of(group)))
        return self.has_ended

    def held(self, pid: int) -> None:
        self.attach()

    def observation(self, outcome: Outcome | None = None) -> Observation:
        assert self._programs is not None
        programs, self._programs = self._programs, None
        self._ended_ns = self._ended_ns or time.monotonic_ns()
        seen: dict[str, Any] = json.loads(programs.finish(self._files.paths))
        self.listed = taken_from(seen, self._listing)
        disks = block_devices.disk_counters(self._devices)
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


def _check(level: str, backend: str) -> None:
    if level not in (wanted := (BLOCK, SYSCALLS, EXPLAIN)):
        raise UsageError(f"--level {level}: running processes are watched at level {', '.join(wanted)}")
    if backend not in (AUTO, BPF):
        raise UsageError(f"--backend {backend}: running processes are watched by {BPF} alone; strace would stop them")
    if why := bpf_unusable():
        raise ToolError(f"running processes cannot be watched: {why}")
