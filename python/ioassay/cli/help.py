"""ioassay help: the help of a command, as the command's own --help shows it."""

from __future__ import annotations

from typing import Annotated

from ioassay.cli import ABOUT, COMMANDS, OPTIONS, helptext, named, syntax


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("help")(show)


def show(
    command: Annotated[
        list[str] | None, syntax.Argument(metavar="COMMAND…", help="A command, and one of its own where it has some.")
    ] = None,
) -> None:
    """Show the help of a command.

    Examples: ioassay help run; ioassay help trace convert
    """
    if not command:
        helptext.group("ioassay", ABOUT, COMMANDS, OPTIONS)
        return
    name, *rest = command
    if name not in COMMANDS:
        raise syntax.unknown(name, list(COMMANDS), "ioassay")
    named(name).run([*rest, "--help"], f"ioassay {name}")
