"""Documents: the command line can read their commands, their words are the glossary's, and they name what exists.

Commands that documents and helps give as examples are read without executing them: a renamed command, option, study or
value that an example still has fails here. Nothing runs. Terminals, which are executed, are in
`test_shown_commands.py`; `help.py` says which code is which.

Terms of docs/GLOSSARY.md are in use, and banned synonyms are not. The two kinds of tables there are the data of these
tests. Documents hold to all of it; code and its messages hold to it but for the ceilings of
`tests/corpus/tree/ceilings.toml`, which may only sink. CHANGELOG.md is history.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ioassay import cli
from ioassay.api.study import Study
from ioassay.cli import help, manual, syntax
from ioassay.cli.syntax import Command, Group
from ioassay.errors import IoassayError, UsageError

from .corpora import cases
from .documents import (
    DOCUMENTS,
    EXPLANATION,
    ROOT,
    SHELL,
    TERMINAL,
    Block,
    blocks,
    command_lines,
    name_of,
    our_files,
    programs,
    shell_words,
)

OPEN_ENDED = {"--precondition", "--maximize", "--minimize", "--subject-to"}
"""Options whose completion offers examples of what they take."""
PLACEHOLDER = re.compile(r"…|\[?[A-Z]+\]?|.*…|\w+/…")
INCOMPLETE = re.compile(r"^Missing argument|is the last word|^No such command ''")
"""What is said of a command that is only named."""
USE = re.compile(r"(?:.*(?:&&|[|;]|\bsudo|--) )?(?:\./)?ioassay (?P<verb>\S+)")
"""Begins a line that uses our program, alone or behind another."""
TOP = {word for word in cli.option_names() if word.startswith("-")} | {"-h", "--help", "--manual"}


# How an example is read


def command_of(words: list[str]) -> tuple[Command, list[str]]:
    """The command that the words name, and those behind its name."""
    first, *rest = words
    if first not in cli.COMMANDS:
        raise syntax.unknown(first, list(cli.COMMANDS), "ioassay")
    member: Command | Group = cli.named(first)
    while isinstance(member, Group):
        if not rest or rest[0] not in member.members:
            raise syntax.unknown(rest[0] if rest else "", list(member.members), f"ioassay {first}")
        member = member.members[rest.pop(0)]
    return member, rest


def check(words: list[str]) -> None:
    """Read the words behind `ioassay` as the program does; UsageError or StudyError for what it would refuse."""
    words = [word.strip("[]") for word in words if word != "…"]
    if "--log-level" in words[:-1]:
        place = words.index("--log-level")
        words = words[:place] + words[place + 2 :]
    if not words or words[0] in TOP:
        return
    if words[0] == "help" and words[1:]:
        if help.topic_of(words[1]) not in help.topics():
            command_of(words[1:])
        return
    command, rest = command_of(words)
    if (values := command.values(rest)) is None:
        return
    check_values(command, rest)
    study = values.get("study")
    if study and not PLACEHOLDER.fullmatch(study) and not study.endswith((".toml", ".fio")):
        changes = {name: values.get(key) or () for name, key in (("settings", "set_"), ("factors", "factor"))}
        Study.read(study, scale=values.get("scale", "full"), repetitions=values.get("repetitions"), **changes)


def check_values(command: Command, words: list[str]) -> None:
    """UsageError for the value of an option that the shell would not be offered, where the names are known."""
    of_study = {"--set", "--factor"} if any(each.name == "study" for each in command.parameters) else set()
    end = words.index("--") if "--" in words else len(words)
    for place in range(end):
        before, word = words[:place], words[place]
        option, equals, _ = word.partition("=")
        is_whole = word.startswith("--") and bool(equals)
        due = option if is_whole else before[-1] if before and before[-1].startswith("--") else ""
        if due.startswith("--") and due not in OPEN_ENDED | of_study:
            prefix = f"{due}=" if is_whole else ""
            if not is_offered(command, before, word, prefix):
                raise UsageError(f"{due} is '{word.removeprefix(prefix)}', which completion does not offer")


def is_offered(command: Command, before: list[str], word: str, prefix: str) -> bool:
    """Is a value one of those that are offered, or one that continues such (`poisson:` or `buffer=`), or a file?"""
    if not command.candidates(before, prefix) or word in command.candidates(before, word):
        return True
    if word.endswith(".toml") or PLACEHOLDER.fullmatch(word.removeprefix(prefix)):
        return True
    stems = [word[:end] for end in range(len(prefix) + 1, len(word) + 1) if word[end - 1] in ":=/"]
    return any(
        stem in command.candidates(before, stem[:-1]) and not set(command.candidates(before, stem)) - {stem}
        for stem in stems
    )


# Where examples are


def of_shell(page: str) -> Iterator[tuple[int, list[str]]]:
    """Line and words of each use of our program in code that is shell, and no file that a terminal runs."""
    for block in blocks(page):
        for line, text in command_lines(block) if block.language == SHELL and not block.title else ():
            yield from ((line, words) for words in programs(text))


def of_tables(page: str) -> Iterator[tuple[int, list[str], bool]]:
    """Line, words and whether an explanation follows, of each line of other code that begins with a command."""
    for block in blocks(page):
        for line, text in command_lines(block) if block.language not in (SHELL, TERMINAL) else ():
            if (used := USE.match(text)) and used["verb"] in {*cli.COMMANDS, *TOP}:
                command, *explanation = EXPLANATION.split(text, maxsplit=1)
                yield line, next(programs(command)), bool(explanation)


def of_prose(page: str) -> Iterator[tuple[int, list[str]]]:
    """Line and words of each use of our program in a code span."""
    prose = re.sub(r"^ *```.*?^ *```$", lambda block: "\n" * block[0].count("\n"), page, flags=re.M | re.S)
    for span in re.finditer(r"`((?:\./)?ioassay\s[^`]+)`", prose):
        line = prose.count("\n", 0, span.start()) + 1
        yield from ((line, words) for words in programs(" ".join(span[1].split())))


def problem(words: list[str]) -> str:
    try:
        check(words)
    except IoassayError as error:
        return str(error)
    return ""


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Completion offers the files that are there."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_commands_of_a_document_exist_and_those_that_are_not_executed_can_be_read(path: Path) -> None:
    advice = "make it a ```console block, which is executed, or ```sh where it cannot run in a test"
    page = path.read_text()
    tables = [*of_tables(page)]
    read = [*of_shell(page), *((line, words) for line, words, _ in tables)]
    said = [(line, problem(words)) for line, words in read]
    said += [(line, why) for line, words in of_prose(page) if not INCOMPLETE.search(why := problem(words))]
    said += [(line, f"ioassay {' '.join(words)}: {advice}") for line, words, is_explained in tables if not is_explained]
    problems = [f"{name_of(path)}.md:{line}: {why}" for line, why in said if why]
    assert not problems, "\n".join(problems)


def leaves(member: Command | Group) -> Iterator[Command]:
    if isinstance(member, Command):
        yield member
    else:
        for each in member.members.values():
            yield from leaves(each)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_examples_of_a_help_can_be_read(name: str) -> None:
    examples = [each for command in leaves(cli.named(name)) for each in manual.parts(command.about)[1]]
    found = [(each, words) for each in examples for words in programs(each)]
    assert len(found) >= len(examples)
    assert not (problems := [f"{each}: {said}" for each, words in found if (said := problem(words))]), problems


def test_examples_of_the_manual_can_be_read() -> None:
    examples = re.findall(r"\.EX\n(.*)\n\.EE", manual.overview().replace("\\-", "-"))
    assert examples and all(problem(words) == "" for each in examples for words in programs(each))


# The checks themselves


@cases("documents", "lines")
def test_a_line_has_a_problem_where_the_command_line_would_refuse_it(case: dict[str, Any]) -> None:
    found = [*programs(case["id"])]
    if case.get("prose"):
        assert [*of_prose(f"One\n\n```sh\nls\n```\n\nWith `{case['id']}`\n")] == [(7, *found)]
    if "words" in case:
        assert found == case["words"]
        return
    said = problem(*found)
    assert case["says"] in said if "says" in case else not said or (case.get("prose") and INCOMPLETE.search(said))


def test_tables_and_bare_commands_are_told_apart() -> None:
    code = ["    ioassay studies   lists", "    cd a && ioassay -V", "    ioassay sql RUN", "      ioassay is fast"]
    page = "\n".join(["A", "", *code, "", "```", "ioassay 1  2", "```", ""])
    assert shell_words("a <in 2>err >> out b") == ["a", "b"]
    assert [*of_tables(page)] == [(3, ["studies"], True), (4, ["-V"], False), (5, ["sql", "RUN"], False)]
    assert [*blocks('```toml title="a.toml"\nx = 1\n```\n')] == [Block("toml", "a.toml", "x = 1\n", 2)]


# The glossary

GLOSSARY = ROOT / "docs" / "GLOSSARY.md"
HELD_TO_WORDS = [path for path in DOCUMENTS if path.parent.name not in ("benches", "plugin", "shipped")]
CEILINGS: dict[str, int] = tomllib.loads((ROOT / "tests/corpus/tree/ceilings.toml").read_text())
MOST_WORDS = 76_750
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
        assert len(row) == 3 and all(row), f"{row[0]}: expected term, definition, source"
        assert row[1].endswith("."), f"{row[0]}: its definition is no sentence"
    names = [row[0].lower() for row in TERMS]
    assert 70 <= len(names) <= 150 and sorted(names) == sorted(set(names))
    assert set(names) & BANNED.keys() == set()


def test_every_term_is_in_use() -> None:
    texts = [path.read_text() for path in HELD_TO_WORDS if path != GLOSSARY] + list(code().values())
    unused = [row[0] for row in TERMS if not any(term_pattern(row[0]).search(text) for text in texts)]
    assert not unused, f"in docs/GLOSSARY.md and nowhere else: {unused}; use them, or take them out"


# Banned synonyms


def test_no_document_uses_a_banned_synonym() -> None:
    problems = []
    for path in HELD_TO_WORDS:
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


@cases("documents", "words")
def test_phrases_and_terms_are_found_where_they_stand(case: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "page").write_text(case["text"])
    if "phrase" in case:
        assert lines_with(case["phrase"], prose(tmp_path / "page")) == case["lines"]
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
    problems = [problem for path in HELD_TO_WORDS for problem in files_missing(path, path.read_text())]
    for path in HELD_TO_WORDS:
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


def test_documents_stay_short() -> None:
    """`wc -w` of all of them; the changelog grows until a release and is apart."""
    words = {name_of(path): len(path.read_text().split()) for path in DOCUMENTS}
    assert sum(words.values()) <= MOST_WORDS, f"say it once, and link: {sorted(words, key=words.__getitem__)[-5:]}"


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors that GitHub gives a document's headings."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.M)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def test_every_link_of_a_document_leads_somewhere() -> None:
    problems = []
    for path in DOCUMENTS:
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
            file, _, anchor = link.partition("#")
            goal = (path.parent / file).resolve() if file else path
            if "://" in link:
                continue
            if not goal.exists() or (anchor and anchor not in anchors(goal)):
                problems.append(f"{path.relative_to(ROOT)}: {link} leads nowhere")
    none_of(problems)
