"""The jobs of a fio command line with their options, for the formats that do not repeat these.

Nothing where the command has a word whose meaning is not sure. The texts of files of jobs are brought (`expanded`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_OPTION = re.compile(r"--?([a-zA-Z][\w-]*)(?:=(.*))?", re.S)
_VALUED = {
    *("name", "filename", "directory", "rw", "readwrite", "bs", "blocksize", "size", "ioengine", "iodepth", "numjobs"),
    *("runtime", "direct", "output", "output-format", "fsync", "fdatasync", "end_fsync", "offset", "io_size", "rate"),
}
"""Options whose value may be the next word."""


def is_fio(program: str) -> bool:
    """Whether this is fio, also under a versioned name (`fio-3.36`)."""
    return re.fullmatch(r"fio(-[\d.]+)?", program) is not None


def expanded(words: Sequence[str], files: Mapping[str, str]) -> Sequence[str]:
    """With the options of files of jobs in their places, where that is all that stands in them."""
    found: list[str] = []
    for word in words:
        text = files.get(word)
        found += [word] if text is None or "${" in text else _options(text)
    return found


def _options(text: str) -> list[str]:
    shared: list[str] = []
    found: list[str] = []
    is_shared = False
    for line in map(str.strip, text.splitlines()):
        if section := re.fullmatch(r"\[(.+)\]", line):
            is_shared = section[1] == "global"
            found += [] if is_shared else [f"--name={section[1]}", *shared]
        elif line and not line.startswith(("#", ";")):
            name, sign, value = line.partition("=")
            (shared if is_shared else found).append(f"--{name.strip()}{sign}{value.strip()}")
    return found


def jobs_of(words: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """By the names of the jobs; options before the first name are those of all."""
    shared: dict[str, str] = {}
    jobs: dict[str, dict[str, str]] = {}
    table, rest = shared, iter(words[1:])
    for word in rest:
        match = _OPTION.fullmatch(word)
        if match is None:
            return {}
        name, value = match[1], match[2]
        if value is None and name in _VALUED:
            value = next(rest, "")
        if name == "section":
            return {}
        if name == "name":
            table = jobs.setdefault(value or "", dict(shared))
        elif name == "filename" and name in table:
            table[name] += f":{value}"
        else:
            table[name] = value or ""
    return jobs


def values(words: Sequence[str], name: str) -> list[str]:
    """Those of an option, of whichever job, also where the value is the next word; '' of a flag."""
    found = [(match, after) for word, after in zip(words, [*words, ""][1:], strict=True)
             if (match := _OPTION.fullmatch(word)) and match[1] == name]  # fmt: skip
    return [match[2] if match[2] is not None else after * (not after.startswith("-")) for match, after in found]


def option(words: Sequence[str], name: str) -> str | None:
    """The last of them; None where it is not there."""
    return next(reversed(values(words, name)), None)
