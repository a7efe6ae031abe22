"""What the monitors cost the benchmark they watch: fio's null engine with and without them, and each reading's price.

    .venv/bin/python benches/monitor_cost.py [--only cost] [--runs 3] [--rounds 12] [--window 2]

First what the sampler itself takes of one core with all monitors ten times a second, on the idle machine and with all
cores loaded, and each monitor's share of it; then what that does to fio.

The null engine does no I/O, so its IOPS are pure processor time: the worst case for anything that runs beside it. Two
runs of fio differ by more than what is looked for, so the arms alternate in windows of one run, in random order within
each round; fio logs its IOPS every 100 ms. A round gives one ratio an arm, and the interval is that of the median of
the ratios (order statistics, no assumption about their distribution). A second table compares whole runs in pairs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from ioassay.monitors import MONITORS, monitor
from ioassay.monitors.sampler import Sampler
from ioassay.process import supervisor
from ioassay.roles import ProcessMonitor

FIO = ("fio", "--name=null", "--ioengine=null", "--rw=randread", "--bs=4k", "--size=1G", "--time_based",
       "--thread", "--output-format=json")  # fmt: skip
LOG_MS = 100
ALL = tuple(name for name in MONITORS if name != "null")
BASE = "no monitors"
ARMS: dict[str, tuple[tuple[str, ...], float]] = {
    BASE: ((), 1.0),
    "cpu, disk every 250 ms": (("cpu", "disk"), 0.25),
    "perf, schedstat, cgroup every 100 ms": (("perf", "schedstat", "cgroup"), 0.1),
    "all every 100 ms": (ALL, 0.1),
}
PSUTIL: dict[str, Callable[[], object]] = {
    "cpu": lambda: (psutil.cpu_times(percpu=True), psutil.cpu_times(), psutil.cpu_stats()),
    "disk": lambda: psutil.disk_io_counters(perdisk=True),
    "memory": lambda: (psutil.virtual_memory(), psutil.swap_memory()),
    "net": lambda: psutil.net_io_counters(pernic=True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="runs of fio with alternating windows")
    parser.add_argument("--rounds", type=int, default=12, help="rounds in each of them")
    parser.add_argument("--window", type=float, default=2.0, help="seconds of one window")
    parser.add_argument("--pairs", type=int, default=7, help="rounds of whole runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement of the sampler's own cost")
    parser.add_argument("--only", choices=["cost"], help="leave out what takes longer")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    say_prices()
    say_cost(options.seconds)
    if options.only:
        return
    found = [alternating(options.rounds, options.window, chance) for _ in range(options.runs)]
    rounds = [one for run in found for one in run]
    say(f"windows of {options.window:g} s within {options.runs} runs, {len(rounds)} rounds", rounds)
    whole = [{arm: whole_run(arm, options.window) for arm in shuffled(chance)} for _ in range(options.pairs)]
    say(f"whole runs of {options.window:g} s, {options.pairs} rounds", whole)


def say_prices(readings: int = 1000, cold: int = 20) -> None:
    print(f"one reading, processor time in µs, on {os.cpu_count()} processors; cold: after 100 ms of doing nothing")
    for name in (*ALL, "null"):
        made = monitor(name)
        if isinstance(made, ProcessMonitor):
            made.attach(os.getpid())  # events are open and counted from the next program on: reading costs the same
        read = made.read
        other = f"   psutil {price_us(PSUTIL[name], readings):6.1f}" if name in PSUTIL else ""
        print(f"  {name:10s}{price_us(read, readings):7.1f}   cold {price_us(read, cold, 0.1):6.1f}{other}")


def price_us(read: Callable[[], object], readings: int, pause_s: float = 0.0) -> float:
    read()
    spent_s = 0.0
    for _ in range(readings):
        if pause_s:
            time.sleep(pause_s)
        began_s = time.thread_time()
        read()
        spent_s += time.thread_time() - began_s
    return spent_s / readings * 1e6


def say_cost(seconds: float, runs: int = 5) -> None:
    """All monitors at 10 Hz: of one core, during the load and after it."""
    print(f"\nall {len(ALL)} monitors every 100 ms, {seconds:g} s, median of {runs} (least … most), share of one core")
    print(f"  {'':14s}{'while sampling':>30s}   parsing, after the end")
    for title, busy in (("idle", 0), ("all cores busy", os.cpu_count() or 1)):
        with burning(busy):
            costs = [sampled(ALL, seconds) for _ in range(runs)]
        share = sorted(cost["cpu_s"] / seconds for cost in costs)
        parsing = statistics.median(cost["parsing_cpu_s"] / seconds for cost in costs)
        spread = f"({share[0]:.3%} … {share[-1]:.3%})"
        print(f"  {title:14s}{statistics.median(share):9.3%} {spread:>20s}   {parsing:.3%}", flush=True)
    alone = {name: statistics.median(sampled((name,), seconds / 2)["cpu_s"] for _ in range(3)) for name in ALL}
    bare = statistics.median(sampled((), seconds / 2)["cpu_s"] for _ in range(3))
    print(f"  one alone, idle: {'  '.join(f'{name} {cost / seconds * 2:.3%}' for name, cost in alone.items())}")
    print(f"  the sampler without any: {bare / seconds * 2:.3%}", flush=True)


def sampled(names: Sequence[str], seconds: float) -> dict[str, float]:
    sampler = Sampler([monitor(name) for name in names], 0.1)
    sampler.start()
    time.sleep(seconds)
    return sampler.stop()[1]


@contextmanager
def burning(processes: int) -> Iterator[None]:
    """So many processes that do nothing but compute."""
    burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(processes)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def shuffled(chance: random.Random) -> list[str]:
    return chance.sample(list(ARMS), len(ARMS))


Round = Mapping[str, tuple[float, float]]
"""Arm -> IOPS, and the share of one core that the sampler used."""


def alternating(rounds: int, window_s: float, chance: random.Random) -> list[Round]:
    """One run of fio; the arms in turn while it goes on."""
    with tempfile.TemporaryDirectory() as folder:
        log = ["--log_unix_epoch=1", f"--log_avg_msec={LOG_MS}", "--write_iops_log=null", "--per_job_logs=0"]
        seconds = rounds * len(ARMS) * window_s + 3
        fio = subprocess.Popen([*FIO, *log, f"--runtime={seconds:g}"], cwd=folder, stdout=subprocess.DEVNULL)
        try:
            time.sleep(1)
            spans = [{arm: watched(arm, window_s, fio.pid) for arm in shuffled(chance)} for _ in range(rounds)]
        finally:
            fio.terminate()
            fio.wait()
        text = Path(folder, "null_iops.log").read_text()
    lines = [line.split(",") for line in text.splitlines()]
    logged = [(int(columns[0]), int(columns[1])) for columns in lines]
    return [{arm: (mean_iops(logged, *span), share) for arm, (span, share) in one.items()} for one in spans]


def watched(arm: str, window_s: float, pid: int) -> tuple[tuple[float, float], float]:
    """Watch for one window; its beginning and end (unix ms), and the sampler's share of a core."""
    names, interval_s = ARMS[arm]
    began_s = time.time()
    if not names:
        time.sleep(window_s)
        return (began_s * 1000, time.time() * 1000), 0.0
    sampler = Sampler([monitor(name) for name in names], interval_s)
    sampler.attach(pid)
    sampler.start()
    time.sleep(window_s)
    _, cost = sampler.stop()
    return (began_s * 1000, time.time() * 1000), cost["cpu_s"] / window_s


