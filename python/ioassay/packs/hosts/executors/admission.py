"""Which workers of a Dask cluster may compute: those that are the same program as this one.

Python's version is asked without pickles, since a worker with another one might not even read the question.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ioassay.packs.hosts import host_calls
from ioassay.packs.hosts.executors import remote_calls
from ioassay.runner.program_identity import Identity, identity

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True)
class Worker:
    """A worker that was examined."""

    address: str
    name: str
    threads: int
    refusal: str = ""
    """Why it gets no trial; '' for one that does."""

    @property
    def title(self) -> str:
        """How messages call it."""
        return f"worker '{self.name}' at {self.address}"


def examine(client: Client, addresses: Iterable[str]) -> list[Worker]:
    """Ask workers which program they are; those that have gone meanwhile are left out."""
    wanted, mine = set(addresses), identity()
    known = {address: entry for address, entry in _workers(client).items() if address in wanted}
    versions = client.get_versions()["workers"]
    found = []
    for address, entry in known.items():
        if address not in versions:
            continue
        refusal = _other_python(versions[address], mine)
        found.append(Worker(address, str(entry["name"]), int(entry["nthreads"]), refusal))
    fit = [worker.address for worker in found if not worker.refusal]
    answers = client.run(remote_calls.about, workers=fit, on_error="return") if fit else {}
    answers = {address: answer for address, answer in answers.items() if not isinstance(answer, OSError)}
    return [
        worker if worker.refusal else Worker(worker.address, worker.name, worker.threads, _other_program(answer, mine))
        for worker in found
        if worker.refusal or (answer := answers.get(worker.address)) is not None
    ]


def computing(client: Client) -> list[str]:
    """Addresses of the workers that compute."""
    return [address for address, entry in _workers(client).items() if not _measures(entry)]


def measuring(client: Client) -> list[str]:
    """Addresses of the workers that measure their hosts, and compute nothing."""
    return [address for address, entry in _workers(client).items() if _measures(entry)]


def _measures(entry: Any) -> bool:
    return bool(entry.get("resources", {}).get(host_calls.RESOURCE))


def _workers(client: Client) -> dict[str, Any]:
    """Asked of the scheduler itself, OSError where it does not answer: `Client.scheduler_info` has at times the answer
    to a question of the client's own, which has no workers."""
    found: dict[str, Any] = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return found


def _other_python(said: Any, mine: Identity) -> str:
    seen = ".".join(str(said["packages"]["python"]).split(".")[:2])
    return "" if seen == mine.python else f"it has Python {seen}; wanted {mine.python}"


def _other_program(answer: object, mine: Identity) -> str:
    if not isinstance(answer, Identity):
        return f"it cannot load ioassay {mine.version}: {str(answer) or type(answer).__name__}"
    difference = mine.difference(answer)
    return f"it has {difference}" if difference else ""
