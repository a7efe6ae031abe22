"""TOML files that are a list of tables of one name, as those of faults and of drives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ioassay import units, validation
from ioassay.errors import InputError

_LONGEST_BYTES = 2**20


def read(path: Path, name: str, what: str, wanted: str) -> list[dict[str, Any]]:
    """The tables `name` of a file, at least one. InputError names the file.

    `what` is one of them in words, and `wanted` what a table has to have.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; wanted a file with {what}s") from None
    if len(text) > _LONGEST_BYTES:
        raise InputError(f"{path}: has more than {units.format_size(_LONGEST_BYTES)}; wanted a file with {what}s")
    try:
        written = validation.toml(text)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    for key in written:
        if key != name:
            raise InputError(f"{path}: {key}: unknown key; wanted tables [[{name}]]")
    tables = written.get(name)
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{path}: has no {what}; wanted at least one table [[{name}]] with {wanted}")
    return tables
