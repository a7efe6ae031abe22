"""stress-ng's YAML: what each stressor measured, by the names of the registry of metrics.

It is a list of flat tables of numbers, and only that is read here; anything else in it (system information, perf
counters) stays in the file. What the numbers mean for a trial is the driver's business.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ioassay.errors import InputError

_ENTRY = re.compile(r"^\s+- stressor: (?P<name>\S+)\s*$")
_PAIR = re.compile(r"^\s{2,}(?P<key>\S.*?): (?P<value>\S+)\s*$")
_KNOWN: dict[str, tuple[str, float]] = {
    "bogo-ops": ("bogo_ops", 1.0),
    "bogo-ops-per-second-real-time": ("bogo_ops_real_rate", 1.0),
    "bogo-ops-per-second-usr-sys-time": ("bogo_ops_cpu_rate", 1.0),
    "wall-clock-time": ("real_time", 1.0),
    "user-time": ("usr_time", 1.0),
    "system-time": ("sys_time", 1.0),
    "cpu-usage-per-instance": ("cpu_used", 1.0),
    "max-rss": ("rss_max", 1024.0),
}
"""Key in the YAML -> metric, and what its number is multiplied with (max-rss is in KiB, getrusage(2))."""
_UNIT_LAST = (
    (re.compile(r"^-?(?:mbsec|mb-per-sec|mb-per-second)-(.+)$"), r"\1-mb-per-s"),
    (re.compile(r"^-?mb-(.+)-per-sec(?:ond)?$"), r"\1-mb-per-s"),
    (re.compile(r"^-?ns-(?:duration-)?per-(.+)$"), r"nanosecs-per-\1"),
    (re.compile(r"^-?nanosecs?-(?!per-)(.+)$"), r"\1-in-nanosecs"),
    (re.compile(r"^-of-(.+)$"), r"percent-of-\1"),  # it was a percent sign
)
"""Each version words its units in ways of its own; the registry of metrics knows one."""


@dataclass(frozen=True)
class Measured:
    """The results of one stressor."""

    stressor: str
    metrics: Mapping[str, float]

    def number(self, name: str) -> float:
        """A metric, 0 where stress-ng did not say it."""
        return self.metrics.get(name, 0.0)


def read(text: str) -> list[Measured]:
    """The results of each stressor. InputError for a number that is none."""
    return [Measured(name.replace("_", "-"), _metrics(pairs)) for name, pairs in _entries(text).items()]


def _entries(text: str) -> dict[str, list[tuple[str, str]]]:
    """Stressor -> its keys and values, of the section `metrics`."""
    found: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] | None = None
    inside = False
    for line in text.split("\n"):
        if line and not line[0].isspace():
            inside, current = line.rstrip() == "metrics:", None
        elif inside and (entry := _ENTRY.match(line)):
            current = found.setdefault(entry["name"], [])
        elif current is not None and (pair := _PAIR.match(line)):
            current.append((pair["key"], pair["value"]))
    return found


def _metrics(pairs: list[tuple[str, str]]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for key, text in pairs:
        name, factor = _KNOWN.get(key) or (f"extra.{slug(key)}", 1.0)
        if name in metrics:  # two that stress-ng describes alike
            name = next(more for n in range(2, len(pairs) + 2) if (more := f"{name}_{n}") not in metrics)
        metrics[name] = factor * _number(key, text)
    return metrics


def _number(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{key} is '{text}'; expected a number")
    return value


def slug(key: str) -> str:
    """`mbsec-compression-rate` -> `compression_rate_mb_per_s`, `-compression-ratio` -> `compression_ratio`."""
    plain = key.strip().lower()
    for pattern, named in _UNIT_LAST:
        plain = pattern.sub(named, plain)
    return re.sub(r"[^a-z0-9]+", "_", plain).strip("_") or "unnamed"
