"""Every number that decides a verdict, from tolerances.toml, which has the measurement or the reason behind each."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Tolerance(NamedTuple):
    value: float
    unit: str
    why: str


@functools.cache
def table() -> Mapping[str, Tolerance]:
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {name: Tolerance(*row) for name, row in rows.items()}


def of(name: str) -> float:
    return table()[name].value
