"""What strace writes, damaged: no line of it can do more than be counted as lost."""

from __future__ import annotations

import json
import math
from pathlib import Path

from ioassay.records.observation import Observation
from ioassay.verify.witness import strace, strace_summary

from .mutation import withstands

LINES = (Path(__file__).parent / "golden" / "strace.txt").read_bytes()
SUMMARY = (Path(__file__).parent / "golden" / "strace-summary.txt").read_bytes()


def sound(seen: Observation) -> None:
    """It can be stored and read again, and its numbers can be computed with."""
    json.dumps(seen.as_stored(), allow_nan=False).encode()
    for session in seen.sessions:
        assert math.isfinite(session.read.bytes + session.write.bytes + session.opened_ns)


def test_lines(tmp_path: Path) -> None:
    path = tmp_path / "strace"

    def read(copy: bytes) -> None:
        path.write_bytes(copy)
        sound(strace.read(path))

    withstands(read, [LINES], "strace lines", refuses=False)


def test_summaries(tmp_path: Path) -> None:
    path = tmp_path / "summary"

    def read(copy: bytes) -> None:
        path.write_bytes(copy)
        sound(strace_summary.read(path))

    withstands(read, [SUMMARY], "strace summary", refuses=False)
