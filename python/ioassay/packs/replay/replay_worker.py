"""The process that replays a trace for a trial (`command`).

It is given a file with `source` and `setup` of `_core.replay`. About once a second it writes a line of JSON with what
is done, and at its end its whole result, or the error. It is confined, watched and ended as any tool is.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ioassay import _core

TOOL = "ioassay replay"
SCHEMA = 1
_PERIOD_S = 1.0


def command(description: Path) -> list[str]:
    """What replays the trace that the file describes."""
    start = f"import sys; from {__name__} import main; sys.exit(main(sys.argv[1]))"
    return [sys.executable, "-c", start, str(description)]


def main(description: str) -> int:
    """Replays; the exit status."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the replay ends with what was done
    wanted = json.loads(Path(description).read_text(encoding="utf-8"))
    setup = wanted["setup"]
    said = {"schema": SCHEMA, "tool": TOOL, **{key: setup[key] for key in ("path", "pace", "depth", "direct")}}
    try:
        found = _core.replay(_source(wanted["source"]), setup, _Progress())
    except (_core.CoreError, OSError) as error:
        named = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        _write({**said, "error": f"{named}{error.strerror}" if isinstance(error, OSError) else str(error)})
        return 1
    _write({**said, **found})
    return 0


def _source(source: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has lists where the core wants pairs: the laws of a recipe, and how devices are told apart."""
    return {name: _paired(value) if name in ("make", "prepare") else value for name, value in source.items()}


def _paired(table: Mapping[str, Any]) -> dict[str, Any]:
    laws = ("arrivals", "addresses", "sizes", "devices")
    return {key: tuple(value) if key in laws and isinstance(value, list) else value for key, value in table.items()}


class _Progress:
    """Says what is done, once a second."""

    def __init__(self) -> None:
        self._began_s = self._said_s = time.monotonic()

    def __call__(self, counts: Mapping[str, int]) -> None:
        now_s = time.monotonic()
        if now_s - self._said_s >= _PERIOD_S:
            self._said_s = now_s
            _write({**counts, "elapsed_s": now_s - self._began_s})


def _write(said: Mapping[str, Any]) -> None:
    with os.fdopen(1, "w", encoding="utf-8", closefd=False) as output:
        output.write(f"{json.dumps(said)}\n")
