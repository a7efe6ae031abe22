"""The worker of a host that measures: it joins a Dask scheduler and leaves everything as it was.

It listens on the address from which it reaches the scheduler, which is loopback for one on loopback, and encrypts with
the certificates of Dask's configuration. No nanny restarts it: its session is lost then, and the run has to know.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ioassay.errors import RunError, UsageError
from ioassay.packs.hosts import host_calls
from ioassay.packs.hosts.executors import dask_clusters, executor_name, requires
from ioassay.packs.hosts.executors.executor_name import Scheduler
from ioassay.process import supervisor
from ioassay.study.model import ALL_HOSTS, HOST_NAME

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
        raise UsageError(f"--name {name}: wanted letters, digits, '.', '_' and '-', and another name than {ALL_HOSTS}")
    scheduler = executor_name.scheduler(address)
    requires("distributed", "ioassay worker")
    address = dask_clusters.require_consent(scheduler)
    host_calls.set_up(folder, allow_exec=allow_exec)
    os.chdir(folder)  # paths of job files start where their tool does
    with dask_clusters.silenced(), supervisor.temporary_folder("ioassay-worker-") as scratch:
        import dask

        with dask.config.set({**_CONFIGURATION, "temporary-directory": str(scratch)}):
            try:
                asyncio.run(_serve(address, scheduler, name, str(scratch), said))
            finally:
                host_calls.close_all("its worker was stopped")


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
            resources={host_calls.RESOURCE: 1},
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
    said(f"host {name}: measures for runs of {address}, one trial at a time, in {host_calls.folder()}")
    finished = asyncio.ensure_future(worker.finished())
    await asyncio.wait([finished, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not stopped.is_set():
        raise RunError(f"the scheduler at {address} went away; start this worker again when it is back")
    await asyncio.to_thread(host_calls.close_all, "its worker was stopped")
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
            return f"{address} has a worker called '{name}' already; wanted another --name"
        cause = cause.__cause__ or cause.__context__
    text = dask_clusters.first_line(error)
    return f"no Dask scheduler answers at {address}: {text}; start one there: dask scheduler --host ADDRESS"
