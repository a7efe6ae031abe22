"""What the live view costs the benchmark that it shows: fio's null engine without it, with it, and with its page.

    .venv/bin/python benches/live.py [--rounds 15] [--seconds 4]

The null engine does no I/O, so its requests are pure CPU time: the worst case for anything that runs with it. The arms
take turns, in random order within each round, so that each round gives a ratio to the arm without. Requests a second
depend on what else the machine does; requests per second of fio's own CPU time hardly do, so both are given, each with
the interval of its median (order statistics). The last arm is what ioassay does not use, `--status-interval`.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from monitor_cost import median_interval

from ioassay import host
from ioassay.packs.fio.driver import Fio
from ioassay.packs.live.live_page import PageServer, RunState
from ioassay.process import supervisor
from ioassay.roles import Trial
from ioassay.runner.trial import RateReader

FIO = ("fio", "--name=null", "--ioengine=null", "--rw=randread", "--bs=4k", "--size=1G", "--time_based",
       "--output-format=json+")  # fmt: skip
TRIAL = Trial("1", "null", "fio", {"bs": "4KiB"}, {}, {}, {}, 0, 1, 0)
BASE = "without"


@dataclass(frozen=True)
class Arm:
    """How fio is run, whether its rates are read, and how many clients the page has; None for no page."""

    options: Sequence[str]
    reads: bool = False
    clients: int | None = None


ARMS: Mapping[str, Arm] = {
    BASE: Arm(["--eta=never"]),
    "rates": Arm(["--eta=always"], reads=True),
    "rates, page, 3 clients": Arm(["--eta=always"], reads=True, clients=3),
    "rates, page, 50 clients": Arm(["--eta=always"], reads=True, clients=50),
    "--status-interval=1": Arm(["--eta=never", "--status-interval=1"]),
}
CLIENTS = """
import select, socket, sys
from urllib.parse import urlsplit
url = urlsplit(sys.argv[1])
all = [socket.create_connection((url.hostname, url.port)) for _ in range(int(sys.argv[2]))]
for each in all:
    each.sendall(f"GET {url.path}events HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n".encode())
while all:
    for each in select.select(all, [], [])[0]:
        if not each.recv(65536):
            all.remove(each)
"""


@dataclass(frozen=True)
class Run:
    """One run of fio: its requests a second and per second of its CPU time, our CPU time, what it wrote."""

    iops: float
    per_cpu_s: float
    own_share: float
    results_bytes: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=4.0, help="of one run of fio")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    rounds = [
        {name: run(ARMS[name], options.seconds) for name in chance.sample(list(ARMS), len(ARMS))}
        for _ in range(options.rounds)
    ]
    print(f"fio, null engine, one job: {options.rounds} rounds of {options.seconds:g} s an arm; ratios to '{BASE}'")
    print(f"{'':26s}{'M IOPS':>8s}   ratio of IOPS, its median      ratio per CPU second           our CPU   results")
    for name in ARMS:
        runs = [each[name] for each in rounds]
        iops, own = (statistics.median(values) for values in zip(*((r.iops, r.own_share) for r in runs), strict=True))
        size = statistics.median(r.results_bytes for r in runs)
        base = [each[BASE] for each in rounds]
        ratios = [
            interval([one.iops / other.iops for one, other in zip(runs, base, strict=True)]),
            interval([one.per_cpu_s / other.per_cpu_s for one, other in zip(runs, base, strict=True)]),
        ]
        print(f"{name:26s}{iops / 1e6:8.3f}   {ratios[0]:30s} {ratios[1]:30s} {own:7.2%} {size / 1e3:8.0f} kB")


def interval(ratios: Sequence[float]) -> str:
    low, high, _ = median_interval(ratios)
    return f"{statistics.median(ratios):.4f} ({low:.4f} … {high:.4f})"


def run(arm: Arm, seconds: float) -> Run:
    state = RunState("PreparedStudy", Path(), 1, seconds, [TRIAL])
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        device = (host.devices(folder) or [""])[0]
        reader = RateReader(Fio(), folder / "stdout", device, lambda rates: state.measuring(TRIAL, rates))
        if arm.clients is not None:
            stack.enter_context(followed(state, arm.clients))
        before_s = own_cpu_s()
        outcome = supervisor.run(
            [*FIO, *arm.options, f"--runtime={seconds:g}", f"--output={folder / 'fio.json'}"],
            stdout=folder / "stdout",
            stderr=folder / "stderr",
            timeout_s=seconds + 60,
            on_held=(lambda pid: reader.begin()) if arm.reads else None,
            on_wait=reader.report if arm.reads else None,
        )
        own_s = own_cpu_s() - before_s
        state.end("complete", "")
        text = (folder / "fio.json").read_text()
    read = json.loads(text[text.rindex("\n{") if "\n{" in text else 0 :])["jobs"][0]["read"]
    assert outcome.usage is not None
    cpu_s = outcome.usage.ru_utime + outcome.usage.ru_stime
    return Run(read["iops"], read["total_ios"] / cpu_s, own_s / outcome.duration_s, len(text))


def own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextmanager
def followed(state: RunState, clients: int) -> Iterator[None]:
    """The page, with so many clients in a process of their own."""
    server = PageServer(state)
    server.start()
    following = subprocess.Popen([sys.executable, "-c", CLIENTS, server.url, str(clients)])
    try:
        yield
    finally:
        server.stop()
        following.wait(20)


if __name__ == "__main__":
    main()
