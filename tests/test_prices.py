"""What one more question, figure, format … costs is no more than it did: lines and files of a kind over its entries.

A price per kind, not a cap on files or functions: those fragment code. `tests/corpus/tree/prices.toml` has the prices.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ioassay import _core
from ioassay.cli import COMMANDS, manual, named

from .documents import ROOT, our_files

PRICES: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "tests/corpus/tree/prices.toml").read_text())
_CODE = {".py", ".rs", ".toml", ".j2", ".html"}


def entries(words: str) -> int:
    counted = {"options": _options, "policies": _core.policies, "trace_formats": _core.trace_formats}
    if words in counted:
        return len(list(counted[words]()))
    lists = (word.split(":") for word in words.split())
    return sum(len(getattr(import_module(module), name)) for module, name in lists)


def _options() -> Iterator[Any]:
    for name in COMMANDS:
        for command in dict(manual._commands(name, named(name))).values():
            yield from command.parameters


def price(kind: str) -> tuple[float, float]:
    below = [one if one.startswith("crates/") else f"python/ioassay/{one}" for one in PRICES[kind]["below"]]
    places = [path for pattern in below for path in ROOT.glob(pattern)]
    files = [path for path in our_files() if path.suffix in _CODE and any(map(path.is_relative_to, places))]
    number = entries(PRICES[kind]["entries"])
    return round(sum(_lines(path) for path in files) / number, 1), round(len(files) / number, 2)


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


@pytest.mark.parametrize("kind", PRICES)
def test_an_entry_gets_no_dearer(kind: str) -> None:
    lines, files = price(kind)
    row = PRICES[kind]
    found = f"a {kind} costs {lines} lines and {files} files, and may cost {row['lines']} and {row['files']}"
    assert lines <= row["lines"] and files <= row["files"], (
        f"{found}: make the kind cheaper (tests/corpus/tree/prices.toml)"
    )
    assert lines > 0.97 * row["lines"] - 1, f"{found}: lower the price, so that it stays low"
