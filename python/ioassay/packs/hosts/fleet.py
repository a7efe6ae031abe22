"""The hosts of a Dask cluster that measure (`ioassay worker`), as a run uses them (docs/hosts.md).

Each host has a thread here, which has its trials measured one after the other. A trial is a task of Dask that only its
worker may run, and that takes the one resource of it; all else is asked beside it. A host that ends or does not answer
fails the trial it had. If it does not come back, its other trials fail as well, and those of no other host.
"""

from __future__ import annotations

import queue
import secrets
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ioassay import debug_log
from ioassay.errors import IoassayError, RunError, UsageError
from ioassay.packs.hosts import host_worker
from ioassay.packs.hosts.executors import Scheduler, dask_clusters
from ioassay.packs.hosts.executors.dask_clusters import Worker
from ioassay.packs.hosts.host_worker import Examined, Opening, Refusal, Release, State
from ioassay.records.record import Warning_
from ioassay.roles import Consent, Trial
from ioassay.runner import executors
from ioassay.runner.executors import KeptFile, Measured, News, Said
from ioassay.runner.preflight import Storage
from ioassay.study.model import ALL_HOSTS, Study, Suite
from ioassay.targets import filesystem

if TYPE_CHECKING:
    import distributed


_LEAD_S = 0.4
"""From fixing an instant to it: the hosts have to hear of it, and read their counters."""
_QUESTIONS = 12


@dataclass(frozen=True)
class ClockOffset:
    """By how much a host's clock is ahead of this one's, in seconds, and what that may be wrong by."""

    seconds: float = 0.0
    uncertainty_s: float = 0.0


def clock_offset(ask: Callable[[], float], clock: Callable[[], float] = time.time) -> ClockOffset:
    """Compare a clock with this host's; `ask` gives its time.

    The offset is that of the clock from the middle of the quickest of a few questions, wrong by half of that question's
    time at most (D. L. Mills, Computer Network Time Synchronization).
    """
    found = []
    for _ in range(_QUESTIONS):
        before_s = clock()
        there_s = ask()
        after_s = clock()
        found.append(ClockOffset(there_s - (before_s + after_s) / 2, (after_s - before_s) / 2))
    return min(found, key=lambda one: one.uncertainty_s)


