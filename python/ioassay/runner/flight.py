"""Trials that are under way, and which of them have ended: in processes or at an executor, and on other hosts.

Which trial comes next, and what becomes of its result, is decided in `run`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from ioassay.roles import CurrentRates, Trial
from ioassay.runner.hosts import Hosts, Measured
from ioassay.runner.sites import Site
from ioassay.runner.worker import Computed

_TICK_S = 0.5
"""How often those who look on are told of other hosts."""


class Listener(Protocol):
    """Is told of trials that are under way (`run.Progress`)."""

    def preparing(self, text: str, share: float) -> None:
        """Something is being made before a trial; `share` from 0 to 1."""

    def started(self, trial: Trial) -> None:
        """A trial begins."""

    def measuring(self, trial: Trial, rates: CurrentRates) -> None:
        """A trial's tool runs."""


R = TypeVar("R")


class _Trials(Generic[R]):
    """Trials that were submitted, each with the future of what it comes to."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._trials: dict[Future[R], Trial] = {}
        self._begun: set[str] = set()
        """Ids of those that the listener has been told of."""

    def __enter__(self) -> Self:
        return self

    def holds(self, trial: Trial) -> bool:
        """Whether another repetition of the trial's point is in flight."""
        return any((held.study, held.point) == (trial.study, trial.point) for held in self._trials.values())

    def ended(self, *, block: bool) -> Iterator[tuple[Trial, Future[R]]]:
        """Those that have ended, of which there is at least one when `block` and any are in flight."""
        done = self._done(block=block)
        for future in [future for future in self._trials if future in done]:
            trial = self._trials.pop(future)
            self._begin(trial)
            self._begun.remove(trial.id)
            yield trial, future

    def rest(self) -> Iterator[tuple[Trial, Future[R]]]:
        """All that are left, as they end."""
        while self._trials:
            yield from self.ended(block=True)

    def _done(self, *, block: bool) -> Set[Future[R]]:
        return wait(self._trials, None if block else 0, FIRST_COMPLETED).done

    def _begin(self, trial: Trial) -> None:
        if trial.id not in self._begun:
            self._begun.add(trial.id)
            self._listener.started(trial)


class Flight(_Trials[Computed]):
    """Trials that are being computed: as many as workers, and some that wait for one.

    They run in the order in which they were submitted. On an exception all are given up, those that run as well.
    """

    def __init__(self, site: Site, listener: Listener) -> None:
        super().__init__(listener)
        self._site = site

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._site.close(cancel=kind is not None)

    @property
    def full(self) -> bool:
        """Whether one has to end before the next is submitted."""
        return len(self._trials) >= self._site.most

    def submit(self, trial: Trial, raw: Path) -> None:
        """Begin with a trial, whose files are to be in `raw`."""
        if len(self._trials) < self._site.workers:
            self._begin(trial)
        self._trials[self._site.submit(trial, raw)] = trial

    def ended(self, *, block: bool) -> Iterator[tuple[Trial, Future[Computed]]]:
        """See _Trials; each that ends lets the next begin."""
        for trial, future in super().ended(block=block):
            yield trial, future
            for oldest in islice(self._trials.values(), self._site.workers):
                self._begin(oldest)

    def land(self) -> Iterator[tuple[Trial, Future[Computed]]]:
        """The rest; afterwards no worker is left."""
        yield from self.rest()
        self._site.close(cancel=False)


class HostFlight(_Trials[Measured]):
    """Trials that are measured on other hosts, side by side; each host has one after the other.

    On an exception all are given up, and tools that run there are ended.
    """

    def __init__(self, hosts: Hosts, listener: Listener) -> None:
        super().__init__(listener)
        self._hosts = hosts

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._hosts.cancel()

    @property
    def full(self) -> bool:
        """Whether one has to end before the next is submitted."""
        return len(self._trials) >= self._hosts.most

    def submit(self, trial: Trial) -> None:
        """Have a trial measured on the host of its point."""
        self._trials[self._hosts.submit(trial)] = trial

    def submit_together(self, trials: Sequence[Trial]) -> None:
        """Have trials of several hosts measured, whose tools start at one instant."""
        self._trials.update(zip(self._hosts.submit_together(trials), trials, strict=True))

    def _done(self, *, block: bool) -> Set[Future[Measured]]:
        """Tells the listener meanwhile what happens on the hosts."""
        while True:
            self._tell()
            done = wait(self._trials, _TICK_S if block else 0, FIRST_COMPLETED).done
            if done or not block or not self._trials:
                return done

    def _tell(self) -> None:
        flying = {trial.id for trial in self._trials.values()}
        for news in self._hosts.news():
            if news.trial.id not in flying:
                continue
            if news.preparing:
                self._listener.preparing(news.preparing, news.share)
                continue
            self._begin(news.trial)
            if news.rates is not None:
                self._listener.measuring(news.trial, news.rates)
