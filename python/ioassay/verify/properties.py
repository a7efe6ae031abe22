"""The properties that a claim may state, what shows them at each level, and what each can come to: properties.toml.

The table is the contract of the judge: its tests hold it to that, and docs/verdicts.md shows it.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

OPERATIONS, BYTES, FILES, DIRECT, ENGINE = "operations", "bytes", "files", "direct", "engine"
SYNC, INTERVAL, LATENCY, PATTERN, DEVICE = "sync", "interval", "latency", "pattern", "device"
PROPERTIES = (OPERATIONS, BYTES, FILES, DIRECT, ENGINE, SYNC, INTERVAL, LATENCY, PATTERN, DEVICE)
"""In the order in which they are listed; of equally bad ones, the first explains the verdict."""


class Row(NamedTuple):
    stated_by: str
    shown_by: Mapping[str, str]
    """Level (or the backend strace) -> what it is judged by there. It is not judged at the others."""
    outcomes: Mapping[str, Sequence[str]]
    """Category worse than CONFIRMED -> the reasons for it. A drive that counts for itself adds its own."""


@functools.cache
def table() -> Mapping[str, Row]:
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {name: Row(row.pop("stated_by"), row.pop("shown_by"), row) for name, row in rows.items()}
