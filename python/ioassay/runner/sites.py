"""Where trials are that are under way, and which of them have ended.

Those of pure drivers are computed at a site: by worker processes of this run, or by an executor that others made. It
takes a trial and gives a future of what was computed, whose files are then in the trial's raw folder. Others are
measured on other hosts.
Which trial comes next, and what becomes of its result, is decided in `run`.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

from ioassay.roles import Portable, Trial
from ioassay.runner import delivery, worker, worker_pool
from ioassay.runner.delivery import Delivered, InputFile, Lacking, Order
from ioassay.runner.executors import Hosts, Measured
from ioassay.runner.progress import Progress
from ioassay.runner.worker import Computed


@dataclass
class OwnWorkers:
    """Worker processes of this run (`worker_pool`), which write to the raw folders themselves."""

    workers: int
    """How many trials are computed at once."""
    tag: str
    _executor: Executor | None = None

    @property
    def most(self) -> int:
        """How many it is given at once: as many as workers, and as many again that wait for one."""
        return 2 * self.workers

    def submit(self, trial: Trial, raw: Path) -> Future[Computed]:
        self._executor = self._executor or worker_pool.executor(self.workers, self.tag)
        return self._executor.submit(worker.compute, trial.driver, trial, raw)

    def close(self, *, cancel: bool) -> None:
        """Wait for what runs, or give it up: no worker is left. Afterwards it can be used again."""
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
        """As the executor says now, by default as many as there are processors for this process."""
        said = getattr(self.executor, "workers", None) or getattr(self.executor, "_max_workers", None)
        return int(said or worker_pool.processors())

    @property
    def most(self) -> int:
        """More than of our own workers, since the way to these is longer."""
        return max(4 * self.workers, _LEAST_WAITING)

    def submit(self, trial: Trial, raw: Path) -> Future[Computed]:
        future: Future[Computed] = Future()
        with self._lock:
            self._waiting.add(future)
        needs = self.portable(trial)
        inputs = [
            InputFile(key, str(path), str(path.absolute()), path.stat().st_size, delivery.digest(path))
            for key, path in needs.inputs.items()
        ]
        order = Order(dataclasses.replace(trial, params=needs.params), delivery.identity(), inputs)
        try:
            self._send(order, raw, future)
        except RuntimeError as error:  # it was shut down, or is broken
            self._end(future, error=worker_pool.NoWorker(f"the executor takes no trials: {error}"))
        return future

    def close(self, *, cancel: bool) -> None:
        with self._lock:
            given_up = list(self._waiting)
            self._waiting.clear()
        for future in given_up:
            future.cancel()

    def _send(self, order: Order, raw: Path, future: Future[Computed]) -> None:
        sent = self.executor.submit(delivery.compute, order)
        sent.add_done_callback(lambda done: self._receive(done, order, raw, future))
        future.add_done_callback(lambda kept: kept.cancelled() and sent.cancel())

    def _receive(self, done: Future[Delivered | Lacking], order: Order, raw: Path, future: Future[Computed]) -> None:
        try:
            result = done.result()
            if isinstance(result, Lacking):
                for file in result.files:
                    if order.contents or file.size_bytes > delivery.MOST_RETURNED_BYTES:
                        raise delivery.UnfitWorker(
                            f"{file.named}: is not on {result.host} and cannot be sent; expected the same file at "
                            f"{file.path} there"
                        )
                contents = [piece for file in result.files for piece in delivery.parts(file)]
                self._send(dataclasses.replace(order, contents=contents), raw, future)
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


@dataclass
class HostSite:
    """Other hosts, which measure trials side by side; each host has one after the other."""

    hosts: Hosts
    workers = 0
    """What begins there is news of theirs."""

    @property
    def most(self) -> int:
        return self.hosts.most

    def submit(self, trial: Trial, raw: Path) -> Future[Measured]:
        return self.hosts.submit(trial)

    def close(self, *, cancel: bool) -> None:
        """Have tools that run there ended, where all is given up; whoever opened the hosts closes them."""
        if cancel:
            self.hosts.cancel()


# Trials that are under way

Site = OwnWorkers | ForeignExecutor | HostSite
_TICK_S = 0.5
"""How often those who look on are told of other hosts."""
Ended = Iterator[tuple[Trial, Future[Computed] | Future[Measured]]]


class Flight(AbstractContextManager["Flight"]):
    """Trials that are under way at a site: as many as it works on at once, and some that wait.

    They run in the order in which they were submitted. On an exception all are given up, those that run as well.
    """

    def __init__(self, site: Site, progress: Progress) -> None:
        self._site = site
        self._progress = progress
        self._trials: dict[Future[Any], Trial] = {}
        self._begun: set[str] = set()
        """Ids of those that are known to whoever looks on."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._site.close(cancel=kind is not None)

    @property
    def full(self) -> bool:
        return len(self._trials) >= self._site.most

    def holds(self, trial: Trial) -> bool:
        return any((held.study, held.point) == (trial.study, trial.point) for held in self._trials.values())

    def submit(self, trial: Trial, raw: Path) -> None:
        if len(self._trials) < self._site.workers:
            self._begin(trial)
        self._trials[self._site.submit(trial, raw)] = trial

    def submit_together(self, trials: Sequence[Trial]) -> None:
        """Have trials of different hosts measured, whose tools start at one instant."""
        assert isinstance(self._site, HostSite)
        self._trials.update(zip(self._site.hosts.submit_together(trials), trials, strict=True))

    def ended(self, *, block: bool) -> Ended:
        """Those that have ended, of which there is at least one when `block` and any are in flight."""
        hosts, done = self._site.hosts if isinstance(self._site, HostSite) else None, set[Future[Any]]()
        while self._trials and not done:
            if hosts is not None:
                self._hand_on_news(hosts)
            tick_s = _TICK_S if hosts is not None else None
            done = wait(self._trials, tick_s if block else 0, FIRST_COMPLETED).done
            if not block:
                break
        for future in [future for future in self._trials if future in done]:
            trial = self._trials.pop(future)
            self._begin(trial)
            self._begun.remove(trial.id)
            yield trial, future
            for oldest in islice(self._trials.values(), self._site.workers):
                self._begin(oldest)

    def rest(self) -> Ended:
        while self._trials:
            yield from self.ended(block=True)

    def land(self) -> Ended:
        yield from self.rest()
        self._site.close(cancel=False)

    def _begin(self, trial: Trial) -> None:
        if trial.id not in self._begun:
            self._begun.add(trial.id)
            self._progress.started(trial)

    def _hand_on_news(self, hosts: Hosts) -> None:
        flying = {trial.id for trial in self._trials.values()}
        for news in hosts.news():
            if news.trial.id not in flying:
                continue
            if news.preparing:
                self._progress.preparing(news.preparing, news.share)
                continue
            self._begin(news.trial)
            if news.rates is not None:
                self._progress.measuring(news.trial, news.rates)
