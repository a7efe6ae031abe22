"""What was published of write buffers, to stand next to what is measured here: the data are in `published/`."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ioassay.records.record import Scalar


@dataclass(frozen=True)
class PublishedReductions:
    """What one source published: `reductions[case][policy]` in percent against that policy, and how to read them."""

    source: str
    policy: str
    reductions: Mapping[str, Mapping[str, float]]
    notes: Mapping[str, str]
    reading: tuple[str, ...]
    reasons: Mapping[str, str]
    """Why a reduction against a policy may not be reproduced."""


def published_reductions(study: str) -> PublishedReductions | None:
    """What was published of the study called so; None for nothing."""
    table = _table()
    if study not in table["studies"]:
        return None
    cases = {name: trace for trace in table["trace"] for name in trace["of"]}
    return PublishedReductions(
        source=table["source"],
        policy=table["policy"],
        reductions={name: trace["reductions"] for name, trace in cases.items()},
        notes={name: trace["note"] for name, trace in cases.items() if "note" in trace},
        reading=tuple(table["reading"]),
        reasons=table["reasons"],
    )


@dataclass(frozen=True)
class PublishedChange:
    """What one source published of a factor: from level `start` to `end`, `policy`'s `response` changes by `percent`.

    `percent` has a number for each of its traces; none where the source states only that the response is higher.
    """

    source: str
    policy: str
    study: str
    factor: str
    start: Scalar
    end: Scalar
    response: str
    reading: str
    percent: tuple[float, ...] = ()


def published_changes(study: str) -> list[PublishedChange]:
    """The published effects of factors on the study called so."""
    table = _table()
    return [
        PublishedChange(table["source"], table["policy"], **{**change, "percent": tuple(change.get("percent", ()))})
        for change in table["change"]
        if change["study"] == study
    ]


@functools.cache
def _table() -> dict[str, Any]:
    file = Path(__file__).parent.parent / "published" / "write-buffer.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))
