"""The command line: one file a command, each a table of contents of its work. Only this package prints or exits.

Commands import what they need when they run, so that `ioassay --help` answers at once.
Exit codes: 0 done; 1 failed, or a regression found; 2 bad usage or input; 3 refused for safety;
4 the kernel contradicts the claim; 130 interrupted.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

import typer

import ioassay
from ioassay.cli import compare, console, doctor, import_, plan, quick, report, run, sql, studies
from ioassay.errors import Interrupted, IoassayError

app = typer.Typer(
    name="ioassay",
    help="How fast is this storage, or this kernel subsystem, really, and why?",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (quick, run, plan, studies, report, compare, import_, doctor, sql):
    command.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        console.line(f"ioassay {ioassay.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Options before the command."""


def main() -> None:
    """Run the command line and end with its exit code."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        app(prog_name="ioassay")
    except IoassayError as error:
        console.problem(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        console.problem(Interrupted("interrupted"))
        sys.exit(Interrupted.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (`ioassay … | head`): nothing is left to say to it.
        sys.stdout = None
        sys.exit(1)


def _terminated(number: int, frame: FrameType | None) -> None:
    raise Interrupted(f"ended by {signal.Signals(number).name}")
