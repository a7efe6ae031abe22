"""ioassay help: the help of a command, as the command's own --help shows it, or a document.

The documents of docs/ are those in the package, where setup/wheel.sh puts them, or of a checkout its own. Pages of
pictures are left out, there and here.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Annotated

from ioassay.cli import ABOUT, COMMANDS, OPTIONS, console, helptext, named, syntax
from ioassay.errors import UsageError
from ioassay.hints import nearest
from ioassay.process import show_in_pager

_WIDTH = 78


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
    documents = topics()
    if not command:
        helptext.group("ioassay", ABOUT, COMMANDS, OPTIONS)
        if documents:
            listed = textwrap.fill(f"Documents: {', '.join(documents)}", _WIDTH, break_on_hyphens=False)
            console.line(f"\n{listed}\nOne of them: ioassay help safety")
        return
    name, *rest = command
    topic = topic_of(name)
    if name in COMMANDS:
        named(name).run([*rest, "--help"], f"ioassay {name}")
        if topic in documents and not rest:
            console.line(f"\nThe document on it: ioassay help {topic}.md")
    elif topic not in documents:
        missing = "" if documents else "; this installation has no documents"
        hint = missing or nearest(topic, [*COMMANDS, *documents])
        raise UsageError(f"No such command or document '{name}'{hint} (see: ioassay help)")
    elif rest:
        raise UsageError(f"'{name}' is a document and takes no '{' '.join(rest)}' (see: ioassay help --help)")
    else:  # a document as it is; by the user's pager on a terminal
        text = documents[topic].read_text()
        if not (sys.stdout.isatty() and show_in_pager(text)):
            console.line(text.rstrip("\n"))


# The documents

_PACKAGE = Path(__file__).parent.parent
_SUFFIX = ".md"
_PICTURES = {"gallery", "pictures"}
_MOST_BYTES = 200
"""Of a file, for its heading, which is its first line."""


def topics() -> dict[str, Path]:
    """Topic -> file, sorted; none where an installation was built without documents."""
    shipped = _PACKAGE / "docs"
    folder = shipped if shipped.is_dir() else _PACKAGE.parent.parent / "docs"
    files = {path.stem.lower(): path for path in [*folder.glob(f"*{_SUFFIX}"), *folder.glob(f"*/*{_SUFFIX}")]}
    return {topic: files[topic] for topic in sorted(files.keys() - _PICTURES)}


def topic_of(word: str) -> str:
    """The topic that a word means: `safety` of `Safety`, `safety.md` and `docs/safety.md`."""
    return Path(word).name.lower().removesuffix(_SUFFIX)


def headings() -> dict[str, str]:
    found = {}
    for name, path in topics().items():
        with path.open("rb") as file:
            first, _, _ = file.read(_MOST_BYTES).decode(errors="replace").partition("\n")
        found[name] = first.lstrip("# ")
    return found
