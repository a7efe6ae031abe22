"""What stress-ng measured: bogo operations, which are no I/O, and rates of some stressors, as claims and as metrics.

A bogo operation is one round of a stressor, whatever that does, so such a claim (`keys`) is context. The time of the
reads and writes of `hdd` and `pseek` is that of the calls alone, and how much was moved is not printed. Standard error
(`--metrics`) has all that the YAML has (`--yaml`), which claims are read of only where `--quiet` may leave nothing else
(0.15.06 then leaves the metrics out of both). Of the YAML only the flat tables of numbers are read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ioassay.errors import InputError
from ioassay.formats.number_parsing import lines_with, real, step_of, whole_number
from ioassay.formats.text_rules import Tool
from ioassay.records.record import Claim

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


def _prints(words: Sequence[str]) -> bool:
    """Whether a stress-ng with these arguments says its metrics, on standard error or in a file."""
    return any(map(_METRICS.fullmatch, words))


def _outputs(argv: Sequence[str]) -> list[str]:
    """The YAML of a quiet stress-ng."""
    return _YAML.findall("\0".join(argv))[-1:] if any(map(_QUIET.fullmatch, argv)) else []


def _claims(text: str, words: Sequence[str]) -> list[Claim]:
    """One claim a stressor, and one a printed rate."""
    found = []
    for _, line in lines_with(text, "stress-ng: "):
        if row := _ROW.search(line):
            seconds, rate = real(row[3], "stress-ng's time"), real(row[4], "bogo operations a second")
            operations = whole_number(row[2], "bogo operations")
            found.append(_bogo(row[1], operations, (seconds, step_of(row[3])), (rate, step_of(row[4]))))
        elif printed := _RATE.search(line):
            found.append(_rate(printed[1], printed[3], real(printed[2], "stress-ng's rate"), step_of(printed[2])))
    for stressor, metrics in () if found else yaml_metrics(text).items():
        seconds, rate = metrics.get("real_time", 0.0), metrics.get("bogo_ops_real_rate", 0.0)
        operations = whole_number(metrics.get("bogo_ops", 0.0), "bogo operations")
        found.append(_bogo(stressor, operations, (seconds, _YAML_STEP), (rate, _YAML_STEP)))
        rates = {kind: metrics.get(f"extra.{kind}_rate_mb_per_s") for kind in ("read", "write")}
        found += [_rate(stressor, kind, stated, _YAML_STEP) for kind, stated in rates.items() if stated]
    return found


def _bogo(stressor: str, operations: int, seconds: tuple[float, float], rate: tuple[float, float]) -> Claim:
    """Time and rate with the step of their last digit."""
    return Claim(
        source="stress_ng",
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
    return Claim(source="stress_ng", kind=kind, test=stressor, rate_bytes_per_s=rate, rate_unit_bytes=step * _MIB)


CLAIMS = Tool(
    "stress_ng",
    sign=lambda text: "stress-ng: " in text and "bogo ops/s" in text,
    claims=_claims,
    missing="stress-ng printed no metrics",
    silent=lambda text, words: bool(words) and not _prints(words),
    stream="stderr",
    prints=_prints,
    outputs=_outputs,
)

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


def yaml_metrics(text: str) -> dict[str, dict[str, float]]:
    """Stressor -> its metrics, of the section `metrics`. InputError for a number that is none."""
    found: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] | None = None
    inside = False
    for line in text.split("\n"):
        if line and not line[0].isspace():
            inside, current = line.rstrip() == "metrics:", None
        elif inside and (entry := _ENTRY.match(line)):
            current = found.setdefault(entry["name"].replace("_", "-"), [])
        elif current is not None and (pair := _PAIR.match(line)):
            current.append((pair["key"], pair["value"]))
    return {name: _named(pairs) for name, pairs in found.items()}


def _named(pairs: list[tuple[str, str]]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for key, text in pairs:
        name, factor = _KNOWN.get(key) or (f"extra.{slug(key)}", 1.0)
        if name in metrics:  # two that stress-ng describes alike
            name = next(more for n in range(2, len(pairs) + 2) if (more := f"{name}_{n}") not in metrics)
        try:
            metrics[name] = factor * float(text)
        except ValueError:
            metrics[name] = math.nan
        if not math.isfinite(metrics[name]):
            raise InputError(f"{key} is '{text}'; expected a number")
    return metrics


def slug(key: str) -> str:
    """`mbsec-compression-rate` -> `compression_rate_mb_per_s`, `-compression-ratio` -> `compression_ratio`."""
    plain = key.strip().lower()
    for pattern, named in _UNIT_LAST:
        plain = pattern.sub(named, plain)
    return re.sub(r"[^a-z0-9]+", "_", plain).strip("_") or "unnamed"
