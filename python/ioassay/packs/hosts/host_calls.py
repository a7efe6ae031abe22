"""What runs on a host that measures (`ioassay worker`): its clock, and the sessions of runs elsewhere.

Dask pickles these functions by name. `open_session` and `measure` are tasks, and a host has one at a time. All else
runs in its event loop, also during a task, and answers at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ioassay import errors
from ioassay.errors import IoassayError
from ioassay.packs.hosts import host_session
from ioassay.packs.hosts.host_session import Examined, Opening, Release, Session, State
from ioassay.roles import Trial
from ioassay.runner.hosts import Measured
from ioassay.runner.run_facts import KeptFile

RESOURCE = "ioassay-measures"
"""A worker that has one of it measures, and computes nothing."""


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
        """The same, raised where the run is."""
        kind = getattr(errors, self.kind, errors.RunError)
        made: IoassayError = kind(host_session.named(self.text, host))
        return made


def set_up(folder: Path, *, allow_exec: bool) -> None:
    """Say what this host offers; before it joins a cluster."""
    _HERE.folder, _HERE.allow_exec = folder.absolute(), allow_exec


def folder() -> Path:
    """Where relative paths of studies start from."""
    return _HERE.folder


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
    """Measure a trial in a session."""
    session = _HERE.sessions.get(token)
    if session is None:
        return Measured(reason="its worker was restarted", is_over=True, began_unix_s=time.time())
    return session.measure(trial, together=together, wait_quiet_s=wait_quiet_s)


def clock() -> float:
    """The time (Unix, s) by this host's clock."""
    return time.time()


def state(token: str) -> State | None:
    """What a session does; None where there is none."""
    session = _HERE.sessions.get(token)
    return session.state() if session is not None else None


def release(token: str, trial_id: str, at: Release) -> None:
    """Have the tool that is held start at an instant."""
    if session := _HERE.sessions.get(token):
        session.release(trial_id, at)


async def close_session(token: str) -> Sequence[KeptFile]:
    """End a session, and say which files stay."""
    session = _HERE.sessions.pop(token, None)
    return await asyncio.to_thread(session.close) if session is not None else ()


def close_all(why: str) -> None:
    """End all sessions: this host leaves."""
    for token in list(_HERE.sessions):
        _HERE.sessions.pop(token).close(why)
