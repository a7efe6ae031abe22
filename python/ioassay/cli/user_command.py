"""A command that the user gives: it has the user's streams and terminal, and its exit status becomes ours.

What it prints is shown as it comes; under --json, or where our result takes stdout, on stderr. The status is 128 and
the number of a signal that ended it, 127 and 126 where it could not be started.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay.cli import console
from ioassay.errors import Interrupted
from ioassay.units import format_size

if TYPE_CHECKING:
    from ioassay.roles import Outcome
    from ioassay.verify.witness import Observed


def watch(command: Sequence[str], level: str, folder: Path, *, quiet: bool, **options: Any) -> Observed:
    """Run it to its end, as `witness.watch` does; `quiet` keeps stdout for our result."""
    from ioassay.process import job_control
    from ioassay.verify import witness

    console.flush()
    stdin = None if sys.stdin is None else sys.stdin.fileno()
    shown = (sys.stderr if quiet else sys.stdout).fileno(), sys.stderr.fileno()
    watched = witness.watch(command, level, folder, stdin=stdin, shown=shown, **options)
    if watched.is_output_truncated:
        most = format_size(job_control.MOST_KEPT_BYTES)
        console.note(f"warning: only the first {most} that the command printed were searched for claims")
    if watched.unshown is not None:
        console.lose(watched.unshown)
    return watched


def failure(outcome: Outcome) -> str:
    """The sentence on a command that did not end well; '' for one that did."""
    if outcome.signal is not None:
        try:
            name = signal.Signals(outcome.signal).name
        except ValueError:  # a real-time signal
            name = f"signal {outcome.signal}"
        return f"The command was ended by {name}."
    return f"The command ended with exit status {outcome.exit_code}." if outcome.exit_code else ""


def say_interruption(status: int) -> None:
    """Say last that the result is that of a command which was ended by Ctrl-C."""
    if status == Interrupted.exit_code:
        console.note("ioassay: interrupted; the result is that of what the command had done")
