"""The command line: one file a command, each a table of contents of its work. Only this package prints or exits.

A command is imported when it is asked for, and imports what it needs when it runs: `ioassay --help` needs nothing but
the table below. No traceback reaches the user for what the user or the machine did; a bug of ours shows one, with what
to do about it.
Exit codes: 0 done; 1 failed, or a regression found; 2 bad usage or input; 3 refused for safety;
4 the kernel contradicts the claim; 130 interrupted. `witness` and `record` pass on the status of their command.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Sequence

from ioassay import debug_log
from ioassay.cli import console
from ioassay.errors import Interrupted, IoassayError, IoassayWarning, ToolError, UsageError
from ioassay.pack import listed
from ioassay.process import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ioassay.cli.syntax import Command, Group

ABOUT = "How fast is this storage, or this kernel subsystem, really, and why?"
_ENTRIES: dict[str, tuple[str, str]] = listed(
    "commands",
    {
        "run": ("ioassay.cli.run:run", "Run a study and write its report."),
        "plan": ("ioassay.cli.run:plan", "Show trials, order, time and bytes written; run nothing."),
        "studies": ("ioassay.cli.run:studies", "List the built-in studies."),
        "report": ("ioassay.cli.results", "Rebuild findings, figures and page from the records of a run."),
        "export": ("ioassay.cli.results", "Write a run into one archive to share, as tables, or as a summary."),
        "doctor": ("ioassay.cli.doctor:doctor", "Check if this host is fit to measure, and say how to fix it."),
        "sql": ("ioassay.cli.results", "Query the records of one or more runs with SQL."),
        "new-pack": (
            "ioassay.cli.new_pack:new_pack",
            "Write a package for another tool: a driver, its tests and a study.",
        ),
        "help": ("ioassay.cli.help:show", "Show the help of a command, or a document."),
    },
)
COMMANDS = {name: about for name, (_, about) in _ENTRIES.items()}
"""Each command and the first sentence of its help, which is its function's docstring (tests/cli/test_syntax.py)."""
LOG_LEVEL = "--log-level"
OPTIONS = (
    ("-V, --version", "Print the version."),
    ("--install-completion", "Install completion for the current shell."),
    ("--log-level LEVEL", "Log what is decided and why to standard error: off (default), info, debug. Any command."),
    ("--show-completion", "Show completion for the current shell, to copy it or customize the installation."),
)

SHELL_OPTIONS = ("--install-completion", "--show-completion")
COMPLETE = ("--complete", "--candidates")
"""What the shells' scripts call (`completion`); the second has what each candidate means."""
MANUAL = "--manual"
"""Writes the manual's pages into a folder, for packages (`manual`)."""

_PYTHON_WARNING = warnings.showwarning
_UNFIT = "Missing required CPU features"
"""How polars begins its warning on a processor on which it will crash (polars/_cpu_check.py)."""


def run(words: Sequence[str]) -> int:
    """Run what the words of the command line ask for; the exit code. Every error has been said."""
    warnings.filterwarnings("error", _UNFIT, RuntimeWarning)
    warnings.simplefilter("always", IoassayWarning)
    warnings.showwarning = _show_warning
    console.prepare("--json" in (words[: words.index("--")] if "--" in words else words))
    code = 0
    try:
        code = _answered(words)
        console.finish()
    except console.Unwritten as loss:
        code = console.complain(loss, code)
    debug_log.info("command", f"exit status {code}")
    return code


def _show_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """See warnings.showwarning: what we warn of is the business of the user, and where in our code is not."""
    if issubclass(category, IoassayWarning):
        console.note(f"warning: {message} [{category.code}]")
    else:
        _PYTHON_WARNING(message, category, *place, **more)


def named(name: str) -> Command | Group:
    """The command of that name, imported."""
    from importlib import import_module

    from ioassay.cli import syntax

    module, _, member = _ENTRIES[name][0].partition(":")
    found = import_module(module)
    if member:
        command = getattr(found, member)
        return command if isinstance(command, syntax.Command) else syntax.Command(command)
    app = syntax.Group(ABOUT)
    found.register(app)
    return app.members[name]


