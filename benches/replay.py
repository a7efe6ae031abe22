"""When the requests of a trace reach the block layer, as ioassay's engine and as fio's read_iolog replay it.

    .venv/bin/python benches/replay.py [FOLDER] [--rate 50000] [--seconds 20] [--rounds 3] [--device DEV] [--fifo]

The trace: random reads of 4 KiB at a constant rate, an iolog of version 3, which both read. The target: a loop device
over an empty file on a tmpfs, or DEV, which is only read. The witness records when each request enters the block layer,
of both in the same way; the recording is in FOLDER (default: the working directory) meanwhile. The error of a request
is how much later it came than the trace says, counted from the request that came earliest by it. "own" is the lateness
that the engine reports itself. Drift is the slope of the errors' medians of each second, over the trace's time.
`--fifo` runs both by `chrt -f 5`, where other load would measure the scheduler: Linux then keeps 5 % of each second
for others (sched(7), real-time throttling), so beyond p95 even that measures it. The arms alternate.
Needs root and fio; without `--device` losetup. The loop device and its file are gone at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from record import EVENT, FILE_BYTES, loop_device

from ioassay.records.observation import RECORD
from ioassay.verify.witness import watch

BLOCK = 4096
OURS = """
import json, sys
from ioassay import _core
print(json.dumps(_core.replay({"path": sys.argv[1]}, {"path": sys.argv[2]})))
"""
FIO = ("fio", "--name=replay", "--ioengine=io_uring", "--direct=1", "--iodepth=1024",
       "--fixedbufs=1", "--thread", "--output-format=json")  # fmt: skip
FIFO = ("chrt", "-f", "5")
QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999, 1.0)


@dataclass(frozen=True)
class Run:
    """One replay."""

    errors_us: Sequence[float]
    """At the quantiles."""
    drift_ppm: float
    cpu_share: float
    """Of one processor, of the thread that issues."""
    in_order: float
    """Share of the requests that came at their place."""
    seconds: float
    note: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="where trace and recordings are written")
    parser.add_argument("--rate", type=int, default=50_000, help="requests a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="of the trace")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", type=Path, help="a block device that is read, instead of a loop device")
    parser.add_argument("--fifo", action="store_true")
    options = parser.parse_args()
    with ExitStack() as stack:
        device = options.device or Path("/dev", stack.enter_context(loop_device()))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder, prefix="replay-")))
        due_us, sectors = written(folder / "trace.iolog", device, options)
        scheduling = " ".join(FIFO) if options.fifo else "usual scheduling"
        print(f"{len(due_us):,} reads at {options.rate:,} a second on {device}, {scheduling}")
        heads = "".join(f"{f'p{100 * q:g}':>11s}" for q in QUANTILES[:-1])
        print(f"{'error in µs':12s}{heads}        max  drift ppm    CPU  in order  seconds   load")
        for _ in range(options.rounds):
            runs = {arm: run(arm, device, folder, due_us, sectors, options) for arm in ("ioassay", "fio")}
            ratios = [mine / theirs for mine, theirs in zip(*(one.errors_us for one in runs.values()), strict=True)]
            print(f"{'ratio':12s}" + "".join(f"{ratio:11.4f}" for ratio in ratios))


def written(path: Path, device: Path, options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Write the trace; due times in microseconds, sectors."""
    chance = random.Random(1)
    count = round(options.rate * options.seconds)
    due_us = np.arange(count) * 1_000_000 // options.rate
    # No two are neighbours, which the block layer would merge.
    blocks = [2 * chance.randrange(FILE_BYTES // BLOCK // 2) for _ in range(count)]
    with path.open("w") as file:
        file.write(f"fio version 3 iolog\n0 {device} add\n0 {device} open\n")
        file.writelines(
            f"{at} {device} read {block * BLOCK} {BLOCK}\n" for at, block in zip(due_us, blocks, strict=True)
        )
        file.write(f"{due_us[-1]} {device} close\n")
    return due_us, np.array(blocks) * (BLOCK // 512)


def run(
    arm: str, device: Path, folder: Path, due_us: np.ndarray, sectors: np.ndarray, options: argparse.Namespace
) -> Run:
    trace = str(folder / "trace.iolog")
    argv = (sys.executable, "-c", OURS, trace, str(device)) if arm == "ioassay" else (*FIO, f"--read_iolog={trace}")
    load = os.getloadavg()[0]
    watched = watch((*FIFO, *argv) if options.fifo else argv, RECORD, folder)
    if watched.outcome.exit_code != 0 or watched.seen is None or watched.seen.backend != "bpf":
        raise SystemExit((folder / "stderr").read_text()[:2000] or "the witness needs root and BPF")
    told = json.loads((folder / "stdout").read_text())
    events = np.fromfile(folder / "requests.bin", EVENT)[1:]
    number = device.stat().st_rdev
    events = events[events["dev"] == (os.major(number) << 20 | os.minor(number))]
    events = events[np.argsort(events["start_ns"], kind="stable")]
    if len(events) != len(due_us):
        raise SystemExit(f"{arm}: {len(events)} requests recorded, expected {len(due_us)}")
    late_us = events["start_ns"] / 1e3 - due_us
    late_us -= late_us.min()
    second = due_us // 1_000_000
    medians = [np.median(late_us[second == one]) for one in np.unique(second)]
    if arm == "ioassay":
        cpu_s, note = told["cpu_ns"] / 1e9, f"  own {shown(quantiles(told['lateness']))}"
    else:
        job = told["jobs"][0]
        cpu_s, note = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1e3, ""
    length_s = float(np.ptp(events["start_ns"]) / 1e9)
    done = Run(
        [float(np.quantile(late_us, q)) for q in QUANTILES],
        float(np.polyfit(np.arange(len(medians)), medians, 1)[0]) if len(medians) > 1 else 0.0,
        cpu_s / length_s,
        float(np.mean(events["sector"] == sectors)),
        length_s,
        note,
    )
    print(f"{arm:12s}{shown(done.errors_us)}{done.drift_ppm:11.1f}{done.cpu_share:7.0%}{done.in_order:10.2%}"
          f"{done.seconds:9.3f}{load:7.1f}{done.note}", flush=True)  # fmt: skip
    return done


def shown(errors_us: Sequence[float]) -> str:
    return "".join(f"{error:11.2f}" for error in errors_us)


def quantiles(distribution: dict[str, object]) -> list[float]:
    """Microseconds at the quantiles, of a distribution of the engine."""
    bins = distribution["bins"]
    assert isinstance(bins, dict)
    values = np.array([int(value) for value in bins])
    reached = np.cumsum(list(bins.values()))
    return [float(values[np.searchsorted(reached, q * reached[-1])]) / 1e3 for q in QUANTILES]


if __name__ == "__main__":
    main()
