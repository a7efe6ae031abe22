"""The null driver: measures nothing and starts no process, but leaves records as a real load would.

It tests the lab (statistics with a known truth, failures, resumption) and measures the lab's own overhead. Everything
is drawn from the trial's seed, so the same trial gives the same record. It imitates no device.
"""

from __future__ import annotations

import difflib
import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay import units
from ioassay.errors import StudyError
from ioassay.records.record import FAILED, OK, SKIPPED, Buckets, Series, Warning_
from ioassay.roles import NOTHING, Command, Driver, Estimate, Load, Outcome, Parsed, Trial, short_s

_NUMBERS: dict[str, float] = {
    "value": 100.0,
    "noise": 0.01,
    "drift": 0.0,
    "samples": 0,
    "sample_noise": 0.05,
    "autocorrelation": 0.0,
    "requests": 1000,
    "spread": 0.3,
    "fail_share": 0.0,
    "skip_share": 0.0,
    "steps": 0,
    "memory_bytes": 0,
}
_TABLES = ("metrics", "effects", "latencies")
_DURATIONS = {"sleep": 0.0, "sample_interval": 0.1}
_COUNTS = ("samples", "requests", "steps")
_MOST = 10_000_000
_LARGEST = 1e100
"""So that no product of effects, noise and drift leaves the numbers."""
_SHARES = ("autocorrelation", "fail_share", "skip_share")
_KNOWN = (*_NUMBERS, *_TABLES, *_DURATIONS)
_BUCKETS_PER_DOUBLING = 16
_STEP_S = 4e-8
"""What one of `steps` takes a processor of today, roughly."""


class Null(Driver):
    """Synthesises records. docs/drivers.md describes its parameters."""

    name = "null"
    measures = True
    responses = ("value",)

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        """StudyError for a value of the wrong kind, or a name that is nearly a parameter's.

        Any other name is accepted: it is a factor whose effect `effects` may give.
        """
        for key, value in params.items():
            if key in _NUMBERS and not _is_number(value):
                raise StudyError(f"is {value!r}; expected a number", key=f"params.{key}")
            if key in _TABLES:
                _check_table(key, value)
            elif key in _DURATIONS:
                try:
                    units.parse_duration_s(value)
                except (ValueError, TypeError) as error:
                    raise StudyError(str(error), key=f"params.{key}") from None
            elif key in _SHARES and not 0 <= value <= 1:
                raise StudyError(f"is {value}; expected a share from 0 to 1", key=f"params.{key}")
            elif key in _COUNTS and not (value == int(value) and 0 <= value <= _MOST):
                raise StudyError(f"is {value}; expected a whole number from 0 to {_MOST}", key=f"params.{key}")
            elif key not in _KNOWN and (close := difflib.get_close_matches(key, _KNOWN, 1, 0.8)):
                raise StudyError(f"no such parameter; did you mean '{close[0]}'?", key=f"params.{key}")
        return ()

    def access(self, params: Mapping[str, Any]) -> str:
        return NOTHING

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """The time slept and worked; the memory that `memory_bytes` says."""
        seconds = _duration_s(params, "sleep") + _number(params, "steps") * _STEP_S
        return Estimate(seconds, written_bytes=0, memory_bytes=int(_number(params, "memory_bytes")))

    def shortened(self, params: Mapping[str, Any], share: float) -> Mapping[str, Any] | None:
        """With a shorter `sleep`, which changes nothing else."""
        part_s = short_s(_duration_s(params, "sleep"), share)
        return None if part_s is None else {**params, "sleep": part_s}

    def command(self, trial: Trial, load: Load, raw: Path) -> Command | None:
        return None

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """The synthetic result of a trial; works `steps` and sleeps `sleep` first."""
        params, chance = trial.params, random.Random(trial.seed)
        state = 1
        for _ in range(int(_number(params, "steps"))):  # keeps one processor busy
            state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        if sleep_s := _duration_s(params, "sleep"):
            time.sleep(sleep_s)
        fate = chance.random()
        if fate < _number(params, "fail_share"):
            return Parsed(FAILED, "the study asked for this failure with fail_share; lower it to see fewer")
        if fate > 1 - _number(params, "skip_share"):
            return Parsed(SKIPPED, "the study asked for this with skip_share")
        scale = _effect(params) * (1 + _number(params, "drift") * trial.order)
        means = params.get("metrics") or {"value": _number(params, "value")}
        values = {name: mean * scale * chance.gauss(1, _number(params, "noise")) for name, mean in means.items()}
        return Parsed(
            OK,
            metrics=values,
            series=tuple(_series(params, values, chance)),
            buckets=tuple(_buckets(params, scale, chance)),
        )


