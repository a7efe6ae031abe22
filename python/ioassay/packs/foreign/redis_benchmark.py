"""What redis-benchmark claims: the requests of each test, which are operations of a database and no I/O.

The report of a test has their number, latencies and a rate; its interval is the number divided by the rate, which has
more digits than the printed seconds. With --csv and -q there is no number, and latencies alone are claimed. The I/O for
the requests is the server's, which is another process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ioassay.errors import InputError
from ioassay.formats.number_parsing import lines_with, next_lines, real, whole_number
from ioassay.formats.printed_quantity import NUMBER, last_line
from ioassay.records.record import Claim

NAME = "redis_benchmark"
STREAM = "stdout"

_TITLE = re.compile(r"^====== (.{1,200}) ======\s*$", re.M)
_COMPLETED = re.compile(rf"^ *([0-9]{{1,19}}) requests completed in {NUMBER} seconds\s*$", re.M)
_RATE = re.compile(rf"^ *throughput summary: ({NUMBER}) requests per second\s*$", re.M)
_SUMMARY = "latency summary (msec):"
_QUIET = re.compile(rf"(.{{1,200}}): {NUMBER} requests per second, p50=({NUMBER}) msec\s*")
_CSV_HEAD = re.compile(r'^"test","rps",.{1,1000}$', re.M)
_NAMES = {"avg": "mean", "min": "min", "max": "max"}
_LONGEST_REPORT = 100_000
_MOST_TESTS = 1000


def matches(program: str) -> bool:
    """Whether this is redis-benchmark, or that of its forks."""
    return program in {"redis-benchmark", "valkey-benchmark", "keydb-benchmark"}


def looks_like(text: str) -> bool:
    """Whether it has a report, a quiet line or the table of --csv."""
    return "throughput summary: " in text or " requests per second, p50=" in text or '"test","rps",' in text


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """One claim a test in their order; InputError when none ended."""
    claims = [*_reports(text), *_quiet(text), *_table(text)]
    if not claims:
        raise InputError(f"redis-benchmark printed no results; its output ends with {last_line(text)}")
    return claims


def _reports(text: str) -> Iterator[Claim]:
    titles = list(_TITLE.finditer(text))
    ends = [*(title.start() for title in titles[1:]), len(text)]
    for title, end in zip(titles, ends, strict=False):
        part = text[title.end() : min(end, title.end() + _LONGEST_REPORT)]
        completed, rate = _COMPLETED.search(part), _RATE.search(part)
        if completed is None or rate is None:
            continue
        operations = whole_number(completed[1], "redis-benchmark's requests")
        rate_per_s = real(rate[1], "redis-benchmark's rate")
        yield Claim(
            source=NAME,
            kind="keys",
            test=title[1],
            operations=operations,
            seconds=real(operations / rate_per_s, "redis-benchmark's interval") if rate_per_s else None,
            latency_ns=_summary(part),
        )


def _summary(part: str) -> dict[str, float]:
    lines = next_lines(part.partition(_SUMMARY)[2], 0, 2)
    if len(lines) < 2:
        return {}
    return _latencies(lines[0].split(), lines[1].split())


def _latencies(names: Sequence[str], values: Sequence[str]) -> dict[str, float]:
    """Milliseconds in nanoseconds; columns that no statistic is known of are left out."""
    known = {_NAMES.get(name, name): value for name, value in zip(names, values, strict=False)}
    return {
        name: real(value, f"latency {name}") * 1e6
        for name, value in known.items()
        if name in _NAMES.values() or re.fullmatch(r"p[0-9]{1,2}", name)
    }


def _quiet(text: str) -> Iterator[Claim]:
    for _, line in lines_with(text, " requests per second, p50="):
        if match := _QUIET.fullmatch(line.strip()):
            yield Claim(source=NAME, kind="keys", test=match[1], latency_ns={"p50": real(match[2], "p50") * 1e6})


def _table(text: str) -> Iterator[Claim]:
    head = _CSV_HEAD.search(text)
    if head is None:
        return
    names = [name.removesuffix("_latency_ms") for name in head[0].replace('"', "").split(",")]
    for line in next_lines(text, head.end(), _MOST_TESTS):
        if not line.startswith('"'):
            break
        fields = re.findall(r'"([^"]{0,200})"', line)
        if len(fields) != len(names):
            raise InputError(f"redis-benchmark's table has a row of {len(fields)} fields; wanted {len(names)}")
        yield Claim(source=NAME, kind="keys", test=fields[0], latency_ns=_latencies(names[2:], fields[2:]))
