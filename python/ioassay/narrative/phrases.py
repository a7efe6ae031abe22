"""Numbers, lists and levels in plain English, the same everywhere: the forms of values. Computes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ioassay import metrics
from ioassay.factors import factor, factor_label, level_phrase
from ioassay.stats.result import Interval, Undefined

_COUNTED = ("IOPS", "requests", "bogo ops", "bogo ops/s")


def value(response: str, number: float) -> str:
    """A value of a response with its unit, also where the metric's own format leaves it out."""
    shown, unit = metrics.format_metric(response, number), metrics.metric(response).unit
    return f"{shown} {unit}" if unit in _COUNTED else shown


def centre(merged: bool) -> str:
    """What the value of a condition is: its repetitions' mean, or a percentile of all requests together."""
    return "all requests" if merged else "mean"


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


def noun(response: str) -> str:
    """A response within a sentence: `read bandwidth`, `the 99th percentile of read total latency`."""
    return f"the {inside(response)}" if " of " in inside(response) else inside(response)


def brief(response: str) -> str:
    """A response in two or three words inside a sentence: `read p99 latency`, `write bandwidth`."""
    percentile = metrics.latency_percentile(response)
    if percentile is None or percentile.kind != "lat":
        return inside(response)
    return f"{percentile.direction} {metrics.percentile_name(percentile.percent)} latency"


def _small(text: str) -> str:
    own = text[:2].isupper() or any(letter.isupper() for letter in text.partition(" ")[0][1:])
    return text if own else text[:1].lower() + text[1:]


def span(response: str, low: float, high: float, values: Callable[[str, float], str] | None = None) -> str:
    """`410 to 432 MB/s`; `950 kB/s to 1.2 MB/s` where the units differ."""
    shown = [(values or value)(response, number) for number in (low, high)]
    return joined(shown[0], shown[1])


def joined(low: str, high: str) -> str:
    """`410 to 432 MB/s`: a range whose unit is said once where both ends have the same."""
    number, _, unit = low.partition(" ")
    return f"{number if unit == high.partition(' ')[2] else low} to {high}"


def ends(interval: Interval | Undefined | None) -> list[float] | None:
    """Both bounds, as statistics and tables have them; None where there is no interval."""
    return [interval.low, interval.high] if isinstance(interval, Interval) else None


def level(confidence: float) -> str:
    """`95 %`."""
    return f"{confidence * 100:.4g} %"


def percent(share: float) -> str:
    """A share as a percentage with two significant digits: `2.3 %`; almost all is `more than 99 %`."""
    return "more than 99 %" if 0.995 <= share < 1 else f"{points(share)} %"


def points(share: float, sign: bool = False) -> str:
    """A share as a bare number of percent inside a range: `3.8`, `120`, with `sign` `+3.8`; `0.00` below 0.0001."""
    number = share * 100
    if 0 < abs(number) < 1e-4:
        return "0.00"
    shown = f"{number:+.0f}" if abs(number) >= 99.5 else f"{number:+.2g}"
    return shown if sign else shown.lstrip("+")


def signed_percent(share: float) -> str:
    """`-38.9 %`, `+1.2 %`; a change that rounds to nothing has no sign."""
    text = f"{100 * share:+.1f} %"
    return "0.0 %" if text[1:] == "0.0 %" else text


def in_percent(share: float | None) -> float | None:
    """A share as a number of percent for a table, to three digits; None stays."""
    return None if share is None else float(f"{share * 100:.3g}")


def signed_bounds(low: float, high: float, confidence: float) -> str:
    """The interval of a relative change: `95 % interval +18 to +66 %`."""
    ends = f"{points(low, sign=True)} to {points(high, sign=True)} %"
    return bounds_of(Interval(1 + low, 1 + high, confidence, ""), ends)


def bounds_of(ratio: Interval, ends: str = "") -> str:
    """`95 % interval 1.2 to 1.29` of a number without a unit, or with its ends as they are given."""
    known = level(ratio.confidence)
    if ratio.vague:
        return f"the {known} interval spans more than a factor of 10"
    return f"{known} interval {ends or f'{plain_number(ratio.low)} to {plain_number(ratio.high)}'}"


def capital(text: str) -> str:
    """`text` with its first letter large, the others as they are."""
    return text[:1].upper() + text[1:]


def plain_number(number: float) -> str:
    """Three significant digits, never with an exponent below a million: `0.515`, `42.1`, `19900`."""
    return f"{number:.3g}" if not 1e3 <= abs(number) < 1e6 else f"{float(f'{number:.3g}'):.0f}"


def times(ratio: float) -> str:
    """`1.24 times`; large ratios without decimals."""
    return f"{plain_number(ratio)} times"


def count(number: int, thing: str) -> str:
    """`1 trial`, `3 trials`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def repetitions_needed(number: int) -> str:
    """`about 12 repetitions`, `more than 1000 repetitions`."""
    from ioassay.stats.contrasts import MOST

    return f"more than {MOST} repetitions" if number >= MOST else f"about {number} repetitions"


def listed(words: Sequence[str], most: int = 4) -> str:
    """`a, b and c`; beyond `most`: `a, b, c and 5 more`."""
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "none"


def hosts(names: Sequence[str]) -> str:
    """`host a`, `hosts a, b and c`."""
    return f"host{'' if len(names) == 1 else 's'} {listed(list(names), 9)}"


# Factors and their levels


def factor_noun(factor_name: str) -> str:
    """A factor within a sentence: `the number of jobs`, `the write share`, `block size`."""
    label = factor_label(factor_name)
    return f"the {label}" if " of " in label or label.endswith(" share") else label


def at(factor_name: str, shown: object, usual: str = "at") -> str:
    """A level as the place where something is: `at 4 workers`, `under fifo (priority 99)`, `without cache fence`."""
    entry, text = factor(factor_name), level_phrase(factor_name, shown)
    if (isinstance(shown, bool) and not entry.off_on) or text.startswith(("at ", "in ")):
        return text
    return f"{entry.preposition or usual} {text}"


def both(factor_name: str, first: object, second: object) -> str:
    """Two levels between which something differs: `4 KiB and 64 KiB`, `runs with and without cache fence`."""
    if isinstance(first, bool) and isinstance(second, bool) and not factor(factor_name).off_on:
        return f"runs with and without {factor_label(factor_name)}"
    return f"{level_phrase(factor_name, first)} and {level_phrase(factor_name, second)}"


def levels(where: Mapping[str, object]) -> str:
    """Several levels inside a sentence: `random access (randrw), 8 jobs`."""
    return ", ".join(level_phrase(key, shown) for key, shown in where.items())


def placed(where: Mapping[str, object], sentence: str) -> str:
    """A sentence with its restriction in front: `With random access (randrw), read bandwidth falls.`"""
    if not where:
        return sentence
    places, last = [], ""
    for key, shown in where.items():
        preposition, _, text = at(key, shown, "with").partition(" ")
        places.append(text if preposition == last else f"{preposition} {text}")
        last = preposition
    return f"{capital(', '.join(places))}, {_small(sentence)}"
