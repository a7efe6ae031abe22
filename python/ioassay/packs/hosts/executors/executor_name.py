"""Names of executors, as `--executor` and studies give them: which workers compute the trials of pure drivers.

    dask:local[,workers=N]                     a Dask cluster on this host, for the time of the run
    dask://HOST:PORT[,encryption=none]         a Dask scheduler that runs already
    slurm:partition=NAME,jobs=N[,…]            jobs of a batch system for the time of the run; also pbs: and lsf:

Only text is read here. Whether anything answers at an address, `opened` finds out.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ioassay import units
from ioassay.errors import UsageError
from ioassay.hints import suggestion
from ioassay.runner import executors

_MOST_WORKERS = 10_000


@dataclass(frozen=True)
class HostCluster:
    """A Dask cluster on this host."""

    workers: int | None = None
    """None: one for each processor."""


@dataclass(frozen=True)
class Scheduler:
    """A Dask scheduler that runs already."""

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

SYSTEMS = {"slurm": "partition", "pbs": "queue", "lsf": "queue"}
"""Batch systems, and what each calls a queue."""


def read(text: str) -> ExecutorName:
    """What a name means. UsageError names the part that is wrong."""
    kind, _, rest = text.partition(":")
    if kind in SYSTEMS:
        return _jobs(text, kind, rest)
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
    """What a name of jobs of that batch system may say."""
    return SYSTEMS[system], "jobs", "account", "cores", "memory", "walltime", "interface"


def _jobs(text: str, system: str, rest: str) -> BatchJobs:
    keys = _keys(f"--executor {text}", rest, batch_keys(system))
    if "jobs" not in keys:
        raise UsageError(f"--executor {text}: has no jobs; expected how many to submit, such as {system}:jobs=4")
    if odd := [key for key, value in keys.items() if not re.fullmatch(r"[\w.:@%+-]+", value)]:
        raise UsageError(f"--executor {text}: {odd[0]} is '{keys[odd[0]]}'; expected a name or a number")
    given: dict[str, Any] = {key: keys[key] for key in ("account", "walltime", "interface") if key in keys}
    given |= {key: _number(text, keys, key) for key in ("jobs", "cores") if key in keys}
    try:
        given |= {"memory_bytes": units.parse_size(keys["memory"])} if "memory" in keys else {}
    except ValueError as error:
        raise UsageError(f"--executor {text}: memory: {error}") from None
    return BatchJobs(system, queue=keys.get(SYSTEMS[system], ""), **given)


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
