"""The words: terms of docs/GLOSSARY.md are in use, banned synonyms are not, and documents name files that exist.

The two kinds of tables there are the data of these tests. Documents hold to all of it; code and its messages hold to it
but for the ceilings of `tests/corpus/tree/ceilings.toml`, which may only sink. CHANGELOG.md is history.
"""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from .corpora import cases
from .documents import ROOT, our_files

GLOSSARY = ROOT / "docs" / "GLOSSARY.md"
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
CEILINGS: dict[str, int] = tomllib.loads((ROOT / "tests/corpus/tree/ceilings.toml").read_text())
CODE_SLACK = 4
"""How far a ceiling may lag behind the code."""


@cache
def tables() -> dict[str, list[list[str]]]:
    """Heading of each table in the glossary -> its rows, without the head of the table."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in GLOSSARY.read_text().splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("| "):
            found.setdefault(heading, []).append([cell.strip() for cell in line.strip("|").split("|")])
    return {heading: rows[1:] for heading, rows in found.items()}


BANNED_TABLE = "Banned synonyms"
TERMS = [row for heading, rows in tables().items() if heading != BANNED_TABLE for row in rows]
BANNED = {phrase: instead for banned, instead in tables()[BANNED_TABLE] for phrase in re.findall(r"`([^`]+)`", banned)}


def pattern(phrase: str) -> re.Pattern[str]:
    """The phrase as whole words in any case, also broken over two lines."""
    words = r"[\s/#*]+".join(re.escape(word) for word in phrase.split())
    return re.compile(rf"(?<![\w-]){words}(?![\w-])", re.I)


def term_pattern(term: str) -> re.Pattern[str]:
    """The term in any case, also in the plural, with blanks, hyphens or underscores between its words."""
    words = r"[\s_-]*".join(re.escape(word) for word in re.split(r"[\s-]", term))
    return re.compile(rf"(?<![^\W_]){words}(e?s)?(?![^\W_])", re.I)


def prose(path: Path) -> str:
    """A document with its code spans, code blocks and targets of links blanked out, lines kept."""
    text = path.read_text()
    text = re.sub(r"^```.*?^```$", lambda block: re.sub(r"[^\n]", " ", block[0]), text, flags=re.M | re.S)
    text = re.sub(r"(?:(?<=\n\n)|(?<=\n\n\n))(?:(?: {4,}(?![-*\d]).*)?\n)+", blank, text)
    text = re.sub(r"`[^`\n]*`", blank, text)
    return re.sub(r"\]\([^)]*\)", blank, text)


def blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


@cache
def code() -> dict[Path, str]:
    """Our Python and Rust, tests left out: their texts quote what users of old versions wrote."""
    return {
        path: path.read_text()
        for path in our_files()
        if path.suffix in (".py", ".rs")
        and path.relative_to(ROOT).parts[0] in ("python", "crates")
        and "tests" not in path.parts
    }


@cache
def lowered() -> dict[Path, str]:
    return {path: text.lower() for path, text in code().items()}


def none_of(problems: list[str]) -> None:
    if problems:
        pytest.fail("\n" + "\n".join(problems), pytrace=False)


def lines_with(phrase: str, text: str) -> list[int]:
    return sorted({text.count("\n", 0, seen.start()) + 1 for seen in pattern(phrase).finditer(text)})


# Terms


def test_every_term_is_defined_once_with_a_source_and_is_not_banned() -> None:
    for row in TERMS:
        assert len(row) == 3 and all(row), f"{row[0]}: wanted term, definition, source"
        assert row[1].endswith("."), f"{row[0]}: its definition is no sentence"
    names = [row[0].lower() for row in TERMS]
    assert 70 <= len(names) <= 140 and sorted(names) == sorted(set(names))
    assert set(names) & BANNED.keys() == set()


def test_every_term_is_in_use() -> None:
    texts = [path.read_text() for path in DOCUMENTS if path != GLOSSARY] + list(code().values())
    unused = [row[0] for row in TERMS if not any(term_pattern(row[0]).search(text) for text in texts)]
    assert not unused, f"in docs/GLOSSARY.md and nowhere else: {unused}; use them, or take them out"


# Banned synonyms


def test_no_document_uses_a_banned_synonym() -> None:
    problems = []
    for path in DOCUMENTS:
        text = prose(path)
        if path == GLOSSARY:
            text = text.partition(f"## {BANNED_TABLE}")[0]
        for phrase, instead in BANNED.items():
            seen = lines_with(phrase, text)
            problems += [f"{path.relative_to(ROOT)}:{line}: '{phrase}'; write: {instead}" for line in seen]
    none_of(problems)


@cache
def lines_in_code(phrase: str) -> tuple[str, ...]:
    likely = [path for path, text in lowered().items() if phrase.split()[0] in text]  # a look that is quick
    return tuple(f"{path.relative_to(ROOT)}:{line}" for path in likely for line in lines_with(phrase, lowered()[path]))


def test_code_uses_a_banned_synonym_no_more_than_its_ceiling_which_is_near() -> None:
    problems = [f"'{phrase}': delete its ceiling; it is not banned" for phrase in CEILINGS.keys() - BANNED.keys()]
    for phrase, instead in BANNED.items():
        seen, ceiling = lines_in_code(phrase), CEILINGS.get(phrase, 0)
        if len(seen) > ceiling:
            places = "\n    ".join(seen[:40])
            problems.append(f"'{phrase}' in {len(seen)} lines, at most {ceiling}; write: {instead}\n    {places}")
        elif ceiling > CODE_SLACK * len(seen):
            problems.append(f"'{phrase}': lower its ceiling from {ceiling} to {len(seen)}, or delete it")
    none_of(problems)


# The checks themselves


@cases("documents", "words")
def test_phrases_and_terms_are_found_where_they_stand(case: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(case["text"])
    if "phrase" in case:
        assert lines_with(case["phrase"], prose(tmp_path / "page.md")) == case["lines"]
    else:
        assert bool(term_pattern(case["term"]).search(case["text"])) is case["found"]


# What documents name

NAMED_FILE = re.compile(r"(?<![\w/<>*.…~-])[\w./-]*\w\.(?:py|rs|sh)\b")
NAMED_FOLDER = re.compile(r"`((?:python|crates|tests|docs|setup|benches|examples|fuzz)/[\w./-]*)`")


@cache
def our_paths() -> frozenset[str]:
    """Every file of the checkout, and every end of its path: `a/b/c.py`, `b/c.py`, `c.py`."""
    named = [path.relative_to(ROOT).parts for path in our_files()]
    return frozenset("/".join(parts[start:]) for parts in named for start in range(len(parts)))


def files_missing(path: Path, text: str) -> list[str]:
    """Names of source files in a text that no file of the checkout has; those with placeholders are no names."""
    return [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, named.start()) + 1}: {named[0]} does not exist"
        for named in NAMED_FILE.finditer(text)
        if named[0].lstrip("./") not in our_paths()
    ]


def test_every_source_file_and_folder_that_a_document_names_exists() -> None:
    problems = [problem for path in DOCUMENTS for problem in files_missing(path, path.read_text())]
    for path in DOCUMENTS:
        absent = [named for named in NAMED_FOLDER.findall(path.read_text()) if not (ROOT / named).exists()]
        problems += [f"{path.relative_to(ROOT)}: {named} does not exist" for named in absent]
    none_of(problems)


def test_docstrings_name_files_that_exist() -> None:
    problems = []
    for path, text in code().items():
        for node in ast.walk(ast.parse(text)) if path.suffix == ".py" and files_missing(path, text) else ():
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                problems += files_missing(path, ast.get_docstring(node) or "")
    none_of(problems)


def test_the_map_names_files_of_every_room_and_crate() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    rooms = [path.name for path in (ROOT / "python" / "ioassay").iterdir() if (path / "__init__.py").exists()]
    crates = [path.parent.name for path in (ROOT / "crates").glob("*/Cargo.toml")]
    assert [name for name in [*rooms, *crates] if f"{name}/" not in text] == []
    assert len(text.splitlines()) <= 120, "docs/ARCHITECTURE.md is one page: 120 lines"


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors that GitHub gives a document's headings."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.M)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def test_every_link_of_a_document_leads_somewhere() -> None:
    problems = []
    for path in [*DOCUMENTS, ROOT / "benches" / "README.md"]:
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
            file, _, anchor = link.partition("#")
            goal = (path.parent / file).resolve() if file else path
            if "://" in link:
                continue
            if not goal.exists() or (anchor and anchor not in anchors(goal)):
                problems.append(f"{path.relative_to(ROOT)}: {link} leads nowhere")
    none_of(problems)
