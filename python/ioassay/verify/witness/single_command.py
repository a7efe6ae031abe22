"""One run of any command under the witness, outside of a study."""

from __future__ import annotations

import errno
import math
import os
import stat
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from ioassay import host
from ioassay.errors import StartError, UsageError
from ioassay.host import interference
from ioassay.host.interference import Meter
from ioassay.process import process_table, supervisor
from ioassay.process.job_control import Job, OutputRelay
from ioassay.records.observation import Observation
from ioassay.records.record import Environment
from ioassay.roles import Outcome
from ioassay.verify.witness.observed_command import AUTO, CallListing, Watching, watching

_NO_SUCH_PROGRAM, _NOT_EXECUTABLE = 127, 126  # sh(1p), "Exit Status"


@dataclass(frozen=True)
class Observed:
    """How a command ended, and what the witness saw of it."""

    outcome: Outcome
    seen: Observation | None
    """None for level OFF."""
    environment: Environment | None
    """What else used the machine."""
    is_output_truncated: bool = False
    """It printed more than is kept for who reads its claims."""
    unshown: OSError | None = None
    """Why a part of its output could not be shown."""
    was_interrupted: bool = False
    """The user ended it, or asked it to end, by a signal."""
    listed: CallListing | None = None
    """The listing of calls that was asked for."""


Watch = Callable[..., Observed]
"""Runs a command as `watch` does, for another audience."""


def watch(
    argv: Sequence[str],
    level: str,
    folder: Path,
    *,
    backend: str = AUTO,
    layers: Sequence[str] = (),
    stdin: int | None = None,
    shown: tuple[int, int] | None = None,
    reads_output: bool = True,
    server: Watching | None = None,
    servers: Collection[str] = (),
    listing: str | None = None,
) -> Observed:
    """Run `argv` to its end; what it prints goes to `stdout` and `stderr` in `folder`, a new folder for each run.

    `level`, `backend`, `layers` and `listing` are those of `watching`; its devices are the disks under the files that
    the command seems to name, and under the working directory. With `server` the command is a client, and what is
    watched meanwhile is the server alone, whose programs are called `servers`. With `shown` the command is a job of the
    user's terminal, and its output goes to these two descriptors, and to the files only with `reads_output`.
    StartError, with the exit status of a shell, when it cannot be started; ToolError when a backend that was asked for
    by name cannot run.
    """
    devices = sorted({name for path in (Path(), *paths_in(argv)) for name in host.devices(path)})
    meter = Meter(servers=servers)
    tag = f"witness of {os.getpid()} in {folder}"
    kept = folder / "stdout", folder / "stderr"
    with (
        OutputRelay(shown, kept if reads_output else ()) if shown else nullcontext() as relay,
        Job(relay) if relay else nullcontext() as job,
        supervisor.if_killed(lambda: _clean_up(tag, job), terminal=job.terminal if job else None),
        server or watching(level, devices, folder, backend=backend, layers=layers, listing=listing) as watched,
    ):
        before = process_table.foster_children()

        def held(pid: int) -> None:
            meter.begin(os.sched_getaffinity(pid))
            watched.held(pid)
            if job:
                job.begin(pid)

        def ended(pid: int) -> None:
            watched.ended(pid)
            if job:
                job.end()

        try:
            outcome = supervisor.run(
                watched.command(argv),
                stdout=kept[0],
                stderr=kept[1],
                timeout_s=math.inf,
                on_held=held,
                on_ended=ended,
                on_wait=job.look if job else None,
                env={supervisor.TRIAL_VARIABLE: tag},
                stdin=stdin,
                outputs=relay.ends if relay else None,
                spare_daemons=True,
            )
        except StartError as error:
            error.exit_code = _NO_SUCH_PROGRAM if error.number == errno.ENOENT else _NOT_EXECUTABLE
            raise
        environment = meter.end(interference.cpu_time(outcome.usage))
        was_interrupted = job is not None and job.was_interrupted(outcome)
        if was_interrupted:
            supervisor.end_orphans(tag)
        adopted = {pid for pid in supervisor.adopted(before) if process_table.group_of(pid) is not None}
        if relay:
            relay.finish()
            if adopted:
                relay.discard()
        seen = watched.observation(outcome)
        if seen is not None and adopted:  # daemons left the command's group: they go on, and nobody watches them
            number = "1 process" if len(adopted) == 1 else f"{len(adopted)} processes"
            why = f"{number} outlived the command, and what it left to do was not watched"
            health = {**seen.health, "outlived": len(adopted)}
            seen = replace(seen, health=health, why="; ".join(filter(None, (seen.why, why))))
        return Observed(
            outcome,
            seen,
            environment,
            is_output_truncated=relay.is_truncated if relay else False,
            unshown=relay.failure if relay else None,
            was_interrupted=was_interrupted,
            listed=watched.listed,
        )


def words(command: Sequence[str | Path]) -> list[str]:
    """The words of a command, paths as text. UsageError for one text: nothing here goes through a shell."""
    if isinstance(command, str) or not all(isinstance(word, str | Path) for word in command):
        raise UsageError(f"command is {command!r}; expected a list of words, such as ['dd', 'if=data', 'of=/dev/null']")
    return list(map(str, command))


def paths_in(argv: Sequence[str]) -> list[Path]:
    """The files, folders and block devices that a command line seems to name, each once: only guessed.

    A word, or what stands after its '=', that is a path which is there, or would be made in a folder that is there.
    """
    words = [part for word in argv[1:] for part in {word, word.partition("=")[2]} if part and not part.startswith("-")]
    return list(dict.fromkeys(Path(word) for word in words if _may_be_path(word)))


def _may_be_path(word: str) -> bool:
    try:
        mode = os.stat(word).st_mode  # noqa: PTH116 (an odd word is no error)
    except (OSError, ValueError):
        return "/" in word and os.path.isdir(os.path.dirname(word))  # noqa: PTH112, PTH120
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode)


def _clean_up(tag: str, job: Job | None) -> None:
    """After this process was killed: the terminal is the user's again, and what the command started has ended."""
    if job:
        job.settle()
    supervisor.end_orphans(tag)
