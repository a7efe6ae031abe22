"""Documents by `ioassay help TOPIC`: as they are, by the user's pager on a terminal, and named so by every message."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ioassay.cli import COMMANDS, completion, help

from .conftest import Answer, Ask, command
from .terminal import CTRL_C, Terminal

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "ioassay"
HELP = command("help")


def named(path: Path) -> Iterator[tuple[str, str]]:
    """Place and topic of each `hints.document("topic")`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "document":
            yield f"{path.relative_to(ROOT)}:{node.lineno}", ast.literal_eval(node.args[0])


def messages(path: Path) -> Iterator[tuple[str, str]]:
    """Place and text of each constant that is no docstring."""
    tree = ast.parse(path.read_text())
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


def test_each_page_of_text_is_a_topic() -> None:
    pages = {path.stem.lower() for path in (ROOT / "docs").rglob("*.md")}
    assert help.topics().keys() == pages - {"gallery", "pictures"}
    assert {"safety", "method", "measure-a-disk", "doctor"} <= help.topics().keys()


@pytest.mark.parametrize("word", ["safety", "Safety", "safety.md", "docs/safety.md"])
def test_a_document_is_printed_as_it_is(word: str, ioassay: Ask) -> None:
    assert ioassay("help", word) == Answer(0, (ROOT / "docs" / "safety.md").read_text(), "")


def test_a_command_comes_before_a_document_of_its_name(ioassay: Ask) -> None:
    assert ioassay("help", "doctor").out.startswith("Usage: ioassay doctor")
    assert ioassay("help", "doctor.md").out == (ROOT / "docs" / "doctor.md").read_text()


def test_topics_are_offered_with_their_headings() -> None:
    assert completion.candidates(["help", "saf"]) == {
        "safety": "Safety: what ioassay refuses to write, and how to proceed"
    }
    assert completion.candidates(["help", "doct"]) == {"doctor": COMMANDS["doctor"]}


def test_an_installation_without_documents_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(help, "_PACKAGE", tmp_path / "python" / "ioassay")
    assert help.topics() == help.headings() == {}


def test_documents_of_the_package_come_before_those_of_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "python" / "ioassay" / "docs"
    for folder in (tmp_path / "docs", shipped):
        folder.mkdir(parents=True)
        (folder / "safety.md").write_text(f"# Safety in {folder.name}\n")
    monkeypatch.setattr(help, "_PACKAGE", shipped.parent)
    assert help.topics() == {"safety": shipped / "safety.md"}


# On a terminal


def pager(folder: Path, script: str) -> dict[str, str]:
    program = folder / "pager"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PAGER": f"{program} 'two words'", "TERM": "xterm"}


def test_a_terminal_shows_a_document_by_the_pager(tmp_path: Path) -> None:
    with Terminal([*HELP, "safety"], tmp_path, pager(tmp_path, 'cat >shown; echo "paged: $1 $LESS"')) as terminal:
        terminal.until("paged: two words FRX")
        assert terminal.ended() == 0
    assert (tmp_path / "shown").read_text() == (ROOT / "docs" / "safety.md").read_text()


def test_ctrl_c_is_the_pagers(tmp_path: Path) -> None:
    wait = "while [ ! -e caught ]; do sleep 0.05; done"  # a trap runs between commands
    script = (
        f"trap 'touch caught' INT; cat >/dev/null; echo ready; {wait}; echo caught; read x </dev/tty; echo left; exit 5"
    )
    with Terminal([*HELP, "safety"], tmp_path, pager(tmp_path, script)) as terminal:
        terminal.until("ready")
        terminal.type(CTRL_C)
        terminal.until("caught")
        terminal.type("q\n")
        terminal.until("left")
        assert terminal.ended() == 0


@pytest.mark.parametrize("setting", [{"PAGER": "/no/such/pager"}, {"PAGER": "less '"}, {"TERM": "dumb"}])
def test_without_a_pager_a_terminal_shows_all_of_it(setting: dict[str, str], tmp_path: Path) -> None:
    last = (ROOT / "docs" / "safety.md").read_text().rstrip().splitlines()[-1]
    with Terminal([*HELP, "safety"], tmp_path, {"TERM": "xterm", **setting}) as terminal:
        assert terminal.ended() == 0
    assert terminal.shown.splitlines()[-1] == last


# Messages


def test_messages_name_documents_that_exist_and_no_command() -> None:
    found = [place for path in PACKAGE.rglob("*.py") for place in named(path)]
    assert len(found) >= 8
    known = help.topics().keys() - COMMANDS.keys() | {f"{name}.md" for name in COMMANDS}
    assert [one for one in found if one[1] not in known or help.topic_of(one[1]) not in help.topics()] == []


def test_messages_name_no_file_that_an_installed_program_lacks() -> None:
    """Whoever installed the wheel has no folder docs/; `hints.document` names what shows the page everywhere."""
    file = re.compile(r"\bdocs/[\w-]+\.md")
    found = [(place, text) for path in sorted(PACKAGE.rglob("*.py")) for place, text in messages(path)]
    assert [(place, text[:80]) for place, text in found if file.search(text)] == []
