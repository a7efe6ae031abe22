"""Executors by name for trials that only compute: a Dask cluster on this host, elsewhere, or of a batch system.

Dask does the distribution; what is added here is that no trial is lost, that only workers of the same program compute,
and that input files are where they are needed (docs/cluster.md). Dask is imported only when an executor is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ioassay.errors import UsageError
from ioassay.packs.hosts.executors import executor_name
from ioassay.packs.hosts.executors.executor_name import SYSTEMS, BatchJobs, ExecutorName, HostCluster, Scheduler
from ioassay.runner import executors, worker_pool

if TYPE_CHECKING:
    from ioassay.packs.hosts.executors.dask_clusters import SubmittedJobs
    from ioassay.roles import Consent
    from ioassay.runner.executors import Said
    from ioassay.runner.hosts import Hosts
    from ioassay.study.model import Suite

_PATIENCE_S = 60.0
"""How long a cluster of which no batch system decides may be without a worker."""
_OF_HOST = "see what --log-level debug says of its workers"


def requires(package: str, what: str) -> None:
    """UsageError where a package is not installed that `what` needs."""
    if find_spec(package) is None:
        raise UsageError(f"{what} needs {package}; install it: pip install 'ioassay[cluster]'")


def _usable(address: str) -> ExecutorName:
    """What an address means. UsageError also where what it needs is not installed, and for a network that the user did
    not call trusted."""
    meant = executor_name.read(address)
    requires("dask_jobqueue" if isinstance(meant, BatchJobs) else "distributed", f"--executor {address}")
    if isinstance(meant, Scheduler):
        from ioassay.packs.hosts.executors import dask_clusters

        dask_clusters.require_consent(meant)
    return meant


class DaskOpener(executors.Opener):
    """All of them: each is a Dask cluster."""

    forms: Mapping[str, str] = {"dask": "dask:local, dask://HOST:PORT", "slurm": "slurm:partition=NAME,jobs=N"}
    libraries = ("distributed",)

    @contextmanager
    def __call__(self, address: str, said: Said) -> Iterator[Executor]:
        """See Opener."""
        meant = _usable(address)
        from ioassay.packs.hosts.executors import dask_clusters

        title = address.split(",", 1)[0] if not isinstance(meant, BatchJobs) else meant.system
        jobs: SubmittedJobs | None = None
        remedy = ""
        with ExitStack() as stack:
            if isinstance(meant, HostCluster):
                client, remedy = stack.enter_context(dask_clusters.on_host(meant)), _OF_HOST
            elif isinstance(meant, BatchJobs):
                client, jobs = stack.enter_context(dask_clusters.of_jobs(meant))
                said(f"{title}: submitted {jobs.title}; the run begins with the first that starts")
            else:
                client = stack.enter_context(dask_clusters.running(meant))
                remedy = f"start one: dask worker tcp://{meant.host}:{meant.port}"
            from ioassay.packs.hosts.executors.dask_executor import DaskExecutor

            on_dask = DaskExecutor(client, title, remedy, None if jobs is not None else _PATIENCE_S, said, jobs)
            stack.callback(on_dask.shutdown, cancel_futures=True)
            yield on_dask

    def places(self, address: str) -> int | None:
        """See Opener."""
        meant = _usable(address)
        if isinstance(meant, HostCluster):
            return meant.workers or worker_pool.processors()
        return meant.jobs * meant.cores if isinstance(meant, BatchJobs) else None

    def offers(self, text: str) -> Iterator[str]:
        """See Opener: the kinds, and the keys of a batch system."""
        yield from ("dask:local", "dask:local,workers=", "dask://", *(f"{system}:" for system in SYSTEMS))
        system, colon, keys = text.partition(":")
        if colon and system in SYSTEMS:
            begun = keys.rpartition(",")[0]
            used = {pair.partition("=")[0] for pair in begun.split(",")}
            for key in executor_name.batch_keys(system):
                if key not in used:
                    yield f"{system}:{begun}{',' if begun else ''}{key}="

    @contextmanager
    def adapted(self, executor: Executor, said: Said) -> Iterator[Executor]:
        """See Opener: what `Client.get_executor` of Dask gave."""
        from ioassay.packs.hosts.executors.dask_executor import DaskExecutor

        client = executor._client  # type: ignore[attr-defined]
        ours = DaskExecutor(client, client.scheduler.address, "start a worker", _PATIENCE_S, said)
        try:
            yield ours
        finally:
            ours.shutdown(cancel_futures=True)

    def measuring(
        self, address: str, suite: Suite, consent: Consent, said: Said, *, without_tools: bool
    ) -> tuple[Suite, Hosts] | None:
        """See Opener: the hosts that have joined a scheduler."""
        if not isinstance(executor_name.read(address), Scheduler):
            return None
        scheduler = _usable(address)
        assert isinstance(scheduler, Scheduler)
        from ioassay.packs.hosts import fleet

        return fleet.opened(scheduler, address, suite, consent, said, without_tools=without_tools)


OPENER = DaskOpener()
