"""Completion of commands and options in bash, zsh and fish: the scripts, where they go, and the words they ask for.

A script calls `ioassay --complete WORDS…` with the words up to the cursor and offers what it prints, a candidate on
each line; where that is nothing, the shell completes file names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ioassay.cli import COMMANDS, OPTIONS, console, named
from ioassay.cli.syntax import HELP, Command, Group
from ioassay.errors import UsageError

_SCRIPTS = {
    "bash": """\
_ioassay_completion() {
    local IFS=$'\\n'
    COMPREPLY=($("$1" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    [[ ${COMPREPLY-} == *= ]] && compopt -o nospace
}
complete -o default -F _ioassay_completion ioassay""",
    "zsh": """\
#compdef ioassay
_ioassay_completion() {
    local -a candidates
    candidates=("${(@f)$("${words[1]}" --complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${candidates[1]}" ]]; then compadd -a candidates; else _files; fi
}
compdef _ioassay_completion ioassay""",
    "fish": """\
complete --command ioassay --arguments \\
    '((commandline -opc)[1] --complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'""",
}
_FILES = {
    "bash": ".bash_completions/ioassay.sh",
    "zsh": ".zfunc/ioassay.zsh",
    "fish": ".config/fish/completions/ioassay.fish",
}
_READ_BY = {"bash": ".bashrc", "zsh": ".zshrc"}


def answer(option: str, words: Sequence[str]) -> None:
    """What one of the options asks for."""
    if option == "--complete":
        for candidate in candidates(words):
            console.line(candidate)
        return
    shell = words[0] if words else Path(os.environ.get("SHELL", "")).name
    if shell not in _SCRIPTS:
        raise UsageError(f"{option}: the shell is '{shell}', wanted {', '.join(_SCRIPTS)}: ioassay {option} bash")
    if option == "--show-completion":
        console.line(_SCRIPTS[shell])
        return
    path = install(shell, Path.home())
    console.line(f"completion for {shell} is in {path}; it takes effect in a new shell")


def candidates(words: Sequence[str]) -> list[str]:
    """The words that the last of these, which may be empty, can become."""
    words, cut = _joined(words)
    return [word[cut:] for word in _candidates(words)]


def _joined(words: Sequence[str]) -> tuple[list[str], int]:
    """The words with those joined that bash splits at '=', and how much of the last one stands before the cursor's."""
    joined: list[str] = []
    for place, word in enumerate(words):
        if joined and place and (word == "=" or words[place - 1] == "="):
            joined[-1] += word
        else:
            joined.append(word)
    split = len(words) > 1 and "=" in words[-2:]
    return joined, joined[-1].index("=") + 1 if split else 0


def _candidates(words: Sequence[str]) -> list[str]:
    *before, last = words or [""]
    known: Sequence[str] = [*COMMANDS, *(name for name, _ in OPTIONS), *HELP]
    member: Command | Group | None = None
    for word in before:
        if isinstance(member, Command):
            break
        if (member is None and word not in COMMANDS) or (isinstance(member, Group) and word not in member.members):
            return []
        member = named(word) if member is None else member.members[word]
    if isinstance(member, Group):
        known = [*member.members, *HELP]
    elif member is not None:
        return _of_command(member, before, last)
    return [word for word in known if word.startswith(last)]


def _of_command(command: Command, before: Sequence[str], last: str) -> list[str]:
    """An option's name, or the value of the option or argument that is due, where the command knows its values."""
    name, equals, value = last.partition("=")
    if last.startswith("--") and equals:
        return [f"{name}={each}" for each in command.values_after([name], value)]
    if last.startswith("-"):
        return [each for each in command.names() if each.startswith(last)]
    return command.values_after(before, last)


def install(shell: str, home: Path) -> Path:
    """Write the script where the shell finds it; where a start-up file has to read it, that file says so once."""
    path = home / _FILES[shell]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_SCRIPTS[shell] + "\n")
    if shell in _READ_BY:
        reader = home / _READ_BY[shell]
        line = f"source '{path}'"
        content = reader.read_text() if reader.exists() else ""
        if line not in content.splitlines():
            setup = "" if shell == "bash" else "autoload -Uz compinit && compinit\n"
            with reader.open("a") as file:
                file.write(f"{'' if not content or content.endswith(chr(10)) else chr(10)}{setup}{line}\n")
    return path
