"""Recording at the highest rate of block requests that this machine makes: what is lost, and what it costs.

    .venv/bin/python benches/record.py [FOLDER] [--loops 4] [--depth 128] [--rounds 5] [--seconds 3] [--quick]

The source: fio's io_uring with 128 requests under way on each of several loop devices over empty files on a tmpfs,
where a read gives zeros. `--depth` sets the rate: one request at a time takes the processors several times as long.
Loop devices have queues of requests as disks have, and take no time but the processor's. Recorded are all requests of
the machine, to a file in FOLDER (default: the working directory). "issued" is what the devices' own statistics say
(/sys/block/*/stat), "recorded" the events in the file. The arms alternate in random order. A rate that the load does
not reach says nothing about the recording: what must hold is recorded = issued.
Then the ring, the thread and the file alone: an event for each pread64 of pread_loop.c, with no block layer around it.
Needs root, fio and cc. The loop devices and their files are gone at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from monitor_cost import median_interval

from ioassay.records.observation import BLOCK, OFF, RECORD, SYSCALLS
from ioassay.verify.witness import Observed, watch

FILE_BYTES = 64 << 20
ARMS = (OFF, BLOCK, SYSCALLS, RECORD)
FIO = ("fio", "--ioengine=io_uring", "--fixedbufs=1", "--registerfiles=1", "--direct=1", "--rw=randread",
       "--norandommap", "--gtod_reduce=1", "--time_based", "--thread", "--group_reporting",
       "--output-format=json")  # fmt: skip
EVENT = np.dtype(
    [("start_ns", "u8"), ("sector", "u8"), ("d2c_ns", "u8")]
    + [(name, "u4") for name in ("q2d_ns", "bytes", "cmd_flags", "dev")]
)
"""struct event of crates/witness/bpf/shapes.h; the file begins with one that is a line of text."""
LOOP_MAJOR, NO_DEVICE = 7, 0
CACHED_BYTES = 16 << 20
SLICE_NS = 100_000_000


@dataclass(frozen=True)
class Run:
    """One arm of a round."""

    per_s: float
    issued: int
    """By the devices' statistics."""
    cpu_s: float = 0.0
    seconds: float = 0.0
    dropped: int = 0
    missed: int = 0
    counted: int = 0
    """Requests that the witness counted."""
    recorded: int = 0
    """Events on the loop devices."""
    unended: int = 0
    """Events whose completion was not seen."""
    slices: Sequence[float] = field(default=())
    """Events a second of each 100 ms."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="where the recordings are written")
    parser.add_argument("--loops", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--depth", type=int, default=128, help="requests under way on each; half of them at once")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one run")
    parser.add_argument("--block-bytes", type=int, default=512)
    parser.add_argument("--quick", action="store_true", help="one round of a second each")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 1.0
    chance = random.Random(options.seed)
    with suppress(PermissionError):
        os.nice(-20 - os.nice(0))
    with ExitStack() as stack:
        devices = [stack.enter_context(loop_device()) for _ in range(options.loops)]
        run(OFF, devices, options)
        rounds = [
            {arm: run(arm, devices, options) for arm in chance.sample(ARMS, len(ARMS))} for _ in range(options.rounds)
        ]
    say(rounds, options)
    say_ring(options)


@contextmanager
def loop_device() -> Iterator[str]:
    """Name of a loop device over an empty file in memory."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="record-") as file:
        file.truncate(FILE_BYTES)
        attach = ["losetup", "--find", "--show", file.name]
        device = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
        try:
            yield Path(device).name
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)


