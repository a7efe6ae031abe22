"""Misses and speeds of the write buffers next to those of libCacheSim, an independent simulator of caches.

    .venv/bin/python benches/cachesim.py CACHESIM [TRACE …]

CACHESIM is the path of a built `cachesim` of the public repository 1a1a11a/libCacheSim. Both get the same page writes
as plain page numbers: of the shipped traces, of made ones, and of each TRACE (a file that `ioassay trace info` reads).
`cachesim` prints a miss ratio with four digits. So the misses of the first 9,999 writes are compared exactly, those of
a whole trace within that rounding. Each speed is the best of three, of traces that are long enough: `cachesim` maps a
binary trace into memory, ours reads from an array (`cargo bench -p ioassay-sim --bench policy -- FILE PAGES`).
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POLICIES = {"fifo": "fifo", "lru": "lru", "clock": "clock", "sieve": "sieve", "s3-fifo": "s3fifo", "arc": "arc"}
"""Names here, and there."""
BUFFER_PAGES = (128, 512, 2048, 8192)
EXACT = 9_999
"""Writes of which a ratio of four digits has one number of misses only."""
TURNS = 3
TIMED = 500_000
"""Writes from which on a speed says something: a shorter run of `cachesim` sets its tables up most of the time."""
PAGE_SECTORS = 8
MADE: dict[str, dict[str, Any]] = {
    "uniform": {"addresses": "uniform", "range": "256MiB"},
    "zipf 0.99": {"addresses": "zipf:0.99", "range": "8GiB"},
    "hot-cold 90:10": {"addresses": "hot-cold:0.9:0.1", "range": "256MiB"},
}
MADE_REQUESTS = 1_000_000
BENCH = ("cargo", "bench", "--quiet", "-p", "ioassay-sim", "--bench", "policy", "--")
ROUNDING = 0.000_051
"""Of a ratio with four digits, and of its sum in floating point."""
MISS_RATIO = re.compile(r"([\d]+) req, miss ratio ([\d.]+), throughput ([\d.]+) MQPS")


@dataclass(frozen=True)
class Count:
    """Misses of a run, as exactly as the simulator says it, and millions of writes a second."""

    misses: float
    rate: float


def traces_of(paths: list[str]) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Name, source and preparation of each trace; only its writes."""
    from ioassay.simulation import traces

    for name in ("oltp", "database"):
        yield name, name, {"keep": "writes"}
    for path in paths:
        yield Path(path).stem, path, {"keep": "writes", "devices": "ignore", "rebase": True}
    for name, laws in MADE.items():
        yield name, traces.recipe(requests=MADE_REQUESTS, align="4KiB", seed=1, **laws), {}


def page_writes(source: Any, prepare: Mapping[str, Any], folder: Path) -> list[int]:
    """The pages of 4 KiB that a trace writes, in order."""
    from ioassay.simulation import traces

    file = folder / "writes.disksim"
    lose = ["alignment", "devices", "kinds"]
    traces.convert(source, file, to="disksim", prepare=traces.preparation(**prepare), lose=lose, force=True)
    written: list[int] = []
    for line in file.read_text(encoding="ascii").splitlines():
        _, _, first, sectors, _ = line.split()
        begin, end = int(first), int(first) + int(sectors)
        written += range(begin // PAGE_SECTORS, (end - 1) // PAGE_SECTORS + 1)
    return written


def there(cachesim: Path, written: list[int], folder: Path) -> dict[tuple[str, int], Count]:
    """What libCacheSim counts. Its binary form of a request: time, object, size, next use (not known here)."""
    file = folder / "writes.oracleGeneral.bin"
    file.write_bytes(b"".join(struct.pack("<IQIq", 0, page, 1, -1) for page in written))
    counts: dict[tuple[str, int], Count] = {}
    for name, theirs in POLICIES.items():
        for size in BUFFER_PAGES:
            command = [str(cachesim), str(file), "oracleGeneral", theirs, str(size), "--ignore-obj-size", "1"]
            runs = []
            for _ in range(TURNS if len(written) >= TIMED else 1):
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
                found = MISS_RATIO.search(done.stdout)
                if found is None or int(found[1]) != len(written):
                    sys.exit(f"{cachesim}: {done.stdout or done.stderr}")
                runs.append(Count(float(found[2]) * len(written), float(found[3])))
            counts[name, size] = max(runs, key=lambda run: run.rate)
    return counts


def here(written: list[int], folder: Path) -> dict[tuple[str, int], Count]:
    """What the write buffers count."""
    file = folder / "writes.txt"
    file.write_text("".join(f"{page}\n" for page in written), encoding="ascii")
    counts: dict[tuple[str, int], Count] = {}
    sizes = [str(size) for size in BUFFER_PAGES]
    done = subprocess.run([*BENCH, str(file), *sizes], stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        name, size, misses, rate = line.split()
        counts[name, int(size)] = Count(int(misses), float(rate))
    return counts


def same(name: str, cachesim: Path, written: list[int], folder: Path) -> tuple[int, int]:
    """Prints a row for each policy and size; returns the rows, and how many have equal misses."""
    rows = equal = 0
    ours, theirs = here(written, folder), there(cachesim, written, folder)
    start = written[:EXACT]
    first, first_theirs = here(start, folder), there(cachesim, start, folder)
    for policy, size in theirs:
        one, other = ours[policy, size], theirs[policy, size]
        exact = first[policy, size].misses - round(first_theirs[policy, size].misses)
        share, other_share = one.misses / len(written), other.misses / len(written)
        agrees = exact == 0 and abs(share - other_share) <= ROUNDING
        rows, equal = rows + 1, equal + agrees
        speed = f"{one.rate:6.1f} M/s, {one.rate / other.rate:.1f} times theirs" if len(written) >= TIMED else ""
        print(
            f"  {name:<18} {policy:<8} {size:>5} pages  misses {share:.4f} there {other_share:.4f}  "
            f"first {len(start):,}: {exact:+d}  {'equal' if agrees else 'DIFFERENT':<9}  {speed}".rstrip(),
            flush=True,
        )
    return rows, equal


def main(cachesim: str, *paths: str) -> None:
    """All traces."""
    rows = equal = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for trace, source, prepare in traces_of(list(paths)):
            written = page_writes(source, prepare, folder)
            print(f"{trace}: {len(written):,} page writes, {len(set(written)):,} pages")
            more, agreeing = same(trace, Path(cachesim).resolve(), written, folder)
            rows, equal = rows + more, equal + agreeing
    print(f"{equal} of {rows} rows are equal")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
