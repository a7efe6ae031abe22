"""The one tree of errors. Each class carries the exit code that the command line ends with.

A message names the thing, the value seen, the value wanted and, where one exists, the option that fixes it.
Only `ioassay.cli` catches these to print them and to exit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST_HEAD, _LONGEST_TAIL = 1200, 600
"""Characters of a message about a file: what it is about stands at its beginning, the remedy at its end."""


def one_line(text: str) -> str:
    """Text that a file may have a part in, fit for a terminal: control characters escaped, the middle cut.

    Bytes of a file's name that are no UTF-8 stay as they are; `cli.console` writes them as the file system has them.
    """
    if not text.isprintable():
        text = "".join(
            letter if letter.isprintable() or "\udc80" <= letter <= "\udcff" else repr(letter)[1:-1] for letter in text
        )
    longest = _LONGEST_HEAD + _LONGEST_TAIL
    return text if len(text) <= longest else f"{text[:_LONGEST_HEAD]} … {text[-_LONGEST_TAIL:]}"


class IoassayError(Exception):
    """Root of all errors that ioassay raises on purpose."""

    exit_code = 1


class UsageError(IoassayError):
    """The user asked for something that cannot be."""

    exit_code = 2


class StudyError(UsageError):
    """A study (or suite, or job file) is wrong.

    `source` is the file or name of the study, `key` the dotted key inside it.
    """

    def __init__(self, message: str, *, source: str = "", key: str = "") -> None:
        self.source = source
        self.key = key
        place = ": ".join(part for part in (source, key) if part)
        super().__init__(one_line(f"{place}: {message}" if place else message))


class InputError(UsageError):
    """An input file is unreadable, corrupted or implausible.

    A message may repeat what the file says: it is one line without control characters, and no longer than a screen.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


@contextmanager
def naming(source: object) -> Iterator[None]:
    """InputErrors that are raised within name the source first."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


class ToolError(IoassayError):
    """An outside tool is missing, too old, refused or crashed."""


class StartError(ToolError):
    """A program cannot be started; `number` is the kernel's errno."""

    def __init__(self, program: str, number: int) -> None:
        self.number = number
        super().__init__(f"cannot start '{program}': {os.strerror(number)}")


class ConditionError(IoassayError):
    """The host does not allow a condition (policy, processors, limit) that a trial asks for."""


class RunError(IoassayError):
    """A run folder is unusable, or a run cannot go on."""


class SafetyRefusal(IoassayError):
    """Refused, because going on could destroy something that is not ours."""

    exit_code = 3


class Contradicted(IoassayError):
    """What the kernel counted contradicts what the benchmark claims."""

    exit_code = 4


class IoassayWarning(UserWarning):
    """What is left out and does not end the work. A warning of Python, which `ioassay.cli` shows as one of its own."""

    code: str


class BrokenPlugin(IoassayWarning):
    """An installed plugin cannot be used."""

    code = "broken-plugin"


class UnreadableFile(IoassayWarning):
    """One of many files is none of ours, or damaged."""

    code = "unreadable-file"


class Interrupted(IoassayError):
    """Stopped by a signal; everything recorded so far is kept."""

    exit_code = 130
