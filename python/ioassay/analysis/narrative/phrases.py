"""Numbers and lists in plain English, the same everywhere. Computes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from ioassay import metrics, units
from ioassay.stats.result import Interval

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
    own = text[:2].isupper() or any(letter.isupper() for letter in text.partition(" ")[0][1:])
    return text if own else text[:1].lower() + text[1:]


def interval(response: str, found: Interval) -> str:
    """`95 % interval 410 to 432 MB/s`."""
    return f"{level(found.confidence)} interval {span(response, found.low, found.high)}"


def span(response: str, low: float, high: float, values: Callable[[str, float], str] | None = None) -> str:
    """`410 to 432 MB/s`; `950 kB/s to 1.2 MB/s` where the units differ. What cannot be negative starts at 0."""
    shown = [(values or value)(response, number) for number in (lowest(response, low), high)]
    return joined(shown[0], shown[1])


def joined(low: str, high: str) -> str:
    """`410 to 432 MB/s`: a range whose unit is said once where both ends have the same."""
    number, _, unit = low.partition(" ")
    return f"{number if unit == high.partition(' ')[2] else low} to {high}"


def lowest(response: str, low: float) -> float:
    """A lower bound, cut at 0: no metric with a unit can be negative, though Student's interval of few values can."""
    return max(low, 0.0) if metrics.metric(response).unit else low


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
        return plain_number(number)
    return f"{plain_number(number)} ({bounds_of(bounds)})"


def bounds_of(found: Interval) -> str:
    """`95 % interval 1.2 to 1.29` of a number without a unit."""
    return f"{level(found.confidence)} interval {plain_number(found.low)} to {plain_number(found.high)}"


def capital(text: str) -> str:
    """`text` with its first letter large, the others as they are."""
    return text[:1].upper() + text[1:]


def p(p_value: float) -> str:
    """`p = 0.032`, `p < 0.0001`."""
    return "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.2g}"


def plain_number(number: float) -> str:
    """Three significant digits, never with an exponent below a million: `0.515`, `42.1`, `19900`."""
    return f"{number:.3g}" if not 1e3 <= abs(number) < 1e6 else f"{float(f'{number:.3g}'):.0f}"


def times(ratio: float) -> str:
    """`1.24 times`; large ratios without decimals."""
    return f"{plain_number(ratio)} times"


