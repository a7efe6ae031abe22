"""The mutation check makes one change at a time, each of which is Python."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutants import mutants

SOURCE = '''def share(part: int = 0, whole: float = 1.0) -> float | None:
    """Text with 1 < 2 stays."""
    if not whole or part < 0 and (part) <= whole:
        return None
    return f"{part + 1}" and part * 100 / whole - 2  # ä
'''


def test_each_change_is_one_and_is_python() -> None:
    changed = [mutant.apply(SOURCE) for mutant in mutants(Path("share.py"), SOURCE)]
    assert len(changed) == len(set(changed)) >= 12
    for text in changed:
        ast.parse(text)
        assert text != SOURCE
        assert "Text with 1 < 2 stays" in text and "{part + 1}" in text and "float | None" in text


def test_comparisons_operators_and_constants_are_changed() -> None:
    changed = "".join(mutant.apply(SOURCE) for mutant in mutants(Path("share.py"), SOURCE))
    for piece in (
        "part <= 0",
        "(part) < whole",
        "part / 100",
        "* 101",
        "/ whole + 2",
        "if whole or",
        "whole and part <",
    ):
        assert piece in changed, piece
