"""What pgbench and redis-benchmark claim: transactions and requests, which are operations of a database and no I/O.

The I/O for them is the server's, which is another process. The interval is that behind the rate, the operations divided
by it: it has more digits than the printed seconds, and that of pgbench begins when all clients are connected. Results
of each script and statement of pgbench (-f, -b, -r) are parts of the same transactions and not claimed again. With
redis-benchmark's --csv and -q there is no number of requests, and latencies alone are claimed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from ioassay.errors import InputError
from ioassay.formats.number_parsing import next_lines, real
from ioassay.formats.text_rules import Fields, Rules, Tool
from ioassay.records.record import Claim

_MS_NS = 1e6
_TRANSACTIONS = Rules(
    "pgbench",
    r"^transaction type: (?P<type>.{1,200})$",
    r"^number of transactions actually processed: (?P<transactions>[0-9]{1,19})(?:/[0-9]{1,19})?$",
    r"^tps = (?P<tps>#) \((?:without initial connection time|excluding connections establishing)\)$",
    r"^number of failed transactions: (?P<failed>[0-9]{1,19}) ",
    r"^latency average = (?P<mean>#) ms$",
    r"^latency stddev = (?P<stddev>#) ms$",
    transactions=1,
    tps=1.0,
    failed=1,
    mean=_MS_NS,
    stddev=_MS_NS,
)
_REQUESTS = Rules(
    "redis-benchmark",
    r"^ *(?P<requests>[0-9]{1,19}) requests completed in # seconds\s*$",
    r"^ *throughput summary: (?P<rate>#) requests per second\s*$",
    r"latency summary \(msec\):\s*\n(?P<names>.*)\n(?P<values>.*)",
    requests=1,
    rate=1.0,
)
_QUIET = Rules("redis-benchmark", r"(?P<test>.{1,200}): # requests per second, p50=(?P<p50>#) msec", p50=_MS_NS)
_CSV_HEAD = re.compile(r'^"test","rps",.{1,1000}$', re.M)
_STATISTICS = {"avg": "mean", "min": "min", "max": "max"}
_LONGEST_REPORT = 100_000
_MOST_TESTS = 1000


def _transactions(text: str, words: Sequence[str]) -> Iterator[Claim]:
    """One claim a report, without those of its scripts."""
    for part in re.split(r"^(?=transaction type: |SQL script)", text, flags=re.M):
        found = _TRANSACTIONS.read(part)
        if "transactions" in found:
            yield Claim(
                source="pgbench",
                kind="keys",
                test=found.text("type"),
                operations=found.whole("transactions"),
                seconds=_interval_s(found, "transactions", "tps"),
                latency_ns=found.positive("mean", "stddev"),
                errors=found.whole("failed"),
            )


def _interval_s(found: Fields, number: str, rate: str) -> float | None:
    """That in which a number was done at a rate."""
    per_s = found.value(rate)
    return real(found[number].value / per_s, f"{found.tool}'s interval") if per_s else None


def _requests(text: str, words: Sequence[str]) -> Iterator[Claim]:
    """One claim a test, of reports, quiet lines and the table of --csv."""
    _, *parts = re.split(r"^====== (.{1,200}) ======\s*$", text, flags=re.M)
    for test, part in zip(parts[::2], parts[1::2], strict=True):
        found = _REQUESTS.read(part[:_LONGEST_REPORT])
        if {"requests", "rate"} <= found.numbers.keys():
            yield Claim(
                source="redis_benchmark",
                kind="keys",
                test=test,
                operations=found.whole("requests"),
                seconds=_interval_s(found, "requests", "rate"),
                latency_ns=_latencies(found.text("names").split(), found.text("values").split()),
            )
    for found in _QUIET.lines(text, " requests per second, p50="):
        yield Claim(source="redis_benchmark", kind="keys", test=found.text("test"), latency_ns=found.positive("p50"))
    if head := _CSV_HEAD.search(text):
        names = [name.removesuffix("_latency_ms") for name in head[0].replace('"', "").split(",")]
        for line in takewhile(lambda line: line.startswith('"'), next_lines(text, head.end(), _MOST_TESTS)):
            fields = re.findall(r'"([^"]{0,200})"', line)
            if len(fields) != len(names):
                raise InputError(f"redis-benchmark's table has a row of {len(fields)} fields; expected {len(names)}")
            latency_ns = _latencies(names[2:], fields[2:])
            yield Claim(source="redis_benchmark", kind="keys", test=fields[0], latency_ns=latency_ns)


def _latencies(names: Sequence[str], values: Sequence[str]) -> dict[str, float]:
    """Milliseconds in nanoseconds; columns that no statistic is known of are left out."""
    known = {_STATISTICS.get(name, name): value for name, value in zip(names, values, strict=False)}
    return {
        name: real(value, f"latency {name}") * _MS_NS
        for name, value in known.items()
        if name in _STATISTICS.values() or re.fullmatch(r"p[0-9]{1,2}", name)
    }


PGBENCH = Tool(
    "pgbench",
    sign="number of transactions actually processed: ",
    claims=_transactions,
    missing="pgbench printed no report of a run",
    silent=lambda text, words: bool({"-i", "--initialize"} & set(words)),
)
REDIS_BENCHMARK = Tool(
    "redis_benchmark",
    *("redis-benchmark", "valkey-benchmark", "keydb-benchmark"),
    sign=r'throughput summary: | requests per second, p50=|"test","rps",',
    claims=_requests,
    missing="redis-benchmark printed no results",
)
