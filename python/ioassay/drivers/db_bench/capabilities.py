"""What the installed db_bench offers: its flags with their types, and the benchmarks that its help names.

Deliberately not here: whether a study may use what there is (`settings`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_FLAG = re.compile(r"^ {4}-(?P<name>[A-Za-z]\w*) \((?P<rest>.*?)(?=^ {4}-[A-Za-z]\w* \(|\Z)", re.M | re.S)
_TYPE = re.compile(r"\)\s+type:\s+(\w+)")
_BENCHMARK = re.compile(r"^\s*\t(\w+)\s+--? ", re.M)
UNLISTED = frozenset(
    (
        *(
            "approximatesizerandom",
            "compress",
            "fillanddeleteuniquerandom",
            "fillbatch",
            "filluniquerandom",
            "mixgraph",
        ),
        *("multireadrandom", "newiteratorwhilewriting", "randomwithverify", "readrandomfast", "readrandomsmall"),
        *("readtorowcache", "uncompress", "verify", "verifychecksum", "verifyfilechecksums"),
    )
)
"""Benchmarks that db_bench runs and its help does not name (7.8; Benchmark::Run in db_bench_tool.cc)."""


@dataclass(frozen=True)
class Capabilities:
    """What one db_bench offers. Empty: not asked."""

    flags: Mapping[str, str] = field(default_factory=dict)
    """Name -> 'bool', 'int32', 'int64', 'uint32', 'uint64', 'double' or 'string'."""
    benchmarks: Sequence[str] = ()


def probes() -> dict[str, Sequence[str]]:
    """The commands that `read` wants the answers of."""
    return {"help": ["db_bench", "--help"]}


def read(answers: Mapping[str, str]) -> Capabilities:
    """The offer behind the answers of `probes`; what an answer does not say is left out."""
    text = answers.get("help", "")
    flags = {found["name"]: kind[1] for found in _FLAG.finditer(text) if (kind := _TYPE.search(found["rest"]))}
    return Capabilities(flags, tuple(dict.fromkeys(_BENCHMARK.findall(text))))