class NullPure(Null):
    """The same as a pure driver: its trials disturb nobody, so that several are computed at once."""

    name = "null_pure"
    measures = False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _check_table(key: str, value: Any) -> None:
    place, wanted = f"params.{key}", "a table of tables of numbers" if key == "effects" else "a table of numbers"
    if not isinstance(value, Mapping):
        raise StudyError(f"is {value!r}; expected {wanted}", key=place)
    tables = value.values() if key == "effects" else [value]
    if not all(isinstance(one, Mapping) and all(map(_is_number, one.values())) for one in tables):
        raise StudyError(f"is {value!r}; expected {wanted}", key=place)
    if key == "metrics" and (taken := [name for name in value if "." not in name and name != "value"]):
        raise StudyError(f"'{taken[0]}' is no name of a metric; expected 'value' or one such as read.bw", key=place)
    if key == "latencies" and (odd := [name for name, median_ns in value.items() if median_ns < 1 or "." not in name]):
        raise StudyError(f"{odd[0]} = {value[odd[0]]}; expected for example read.clat = 20000 (ns)", key=place)


def _number(params: Mapping[str, Any], key: str) -> float:
    return float(params.get(key, _NUMBERS[key]))


def _duration_s(params: Mapping[str, Any], key: str) -> float:
    return units.parse_duration_s(params.get(key, _DURATIONS[key]))


def _effect(params: Mapping[str, Any]) -> float:
    """Product of the effects of the levels; `"bs:rw"` = {"4k:read" = …} is an interaction of two factors."""
    product = 1.0
    for factors, levels in params.get("effects", {}).items():
        level = ":".join(str(params.get(factor, "")) for factor in factors.split(":"))
        product *= levels.get(level, 1.0)
    return product


def _series(params: Mapping[str, Any], values: Mapping[str, float], chance: random.Random) -> Iterator[Series]:
    """For each metric a first-order autoregressive series whose mean is the metric's value exactly."""
    if not (count := int(_number(params, "samples"))):
        return
    interval_s = _duration_s(params, "sample_interval")
    for name, value in values.items():
        # Stationary with standard deviation 1: x' = rho x + sqrt(1 - rho^2) e (Box, Jenkins, Time Series Analysis).
        noise, rho = [chance.gauss(0, 1)], _number(params, "autocorrelation")
        for _ in range(count):
            noise.append(rho * noise[-1] + math.sqrt(1 - rho**2) * chance.gauss(0, 1))
        noise.pop()  # drawn and not used, so that records of a seed stay as they are
        middle = math.fsum(noise) / count
        share = _number(params, "sample_noise")
        readings = [value * (1 + share * (reading - middle)) for reading in noise]
        yield Series(name, [interval_s * (step + 1) for step in range(count)], readings)


def _buckets(params: Mapping[str, Any], scale: float, chance: random.Random) -> Iterator[Buckets]:
    """A lognormal distribution with the asked median (ns) for each `latencies` entry such as `read.clat`."""
    for name, median_ns in params.get("latencies", {}).items():
        direction, _, kind = name.partition(".")
        counts: dict[int, int] = {}
        for _ in range(int(_number(params, "requests"))):
            deviate = chance.gauss(0, _number(params, "spread")) * _BUCKETS_PER_DOUBLING / math.log(2)  # from nats
            step = round(_BUCKETS_PER_DOUBLING * math.log2(median_ns * scale) + deviate)
            value_ns = round(2 ** (step / _BUCKETS_PER_DOUBLING))
            counts[value_ns] = counts.get(value_ns, 0) + 1
        values_ns = sorted(counts)
        yield Buckets(direction, kind, values_ns, [counts[value_ns] for value_ns in values_ns])
