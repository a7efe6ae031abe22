"""The pages of the manual: what they contain, that they are the same each time, and what their checkers say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ioassay import cli
from ioassay.cli import manual
from ioassay.cli.syntax import Command, Group

from .conftest import Answer, Ask

SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Name -> file of each page."""
    return {path.stem: path for path in manual.write(tmp_path_factory.mktemp("manual"))}


def leaves(member: Command | Group) -> list[Command]:
    return (
        [member] if isinstance(member, Command) else [leaf for one in member.members.values() for leaf in leaves(one)]
    )


def plain(text: str) -> str:
    """What a page says, without the language of man(7)."""
    text = re.sub(r"\\\[u([0-9A-F]{4,5})\]", lambda match: chr(int(match[1], 16)), text)
    for escape, char in {"\\fB": "", "\\fI": "", "\\fR": "", "\\-": "-", "\\(aq": "'", "\\&": ""}.items():
        text = text.replace(escape, char)
    return text


def test_each_command_has_a_page_with_all_sections(pages: dict[str, Path]) -> None:
    assert list(pages) == ["ioassay", *(f"ioassay-{name}" for name in cli.COMMANDS)]
    for name, path in pages.items():
        found = [line.removeprefix(".SH ").strip('"') for line in path.read_text().splitlines() if line[:3] == ".SH"]
        assert [title for title in found if title != "COMMANDS"] == SECTIONS, name


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_page_has_each_option_that_the_help_has(name: str, pages: dict[str, Path]) -> None:
    said = plain(pages[f"ioassay-{name}"].read_text())
    for command in leaves(cli.named(name)):
        for option in command.names():
            assert re.search(rf"(?m)^(?:\S+, |.* / )?{re.escape(option)}\b", said), option
        for option in command.options:
            assert option.info.help == "" or option.info.hidden or option.info.help.split()[0] in said  # type: ignore[union-attr]


def test_a_page_has_subcommands_and_their_examples(pages: dict[str, Path]) -> None:
    said = plain(pages["ioassay-device"].read_text())
    assert '.SS "ioassay device fault inject"' in said
    assert ".EX\nioassay device fault inject drive.stats kind=latency delay=50ms probability=0.01\n.EE" in said
    assert "Example" not in said.replace("EXAMPLES", "")


def test_examples_are_apart(pages: dict[str, Path]) -> None:
    said = plain(pages["ioassay-worker"].read_text())
    assert re.findall(r"\.EX\n(.*)\n\.EE", said) == [
        "ioassay worker tcp://10.0.0.1:8786 --name a",
        "ioassay run study.toml --set run.hosts=a,b --executor dask://10.0.0.1:8786",
    ]


def test_the_date_of_the_source_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    first = manual.page("run")
    assert first == manual.page("run")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert manual.page("run") == first.replace("1970-01-01", "2023-11-14")


def test_packages_write_the_pages_with_one_command(ioassay: Ask, tmp_path: Path, pages: dict[str, Path]) -> None:
    assert ioassay("--manual", "share/man1") == Answer(0, f"{len(pages)} pages of the manual are in share/man1\n", "")
    written = tmp_path / "share/man1"
    assert {path.name: path.read_bytes() for path in written.iterdir()} == {
        path.name: path.read_bytes() for path in pages.values()
    }


@pytest.mark.parametrize(
    "checker",
    [["mandoc", "-T", "lint", "-W", "warning"], ["groff", "-man", "-ww", "-z", "-T", "utf8"]],
    ids=lambda words: words[0],
)
def test_checkers_of_pages_find_nothing(checker: list[str], pages: dict[str, Path]) -> None:
    if shutil.which(checker[0]) is None:
        pytest.skip(
            f"needs {checker[0]} on PATH: apt-get install {'groff-base' if checker[0] == 'groff' else 'mandoc'}"
        )
    for path in pages.values():
        done = subprocess.run([*checker, path], capture_output=True, text=True, env=os.environ)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), path.name
