"""ioassay help: the help of a command, as the command's own --help shows it, or a document."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Annotated

from ioassay.cli import ABOUT, COMMANDS, OPTIONS, console, documents, helptext, named, syntax
from ioassay.errors import UsageError
from ioassay.hints import nearest
from ioassay.process import pager

_WIDTH = 78


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("help")(show)


def show(
    command: Annotated[
        list[str] | None,
        syntax.argument("COMMAND…|TOPIC", "A command, and one of its own where it has some, or a document."),
    ] = None,
) -> None:
    """Show the help of a command, or a document.

    A topic that is also a command is shown as a document with .md behind its name. A document is Markdown, shown by
    $PAGER on a terminal. Examples: ioassay help run; ioassay help trace convert; ioassay help safety; ioassay help
    doctor.md
    """
    topics = documents.topics()
    if not command:
        helptext.group("ioassay", ABOUT, COMMANDS, OPTIONS)
        _list(topics)
        return
    name, *rest = command
    topic = documents.topic(name)
    if name in COMMANDS:
        named(name).run([*rest, "--help"], f"ioassay {name}")
        if topic in topics and not rest:
            console.line(f"\nThe document on it: ioassay help {topic}.md")
    elif topic not in topics:
        missing = "" if topics else "; this installation has no documents"
        hint = missing or nearest(topic, [*COMMANDS, *topics])
        raise UsageError(f"No such command or document '{name}'{hint} (see: ioassay help)")
    elif rest:
        raise UsageError(f"'{name}' is a document and takes no '{' '.join(rest)}' (see: ioassay help --help)")
    else:
        _read(topics[topic])


def _list(topics: dict[str, Path]) -> None:
    if topics:
        listed = textwrap.fill(f"Documents: {', '.join(topics)}", _WIDTH, break_on_hyphens=False)
        console.line(f"\n{listed}\nOne of them: ioassay help safety")


def _read(path: Path) -> None:
    """A document as it is; by the user's pager on a terminal."""
    text = path.read_text()
    if sys.stdout.isatty() and pager.show(text):
        return
    console.line(text.rstrip("\n"))