class CommonStart:
    """One instant for a group of trials: each host tells when its tool is held, and the last one fixes the instant.

    Each host arrives or leaves once; the others wait for none that left.
    """

    def __init__(self, hosts: Sequence[str], absent: Sequence[str] = ()) -> None:
        self._expected, self._absent = set(hosts), list(absent)
        self._slowest_s, self._instant_s = 0.0, 0.0
        self._changed = threading.Condition()

    def arrive(self, host: str, offset: ClockOffset) -> None:
        with self._changed:
            self._slowest_s = max(self._slowest_s, offset.uncertainty_s)
            self._take(host)

    def leave(self, host: str) -> None:
        """The host does not start with the others, or has started."""
        with self._changed:
            if host in self._expected:
                self._absent.append(host)
            self._take(host)

    @property
    def absent(self) -> Sequence[str]:
        return tuple(sorted(self._absent))

    def instant_s(self, timeout_s: float) -> float | None:
        """The instant by this host's clock; None where it is not fixed within the time."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._instant_s), timeout_s)
            return self._instant_s or None

    def _take(self, host: str) -> None:
        self._expected.discard(host)
        if not self._expected and not self._instant_s:
            self._instant_s = time.time() + _LEAD_S + 10 * self._slowest_s
            self._changed.notify_all()


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
        return self._ended.wait(seconds)


class _HostLost(Exception):
    """A host measures nothing any more; the text says why."""


class _Stopped(Exception):
    """The run was stopped, and gives up what its hosts do."""


@dataclass
class _Line:
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
    trial: Trial
    future: Future[Measured] = field(default_factory=Future)
    start: CommonStart | None = None


class Fleet:
    """See the module, and runner.executors.Hosts. RunError where no scheduler answers."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._stack = ExitStack()
        self._client = self._stack.enter_context(dask_clusters.running(scheduler))
        self._title, trust = scheduler.text, ",encryption=none" if scheduler.plaintext else ""
        self.join = f"ioassay worker {self._client.scheduler.address}{trust}"
        """How a host joins it."""
        self._lines: dict[str, _Line] = {}
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._cancelled = threading.Event()
        self._waiting: set[Future[Measured]] = set()
        self._examined: dict[str, Examined] = {}
        self.wait_quiet_s = 0.0
        self.kept: Sequence[KeptFile] = ()

    def names(self) -> list[str]:
        return sorted(worker.name for worker in self._examine())

    def open(self, openings: Sequence[Opening], said: Said) -> None:
        """Have each host check what is wanted of it. `said` is told what is waited for.

        RunError for a host that is not there, or is another program; what a host refuses is raised with its name.
        """
        workers = self._present([opening.host for opening in openings], said)
        asked = []
        for opening in openings:
            worker = workers[opening.host]
            pool = ThreadPoolExecutor(1, f"ioassay-{opening.host}")
            self._lines[opening.host] = _Line(opening, worker, pool)
            asked.append((opening, worker, self._submit(worker, host_worker.open_session, opening)))
        refusals: list[IoassayError] = []
        for opening, worker, task in asked:
            try:
                answer = self._answer(worker, task)
            except _HostLost as error:
                answer = Refusal("RunError", str(error))
            if isinstance(answer, Refusal):
                refusals.append(answer.error(opening.host))
            else:
                self._examined[opening.host] = answer
        if refusals:
            raise refusals[0]

    def facts(self) -> dict[str, Any]:
        return {name: dict(found.facts) for name, found in self._examined.items()}

    def devices(self) -> list[Storage]:
        return [replace(device, host=name) for name, found in self._examined.items() for device in found.devices]

    def warnings(self) -> list[Warning_]:
        return warnings_of(
            self._examined, [study for line in self._lines.values() for study in line.opening.suite.studies]
        )

    @property
    def most(self) -> int:
        """So many that a host which is slower than others does not keep them waiting."""
        return max(16 * len(self._lines), 64)

    def submit(self, trial: Trial) -> Future[Measured]:
        return self._enqueue(_Wanted(trial))

    def submit_together(self, trials: Sequence[Trial]) -> Sequence[Future[Measured]]:
        hosts = [str(trial.point["host"]) for trial in trials]
        study = next(one for one in self._lines[hosts[0]].opening.suite.studies if one.name == trials[0].study)
        start = CommonStart(hosts, [name for name in study.hosts if name not in hosts])
        return [self._enqueue(_Wanted(trial, start=start)) for trial in trials]

    def news(self) -> Iterable[News]:
        while not self._news.empty():
            yield self._news.get()

    def cancel(self) -> None:
        self._cancelled.set()
        for future in list(self._waiting):
            future.cancel()

    def close(self) -> None:
        """End all sessions, whatever they do."""
        self._cancelled.set()
        ended = [(name, line, line.pool.submit(self._end, name, line)) for name, line in self._lines.items()]
        for name, line, task in ended:
            try:
                task.result(_ANSWER_S + PATIENCE_S)
            except Exception as error:
                debug_log.info(_SUBJECT, f"{name}: cannot be closed: {error}")
            line.pool.shutdown(wait=False, cancel_futures=True)
        self._lines, closed = {}, self._lines
        self.kept = [*self.kept, *(file for line in closed.values() for file in line.kept)]
        self._stack.close()

    def _end(self, name: str, line: _Line) -> None:
        if not self._has_ended(line.worker):
            kept = self._ask(line, host_worker.close_session, line.opening.token)
            line.kept = [
                KeptFile(path=f"{name}:{file['path']}", bytes=file["bytes"], remove=f"on {name}: {file['remove']}")
                for file in kept
            ]

    # Hosts that are there

    def _examine(self) -> list[Worker]:
        """Workers that measure. RunError where the scheduler does not answer."""
        try:
            return dask_clusters.examine(self._client, dask_clusters.addresses(self._client, measuring=True))
        except OSError as error:
            raise RunError(f"{self._title} does not answer: {error}") from None

    def _present(self, names: Sequence[str], said: Said) -> dict[str, Worker]:
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
            self._ask(line, host_worker.close_session, line.opening.token)
        while not self._cancelled.is_set():
            try:
                found = [worker for worker in self._examine() if worker.name == name]
            except RunError as error:
                why = str(error)
                break
            if found and not found[0].refusal:
                line.worker = found[0]
                answer = self._answer(line.worker, self._submit(line.worker, host_worker.open_session, line.opening))
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
            line.worker, host_worker.measure, token, trial, together=start is not None, wait_quiet_s=self.wait_quiet_s
        )
        answered_s, released, line.arrived = time.monotonic(), start is None, False
        while not task.wait(_PAUSE_S if released else _HELD_PAUSE_S):
            if self._cancelled.is_set():
                raise _Stopped
            state = self._state(line, token)
            if state is not None:
                answered_s = time.monotonic()
                if state.trial == trial.id and state.preparing:
                    self._news.put(News(trial, preparing=state.preparing, share=state.share))
                elif state.trial == trial.id and not state.held:
                    self._news.put(News(trial, state.rates))
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
            line.offset = clock_offset(lambda: float(self._ask(line, time.time)))
            start.arrive(host, line.offset)
        if (instant_s := start.instant_s(_HELD_PAUSE_S)) is None:
            return False
        at = Release(instant_s + line.offset.seconds, line.offset.uncertainty_s, start.absent)
        self._ask(line, host_worker.release, line.opening.token, trial.id, at)
        ahead = f"its clock is {line.offset.seconds * 1e3:+.2f} ms from this one's"
        debug_log.debug(_SUBJECT, f"{host}: {trial.id} starts together; {ahead}")
        return True

    # Calls to a worker

    def _submit(self, worker: Worker, function: Callable[..., Any], *arguments: Any, **options: Any) -> _Task:
        """A task of one worker; no other runs it, nor this one twice."""
        key, resources = f"ioassay-host-{uuid.uuid4().hex}", {dask_clusters.RESOURCE: 1}
        where = {"workers": [worker.address], "allow_other_workers": False, "resources": resources}
        return _Task(self._client.submit(function, *arguments, **options, key=key, pure=False, retries=0, **where))

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
            return worker.address not in dask_clusters.addresses(self._client, measuring=True)
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
            state: State | None = self._ask(line, host_worker.state, token)
        except _HostLost as error:
            debug_log.debug(_SUBJECT, f"{line.opening.host}: {error}")
            return None
        if state is None:
            raise _HostLost("its worker was restarted")
        return state


