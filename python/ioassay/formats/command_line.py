"""Which programs a command line starts: wrappers (env, nice, taskset, sh -c …) are looked through.

Only the argument list is read; nothing is started, expanded or looked up. A script in a file stays closed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath

_SHELLS = {"sh", "bash", "dash", "ash", "zsh", "ksh"}
_DEEPEST = 8
"""Wrappers in wrappers; a longer chain is an accident or an attack."""

# Program -> its options that take a value of their own, and how many words stand before the command.
_WRAPPERS: dict[str, tuple[frozenset[str], int]] = {
    "env": (frozenset({"-u", "--unset", "-C", "--chdir"}), 0),
    "nice": (frozenset({"-n", "--adjustment"}), 0),
    "ionice": (frozenset({"-c", "--class", "-n", "--classdata"}), 0),
    "chrt": (frozenset({"-T", "-P", "-D"}), 1),
    "taskset": (frozenset(), 1),
    "timeout": (frozenset({"-k", "--kill-after", "-s", "--signal"}), 1),
    "numactl": (frozenset({"-m", "--membind", "-N", "--cpunodebind", "-C", "--physcpubind", "-p", "-i"}), 0),
    "stdbuf": (frozenset({"-i", "--input", "-o", "--output", "-e", "--error"}), 0),
    "sudo": (frozenset({"-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "--user", "--group"}), 0),
    "doas": (frozenset({"-u"}), 0),
    "time": (frozenset({"-f", "--format", "-o", "--output"}), 0),
    "unshare": (frozenset(), 0),
    "prlimit": (frozenset(), 0),
    "setpriv": (frozenset({"--reuid", "--regid", "--groups", "--inh-caps", "--bounding-set", "--ambient-caps"}), 0),
    "perf": (frozenset({"-e", "--event", "-o", "--output", "-r", "--repeat", "-F", "-c", "-x", "-C"}), 1),
    "faketime": (frozenset(), 1),
    "busybox": (frozenset(), 0),
    "nohup": (frozenset(), 0),
    "setsid": (frozenset(), 0),
    "exec": (frozenset({"-a"}), 0),
    "command": (frozenset(), 0),
    **dict.fromkeys(("do", "then", "else", "if", "while", "until", "!", "{"), (frozenset(), 0)),  # words of a shell
}


def program(argv: Sequence[str]) -> str:
    """The bare name of the program of one plain command; '' for none."""
    return PurePath(argv[0]).name if argv else ""


def plain(argv: Sequence[str], depth: int = 0) -> list[list[str]]:
    """The commands behind the wrappers: one, several for `sh -c 'a; b'`, none for an empty line."""
    argv = list(argv)
    while argv and re.match(r"[A-Za-z_]\w*=", argv[0]):
        argv = argv[1:]
    name = program(argv)
    if not argv or depth > _DEEPEST:
        return [argv] if argv else []
    if name in _WRAPPERS:
        return plain(_unwrapped(argv, *_WRAPPERS[name]), depth + 1) or [argv]
    if name in _SHELLS and (script := _script(argv)) is not None:
        return [command for part in _simple(script) for command in plain(part, depth + 1)] or [argv]
    return [argv]


def starts_one(argv: Sequence[str]) -> bool:
    """Whether it is a wrapper, or a shell that is told one command: it does nothing else."""
    name = program(argv)
    return name in _WRAPPERS or (name in _SHELLS and _script(list(argv)) is not None and len(plain(argv)) == 1)


def scripted(argv: Sequence[str]) -> bool:
    """Whether a shell runs it: then a command that stands there once may run several times, or never."""
    return any(PurePath(word).name in _SHELLS for word in argv)


def _unwrapped(argv: list[str], valued: frozenset[str], words: int) -> list[str]:
    """What follows a wrapper's own options and words."""
    place = 1
    while place < len(argv) and argv[place].startswith("-") and argv[place] != "-":
        option = argv[place]
        place += 1
        if option == "--":
            break
        if option in valued:
            place += 1
    return argv[place + words :]


def _script(argv: list[str]) -> str | None:
    """The text after a shell's -c; None for a script in a file."""
    for place, word in enumerate(argv[1:], 1):
        if not word.startswith("-"):
            return None
        if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", word):
            return argv[place + 1] if place + 1 < len(argv) else None
    return None


def _simple(script: str) -> list[list[str]]:
    """The simple commands of a script, as far as splitting at ; | & and lines finds them; redirections left out."""
    lexer = shlex.shlex(script.replace("\n", " ; "), posix=True, punctuation_chars=";|&()<>")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    skip = False
    try:
        for token in lexer:
            if skip:
                skip = False
            elif re.fullmatch(r"[<>&|]*[<>][<>&|]*", token):
                skip = True
            elif re.fullmatch(r"[;|&()]+", token):
                commands.append([])
            else:
                commands[-1].append(token)
    except ValueError:  # quotes that do not end
        return []
    return [command for command in commands if command]
