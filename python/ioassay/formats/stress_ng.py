"""What stress-ng prints of its stressors (`--metrics`): bogo operations, which are no I/O, and rates of some stressors.

A bogo operation is one round of a stressor, whatever that does, so such a claim (`keys`) is context and nothing could
confirm it. `hdd` prints the rates of its reads and its writes; their time is that of the calls alone, and how much was
moved is not printed. Each of these rates is a claim of that kind with a rate and nothing else. YAML (`--yaml`) is read
by `stress_ng_yaml` for the driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ioassay.errors import InputError
from ioassay.formats.number_parsing import lines_with, real, step_of, whole_number
from ioassay.formats.printed_quantity import NUMBER, last_line
from ioassay.records.record import Claim

NAME = "stress_ng"
STREAM = "stderr"

_METRIC = r"stress-ng: (?:metrc|info): +\[\d{1,10}\] +"
_ROW = re.compile(rf"{_METRIC}([a-z][\w-]{{0,40}}) +(\d{{1,19}}) +({NUMBER}) +{NUMBER} +{NUMBER} +({NUMBER}) +{NUMBER}")
_RATE = re.compile(rf"{_METRIC}([a-z][\w-]{{0,40}}) +({NUMBER}) MB/sec (read|write) rate")
_MIB = float(2**20)


def matches(program: str) -> bool:
    """Whether this is stress-ng."""
    return program == "stress-ng"


def looks_like(text: str) -> bool:
    """Whether it has stress-ng's metrics."""
    return "stress-ng: " in text and "bogo ops/s" in text


def prints(words: Sequence[str]) -> bool:
    """Whether a stress-ng with these arguments prints metrics."""
    return any(word.startswith("--metrics") for word in words)


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """One claim a stressor, and one a printed rate; InputError when it printed no metrics."""
    claims = list(_claims(text))
    if not claims and (not argv or prints(argv)):
        raise InputError(f"stress-ng printed no metrics; its output ends with {last_line(text)}")
    return claims


def _claims(text: str) -> Iterator[Claim]:
    for _, line in lines_with(text, "stress-ng: "):
        if row := _ROW.search(line):
            yield Claim(
                source=NAME,
                kind="keys",
                test=row[1],
                operations=whole_number(row[2], "bogo operations"),
                seconds=real(row[3], "stress-ng's time") or None,
                clock_step_s=step_of(row[3]),
                operations_per_s=real(row[4], "bogo operations a second"),
                operations_per_s_step=step_of(row[4]),
            )
        elif rate := _RATE.search(line):
            yield Claim(
                source=NAME,
                kind=rate[3],
                test=rate[1],
                rate_bytes_per_s=real(rate[2], "stress-ng's rate") * _MIB,
                rate_unit_bytes=step_of(rate[2]) * _MIB,
            )
