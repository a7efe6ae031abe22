"""What drivers of programs share: whether a version can be read, how a program ended, and what it left."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ioassay import units
from ioassay.errors import ToolError
from ioassay.roles import Outcome


def require_version(
    said: str, pattern: str, minimum: tuple[int, int], *, asked: str, example: str, name: str, instead: str = ""
) -> None:
    """ToolError for a program that is another, or older than `minimum`.

    `said` is the answer to the command `asked`, whose two numbers `pattern` has; `instead` follows what is expected.
    """
    found = re.search(pattern, said, re.M)
    if found is None:
        raise ToolError(f"{asked} said '{said.strip()[:80]}'; expected {example}")
    if (int(found[1]), int(found[2])) < minimum:
        wanted = ".".join(map(str, minimum))
        raise ToolError(f"{name} is {found[1]}.{found[2]}; expected {wanted} or newer{instead}")


def ended_badly(outcome: Outcome, name: str, remedy: str, words: Callable[[], str] = str) -> str:
    """A time-out or a signal as the reason of a failure, the latter with the program's own words; '' for neither."""
    if outcome.timed_out:
        return f"{name} did not end within {units.format_duration(outcome.duration_s)} and was ended; {remedy}"
    return f"{name} was ended by signal {outcome.signal}{words()}" if outcome.signal is not None else ""


def text_of(path: Path) -> str:
    """What a program wrote; '' where there is no such file."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
