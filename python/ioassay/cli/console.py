"""What is said and where: results to stdout, everything else to stderr, JSON where it was asked for.

A result that cannot be written is an error of every command, said on stderr (`Unwritten`, `complain`). What stderr does
not take is lost: there is nowhere left to say so.
"""

from __future__ import annotations

import codecs
import errno
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from ioassay.errors import Interrupted, IoassayError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any, TextIO

    from ioassay.records.record import Warning_
    from ioassay.roles import Outcome
    from ioassay.verify.witness import Observed

_as_json = False
_is_closed = False
"""Whether the caller closed stdout."""
_WIDEST = 120
"""Lines longer than this are hard to read, however wide the terminal is."""


class Exit(Exception):
    """The command ends with this exit code; what it had to say has been said."""

    def __init__(self, code: int = 0) -> None:
        super().__init__(code)
        self.code = code


class Unwritten(Exception):
    """A part of the result could not be written; `reason` says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        gone = "the reader of the output is gone, and the rest of it is lost"
        self.reason = gone if error.errno == errno.EPIPE else f"the output cannot be written: {error.strerror}"


_loss: Unwritten | None = None
"""What was lost without an error of ours, to be said at the end."""


def _say_anything(error: UnicodeError) -> tuple[str | bytes, int]:
    """A file name that is not UTF-8 comes out as it is, what the terminal has no letter for as an escape."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)