def _answered(words: Sequence[str]) -> int:
    """The exit code of the command; every error has been said, but for `console.Unwritten`."""
    try:
        _dispatch(words if words and words[0] in COMPLETE else _without_log_level(words))
        return 0
    except KeyboardInterrupt as error:
        return console.problem(Interrupted(str(error) or "interrupted"))
    except Interrupted as error:
        return console.problem(error)
    except console.Exit as end:
        return end.code
    except console.Unwritten:
        raise
    except Exception as error:
        if signals.received():  # some library made another error of the interruption
            return console.problem(Interrupted(signals.sentence(signals.received()[0])))
        if isinstance(error, IoassayError):
            return console.problem(error)
        if isinstance(error, OSError):
            if error.filename is None and error.errno in (errno.EPIPE, errno.EBADF, errno.EIO):  # of our streams
                raise console.Unwritten(error) from None
            return console.problem(_of_machine(error))
        registry = sys.modules.get("ioassay.registry")
        if registry is not None and (said := registry.fault(error)):
            import traceback

            console.note("".join(traceback.format_exception(error)).rstrip())  # the lines that its author needs
            text = f"{said}. Report it to the authors of the plugin, or uninstall it"
            return console.problem(IoassayError(text))
        if isinstance(error, RuntimeWarning) and str(error).startswith(_UNFIT):
            return console.problem(_of_processor(str(error)))
        return console.bug(error)


def _without_log_level(words: Sequence[str]) -> Sequence[str]:
    """The words but `--log-level LEVEL`, which may stand anywhere before `--`, and has been obeyed."""
    end = words.index("--") if "--" in words else len(words)
    for place, word in enumerate(words[:end]):
        option, equals, level = word.partition("=")
        if option == LOG_LEVEL:
            if not equals and place + 1 == end:
                raise UsageError(f"{LOG_LEVEL} has no level after it, expected {', '.join(debug_log.LEVELS)}")
            debug_log.enable(level if equals else words[place + 1], sys.stderr)
            rest = [*words[:place], *words[place + (1 if equals else 2) :]]
            debug_log.info("command", f"ioassay {' '.join(rest)}")
            return rest
    return words


def _dispatch(words: Sequence[str]) -> None:
    first = words[0] if words else ""
    if first in COMMANDS:
        named(first).run(words[1:], f"ioassay {first}")
    elif first in ("-V", "--version"):
        import ioassay

        console.line(f"ioassay {ioassay.__version__}")
    elif first in (*SHELL_OPTIONS, *COMPLETE):
        from ioassay.cli import completion

        completion.answer(first, words[1:])
    elif first == MANUAL:
        from ioassay.cli import manual

        manual.answer(words[1:])
    elif not words or first in ("-h", "--help"):
        from ioassay.cli import helptext

        helptext.group("ioassay", ABOUT, COMMANDS, OPTIONS, missing=not words)
        if not words:
            raise console.Exit(UsageError.exit_code)
    else:
        from ioassay.cli import syntax

        raise syntax.unknown(first, [*COMMANDS, *option_names()], "ioassay")


def option_names() -> dict[str, str]:
    """The options that stand in place of a command, or before any, each with what it does."""
    return {word: about for term, about in OPTIONS for word in term.replace(",", "").split() if word.startswith("-")}


def _of_machine(error: OSError) -> IoassayError:
    """What the operating system refused, where nobody knew more about it."""
    from pathlib import Path

    try:
        is_somewhere = Path.cwd().exists()
    except OSError:
        is_somewhere = False
    if isinstance(error, FileNotFoundError) and error.filename is None and not is_somewhere:
        return IoassayError("the working directory does not exist any more; change to another with cd")
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return IoassayError(f"{where}{error.strerror or error}")


def _of_processor(said: str) -> ToolError:
    """What polars says of a processor that lacks instructions which it was built for."""
    from importlib.util import find_spec

    _, _, rest = said.partition(":\n")
    missing = rest.strip().partition("\n")[0] or "instructions"
    if find_spec("_polars_runtime_compat") is not None:
        return ToolError(f"this processor lacks {missing}, which every build of polars needs; use a newer processor")
    remedy = (
        "install the build for older ones with pip install 'polars[rtcompat]'; runs are kept and need no repetition"
    )
    return ToolError(f"this processor lacks {missing}, which the installed build of polars needs; {remedy}")
