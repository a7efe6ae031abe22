"""The documents of the repository and the code in them, for the tests that hold them to it.

Code is fenced or indented by four columns. Its language says what a test does with it:

- ```` ```console ```` is a terminal, which `test_shown_commands.py` executes: lines after `$ ` are commands, the others
  what they print;
- ```` ```sh ```` is for commands that cannot run in a test, because they need another host or another disk;
- a line of any other code may begin with a command where two blanks and an explanation follow: a table of commands;
- ```` ```toml title="study.toml" ```` (or another language) is a file that the reader of the page writes.

`test_documents.py` has the command line read the commands of the second and the third kind.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
OF_USERS = ("README.md", "CONTRIBUTING.md", "benches/README.md", "examples/README.md", "examples/plugin/README.md")
DOCUMENTS = [
    *(ROOT / name for name in OF_USERS),
    ROOT / "python/ioassay/simulation/traces/shipped/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
TERMINAL, SHELL = "console", "sh"

FENCE = re.compile(r'(?P<indent> *)```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?')
CONTINUED = re.compile(r"(?:.*\\\n)*.*\n?")
EXPLANATION = re.compile(r"\s{2,}|\s+# ")
SEPARATORS = frozenset(";|&")
SUBSTITUTION = re.compile(r"\$\([^()]*\)")
PROGRAM = re.compile(r"(?:\./)?ioassay")


@dataclass(frozen=True)
class Block:
    """Code of a document; indented code has no language."""

    language: str
    title: str
    text: str
    line: int


@dataclass(frozen=True)
class Shown:
    """A command of a terminal, and the lines that the page shows below it."""

    command: str
    lines: tuple[str, ...]


def blocks(page: str) -> Iterator[Block]:
    """The code of a page, in order."""
    lines = page.splitlines()
    place = 0
    while place < len(lines):
        begin = place
        if fence := FENCE.fullmatch(lines[place]):
            while place + 1 < len(lines) and lines[place + 1].strip() != "```":
                place += 1
            text = lines[begin + 1 : place + 1]
            yield Block(fence["language"], fence["title"] or "", textwrap.dedent("\n".join(text)) + "\n", begin + 2)
            place += 2
        elif lines[place].startswith("    ") and not (place and lines[place - 1].strip()):
            while place < len(lines) and (lines[place].startswith("    ") or not lines[place].strip()):
                place += 1
            yield Block("", "", textwrap.dedent("\n".join(lines[begin:place])).rstrip() + "\n", begin + 1)
        else:
            place += 1


@cache
def our_files() -> list[Path]:
    """Every file that is tracked or could be: of a checkout what git does not ignore, and no copy made for a wheel."""
    listing = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--exclude=/python/ioassay/docs/"]
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), *listing]  # whoever owns the checkout
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    return [path for name in sorted(filter(None, listed)) if (path := ROOT / name).is_file()]


def name_of(path: Path) -> str:
    """A document as test ids have it: `docs/tutorials/measure-a-disk`."""
    return str(path.relative_to(ROOT).with_suffix(""))


def files(page: str) -> dict[str, str]:
    """The files that a page has its reader write."""
    return {block.title: block.text for block in blocks(page) if block.title}


def shown(page: str) -> list[Shown]:
    """The commands of a page's terminals in order; a line that ends with a backslash continues on the next."""
    found = []
    for block in blocks(page):
        for part in re.split(r"^\$ ", block.text, flags=re.M)[1:] if block.language == TERMINAL else ():
            command = CONTINUED.match(part)[0]  # type: ignore[index]
            lines = part.removeprefix(command).splitlines()
            found.append(Shown(command.rstrip("\n"), tuple(line for line in lines if line.strip())))
    return found


def command_lines(block: Block) -> Iterator[tuple[int, str]]:
    """Line and text of each line of a block, continued lines joined; `$ ` before it is no part of it."""
    number = block.line
    for match in CONTINUED.finditer(block.text):
        yield number, re.sub(r"\\\n\s*", "", match[0]).strip().removeprefix("$ ")
        number += match[0].count("\n")


def programs(line: str) -> Iterator[list[str]]:
    """The words behind `ioassay` in each simple command of a line of shell.

    What stands before it (`sudo`, `uvx --from …`, a variable) does not matter. A substitution counts as the word 1.
    """
    words: list[str] = []
    for word in [*shell_words(line), ";"]:
        if not SEPARATORS.issuperset(word):
            words.append(word)
            continue
        begin = next((place for place in range(len(words)) if is_program(words, place)), None)
        if begin is not None:
            yield words[begin + 1 :]
        words = []


def is_program(words: list[str], place: int) -> bool:
    """Is the word there our program, and not the value of an option?"""
    before = words[place - 1] if place else ""
    return bool(PROGRAM.fullmatch(words[place])) and (before == "--" or not before.startswith("-"))


def shell_words(line: str) -> list[str]:
    """The words of a line of shell, operators apart; redirections and comments are left out."""
    line = SUBSTITUTION.sub("1", line.replace("$(command -v ioassay)", "ioassay"))
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    found = iter(lexer)
    for word in found:
        if set("<>").isdisjoint(word) or not set("<>&|").issuperset(word):
            words.append(word)
            continue
        next(found, None)
        if words and words[-1].isdigit() and word.startswith(">"):
            words.pop()
    return words
