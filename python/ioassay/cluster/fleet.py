"""The hosts of a Dask cluster that measure (`ioassay worker`), as a run uses them.

Each host has a thread here, which has its trials measured one after the other. A trial is a task of Dask that only its
worker may run, and that takes the one resource of it; all else is asked beside it. A host that ends or does not answer
fails the trial it had. If it does not come back, its other trials fail as well, and those of no other host.
"""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ioassay import debug_log
from ioassay.cluster import admission, host_calls
from ioassay.cluster.admission import Worker
from ioassay.cluster.common_start import ClockOffset, CommonStart, clock_offset
from ioassay.cluster.host_calls import Refusal
from ioassay.errors import IoassayError, RunError
from ioassay.roles import Trial
from ioassay.runner.host_session import Examined, Opening, Release, State
from ioassay.runner.hosts import Measured, News
from ioassay.runner.run_facts import KeptFile

if TYPE_CHECKING:
    import distributed

PATIENCE_S = 60.0
"""How long a host may not answer, or be away, before it has ended for this run."""
_ANSWER_S = 15.0
_PAUSE_S, _HELD_PAUSE_S = 1.0, 0.02
"""Between two questions about a trial; while the hosts of a group wait for each other."""
_SUBJECT = "hosts"


class _Task:
    """A task of Dask under way, and an event for its end: a thread cannot wait for both with a limit of time."""

    def __init__(self, future: distributed.Future) -> None:
        self.future, self._ended = future, threading.Event()
        future.add_done_callback(lambda _: self._ended.set())

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, now or within the time."""
        return self._ended.wait(seconds)


class _HostLost(Exception):
    """A host measures nothing any more; the text says why."""


class _Stopped(Exception):
    """The run was stopped, and gives up what its hosts do."""


@dataclass
class _Line:
    """One host: its trials, one after the other."""

    opening: Opening
    worker: Worker
    pool: ThreadPoolExecutor
    lost: str = ""
    """Why its present session is over; '' while it measures."""
    gone: str = ""
    """Why it does not come back."""
    kept: Sequence[KeptFile] = ()
    arrived: bool = False
    """Whether the tool of a common start is held, and `offset` is known."""
    offset: ClockOffset = field(default_factory=ClockOffset)


@dataclass(frozen=True)
class _Wanted:
    """A trial that was submitted, and what starts with it."""

    trial: Trial
    future: Future[Measured] = field(default_factory=Future)
    start: CommonStart | None = None


class Fleet:
    """See the module, and runner.hosts.Hosts. `title` is the cluster's name in messages, `join` how a host joins it."""

    def __init__(self, client: distributed.Client, title: str, join: str) -> None:
        self._client, self._title, self.join = client, title, join
        self._lines: dict[str, _Line] = {}
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._cancelled = threading.Event()
        self._waiting: set[Future[Measured]] = set()
        self.wait_quiet_s = 0.0
        """How long each trial waits at most for a quiet machine."""

    def names(self) -> list[str]:
        """The hosts that there are, in alphabetical order."""
        return sorted(worker.name for worker in self._examine())

    def open(self, openings: Sequence[Opening], said: Callable[[str], None] = lambda text: None) -> dict[str, Examined]:
        """Have each host check what is wanted of it; host -> what it found. `said` is told what is waited for.

        RunError for a host that is not there, or is another program; what a host refuses is raised with its name.
        """
        workers = self._present([opening.host for opening in openings], said)
        asked = []
        for opening in openings:
            worker = workers[opening.host]
            pool = ThreadPoolExecutor(1, f"ioassay-{opening.host}")
            self._lines[opening.host] = _Line(opening, worker, pool)
            asked.append((opening, worker, self._submit(worker, host_calls.open_session, opening)))
        found: dict[str, Examined] = {}
        refusals: list[IoassayError] = []
        for opening, worker, task in asked:
            try:
                answer = self._answer(worker, task)
            except _HostLost as error:
                answer = Refusal("RunError", str(error))
            if isinstance(answer, Refusal):
                refusals.append(answer.error(opening.host))
            else:
                found[opening.host] = answer
        if refusals:
            self.close()
            raise refusals[0]
        return found

    @property
    def most(self) -> int:
        """See Hosts: so many that a host which is slower than others does not keep them waiting."""
        return max(16 * len(self._lines), 64)

    def submit(self, trial: Trial) -> Future[Measured]:
        """See Hosts."""
        return self._enqueue(_Wanted(trial))

    def submit_together(self, trials: Sequence[Trial]) -> Sequence[Future[Measured]]:
        """See Hosts."""
        hosts = [str(trial.point["host"]) for trial in trials]
        study = next(one for one in self._lines[hosts[0]].opening.suite.studies if one.name == trials[0].study)
        start = CommonStart(hosts, [name for name in study.hosts if name not in hosts])
        return [self._enqueue(_Wanted(trial, start=start)) for trial in trials]

    def news(self) -> Iterable[News]:
        """See Hosts."""
        while not self._news.empty():
            yield self._news.get()

    def cancel(self) -> None:
        """See Hosts."""
        self._cancelled.set()
        for future in list(self._waiting):
            future.cancel()

    def close(self) -> list[KeptFile]:
        """End all sessions, whatever they do; the files that stay on the hosts."""
        self._cancelled.set()
        ended = [(name, line, line.pool.submit(self._end, name, line)) for name, line in self._lines.items()]
        for name, line, task in ended:
            try:
                task.result(_ANSWER_S + PATIENCE_S)
            except Exception as error:
                debug_log.info(_SUBJECT, f"{name}: cannot be closed: {error}")
            line.pool.shutdown(wait=False, cancel_futures=True)
        self._lines, closed = {}, self._lines
        return [file for line in closed.values() for file in line.kept]

    def _end(self, name: str, line: _Line) -> None:
        if not self._has_ended(line.worker):
            kept = self._ask(line, host_calls.close_session, line.opening.token)
            line.kept = [
                KeptFile(path=f"{name}:{file['path']}", bytes=file["bytes"], remove=f"on {name}: {file['remove']}")
                for file in kept
            ]

    # Hosts that are there

    def _examine(self) -> list[Worker]:
        """Workers that measure. RunError where the scheduler does not answer."""
        try:
            return admission.examine(self._client, admission.measuring(self._client))
        except OSError as error:
            raise RunError(f"{self._title} does not answer: {error}") from None

    def _present(self, names: Sequence[str], said: Callable[[str], None]) -> dict[str, Worker]:
        """The workers of hosts, which may take a while to come."""
        began_s, told = time.monotonic(), False
        while True:
            found = {worker.name: worker for worker in self._examine()}
            lacking = [name for name in names if name not in found]
            if not lacking:
                break
            if time.monotonic() - began_s > PATIENCE_S:
                there = f"there: {', '.join(sorted(found))}" if found else "no host is there"
                raise RunError(
                    f"{self._title} has no host '{lacking[0]}' ({there}); start its worker there: "
                    f"{self.join} --name {lacking[0]}"
                )
            if not told:
                said(f"waiting for {', '.join(lacking)} at {self._title}")
                told = True
            time.sleep(_PAUSE_S)
        for name in names:
            if found[name].refusal:
                raise RunError(f"{found[name].title} is refused: {found[name].refusal}; install the same ioassay there")
        return found

    # What the thread of a host does

    def _enqueue(self, wanted: _Wanted) -> Future[Measured]:
        line = self._lines[str(wanted.trial.point["host"])]
        self._waiting.add(wanted.future)
        wanted.future.add_done_callback(self._waiting.discard)
        line.pool.submit(self._take, line, wanted)
        return wanted.future

    def _take(self, line: _Line, wanted: _Wanted) -> None:
        host, began_unix_s = line.opening.host, time.time()
        try:
            if self._cancelled.is_set() or not wanted.future.set_running_or_notify_cancel():
                return
            try:
                self._revive(line)
                measured = self._measure(line, wanted)
            except _HostLost as error:
                debug_log.info(_SUBJECT, f"{host}: {error}")
                line.lost = line.lost or str(error)
                reason = f"host {host}: {error}"
                measured = Measured({}, reason, True, began_unix_s, time.time() - began_unix_s)
            wanted.future.set_result(measured)
        except _Stopped:
            wanted.future.set_result(Measured(reason="the run was stopped", began_unix_s=began_unix_s))
        except BaseException as error:
            wanted.future.set_exception(error)
            raise
        finally:
            if wanted.start is not None:
                wanted.start.leave(host)

    def _revive(self, line: _Line) -> None:
        """Open a session again for a host that has ended and is back; _HostLost where it is not."""
        if line.gone:
            raise _HostLost(line.gone)
        if not line.lost:
            return
        name, began_s = line.opening.host, time.monotonic()
        why = line.lost
        if not self._has_ended(line.worker):
            self._ask(line, host_calls.close_session, line.opening.token)
        while not self._cancelled.is_set():
            try:
                found = [worker for worker in self._examine() if worker.name == name]
            except RunError as error:
                why = str(error)
                break
            if found and not found[0].refusal:
                line.worker = found[0]
                answer = self._answer(line.worker, self._submit(line.worker, host_calls.open_session, line.opening))
                if isinstance(answer, Refusal):
                    why = f"it came back, and {answer.text}"
                    break
                debug_log.info(_SUBJECT, f"{name}: measures again")
                line.lost = ""
                return
            if time.monotonic() - began_s > PATIENCE_S:
                break
            time.sleep(_PAUSE_S)
        if self._cancelled.is_set():
            raise _Stopped
        line.gone = why
        raise _HostLost(why)

    def _measure(self, line: _Line, wanted: _Wanted) -> Measured:
        trial, start = wanted.trial, wanted.start
        token = line.opening.token
        task = self._submit(
            line.worker,
            host_calls.measure,
            token,
            trial,
            together=start is not None,
            wait_quiet_s=self.wait_quiet_s,
        )
        answered_s, released, line.arrived = time.monotonic(), start is None, False
        while not task.wait(_PAUSE_S if released else _HELD_PAUSE_S):
            if self._cancelled.is_set():
                raise _Stopped
            state = self._state(line, token)
            if state is not None:
                answered_s = time.monotonic()
                self._tell(trial, state)
            elif self._has_ended(line.worker):
                raise _HostLost("its worker ended")
            elif (silent_s := time.monotonic() - answered_s) > PATIENCE_S:
                raise _HostLost(f"it has not answered for {silent_s:.0f} s")
            if start is not None and state is not None and state.held and not released:
                released = self._release(line, trial, start)
        answer = self._answer(line.worker, task)
        if not isinstance(answer, Measured):
            raise _HostLost(f"it answered {answer!r}")
        if answer.is_over:
            raise _HostLost(answer.reason)
        return answer

    def _release(self, line: _Line, trial: Trial, start: CommonStart) -> bool:
        """Tell a host whose tool is held when to start, once all are; False while some are not."""
        host = line.opening.host
        if not line.arrived:
            line.arrived = True
            line.offset = clock_offset(lambda: float(self._ask(line, host_calls.clock)))
            start.arrive(host, line.offset)
        if (instant_s := start.instant_s(_HELD_PAUSE_S)) is None:
            return False
        at = Release(instant_s + line.offset.seconds, line.offset.uncertainty_s, start.absent)
        self._ask(line, host_calls.release, line.opening.token, trial.id, at)
        ahead = f"its clock is {line.offset.seconds * 1e3:+.2f} ms from this one's"
        debug_log.debug(_SUBJECT, f"{host}: {trial.id} starts together; {ahead}")
        return True

    def _tell(self, trial: Trial, state: State) -> None:
        if state.trial != trial.id:
            return
        if state.preparing:
            self._news.put(News(trial, preparing=state.preparing, share=state.share))
        elif not state.held:
            self._news.put(News(trial, state.rates))

    # Calls to a worker

    def _submit(self, worker: Worker, function: Callable[..., Any], *arguments: Any, **options: Any) -> _Task:
        """A task of one worker; no other runs it, nor this one twice."""
        future = self._client.submit(
            function,
            *arguments,
            **options,
            key=f"ioassay-host-{uuid.uuid4().hex}",
            pure=False,
            retries=0,
            workers=[worker.address],
            allow_other_workers=False,
            resources={host_calls.RESOURCE: 1},
        )
        return _Task(future)

    def _answer(self, worker: Worker, task: _Task) -> Any:
        """What a task came to; _HostLost where its worker ended, or it raised."""
        while not task.wait(_PAUSE_S):
            if self._has_ended(worker):
                raise _HostLost("its worker ended")
        try:
            return task.future.result(_ANSWER_S + PATIENCE_S)
        except Exception as error:
            raise _HostLost(f"{type(error).__name__}: {error}") from None

    def _has_ended(self, worker: Worker) -> bool:
        """Whether the scheduler says that a worker is not there any more."""
        try:
            return worker.address not in admission.measuring(self._client)
        except OSError as error:
            debug_log.debug(_SUBJECT, f"{self._title} does not answer: {error}")
            return False

    def _ask(self, line: _Line, function: Callable[..., Any], *arguments: Any) -> Any:
        """Ask a worker beside its tasks; _HostLost where it does not answer."""
        address = line.worker.address
        try:
            found = self._client.run(function, *arguments, workers=[address], callback_timeout=_ANSWER_S)
            return found[address]
        except Exception as error:
            raise _HostLost(f"it does not answer: {str(error) or type(error).__name__}") from None

    def _state(self, line: _Line, token: str) -> State | None:
        """What its session does; None where it does not answer now, or is not there."""
        if self._has_ended(line.worker):
            return None  # the scheduler would try to reach it for a while
        try:
            state: State | None = self._ask(line, host_calls.state, token)
        except _HostLost as error:
            debug_log.debug(_SUBJECT, f"{line.opening.host}: {error}")
            return None
        if state is None:
            raise _HostLost("its worker was restarted")
        return state
