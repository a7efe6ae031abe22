"""How long a simulation takes from the trace's file to its statistics, to begin, and how a sweep of them scales.

    .venv/bin/python benches/simulator.py [WORKERS]

The rate of the simulated drive itself, beside what memory allows, is printed by
`cargo bench -p ioassay-sim --bench drive`, that of the write buffers by `--bench policy`, that of the trace readers by
`cargo bench -p ioassay-block`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LINES = 1_000_000
CAPTURED: Any = {"check": True, "stdout": subprocess.PIPE, "text": True}
TURNS = 9
POINTS = 16
REQUESTS = 1_500_000
STUDY = """
title = "Sweep"
driver = "simulate"
[params]
policy = "lru"
window = "none"
driver = "fcfs"
[params.make]
requests = {requests}
arrivals = "poisson:20000"
range = "64GiB"
[factors]
buffer = [{buffers}]
"""
BARE = """
import sys, ioassay
from ioassay.simulation import traces
recipe = traces.recipe(requests={requests}, arrivals="poisson:20000", range="64GiB")
for buffer in sys.argv[1:]:
    ioassay.simulate(recipe, policy="lru", buffer=buffer, window="none", driver="fcfs")
"""
"""The same simulations without the laboratory around them."""


def from_file(folder: Path) -> None:
    """One million lines of DiskSim's format: read, simulated, summed up."""
    import ioassay
    from ioassay.simulation import traces

    path = folder / "writes.disksim"
    traces.make(path, to="disksim", requests=LINES, arrivals="poisson:20000", range="1GiB", seed=1)
    megabytes = path.stat().st_size / 1e6
    print(f"{LINES:,} lines, {megabytes:.0f} MB, 48 elements, medians of {TURNS} turns")
    unordered: dict[str, Any] = {"window": "none", "driver": "fcfs"}
    ways: dict[str, dict[str, Any]] = {
        "window 20, C-LOOK": {},
        "no window": unordered,
        "no window, LRU": {**unordered, "policy": "lru"},
    }
    for name, options in ways.items():
        times = [
            ioassay.simulate(path, format="disksim", cache=False, **options).summary["wall_s"] for _ in range(TURNS)
        ]
        median = statistics.median(times)
        print(f"  {name:20} {median:.3f} s  ({min(times):.3f} to {max(times):.3f})  {LINES / median / 1e6:.1f} M/s")
    began_s = time.perf_counter()
    traces.info(path, format="disksim", cache=False)
    print(f"  {'trace info alone':20} {time.perf_counter() - began_s:.3f} s")


def beside_duckdb(folder: Path) -> None:
    """The same file: the whole drive simulated, and two columns summed up by DuckDB with one thread, in turns."""
    import duckdb

    import ioassay
    from ioassay.simulation import traces

    path = folder / "sums.disksim"
    traces.make(path, to="disksim", requests=LINES, arrivals="poisson:20000", range="1GiB", seed=1)
    connection = duckdb.connect(config={"threads": 1})
    query = f"SELECT sum(column2), sum(column3) FROM read_csv('{path}', delim=' ', header=false)"
    ((_, sectors),) = connection.execute(query).fetchall()
    simulated_s, summed_s = [], []
    for _ in range(TURNS):
        began_s = time.perf_counter()
        done = ioassay.simulate(path, format="disksim", cache=False)
        simulated_s.append(time.perf_counter() - began_s)
        began_s = time.perf_counter()
        connection.execute(query).fetchall()
        summed_s.append(time.perf_counter() - began_s)
        assert done.raw["all"]["sectors"] == sectors, "DuckDB read another file"
    ratio = statistics.median(mine / other for mine, other in zip(simulated_s, summed_s, strict=True))
    medians = f"{statistics.median(simulated_s):.3f} s simulated, {statistics.median(summed_s):.3f} s summed by DuckDB"
    print(
        f"DuckDB {duckdb.__version__}, {LINES:,} lines, medians of {TURNS} turns: {medians}, {ratio:.2f} times its time"
    )


def one_pass(folder: Path) -> None:
    """A sweep from one pass over a file, beside separate runs of the same simulations, with and without the cache."""
    import ioassay
    from ioassay.packs.ssd import simulator
    from ioassay.simulation import traces

    path = folder / "sweep.disksim"
    traces.make(path, to="disksim", requests=LINES, arrivals="poisson:20000", range="1GiB", seed=1)
    plain: dict[str, Any] = {"window": "none", "driver": "fcfs", "policy": "lru", "blocks": 512}
    runs = [{**plain, "buffer": f"{size}MiB"} for size in (1, 2, 4, 8, 16, 32, 64, 128)]
    ratios: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(3):
        for cache, found in ratios.items():
            began_s = time.perf_counter()
            for run in runs:
                ioassay.simulate(path, format="disksim", cache=cache, **run)
            separate_s = time.perf_counter() - began_s
            began_s = time.perf_counter()
            simulator.sweep(path, runs, format="disksim", cache=cache)
            found.append(separate_s / (time.perf_counter() - began_s))
    uncached, cached = statistics.median(ratios[False]), statistics.median(ratios[True])
    print(f"{len(runs)} runs in one pass: {uncached:.2f} times as fast as separate runs, {cached:.2f} with the cache")


