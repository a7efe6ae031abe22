"""Does a simulation predict the best write buffer for RocksDB? Record, simulate, serve as drives, measure again.

    sudo .venv/bin/python examples/rocksdb_loop.py [OPERATIONS]

1. `ioassay.record` records the block requests of db_bench (synchronous random writes) on the local disk.
2. `ioassay.sweep` replays them on a small simulated SSD with each write buffer.
3. The best and the worst are served as drives, and db_bench is measured on them (target `virtual`).

A trace has no flushes, each of which empties the buffer of a served drive. It does not wait for its drive as RocksDB
does. The predicted order may therefore not hold. The last lines of the output compare the two.
OPERATIONS is the total over all runs of db_bench.
"""

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import ioassay as ia
from ioassay import traces

POLICIES = ("none", "fifo", "lru", "bplru", "epo", "idle-cold")
DRIVE = {"elements": 4, "buffer": "256KiB"}
REPETITIONS = 3
LOAD = {"benchmarks": "fillrandom", "sync": "true", "write_buffer_size": 262144}


def recorded(folder: Path, operations: int) -> Path:
    """The requests of one run of the load on the disk here."""
    load = ["db_bench", f"--db={folder}/db", f"--num={operations}", *(f"--{key}={LOAD[key]}" for key in LOAD)]
    return ia.record(load, folder / "db.csv").trace


def simulated(trace: Path) -> dict[str, float]:
    """Mean response in ms by policy, one request at a time, the best first."""
    fed = {"mode": "inline", "feed": "closed:1", "window": None, "driver": "fcfs"}
    prepared = traces.preparation(keep="reads,writes", limit="256MiB", beyond="wrap")
    done = ia.sweep(trace, [{**DRIVE, **fed, "policy": policy} for policy in POLICIES], prepare=prepared)
    means = {policy: one.summary["mean_response_ms"] for policy, one in zip(POLICIES, done, strict=True)}
    return dict(sorted(means.items(), key=lambda pair: pair[1]))


def measured(folder: Path, operations: int, policies: list[str]) -> tuple[dict[str, float], str]:
    """Operations a second by policy, and what the analysis says of the difference."""
    study = ia.Study(
        title="RocksDB on the drives that were best and worst in simulation",
        driver="db_bench",
        repetitions=REPETITIONS,
        target={"kind": "virtual", "form": "folder", "ways": ["fuse"], "size": "256MiB", **DRIVE},
        params={**LOAD, "num": operations},
        factors={"target.policy": policies},
        analysis={"responses": ["fillrandom.ops_rate"], "questions": ["database", "effect"]},
    )
    run = study.run(folder / "served")
    rates = run.trials.group_by("target.policy").agg(pl.col("fillrandom.ops_rate").mean())
    return dict(rates.rows()), next(one.statement for one in run.findings if one.question == "effect")


def main() -> None:
    """Print what was foretold and what came out."""
    if os.geteuid() or shutil.which("db_bench") is None:
        print("not run: this requires root (block traces, a file system on a drive)")
        print("and db_bench (Debian's package rocksdb-tools)")
        return
    operations = int(sys.argv[1] if len(sys.argv) > 1 else 70_000) // (1 + 2 * REPETITIONS)
    with TemporaryDirectory(dir=".") as name:
        folder = Path(name).absolute()
        trace = recorded(folder, operations)
        foretold = simulated(trace)
        for policy, mean_ms in foretold.items():
            print(f"simulated  {policy:<10} {mean_ms:8.4f} ms mean response")
        best, worst = next(iter(foretold)), list(foretold)[-1]
        rates, said = measured(folder, operations, [best, worst])
    for policy, rate in rates.items():
        print(f"measured   {policy:<10} {rate:8,.0f} operations/s")
    order = "the same" if rates[best] > rates[worst] else "the other"
    factors = foretold[worst] / foretold[best], rates[best] / rates[worst]
    print(f"foretold: {best} before {worst}, by a factor of {factors[0]:.1f} in the mean response")
    print(f"measured: the means are in {order} order, by a factor of {factors[1]:.2f} in the rate")
    print(said)


if __name__ == "__main__":
    main()
