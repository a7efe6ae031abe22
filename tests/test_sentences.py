"""One sentence, one place: what answers say is in catalogues (TOML), and forms of values in `narrative.phrases`.

Not sentences are docstrings, logs, messages of errors, reasons of what cannot be computed (`Undefined`), regular
expressions, members of enums, whose values are names in JSON, and titles of columns, which stand with their columns.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ioassay

PACKAGE = Path(ioassay.__file__).parent
ROOMS = ("analysis", "narrative", "verify", "report", "packs/*/questions", "packs/*/figures", "packs/comparison")
MESSAGES = re.compile(r"(debug_log|warnings|re)\.|\w*Error$|(NoData|Undefined|Contradicted)$")
FORMS = ("narrative/phrases.py", "narrative/say.py", "analysis/measurements/passes.py")
"""The last has names of levels, which are in tables and records."""
CODE = re.compile(r"[{>]|'none'|datum\.|^ioassay ")
"""In styles, selectors, expressions and policies of a page, and commands."""


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the text of what may be a sentence: four words or more."""
    others: set[ast.AST] = set()
    for node in ast.walk(tree):
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        is_enum = isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(base) for base in node.bases)
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_enum or is_docstring or isinstance(node, ast.Raise) or MESSAGES.match(name):
            others |= {*ast.walk(node)}
        if isinstance(node, ast.Call) and name == "Column":
            others |= {*ast.walk(node.args[0])}
        columns = node.args[1:] if isinstance(node, ast.Call) and name == "Table.of" else []
        others |= {part for column in columns if isinstance(column, ast.Tuple) for part in ast.walk(column.elts[0])}
    for node in ast.walk(tree):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        if node in others or not all(isinstance(part, ast.Constant | ast.FormattedValue) for part in parts):
            continue
        others |= {*parts}
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)
        is_text = isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)
        if is_text and " " in text and len(re.findall("[A-Za-z]{2,}", text)) > 3 and not CODE.search(text):
            yield node.lineno, text


@pytest.mark.parametrize("room", ROOMS)
def test_sentences_are_in_catalogues(room: str) -> None:
    files = [file for folder in PACKAGE.glob(room) for file in folder.rglob("*.py")]
    names = {file: str(file.relative_to(PACKAGE)) for file in files}
    found = [
        f"{name}:{line}: {text!r} belongs to a catalogue of narrative, or to words/ of its pack"
        for file, name in sorted(names.items())
        if name not in FORMS
        and not {"witness", "commands"} & {*file.parts}
        and not name.endswith("comparison/__init__.py")
        for line, text in texts(ast.parse(file.read_text()))
    ]
    assert not found, "\n".join(found)
