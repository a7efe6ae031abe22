"""What a run elsewhere has measured on this host: checks first, then one trial after the other, then all put back.

A session is a run of this host in a temporary folder, whose trials come one by one (`run.execute`). What a trial leaves
goes back by value. A session ends by itself when the run no longer asks about it, since that may have been killed.
Only plain values go in and out, so that any transport will do (`host_worker`).
"""

from __future__ import annotations

import queue
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ioassay import debug_log, units
from ioassay.drivers import driver
from ioassay.errors import IoassayError
from ioassay.factors import HOST
from ioassay.process import supervisor
from ioassay.records.record import Record, Warning_
from ioassay.roles import Consent, CurrentRates, Trial
from ioassay.runner import hosts, preflight, run
from ioassay.runner.hosts import Gate, KeptFile, Measured, Start
from ioassay.runner.preflight import PreparedStudy, Storage
from ioassay.runner.progress import Progress
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite

LEASE_S = 120.0
"""How long a session goes on without being asked about."""
MOST_RETURNED_BYTES = 256 * 2**20
"""What a trial may leave to go back by value."""
_PAUSE_S = 0.5
_FINE_S = 0.002
"""Before the instant of a start, the time in which the clock is read without pause."""


@dataclass(frozen=True)
class Opening:
    """What a run wants of a host."""

    token: str
    """Names the session."""
    host: str
    suite: Suite
    consent: Consent = field(default_factory=Consent)
    without_tools: bool = False
    """A missing tool is a warning: nothing is to be measured."""


@dataclass(frozen=True)
class Examined:
    """What the checks of a run found on a host."""

    facts: Mapping[str, Any]
    warnings: Sequence[Warning_]
    devices: Sequence[Storage]


@dataclass(frozen=True)
class State:
    """What a session does now."""

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


class Session(Gate, Progress):
    """One run's measurements on this host. `folder` is where relative paths of its studies start from."""

    def __init__(self, opening: Opening, folder: Path) -> None:
        self.opening, self._folder = opening, folder
        self._suite = _of_host(opening, folder)
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
        facts = hosts.gathered(self._benches)
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
        """Have the tool that is held start at an instant."""
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
        return hosts.kept_files(self._benches)

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
        """See trial_sources.Source: the trials that are asked for."""
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

    def told(self, trial: Trial, record: Record) -> None:
        """See trial_sources.Source: hands over what the trial left, and removes it here."""
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

    def notes(self, study: str) -> Sequence[Warning_]:
        """See trial_sources.Source."""
        return ()

    def preparing(self, text: str, share: float) -> None:
        """See Progress."""
        self._set(replace(self._state, preparing=text, share=share))

    def started(self, trial: Trial) -> None:
        """See Progress: it begins to be measured, and its tool may yet be held."""
        self._set(replace(self._state, preparing="", share=0.0))

    def measuring(self, trial: Trial, rates: CurrentRates) -> None:
        """See Progress."""
        self._set(replace(self._state, rates=rates))

    def ready(self, trial: Trial) -> None:
        """See Gate: waits for the instant, as long as the run that asked goes on."""
        if self._current is None or not self._current[2]:
            return
        self._set(replace(self._state, held=True, preparing="", share=0.0))
        while not self._released.wait(_PAUSE_S) and not self.withdrawn():
            pass

    def go(self, trial: Trial) -> None:
        """See Gate: sleeps until the instant."""
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
        metrics = {
            "start.late": (unix_s - release.unix_s) * 1e9,
            "start.uncertainty": release.uncertainty_s * 1e9,
        }
        names = ", ".join(release.absent)
        text = f"{names} did not start with this host; expected all at one instant"
        return Start(metrics, [Warning_("together-incomplete", text)] if release.absent else [])

    def withdrawn(self) -> str:
        """See Gate."""
        if self._closing:
            return self._closing
        silent_s = time.monotonic() - self._asked_s
        return f"its run has not asked about it for {silent_s:.0f} s" if silent_s > LEASE_S else ""

    def _set(self, state: State) -> None:
        with self._lock:
            self._state = state


def _of_host(opening: Opening, folder: Path) -> Suite:
    """The studies that name the host, for it alone. The run decides about repetitions and common starts."""
    own = [
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
    return opening.suite.model_copy(update={"studies": own, "figures": []})


def _in_folder(name: str, params: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    return dict(driver(name).in_folder(params, folder))


def named(text: str, host: str) -> str:
    """A message of one host in a run of several: what it says of consent names the host."""
    return f"{host}: " + re.sub(r"--destroy-data=(['\"]?)", rf"--destroy-data=\g<1>{host}:", text)