def mean_iops(logged: Sequence[tuple[int, int]], begin_ms: float, end_ms: float) -> float:
    """Of the log's entries whose whole 100 ms lie within the window."""
    return statistics.fmean(iops for at_ms, iops in logged if begin_ms + LOG_MS <= at_ms <= end_ms)


def whole_run(arm: str, seconds: float) -> tuple[float, float]:
    """A run as a trial makes it: the sampler starts while fio is held."""
    names, interval_s = ARMS[arm]
    sampler = Sampler([monitor(name) for name in names], interval_s) if names else None

    def held(pid: int) -> None:
        if sampler is not None:
            sampler.attach(pid)
            sampler.start()

    with tempfile.TemporaryDirectory() as folder:
        outcome = supervisor.run(
            [*FIO, f"--runtime={seconds:g}"],
            stdout=Path(folder, "stdout"),
            stderr=Path(folder, "stderr"),
            timeout_s=seconds + 60,
            on_held=held,
        )
        share = sampler.stop()[1]["cpu_s"] / outcome.duration_s if sampler else 0.0
        text = Path(folder, "stdout").read_text()
    return json.loads(text[text.index("{") :])["jobs"][0]["read"]["iops"], share


def say(title: str, rounds: Sequence[Round]) -> None:
    print(f"\nfio, null engine, one job: {title}")
    for arm in ARMS:
        iops = [one[arm][0] for one in rounds]
        line = f"  {arm:38s}{statistics.median(iops) / 1e6:7.3f} M IOPS"
        if arm != BASE:
            ratios = [one[arm][0] / one[BASE][0] for one in rounds]
            low, high, coverage = median_interval(ratios)
            line += f"   ratio {statistics.median(ratios):.4f} ({low:.4f} … {high:.4f}, {coverage:.0%} interval)"
            line += f"   sampler {statistics.median(one[arm][1] for one in rounds):.3%} of a core"
        print(line, flush=True)


def median_interval(values: Sequence[float], wanted: float = 0.95) -> tuple[float, float, float]:
    """The narrowest pair of order statistics around the median with at least the `wanted` coverage, and its coverage.

    Conover, Practical Nonparametric Statistics, 3.2: the number of values below the median is binomial(n, 1/2).
    """
    ordered, n = sorted(values), len(values)
    for k in range(n // 2, 0, -1):
        coverage = 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n
        if coverage >= wanted:
            return ordered[k - 1], ordered[n - k], coverage
    return ordered[0], ordered[-1], 1 - 2 / 2**n


if __name__ == "__main__":
    main()
