"""Sentences have at most 25 words. A number with its unit is a word, and what stands in parentheses is a note."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import golden
from ioassay import narrative
from ioassay.narrative.say import templates

MOST = 25
NARRATIVE = Path(narrative.__file__).parent
TEMPLATES = sorted([*NARRATIVE.glob("*.py"), *NARRATIVE.glob("catalogue/*.toml")])
UNIT = r"%|[kMGT]?i?B(/s)?|[nµm]?s|ops/s"


def words(sentence: str) -> int:
    return len(re.findall(r"(?:^|(?<=\s))[^\s\w]*\w\S*", re.sub(rf"(?<=\d) ({UNIT})(?=\W|$)", "", sentence)))


def long_sentences(text: str) -> list[str]:
    text = re.sub(r"\{+[^{}]*\}+", "X", text)
    text = re.sub(r" *\([^()]*(\([^()]*\)[^()]*)*\)", "", text)
    sentences = [part for line in text.splitlines() for part in re.split(r"(?<=[\w%)][.!?]) ", line)]
    return [sentence for sentence in sentences if words(sentence) > MOST]


@pytest.mark.parametrize("path", sorted(golden.FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_sentences_of_golden_texts(path: Path) -> None:
    long = long_sentences(path.read_text())
    assert not long, "\n".join(long)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_sentences_of_templates(path: Path) -> None:
    tree = None if path.suffix == ".toml" else ast.parse(path.read_text())
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)] if tree else ()
    texts = constants or templates(path.stem).values()
    long = [part for text in texts if isinstance(text, str) and "\n" not in text for part in long_sentences(text)]
    assert not long, "\n".join(long)
