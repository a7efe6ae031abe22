"""What a Dask cluster adds to a trial, and whether memory stays flat over a long sweep.

    .venv/bin/python benches/cluster.py [--trials N]

A sweep of small simulations is computed by two local worker processes, by two workers of `dask:local`, and by Dask's
bare `client.map` of the same function on the same workers, which writes no records. Printed are milliseconds a trial,
what of them this process used the processor (it has the scheduler in it), and its resident memory after a fifth of the
trials and after all of them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ioassay.packs.hosts.executors.dask_executor import DaskExecutor
from ioassay.roles import Consent, Trial
from ioassay.runner import delivery, executors, preflight, run
from ioassay.runner.delivery import Order
from ioassay.runner.progress import Progress
from ioassay.store.run_folder import RunStore
from ioassay.study import plan
from ioassay.study.model import Suite, make_study

WORKERS, POLICIES = 2, ("fifo", "lru", "none", "clock")


@dataclass
class Memory(Progress):
    """Resident memory of this process in MB, after each fifth of the trials."""

    total: int
    seen: list[float] = field(default_factory=list)
    count: int = 0

    def ended(self, trial: Trial, status: str) -> None:
        assert status == "ok", status
        self.count += 1
        if self.count % (self.total // 5) == 0:
            self.seen.append(psutil.Process().memory_info().rss / 1e6)


def suite(trials: int) -> Suite:
    params = {"make": {"requests": 200}, "elements": 2, "buffer": "64KiB"}
    table = {
        "name": "sweep",
        "title": "Sweep",
        "driver": "simulate",
        "repetitions": trials // len(POLICIES),
        "params": params,
        "factors": {"policy": list(POLICIES)},
    }
    return Suite(name="sweep", title="Sweep", studies=[make_study(table, "sweep.toml")])


def swept(made: Suite, trials: int, executor: Executor | None) -> tuple[float, list[float]]:
    """Seconds of a whole run, and the memory meanwhile."""
    memory = Memory(trials)
    with tempfile.TemporaryDirectory(dir=Path()) as folder:
        benches = preflight.assemble(made, Consent())
        preflight.examine(benches)
        store = RunStore.create(Path(folder) / "run", made, {})
        began_s = time.perf_counter()
        run.execute(store, benches, memory, WORKERS, executor=executor)
        return time.perf_counter() - began_s, memory.seen


def mapped(made: Suite, client: object) -> float:
    """Seconds of Dask's own map of the same function over the same trials."""
    identity = delivery.identity()
    orders = [Order(trial, identity) for trial in plan.trials(made)]
    began_s = time.perf_counter()
    client.gather(client.map(delivery.compute, orders, pure=False))  # type: ignore[attr-defined]
    return time.perf_counter() - began_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=10_000)
    trials = parser.parse_args().trials
    made = suite(trials)

    def show(name: str, way: Callable[[], tuple[float, list[float]]]) -> None:
        began_s = time.process_time()
        seconds, memory = way()
        used_ms, took_ms = ((time.process_time() - began_s) / trials * 1e3, seconds / trials * 1e3)
        told = f", memory {memory[0]:.0f} MB after a fifth, {memory[-1]:.0f} MB at the end" if memory else ""
        print(f"{name:12} {took_ms:6.2f} ms a trial, {used_ms:.2f} ms here{told}", flush=True)

    ways: dict[str, Callable[[], tuple[float, list[float]]]] = {}
    with executors.opened(f"dask:local,workers={WORKERS}") as executor:
        assert isinstance(executor, DaskExecutor)
        executor.submit(len, ()).result()
        ways["dask:local"] = lambda: swept(made, trials, executor)
        ways["local"] = lambda: swept(made, trials, None)
        ways["client.map"] = lambda: (mapped(made, executor._client), [])
        for name, way in ways.items():
            show(name, way)


if __name__ == "__main__":
    main()
