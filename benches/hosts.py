"""What measuring on another host adds to a trial, and how close to one instant hosts start together.

    .venv/bin/python benches/hosts.py [--repetitions N]

Two workers on this host measure a command that ends at once, and this process does the same without them. Printed are
milliseconds from one trial to the next on each host, the ratio to those measured here, and the share of a processor
that a worker with nothing to do takes. Of the common starts: the time from the instant to the tool's start, what the
comparison of clocks may be wrong by, and the time between hosts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from ioassay.api.execution import RunOptions, begin
from ioassay.study.model import Suite, make_study

HOSTS = ("a", "b")


def suite(repetitions: int, run: Mapping[str, Any]) -> Suite:
    table = {
        "name": "start",
        "title": "Start",
        "driver": "command",
        "repetitions": repetitions,
        "params": {"argv": ["true"], "expected_time": "1s"},
        "watch": {"monitors": [], "witness": "off"},
        "run": run,
    }
    return Suite(name="start", title="Start", studies=[make_study(table, "start.toml")])


@contextmanager
def workers(folder: Path) -> Iterator[tuple[str, list[psutil.Process]]]:
    """The executor's name of a scheduler that two workers have joined, and these."""
    import distributed

    with ExitStack() as stack:
        cluster = distributed.LocalCluster(
            n_workers=0,
            host="127.0.0.1",
            protocol="tcp",
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            silence_logs=50,
        )
        stack.callback(cluster.close)
        processes = []
        for name in HOSTS:
            command = [sys.executable, "-m", "ioassay", "worker", cluster.scheduler_address, "--name", name]
            process = subprocess.Popen([*command, "--dir", str(folder), "--allow-exec"], stderr=subprocess.DEVNULL)
            processes.append(process)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        with distributed.Client(cluster, set_as_default=False) as client:
            while len(client.scheduler_info(n_workers=-1)["workers"]) < len(HOSTS):
                time.sleep(0.1)
        own = [psutil.Process(process.pid) for process in processes]
        yield f"dask://{cluster.scheduler_address.removeprefix('tcp://')}", own


def share(process: psutil.Process) -> float:
    """The share of a processor that a worker takes that has nothing to do."""
    before, began_s = used_s(process), time.perf_counter()
    time.sleep(10)
    return (used_s(process) - before) / (time.perf_counter() - began_s)


def used_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def measured(root: Path, made: Suite, executor: str | None) -> list[dict[str, Any]]:
    run = begin(made, root, RunOptions(executor, allow_exec=True)).run()
    found = [json.loads(path.read_text()) for path in run.root.glob("trials/*/record.json")]
    assert all(record["status"] == "ok" for record in found), run.failures()
    return sorted(found, key=lambda record: float(record["started_unix_s"]))


def period_ms(records: Sequence[Mapping[str, Any]]) -> float:
    """The median time from one start to the next."""
    starts = [float(record["started_unix_s"]) for record in records]
    return statistics.median(after - before for before, after in pairwise(starts)) * 1e3


def show(name: str, values_ms: Sequence[float]) -> None:
    ordered = sorted(values_ms)
    high = ordered[int(0.95 * (len(ordered) - 1))]
    print(f"{name:34} median {statistics.median(ordered):7.3f} ms, 95 % {high:7.3f} ms, most {ordered[-1]:7.3f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=40)
    repetitions = parser.parse_args().repetitions
    with tempfile.TemporaryDirectory() as name, workers(Path(name)) as (executor, own):
        folder = Path(name)
        idle = [share(process) for process in own]
        here = period_ms(measured(folder / "here", suite(repetitions, {}), None))
        there = measured(folder / "there", suite(repetitions, {"hosts": list(HOSTS)}), executor)
        together = measured(folder / "together", suite(repetitions, {"hosts": list(HOSTS), "together": True}), executor)
    print(f"here       {here:7.1f} ms a trial")
    for host in HOSTS:
        period = period_ms([record for record in there if record["trial"]["point"]["host"] == host])
        print(f"host {host}     {period:7.1f} ms a trial, {period / here:.2f} times as long as here, side by side")
    print(f"a worker that waits takes {max(idle):.2%} of a processor")
    show("from the instant to the start", [record["metrics"]["start.late"] / 1e6 for record in together])
    show("clocks may differ by", [record["metrics"]["start.uncertainty"] / 1e6 for record in together])
    groups: dict[int, list[float]] = {}
    for record in together:
        groups.setdefault(record["trial"]["repetition"], []).append(record["started_unix_s"] * 1e3)
    show("between the hosts", [max(starts) - min(starts) for starts in groups.values()])


if __name__ == "__main__":
    main()
