"""The commands that documents and helps give as examples without executing them: the command line can read them.

A renamed command, option, study or value that an example still has fails here. Nothing runs. Terminals, which are
executed, are in `test_shown_commands.py`; `documents.py` says which code is which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ioassay import cli
from ioassay.api.study import Study
from ioassay.cli import documents, manual, syntax
from ioassay.cli.syntax import Command, Group
from ioassay.errors import IoassayError, UsageError

from .corpora import cases
from .documents import (
    DOCUMENTS,
    EXPLANATION,
    SHELL,
    TERMINAL,
    Block,
    blocks,
    command_lines,
    name_of,
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
        if documents.topic(words[1]) not in documents.topics():
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
