"""Do the parts of `ioassay witness --explain` sum to the mean latency that fio measures?

    .venv/bin/python benches/latency_sums.py [FOLDER] [--runs 20] [--seconds 0.3] [--only TEXT] [--loops N]

Random reads and writes of 4 KiB by psync, libaio and io_uring, the latter two at depth 1 and 16: direct, buffered from
memory, and buffered on a file that is not in memory. The sum is that of the parts that were measured, without the
tool's own, over fio's mean. Conditions take turns. fio has real-time priority, which keeps other programs of the
machine off its processor. With `--loops` it has the usual one, and N busy loops run beside it. Needs root and fio.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path

from latency_delays import SIZE_MIB, PreparedStudy, running

import ioassay as ia

LOOP = ("setpriv", "--pdeathsig", "KILL", "sh", "-c", "while :; do :; done")
ENGINES = (("psync", 1), ("libaio", 1), ("libaio", 16), ("io_uring", 1), ("io_uring", 16))
PLACES = {"direct": "--direct=1", "memory": "--invalidate=0", "cold": "--invalidate=1"}
MOST_OFF = 0.05


def run(
    bench: PreparedStudy, priority: Sequence[str], engine: str, depth: int, place: str, kind: str
) -> tuple[float, float, float]:
    """The sum, and the shares of entering and leaving the kernel and of the tool."""
    options = f"--size={SIZE_MIB}m --rw=rand{kind} --norandommap {PLACES[place]} --ioengine={engine} --iodepth={depth}"
    with bench.data.open("rb+") as file:
        os.fsync(file.fileno())  # what the run before left to write would delay this one
        while place == "memory" and file.read(1 << 20):
            pass
    found = ia.witness([*priority, *bench.fio(*options.split())], level="explain")
    parts = next(one for one in found.latency_parts() if one.kind == kind)
    share = {part.name: part.share for part in parts.parts}
    return parts.sum_share, share.get("entry-exit", 0.0), share.get("tool", 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="where the file is made")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--loops", type=int, default=0, help="busy loops beside")
    parser.add_argument("--only", default="", help="conditions whose name contains it")
    options = parser.parse_args()
    os.nice(-20 - os.nice(0))
    priority = ["nice", "-n", "20"] if options.loops else ["chrt", "--fifo", "5"]
    conditions = {
        f"{place} {kind}, {engine} depth {depth}": (engine, depth, place, kind)
        for place, kind, (engine, depth) in product(PLACES, ("read", "write"), ENGINES)
    }
    chosen = [name for name in conditions if options.only in name]
    found = defaultdict(list)
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(dir=options.folder, prefix="sums-"))).resolve()
        bench = PreparedStudy(folder, options.seconds, ends)
        ends.enter_context(running(*[LOOP] * options.loops))
        for _ in range(options.runs):
            for name in random.sample(chosen, len(chosen)):
                found[name].append(run(bench, priority, *conditions[name]))
    for name in chosen:
        sums, entries, tools = (sorted(values) for values in zip(*found[name], strict=True))
        good = sum(abs(value - 1) <= MOST_OFF for value in sums)
        print(
            f"{name:32} {sums[0]:.3f} {statistics.median(sums):.3f} {sums[-1]:.3f}, {good} of {len(sums)} within 5 %; "
            f"entering and leaving {statistics.median(entries):.3f}, tool {statistics.median(tools):.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
