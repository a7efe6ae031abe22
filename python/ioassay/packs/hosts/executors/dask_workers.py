"""Which workers of a Dask cluster may compute (those that are the same program as this one), and what runs on them.

Python's version is asked without pickles, since a worker with another one might not even read the question. Dask
pickles functions by name, so that a worker without ioassay fails to load them and runs nothing. Each worker keeps its
files in its own folder, which its nanny removes when the worker is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay.runner import delivery
from ioassay.runner.delivery import Cache, Identity, Part, UnfitWorker

if TYPE_CHECKING:
    import distributed
    from distributed import Client


RESOURCE = "ioassay-measures"
"""A worker that has one of it measures, and computes nothing."""


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
    return [
        worker if worker.refusal else Worker(worker.address, worker.name, worker.threads, _other_program(answer, mine))
        for worker in found
        if worker.refusal or (answer := answers.get(worker.address)) is not None
    ]


def addresses(client: Client, *, measuring: bool) -> list[str]:
    """Of the workers that compute, or of those that measure their hosts and compute nothing."""
    workers = _workers(client).items()
    return [address for address, entry in workers if bool(entry.get("resources", {}).get(RESOURCE)) is measuring]


def _workers(client: Client) -> dict[str, Any]:
    """Asked of the scheduler itself, OSError where it does not answer: `Client.scheduler_info` has at times the answer
    to a question of the client's own, which has no workers."""
    found: dict[str, Any] = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return found


def _other_program(answer: object, mine: Identity) -> str:
    if not isinstance(answer, Identity):
        return f"it cannot load ioassay {mine.version}: {str(answer) or type(answer).__name__}"
    difference = mine.difference(answer)
    return f"it has {difference}" if difference else ""


@dataclass(frozen=True)
class Answer:
    """What a call gave and which worker it ran on; `unfit` says why that one must not have another call."""

    address: str
    value: Any = None
    unfit: str = ""


def about() -> Identity:
    """Which program the worker is."""
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
