"""What a run elsewhere has measured on this host: checks first, then one trial after the other, then all put back.

A session is a run of this host in a temporary folder, whose trials come one by one (`run.execute`). What a trial leaves
goes back by value. A session ends by itself when the run no longer asks about it, since that may have been killed.

The worker of the host (`ioassay worker`, docs/hosts.md) listens on the address from which it reaches the scheduler. No
nanny restarts it: its session is lost then, and the run has to know. `open_session` and `measure` are tasks of Dask,
which pickles functions by name, and a host has one at a time. All else runs in its event loop, also during a task, and
answers at once.
"""

from __future__ import annotations

import asyncio
import os
import queue
import re
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ioassay import debug_log, errors, units
from ioassay.drivers import driver
from ioassay.errors import IoassayError, RunError, UsageError
from ioassay.factors import HOST
from ioassay.packs.hosts import executors
from ioassay.packs.hosts.executors import Scheduler, dask_clusters, requires
from ioassay.process import supervisor
from ioassay.records.record import Record, Warning_
from ioassay.roles import Consent, CurrentRates, Trial
from ioassay.runner import preflight, run
from ioassay.runner.executors import Gate, KeptFile, Measured, Start, gathered, kept_files
from ioassay.runner.preflight import PreparedStudy, Storage
from ioassay.runner.progress import Progress
from ioassay.store.run_folder import RunStore
from ioassay.study.model import ALL_HOSTS, HOST_NAME, Suite

LEASE_S = 120.0
"""How long a session goes on without being asked about."""
MOST_RETURNED_BYTES = 256 * 2**20
"""What a trial may leave to go back by value."""
_PAUSE_S = 0.5
_FINE_S = 0.002
"""Before the instant of a start, the time in which the clock is read without pause."""


@dataclass(frozen=True)
class Opening:
    token: str
    """Names the session."""
    host: str
    suite: Suite
    consent: Consent = field(default_factory=Consent)
    without_tools: bool = False
    """A missing tool is a warning: nothing is to be measured."""


@dataclass(frozen=True)
class Examined:
    facts: Mapping[str, Any]
    warnings: Sequence[Warning_]
    devices: Sequence[Storage]


@dataclass(frozen=True)
class State:
    trial: str = ""
    """The id of the trial under way."""
    held: bool = False
    """Its tool waits for the instant of its start."""
    rates: CurrentRates | None = None
    preparing: str = ""
    share: float = 0.0
    ended: str = ""
    """Why it measures nothing any more."""


@dataclass(frozen=True)
class Release:
    """The instant of a start, by the clock of the host that gets it."""

    unix_s: float
    uncertainty_s: float
    """What the comparison of clocks may be wrong by."""
    absent: Sequence[str] = ()
    """Hosts that do not start with the others."""


