"""The command line: one file a command, each a table of contents of its work. Only this package prints or exits.

A command is imported when it is asked for, and imports what it needs when it runs: `ioassay --help` needs nothing but
the table below. No traceback reaches the user for what the user or the machine did; a bug of ours shows one, with what
to do about it.
Exit codes: 0 done; 1 failed, or a regression found; 2 bad usage or input; 3 refused for safety;
4 the kernel contradicts the claim; 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from ioassay.cli import console
from ioassay.errors import Interrupted, IoassayError, UsageError
from ioassay.process import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ioassay.cli.syntax import Command, Group

ABOUT = "How fast is this storage, or this kernel subsystem, really, and why?"
COMMANDS = {
    "quick": "Measure the disk under PATH in about a minute, with a report.",
    "run": "Run a study and write its report.",
    "plan": "Show trials, order, time and bytes written; run nothing.",
    "studies": "List the built-in studies.",
    "report": "Rebuild findings, figures and page from the records of a run.",
    "compare": "Compare two runs statistically; exit 1 when B is slower.",
    "export": "Write a run into one archive to share.",
    "tune": "Search a study's best parameters in few trials, and confirm them against the default.",
    "import": "Make a run, with its report, of what fio left elsewhere.",
    "doctor": "Say what would spoil a measurement here, and how to fix it.",
    "sql": "Ask one run or several anything, in SQL.",
    "witness": "Run COMMAND and set what it claims against what the kernel saw of it. "
    "Exit 4: the kernel contradicts it.",
    "record": "Run COMMAND and write down each request that reaches a block device, with its time of issue.",
    "simulate": "Run a trace over a simulated SSD and say how long its requests took, "
    "and what the drive did meanwhile.",
    "filesuite": "Write, read, and read and write in other orders, one file in records; say how fast each pass was.",
    "trace": "Look at, convert and make traces of block requests.",
    "device": "Serve the simulated drive, and ask a drive that is served.",
}
"""Each command and the first sentence of its help, which is its function's docstring (tests/cli/test_syntax.py)."""
OPTIONS = (
    ("--version", "Print the version."),
    ("--install-completion", "Install completion for the current shell."),
    ("--show-completion", "Show completion for the current shell, to copy it or customize the installation."),
)


def run(words: Sequence[str]) -> int:
    """Run what the words of the command line ask for; the exit code. Every error has been said."""
    console.prepare("--json" in (words[: words.index("--")] if "--" in words else words))
    try:
        code = _answered(words)
        sys.stdout.flush()
    except OSError as error:
        code = _unsaid(error)
    return code


def named(name: str) -> Command | Group:
    """The command of that name, imported."""
    from importlib import import_module

    from ioassay.cli import syntax

    app = syntax.Group(ABOUT)
    import_module(f"ioassay.cli.{'import_run' if name == 'import' else name}").register(app)
    return app.members[name]


def _answered(words: Sequence[str]) -> int:
    """The exit code of the command; every error has been said, but for those of our own streams."""
    try:
        _dispatch(words)
        return 0
    except KeyboardInterrupt as error:
        return console.problem(Interrupted(str(error) or "interrupted"))
    except Interrupted as error:
        return console.problem(error)
    except console.Exit as end:
        return end.code
    except Exception as error:
        if signals.received():  # some library made another error of the interruption
            return console.problem(Interrupted(signals.sentence(signals.received()[0])))
        if isinstance(error, IoassayError):
            return console.problem(error)
        if isinstance(error, OSError):
            if _is_of_streams(error):
                raise
            return console.problem(_of_machine(error))
        return console.bug(error)


def _dispatch(words: Sequence[str]) -> None:
    first = words[0] if words else ""
    if first in COMMANDS:
        named(first).run(words[1:], f"ioassay {first}")
    elif first == "--version":
        import ioassay

        console.line(f"ioassay {ioassay.__version__}")
    elif first in ("--install-completion", "--show-completion", "--complete"):
        from ioassay.cli import completion

        completion.answer(first, words[1:])
    elif first in ("-h", "--help"):
        from ioassay.cli import helptext

        helptext.group("ioassay", ABOUT, COMMANDS, OPTIONS)
    else:
        _misused(words)


def _misused(words: Sequence[str]) -> None:
    """No command, or an unknown one; without any word the help."""
    from ioassay.cli import helptext, syntax

    if not words:
        helptext.group("ioassay", ABOUT, COMMANDS, OPTIONS, missing=True)
        raise console.Exit(UsageError.exit_code)
    raise syntax.unknown(words[0], [*COMMANDS, *(name for name, _ in OPTIONS)], "ioassay")


def _of_machine(error: OSError) -> IoassayError:
    """What the operating system refused, where nobody knew more about it."""
    if isinstance(error, FileNotFoundError) and error.filename is None and not _is_somewhere():
        return IoassayError("the working directory does not exist any more; change to another with cd")
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return IoassayError(f"{where}{error.strerror or error}")


def _is_somewhere() -> bool:
    from pathlib import Path

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