def prepare(as_json: bool) -> None:
    """Make the streams usable whatever the locale and the caller left of them. Call it before anything is said."""
    global _is_closed
    codecs.register_error("ioassay", _say_anything)
    _is_closed = sys.stdout is None
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller closed it
            descriptor = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, open(descriptor, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        stream = getattr(sys, name)
        stream.reconfigure(errors="ioassay")
    use_json(as_json)


def use_json(wanted: bool) -> bool:
    """Whether this command's result is one JSON object; an error then is one as well."""
    global _as_json
    _as_json = wanted
    return wanted


def line(text: str = "") -> None:
    use_stdout()
    try:
        sys.stdout.write(text + "\n")
    except OSError as error:
        raise Unwritten(error) from None


def lines(texts: Iterable[str]) -> None:
    for text in texts:
        line(text)


def flush() -> None:
    try:
        sys.stdout.flush()
    except OSError as error:
        raise Unwritten(error) from None


def use_stdout() -> None:
    """A result goes there, of lines or otherwise, which is lost where the caller closed it."""
    if _is_closed:
        lose(OSError(errno.EBADF, "standard output is closed"))


def lose(error: OSError) -> None:
    global _loss
    _loss = Unwritten(error)


def finish() -> None:
    flush()
    if _loss is not None:
        raise _loss


def complain(loss: Unwritten, code: int = 0) -> int:
    """Say why the result could not be written, and write no more of it. Returns the exit code: `code`, or 1 for 0."""
    global _loss
    _loss = None
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # what is still buffered goes there, without a second complaint
    os.close(nowhere)
    note(f"ioassay: {loss.reason}")
    return code or 1


@contextmanager
def ending(code: int) -> Iterator[None]:
    """What is said in here is the last, and the command ends with `code`, also where it cannot be written."""
    try:
        yield
        finish()
    except Unwritten as loss:
        code = complain(loss, code)
    raise Exit(code)


def note(text: str) -> None:
    """One line beside the result, to stderr; what was said to stdout before comes out before it."""
    flush()
    with suppress(OSError):
        sys.stderr.write(text + "\n")


def notes(texts: Iterable[str]) -> None:
    for text in texts:
        note(text)


def paragraph(text: str, indent: str = "") -> None:
    """Prose of the result, wrapped for a terminal; where stdout is none, each paragraph is one line."""
    lines(wrapped(text, indent))


def wrapped(text: str, indent: str = "") -> list[str]:
    return [line for part in text.splitlines() for line in _wrapped(part, indent, sys.stdout).splitlines()]


def _wrapped(text: str, indent: str, stream: TextIO) -> str:
    if not stream.isatty():
        return indent + text
    import textwrap

    width = min(os.get_terminal_size(stream.fileno()).columns or 80, _WIDEST)
    return textwrap.fill(
        text,
        max(width, 40),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def count(number: int, thing: str) -> str:
    """`1 trial`, `2 trials`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def emit(result: Mapping[str, Any]) -> None:
    """The result as one JSON object. NaN and infinities, which JSON has not, become null."""
    import json

    line(json.dumps(_plain(result), indent=2, default=str, allow_nan=False))


def answer(table: Callable[[], Mapping[str, Any]], say: Callable[[], object]) -> None:
    """The result: under --json the object that `table` gives, else what `say` says."""
    if _as_json:
        emit(table())
    else:
        say()


def problem(error: IoassayError) -> int:
    """An error: its message to stderr, and under --json an object with it to stdout. Returns its exit code."""
    note(f"ioassay: {error}")
    if _as_json:
        emit({"error": str(error), "kind": type(error).__name__, "exit_code": error.exit_code})
    return error.exit_code


def bug(error: Exception) -> int:
    """An error that nobody foresaw, with what its report needs."""
    import traceback

    from ioassay import __version__

    note("".join(traceback.format_exception(error)).rstrip())
    return problem(
        IoassayError(
            f"this is a bug in ioassay {__version__}: {type(error).__name__}: {error}. What was recorded is kept. "
            "Please report it with the lines above and the command that led to it"
        )
    )


SHOWN_OF_A_KIND = 3
"""Warnings of one code that are shown; a large run may have dozens."""


def warnings(found: Iterable[Warning_ | Mapping[str, Any]]) -> None:
    """Warnings with their remedies, to stderr; of many of one kind the first ones, and how many more there are."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for warning in found:
        fields = warning if isinstance(warning, Mapping) else vars(warning)
        kinds.setdefault(fields["code"], []).append(fields)
    for code, members in kinds.items():
        for fields in members[:SHOWN_OF_A_KIND]:
            note(_wrapped(f"warning: {fields['text']} [{fields['code']}]", "", sys.stderr))
            if fields.get("remedy"):
                note(f"    remedy: {fields['remedy']}")  # in one piece: it may be a command to copy
        if (more := len(members) - SHOWN_OF_A_KIND) > 0:
            note(f"warning: {more} more of this kind; the report and --json have them all [{code}]")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns aligned: words to the left, numbers to the right."""
    lines(aligned(columns, rows))


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [columns, *rows]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    words = [not all(map(_is_number, column)) for column in zip(*rows, strict=True)] or [True] * len(columns)
    forms = [f"{{:{'<' if left else '>'}{width}}}" for width, left in zip(widths, words, strict=True)]
    return ["  ".join(form.format(cell) for form, cell in zip(forms, row, strict=True)).rstrip() for row in cells]


def _is_number(cell: str) -> bool:
    """A number with its unit, or the gap where one is missing."""
    return cell.removeprefix("up to ").strip("<>~≈+-− ")[:1].isdecimal() or cell in ("", "-")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# A command that the user gives: it has the user's streams and terminal, and its exit status becomes ours. What it
# prints is shown as it comes; under --json, or where our result takes stdout, on stderr. The status is 128 and the
# number of a signal that ended it, 127 and 126 where it could not be started.


def watch_command(command: Sequence[str], level: str, folder: Path, *, quiet: bool, **options: Any) -> Observed:
    """Run it to its end, as `witness.watch` does; `quiet` keeps stdout for our result."""
    from ioassay.process import job_control
    from ioassay.units import format_size
    from ioassay.verify import witness

    flush()
    stdin = None if sys.stdin is None else sys.stdin.fileno()
    shown = (sys.stderr if quiet else sys.stdout).fileno(), sys.stderr.fileno()
    watched = witness.watch(command, level, folder, stdin=stdin, shown=shown, **options)
    if watched.is_output_truncated:
        most = format_size(job_control.MOST_KEPT_BYTES)
        note(f"warning: only the first {most} that the command printed were searched for claims")
    if watched.unshown is not None:
        lose(watched.unshown)
    return watched


def command_failure(outcome: Outcome) -> str:
    """The sentence on a command that did not end well; '' for one that did."""
    if outcome.signal is not None:
        import signal

        try:
            name = signal.Signals(outcome.signal).name
        except ValueError:  # a real-time signal
            name = f"signal {outcome.signal}"
        return f"The command was ended by {name}."
    return f"The command ended with exit status {outcome.exit_code}." if outcome.exit_code else ""


def say_interruption(status: int) -> None:
    """Say last that the result is that of a command which was ended by Ctrl-C."""
    if status == Interrupted.exit_code:
        note("ioassay: interrupted; the result is that of what the command had done")
