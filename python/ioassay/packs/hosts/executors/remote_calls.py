"""What runs on a Dask worker: who it is, a piece of an input file, a trial.

Dask pickles these functions by name, so that a worker without ioassay fails to load them and runs nothing.
Each worker keeps its files in its own folder, which its nanny removes when the worker is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay.runner import delivery, program_identity
from ioassay.runner.delivery import UnfitWorker
from ioassay.runner.input_files import Cache, Part
from ioassay.runner.program_identity import Identity

if TYPE_CHECKING:
    import distributed


@dataclass(frozen=True)
class Answer:
    """What a call gave and which worker it ran on; `unfit` says why that one must not have another call."""

    address: str
    value: Any = None
    unfit: str = ""


def about() -> Identity:
    """Which program the worker is."""
    return program_identity.identity()


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
