"""Executors by name for trials that only compute: a Dask cluster on this host, elsewhere, or of a batch system.

`opened` gives an executor for `runner.run.execute`. Dask does the distribution; what is added here is that no trial is
lost, that only workers of the same program compute, and that input files are where they are needed (docs/cluster.md).
Dask is imported only when an executor is opened that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ioassay.cluster import executor_name
from ioassay.cluster.executor_name import BatchJobs, HostCluster, Installed, OwnProcesses, Scheduler
from ioassay.errors import UsageError
from ioassay.hints import document
from ioassay.runner import executors, worker_pool

if TYPE_CHECKING:
    from ioassay.cluster.batch_jobs import SubmittedJobs
    from ioassay.cluster.fleet import Fleet

__all__ = ["adapted", "hosts", "opened", "places", "requires"]

_PATIENCE_S = 60.0
"""How long a cluster of which no batch system decides may be without a worker."""
_OF_HOST = "see what --log-level debug says of its workers"


def places(name: str) -> int | None:
    """How many trials an executor computes at once, as its name says; None where only its scheduler knows.

    UsageError for a name that is wrong, where what it needs is not installed, and for a network that the user did not
    call trusted.
    """
    wanted = executor_name.read(name)
    if isinstance(wanted, OwnProcesses):
        return worker_pool.processors()
    if isinstance(wanted, Installed):
        return None
    requires("dask_jobqueue" if isinstance(wanted, BatchJobs) else "distributed", f"--executor {name}")
    if isinstance(wanted, Scheduler):
        from ioassay.cluster import dask_clusters

        dask_clusters.require_consent(wanted)
    if isinstance(wanted, HostCluster):
        return wanted.workers or worker_pool.processors()
    return wanted.jobs * wanted.cores if isinstance(wanted, BatchJobs) else None


def requires(package: str, what: str) -> None:
    """UsageError where a package is not installed that `what` needs."""
    if find_spec(package) is None:
        raise UsageError(f"{what} needs {package}; install it: pip install 'ioassay[cluster]'")


@contextmanager
def opened(name: str, said: Callable[[str], None] = lambda text: None) -> Iterator[Executor | None]:
    """The executor called `name`, for as long as the context lasts; None for `local`, which the runner makes itself.

    `said` is told of workers that are refused and of jobs that do not start. Raises UsageError for a name that is
    wrong and for an extra that is not installed, RunError where no scheduler answers and where a batch system takes
    no jobs.
    """
    places(name)
    wanted = executor_name.read(name)
    if isinstance(wanted, OwnProcesses):
        yield None
        return
    if isinstance(wanted, Installed):
        with executors.opened(name) as executor:
            yield executor
        return
    from ioassay.cluster import dask_clusters

    title = name.split(",", 1)[0] if not isinstance(wanted, BatchJobs) else wanted.system
    jobs: SubmittedJobs | None = None
    remedy = ""
    with ExitStack() as stack:
        if isinstance(wanted, HostCluster):
            client, remedy = stack.enter_context(dask_clusters.on_host(wanted)), _OF_HOST
        elif isinstance(wanted, BatchJobs):
            client, jobs = stack.enter_context(dask_clusters.of_jobs(wanted))
            said(f"{title}: submitted {jobs.title}; the run begins with the first that starts")
        else:
            client = stack.enter_context(dask_clusters.running(wanted))
            remedy = f"start one: dask worker tcp://{wanted.host}:{wanted.port}"
        from ioassay.cluster.dask_executor import DaskExecutor

        on_dask = DaskExecutor(client, title, remedy, None if jobs is not None else _PATIENCE_S, said, jobs)
        try:
            yield on_dask
        finally:
            on_dask.shutdown(cancel_futures=True)


@contextmanager
def adapted(executor: Executor, said: Callable[[str], None] = lambda text: None) -> Iterator[Executor]:
    """An executor of the caller's; what `Client.get_executor` of Dask gave becomes one that loses nothing."""
    if not type(executor).__module__.startswith("distributed."):
        yield executor
        return
    from ioassay.cluster.dask_executor import DaskExecutor

    client = executor._client  # type: ignore[attr-defined]
    ours = DaskExecutor(client, client.scheduler.address, "start a worker", _PATIENCE_S, said)
    try:
        yield ours
    finally:
        ours.shutdown(cancel_futures=True)


@contextmanager
def hosts(name: str) -> Iterator[Fleet]:
    """The hosts that measure at a scheduler, by the executor's name; their sessions are closed with the context.

    UsageError for an executor that has no such hosts, RunError where no scheduler answers.
    """
    wanted = executor_name.read(name)
    if not isinstance(wanted, Scheduler):
        raise UsageError(
            f"--executor {name} computes, and measures no hosts; wanted the scheduler that the hosts have joined: "
            f"dask://HOST:PORT; see {document('hosts')}"
        )
    places(name)
    from ioassay.cluster import dask_clusters

    with dask_clusters.running(wanted) as client:
        from ioassay.cluster.fleet import Fleet

        join = f"ioassay worker {client.scheduler.address}{',encryption=none' if wanted.plaintext else ''}"
        fleet = Fleet(client, wanted.text, join)
        try:
            yield fleet
        finally:
            fleet.close()