class Session(Gate, Progress, run.Source):
    """One run's measurements on this host. `folder` is where relative paths of its studies start from."""

    def __init__(self, opening: Opening, folder: Path) -> None:
        self.opening, self._folder = opening, folder
        own = [  # the studies that name the host, for it alone; the run decides about repetitions and common starts
            study.model_copy(
                update={
                    "factors": {**study.factors, HOST: [opening.host]},
                    "params": _in_folder(study.driver, study.params, folder),
                    "until": None,
                    "repetitions": study.max_repetitions,
                    "run": study.run.model_copy(update={"together": False}),
                }
            )
            for study in opening.suite.studies
            if opening.host in study.hosts
        ]
        self._suite = opening.suite.model_copy(update={"studies": own, "figures": []})
        self._benches: Sequence[PreparedStudy] = ()
        self._wanted: queue.SimpleQueue[tuple[Trial, Future[Measured], bool] | None] = queue.SimpleQueue()
        self._current: tuple[Trial, Future[Measured], bool] | None = None
        self._state, self._lock = State(), threading.Lock()
        self._release: Release | None = None
        self._released = threading.Event()
        self._thread: threading.Thread | None = None
        self._closing = ""
        """Why it is being closed."""
        self.began_unix_s, self._asked_s = time.time(), time.monotonic()

    def examine(self) -> Examined:
        """Everything that can be said before the first trial; IoassayError where the host cannot do it."""
        self._benches, warnings = preflight.inspect(
            self._suite, self.opening.consent, self._folder, without_tools=self.opening.without_tools, on_host=True
        )
        facts = gathered(self._benches)
        return Examined(facts, warnings, preflight.devices(self._benches))

    @property
    def is_over(self) -> bool:
        """Whether it measures nothing any more, or the run has not asked about it for too long."""
        return bool(self._closing or self._state.ended) or time.monotonic() - self._asked_s > LEASE_S

    def measure(self, trial: Trial, *, together: bool = False, wait_quiet_s: float = 0.0) -> Measured:
        """Measure a trial. With `together`, its tool is held until `release` says when it starts."""
        self._asked_s = time.monotonic()
        future: Future[Measured] = Future()
        self._wanted.put((trial, future, together))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(wait_quiet_s,), name="ioassay-session")
            self._thread.start()
        while not wait([future], _PAUSE_S).done:
            if not self._thread.is_alive() and not future.done():
                return Measured(reason=self._state.ended, is_over=True, began_unix_s=time.time())
        return future.result()

    def state(self) -> State:
        """What it does now. To be asked keeps it from ending by itself."""
        self._asked_s = time.monotonic()
        return self._state

    def release(self, trial_id: str, release: Release) -> None:
        self._asked_s = time.monotonic()
        if self._state.trial == trial_id:
            self._release = release
            self._released.set()

    def close(self, why: str = "the run on another host ended it") -> Sequence[KeptFile]:
        """End what runs, put everything back, and say which files stay."""
        self._closing = self._closing or why
        self._wanted.put(None)
        self._released.set()
        if self._thread is not None:
            self._thread.join()
        return kept_files(self._benches)

    # What follows runs in the session's own thread.

    def _run(self, wait_quiet_s: float) -> None:
        try:
            with supervisor.temporary_folder("ioassay-host-") as scratch:
                self._store = RunStore.create(scratch / "run", self._suite, {})
                run.execute(
                    self._store, self._benches, self, workers=1, source=self, wait_quiet_s=wait_quiet_s, gate=self
                )
            why = self._closing or "the session on this host ended"
        except IoassayError as error:
            why = str(error)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        debug_log.info("host", f"session {self.opening.token} ended: {why}")
        self._set(State(ended=why))
        waiting = [] if self._current is None else [self._current]
        while not self._wanted.empty():
            waiting += [asked] if (asked := self._wanted.get()) is not None else []
        for _, future, _ in waiting:
            if not future.done():
                future.set_result(Measured(reason=why, is_over=True, began_unix_s=time.time()))

    def trials(self) -> Iterator[Trial | None]:
        """See run.Source: the trials that are asked for."""
        while not self.withdrawn():
            try:
                asked = self._wanted.get(timeout=_PAUSE_S)
            except queue.Empty:
                continue
            if asked is None:
                return
            self._current, self._release = asked, None
            self._released.clear()
            self._set(State(trial=asked[0].id))
            yield replace(asked[0], params=_in_folder(asked[0].driver, asked[0].params, self._folder))

    def on_record(self, trial: Trial, record: Record) -> None:
        """See run.Source: hands over what the trial left, and removes it here."""
        folder = self._store.folder(trial.id)
        paths = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
        size_bytes = sum(path.stat().st_size for path in paths.values())
        if size_bytes > MOST_RETURNED_BYTES:
            most = units.format_size(MOST_RETURNED_BYTES)
            reason = (
                f"it leaves {units.format_size(size_bytes)}, and a host returns at most {most}; expected less logging"
            )
            measured = Measured({}, reason, began_unix_s=record.started_unix_s, lasted_s=record.duration_s)
        else:
            measured = Measured({name: path.read_bytes() for name, path in paths.items()})
        shutil.rmtree(folder)
        current, self._current = self._current, None
        self._set(State())
        if current is not None:
            current[1].set_result(measured)

    def preparing(self, text: str, share: float) -> None:
        self._set(replace(self._state, preparing=text, share=share))

    def started(self, trial: Trial) -> None:
        """See Progress: it begins to be measured, and its tool may yet be held."""
        self._set(replace(self._state, preparing="", share=0.0))

    def measuring(self, trial: Trial, rates: CurrentRates) -> None:
        self._set(replace(self._state, rates=rates))

    def ready(self, trial: Trial) -> None:
        """See Gate: waits for the instant, as long as the run that asked goes on."""
        if self._current is None or not self._current[2]:
            return
        self._set(replace(self._state, held=True, preparing="", share=0.0))
        while not self._released.wait(_PAUSE_S) and not self.withdrawn():
            pass

    def go(self, trial: Trial) -> None:
        if self._release is not None:
            while (left_s := self._release.unix_s - time.time()) > 0:
                if left_s > _FINE_S:
                    time.sleep(left_s - _FINE_S)
        self._set(replace(self._state, held=False))

    def account(self, trial: Trial, unix_s: float) -> Start:
        """See Gate: how far from the instant the tool was started."""
        release = self._release
        if release is None:
            return Start()
        metrics = {"start.late": (unix_s - release.unix_s) * 1e9, "start.uncertainty": release.uncertainty_s * 1e9}
        names = ", ".join(release.absent)
        text = f"{names} did not start with this host; expected all at one instant"
        return Start(metrics, [Warning_("together-incomplete", text)] if release.absent else [])

    def withdrawn(self) -> str:
        if self._closing:
            return self._closing
        silent_s = time.monotonic() - self._asked_s
        return f"its run has not asked about it for {silent_s:.0f} s" if silent_s > LEASE_S else ""

    def _set(self, state: State) -> None:
        with self._lock:
            self._state = state


