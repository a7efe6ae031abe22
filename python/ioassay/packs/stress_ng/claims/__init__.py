"""What stress-ng prints of its stressors (`--metrics`): bogo operations, which are no I/O, and rates of some stressors.

A bogo operation is one round of a stressor, whatever that does, so such a claim (`keys`) is context and nothing could
confirm it. `hdd` and `pseek` print the rates of their reads and writes; their time is that of the calls alone, and how
much was moved is not printed. Each of these rates is a claim of that kind with a rate and nothing else. Standard error
has all that the YAML has (`--yaml`), which is read only where `--quiet` may leave nothing else (0.15.06 then leaves the
metrics out of both).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ioassay.errors import InputError
from ioassay.formats.number_parsing import last_line, lines_with, real, step_of, whole_number
from ioassay.packs.stress_ng.claims import yaml_metrics
from ioassay.records.record import Claim

NAME = "stress_ng"
STREAM = "stderr"

_NUMBER = r"[0-9][0-9.]{0,24}(?:e[+-][0-9]{2})?"
"""Also in scientific notation (--sn)."""
_METRIC = r"stress-ng: (?:metrc|info): +\[\d{1,10}\] +"
_ROW = re.compile(
    rf"{_METRIC}([a-z][\w-]{{0,40}}) +(\d{{1,19}}) +({_NUMBER}) +{_NUMBER} +{_NUMBER} +({_NUMBER}) +{_NUMBER}"
)
_RATE = re.compile(rf"{_METRIC}([a-z][\w-]{{0,40}}) +({_NUMBER}) MB/sec (read|write) rate")
_MIB = float(2**20)
_YAML_STEP = 1e-6
_METRICS = re.compile(r"-[a-zA-Z]*M|--metrics.*")
_QUIET = re.compile(r"-[a-zA-Z]*q|--quiet")
_YAML = re.compile(r"\0(?:-Y\0?|--yaml[=\0])([^\0]+)")
"""In words that a zero byte separates."""


def matches(program: str) -> bool:
    """Whether this is stress-ng."""
    return program == "stress-ng"


def looks_like(text: str) -> bool:
    """Whether it has stress-ng's metrics."""
    return "stress-ng: " in text and "bogo ops/s" in text


def prints(words: Sequence[str]) -> bool:
    """Whether a stress-ng with these arguments says its metrics, on standard error or in a file."""
    return any(map(_METRICS.fullmatch, words))


def outputs(argv: Sequence[str]) -> list[str]:
    """The YAML of a quiet stress-ng."""
    named: list[str] = _YAML.findall("\0".join(argv))
    return named[-1:] if any(map(_QUIET.fullmatch, argv)) else []


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """One claim a stressor, and one a printed rate; InputError when it printed no metrics."""
    claims = [*_printed(text)] or [claim for one in yaml_metrics.read(text) for claim in _measured(one)]
    if not claims and (not argv or prints(argv)):
        raise InputError(f"stress-ng printed no metrics; its output ends with {last_line(text)}")
    return claims


def _printed(text: str) -> Iterator[Claim]:
    for _, line in lines_with(text, "stress-ng: "):
        if row := _ROW.search(line):
            seconds, rate = real(row[3], "stress-ng's time"), real(row[4], "bogo operations a second")
            operations = whole_number(row[2], "bogo operations")
            yield _bogo(row[1], operations, (seconds, step_of(row[3])), (rate, step_of(row[4])))
        elif printed := _RATE.search(line):
            yield _rate(printed[1], printed[3], real(printed[2], "stress-ng's rate"), step_of(printed[2]))


def _measured(one: yaml_metrics.Measured) -> Iterator[Claim]:
    seconds, rate = one.number("real_time"), one.number("bogo_ops_real_rate")
    operations = whole_number(one.number("bogo_ops"), "bogo operations")
    yield _bogo(one.stressor, operations, (seconds, _YAML_STEP), (rate, _YAML_STEP))
    for kind in ("read", "write"):
        if printed := one.number(f"extra.{kind}_rate_mb_per_s"):
            yield _rate(one.stressor, kind, printed, _YAML_STEP)


def _bogo(stressor: str, operations: int, seconds: tuple[float, float], rate: tuple[float, float]) -> Claim:
    """Time and rate with the step of their last digit."""
    return Claim(
        source=NAME,
        kind="keys",
        test=stressor,
        operations=operations,
        seconds=seconds[0] or None,
        clock_step_s=seconds[1],
        operations_per_s=rate[0],
        operations_per_s_step=rate[1],
    )


def _rate(stressor: str, kind: str, mib_per_s: float, step: float) -> Claim:
    rate = mib_per_s * _MIB
    return Claim(source=NAME, kind=kind, test=stressor, rate_bytes_per_s=rate, rate_unit_bytes=step * _MIB)
