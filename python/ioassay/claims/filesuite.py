"""What `ioassay filesuite` claims: each pass of its JSON, in the order in which they were done.

Its text for people is rounded and not read. Passes have the names that IOzone's claims have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.errors import InputError
from ioassay.record import Claim

NAME = "filesuite"
STREAM = "stdout"
SOURCE = "filesuite"

_ENGINES = {6: "stdio", 7: "stdio", 9: "psync", 10: "psync", 11: "pvsync", 12: "pvsync"}
"""How a test reaches the kernel; all others by read and write."""
_CLOCK_STEP_S = 1e-9
_BEGINNING = re.compile(r'\{\s{0,8}"schema": \d{1,4},\s{0,8}"tool": "ioassay filesuite"')


def matches(program: str) -> bool:
    """Never by its program, which is ioassay or a Python; its output knows its name."""
    return program == "filesuite"


def looks_like(text: str) -> bool:
    """Whether it holds its JSON."""
    return _BEGINNING.search(text) is not None


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """The claims of its JSON, failed passes left out; InputError when that is cut or was never asked for."""
    beginning = _BEGINNING.search(text)
    if beginning is None:
        raise InputError("filesuite's claims are read from its JSON: give it --json")
    try:
        found, _ = json.JSONDecoder().raw_decode(text, beginning.start())
        return from_json(found)
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError, RecursionError) as error:
        raise InputError(f"filesuite's output cannot be read ({type(error).__name__}: {error}); is it whole?") from None


def from_json(found: Mapping[str, Any]) -> list[Claim]:
    """The claims of its parsed JSON."""
    return [_claim(one) for one in found["passes"] if one["status"] == "ok"]


def _claim(one: Mapping[str, Any]) -> Claim:
    seconds = one["nanoseconds"] / 1e9
    return Claim(
        source=SOURCE,
        kind=one["kind"],
        test=one["name"].replace("_", "-"),
        operations=one["operations"],
        bytes=one["bytes"],
        seconds=seconds,
        rate_bytes_per_s=one["bytes"] / seconds,
        clock_step_s=_CLOCK_STEP_S,
        errors=one["errors"],
        engine=_ENGINES.get(one["test"], "sync"),
        direct=one["direct"],
        paths=(one["path"],),
        file_bytes=one["file_bytes"],
        record_bytes=one["record_bytes"],
        includes=tuple(one["includes"]),
        primed=one["primed"],
        silent_passes=one["silent_passes"],
        unreported=("layout",) if one["prepared"] else (),
    )
