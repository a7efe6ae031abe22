"""The jobs of a fio command line with their options, for the formats that do not repeat these.

Nothing where the command names a file of jobs, or has a word whose meaning is not sure: a file is not read here.
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


def option(words: Sequence[str], name: str) -> str | None:
    """The value of an option, of whichever job; '' of a flag, None where it is not there."""
    found = [match[2] or "" for word in words if (match := _OPTION.fullmatch(word)) and match[1] == name]
    return found[-1] if found else None
