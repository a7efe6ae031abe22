"""What vdbench claims in its flat file (output/flatfile.html): the averages of each run, by the columns' own names.

Written after vdbench's documentation and the source of its flat file (Flat.java), without an output of our own. A line
of names comes first; each row is an interval of a run, and the last of a run is its average, whose interval is called
`avg_2-10`: it leaves out the first interval. Of volumes and counts there are only averages a second, and no row has the
length of an interval, so that rates and response times are all that is claimed. MB are 2**20 bytes, response times
milliseconds, numbers have four decimals.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ioassay.errors import InputError
from ioassay.formats import command_line
from ioassay.formats.number_parsing import lines_with, real, step_of
from ioassay.formats.printed_quantity import last_line
from ioassay.records.record import Claim

NAME = "vdbench"
STREAM = "stdout"

_HEAD = re.compile(r"^ *tod +timestamp +Run +Interval +reqrate +rate +.*$", re.M)
AVERAGE = re.compile(r" avg_[0-9]{1,9}(?:-[0-9]{1,9})? ")
EVERY = re.compile(r"(?<![0-9])[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]")
"""Which rows are wanted: the averages of runs, or these and every interval."""
_MIB = 2**20
_NOT_KNOWN = "n/a"


def matches(program: str) -> bool:
    """Whether this is vdbench's script."""
    return program in {"vdbench", "vdbench.sh", "vdbench.bash"}


def looks_like(text: str) -> bool:
    """Whether it has the names of the flat file's columns."""
    return _HEAD.search(text) is not None


def outputs(argv: Sequence[str]) -> list[str]:
    """The flat file in the folder of -o, which is `output` without it."""
    words = command_line.words_of(argv, matches)
    folders = [word for option, word in pairwise(words) if option == "-o"]
    joined = [word[2:] for word in words[1:] if re.match(r"-o\w", word)]
    return [posixpath.join(*([*folders, *joined] or ["output"])[-1:], "flatfile.html")] if words else []


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """The claims of each run in their order; InputError when none ended."""
    claims = [claim for row in rows(text, AVERAGE) for claim in _claims(row)]
    if not claims:
        raise InputError(nothing(text))
    return claims


def nothing(text: str) -> str:
    """What is said of a flat file without the average of a run."""
    return f"vdbench's flat file has no run that ended ('avg_'); it ends with {last_line(text)}"


def rows(text: str, wanted: re.Pattern[str]) -> Iterator[dict[str, str]]:
    """The rows that have `wanted`, by their columns' names in lower case; InputError for one that does not fit."""
    heads = list(_HEAD.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=False):
        names = [name.lower() for name in head[0].split()]
        for _, line in lines_with(text[:end], wanted, head.end()):
            yield _row(names, line)


def _row(names: Sequence[str], line: str) -> dict[str, str]:
    """A name that stands twice has its first value; what is not available is left out."""
    words = line.split()
    if len(words) != len(names):
        raise InputError(f"vdbench's flat file has a row of {len(words)} columns; wanted {len(names)}")
    pairs = reversed(list(zip(names, words, strict=True)))
    return {name: word for name, word in pairs if word != _NOT_KNOWN}


def _claims(row: Mapping[str, str]) -> Iterator[Claim]:
    """Of files (FSD) a read and a write; of devices one claim, whose kind is known where there is only one."""
    if "mb_read" in row or "mb_write" in row:
        for kind in ("read", "write"):
            if _number(row, f"mb_{kind}"):
                yield _claim(kind, row, f"mb_{kind}", f"{kind}_resp")
        return
    share = _number(row, "read%")
    kind = {100.0: "read", 0.0: "write", None: "mixed"}.get(share, "mixed")
    if _number(row, "mb/sec"):
        yield _claim(kind, row, "mb/sec", "resp")


def _number(row: Mapping[str, str], name: str) -> float | None:
    return real(row[name], f"vdbench's {name}") if name in row else None


def _claim(kind: str, row: Mapping[str, str], rate: str, response: str) -> Claim:
    response_ms, requested = _number(row, response), _number(row, "xfersize")
    return Claim(
        source=NAME,
        kind=kind,
        test=row.get("run", ""),
        rate_bytes_per_s=(_number(row, rate) or 0.0) * _MIB,
        rate_unit_bytes=step_of(row[rate]) * _MIB,
        latency_ns={"mean": response_ms * 1e6} if response_ms else {},
        record_bytes=round(requested) if requested and requested.is_integer() else None,
        unreported=("ramp",),
    )
