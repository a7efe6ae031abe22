"""Dask clusters for the time of a run: on this host, or jobs of a batch system; and those that run already.

What we start opens no dashboard, encrypts, listens on loopback unless other hosts have to come in, keeps its temporary
files in a folder that goes with it, and is ended with the run. A cluster of others stays as it is. A batch system is
asked for its jobs by its own command, whose output is read as its manual has it (squeue(1) of Slurm, qstat(1) of PBS
and Torque, bjobs(1) of LSF): dask-jobqueue submits and cancels jobs and asks after none, so that a run whose jobs all
fail at once would wait for workers indefinitely.
What Dask logs goes to the debug log: a worker that dies is an event of the run, and the run says what it means.
"""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import debug_log, units
from ioassay.errors import RunError, UsageError
from ioassay.packs.hosts.executors.executor_name import BatchJobs, HostCluster, Scheduler
from ioassay.process import supervisor
from ioassay.runner import worker_pool

if TYPE_CHECKING:
    from distributed import Client


import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ioassay.errors import ToolError

_CONNECT_S = 10.0
_LOGGERS = ("distributed", "distributed.client", "dask_jobqueue", "tornado.application", "tornado.general", "asyncio")
_CONFIGURATION = {
    # The executor counts dead workers itself, and gives up a call after the second one that computed it.
    "distributed.scheduler.allowed-failures": 1000,
    # After this time a cluster ends the nanny of a dead worker. By default it is 15 s, in which a busy machine has not
    # started the next worker.
    "distributed.deploy.lost-worker-timeout": "1h",
    # Logs for Dask's developers, by default 1000 entries each, with what tasks were given in them.
    "distributed.admin.low-level-log-length": 100,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
    # Workers on this host share its terminal. What they would say of their end, the executor says.
    "distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "critical",
    "distributed.nanny.pre-spawn-environ.PYTHONWARNINGS": "ignore",
}


@contextmanager
def on_host(wanted: HostCluster) -> Iterator[Client]:
    """A cluster of worker processes on this host."""
    with ExitStack() as stack:
        folder = stack.enter_context(_prepared())
        import distributed

        cluster = distributed.LocalCluster(
            n_workers=wanted.workers or worker_pool.processors(),
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            security=True,
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False, "extensions": _extensions()},
            dashboard=False,
            worker_dashboard_address="127.0.0.1:0",
            memory_limit=0,
            local_directory=str(folder),
            preload="ioassay.packs.hosts.executors.dask_clusters",
            env={"TMPDIR": str(folder)},
            silence_logs=False,
        )
        stack.callback(_close, cluster)
        yield stack.enter_context(_client(cluster))


@contextmanager
def of_jobs(wanted: BatchJobs) -> Iterator[tuple[Client, SubmittedJobs]]:
    """A cluster of jobs, which the batch system starts when it has room. Certificates lie in the working directory."""
    with ExitStack() as stack:
        folder = stack.enter_context(_prepared(Path()))
        import dask_jobqueue

        classes = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster"}
        try:
            cluster = getattr(dask_jobqueue, classes[wanted.system])(**_job_options(wanted, folder))
        except (RuntimeError, ValueError, OSError) as error:
            raise RunError(f"{wanted.system}: no cluster can be made: {first_line(error)}") from None
        stack.callback(_close_keys, cluster)
        stack.callback(_close, cluster)
        try:
            cluster.sync(_submit, cluster, wanted.jobs)
            client = stack.enter_context(_client(cluster))
        except (RuntimeError, ValueError, OSError) as error:
            raise RunError(f"{wanted.system}: the jobs cannot be submitted: {first_line(error)}") from None
        ids = [job.job_id for job in cluster.workers.values() if job.job_id]
        yield client, SubmittedJobs(wanted.system, ids, folder)


@contextmanager
def running(wanted: Scheduler) -> Iterator[Client]:
    """A client of a scheduler that runs already."""
    address = require_consent(wanted)
    with silenced():
        import distributed

        try:
            client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError) as error:
            raise RunError(
                f"no Dask scheduler answers at {address}: {first_line(error)}; expected one, such as: "
                f"dask scheduler --host {wanted.host} --port {wanted.port}"
            ) from None
        try:
            yield client
        finally:
            _close(client)