def start_up(folder: Path) -> None:
    """One request on the whole drive."""
    import ioassay
    from ioassay.simulation import traces

    path = folder / "one.disksim"
    traces.make(path, to="disksim", requests=1)
    times = [ioassay.simulate(path, format="disksim").summary["wall_s"] for _ in range(TURNS)]
    drive = ioassay.packs.ssd.simulator.check({})
    print(f"start-up: {1000 * statistics.median(times):.1f} ms for a drive of {drive['pages'] / 1e6:.1f} M pages")
    print(f"memory: {drive['memory_bytes'] / drive['pages']:.2f} bytes a page")


def in_memory() -> None:
    """A drive in memory: what a short run costs beyond its simulation, and a copy of the state of two drives."""
    import numpy as np

    from ioassay.packs.ssd import simulator

    controller = {"write_cache": "2MiB", "program_unit": "32KiB", "flash_page": "16KiB", "command_read_us": 8}
    feed: dict[str, Any] = {"feed": "closed:1", "window": "none", "driver": "fcfs"}
    for blocks in (80, 1600):
        shape = {"elements": 16, "dies": 1, "planes": 1, "blocks": blocks, "pages_per_block": 96, "reserve": 0.2}
        drive = simulator.Drive({**shape, **controller}, precondition=1, **feed)
        pages = drive.capacity_bytes // 4096
        print(f"copy of a drive of {pages:,} pages: {1000 * median_s(drive.copy):.2f} ms")
        offsets = np.random.default_rng(1).integers(0, pages, 500) * 4096
        reads = {"kind": np.zeros(500, np.uint8), "offset_bytes": offsets, "bytes": np.full(500, 4096)}
        for rows in (256, simulator.SHORT_SERIES):
            walls_s: list[float] = []

            def short_run(rows: int = rows, walls_s: list[float] = walls_s) -> None:
                walls_s.append(drive.run(reads, slices=rows).raw["wall_s"])  # noqa: B023

            all_s = median_s(short_run)
            beyond_s = all_s - statistics.median(walls_s)
            print(
                f"  500 reads, {rows} rows of the series: {1000 * all_s:.2f} ms, {1000 * beyond_s:.2f} beyond the run"
            )


def median_s(action: Callable[[], object], times: int = 200) -> float:
    taken_s = []
    for _ in range(times):
        began_s = time.perf_counter()
        action()
        taken_s.append(time.perf_counter() - began_s)
    return statistics.median(taken_s)


def sweep_s(folder: Path, buffers: list[str], workers: int) -> float:
    """Seconds of one run of the sweep."""
    from ioassay.roles import Consent
    from ioassay.runner import preflight, run
    from ioassay.runner.progress import Progress
    from ioassay.store.run_folder import RunStore
    from ioassay.study import catalog

    study = folder / "sweep.toml"
    study.write_text(STUDY.format(requests=REQUESTS, buffers=", ".join(f'"{size}"' for size in buffers)))
    suite = catalog.load(str(study))
    benches = preflight.assemble(suite, Consent())
    store = RunStore.create(folder / "run", suite, {})
    began_s = time.monotonic()
    tally = run.execute(store, benches, Progress(), workers)
    seconds = time.monotonic() - began_s
    assert tally.ok == POINTS, tally
    return seconds


def bare_s(buffers: list[str], processes: int) -> float:
    """Seconds of the same simulations in processes that a shell would start."""
    code = BARE.format(requests=REQUESTS)
    began_s = time.monotonic()
    shares = [buffers[number::processes] for number in range(processes)]
    running = [subprocess.Popen([sys.executable, "-c", code, *share]) for share in shares]
    assert all(process.wait() == 0 for process in running)
    return time.monotonic() - began_s


def sweep(workers: int) -> None:
    """How many times as fast the sweep is with several workers."""
    buffers = [f"{size}MiB" for size in range(1, POINTS + 1)]
    ratios, limits = [], []
    for _ in range(3):
        seconds = []
        for count in (1, workers):
            with tempfile.TemporaryDirectory() as folder:
                # In a process of its own: one that has simulated before has its memory already.
                code = f"import simulator; print(simulator.sweep_s(simulator.Path({folder!r}), {buffers}, {count}))"
                told = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, **CAPTURED)
                seconds.append(float(told.stdout))
        ratios.append(seconds[0] / seconds[1])
        limits.append(bare_s(buffers, 1) / bare_s(buffers, workers))
        print(f"  1 worker {seconds[0]:.1f} s, {workers} workers {seconds[1]:.1f} s: {ratios[-1]:.2f} times as fast")
    median, limit = statistics.median(ratios), statistics.median(limits)
    print(f"sweep of {POINTS} points, {workers} workers: {median:.2f} times as fast; bare processes {limit:.2f}")


def main() -> None:
    """Print all."""
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    with tempfile.TemporaryDirectory() as folder:
        from_file(Path(folder))
        beside_duckdb(Path(folder))
        one_pass(Path(folder))
        start_up(Path(folder))
    in_memory()
    sweep(workers)


if __name__ == "__main__":
    main()
