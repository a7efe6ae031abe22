"""How the help of a command or of a group of commands looks: usage, prose, then lists of two columns."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from ioassay.cli import console

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ioassay.cli.syntax import Command, Parameter

_WIDEST, _NARROWEST = 80, 50
ARGUMENTS, REST = "Arguments", "Options"
"""Headings of the arguments, and of options without a panel."""
_LONGEST_TERM = 30
"""A longer one has its description on the next line."""
HELP_ROW = ("-h, --help", "Show this message and exit.")


def group(
    path: str,
    about: str,
    commands: Mapping[str, str],
    options: Sequence[tuple[str, str]] = (),
    *,
    missing: bool = False,
) -> None:
    """Show the commands with a line each; to standard error where one is `missing`."""
    width = _width()
    lines = [f"Usage: {path} [OPTIONS] COMMAND [ARGS]...", "", *_prose(about, width)]
    lines += ["", "Options:", *_list([*options, HELP_ROW], width)]
    rows = [(name, _cut(about, width - 4 - max(map(len, commands)))) for name, about in commands.items()]
    lines += ["", "Commands:", *_list(rows, width)]
    (console.note if missing else console.line)("\n".join(lines))


def command(shown: Command, path: str) -> None:
    """Show what a command does, takes and offers; options under a heading for each panel, those without one last."""
    width = _width()
    words = f"Usage: {path} {usage(shown)}"
    lines = textwrap.wrap(words, width, subsequent_indent=" " * 7, break_on_hyphens=False)
    lines += ["", *_prose(shown.about, width)]
    for heading, parameters in panels(shown).items():
        rows = [("".join(term(each)), described(each)) for each in parameters]
        lines += ["", f"{heading}:", *_list([*rows, HELP_ROW] if heading == REST else rows, width)]
    console.line("\n".join(lines))


def _width() -> int:
    """Of the terminal that is written to, within what reads well."""
    try:
        columns = int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]
    except (OSError, ValueError, AttributeError):
        columns = _WIDEST
    return max(min(columns or _WIDEST, _WIDEST) - 2, _NARROWEST)


def _prose(about: str, width: int) -> Iterator[str]:
    for number, paragraph in enumerate(about.split("\n\n")):
        if number:
            yield ""
        yield from textwrap.wrap(paragraph, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _list(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Terms and what they mean, in two columns."""
    indent = min(max(len(term) for term, _ in rows), _LONGEST_TERM) + 4
    for term, meaning in rows:
        lines = textwrap.wrap(meaning, max(width - indent, 10)) or [""]
        if len(term) + 4 > indent:
            yield f"  {term}"
        else:
            yield f"  {term}".ljust(indent) + lines.pop(0) if meaning else f"  {term}"
        yield from (" " * indent + line for line in lines if line)


def _cut(text: str, width: int) -> str:
    return textwrap.shorten(text, max(width, 20), placeholder="...")


def usage(shown: Command) -> str:
    """What follows the path of a command: its options and arguments."""
    return " ".join(["[OPTIONS]", *(each.shown if each.required else f"[{each.shown}]" for each in shown.arguments)])


def panels(shown: Command) -> dict[str, list[Parameter]]:
    """The options and arguments that are shown, by heading; those without one last."""
    found: dict[str, list[Parameter]] = {}
    for each in shown.arguments:
        found.setdefault(ARGUMENTS, []).append(each)
    for each in shown.options:
        if not each.info.hidden:
            found.setdefault(each.info.panel or REST, []).append(each)
    found[REST] = found.pop(REST, [])
    return found


def term(parameter: Parameter) -> tuple[str, str]:
    """The names of an option, or an argument, and what shows its value behind them: `("-o, --output", " DIR")`."""
    if not parameter.yes:
        return "", parameter.shown
    names = ", ".join(sorted(parameter.yes, key=len))
    if parameter.no:
        names += " / " + ", ".join(parameter.no)
    metavar = parameter.info.metavar or ({int: "N", float: "X"}.get(parameter.kind, "TEXT"))
    if parameter.info.bare is not None:
        return names, f"[={metavar}]"
    return names, "" if parameter.is_flag else f" {metavar}"


def described(parameter: Parameter) -> str:
    """The help, with the default and the bounds behind it."""
    notes = []
    if parameter.default is not None and parameter.default is not False and parameter.default != "":
        default = parameter.yes[-1].lstrip("-") if parameter.default is True else parameter.default
        if not (parameter.default is True and not parameter.no):
            notes.append(f"default: {default}")
    low, high = parameter.info.min, parameter.info.max
    if low is not None or high is not None:
        notes.append(
            f"{f'{low:g}<=' if low is not None and high is not None else ''}x"
            + (f"<={high:g}" if high is not None else f">={low:g}")
        )
    if parameter.required:
        notes.append("required")
    return f"{parameter.info.help}  [{'; '.join(notes)}]" if notes else parameter.info.help
