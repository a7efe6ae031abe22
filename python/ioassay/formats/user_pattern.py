"""Regular expressions that a user writes: compiled and searched within bounds, with messages that name their option.

A pattern of a user may take exponential time. Python's engine looks for signals while it works, so that a timer of CPU
time ends it; in a thread other than the main one, which gets no signals, nothing bounds it.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from types import FrameType

from ioassay.errors import InputError, UsageError

_LONGEST_PATTERN = 2000
_MOST_MATCHES = 10_000
_MOST_CPU_S = 5.0


def compiled(pattern: str, option: str) -> re.Pattern[str]:
    """The pattern, whose ^ and $ are the ends of lines; UsageError names `option`."""
    if len(pattern) > _LONGEST_PATTERN:
        raise UsageError(f"{option}: has {len(pattern)} characters; wanted at most {_LONGEST_PATTERN}")
    try:
        return re.compile(pattern, re.M)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"{option} {pattern!r}: is no regular expression of Python: {error}") from None


def matches(pattern: re.Pattern[str], text: str, option: str) -> list[re.Match[str]]:
    """All matches in their order. InputError when there are none or too many, or when it takes too long."""
    with _time_limit(pattern, option):
        found = list(islice(pattern.finditer(text), _MOST_MATCHES + 1))
    if len(found) > _MOST_MATCHES:
        raise InputError(f"{option} {pattern.pattern!r} matches more than {_MOST_MATCHES} times")
    if not found:
        raise InputError(f"{option} {pattern.pattern!r} matches nothing in the output")
    return found


@contextmanager
def _time_limit(pattern: re.Pattern[str], option: str) -> Iterator[None]:
    """InputError after so much CPU time."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise InputError(
            f"{option} {pattern.pattern!r} took more than {_MOST_CPU_S:g} s of CPU time; "
            "begin it with ^ or a fixed word, and avoid a repetition in a repetition"
        )

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _MOST_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