def run(arm: str, devices: Sequence[str], options: argparse.Namespace) -> Run:
    jobs = [word for name in devices for word in (f"--name={name}", f"--filename=/dev/{name}")]
    batch = max(options.depth // 2, 1)
    depth = (f"--iodepth={options.depth}", f"--iodepth_batch_submit={batch}", f"--iodepth_batch_complete_min={batch}")
    argv = (*FIO, *depth, f"--runtime={options.seconds * 1000:g}ms", f"--bs={options.block_bytes}", *jobs)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="record-") as name:
        before = sum(map(reads_of, devices))
        watched = watch(argv, arm, Path(name))
        issued = sum(map(reads_of, devices)) - before
        if watched.outcome.exit_code != 0:
            raise SystemExit((Path(name) / "stderr").read_text()[:2000])
        per_s = iops((Path(name) / "stdout").read_text())
        if watched.seen is None:
            return Run(per_s, issued)
        seen = watched.seen
        if seen.backend != "bpf":
            raise SystemExit(f"the witness cannot be measured here: {seen.why}")
        done = Run(
            per_s,
            issued,
            seen.cost["cpu_s"],
            watched.outcome.duration_s,
            seen.health["dropped"],
            seen.health["missed"],
            sum(one.calls.calls for one in seen.block if one.name in devices),
        )
        if arm != RECORD:
            return done
        events = np.fromfile(Path(name) / "requests.bin", EVENT)[1:]
    events = events[events["dev"] >> 20 == LOOP_MAJOR]
    slices = np.bincount(((events["start_ns"] - events["start_ns"].min()) // SLICE_NS).astype(int)) * (1e9 / SLICE_NS)
    unended = int((events["d2c_ns"] == 2**64 - 1).sum())
    return replace(done, recorded=len(events), unended=unended, slices=slices.tolist())


def reads_of(device: str) -> int:
    return int(Path(f"/sys/block/{device}/stat").read_text().split()[0])


def iops(text: str) -> float:
    jobs = json.JSONDecoder().raw_decode(text[text.index("{\n") :])[0]["jobs"]
    return float(sum(job["read"]["iops"] for job in jobs))


def say(rounds: Sequence[dict[str, Run]], options: argparse.Namespace) -> None:
    load = f"{options.loops} loop devices, {options.block_bytes} B a read, {options.depth} under way on each"
    print(f"{load}, {len(rounds)} rounds of {options.seconds:g} s")
    print(f"{'':10s}{'reads a second':>14s}  {'ratio':>6s}  {'interval':>17s}  own CPU  counted - issued  missed")
    for arm in ARMS:
        runs = [one[arm] for one in rounds]
        line = f"{arm:10s}{statistics.median(one.per_s for one in runs):14,.0f}"
        print(line if arm == OFF else line + beside(runs, [one[OFF] for one in rounds]))
    print("\nrecorded: events a second (best 100 ms)       issued    recorded  dropped  without an end")
    for one in (each[RECORD] for each in rounds):
        rates = f"{one.per_s:15,.0f} ({max(one.slices):9,.0f})"
        print(f"          {rates}{one.issued:19,d}{one.recorded:12,d}{one.dropped:9d}{one.unended:16d}")


def beside(runs: Sequence[Run], base: Sequence[Run]) -> str:
    ratios = [one.per_s / bare.per_s for one, bare in zip(runs, base, strict=True)]
    low, high, _ = median_interval(ratios)
    share = statistics.median(one.cpu_s / one.seconds for one in runs)
    wrong = max((one.counted - one.issued for one in runs), key=abs)
    missed = sum(one.missed for one in runs)
    return f"  {statistics.median(ratios):6.3f}  ({low:6.3f} … {high:6.3f})  {share:7.1%}  {wrong:16d}  {missed:6d}"


def say_ring(options: argparse.Namespace) -> None:
    """An event for each call: how many a second find room and reach the file."""
    print("\nring alone: calls a second  untraced  ratio        calls      events  dropped  own CPU")
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="record-") as name:
        folder = Path(name)
        (folder / "cached").write_bytes(os.urandom(CACHED_BYTES))
        loop = Path(__file__).with_name("pread_loop.c")
        subprocess.run(["cc", "-O2", "-o", folder / "loop", loop], check=True)
        for _ in range(options.rounds):
            argv = (str(folder / "loop"), str(folder / "cached"), "512", f"{options.seconds:g}")
            _, bare_per_s = called(watch(argv, OFF, folder), folder)
            watched = watch(argv, RECORD, folder, layers=("synthetic",))
            calls, per_s = called(watched, folder)
            assert watched.seen is not None
            events = int((np.fromfile(folder / "requests.bin", EVENT)[1:]["dev"] == NO_DEVICE).sum())
            share = watched.seen.cost["cpu_s"] / watched.outcome.duration_s
            print(f"          {per_s:16,.0f}{bare_per_s:10,.0f}{per_s / bare_per_s:7.2f}{calls:13,d}{events:12,d}"
                  f"{watched.seen.health['dropped']:9d}{share:9.1%}")  # fmt: skip


def called(watched: Observed, folder: Path) -> tuple[int, float]:
    """Calls of the loop, and calls a second."""
    if watched.outcome.exit_code != 0:
        raise SystemExit((folder / "stderr").read_text()[:2000])
    calls, ns, _ = map(int, (folder / "stdout").read_text().split())
    return calls, calls / ns * 1e9


if __name__ == "__main__":
    main()
