"""Tables of cases as data: `tests/corpus/<subject>/<table>.toml`, one `[[case]]` a row, each with an `id` of its own.

A row holds what goes in and what must come out, in words of the subject; the subject's collector gives it meaning. A
new case is a new row. A word that neither the code of its collector has nor the `words` of its table is an error.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

CORPUS = Path(__file__).parent / "corpus"
THOROUGH = bool(os.environ.get("IOASSAY_THOROUGH"))


def rows(subject: str, table: str) -> list[dict[str, Any]]:
    """The cases of `tests/corpus/<subject>/<table>.toml`, in their order."""
    path = CORPUS / subject / f"{table}.toml"
    read = tomllib.loads(path.read_text())
    cases: list[dict[str, Any]] = read["case"]
    names = [case["id"] for case in cases]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"{path}: used twice as id: {sorted(twice)}"
    known = {"id", "needs", "thorough", *read.get("words", ()), *_words_of_the_collector()}
    strange = {word for case in cases for word in case} - known
    assert not strange, f"{path}: words that its collector does not know: {sorted(strange)}"
    return cases


def _words_of_the_collector() -> set[str]:
    """The texts in the file that asked for rows that could be words."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename == __file__ and frame.f_back:
        frame = frame.f_back
    return set(re.findall(r"""["'](\w[\w.-]*)["']""", Path(frame.f_code.co_filename).read_text()))


def cases(subject: str, *tables: str, having: str = "") -> Any:
    """A decorator: the test's argument `case` is each row in turn; `needs = ["fio"]` in a row are its markers.

    Of several tables, the names of the rows begin with that of their table. A row with `thorough = true` is drawn under
    `./check --thorough` only, and `having` names a word that the rows must have.
    """
    params = [
        pytest.param(
            row,
            id=row["id"] if len(tables) == 1 else f"{table}: {row['id']}",
            marks=[getattr(pytest.mark, need) for need in row.get("needs", ())],
        )
        for table in tables
        for row in rows(subject, table)
        if (THOROUGH or not row.get("thorough")) and (not having or having in row)
    ]
    return pytest.mark.parametrize("case", params)


def has(found: Any, wanted: Any) -> bool:
    """Whether all that is wanted is there: tables may have more, lists may not."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(key in found and has(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(has, found, wanted))
    return bool(found == wanted)


def tree(subject: str, name: str) -> dict[str, str | Path | None]:
    """The files of `tests/corpus/<subject>/<name>.toml`, for the fixture `fake_root`."""
    return files(tomllib.loads((CORPUS / subject / f"{name}.toml").read_text()))


def files(table: Mapping[str, Any]) -> dict[str, str | Path | None]:
    """A table of path to text, to `{ link = PATH }` or to `{ folder = true }`, for the fixture `fake_root`."""
    return {
        name: (Path(held["link"]) if "link" in held else None) if isinstance(held, dict) else held
        for name, held in table.items()
    }


def text(made: Any) -> str:
    """A text of a row: its words, `{ text = … }` or `{ file = … }` and what becomes of it, or a list of such pieces.

    Files lie in `tests/golden`, `tests/formats/golden` or `tests/corpus/formats`; `from` and `until` cut a text,
    `change` replaces words in it, and `times` repeats it.
    """
    if isinstance(made, str):
        return made
    if isinstance(made, list):
        return "".join(map(text, made))
    read: str = made["text"] if "text" in made else golden(made["file"])
    if "from" in made:
        read = read[read.index(made["from"]) :]
    if "until" in made:
        read = read[: read.index(made["until"])]
    for old, new in made.get("change", ()):
        assert old in read, f"'{old}' is not there to be changed"
        read = read.replace(old, new)
    return read * made.get("times", 1)


def golden(name: str) -> str:
    """The output of a tool by its path below `tests/golden`, or of those samples that lie elsewhere."""
    folders = (CORPUS.parent / "golden", CORPUS.parent / "formats" / "golden", CORPUS / "formats")
    (path,) = (folder / name for folder in folders if (folder / name).is_file())
    return path.read_text()
