"""How fast a log of fio is read on one core, beside DuckDB and polars on the same file in the same run.

    .venv/bin/python benches/log_ingestion.py [FOLDER] [--offsets] [--lines N] [--turns N]

Makes a log of about 300 MB in FOLDER (removed afterwards), then lets each reader answer the same question in turn:
count, mean and 50th, 99th and 99.9th percentile of the latency by direction. Every answer is computed in a process
of its own that is pinned to one processor, with the file in the page cache; libraries are imported before the clock
starts, and each is asked in its fastest way. `read_log` does more in that time (windows, bytes, deviation, every
line checked) and its percentiles are true to 0.05 %; the others' are exact. `--offsets` writes a random offset on
every line, as `log_offset=1` does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

SHARES = (0.5, 0.99, 0.999)
BLOCK = 200_000
COLUMNS = ("time_ms", "value", "direction", "block_size", "offset", "priority")

Answer = dict[str, list[float | None]]
"""Direction -> count, mean and the quantiles of its latencies; None of no request."""


class Turn(TypedDict):
    """What one reader took in a process of its own."""

    seconds: float
    idle_mib: float
    peak_mib: float
    answer: Answer


def write_log(path: Path, lines: int, offsets: bool, seed: int = 1) -> None:
    """A log of 70,000 I/Os a second, 30 % of them writes, with log-normal latencies."""
    import numpy as np

    rng = np.random.default_rng(seed)
    start_ms = 0.0
    with path.open("w") as log:
        for first in range(0, lines, BLOCK):
            number = min(BLOCK, lines - first)
            times_ms = start_ms + np.cumsum(rng.exponential(1 / 70, number))
            start_ms = float(times_ms[-1])
            places = rng.integers(0, 1 << 18, number) * 4096 if offsets else np.zeros(number, dtype=int)
            columns = (
                times_ms.astype(int),
                rng.lognormal(11, 0.4, number).astype(int),
                (rng.random(number) < 0.3).astype(int),
                places,
            )
            rows = zip(*(column.tolist() for column in columns), strict=True)
            log.write("".join(f"{ms}, {ns}, {way}, 4096, {place}, 0\n" for ms, ns, way, place in rows))


def ask_ioassay() -> Callable[[str], Answer]:
    from ioassay import _core

    def ask(path: str) -> Answer:
        directions = _core.read_log(path, "clat").directions
        return {name: [part.count, part.mean, *part.histogram.quantiles(SHARES)] for name, part in directions.items()}

    return ask


def ask_duckdb() -> Callable[[str], Answer]:
    import duckdb

    database = duckdb.connect(config={"threads": 1})
    types = ", ".join(f"'{name}': 'BIGINT'" for name in COLUMNS)

    def ask(path: str) -> Answer:
        rows = database.execute(
            f"SELECT direction, count(*), avg(value), quantile_cont(value, {list(SHARES)}) "
            f"FROM read_csv(?, delim = ', ', header = false, auto_detect = false, columns = {{{types}}}) "
            "GROUP BY direction",
            [path],
        ).fetchall()
        return {("read", "write")[way]: [count, mean, *quantiles] for way, count, mean, quantiles in rows}

    return ask


def ask_polars() -> Callable[[str], Answer]:
    os.environ["POLARS_MAX_THREADS"] = "1"
    import polars as pl

    value = pl.col("value")

    def ask(path: str) -> Answer:
        rows = (
            pl.scan_csv(path, has_header=False, schema=dict.fromkeys(COLUMNS, pl.Int64))
            .group_by("direction")
            .agg(
                pl.len().alias("count"),
                value.mean().alias("mean"),
                *(value.quantile(share, "linear").alias(str(share)) for share in SHARES),
            )
            .collect(engine="streaming")
        )
        return {("read", "write")[row[0]]: list(row[1:]) for row in rows.iter_rows()}

    return ask


READERS = {"ioassay": ask_ioassay, "duckdb": ask_duckdb, "polars": ask_polars}


def one(reader: str, path: str) -> None:
    """Answer once, pinned to one processor, and print what it took."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    ask = READERS[reader]()
    idle_mib = peak_mib()
    began_s = time.perf_counter()
    answer = ask(path)
    seconds = time.perf_counter() - began_s
    print(json.dumps({"seconds": seconds, "idle_mib": idle_mib, "peak_mib": peak_mib(), "answer": answer}))


def peak_mib() -> float:
    """The most memory this process has had so far (getrusage would count the parent's before exec)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measured(reader: str, path: Path) -> Turn:
    """`one` in a process of its own."""
    command = [sys.executable, __file__, "--one", reader, str(path)]
    turn: Turn = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return turn


def median(values: list[float]) -> float:
    """The middle one."""
    return sorted(values)[len(values) // 2]


def report(found: dict[str, list[Turn]], size_bytes: int) -> None:
    """Print the table, and what each reader answered."""
    speeds = {reader: [size_bytes / turn["seconds"] / 1e9 for turn in turns] for reader, turns in found.items()}
    print(f"{'reader':10}{'GB/s':>8}{'lowest':>8}{'highest':>9}{'ratio':>8}{'peak MiB':>10}{'idle MiB':>10}")
    for reader, turns in found.items():
        speed = median(speeds[reader])
        print(
            f"{reader:10}{speed:8.3f}{min(speeds[reader]):8.3f}{max(speeds[reader]):9.3f}"
            f"{speed / median(speeds['ioassay']):8.3f}{max(turn['peak_mib'] for turn in turns):10.0f}"
            f"{turns[0]['idle_mib']:10.0f}"
        )
    print("\nanswers: count, mean, p50, p99, p99.9 (ns)")
    for reader, turns in found.items():
        for direction, answer in sorted(turns[0]["answer"].items()):
            print(f"{reader:10}{direction:8}" + "".join(f"{number or 0.0:14.1f}" for number in answer))


def main() -> None:
    """Make the log, take turns over the readers, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=".", type=Path)
    parser.add_argument("--offsets", action="store_true")
    parser.add_argument("--lines", type=int, default=10_600_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--one", nargs=2, metavar=("READER", "LOG"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one(*arguments.one)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "bench_clat.1.log"
        write_log(path, arguments.lines, arguments.offsets)
        size_bytes = path.stat().st_size
        with path.open() as log:
            print(f"{size_bytes / 1e6:.0f} MB, {arguments.lines} lines such as: {log.readline().strip()}\n")
        found: dict[str, list[Turn]] = {reader: [] for reader in READERS}
        for _ in range(arguments.turns):
            for reader in READERS:
                found[reader].append(measured(reader, path))
        report(found, size_bytes)


if __name__ == "__main__":
    main()
