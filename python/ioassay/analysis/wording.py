"""Numbers and lists in plain English, the same everywhere. Computes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ioassay import metrics
from ioassay.analysis.statistics.result import Interval

_COUNTED = ("IOPS", "requests", "bogo ops", "bogo ops/s")


def value(response: str, number: float) -> str:
    """A value of a response with its unit, also where the metric's own format leaves it out."""
    shown, unit = metrics.format_metric(response, number), metrics.metric(response).unit
    return f"{shown} {unit}" if unit in _COUNTED else shown


def name(response: str) -> str:
    """A response at the head of a sentence: 'Read bandwidth', '99th percentile of read total latency'."""
    what, comma, statistic = metrics.metric(response).label.partition(", ")
    if not comma:
        return what
    joint = " " if statistic == "mean" else " of "
    return capital(f"{statistic}{joint}{_small(what)}")


def inside(response: str) -> str:
    """A response within a sentence: 'read bandwidth', 'read IOPS'; 'CPU usr' stays."""
    return _small(name(response))


def _small(text: str) -> str:
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def interval(response: str, found: Interval) -> str:
    """`95 % interval 410 MB/s to 432 MB/s`."""
    return f"{level(found.confidence)} interval {value(response, found.low)} to {value(response, found.high)}"


def level(confidence: float) -> str:
    """`95 %`."""
    return f"{confidence * 100:.4g} %"


def percent(share: float) -> str:
    """A share as a percentage with two significant digits: `2.3 %`; almost all is `more than 99 %`."""
    return "more than 99 %" if 0.995 <= share < 1 else f"{points(share)} %"


def points(share: float, sign: bool = False) -> str:
    """A share as a bare number of percent inside a range: `3.8`, `120`, with `sign` `+3.8`."""
    number = share * 100
    shown = f"{number:+.0f}" if abs(number) >= 99.5 else f"{number:+.2g}"
    return shown if sign else shown.lstrip("+")


def in_percent(share: float | None) -> float | None:
    """A share as a number of percent for a table, to three digits; None stays."""
    return None if share is None else float(f"{share * 100:.3g}")


def ratio(number: float, bounds: Interval | None) -> str:
    """`1.24 (95 % interval 1.2 to 1.29)`."""
    if bounds is None:
        return f"{number:.3g}"
    return f"{number:.3g} ({bounds_of(bounds)})"


def bounds_of(found: Interval) -> str:
    """`95 % interval 1.2 to 1.29` of a number without a unit."""
    return f"{level(found.confidence)} interval {found.low:.3g} to {found.high:.3g}"


def capital(text: str) -> str:
    """`text` with its first letter large, the others as they are."""
    return text[:1].upper() + text[1:]


def p(p_value: float) -> str:
    """`p = 0.032`, `p < 0.0001`."""
    return "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.2g}"


def times(ratio: float) -> str:
    """`1.24 times`; large ratios without decimals."""
    return f"{ratio:.3g} times"


def count(number: int, thing: str) -> str:
    """`1 trial`, `3 trials`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def listed(words: Sequence[str], most: int = 4) -> str:
    """`a, b and c`; beyond `most`: `a, b, c and 5 more`."""
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "none"


_FACTORS = {
    "bs": "block size",
    "case": "case",
    "direct": "direct I/O",
    "iodepth": "queue depth",
    "ioengine": "I/O engine",
    "numjobs": "number of jobs",
    "rw": "access pattern",
    "rwmixread": "read share",
    "rwmixwrite": "write share",
}


def factor(factor_name: str) -> str:
    """A factor inside a sentence: `block size`; unknown ones by their own name."""
    return _FACTORS.get(factor_name, factor_name)


def level_of(factor_name: str, shown: object) -> str:
    """A level inside a sentence: `bs = 4KiB`; cases by their name."""
    return str(shown) if factor_name == "case" else f"{factor_name} = {shown}"


def place(where: Mapping[str, object], head: str = "At") -> str:
    """A restriction at the head of a sentence: `At rw = randrw: `; empty for none."""
    if not where:
        return ""
    return f"{head} {', '.join(level_of(key, shown) for key, shown in where.items())}: "
