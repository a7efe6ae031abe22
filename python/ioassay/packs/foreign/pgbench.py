"""What pgbench claims: the transactions of one run, which are operations of a database and no I/O.

The interval is that behind the rate, transactions divided by it: it begins when all clients are connected, and has more
digits than the printed duration. Results of each script and statement (-f, -b, -r) are parts of the same transactions
and not claimed again. The I/O for them is the server's, which is another process.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ioassay.errors import InputError
from ioassay.formats.number_parsing import real, whole_number
from ioassay.formats.printed_quantity import NUMBER, last_line
from ioassay.records.record import Claim

NAME = "pgbench"
STREAM = "stdout"

_PROCESSED = re.compile(r"^number of transactions actually processed: ([0-9]{1,19})(?:/[0-9]{1,19})?$", re.M)
_RATE = re.compile(
    rf"^tps = ({NUMBER}) \((without initial connection time|excluding connections establishing)\)$", re.M
)
_KIND = re.compile(r"^transaction type: (.{1,200})$", re.M)
_FAILED = re.compile(r"^number of failed transactions: ([0-9]{1,19}) ", re.M)
_LATENCY = re.compile(rf"^latency (average|stddev) = ({NUMBER}) ms$", re.M)
_NAMES = {"average": "mean", "stddev": "stddev"}
_LONGEST_REPORT = 4000
"""Of what stands before the first script's own results."""


def matches(program: str) -> bool:
    """Whether this is pgbench."""
    return program == "pgbench"


def looks_like(text: str) -> bool:
    """Whether it has the head of a report."""
    return "number of transactions actually processed: " in text


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """One claim a report; none of a run that makes its tables (-i). InputError when there should be a report."""
    claims = [_claim(text, match) for match in _PROCESSED.finditer(text)]
    if not claims and not {"-i", "--initialize"} & set(argv):
        raise InputError(f"pgbench printed no report of a run; its output ends with {last_line(text)}")
    return claims


def _claim(text: str, processed: re.Match[str]) -> Claim:
    before = text[max(0, processed.start() - _LONGEST_REPORT) : processed.start()]
    after = re.split(
        r"^(?:SQL script|transaction type)", text[processed.end() :][:_LONGEST_REPORT], maxsplit=1, flags=re.M
    )[0]
    transactions = whole_number(processed[1], "pgbench's transactions")
    rate = _RATE.search(after)
    rate_per_s = real(rate[1], "pgbench's tps") if rate else 0.0
    failed = _FAILED.search(after)
    latencies = {_NAMES[name]: real(value, f"latency {name}") * 1e6 for name, value in _LATENCY.findall(after)}
    tests = _KIND.findall(before)
    return Claim(
        source=NAME,
        kind="keys",
        test=tests[-1] if tests else "",
        operations=transactions,
        seconds=real(transactions / rate_per_s, "pgbench's interval") if rate_per_s else None,
        latency_ns={name: value_ns for name, value_ns in latencies.items() if value_ns > 0},
        errors=whole_number(failed[1], "pgbench's failed transactions") if failed else None,
    )
