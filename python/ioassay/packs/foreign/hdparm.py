"""What hdparm -t and -T claim: a read of a device, in pieces of 2 MiB.

Its MB are 2**20 bytes (hdparm.c: TIMING_BUF_MB). Of reads from the cache (-T) one read comes before the clock starts,
and the time of as many copies within memory is taken off the interval (time_cache): neither its seconds nor its rate
are those of calls, and they are not claimed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ioassay.errors import InputError
from ioassay.formats import command_line
from ioassay.formats.number_parsing import lines_with, real, step_of, whole_number
from ioassay.formats.printed_quantity import NUMBER, last_line
from ioassay.records.record import Claim

NAME = "hdparm"
STREAM = "stdout"

_MIB = 2**20
_PIECE_MIB = 2
_UNITS = {"MB": _MIB, "kB": 1024}
_TIMING = re.compile(
    r" ?Timing (O_DIRECT|buffered|cached) ?([a-z]*) ?reads(?: \(offset [^)]{1,40}\))?: +([0-9]{1,19}) MB"
    rf" in +{NUMBER} seconds = +({NUMBER}) (MB|kB)/sec"
)
_DEVICE = re.compile(r"(/[^\s:]{1,4000}):")


def matches(program: str) -> bool:
    """Whether this is hdparm."""
    return program == "hdparm"


def looks_like(text: str) -> bool:
    """Whether it has a line of a timing."""
    return re.search(r"^ ?Timing (O_DIRECT|buffered|cached) [a-z ]*reads", text, re.M) is not None


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """One claim a timing; InputError where -t or -T is in `argv`, or the output looks so, and none ended."""
    claims, device = [], ""
    for _, line in lines_with(text, re.compile(r"^/[^\s:]+:|Timing ", re.M)):
        if named := _DEVICE.fullmatch(line.strip()):
            device = named[1]
        elif timing := _TIMING.search(line):
            claims.append(_claim(timing, device))
    own = command_line.words_of(argv, matches)
    timed = any(re.fullmatch(r"-[A-Za-z]*[tT][A-Za-z]*", word) for word in own)
    if not claims and (timed or not own):
        raise InputError(f"hdparm's output has no timing that ended; it ends with {last_line(text)}")
    return claims


def _claim(timing: re.Match[str], device: str) -> Claim:
    mode, where, mib, printed, unit = timing.groups()
    volume_mib = whole_number(mib, "hdparm's MB")
    cached = mode == "cached" or where == "cached"
    factor = _UNITS[unit]
    return Claim(
        source=NAME,
        kind="read",
        test="cached reads" if cached else "disk reads",
        operations=volume_mib // _PIECE_MIB if volume_mib % _PIECE_MIB == 0 else None,
        bytes=whole_number(volume_mib * _MIB, "hdparm's bytes"),
        rate_bytes_per_s=None if cached else real(printed, "hdparm's rate") * factor,
        rate_unit_bytes=1.0 if cached else step_of(printed) * factor,
        direct=mode == "O_DIRECT",
        paths=(device,) if device else (),
        record_bytes=_PIECE_MIB * _MIB,
        primed=cached,
    )
