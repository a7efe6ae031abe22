"""Published numbers that stand beside a study's own: read from the package's data, matched by study and case.

A study that nobody published anything about has none, and its tables no such column.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from ioassay.records.record import Scalar


@dataclass(frozen=True)
class Claims:
    """What one source published: `reductions[case][policy]` in percent against that policy, and how to read them."""

    source: str
    policy: str
    reductions: Mapping[str, Mapping[str, float]]
    notes: Mapping[str, str]
    reading: tuple[str, ...]
    reasons: Mapping[str, str]
    """Why a reduction against a policy may not be reproduced."""


def of(study: str) -> Claims | None:
    """What was published of the study called so; None for nothing."""
    if (table := _table("trace", study)) is None:
        return None
    cases = {name: trace for trace in table["trace"] for name in trace["of"]}
    return Claims(
        source=table["source"],
        policy=table["policy"],
        reductions={name: trace["reductions"] for name, trace in cases.items()},
        notes={name: trace["note"] for name, trace in cases.items() if "note" in trace},
        reading=tuple(table["reading"]),
        reasons=table["reasons"],
    )


@dataclass(frozen=True)
class Change:
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


def changes_of(study: str) -> list[Change]:
    """The published effects of factors on the study called so."""
    return [
        Change(table["source"], table["policy"], **{**change, "percent": tuple(change.get("percent", ()))})
        for table in _tables()
        for change in table.get("change", ())
        if change["study"] == study
    ]


@dataclass(frozen=True)
class Loads:
    """What one source published of a database's loads, operations a second, and how to read it."""

    source: str
    rates: Mapping[str, float]
    reading: tuple[str, ...]


def loads_of(study: str) -> Loads | None:
    """Published loads of the study called so; None for none."""
    table = _table("loads", study)
    return None if table is None else Loads(table["source"], table["loads"], tuple(table["reading"]))


@dataclass(frozen=True)
class Path:
    """What was published of one access path: requests a second and mean completion latency under `where`.

    `words` stands for a number that was not published.
    """

    case: str
    where: Mapping[str, Scalar]
    iops: float | None = None
    clat_mean_ns: float | None = None
    words: str = ""


@dataclass(frozen=True)
class Paths:
    """What one source published of access paths, and how to read it."""

    source: str
    paths: tuple[Path, ...]
    reading: tuple[str, ...]


def paths_of(studies: Sequence[str]) -> Paths | None:
    """What was published of any of the studies; None for nothing."""
    table = _table("path", *studies)
    return (
        None
        if table is None
        else Paths(table["source"], tuple(Path(**path) for path in table["path"]), tuple(table["reading"]))
    )


def _table(kind: str, *studies: str) -> dict[str, Any] | None:
    """The first table that has what was published of this kind, of any of the studies."""
    return next((table for table in _tables() if kind in table and set(studies) & set(table["studies"])), None)


@functools.cache
def _tables() -> tuple[dict[str, Any], ...]:
    folder = resources.files("ioassay.analysis.claims") / "published"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return tuple(tomllib.loads(file.read_text(encoding="utf-8")) for file in files)
