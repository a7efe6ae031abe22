"""The pages of the manual, one for each command: the tables and docstrings of --help in the language of man(7).

Packages write them with `ioassay --manual FOLDER`. The same program writes the same bytes: the date is that of
SOURCE_DATE_EPOCH (reproducible-builds.org/specs/source-date-epoch), and without it the first day of 1970.
"""

from __future__ import annotations

import os
import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import ioassay
from ioassay.cli import ABOUT, COMMANDS, OPTIONS, console, helptext, named
from ioassay.cli.syntax import Command, Group, summary
from ioassay.errors import UsageError

_WIDTH = 60
"""Of a line before its characters are escaped."""
_TEXTS = tomllib.loads(Path(__file__).with_name("manual.toml").read_text(encoding="utf-8"))
_PASS_ON = ("witness", "record")
"""Commands with the exit status of the command that they run."""
_OF_OTHERS = "fio(1)"
_ESCAPES = str.maketrans({"\\": "\\(rs", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"})
"""Characters that typesetters replace (groff_char(7)), where readers copy options and examples from the page."""
_EXAMPLE_HEAD = re.compile(r"\s*\bExamples?: ")
_EXAMPLE_END = re.compile(r"; (?:then[^:]*: )?(?=ioassay )")


def answer(words: Sequence[str]) -> None:
    if len(words) != 1:
        raise UsageError("--manual: expected one folder for the pages, such as: ioassay --manual man1")
    console.line(f"{len(write(Path(words[0])))} pages of the manual are in {words[0]}")


def write(folder: Path) -> list[Path]:
    texts = {"ioassay": overview(), **{f"ioassay-{name}": page(name) for name in COMMANDS}}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.1").write_text(text)
    return [folder / f"{name}.1" for name in texts]


def overview() -> str:
    sections = {
        "SYNOPSIS": ["\\fBioassay\\fR [OPTIONS] COMMAND [ARGS]..."],
        "DESCRIPTION": _prose(_TEXTS["description"]),
        "COMMANDS": _items((_bold(f"ioassay-{name}") + "(1)", about) for name, about in COMMANDS.items()),
        "OPTIONS": _items((_bold(term), about) for term, about in (*OPTIONS, helptext.HELP_ROW)),
        "EXIT STATUS": _statuses("ioassay"),
        "EXAMPLES": _code(_TEXTS["examples"]),
        "SEE ALSO": _references([*(f"ioassay-{name}(1)" for name in COMMANDS), _OF_OTHERS]),
    }
    return _page("ioassay", ABOUT, sections)


def page(name: str) -> str:
    member = named(name)
    commands = dict(_commands(f"ioassay {name}", member))
    described = [parts(each.about) for each in commands.values()]
    text = " ".join(each.about for each in commands.values())
    near = [f"ioassay-{other}(1)" for other in COMMANDS if other != name and f"ioassay {other}" in text]
    sections = {
        "SYNOPSIS": [
            line
            for path, each in commands.items()
            for line in (".br", f"{_bold(path)} {_escaped(helptext.usage(each))}")
        ][1:],
        "DESCRIPTION": _prose(parts(member.about)[0]),
        "OPTIONS": _grouped(commands) if isinstance(member, Group) else _parameters(member),
        "EXIT STATUS": _statuses(name),
        "EXAMPLES": _code(example for _, examples in described for example in examples),
        "SEE ALSO": _references(["ioassay(1)", *near, _OF_OTHERS]),
    }
    return _page(f"ioassay-{name}", summary(member.about), sections)


def _commands(path: str, member: Command | Group) -> Iterator[tuple[str, Command]]:
    if isinstance(member, Command):
        yield path, member
        return
    for name, each in member.members.items():
        yield from _commands(f"{path} {name}", each)


def parts(about: str) -> tuple[str, list[str]]:
    """The prose of a docstring, and the examples at its end."""
    prose, *rest = _EXAMPLE_HEAD.split(about, maxsplit=1)
    return prose, _EXAMPLE_END.split(" ".join(rest[0].split())) if rest else []


def _page(name: str, about: str, sections: Mapping[str, Iterable[str]]) -> str:
    from datetime import UTC, datetime

    epoch = os.environ.get("SOURCE_DATE_EPOCH", "0")
    try:
        date = f"{datetime.fromtimestamp(int(epoch), UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"SOURCE_DATE_EPOCH is '{epoch}', expected seconds since 1970-01-01, such as 0") from None
    head = f'.TH {name.upper()} 1 {date} "ioassay {ioassay.__version__}" "User commands"'
    lines = [head, ".SH NAME", f"{_escaped(name)} \\- {_escaped(about.rstrip('.'))}"]
    for title, content in sections.items():
        if content := list(content):
            lines += [f'.SH "{title}"' if " " in title else f".SH {title}", *content]
    return "\n".join(lines) + "\n"


def _grouped(commands: dict[str, Command]) -> Iterator[str]:
    for path, command in commands.items():
        yield f'.SS "{_escaped(path)}"'
        yield from _prose(parts(command.about)[0])
        yield from _parameters(command)


def _parameters(command: Command) -> Iterator[str]:
    """Arguments and options; those of a panel of the help stand under its heading."""
    for heading, parameters in helptext.panels(command).items():
        if heading not in (helptext.ARGUMENTS, helptext.REST):
            yield f'.SS "{_escaped(heading)}"'
        for each in parameters:
            names, value = helptext.term(each)
            term = (_bold(names) if names else "") + (f"\\fI{_escaped(value)}\\fR" if value else "")
            yield from (".TP", term, *_wrapped(helptext.described(each)))
    yield from _items([(_bold(helptext.HELP_ROW[0]), helptext.HELP_ROW[1])])


def _statuses(name: str) -> Iterator[str]:
    yield from _items(_TEXTS["statuses"].items())
    if name in _PASS_ON:
        yield from (".PP", "Otherwise the status of COMMAND is passed on.")


def _references(pages: Sequence[str]) -> Iterator[str]:
    for page_ in pages:
        name = page_.removesuffix("(1)")
        yield f".BR {_escaped(name)} (1)" + ("," if page_ != pages[-1] else "")


def _items(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, about in rows:
        yield from (".TP", term, *_wrapped(about))


def _prose(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ".PP"
        yield from _wrapped(paragraph)


def _code(examples: Iterable[str]) -> Iterator[str]:
    for number, example in enumerate(examples):
        if number:
            yield ".PP"
        yield from (".EX", _escaped(example), ".EE")


def _wrapped(text: str) -> Iterator[str]:
    for line in textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False):
        yield _escaped(line)


def _bold(text: str) -> str:
    return f"\\fB{_escaped(text)}\\fR"


def _escaped(text: str) -> str:
    """A line of text as it is; a '.' or an apostrophe at its beginning would be a request."""
    ascii_ = "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in text.translate(_ESCAPES))
    return f"\\&{ascii_}" if ascii_.startswith(".") else ascii_