def require_consent(wanted: Scheduler) -> str:
    """The address of a scheduler; UsageError where the way there is open and the user has not said that it may be."""
    import dask

    place = f"{wanted.host}:{wanted.port}"
    if dask.config.get("distributed.comm.tls.ca-file", None):
        return f"tls://{place}"
    if wanted.scheme == "tls":
        raise UsageError(
            f"{wanted.text}: Dask's configuration has no certificates (distributed.comm.tls); expected them"
        )
    if not wanted.is_loopback and not wanted.plaintext:
        raise UsageError(
            f"{wanted.text}: nothing would be encrypted, and whoever answers could run programs here; "
            f"set Dask's distributed.comm.tls, or say that this network is trusted: {wanted.text},encryption=none"
        )
    return f"tcp://{place}"


@contextmanager
def _prepared(parent: Path | None = None) -> Iterator[Path]:
    """Dask set up for a cluster of ours, and the folder of its temporary files."""
    with (
        silenced(),
        supervisor.temporary_folder(".ioassay-cluster-", parent) as folder,
    ):
        import dask

        before = dict(os.environ)
        try:
            with dask.config.set({**_CONFIGURATION, "temporary-directory": str(folder)}):
                yield folder
        finally:  # to start a worker with its environment, Dask sets that of this process
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)


@contextmanager
def silenced() -> Iterator[None]:
    """What Dask logs and warns of goes to the debug log."""
    import logging

    import distributed  # noqa: F401  (it sets up its own logging, which is replaced here)

    class Forward(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            debug_log.debug("dask", record.getMessage())

    before = {}
    for logger in map(logging.getLogger, _LOGGERS):
        before[logger] = logger.handlers, logger.propagate
        logger.handlers, logger.propagate = [Forward()], False
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"(distributed|dask|dask_jobqueue)(\..*)?$")
            yield
    finally:
        for logger, (handlers, propagate) in before.items():
            logger.handlers, logger.propagate = handlers, propagate


@contextmanager
def _client(cluster: Any) -> Iterator[Client]:
    import distributed

    client = distributed.Client(cluster, timeout=_CONNECT_S, set_as_default=False)
    try:
        yield client
    finally:
        _close(client)


def _close(closable: Any) -> None:
    """Close a client or a cluster, whatever state it is in; a failed start raises its error here once more."""
    try:
        closable.close(timeout=_CONNECT_S)
    except Exception as error:
        debug_log.info("cluster", f"{type(closable).__name__}: closed with an error: {first_line(error)}")


def _close_keys(cluster: Any) -> None:
    """Remove the files of keys that the cluster keeps open, before their folder goes."""
    for name, file in vars(cluster).items():
        if name.startswith("_job_") and hasattr(file, "close"):
            file.close()


async def _submit(cluster: Any, jobs: int) -> None:
    """Submit jobs, and wait until they are: what the batch system refuses is an error here and no endless wait."""
    cluster.scale(jobs=jobs)
    await cluster._correct_state()


class _NoSpans:
    """In place of Dask's record of spans, which keeps every one of them for its dashboard as long as it runs.

    A span begins whenever no task is under way, so that their number grows with that of trials.
    """

    def __init__(self, scheduler: object) -> None:
        """Called by the scheduler."""

    def observe_tasks(self, tasks: object, code: object, span_metadata: object) -> dict[str, object]:
        """Nothing is noted of tasks."""
        return {}

    def heartbeat(self, worker: object, data: object) -> None:
        """Nothing is kept of what workers measured of spans."""


def _extensions() -> dict[str, Any]:
    from distributed import scheduler

    return {**scheduler.DEFAULT_EXTENSIONS, "spans": _NoSpans}


def _job_options(wanted: BatchJobs, folder: Path) -> Mapping[str, Any]:
    options: dict[str, Any] = {
        "cores": wanted.cores,
        "processes": wanted.cores,
        "python": shlex.quote(sys.executable),
        "memory": units.format_size(wanted.memory_bytes).replace(" ", ""),
        "security": True,
        "shared_temp_directory": str(folder),
        "log_directory": str(folder),
        "scheduler_options": {
            "dashboard_address": "127.0.0.1:0",
            "dashboard": False,
            "extensions": _extensions(),
        },
        "worker_extra_args": ["--no-dashboard", "--preload", "ioassay.packs.hosts.executors.dask_clusters"],
        "silence_logs": False,
    }
    named = {"queue": wanted.queue, "walltime": wanted.walltime, "interface": wanted.interface}
    account = {"lsf": "project"}.get(wanted.system, "account")
    return {**options, **{key: value for key, value in {**named, account: wanted.account}.items() if value}}


