"""One run of any command under the witness, or of what runs already, outside of a study."""

from __future__ import annotations

import math
import os
import stat
import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ioassay.host import interference
from ioassay.host.interference import Meter
from ioassay.process import process_table, supervisor
from ioassay.records.environment import Environment
from ioassay.records.observation import Observation
from ioassay.roles import Outcome
from ioassay.verify.witness.attachment import Attachment
from ioassay.verify.witness.capability import AUTO
from ioassay.verify.witness.observed_command import watching


@dataclass(frozen=True)
class Observed:
    """How a command ended, and what the witness saw of it."""

    outcome: Outcome
    seen: Observation | None
    """None for level OFF."""
    environment: Environment | None
    """What else used the machine."""
    listed: Mapping[str, Any] | None = None
    """The listing of calls that was asked for."""


def watch(
    argv: Sequence[str],
    level: str,
    folder: Path,
    devices: Sequence[str] = (),
    *,
    backend: str = AUTO,
    layers: Sequence[str] = (),
    stdin: int | None = None,
    server: Attachment | None = None,
    listing: str | None = None,
) -> Observed:
    """Run `argv` to its end; what it prints goes to `stdout` and `stderr` in `folder`, a new folder for each run.

    `level`, `devices`, `backend`, `layers` and `listing` are those of `watching`. With `server` the command is a
    client, and what is watched meanwhile is the server alone. ToolError when it cannot be started, or when a backend
    that was asked for by name cannot run.
    """
    before, meter = process_table.children(), Meter(servers=server.names.values() if server else ())
    tag = f"witness of {os.getpid()} in {folder}"

    def held(pid: int) -> None:
        meter.begin(os.sched_getaffinity(pid))
        watched.held(pid)

    with server or watching(level, devices, folder, backend=backend, layers=layers, listing=listing) as watched:
        outcome = supervisor.run(
            watched.command(argv),
            stdout=folder / "stdout",
            stderr=folder / "stderr",
            timeout_s=math.inf,
            on_held=held,
            on_ended=watched.ended,
            env={supervisor.TRIAL_VARIABLE: tag},
            stdin=stdin,
            spare_daemons=True,
        )
        environment = meter.end(interference.cpu_time(outcome.usage))
        adopted = set(process_table.children()) - set(before)
        seen = _with_outlived(watched.observation(outcome), adopted)
        return Observed(outcome, seen, environment, watched.listed)


def attend(running: Attachment, seconds: float) -> Observed:
    """Watch what runs already for so long, until it has ended, or until a signal of the user's ends the watch."""
    meter = Meter(servers=running.names.values())
    with running:
        meter.begin()
        running.attach()
        started_unix_s, started_s = time.time(), time.monotonic()
        with suppress(KeyboardInterrupt):
            running.wait(seconds)
        outcome = Outcome(
            exit_code=0,
            signal=None,
            timed_out=False,
            started_unix_s=started_unix_s,
            duration_s=time.monotonic() - started_s,
            stdout=Path(os.devnull),
            stderr=Path(os.devnull),
        )
        seen = running.observation()
        return Observed(outcome, seen, meter.end(interference.CpuTime()), running.listed)


def _with_outlived(seen: Observation | None, processes: AbstractSet[int]) -> Observation | None:
    """Daemons left the command's group and were adopted: they go on, and nobody watches them any more."""
    if seen is None or not processes:
        return seen
    number = "1 process" if len(processes) == 1 else f"{len(processes)} processes"
    why = f"{number} outlived the command, and what it left to do was not watched"
    health = {**seen.health, "outlived": len(processes)}
    return replace(seen, health=health, why="; ".join(filter(None, (seen.why, why))))


def paths_in(argv: Sequence[str]) -> list[Path]:
    """The files, folders and block devices that a command line seems to name, each once: only guessed.

    A word, or what stands after its '=', that is a path which is there, or would be made in a folder that is there.
    """
    words = [part for word in argv[1:] for part in {word, word.partition("=")[2]} if part and not part.startswith("-")]
    found = dict.fromkeys(Path(word) for word in words if _may_be_path(word))
    return list(found)


def _may_be_path(word: str) -> bool:
    path = Path(word)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return "/" in word and os.path.isdir(os.path.dirname(word))  # noqa: PTH112, PTH120 (an odd word is no error)
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode)
