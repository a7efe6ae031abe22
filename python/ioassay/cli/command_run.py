"""One run of a command that a user gives, under the witness: it has the user's streams and terminal.

What it prints is shown as it comes; under --json, or where our result takes stdout, on stderr. Its exit status becomes
ours: 128 and the number of a signal that ended it, 127 and 126 where it could not be started.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ioassay.api import witness_judgement
from ioassay.cli import console
from ioassay.process import job_control
from ioassay.units import format_size

if TYPE_CHECKING:
    from ioassay.verify.witness import Attachment, Observed

_INTERRUPTED = 130


def watch(
    command: Sequence[str],
    level: str,
    folder: Path,
    *,
    backend: str,
    quiet: bool,
    reads_output: bool = True,
    server: Attachment | None = None,
    listing: str | None = None,
) -> Observed:
    """Run it to its end; with `reads_output`, what it printed is in `stdout` and `stderr` of the new `folder`.

    `server` and `listing` are those of `witness.watch`.
    """
    from ioassay.verify import witness

    console.flush()
    watched = witness.watch(
        command,
        level,
        folder,
        witness_judgement.devices_of(command),
        backend=backend,
        stdin=None if sys.stdin is None else sys.stdin.fileno(),
        shown=((sys.stderr if quiet else sys.stdout).fileno(), sys.stderr.fileno()),
        reads_output=reads_output,
        server=server,
        listing=listing,
    )
    if watched.is_output_truncated:
        most = format_size(job_control.MOST_KEPT_BYTES)
        console.note(f"warning: only the first {most} that the command printed were searched for claims")
    if watched.unshown is not None:
        console.lose(watched.unshown)
    return watched


def status(runs: Iterable[Observed]) -> int:
    """The exit status of the first that failed."""
    return next((run.outcome.status for run in runs if run.outcome.status), 0)


def say_interruption(status: int) -> None:
    """Say last that the result is that of a command which was ended by Ctrl-C."""
    if status == _INTERRUPTED:
        console.note("ioassay: interrupted; the result is that of what the command had done")
