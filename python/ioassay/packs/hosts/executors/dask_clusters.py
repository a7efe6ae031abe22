"""Dask clusters for the time of a run: on this host, or jobs of a batch system; and those that run already.

What we start opens no dashboard, encrypts, listens on loopback unless other hosts have to come in, keeps its temporary
files in a folder that goes with it, and is ended with the run. A cluster of others stays as it is. dask-jobqueue
submits and cancels jobs and asks after none, so that a run whose jobs all fail at once would wait for workers
indefinitely: the batch system is asked by its own command. What Dask logs goes to the debug log.

Workers of a cluster may compute where they are the same program as this one. Python's version is asked without pickles,
since a worker with another one might not even read the question. Dask pickles functions by name, so that a worker
without ioassay fails to load them and runs nothing.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import debug_log, units
from ioassay.errors import RunError, ToolError, UsageError
from ioassay.packs.hosts.executors import SYSTEMS, BatchJobs, HostCluster, Scheduler
from ioassay.process import supervisor
from ioassay.runner import delivery, worker_pool
from ioassay.runner.delivery import Cache, Identity, Part, UnfitWorker

if TYPE_CHECKING:
    import distributed
    from distributed import Client


_CONNECT_S = 10.0
_LOGGERS = ("distributed", "distributed.client", "dask_jobqueue", "tornado.application", "tornado.general", "asyncio")


def configured(part: str, folder: Path) -> AbstractContextManager[object]:
    """Dask as dask.toml sets it for a `cluster` of ours or a `worker` that measures; its files are in the folder."""
    import dask

    table = tomllib.loads(Path(__file__).with_name("dask.toml").read_text(encoding="utf-8"))
    found: AbstractContextManager[object] = dask.config.set({**table[part], "temporary-directory": str(folder)})
    return found


@contextmanager
def on_host(wanted: HostCluster) -> Iterator[Client]:
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
            scheduler_kwargs=_scheduler_options(),
            dashboard=False,
            worker_dashboard_address="127.0.0.1:0",
            memory_limit=0,
            local_directory=str(folder),
            preload=__name__,
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

        of_system = SYSTEMS[wanted.system]
        named = {"queue": wanted.queue, "walltime": wanted.walltime, "interface": wanted.interface}
        named[of_system.account] = wanted.account
        try:
            cluster = getattr(dask_jobqueue, of_system.cluster)(
                cores=wanted.cores,
                processes=wanted.cores,
                python=shlex.quote(sys.executable),
                memory=units.format_size(wanted.memory_bytes).replace(" ", ""),
                security=True,
                shared_temp_directory=str(folder),
                log_directory=str(folder),
                scheduler_options={"dashboard_address": "127.0.0.1:0", **_scheduler_options()},
                worker_extra_args=["--no-dashboard", "--preload", __name__],
                silence_logs=False,
                **{key: value for key, value in named.items() if value},
            )
        except (RuntimeError, ValueError, OSError) as error:
            raise RunError(f"{wanted.system}: no cluster can be made: {first_line(error)}") from None
        for name, file in vars(cluster).items():  # files of keys, which are removed before their folder goes
            if name.startswith("_job_") and hasattr(file, "close"):
                stack.callback(file.close)
        stack.callback(_close, cluster)

        async def submit() -> None:
            cluster.scale(jobs=wanted.jobs)
            await cluster._correct_state()  # what the batch system refuses is an error here and no endless wait

        try:
            cluster.sync(submit)
            client = stack.enter_context(_client(cluster))
        except (RuntimeError, ValueError, OSError) as error:
            raise RunError(f"{wanted.system}: the jobs cannot be submitted: {first_line(error)}") from None
        ids = [job.job_id for job in cluster.workers.values() if job.job_id]
        yield client, SubmittedJobs(wanted.system, ids, folder)


@contextmanager
def running(wanted: Scheduler) -> Iterator[Client]:
    address = require_consent(wanted)
    with ExitStack() as stack:
        stack.enter_context(silenced())
        try:
            client = stack.enter_context(_client(address))
        except (OSError, TimeoutError) as error:
            raise RunError(
                f"no Dask scheduler answers at {address}: {first_line(error)}; expected one, such as: "
                f"dask scheduler --host {wanted.host} --port {wanted.port}"
            ) from None
        yield client


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
    with silenced(), supervisor.temporary_folder(".ioassay-cluster-", parent) as folder:
        before = dict(os.environ)
        try:
            with configured("cluster", folder):
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
def _client(cluster_or_address: Any) -> Iterator[Client]:
    import distributed

    client = distributed.Client(cluster_or_address, timeout=_CONNECT_S, set_as_default=False)
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


class _NoSpans:
    """In place of Dask's record of spans, which keeps every one of them for its dashboard as long as it runs.

    A span begins whenever no task is under way, so that their number grows with that of trials.
    """

    def __init__(self, scheduler: object) -> None:
        """Called by the scheduler."""

    def observe_tasks(self, tasks: object, code: object, span_metadata: object) -> dict[str, object]:
        return {}

    def heartbeat(self, worker: object, data: object) -> None:
        """Nothing is kept of what workers measured of spans."""


def _scheduler_options() -> dict[str, Any]:
    from distributed import scheduler

    return {"dashboard": False, "extensions": {**scheduler.DEFAULT_EXTENSIONS, "spans": _NoSpans}}


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
class SubmittedJobs:
    """Jobs by their ids, and the folder that their logs are in."""

    system: str
    """Of `SYSTEMS`."""
    ids: Sequence[str]
    logs: Path

    @property
    def title(self) -> str:
        """How messages call them: `2 jobs (12, 13)`."""
        shown = [*self.ids[:_MOST_IDS], *(["…"] if len(self.ids) > _MOST_IDS else [])]
        return f"{len(self.ids)} job{'s' if len(self.ids) != 1 else ''} ({', '.join(shown)})"

    def left(self) -> Mapping[str, str] | None:
        """State by id of those that wait or run; None where the batch system does not say."""
        how = SYSTEMS[self.system]
        *words, last = how.command
        ids = [last + ",".join(self.ids)] if last.endswith("=") else [last, *self.ids]
        try:
            answer = supervisor.capture([*words, *ids], timeout_s=_PATIENCE_S)
        except ToolError as error:
            debug_log.info("cluster", f"{self.system}: jobs cannot be asked for: {error}")
            return None
        said = f"{answer.stdout}\n{answer.stderr}"
        if answer.exit_code != 0 and not re.search(how.gone, said):
            debug_log.info("cluster", f"{self.system}: jobs cannot be asked for: {said.strip()[:_LONGEST_LINE]}")
            return None
        states = {match["id"]: match["state"] for match in re.finditer(how.line, answer.stdout, re.M)}
        return {id: state.lower() for id, state in states.items() if id in self.ids and state not in how.ended.split()}

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


RESOURCE = "ioassay-measures"
"""A worker that has one of it measures, and computes nothing."""


@dataclass(frozen=True)
class Worker:
    address: str
    name: str
    threads: int
    refusal: str = ""
    """Why it gets no trial; '' for one that does."""

    @property
    def title(self) -> str:
        return f"worker '{self.name}' at {self.address}"


def examine(client: Client, addresses: Iterable[str]) -> list[Worker]:
    """Ask workers which program they are; those that have gone meanwhile are left out."""
    wanted, mine = set(addresses), delivery.identity()
    known = {address: entry for address, entry in _workers(client).items() if address in wanted}
    versions = client.get_versions()["workers"]
    found = []
    for address, entry in known.items():
        if address not in versions:
            continue
        seen = ".".join(str(versions[address]["packages"]["python"]).split(".")[:2])
        refusal = "" if seen == mine.python else f"it has Python {seen}; expected {mine.python}"
        found.append(Worker(address, str(entry["name"]), int(entry["nthreads"]), refusal))
    fit = [worker.address for worker in found if not worker.refusal]
    answers = client.run(about, workers=fit, on_error="return") if fit else {}
    answers = {address: answer for address, answer in answers.items() if not isinstance(answer, OSError)}
    judged = []
    for worker in found:
        answer, refusal = answers.get(worker.address), worker.refusal
        if not refusal and answer is None:
            continue
        if not refusal and isinstance(answer, Identity):
            refusal = f"it has {difference}" if (difference := mine.difference(answer)) else ""
        elif not refusal:
            refusal = f"it cannot load ioassay {mine.version}: {str(answer) or type(answer).__name__}"
        judged.append(replace(worker, refusal=refusal))
    return judged


def addresses(client: Client, *, measuring: bool) -> list[str]:
    """Of the workers that compute, or of those that measure their hosts and compute nothing."""
    workers = _workers(client).items()
    return [address for address, entry in workers if bool(entry.get("resources", {}).get(RESOURCE)) is measuring]


def _workers(client: Client) -> dict[str, Any]:
    """Asked of the scheduler itself, OSError where it does not answer: `Client.scheduler_info` has at times the answer
    to a question of the client's own, which has no workers."""
    found: dict[str, Any] = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return found


@dataclass(frozen=True)
class Answer:
    """What a call gave and which worker it ran on; `unfit` says why that one must not have another call."""

    address: str
    value: Any = None
    unfit: str = ""


def about() -> Identity:
    """Of this module, so that a worker which cannot load it is refused."""
    return delivery.identity()


def receive(part: Part, dask_worker: distributed.Worker) -> bool:
    """Keep a piece of an input file; True once the file is whole. Dask says which worker this is."""
    return Cache(Path(dask_worker.local_directory) / delivery.INPUTS).receive(part)


def answer(function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]) -> Answer:
    """Call a function; trials are computed in the worker's own folder."""
    from distributed import get_worker

    here = get_worker()
    if function is delivery.compute:
        options = {**options, "folder": Path(here.local_directory)}
    try:
        return Answer(here.address, function(*arguments, **options))
    except UnfitWorker as error:
        return Answer(here.address, unfit=str(error))
