"""How long a history of many runs takes to list and to read, beside DuckDB alone on the same files.

    .venv/bin/python benches/stored_runs.py [--runs N] [--conditions N] [--turns N]

Makes a file for each run, with six responses of five repetitions each, in a temporary folder. The least CPU time and
the least wall time of the turns are printed; each turn opens the history anew.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import polars as pl

from ioassay.packs.history import history_store
from ioassay.packs.history.record_columns import BEGUN, TEXTS, VERSION, VERSION_COLUMN, model

RESPONSES = [f"{direction}.{quantity}" for direction in ("read", "write") for quantity in ("bw", "iops", "lat.p99")]
REPETITIONS = 5


def fill(place: Path, runs: int, conditions: int) -> None:
    draw, number = random.Random(1), conditions * len(RESPONSES)
    labels = [f"bs={size} iodepth=8" for size in range(conditions) for _ in RESPONSES]
    for run in range(runs):
        texts = {name: f"{name} {run % 3}" for name in TEXTS} | {"study": "nightly", "settings": ""}
        values = [[draw.random() for _ in range(REPETITIONS)] for _ in range(number)]
        row = {
            VERSION_COLUMN: VERSION,
            "run": f"{run:016x}",
            BEGUN: datetime(2026, 1, 1) + timedelta(hours=run),
            **texts,
            "condition": labels,
            "point": labels,
            "response": RESPONSES * conditions,
            "unit": [""] * number,
            "better": ["higher"] * number,
            "n": [REPETITIONS] * number,
            "mean": [sum(own) / REPETITIONS for own in values],
            "values": values,
        }
        pl.DataFrame([row], schema=model().schema).write_parquet(place / f"{run:08}.parquet", compression="zstd")


def least(turns: int, ask: Callable[[], pl.DataFrame]) -> str:
    times, rows = [], 0
    for _ in range(turns):
        wall, cpu = time.perf_counter(), time.process_time()
        rows = ask().height
        times.append((time.process_time() - cpu, time.perf_counter() - wall))
    cpu, wall = (min(each) for each in zip(*times, strict=True))
    return f"{rows} rows, CPU {cpu:.2f} s, wall {wall:.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--conditions", type=int, default=60)
    parser.add_argument("--turns", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), chosen.runs, chosen.conditions)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        print(f"{chosen.runs} files, {size / 1e6:.1f} MB")
        heads = f"SELECT run, {BEGUN}, study FROM read_parquet('{folder}/*.parquet', union_by_name=true)"
        asked: dict[str, Callable[[], pl.DataFrame]] = {
            "runs": lambda: history_store.open(folder).runs(),
            "values of a study": lambda: history_store.open(folder).values("nightly"),
            "of one metric": lambda: history_store.open(folder).values("nightly", "read.bw"),
            "DuckDB: three columns": lambda: pl.DataFrame(duckdb.sql(heads)),
        }
        for name, ask in asked.items():
            print(f"{name}: {least(chosen.turns, ask)}")


if __name__ == "__main__":
    main()