def opened(
    scheduler: Scheduler, executor: str, suite: Suite, consent: Consent, said: Said, *, without_tools: bool
) -> tuple[Suite, Fleet]:
    """See runner.executors.open_hosts: those that have joined a scheduler."""
    fleet = Fleet(scheduler)
    try:
        if any(ALL_HOSTS in study.hosts for study in suite.studies):
            if not (names := fleet.names()):
                wanted = f"expected one at least: {fleet.join} --name NAME"
                raise UsageError(f"run.hosts is all, and {executor} has no host; {wanted}")
            studies = [study.on_hosts(names) if ALL_HOSTS in study.hosts else study for study in suite.studies]
            suite = suite.model_copy(update={"studies": studies})
        token = secrets.token_hex(8)
        openings = [
            Opening(f"{token}-{name}", name, suite, replace(consent, names=own), without_tools)
            for name in executors.host_names(suite)
            for own in [tuple(one.removeprefix(f"{name}:") for one in consent.names if one.startswith(f"{name}:"))]
        ]
        fleet.open(openings, said)
    except BaseException:
        fleet.close()
        raise
    return suite, fleet


def warnings_of(examined: Mapping[str, Examined], studies: Iterable[Study]) -> list[Warning_]:
    """Those of the checks, each once with the hosts that it is about, and what the hosts' storage means together."""
    found: dict[Warning_, list[str]] = defaultdict(list)
    for name, one in examined.items():
        for warning in one.warnings:
            found[warning].append(name)
    named = [replace(warning, text=f"{', '.join(names)}: {warning.text}") for warning, names in found.items()]
    # Storage that hosts share, where they do not start together: their loads meet by chance.
    users: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, one in examined.items():
        mount = one.facts.get("disk", {}).get("mount", {})
        if mount.get("filesystem") in filesystem.NETWORK:
            users[mount["filesystem"], str(mount.get("source"))].append(name)
    apart = any(study.hosts and not study.run.together for study in studies)
    return named + [
        Warning_(
            "shared-storage",
            f"{', '.join(names)} measure side by side on {source} ({kind}), and their loads meet by chance",
            "--set run.together=true starts each trial on all of them at one instant",
        )
        for (kind, source), names in users.items()
        if apart and len(names) > 1
    ]
