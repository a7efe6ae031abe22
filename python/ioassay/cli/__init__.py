"""The command line: one file a command, each a table of contents of its work. Only this package prints or exits.

Commands import what they need when they run, so that `ioassay --help` answers at once. No traceback reaches the user
for what the user or the machine did; a bug of ours shows one, with what to do about it.
Exit codes: 0 done; 1 failed, or a regression found; 2 bad usage or input; 3 refused for safety;
4 the kernel contradicts the claim; 130 interrupted.
"""

from __future__ import annotations

import errno
import itertools
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

import typer

import ioassay
from ioassay.cli import (
    compare,
    console,
    device,
    doctor,
    export,
    filesuite,
    import_,
    plan,
    quick,
    record,
    report,
    run,
    simulate,
    sql,
    studies,
    trace,
    tune,
    witness,
)
from ioassay.errors import Interrupted, IoassayError, UsageError

app = typer.Typer(
    name="ioassay",
    help="How fast is this storage, or this kernel subsystem, really, and why?",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    quick,
    run,
    plan,
    studies,
    report,
    compare,
    export,
    tune,
    import_,
    doctor,
    sql,
    witness,
    record,
    trace,
    simulate,
    filesuite,
    device,
):
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
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup wants the run to go on
        signal.signal(signal.SIGHUP, _terminated)
    console.prepare("--json" in itertools.takewhile("--".__ne__, sys.argv[1:]))
    try:
        code = _run()
        sys.stdout.flush()
    except OSError as error:
        code = _unsaid(error)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # all is said: a second Ctrl-C must not change how it ended
    sys.exit(code)


def _run() -> int:
    """The command's exit code; every error has been said."""
    try:
        code = app(prog_name="ioassay", standalone_mode=False)
        if code == Interrupted.exit_code:  # typer makes that of Ctrl-C
            raise Interrupted("interrupted")
        return code or 0
    except IoassayError as error:
        return console.problem(error)
    except typer.TyperException as error:
        return _misused(error)
    except KeyboardInterrupt:
        return console.problem(Interrupted("interrupted"))
    except OSError as error:
        if _is_of_streams(error):
            raise
        return console.problem(_of_machine(error))
    except Exception as error:
        return console.bug(error)


def _misused(error: typer.TyperException) -> int:
    """An unknown command or option, or a value of the wrong kind; without any argument the help."""
    message = error.format_message().rstrip(".")
    if len(sys.argv) == 1 or message.startswith("Usage:"):  # of a command with commands of its own
        console.note(message)
        return UsageError.exit_code
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "ioassay"
    return console.problem(UsageError(f"{message} (see: {command} --help)"))


def _of_machine(error: OSError) -> IoassayError:
    """What the operating system refused, where nobody knew more about it."""
    if isinstance(error, FileNotFoundError) and error.filename is None and not _is_somewhere():
        return IoassayError("the working directory does not exist any more; change to another with cd")
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return IoassayError(f"{where}{error.strerror or error}")


def _is_somewhere() -> bool:
    try:
        return Path.cwd().exists()
    except OSError:
        return False


def _is_of_streams(error: OSError) -> bool:
    return error.filename is None and error.errno in (errno.EPIPE, errno.EBADF, errno.EIO)


def _unsaid(error: OSError) -> int:
    """Our output could not be written. To a reader that went away (`ioassay … | head`) nothing is left to say."""
    if error.errno != errno.EPIPE:
        with suppress(OSError):
            console.note(f"ioassay: the output cannot be written: {error.strerror}")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # what is still buffered goes nowhere, without a second complaint
        os.dup2(nowhere, stream)
    return 1


def _terminated(number: int, frame: FrameType | None) -> None:
    raise Interrupted(f"ended by {signal.Signals(number).name}")
