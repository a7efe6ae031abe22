"""The worker of a host that measures (`ioassay worker`): it joins a Dask scheduler and leaves everything as it was.

It listens on the address from which it reaches the scheduler, which is loopback for one on loopback, and encrypts with
the certificates of Dask's configuration. No nanny restarts it: its session is lost then, and the run has to know.
Dask pickles functions by name. `open_session` and `measure` are tasks, and a host has one at a time. All else runs in
its event loop, also during a task, and answers at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ioassay import errors
from ioassay.errors import IoassayError, RunError, UsageError
from ioassay.packs.hosts import host_session
from ioassay.packs.hosts.executors import dask_clusters, dask_workers, executor_name, requires
from ioassay.packs.hosts.executors.executor_name import Scheduler
from ioassay.packs.hosts.host_session import Examined, Opening, Release, Session, State
from ioassay.process import supervisor
from ioassay.roles import Trial
from ioassay.runner.hosts import KeptFile, Measured
from ioassay.study.model import ALL_HOSTS, HOST_NAME


@dataclass
class _Here:
    """This host, as `ioassay worker` set it up."""

    folder: Path = field(default_factory=Path)
    """Where relative paths of studies start from."""
    allow_exec: bool = False
    """Whether a load may run programs here, which no check can see."""
    sessions: dict[str, Session] = field(default_factory=dict)


_HERE = _Here()


@dataclass(frozen=True)
class Refusal:
    """Why a host does not measure for a run: the name of a class of `ioassay.errors`, and its message."""

    kind: str
    text: str

    def error(self, host: str) -> IoassayError:
        """The same, raised where the run is."""
        kind = getattr(errors, self.kind, errors.RunError)
        made: IoassayError = kind(host_session.named(self.text, host))
        return made


def open_session(opening: Opening) -> Examined | Refusal:
    """Check what a run wants to measure here, and have a session for it."""
    for token, other in list(_HERE.sessions.items()):
        if not other.is_over and token != opening.token:
            since = time.strftime("%H:%M:%S", time.localtime(other.began_unix_s))
            text = f"measures for another run ('{other.opening.suite.name}', since {since}); wait for it or end it"
            return Refusal("RunError", text)
        other.close()
        del _HERE.sessions[token]
    exec_refused = opening.consent.exec and not _HERE.allow_exec
    if exec_refused:
        opening = replace(opening, consent=replace(opening.consent, exec=False))
    try:
        session = Session(opening, _HERE.folder)
        examined = session.examine()
    except IoassayError as error:
        remedy = "\nIts worker has to allow it as well: ioassay worker --allow-exec"
        text = str(error) + (remedy if exec_refused and isinstance(error, errors.SafetyRefusal) else "")
        return Refusal(type(error).__name__, text)
    if not opening.without_tools:
        _HERE.sessions[opening.token] = session
    return examined


def measure(token: str, trial: Trial, *, together: bool, wait_quiet_s: float) -> Measured:
    """Measure a trial in a session."""
    session = _HERE.sessions.get(token)
    if session is None:
        return Measured(reason="its worker was restarted", is_over=True, began_unix_s=time.time())
    return session.measure(trial, together=together, wait_quiet_s=wait_quiet_s)


def clock() -> float:
    """The time (Unix, s) by this host's clock."""
    return time.time()


def state(token: str) -> State | None:
    """What a session does; None where there is none."""
    session = _HERE.sessions.get(token)
    return session.state() if session is not None else None


def release(token: str, trial_id: str, at: Release) -> None:
    """Have the tool that is held start at an instant."""
    if session := _HERE.sessions.get(token):
        session.release(trial_id, at)


async def close_session(token: str) -> Sequence[KeptFile]:
    """End a session, and say which files stay."""
    session = _HERE.sessions.pop(token, None)
    return await asyncio.to_thread(session.close) if session is not None else ()


def close_all(why: str) -> None:
    """End all sessions: this host leaves."""
    for token in list(_HERE.sessions):
        _HERE.sessions.pop(token).close(why)


_CONNECT_S = 30.0
_CONFIGURATION: Mapping[str, Any] = {
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
    # What a worker does for itself would be done while it measures.
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.limit": "60s",
    "distributed.worker.memory.monitor-interval": "60s",
}


def serve(address: str, name: str, folder: Path, *, allow_exec: bool, said: Callable[[str], None]) -> None:
    """Measure for the runs that a scheduler's clients make, until SIGINT or SIGTERM; `said` is told that it does.

    Relative paths of studies start from `folder`, which becomes the working directory. Loads may run programs only with
    `allow_exec`. UsageError for a network that was not called trusted, RunError where no scheduler answers, has such a
    name already, or goes away.
    """
    if not HOST_NAME.match(name) or name == ALL_HOSTS:
        raise UsageError(
            f"--name {name}: expected letters, digits, '.', '_' and '-', and another name than {ALL_HOSTS}"
        )
    scheduler = executor_name.scheduler(address)
    requires("distributed", "ioassay worker")
    address = dask_clusters.require_consent(scheduler)
    _HERE.folder, _HERE.allow_exec = folder.absolute(), allow_exec
    os.chdir(folder)  # paths of job files start where their tool does
    with dask_clusters.silenced(), supervisor.temporary_folder("ioassay-worker-") as scratch:
        import dask

        with dask.config.set({**_CONFIGURATION, "temporary-directory": str(scratch)}):
            try:
                asyncio.run(_serve(address, scheduler, name, str(scratch), said))
            finally:
                close_all("its worker was stopped")


async def _serve(address: str, scheduler: Scheduler, name: str, scratch: str, said: Callable[[str], None]) -> None:
    import distributed

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        worker = distributed.Worker(
            address,
            name=name,
            nthreads=1,
            resources={dask_workers.RESOURCE: 1},
            host=_own_address(scheduler),
            local_directory=scratch,
            memory_limit=0,
            dashboard=False,
            death_timeout=_CONNECT_S,
        )
        starting = asyncio.ensure_future(worker)
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if stopped.is_set():
            starting.cancel()
            return
        await starting
    except (OSError, ValueError, TimeoutError, RuntimeError) as error:
        raise RunError(_why_not(error, address, name)) from None
    said(f"host {name}: measures for runs of {address}, one trial at a time, in {_HERE.folder}")
    finished = asyncio.ensure_future(worker.finished())
    await asyncio.wait([finished, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not stopped.is_set():
        raise RunError(f"the scheduler at {address} went away; start this worker again when it is back")
    await asyncio.to_thread(close_all, "its worker was stopped")
    await worker.close(timeout=5, reason="ioassay-worker-stopped")


def _own_address(scheduler: Scheduler) -> str:
    """The address of this host on the way to the scheduler; RunError where there is no way."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(
            scheduler.host.strip("[]"), scheduler.port, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.connect(place)  # of datagrams: nothing is sent
            return str(probe.getsockname()[0])
    except OSError as error:
        raise RunError(f"{scheduler.host}: cannot be reached: {error.strerror or error}") from None


def _why_not(error: BaseException, address: str, name: str) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if f"name taken, {name}" in str(cause):
            return f"{address} has a worker called '{name}' already; expected another --name"
        cause = cause.__cause__ or cause.__context__
    text = dask_clusters.first_line(error)
    return f"no Dask scheduler answers at {address}: {text}; start one there: dask scheduler --host ADDRESS"
