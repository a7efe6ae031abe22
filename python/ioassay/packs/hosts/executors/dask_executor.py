"""A Dask cluster as an executor that loses no call: workers are examined before they get one, and may die.

One thread owns the state and takes events in turn: calls, results, workers that come, go or were examined. Dask's own
`Client.get_executor` has none of this: any worker gets any call, four dead workers fail all calls that they held, and
each result is fetched by a request of its own.

A call goes to examined workers only. When a worker ends unexpectedly, Dask computes its calls again elsewhere. The
calls that it was computing (the oldest, as many as it has threads) are charged with it, and a call that was charged
twice is given up: it may be what ends workers.
"""

from __future__ import annotations

import itertools
import math
import queue
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from ioassay import debug_log
from ioassay.packs.hosts.executors import dask_clusters
from ioassay.packs.hosts.executors.dask_clusters import Answer, SubmittedJobs, Worker
from ioassay.runner import delivery
from ioassay.runner.delivery import InputFile, Lacking
from ioassay.runner.worker_pool import NoWorker, WorkerLost

if TYPE_CHECKING:
    import distributed

P = ParamSpec("P")
T = TypeVar("T")

_MOST_DEATHS = 2
"""Workers that end while they compute a call before it is given up."""
_TICK_S = 1.0
"""How often the scheduler's state is looked at while nothing happens."""
_FIRST_QUESTION_S, _LONGEST_INTERVAL_S = 10.0, 600.0
"""When a batch system is first asked why there is no worker, and how long it is left alone after that."""
_SUBJECT = "cluster"


@dataclass(eq=False)
class _Call:
    """A call that has not ended. `task` is Dask's future of the attempt under way, `key` its name."""

    number: int
    function: Callable[..., Any]
    arguments: Sequence[Any]
    options: dict[str, Any]
    future: Future[Any]
    began_unix_s: float = 0.0
    key: str = ""
    task: distributed.Future | None = None
    allowed: frozenset[str] = frozenset()
    """Addresses of the workers that may compute it."""
    attempts: int = 0
    deaths: int = 0
    """Workers that ended while they computed it."""


@dataclass(frozen=True)
class Shares:
    """Where calls were computed, for whoever ran them."""

    workers: dict[str, int] = field(default_factory=dict)
    """Name of a worker -> calls that it computed."""
    refused: Sequence[Worker] = ()


