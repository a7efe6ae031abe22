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
from ioassay.formats.number_parsing import last_line, lines_with, mark, real, step_of, whole_number
from ioassay.formats.result_entry import Entry, ResultFile
from ioassay.formats.text_rules import Tool
from ioassay.records.record import Claim

_NUMBER = r"[0-9][0-9.]{0,24}(?:e[+-][0-9]{2})?"
"""Also in scientific notation (--sn)."""
_METRIC = r"stress-ng: (?:[0-9:.]{8,20} )?(?:metrc|info): +\[\d{1,10}\] +([a-z][\w-]{0,40})"
_COLUMNS = (
    *("bogo_ops", "real_time", "usr_time", "sys_time", "bogo_ops_real_rate", "bogo_ops_cpu_rate"),
    *("cpu_used", "rss_max"),
)
"""Of a row; the last two since 0.13 and 0.15, and not with --metrics-brief."""
_ROW = re.compile(rf"{_METRIC} +(\d{{1,19}})" + rf" +({_NUMBER})" * 5 + rf"(?: +({_NUMBER}))?(?: +(\d{{1,19}}))?\s*$")
_EXTRA = re.compile(
    rf"{_METRIC} +({_NUMBER}) ([a-zA-Z%].{{0,100}}?[^ ])(?: \([^()]{{1,40}} of \d{{1,9}} instances?\))?\s*$"
)
_HOGS = re.compile(r"dispatching hogs: (.{1,4000})")
_MIB = float(2**20)
_YAML_STEP = 1e-6
_METRICS = re.compile(r"-[a-zA-Z]*M|--metrics.*")
_QUIET = re.compile(r"-[a-zA-Z]*q|--quiet")
_YAML = re.compile(r"\0(?:-Y\0?|--yaml[=\0])([^\0]+)")
"""In words that a zero byte separates."""
_YAML_SIGN = re.compile(r"^\s+- stressor: \S{1,60}\s*\n\s+bogo-ops: ", re.M)

Row = dict[str, tuple[float, float]]
"""Metric -> its number and the step of its last digit."""


def _prints(words: Sequence[str]) -> bool:
    """Whether a stress-ng with these arguments says its metrics, on standard error or in a file."""
    return any(map(_METRICS.fullmatch, words))


def _outputs(argv: Sequence[str]) -> list[str]:
    """The YAML of a quiet stress-ng."""
    return _YAML.findall("\0".join(argv))[-1:] if any(map(_QUIET.fullmatch, argv)) else []


def rows(text: str) -> list[tuple[str, Row]]:
    """Each stressor with what is said of it, in the order of the rows; of text, else of YAML."""
    found: list[tuple[str, Row]] = []
    for _, line in lines_with(text, "stress-ng: "):  # others are messages
        extra = _EXTRA.search(line)
        own = [row for name, row in found if extra and name == extra[1]]
        if extra is None or own:
            mark(line)
        if row := _ROW.search(line):
            name, *printed = row.groups()
            cells = {column: cell for column, cell in zip(_COLUMNS, printed, strict=True) if cell}
            whole_number(cells["bogo_ops"], "bogo operations")
            numbers = {column: (real(cell, f"stress-ng's {column}"), step_of(cell)) for column, cell in cells.items()}
            if "rss_max" in numbers:
                numbers["rss_max"] = (numbers["rss_max"][0] * 1024, 1024.0)
            found.append((name, numbers))
        elif extra and own:
            key = re.sub(r"[^a-z0-9 -]", "", extra[3].lower()).replace(" ", "-")
            own[-1][f"extra.{slug(key)}"] = (real(extra[2], f"stress-ng's {key}"), step_of(extra[2]))
    if not found:
        for name, metrics in yaml_metrics(text).items():
            whole_number(metrics.get("bogo_ops", 0.0), "bogo operations")
            found.append((name, {key: (value, _YAML_STEP) for key, value in metrics.items()}))
    return found


def _claims(text: str, words: Sequence[str]) -> list[Claim]:
    """One claim a stressor, and one a printed rate."""
    found, rates = [], []
    for name, row in rows(text):
        nothing = (0.0, _YAML_STEP)
        operations = round(row.get("bogo_ops", nothing)[0])
        found.append(_bogo(name, operations, row.get("real_time", nothing), row.get("bogo_ops_real_rate", nothing)))
        printed = {kind: row.get(f"extra.{kind}_rate_mb_per_s", nothing) for kind in ("read", "write")}
        rates += [_rate(name, kind, *rate) for kind, rate in printed.items() if rate[0]]
    return [*found, *rates]


def _entries(text: str) -> list[Entry]:
    """One entry a stressor, with its own metrics; InputError where there is none."""
    hogs = [pair.split() for found in _HOGS.finditer(text) for pair in found[1].split(",")]
    workers = {pair[1]: pair[0] for pair in hogs if len(pair) == 2 and pair[0].isdecimal()}
    found = rows(text)
    if not found:
        raise InputError(f"has no metrics of stress-ng; it ends with {last_line(text)}; expected --metrics or --yaml")
    entries = []
    for name, row in found:
        options = {"stressor": name, **({"workers": workers[name]} if name in workers else {})}
        entries.append(Entry(name, options=options, metrics={key: value for key, (value, _) in row.items()}))
    return entries


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
    RESULTS=ResultFile(
        "stress-ng's --yaml or --metrics",
        lambda text: ("stress-ng: " in text and "bogo ops/s" in text) or _YAML_SIGN.search(text),
        _entries,
    ),
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
            mark(line)
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