def first_line(error: BaseException) -> str:
    """What an error says, on one line: of a command that failed, what it wrote."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "stderr:" in lines[:-1]:
        return lines[lines.index("stderr:") + 1]
    return lines[0] if lines else type(error).__name__


_PATIENCE_S = 30.0
"""How long a busy controller may take to answer."""
_LONGEST_LINE = 200
_MOST_IDS = 4


@dataclass(frozen=True)
class _System:
    """How one batch system is asked."""

    command: Callable[[Sequence[str]], list[str]]
    """Of ids to the words that list their jobs."""
    line: re.Pattern[str]
    """A job in the output: its `id` and its `state`."""
    ended: frozenset[str]
    """States of jobs that are listed and have ended."""
    gone: re.Pattern[str]
    """What it writes of a job that it does not know any more. Any other failure says nothing about the jobs."""


_SYSTEMS: Mapping[str, _System] = {
    "slurm": _System(
        lambda ids: ["squeue", "--noheader", "--states=all", "--format=%i %T", f"--jobs={','.join(ids)}"],
        re.compile(r"^\s*(?P<id>\d+)\S* +(?P<state>\w+)", re.M),
        frozenset(
            {
                *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"),
                *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"),
            }
        ),
        re.compile(r"Invalid job id"),
    ),
    "pbs": _System(
        lambda ids: ["qstat", *ids],
        re.compile(r"^(?P<id>\d+)\S*\s.*\s(?P<state>[A-Z])\s+\S+\s*$", re.M),
        frozenset({"C", "F", "X"}),
        re.compile(r"Unknown Job Id|Job has finished"),
    ),
    "lsf": _System(
        lambda ids: ["bjobs", "-noheader", "-o", "jobid stat", *ids],
        re.compile(r"^\s*(?P<id>\d+) +(?P<state>\w+)", re.M),
        frozenset({"DONE", "EXIT"}),
        re.compile(r"is not found"),
    ),
}


@dataclass(frozen=True)
class SubmittedJobs:
    """Jobs by their ids, and the folder that their logs are in."""

    system: str
    """Of `executor_name.SYSTEMS`."""
    ids: Sequence[str]
    logs: Path

    @property
    def title(self) -> str:
        """How messages call them: `2 jobs (12, 13)`."""
        shown = [*self.ids[:_MOST_IDS], *(["…"] if len(self.ids) > _MOST_IDS else [])]
        return f"{len(self.ids)} job{'s' if len(self.ids) != 1 else ''} ({', '.join(shown)})"

    def left(self) -> Mapping[str, str] | None:
        """State by id of those that wait or run; None where the batch system does not say."""
        how = _SYSTEMS[self.system]
        try:
            answer = supervisor.capture(how.command(self.ids), timeout_s=_PATIENCE_S)
        except ToolError as error:
            debug_log.info("cluster", f"{self.system}: jobs cannot be asked for: {error}")
            return None
        said = f"{answer.stdout}\n{answer.stderr}"
        if answer.exit_code != 0 and not how.gone.search(said):
            debug_log.info("cluster", f"{self.system}: jobs cannot be asked for: {said.strip()[:_LONGEST_LINE]}")
            return None
        states = {match["id"]: match["state"] for match in how.line.finditer(answer.stdout)}
        return {id: state.lower() for id, state in states.items() if id in self.ids and state not in how.ended}

    def last_words(self) -> str:
        """What the log of one of them says last; where none says anything, that."""
        logs = [path for id in self.ids for path in sorted(self.logs.glob(f"*{id}*")) if path.is_file()]
        for path in sorted(logs, key=lambda path: path.suffix != ".err"):  # what it complained of, then all else
            lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
            if lines:
                return f"the log of one says: {lines[-1][:_LONGEST_LINE]}"
        return "their logs are empty"


def dask_setup(worker: object) -> None:
    """Called by Dask in the process of a worker of ours (`preload`): Ctrl-C is for the run, which ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