class DaskExecutor(Executor):
    """See the module. `title` is the cluster's name in messages, `remedy` says how it gets a worker.

    `said` is told, in a thread of its own, of workers that are refused, and of waiting. Without a worker for
    `patience_s` seconds all calls end with NoWorker; with None they wait as long as it takes, which for a cluster of
    batch `jobs` is until the last of these has ended.
    """

    def __init__(
        self,
        client: distributed.Client,
        title: str,
        remedy: str,
        patience_s: float | None,
        said: Callable[[str], None] = lambda text: None,
        jobs: SubmittedJobs | None = None,
    ) -> None:
        self._client, self._title, self._remedy, self._said = client, title, remedy, said
        self._patience_s, self._without_since_s = patience_s, time.monotonic()
        self._jobs, self._jobs_interval_s = jobs, _FIRST_QUESTION_S
        self._jobs_due_s = self._without_since_s + _FIRST_QUESTION_S
        """When the batch system is asked for the jobs; infinite while it is."""
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._numbers, self._prefix = itertools.count(), uuid.uuid4().hex[:12]
        self._pending: deque[_Call] = deque()
        self._calls: dict[str, _Call] = {}
        """Those that Dask has, by key."""
        self._ended: list[_Call] = []
        """Those of them whose results are to be fetched, after the events that are there already."""
        self._single: list[_Call] = []
        """Those whose results could not be fetched together, each to be fetched alone."""
        self._fetching = False
        self._workers: dict[str, Worker] = {}
        self._unknown: set[str] = set()
        """Addresses of workers that are being examined."""
        self._sending: dict[tuple[str, str], list[_Call]] = {}
        """Address and digest of an input file under way -> calls that wait for it."""
        self._shares: Counter[str] = Counter()
        self._why_not = ""
        """Why no call can be taken any more."""
        self._stopped = False
        self._helper = ThreadPoolExecutor(1, "ioassay-cluster-helper")
        """For what waits for a worker's answer."""
        self._fetcher = ThreadPoolExecutor(1, "ioassay-cluster-fetcher")
        self._owner = threading.Thread(target=self._run, name="ioassay-cluster", daemon=True)
        self._owner.start()
        client.subscribe_topic("all", lambda event: self._events.put(partial(self._hear, event[1])))
        self._events.put(lambda: self._examine(dask_clusters.addresses(client, measuring=False)))

    @property
    def workers(self) -> int:
        """Calls that are computed at once now; 1 while there is no worker yet."""
        return max(sum(worker.threads for worker in list(self._workers.values()) if not worker.refusal), 1)

    @property
    def shares(self) -> Shares:
        known = list(self._workers.values())
        return Shares(dict(self._shares), [worker for worker in known if worker.refusal])

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See Executor.submit; WorkerLost after the second worker that ended with the call, NoWorker without any."""
        if self._stopped:
            raise RuntimeError("the executor was shut down")
        call = _Call(next(self._numbers), fn, args, dict(kwargs), Future())

        def drop() -> None:
            self._release(call)
            if call in self._pending:
                self._pending.remove(call)

        call.future.add_done_callback(lambda future: self._events.put(drop) if future.cancelled() else None)
        self._events.put(partial(self._take, call))
        return cast("Future[T]", call.future)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See Executor.shutdown; the cluster stays."""
        self._stopped = True
        self._events.put(partial(self._give_up, "the executor was shut down") if cancel_futures else lambda: None)
        if wait and threading.current_thread() is not self._owner:
            self._owner.join()
        if self._client.status == "running":
            self._client.unsubscribe_topic("all")
        for pool in (self._helper, self._fetcher):
            pool.shutdown(wait=False, cancel_futures=True)

    # What follows runs in the owner's thread.

    def _run(self) -> None:
        while not (self._stopped and not self._calls and not self._pending and self._events.empty()):
            try:
                event: Callable[[], None] = self._events.get(timeout=_TICK_S)
                event()
                while not self._events.empty():
                    self._events.get()()
                self._fetch()
            except queue.Empty:
                self._look()
            except Exception as error:  # else those who wait for results would wait for ever
                debug_log.info(_SUBJECT, f"{type(error).__name__}: {error}")
                self._give_up(f"{self._title} cannot be used: {str(error) or type(error).__name__}")

    def _take(self, call: _Call) -> None:
        if self._why_not:
            self._fail(call, NoWorker(self._why_not))
            return
        self._pending.append(call)
        self._flush()

    def _flush(self) -> None:
        """Hand what waits to Dask, once there is a worker for it."""
        fit = frozenset(worker.address for worker in self._workers.values() if not worker.refusal)
        while fit and self._pending:
            self._send(self._pending.popleft(), fit)

    def _send(self, call: _Call, workers: frozenset[str]) -> None:
        if call.future.cancelled():
            return
        call.key = f"ioassay-{self._prefix}-{call.number}-{call.attempts}"
        call.attempts += 1
        call.allowed, call.began_unix_s = workers, time.time()
        arguments = (call.function, call.arguments, call.options)
        call.task = self._client.submit(
            dask_clusters.answer, *arguments, key=call.key, pure=False, workers=list(workers), allow_other_workers=False
        )
        self._calls[call.key] = call
        self._await(call.task, call.key)

    def _await(self, task: distributed.Future, key: str) -> None:
        def note_end() -> None:
            if call := self._calls.get(key):
                self._ended.append(call)

        task.add_done_callback(lambda _: self._events.put(note_end))

    def _fetch(self) -> None:
        """Have all results fetched that are there, by one request at a time."""
        if self._fetching:
            return
        # An attempt that Dask computed again may have ended twice.
        ended = list(dict.fromkeys(call for call in self._ended if call.key in self._calls))
        self._ended.clear()
        there = []
        for call in ended:
            status = call.task.status if call.task is not None else ""
            if status == "finished":
                there.append(call)
            else:
                self._fall(call, status)
        self._single = [call for call in self._single if call.key in self._calls]
        batch = self._single[:1] or there
        if self._single:
            self._single, self._ended = self._single[1:], there
        tasks = [(call, call.key, call.task) for call in batch if call.task is not None]
        if not tasks:
            return
        self._fetching = True

        def gather() -> None:
            try:
                answers: Sequence[Answer] | None = self._client.gather([task for *_, task in tasks])
            except Exception as error:  # a result was lost with its worker, and could not be computed again
                debug_log.info(_SUBJECT, f"results of {len(tasks)} calls: {str(error) or type(error).__name__}")
                answers = None
            self._events.put(partial(note, answers))

        def note(answers: Sequence[Answer] | None) -> None:
            self._fetching = False
            if answers is not None:
                for (call, key, _), answer in zip(tasks, answers, strict=True):
                    if self._calls.get(key) is call:
                        self._receive(call, answer)
                return
            current = [call for call, key, _ in tasks if self._calls.get(key) is call]
            if len(tasks) > 1:
                self._single += current
            elif current:
                self._release(current[0])
                current[0].deaths += 1
                self._retry(current[0])

        self._fetcher.submit(gather)

    def _receive(self, call: _Call, answer: Answer) -> None:
        if answer.unfit:
            self._release(call)
            self._refuse(answer.address, answer.unfit)
            self._pending.appendleft(call)
            self._flush()
        elif isinstance(answer.value, Lacking):
            self._release(call)
            self._supply(call, answer.address, answer.value.files)
        else:
            worker = self._workers.get(answer.address)
            self._shares[worker.name if worker else answer.address] += 1
            self._release(call, is_fetched=True)
            if not call.future.cancelled():
                call.future.set_result(answer.value)

    def _fall(self, call: _Call, status: str) -> None:
        """An attempt that had ended has no result: it raised, Dask gave up, or the result was lost with its worker."""
        from distributed import KilledWorker

        if call.task is None or call.key not in self._calls:  # all were given up for one of them
            return
        if status in ("lost", "pending"):  # Dask computes it again
            self._await(call.task, call.key)
            return
        if status != "error":
            self._give_up(f"the scheduler of {self._title} went away")
            return
        error = call.task.exception()
        self._release(call)
        if isinstance(error, KilledWorker):
            call.deaths += 1
            self._retry(call)
        else:
            self._fail(call, error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def _hear(self, event: Any) -> None:
        action = event.get("action") if isinstance(event, dict) else None
        if action == "add-worker":
            self._examine([event["worker"]])
        elif action == "remove-worker":
            self._lose(event["worker"], event["processing-tasks"], expected=event.get("expected", False))

    def _examine(self, addresses: Iterable[str]) -> None:
        new = set(addresses) - self._unknown - self._workers.keys()
        if not new:
            return
        self._unknown |= new

        def ask() -> None:
            try:
                found = dask_clusters.examine(
                    self._client, new.intersection(dask_clusters.addresses(self._client, measuring=False))
                )
            except Exception as error:  # the scheduler went away, which is noticed elsewhere
                debug_log.info(_SUBJECT, f"workers cannot be examined: {error}")
                found = []
            self._events.put(partial(admit, found))

        def admit(found: Sequence[Worker]) -> None:
            self._unknown.difference_update(new)
            for worker in found:
                self._workers[worker.address] = worker
                debug_log.info(_SUBJECT, f"{worker.title}: {worker.refusal or 'computes'}")
                if worker.refusal:
                    self._said(f"{worker.title} is refused: {worker.refusal}")
            self._flush()
            self._look()

        self._helper.submit(ask)

    def _refuse(self, address: str, why: str) -> None:
        worker = self._workers.get(address)
        if worker is not None and not worker.refusal:
            self._workers[address] = worker = replace(worker, refusal=why)
            self._said(f"{worker.title} is refused: {why}")
            self._move()

    def _lose(self, address: str, keys: Iterable[str], *, expected: bool) -> None:
        worker = self._workers.pop(address, None)
        self._unknown.discard(address)
        self._without_since_s = time.monotonic()
        held = sorted((self._calls[key] for key in keys if key in self._calls), key=lambda call: call.number)
        debug_log.info(_SUBJECT, f"{worker.title if worker else address} has ended with {len(held)} calls")
        if worker is not None and not expected:
            for call in held[: worker.threads]:
                call.deaths += 1
                if call.deaths >= _MOST_DEATHS:
                    self._release(call)
                    self._retry(call)
        for place in [place for place in self._sending if place[0] == address]:
            self._pending.extendleft(reversed(self._sending.pop(place)))
        self._move()

    def _move(self) -> None:
        """Submit anew what only workers may compute that are gone or refused."""
        fit = {worker.address for worker in self._workers.values() if not worker.refusal}
        stranded = [call for call in self._calls.values() if not call.allowed & fit]
        for call in stranded:
            self._release(call)
        self._pending.extendleft(reversed(stranded))
        self._flush()
        self._look()

    def _retry(self, call: _Call) -> None:
        """Once more after a worker has ended with it; the second time that is the call's result."""
        if call.deaths < _MOST_DEATHS:
            self._pending.appendleft(call)
            self._flush()
            return
        text = f"its worker ended while it was computed, and a second one of {self._title} as well"
        lasted_s = max(time.time() - call.began_unix_s, 0.0)
        self._fail(call, WorkerLost(text, call.began_unix_s, lasted_s))

    def _supply(self, call: _Call, address: str, files: Sequence[InputFile]) -> None:
        """Send the first file that a worker lacks, once however many calls need it there."""
        file, *_ = files
        place = (address, file.digest)
        waiting = self._sending.setdefault(place, [])
        waiting.append(call)
        if len(waiting) > 1:
            return
        debug_log.info(_SUBJECT, f"{address} gets {file.named}, {file.size_bytes} bytes")

        def send() -> None:
            why = ""
            try:
                for piece in delivery.parts(file):
                    self._client.run(dask_clusters.receive, piece, workers=[address])
            except Exception as error:
                why = f"{file.named} cannot be sent to it: {str(error) or type(error).__name__}"
            self._events.put(partial(note, why))

        def note(why: str) -> None:
            self._pending.extendleft(reversed(self._sending.pop(place, [])))
            if why:
                self._refuse(address, why)
            self._flush()

        self._helper.submit(send)

    def _look(self) -> None:
        """End what cannot be computed any more: the scheduler is gone, or there is no worker."""
        waiting = bool(self._pending or self._calls)
        if not waiting:
            self._without_since_s = time.monotonic()
        if waiting and self._client.status not in ("running", "connecting"):
            self._give_up(f"the scheduler of {self._title} went away")
            return
        if not waiting or self._unknown or any(not worker.refusal for worker in self._workers.values()):
            return
        if refused := [worker for worker in self._workers.values() if worker.refusal]:
            first = refused[0]
            others = f", and {len(refused) - 1} more are refused" if len(refused) > 1 else ""
            self._give_up(
                f"{self._title} has no worker that may compute: {first.title}: {first.refusal}{others}; "
                "install the same ioassay there, or compute here: --executor local",
                final=False,
            )
        elif self._patience_s is not None and time.monotonic() - self._without_since_s > self._patience_s:
            self._give_up(f"{self._title} had no worker for {self._patience_s:.0f} s; {self._remedy}", final=False)
        elif self._jobs is not None and time.monotonic() >= self._jobs_due_s:
            self._jobs_due_s = math.inf
            self._helper.submit(self._ask_for_jobs, self._jobs)

    def _ask_for_jobs(self, jobs: SubmittedJobs) -> None:
        """Say what has become of the jobs, less often the longer it takes; without any left, no worker will come.

        The batch system is asked in the helper's thread.
        """
        left = jobs.left()
        last_words = jobs.last_words() if left is not None and not left else ""

        def note() -> None:
            self._jobs_interval_s = min(2 * self._jobs_interval_s, _LONGEST_INTERVAL_S)
            self._jobs_due_s = time.monotonic() + self._jobs_interval_s
            if self._workers or self._unknown:
                return
            if left is not None and not left:
                self._give_up(f"{self._title}: {jobs.title} ended and no worker is left; {last_words}", final=False)
                return
            listed = [f"{number} {state}" for state, number in Counter((left or {}).values()).most_common()]
            states = ", ".join(listed) or "the batch system does not say why"
            waited_s = time.monotonic() - self._without_since_s
            self._said(f"{self._title}: {jobs.title} gave no worker for {waited_s:.0f} s: {states}")

        self._events.put(note)

    def _give_up(self, why: str, *, final: bool = True) -> None:
        """End all calls; those that come later as well, where it is final."""
        self._why_not = why if final else ""
        sending = [call for waiting in self._sending.values() for call in waiting]
        calls = [*self._calls.values(), *self._pending, *sending]
        self._sending.clear()
        self._pending.clear()
        for call in calls:
            self._release(call)
            self._fail(call, NoWorker(why))

    def _release(self, call: _Call, *, is_fetched: bool = False) -> None:
        """Have Dask forget an attempt; one whose result was not fetched is cancelled, which ends a request for it."""
        self._calls.pop(call.key, None)
        if call.task is not None and not is_fetched:
            call.task.cancel()
        call.task = None

    def _fail(self, call: _Call, error: Exception) -> None:
        if not call.future.done():
            call.future.set_exception(error)
