"""Sizes, durations and lists of processors: how users write them, and how they are shown. Knows nothing of metrics.

Sizes: k, K, KiB, M, MiB, … are powers of 1024; kB, MB, … are powers of 1000; a bare number is bytes.
(fio reads `4KiB` as 4000 bytes with its default kb_base, which is why ioassay emits plain byte counts.)
Durations: ns, us, ms, s, m, h, d; a bare number is seconds.
Lists of processors: `0-2,5`, as the kernel writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction

_NUMBER = r"(?P<number>\d+(?:\.\d+)?)"
_SIZE = re.compile(rf"^\s*{_NUMBER}\s*(?P<unit>[A-Za-z]*)\s*$")
_SIZE_BYTES = {"": 1, "b": 1} | {
    f"{prefix}{ending}": base**power
    for power, prefix in enumerate("kmgtpe", 1)
    for ending, base in (("", 1024), ("ib", 1024), ("b", 1000))
}

MOST_CPUS = 8192
"""NR_CPUS of the largest kernels."""
_PROCESSORS = re.compile(r"^(\d{1,5})(?:-(\d{1,5}))?$")
_LONGEST_S = 100 * 365 * 86400.0
_DURATION_S = {"": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_size(text: str | int) -> int:
    """Bytes of a size such as `4k`, `4KiB`, `4kB`, `1.5GiB` or `4096`; ValueError says what is wrong."""
    if isinstance(text, int):
        return _whole(text, text)
    match = _SIZE.match(text)
    factor = _SIZE_BYTES.get(match["unit"].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(
            f"'{text}' is not a size; expected a number with k, KiB, M, MiB, G, GiB, T, TiB (powers of 1024) "
            "or kB, MB, GB, TB (powers of 1000)"
        )
    return _whole(Fraction(match["number"]) * factor, text)


def _whole(number: int | Fraction, text: object) -> int:
    if number < 0 or number != int(number):
        raise ValueError(f"'{text}' is not a whole number of bytes")
    return int(number)


def parse_duration_s(text: str | float) -> float:
    """Seconds of a duration such as `10s`, `500ms`, `2m` or `10`; ValueError says what is wrong."""
    if isinstance(text, int | float):
        if not 0 <= text < _LONGEST_S:  # NaN fails as well
            raise ValueError(f"'{text}' is not a duration; expected a positive number of seconds")
        return float(text)
    match = _SIZE.match(text)
    factor = _DURATION_S.get(match["unit"]) if match else None
    if match is None or factor is None:
        raise ValueError(f"'{text}' is not a duration; expected a number with ns, us, ms, s, m, h or d")
    return parse_duration_s(float(match["number"]) * factor)


def parse_share(text: str | float) -> float:
    """`5%` and 0.05 are the same; ValueError for what is no number."""
    written = str(text).strip()
    return float(written.removesuffix("%")) / (100 if written.endswith("%") else 1)


def parse_processors(text: str) -> frozenset[int]:
    """The processors of a list such as `0-2,5`; ValueError when it is none."""
    processors: set[int] = set()
    for part in text.split(","):
        match = _PROCESSORS.match(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < MOST_CPUS:
            raise ValueError("expected a list of processors such as '0-2,5'")
        processors.update(range(first, last + 1))
    return frozenset(processors)


def format_processors(numbers: Iterable[int]) -> str:
    """The shortest list of these processors: `0-2,5`."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def format_size(size_bytes: float) -> str:
    """`4096` -> `4 KiB`: powers of 1024, three significant digits."""
    return _scaled(size_bytes, 1024.0, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))


def format_rate(rate_bytes_per_s: float) -> str:
    """Bytes per second in powers of 1000, as drives are sold: `524288000` -> `524 MB/s`."""
    return _scaled(rate_bytes_per_s, 1000.0, ("B/s", "kB/s", "MB/s", "GB/s", "TB/s"))


def format_ns(time_ns: float) -> str:
    """A latency: `1500` -> `1.5 µs`."""
    return _scaled(time_ns, 1000.0, ("ns", "µs", "ms", "s"))


def format_count(number: float) -> str:
    """A plain number: `12345` -> `12.3 k`."""
    return _scaled(number, 1000.0, ("", "k", "M", "G", "T")).strip()


def format_percent(share: float) -> str:
    """A share from 0 on in percent, without its sign; what only rounding makes differ from 0 is 0."""
    return f"{round(max(share, 0) * 100, 6):.2g}"


def format_duration(seconds: float) -> str:
    """A length of time for people: `75` -> `1 min 15 s`."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest_s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest_s} s"


def _scaled(number: float, base: float, units: tuple[str, ...]) -> str:
    size = abs(number)
    step = 0
    # What would be rounded to the base itself, such as 999.6, belongs to the next unit.
    while step < len(units) - 1 and size >= base - 0.5:
        size /= base
        step += 1
    digits = f"{size:.0f}" if size >= 999.5 else f"{size:.3g}"
    return f"{'-' if number < 0 else ''}{digits} {units[step]}"
