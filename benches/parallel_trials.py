"""How a sweep of trials that only compute scales over worker processes, and what handing a trial over costs.

    .venv/bin/python benches/parallel_trials.py [WORKERS]

The first table runs 16 CPU-bound trials with 1 worker (this process) and with more, in turn, and prints how many times
as fast that is, beside the limit of this machine: the same loops in bare processes that the shell would start. The
second runs trials that do nothing: what is left is the durable record, which one process writes, and the way to a
worker and back, which is printed alone below it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path

TURNS = 3
POINTS = 16
STEPS = 10_000_000
EMPTY = 1000
CALLS = 3000
STUDY = 'title = "T"\ndriver = "null_pure"\nrepetitions = {}\n[params]\nsteps = {}\n[factors]\nlevel = {}\n'
LOOP = "from ioassay.drivers.null import _work\n_work({})"


def run_s(folder: Path, workers: int, repetitions: int, points: int, steps: int) -> float:
    """Seconds for the trials of one run; workers start and end within it."""
    from ioassay.roles import Consent
    from ioassay.runner import preflight, run
    from ioassay.runner.progress import Progress
    from ioassay.store.run_folder import RunStore
    from ioassay.study import catalog

    study = folder / "study.toml"
    study.write_text(STUDY.format(repetitions, steps, list(range(points))))
    suite = catalog.load(str(study))
    benches = preflight.assemble(suite, Consent())
    store = RunStore.create(folder / "run", suite, {})
    began_s = time.monotonic()
    tally = run.execute(store, benches, Progress(), workers)
    seconds = time.monotonic() - began_s
    assert tally.ok == repetitions * points, tally
    return seconds


def bare_s(processes: int) -> float:
    """Seconds for the same loops, shared out evenly to bare processes."""
    began_s = time.monotonic()
    code = LOOP.format(STEPS * POINTS // processes)
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(processes)]
    assert all(process.wait() == 0 for process in running)
    return time.monotonic() - began_s


def in_folder(workers: int, *shape: int) -> float:
    """One run in a folder of its own."""
    with tempfile.TemporaryDirectory(dir=Path()) as folder:
        return run_s(Path(folder), workers, *shape)


def sweep(most: int) -> None:
    """The first table."""
    numbers = sorted({1, 2, most})
    found: dict[int, list[float]] = {number: [] for number in numbers}
    bare: dict[int, list[float]] = {number: [] for number in numbers}
    for _ in range(TURNS):
        for number in numbers:
            found[number].append(in_folder(number, 1, POINTS, STEPS))
            bare[number].append(bare_s(number))
    one_s, one_bare_s = statistics.median(found[1]), statistics.median(bare[1])
    print(f"{POINTS} trials of {one_s / POINTS * 1000:.0f} ms   (medians of {TURNS})")
    print(f"{'workers':>8} {'seconds':>8} {'as fast':>8} {'bare processes':>15}")
    for number in numbers:
        seconds, bare_seconds = statistics.median(found[number]), statistics.median(bare[number])
        print(f"{number:8d} {seconds:8.2f} {one_s / seconds:7.2f}x {one_bare_s / bare_seconds:14.2f}x")


def empty(most: int) -> None:
    """The second table."""
    numbers = sorted({1, 2, most})
    found: dict[int, list[float]] = {number: [] for number in numbers}
    for _ in range(TURNS):
        for number in numbers:
            found[number].append(in_folder(number, EMPTY // 10, 10, 0))
    print(f"\n{EMPTY} trials that do nothing   (medians of {TURNS})\n{'workers':>8} {'ms/trial':>9} {'least':>6}")
    for number, times_s in found.items():
        print(f"{number:8d} {statistics.median(times_s) / EMPTY * 1000:9.2f} {min(times_s) / EMPTY * 1000:6.2f}")


def started_s(number: int) -> float:
    """Seconds until each of `number` workers has answered once."""
    from ioassay.runner import worker_pool

    began_s = time.monotonic()
    with worker_pool.Workers(number, "bench") as workers:
        for call in [workers.submit(time.sleep, 0.01) for _ in range(number)]:
            call.result()
        return time.monotonic() - began_s - 0.01


def handed_us(number: int) -> float:
    """Microseconds a call that does nothing, with twice as many in flight as there are workers."""
    from ioassay.runner import worker_pool

    flying: set[Future[float]] = set()
    with worker_pool.Workers(number, "bench") as workers:
        wait([workers.submit(time.sleep, 0.05) for _ in range(number)])
        began_s = time.monotonic()
        for _ in range(CALLS):
            while len(flying) >= 2 * number:
                flying = wait(flying, None, FIRST_COMPLETED)[1]
            flying.add(workers.submit(abs, 1.0))
        wait(flying)
        return (time.monotonic() - began_s) / CALLS * 1e6


def main() -> None:
    """Print everything."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else len(os.sched_getaffinity(0))
    sweep(most)
    empty(most)
    print(f"\none call by {most} workers: {statistics.median(handed_us(most) for _ in range(TURNS)):.0f} us")
    starts_ms = [started_s(most) * 1000 for _ in range(TURNS)]
    print(f"{most} workers are there after {statistics.median(starts_ms):.0f} ms")


if __name__ == "__main__":
    main()