def _in_folder(name: str, params: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    return dict(driver(name).in_folder(params, folder))


def named(text: str, host: str) -> str:
    """A message of one host in a run of several: what it says of consent names the host."""
    return f"{host}: " + re.sub(r"--destroy-data=(['\"]?)", rf"--destroy-data=\g<1>{host}:", text)


@dataclass
class _Here:
    """This host, as `ioassay worker` set it up."""

    folder: Path = field(default_factory=Path)
    """Where relative paths of studies start from."""
    allow_exec: bool = False
    """Whether a load may run programs here, which no check can see."""
    sessions: dict[str, Session] = field(default_factory=dict)


_HERE = _Here()


@dataclass(frozen=True)
class Refusal:
    """Why a host does not measure for a run: the name of a class of `ioassay.errors`, and its message."""

    kind: str
    text: str

    def error(self, host: str) -> IoassayError:
        kind = getattr(errors, self.kind, errors.RunError)
        made: IoassayError = kind(named(self.text, host))
        return made


def open_session(opening: Opening) -> Examined | Refusal:
    """Check what a run wants to measure here, and have a session for it."""
    for token, other in list(_HERE.sessions.items()):
        if not other.is_over and token != opening.token:
            since = time.strftime("%H:%M:%S", time.localtime(other.began_unix_s))
            text = f"measures for another run ('{other.opening.suite.name}', since {since}); wait for it or end it"
            return Refusal("RunError", text)
        other.close()
        del _HERE.sessions[token]
    exec_refused = opening.consent.exec and not _HERE.allow_exec
    if exec_refused:
        opening = replace(opening, consent=replace(opening.consent, exec=False))
    try:
        session = Session(opening, _HERE.folder)
        examined = session.examine()
    except IoassayError as error:
        remedy = "\nIts worker has to allow it as well: ioassay worker --allow-exec"
        text = str(error) + (remedy if exec_refused and isinstance(error, errors.SafetyRefusal) else "")
        return Refusal(type(error).__name__, text)
    if not opening.without_tools:
        _HERE.sessions[opening.token] = session
    return examined


def measure(token: str, trial: Trial, *, together: bool, wait_quiet_s: float) -> Measured:
    session = _HERE.sessions.get(token)
    if session is None:
        return Measured(reason="its worker was restarted", is_over=True, began_unix_s=time.time())
    return session.measure(trial, together=together, wait_quiet_s=wait_quiet_s)


def state(token: str) -> State | None:
    session = _HERE.sessions.get(token)
    return session.state() if session is not None else None


def release(token: str, trial_id: str, at: Release) -> None:
    if session := _HERE.sessions.get(token):
        session.release(trial_id, at)


async def close_session(token: str) -> Sequence[KeptFile]:
    """End a session, and say which files stay."""
    session = _HERE.sessions.pop(token, None)
    return await asyncio.to_thread(session.close) if session is not None else ()


def close_all(why: str) -> None:
    for token in list(_HERE.sessions):
        _HERE.sessions.pop(token).close(why)


_CONNECT_S = 30.0


def serve(address: str, name: str, folder: Path, *, allow_exec: bool, said: Callable[[str], None]) -> None:
    """Measure for the runs that a scheduler's clients make, until SIGINT or SIGTERM; `said` is told that it does.

    Relative paths of studies start from `folder`, which becomes the working directory. Loads may run programs only with
    `allow_exec`. UsageError for a network that was not called trusted, RunError where no scheduler answers, has such a
    name already, or goes away.
    """
    if not HOST_NAME.match(name) or name == ALL_HOSTS:
        raise UsageError(
            f"--name {name}: expected letters, digits, '.', '_' and '-', and another name than {ALL_HOSTS}"
        )
    scheduler = executors.scheduler(address)
    requires("distributed", "ioassay worker")
    address = dask_clusters.require_consent(scheduler)
    _HERE.folder, _HERE.allow_exec = folder.absolute(), allow_exec
    os.chdir(folder)  # paths of job files start where their tool does
    with (
        dask_clusters.silenced(),
        supervisor.temporary_folder("ioassay-worker-") as scratch,
        dask_clusters.configured("worker", scratch),
    ):
        try:
            asyncio.run(_serve(address, scheduler, name, str(scratch), said))
        finally:
            close_all("its worker was stopped")


async def _serve(address: str, scheduler: Scheduler, name: str, scratch: str, said: Callable[[str], None]) -> None:
    import distributed

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    stopping = asyncio.ensure_future(stopped.wait())
    try:  # the address of this host on the way to the scheduler
        places = socket.getaddrinfo(scheduler.host.strip("[]"), scheduler.port, type=socket.SOCK_DGRAM)
        family, kind, *_, place = places[0]
        with socket.socket(family, kind) as probe:
            probe.connect(place)  # of datagrams: nothing is sent
            own_address = str(probe.getsockname()[0])
    except OSError as error:
        raise RunError(f"{scheduler.host}: cannot be reached: {error.strerror or error}") from None
    try:
        worker = distributed.Worker(
            address,
            name=name,
            nthreads=1,
            resources={dask_clusters.RESOURCE: 1},
            host=own_address,
            local_directory=scratch,
            memory_limit=0,
            dashboard=False,
            death_timeout=_CONNECT_S,
        )
        starting = asyncio.ensure_future(worker)
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if stopped.is_set():
            starting.cancel()
            return
        await starting
    except (OSError, ValueError, TimeoutError, RuntimeError) as error:
        raise RunError(_why_not(error, address, name)) from None
    said(f"host {name}: measures for runs of {address}, one trial at a time, in {_HERE.folder}")
    finished = asyncio.ensure_future(worker.finished())
    await asyncio.wait([finished, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not stopped.is_set():
        raise RunError(f"the scheduler at {address} went away; start this worker again when it is back")
    await asyncio.to_thread(close_all, "its worker was stopped")
    await worker.close(timeout=5, reason="ioassay-worker-stopped")


def _why_not(error: BaseException, address: str, name: str) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if f"name taken, {name}" in str(cause):
            return f"{address} has a worker called '{name}' already; expected another --name"
        cause = cause.__cause__ or cause.__context__
    text = dask_clusters.first_line(error)
    return f"no Dask scheduler answers at {address}: {text}; start one there: dask scheduler --host ADDRESS"
