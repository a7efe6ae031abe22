"""What the installed db_bench offers: its flags with their types, and the benchmarks that its help names.

Deliberately not here: whether a study may use what there is (`settings`).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_FLAG = re.compile(r"^ {4}-(?P<name>[A-Za-z]\w*) \((?P<rest>.*?)(?=^ {4}-[A-Za-z]\w* \(|\Z)", re.M | re.S)
_TYPE = re.compile(r"\)\s+type:\s+(\w+)")
_OF_IO_URING = "io_uring_submit error"
"""In a message that RocksDB has with io_uring only (PosixRandomAccessFile::ReadAsync in env/io_posix.cc)."""
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
    io_uring: bool = True
    """Whether it was built with io_uring; without it reads by `async_io` wait for each other, and it says nothing."""


def probes(program: str = "db_bench") -> dict[str, Sequence[str]]:
    """The commands that `read` wants the answers of."""
    path = shutil.which(program) or program
    return {"help": [program, "--help"], "libraries": ["ldd", path], "io_uring": ["grep", "-c", _OF_IO_URING, path]}


def read(answers: Mapping[str, str]) -> Capabilities:
    """The offer behind the answers of `probes`; what an answer does not say is left out."""
    text, libraries = answers.get("help", ""), answers.get("libraries", "")
    flags = {found["name"]: kind[1] for found in _FLAG.finditer(text) if (kind := _TYPE.search(found["rest"]))}
    linked = "liburing" in libraries or (answers.get("io_uring", "").strip().isdigit() and int(answers["io_uring"]) > 0)
    return Capabilities(flags, tuple(dict.fromkeys(_BENCHMARK.findall(text))), linked or not libraries)
