"""Completion of commands and options in bash, zsh and fish: the scripts, where they go, and the words they ask for.

A script calls `ioassay --complete WORDS…` with the words up to the cursor and offers what it prints, a candidate on
each line; where that is nothing, the shell completes file names. `--candidates` adds what each means, behind a tab, for
shells that show it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ioassay import debug_log
from ioassay.cli import COMMANDS, COMPLETE, LOG_LEVEL, SHELL_OPTIONS, console, help, helptext, named, option_names
from ioassay.cli.syntax import HELP, Group, meanings
from ioassay.errors import UsageError
from ioassay.hints import nearest

_FILES = {
    "bash": ".bash_completions/ioassay.sh",
    "zsh": ".zfunc/ioassay.zsh",
    "fish": ".config/fish/completions/ioassay.fish",
}
"""Shell -> where it looks for the script, `completion.SHELL` here, below the home folder."""
_READ_BY = {"bash": ".bashrc", "zsh": ".zshrc"}


def answer(option: str, words: Sequence[str]) -> None:
    """What one of the options asks for."""
    if option in COMPLETE:
        try:
            offered = candidates(words)
        except OSError:  # a folder that is gone or closed to us; the shell completes file names
            return
        for candidate, about in offered.items():
            console.line(candidate if option == COMPLETE[0] else f"{candidate}\t{' '.join(about.split())}")
        return
    shell = words[0] if words else Path(os.environ.get("SHELL", "")).name
    if shell not in _FILES:
        wanted = f"{', '.join(_FILES)}: ioassay {option} bash"
        raise UsageError(f"{option}: the shell is '{shell}', expected {wanted}{nearest(shell, _FILES)}")
    if option == "--show-completion":
        console.line(_script(shell).rstrip("\n"))
        return
    path = install(shell, Path.home())
    console.line(f"completion for {shell} is in {path}; it takes effect in a new shell")


def _script(shell: str) -> str:
    return Path(__file__).with_name(f"completion.{shell}").read_text()


def candidates(words: Sequence[str]) -> dict[str, str]:
    """The words that the last of these, which may be empty, can become, each with what it means."""
    words, cut = _joined(words)
    return {word[cut:]: about for word, about in _candidates(words).items()}


def _joined(words: Sequence[str]) -> tuple[list[str], int]:
    """The words with those joined that bash splits at '=' and ':', and how much of the last stands before its own."""
    joined: list[str] = []
    for place, word in enumerate(words):
        if joined and place and (_is_break(word) or _is_break(words[place - 1])):
            joined[-1] += word
        else:
            joined.append(word)
    if len(words) < 2 or not any(map(_is_break, words[-2:])):
        return joined, 0
    return joined, len(joined[-1]) if _is_break(words[-1]) else len(joined[-1]) - len(words[-1])


def _is_break(word: str) -> bool:
    """Where bash splits a word (COMP_WORDBREAKS), the separators are a word themselves."""
    return word != "" and not word.strip("=:")


def _candidates(words: Sequence[str]) -> dict[str, str]:
    *before, last = words or [""]
    if before and before[-1] == LOG_LEVEL:
        return _beginning(last, debug_log.LEVELS)
    before = _without_log_level(before)
    if not before:
        return _beginning(last, {**COMMANDS, **option_names(), **dict.fromkeys(HELP, helptext.HELP_ROW[1])})
    first, *rest = before
    if first == "help":
        if not rest:
            return _beginning(last, {**help.headings(), **COMMANDS})
        group = named(rest[0]) if rest[0] in COMMANDS and len(rest) == 1 else None
        return _beginning(last, group.meanings() if isinstance(group, Group) else {})
    if first in SHELL_OPTIONS and not rest:
        return _beginning(last, _FILES)
    if first not in COMMANDS:
        return {}
    member = named(first)
    while rest and isinstance(member, Group):
        if rest[0] not in member.members:
            return {}
        member = member.members[rest.pop(0)]
    if isinstance(member, Group):
        return _beginning(last, {**member.meanings(), **dict.fromkeys(HELP, helptext.HELP_ROW[1])})
    anywhere = {LOG_LEVEL: option_names()[LOG_LEVEL]} if last.startswith("-") else {}
    return {**member.candidates(rest, last), **_beginning(last, anywhere)}


def _beginning(text: str, known: Iterable[str]) -> dict[str, str]:
    return {word: about for word, about in meanings(known).items() if word.startswith(text)}


def _without_log_level(words: Sequence[str]) -> list[str]:
    """The words but the option of any command, which the commands do not know."""
    kept = [word for word in words if not word.startswith(f"{LOG_LEVEL}=")]
    while LOG_LEVEL in kept:
        place = kept.index(LOG_LEVEL)
        del kept[place : place + 2]
    return kept


def install(shell: str, home: Path) -> Path:
    """Write the script where the shell finds it; where a start-up file has to read it, that file says so once."""
    path = home / _FILES[shell]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_script(shell))
    if shell in _READ_BY:
        reader = home / _READ_BY[shell]
        line = f"source '{path}'"
        content = reader.read_text() if reader.exists() else ""
        if line not in content.splitlines():
            setup = "" if shell == "bash" else "autoload -Uz compinit && compinit\n"
            with reader.open("a") as file:
                file.write(f"{'' if not content or content.endswith(chr(10)) else chr(10)}{setup}{line}\n")
    return path
