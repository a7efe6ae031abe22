"""Executors by name, as `--executor` and studies give them: which workers compute the trials of pure drivers.

    dask:local[,workers=N]                     a Dask cluster on this host, for the time of the run
    dask://HOST:PORT[,encryption=none]         a Dask scheduler that runs already
    slurm:partition=NAME,jobs=N[,…]            jobs of a batch system for the time of the run; also pbs: and lsf:

Dask does the distribution; what is added here is that no trial is lost, that only workers of the same program compute,
and that input files are where they are needed (docs/cluster.md). Dask is imported only when an executor is opened.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import units
from ioassay.errors import UsageError
from ioassay.hints import suggestion
from ioassay.runner import executors, worker_pool

if TYPE_CHECKING:
    from ioassay.packs.hosts.executors.dask_clusters import SubmittedJobs
    from ioassay.roles import Consent
    from ioassay.runner.executors import Hosts, Said
    from ioassay.study.model import Suite


_MOST_WORKERS = 10_000


@dataclass(frozen=True)
class HostCluster:
    workers: int | None = None
    """None: one for each processor."""


@dataclass(frozen=True)
class Scheduler:
    host: str
    port: int
    plaintext: bool = False
    """The user has said that nothing is encrypted, and that no program there proves who it is."""
    scheme: str = "dask"

    @property
    def text(self) -> str:
        """As the user writes it, without what is said of the network."""
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of this host can be at the other end, or listen."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True)
class BatchJobs:
    """Jobs of a batch system, each with a worker for each of its cores."""

    system: str
    jobs: int
    queue: str = ""
    """Slurm calls it a partition."""
    account: str = ""
    cores: int = 1
    memory_bytes: int = 2 * 2**30
    walltime: str = ""
    """As the batch system writes it; '' for its default of Dask's configuration."""
    interface: str = ""
    """Network interface that the nodes share; '' for the one of the host's name."""


ExecutorName = HostCluster | Scheduler | BatchJobs


@dataclass(frozen=True)
class BatchSystem:
    """One batch system: how its jobs are named and submitted, and how it is asked for them."""

    queue: str
    """What it calls a queue."""
    cluster: str
    """The class of dask-jobqueue."""
    account: str
    """What that class calls an account."""
    command: Sequence[str]
    """Lists jobs, whose ids follow: joined by commas where it ends with '='."""
    line: str
    """Pattern of a job in the output: its `id` and its `state`."""
    ended: str
    """States of jobs that are listed and have ended."""
    gone: str
    """Pattern of what it writes of a job that it does not know any more. Any other failure says nothing of the jobs."""


SYSTEMS = {
    name: BatchSystem(**row)
    for name, row in tomllib.loads(Path(__file__).with_name("batch_systems.toml").read_text(encoding="utf-8")).items()
}


def read(text: str) -> ExecutorName:
    """What a name means. UsageError names the part that is wrong."""
    kind, _, rest = text.partition(":")
    if kind in SYSTEMS:
        keys = _keys(f"--executor {text}", rest, batch_keys(kind))
        if "jobs" not in keys:
            raise UsageError(f"--executor {text}: has no jobs; expected how many to submit, such as {kind}:jobs=4")
        if odd := [key for key, value in keys.items() if not re.fullmatch(r"[\w.:@%+-]+", value)]:
            raise UsageError(f"--executor {text}: {odd[0]} is '{keys[odd[0]]}'; expected a name or a number")
        given: dict[str, Any] = {key: keys[key] for key in ("account", "walltime", "interface") if key in keys}
        given |= {key: _number(text, keys, key) for key in ("jobs", "cores") if key in keys}
        try:
            given |= {"memory_bytes": units.parse_size(keys["memory"])} if "memory" in keys else {}
        except ValueError as error:
            raise UsageError(f"--executor {text}: memory: {error}") from None
        return BatchJobs(kind, queue=keys.get(SYSTEMS[kind].queue, ""), **given)
    if kind == "dask" and rest.startswith("//"):
        return _scheduler(f"--executor {text}", rest.removeprefix("//"))
    if kind == "dask" and rest.split(",")[0] == "local":
        keys = _keys(f"--executor {text}", rest.partition(",")[2], ("workers",))
        return HostCluster(_number(text, keys, "workers") if "workers" in keys else None)
    raise executors.wrong(text)


def scheduler(text: str) -> Scheduler:
    """The scheduler that a worker joins: `tcp://HOST:PORT[,encryption=none]`, or tls:// where that is demanded."""
    scheme, mark, rest = text.partition("://")
    if not mark or scheme not in ("tcp", "tls"):
        raise UsageError(
            f"'{text}' is no address of a scheduler; expected tcp://HOST:PORT, such as tcp://10.0.0.1:8786"
        )
    return _scheduler(text, rest, scheme)


def _scheduler(named: str, rest: str, scheme: str = "dask") -> Scheduler:
    place, _, words = rest.partition(",")
    keys = _keys(named, words, ("encryption",))
    if keys.get("encryption", "none") != "none":
        raise UsageError(f"{named}: encryption is '{keys['encryption']}'; expected none, or no such key")
    host, mark, port = place.rpartition(":")
    if not mark or not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UsageError(f"{named}: the address is '{place}'; expected HOST:PORT such as localhost:8786")
    return Scheduler(host, int(port), plaintext="encryption" in keys, scheme=scheme)


def batch_keys(system: str) -> tuple[str, ...]:
    return SYSTEMS[system].queue, "jobs", "account", "cores", "memory", "walltime", "interface"


def _keys(named: str, words: str, known: tuple[str, ...]) -> Mapping[str, str]:
    """`key=value` by key; only known ones, each once and with a value."""
    keys: dict[str, str] = {}
    for word in words.split(",") if words else ():
        key, _, value = word.partition("=")
        if key not in known:
            raise UsageError(f"{named}: no such key '{key}'; {suggestion(key, known)}")
        if not value or key in keys:
            raise UsageError(f"{named}: {key} is given {'twice' if value else 'no value'}; expected {key}=…")
        keys[key] = value
    return keys


def _number(text: str, keys: Mapping[str, str], key: str) -> int:
    value = keys[key]
    if not value.isdecimal() or not 0 < int(value) <= _MOST_WORKERS:
        raise UsageError(f"--executor {text}: {key} is '{value}'; expected a number from 1 to {_MOST_WORKERS}")
    return int(value)


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
    meant = read(address)
    requires("dask_jobqueue" if isinstance(meant, BatchJobs) else "distributed", f"--executor {address}")
    if isinstance(meant, Scheduler):
        from ioassay.packs.hosts.executors import dask_clusters

        dask_clusters.require_consent(meant)
    return meant


class DaskOpener(executors.Opener):
    forms: Mapping[str, str] = {"dask": "dask:local, dask://HOST:PORT", "slurm": "slurm:partition=NAME,jobs=N"}
    libraries = ("distributed",)

    @contextmanager
    def __call__(self, address: str, said: Said) -> Iterator[Executor]:
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
            for key in batch_keys(system):
                if key not in used:
                    yield f"{system}:{begun}{',' if begun else ''}{key}="

    @contextmanager
    def adapted(self, executor: Executor, said: Said) -> Iterator[Executor]:
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
        if not isinstance(read(address), Scheduler):
            return None
        scheduler = _usable(address)
        assert isinstance(scheduler, Scheduler)
        from ioassay.packs.hosts import fleet

        return fleet.opened(scheduler, address, suite, consent, said, without_tools=without_tools)


OPENER = DaskOpener()
