"""Where the trials of a run are computed that measure nothing: by processes of the run, or by an executor.

An executor is the caller's own, or a name such as `dask:local` (docs/cluster.md), which is opened for the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ioassay.errors import RunError, UsageError
from ioassay.records.record import Warning_
from ioassay.runner import executors
from ioassay.runner.executors import LOCAL

if TYPE_CHECKING:
    from ioassay.api.progress import Progress
    from ioassay.runner.preflight import PreparedStudy
    from ioassay.store.run_folder import RunStore

UNUSED = "executor-unused"


@dataclass(frozen=True)
class Computing:
    """Where the trials of a run were computed, if elsewhere. No record has it: they are the same anywhere."""

    executor: str
    workers: Mapping[str, int]
    """Worker -> trials that it computed."""
    refused: Sequence[Warning_]
    """A warning for each worker that is another program."""


def at_once(executor: Executor | str | None, workers: int | None) -> int | None:
    """How many trials are computed at once; None for the runner's default.

    UsageError where the two contradict, and for what is no executor.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"--workers is {workers}; expected at least 1")
    if isinstance(executor, str) and executor != LOCAL:
        places = executors.places(executor)
        if workers is not None:
            raise UsageError(
                f"--workers is {workers}, and is about executor local; "
                f"expected it in the name, such as --executor dask:local,workers={workers}"
            )
        return places
    if not isinstance(executor, Executor | str | None):
        raise UsageError(f"executor is {executor!r}; expected a name, a concurrent.futures.Executor, or None")
    return workers


@dataclass(frozen=True)
class Opened:
    """An executor for one run, by its name, and what can be said of it."""

    name: str
    executor: Executor | None = None
    unused: Sequence[Warning_] = ()

    @property
    def computing(self) -> Computing | None:
        """Where trials were computed so far; None where it was this host alone, or is unknown."""
        shares = getattr(self.executor, "shares", None)
        if shares is None:
            return None
        remedy = "install the same ioassay there"
        refused = [Warning_("worker-refused", f"{one.title}: {one.refusal}", remedy) for one in shares.refused]
        return Computing(self.name, shares.workers, refused)

    @property
    def warnings(self) -> Sequence[Warning_]:
        """That it was not used, and which workers were refused."""
        return [*self.unused, *(self.computing.refused if self.computing else ())]


@contextmanager
def opened(
    executor: Executor | str | None, store: RunStore, benches: Sequence[PreparedStudy], progress: Progress
) -> Iterator[Opened]:
    """What an executor is for this run. `progress` is told of workers that are waited for, and of those refused.

    A name cannot be opened (RunError) after the run was made, so that the message says how to continue it.
    """
    if executor is None or executor == LOCAL:
        yield Opened(LOCAL)
        return
    if all(bench.driver.measures for bench in benches):
        if any(bench.elsewhere for bench in benches):
            yield Opened(LOCAL)
            return
        name = executor if isinstance(executor, str) else type(executor).__name__
        text = f"--executor {name} is not used: the driver '{benches[0].driver.name}' measures this machine"
        yield Opened(LOCAL, unused=[Warning_(UNUSED, text)])
        return
    with ExitStack() as stack:
        if not isinstance(executor, str):
            yield Opened(type(executor).__name__, stack.enter_context(executors.adapted(executor, progress.said)))
            return
        store.resume_options = ("--executor", executor)
        progress.preparing(f"waiting for workers of {executor}", 0.0)
        try:
            found = stack.enter_context(executors.opened(executor, progress.said))
        except RunError as error:
            raise RunError(f"{error}. Continue with: {store.resume_command}") from None
        yield Opened(executor, found)
