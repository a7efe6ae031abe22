"""Published numbers that stand beside a study's own: read from the package's data, matched by study and case.

A study that nobody published anything about has none, and its tables no such column.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay import pack
from ioassay.records.record import Scalar


@dataclass(frozen=True)
class Loads:
    """What one source published of a database's loads, operations a second, and how to read it."""

    source: str
    rates: Mapping[str, float]
    reading: tuple[str, ...]


def loads_of(study: str) -> Loads | None:
    """Published loads of the study called so; None for none."""
    found = _entry("loads", study)
    return None if found is None else Loads(found["source"], found["loads"], tuple(found["reading"]))


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
    found = _entry("path", *studies)
    if found is None:
        return None
    return Paths(found["source"], tuple(Path(**path) for path in found["path"]), tuple(found["reading"]))


def _entry(kind: str, *studies: str) -> dict[str, Any] | None:
    """The first table that has what was published of this kind, of any of the studies."""
    return next((found for found in _tables() if kind in found and set(studies) & set(found["studies"])), None)


@functools.cache
def _tables() -> tuple[dict[str, Any], ...]:
    """All tables of the packs, by the names of their files."""
    files = sorted(pack.files("published").items())
    return tuple(tomllib.loads(file.read_text(encoding="utf-8")) for _, file in files)
