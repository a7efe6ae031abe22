"""Where a tool stands in a command line, behind whatever starts it. No text of a shell is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath


def program(argv: Sequence[str]) -> str:
    """The bare name of a command's program, of busybox that of its applet; '' for none."""
    names = [PurePath(word).name for word in argv[:2]]
    return names[1] if names[:1] == ["busybox"] and names[1:] else "".join(names[:1])


def words_of(argv: Sequence[str], matches: Callable[[str], bool]) -> Sequence[str]:
    """The tool and its arguments, from the first word on that names it; none where no word does."""
    first = next((place for place, word in enumerate(argv) if matches(PurePath(word).name)), len(argv))
    return argv[first:]