def count(number: int, thing: str) -> str:
    """`1 trial`, `3 trials`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def listed(words: Sequence[str], most: int = 4) -> str:
    """`a, b and c`; beyond `most`: `a, b, c and 5 more`."""
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "none"


# Factors and their levels


_FACTORS = {
    "bs": "block size",
    "buffer": "write buffer",
    "cache-fence": "cache fence",
    "case": "case",
    "compression_type": "compression",
    "cpu-method": "CPU method",
    "direct": "direct I/O",
    "elements": "flash elements",
    "feed": "feeding",
    "file_size": "file size",
    "iodepth": "queue depth",
    "ioengine": "I/O engine",
    "l1cache-sets": "number of cache sets",
    "numjobs": "number of jobs",
    "page": "page size",
    "record_size": "record size",
    "run.affinity": "processor affinity",
    "run.cooldown": "pause between trials",
    "run.cpu_limit": "CPU limit",
    "run.drop_caches": "dropping of caches",
    "run.governor": "CPU frequency governor",
    "run.memory_limit": "memory limit",
    "run.nice": "niceness",
    "run.scheduler": "scheduling policy",
    "run.timeout": "time limit",
    "rw": "access pattern",
    "rwmixread": "read share",
    "rwmixwrite": "write share",
    "sched": "scheduling policy",
    "sched-deadline": "deadline",
    "sched-prio": "real-time priority",
    "shm-bytes": "size of shared memory",
    "target.keep": "keeping of the target's file",
    "target.kind": "kind of target",
    "target.path": "folder",
    "target.policy": "write buffer",
    "target.precondition": "state of the drive",
    "target.prepare": "preparation of the target",
    "target.size": "size of the target",
    "test": "test",
    "workers": "number of workers",
    "zlib-mem-level": "zlib memory level",
}


def factor(factor_name: str) -> str:
    """A factor inside a sentence: `block size`; unknown options of a tool as they are typed (`--cpu-load`)."""
    if factor_name in _FACTORS:
        return _FACTORS[factor_name]
    head, dot, key = factor_name.partition(".")
    if dot:  # of the target, or of how it is run
        return f"{key.replace('_', ' ')} of the {head}"
    return f"--{factor_name}" if "-" in factor_name else factor_name


_LEVELS = {
    "bs": "{}",
    "buffer": "a buffer of {}",
    "case": "{}",
    "compression_type": "compression {}",
    "cpu-method": "method {}",
    "elements": "{} elements",
    "feed": "feeding {}",
    "ioengine": "{}",
    "iodepth": "queue depth {}",
    "l1cache-sets": "{} cache sets",
    "numjobs": "{} jobs",
    "page": "pages of {}",
    "policy": "{}",
    "run.affinity": "processors {}",
    "run.cpu_limit": "a CPU limit of {}",
    "run.memory_limit": "{} of memory",
    "run.nice": "niceness {}",
    "run.scheduler": "{}",
    "rwmixread": "{} % reads",
    "rwmixwrite": "{} % writes",
    "sched": "{}",
    "sched-deadline": "a deadline of {}",
    "sched-prio": "priority {}",
    "target.path": "{}",
    "target.policy": "write buffer {}",
    "target.precondition": "drive state {}",
    "test": "{}",
    "workers": "{} workers",
    "zlib-mem-level": "memory level {}",
}
_ONE = {
    "elements": "1 element",
    "l1cache-sets": "1 cache set",
    "numjobs": "1 job",
    "run.cpu_limit": "a CPU limit of 1 processor",
    "workers": "1 worker",
}
_PATTERNS = {
    "read": "sequential reads",
    "write": "sequential writes",
    "rw": "sequential access (rw)",
    "randread": "random reads",
    "randwrite": "random writes",
    "randrw": "random access (randrw)",
}
_SWITCHED = {"direct": ("buffered", "direct")}
"""What off and on are called."""
_STEPS = {
    "iodepth": "request in flight",
    "l1cache-sets": "cache set",
    "numjobs": "job",
    "rwmixread": "% of reads",
    "rwmixwrite": "% of writes",
    "sched-deadline": "nanosecond of the deadline",
    "sched-prio": "step of priority",
    "workers": "worker",
    "zlib-mem-level": "memory level",
}
_PLACES = {"run.scheduler": "under", "sched": "under", "run.affinity": "on"}
"""The preposition before a level, where it is neither `at` nor `with`."""
NANOSECONDS = ("sched-deadline", "sched-period", "sched-runtime")
"""Factors whose plain numbers are times."""
_UNITS = re.compile(r"^([0-9.]+)\s*((?:[kKMGTP]i?)?B(?:/s)?|[kKMGTP](?:/s)?|ns|us|ms|s|min|h|d|%)$")
_REAL_TIME = re.compile(r"^(fifo|rr):(\d+)$")


def level_of(factor_name: str, shown: object) -> str:
    """A level inside a sentence: `4 KiB`, `8 jobs`, `with cache fence`; of unknown factors `name = level`."""
    if isinstance(shown, bool):
        return _switched(factor_name, shown)
    if factor_name == "rw" and str(shown) in _PATTERNS:
        return _PATTERNS[str(shown)]
    text = level_text(factor_name, shown)
    if text == "1" and factor_name in _ONE:
        return _ONE[factor_name]
    return _LEVELS.get(factor_name, f"{_named(factor_name)}{{}}").replace("{}", text)


def level_text(factor_name: str, shown: object) -> str:
    """A level alone, as on an axis or in a table: `4 KiB`, `50 %`, `fifo (priority 99)`, `yes`."""
    if isinstance(shown, bool):
        return _SWITCHED.get(factor_name, ("no", "yes"))[shown]
    text = str(shown)
    if policy := _REAL_TIME.match(text) if factor_name == "run.scheduler" else None:
        return f"{policy[1]} (priority {policy[2]})"
    if factor_name in NANOSECONDS and isinstance(shown, int | float):
        return units.format_ns(shown)
    if isinstance(shown, float) and shown.is_integer():
        return str(int(shown))
    return _UNITS.sub(r"\1 \2", text)


def _switched(factor_name: str, on: bool) -> str:
    if factor_name in _SWITCHED:
        return _SWITCHED[factor_name][on]
    return f"{'with' if on else 'without'} {factor(factor_name)}"


def _named(factor_name: str) -> str:
    """`--cpu-load ` as it is typed; `name = ` of other factors without words."""
    name_ = factor(factor_name)
    return f"{name_} " if name_.startswith("--") else f"{name_ if '.' in factor_name else factor_name} = "


def at(factor_name: str, shown: object, usual: str = "at") -> str:
    """A level as the place where something is: `at 4 workers`, `under fifo (priority 99)`, `without cache fence`."""
    text = level_of(factor_name, shown)
    if isinstance(shown, bool) and factor_name not in _SWITCHED:
        return text
    if factor_name == "rw":
        return f"with {text}"
    return f"{_PLACES.get(factor_name, usual)} {text}"


def both(factor_name: str, first: object, second: object) -> str:
    """Two levels between which something differs: `4 KiB and 64 KiB`, `runs with and without cache fence`."""
    if isinstance(first, bool) and isinstance(second, bool) and factor_name not in _SWITCHED:
        return f"runs with and without {factor(factor_name)}"
    return f"{level_of(factor_name, first)} and {level_of(factor_name, second)}"


def step_of(factor_name: str) -> str:
    """What a slope is told per: `job`; `unit of <name>` for factors without a word of their own."""
    return _STEPS.get(factor_name, f"unit of {factor(factor_name)}")


def levels(where: Mapping[str, object]) -> str:
    """Several levels inside a sentence: `random access (randrw), 8 jobs`."""
    return ", ".join(level_of(key, shown) for key, shown in where.items())


def circumstances(where: Mapping[str, object]) -> str:
    """Several levels as what holds meanwhile: `with random access (randrw), 8 jobs`, `without cache fence`."""
    return beside_text(levels(where))


def beside_text(text: str) -> str:
    """The same of `levels` already said."""
    return text if text.startswith(("with ", "without ")) else f"with {text}"


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
