"""The tables of docs/verdicts.md: what shows each property of a claim at each level, and what it can come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ioassay.records.observation import BLOCK, COUNTERS, STRACE, SYSCALLS
from ioassay.verify.properties import (
    BYTES,
    DEVICE,
    DIRECT,
    ENGINE,
    EVIDENCE,
    FILES,
    INTERVAL,
    LATENCY,
    OPERATIONS,
    OUTCOMES,
    PATTERN,
    PROPERTIES,
    SYNC,
    Basis,
)
from ioassay.verify.verdict import CONFIRMED, CONTRADICTED, INCOMPLETE, UNSUBSTANTIATED

_LEVELS = (SYSCALLS, BLOCK, COUNTERS, STRACE)
_STATED_BY: Mapping[str, str] = {
    OPERATIONS: "a number of operations",
    BYTES: "a number of bytes",
    FILES: "names of files",
    DIRECT: "direct I/O (`direct=1`, `iflag=direct`, `-I`)",
    ENGINE: "an engine that is known",
    SYNC: "synchronisations, one at the end, or synchronous writes",
    INTERVAL: "seconds or a rate",
    LATENCY: "latencies",
    PATTERN: "an order of offsets, a working set",
    DEVICE: "bytes in files or on block devices",
}
_BASES: Mapping[Basis, str] = {
    Basis.CALLS_OF_FILES: "calls on its files",
    Basis.OPEN_FILES: "files as they were opened",
    Basis.WAYS_OF_CALLS: "bytes by each way into the kernel",
    Basis.TIMES_OF_CALLS: "first to last call; each call",
    Basis.OFFSETS: "offsets of calls",
    Basis.TOTALS: "totals of the process tree",
    Basis.RING: "io_uring alone",
    Basis.REQUESTS: "requests of the command",
    Basis.ACCOUNT: "bytes read from devices, or dirtied",
}
_DENIALS = (CONTRADICTED, UNSUBSTANTIATED, INCOMPLETE)


def evidence_table() -> str:
    """Property by level, in Markdown."""
    rows = [[name, _STATED_BY[name], *(_basis(name, level) for level in _LEVELS)] for name in PROPERTIES]
    return _markdown(["property", "stated by", *_LEVELS], rows)


def outcome_table() -> str:
    """Property by verdict, with the reasons, in Markdown."""
    rows = []
    for name in PROPERTIES:
        outcomes = OUTCOMES[name]
        others = [f"{category}: {_reasons(outcomes[category])}" for category in outcomes if category not in _DENIALS]
        rows.append([name, *(_reasons(outcomes.get(category, ())) for category in _DENIALS), "; ".join(others) or "-"])
    return _markdown(["property", *_DENIALS, f"between {CONFIRMED} and {INCOMPLETE}, or PERTURBED"], rows)


def _basis(name: str, level: str) -> str:
    basis = EVIDENCE[name].get(level)
    return "-" if basis is None else _BASES[basis]


def _reasons(reasons: Sequence[str]) -> str:
    return ", ".join(reasons) or "-"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
