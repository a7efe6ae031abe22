"""What a message says of a wrong value: the value as it was written, and what was perhaps meant."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 80


def shown(value: object) -> str:
    """A value as its file might say it, cut to a readable length."""
    if isinstance(value, bool):
        return str(value).lower()
    return cut(repr(value) if isinstance(value, str | int | float | list | dict) else str(value))


def cut(text: str) -> str:
    """A text of a readable length."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def suggestion(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """What an unknown name should perhaps have been; without a near one `otherwise`, by default all that are known."""
    import difflib

    known = sorted(known)
    words = {one.lstrip("-"): one for one in known}  # dashes alone make no two options alike
    if close := difflib.get_close_matches(name.lstrip("-"), words, 1):
        return f"did you mean '{words[close[0]]}'?"
    return f"known here: {', '.join(known)}" if otherwise is None else otherwise


def nearest(name: object, known: Iterable[str]) -> str:
    """The end of a message that has named all that is known: `; did you mean 'lru'?`, or nothing."""
    known = list(known)
    hint = "" if name in known else suggestion(str(name), known, "")
    return f"; {hint}" if hint else ""


def document(topic: str) -> str:
    """The command that shows a document wherever ioassay is installed, for messages: 'ioassay help safety'."""
    return f"'ioassay help {topic}'"
