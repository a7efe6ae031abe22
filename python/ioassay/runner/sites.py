"""Where trials of pure drivers are computed: by worker processes of this run, or by an executor that others made.

A site takes a trial and gives a future of what was computed, whose files are then in the trial's raw folder.
Which trial comes next, and what becomes of its result, is decided in `run`.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ioassay.roles import Portable, Trial
from ioassay.runner import delivery, input_files, worker, worker_pool
from ioassay.runner.delivery import Delivered, Lacking, Order
from ioassay.runner.worker import Computed


class Site(Protocol):
    """Computes trials, several at once."""

    @property
    def workers(self) -> int:
        """How many it computes at once now; it may change while it is used."""

    @property
    def most(self) -> int:
        """How many it is given at once, those that wait included."""

    def submit(self, trial: Trial, raw: Path) -> Future[Computed]:
        """Begin with a trial. The future may have worker_pool.WorkerLost and NoWorker."""

    def close(self, *, cancel: bool) -> None:
        """Wait for what runs, or give it up; afterwards it can be used again."""


@dataclass
class OwnWorkers:
    """Worker processes of this run (`worker_pool`), which write to the raw folders themselves."""

    workers: int
    tag: str
    _executor: Executor | None = None

    @property
    def most(self) -> int:
        """See Site: as many as workers, and as many again that wait for one."""
        return 2 * self.workers

    def submit(self, trial: Trial, raw: Path) -> Future[Computed]:
        """See Site."""
        self._executor = self._executor or worker_pool.executor(self.workers, self.tag)
        return self._executor.submit(worker.compute, trial.driver, trial, raw)

    def close(self, *, cancel: bool) -> None:
        """See Site; no worker is left."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=cancel)
            self._executor = None


_LEAST_WAITING = 16
"""Trials that an executor has at least, so that a small one need not wait for the next when it has ended."""


@dataclass
class ForeignExecutor:
    """An executor that others made and others shut down; it need not share a folder with this process.

    `portable` says what a trial needs on another host (`roles.Driver.portable`).
    """

    executor: Executor
    portable: Callable[[Trial], Portable]
    _waiting: set[Future[Computed]] = field(default_factory=set)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def workers(self) -> int:
        """See Site: as the executor says, by default as many as there are processors for this process."""
        said = getattr(self.executor, "workers", None) or getattr(self.executor, "_max_workers", None)
        return int(said or worker_pool.processors())

    @property
    def most(self) -> int:
        """See Site: more than of our own workers, since the way to these is longer."""
        return max(4 * self.workers, _LEAST_WAITING)

    def submit(self, trial: Trial, raw: Path) -> Future[Computed]:
        """See Site."""
        future: Future[Computed] = Future()
        with self._lock:
            self._waiting.add(future)
        try:
            self._send(self._order(trial), raw, future)
        except RuntimeError as error:  # it was shut down, or is broken
            self._end(future, error=worker_pool.NoWorker(f"the executor takes no trials: {error}"))
        return future

    def close(self, *, cancel: bool) -> None:
        """See Site; what an executor cannot cancel ends without effect."""
        with self._lock:
            given_up = list(self._waiting)
            self._waiting.clear()
        for future in given_up:
            future.cancel()

    def _order(self, trial: Trial) -> Order:
        needs = self.portable(trial)
        inputs = [input_files.described(key, path) for key, path in needs.inputs.items()]
        return Order(dataclasses.replace(trial, params=needs.params), delivery.identity(), inputs)

    def _send(self, order: Order, raw: Path, future: Future[Computed]) -> None:
        sent = self.executor.submit(delivery.compute, order)
        sent.add_done_callback(lambda done: self._receive(done, order, raw, future))
        future.add_done_callback(lambda kept: kept.cancelled() and sent.cancel())

    def _receive(self, done: Future[Delivered | Lacking], order: Order, raw: Path, future: Future[Computed]) -> None:
        """Called by a thread of the executor."""
        try:
            result = done.result()
            if isinstance(result, Lacking):
                self._send(_with_contents(order, result), raw, future)
                return
            with self._lock:  # `close` waits, so that nothing is written once the run has ended
                computed = delivery.unpack(result, raw) if future in self._waiting else result.computed
            self._end(future, computed)
        except BrokenExecutor as error:
            self._end(future, error=worker_pool.NoWorker(f"the executor is broken: {error}"))
        except CancelledError:
            self._end(future, error=worker_pool.NoWorker("the executor cancelled a trial"))
        except Exception as error:
            self._end(future, error=error)

    def _end(self, future: Future[Computed], computed: Computed | None = None, error: Exception | None = None) -> None:
        with self._lock:
            if future not in self._waiting:
                return
            self._waiting.remove(future)
            if computed is not None:
                future.set_result(computed)
            else:
                future.set_exception(error)


def _with_contents(order: Order, lacking: Lacking) -> Order:
    """The order with the files that were lacking; UnfitWorker where they came with it already, or are too large."""
    for file in lacking.files:
        if order.contents or file.size_bytes > delivery.MOST_RETURNED_BYTES:
            raise delivery.UnfitWorker(
                f"{file.named}: is not on {lacking.host} and cannot be sent; expected the same file at "
                f"{file.path} there"
            )
    pieces = [input_files.part(file, *piece) for file in lacking.files for piece in input_files.parts(file)]
    return dataclasses.replace(order, contents=pieces)
