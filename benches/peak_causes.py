"""Whether the cause that ioassay names for a peak is the right one: loads that are limited on purpose.

    .venv/bin/python benches/peak_causes.py [--only lock-flock …] [--repetitions 5] [--seconds 2] [--keep FOLDER]

Each case is a sweep whose limit is known: processors, affinity, the CPU limit of a control group, memory, an I/O limit,
the disk, a lock; and one with no limit that a counter could show. The study runs as a user's would, its records are
analysed, and the cause named for the first response is held against the known one. Prints a row a case and the score.

Control groups are made for the case and removed after it: one that outweighs other programs of the machine, and one
with the I/O limits of the case. Nothing else of the host is changed. Needs
root, fio and stress-ng; a case that cannot run here is said and does not count.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioassay.analysis import optimum
from ioassay.analysis.optimum import Peak
from ioassay.analysis.peak_cause import Cause
from ioassay.drivers import DRIVERS
from ioassay.host import cgroup
from ioassay.narrative import peak_text
from ioassay.store.frames import load
from ioassay.store.run_folder import RunStore

MONITORS = ["cpu", "disk", "memory", "net", "pressure", "perf", "schedstat", "cgroup"]
STRESS = {"driver": "stress_ng", "response": "bogo_ops_real_rate"}
LIMITED = {"driver": "limited", "response": "limited.turns"}
FIO = {"driver": "fio", "response": "read.iops", "target": True}


IOASSAY = f"""
import runpy, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from ioassay.drivers import DRIVERS
DRIVERS["limited"] = "limited_load:LimitedLoad"
runpy.run_module("ioassay", run_name="__main__")
"""
"""The command line with one driver more."""


@dataclass(frozen=True)
class Case:
    """A sweep and what limits it. `io`: limits of a control group, by the names of version 1's files."""

    name: str
    causes: tuple[Cause, ...]
    tool: Mapping[str, Any]
    params: Mapping[str, Any]
    factor: str
    levels: Sequence[int]
    run: Mapping[str, Any] = field(default_factory=dict)
    io: Mapping[str, int] = field(default_factory=dict)
    size: str = "256MiB"


NPROC = len(os.sched_getaffinity(0))
WIDE = [1, NPROC, 2 * NPROC, 4 * NPROC]
READ = {"rw": "randread", "ioengine": "libaio", "direct": 1, "bs": "4KiB"}
CASES = [
    Case("processors", (Cause.PROCESSORS,), STRESS, {"stressor": "cpu", "cpu-method": "int64"}, "workers", WIDE),
    Case(
        "affinity", (Cause.PROCESSORS,), STRESS, {"stressor": "cpu", "cpu-method": "int64"}, "workers", [1, 2, 4],
        run={"affinity": "0"},
    ),
    Case(
        "taskset", (Cause.PROCESSORS, Cause.RUN_QUEUE), STRESS,
        {"stressor": "cpu", "cpu-method": "int64", "taskset": "0"}, "workers", [1, 2, 4],
    ),
    Case(
        "cpu-limit-half", (Cause.QUOTA,), STRESS, {"stressor": "cpu", "cpu-method": "int64"}, "workers", [1, 2, 4],
        run={"cpu_limit": 0.5},
    ),
    Case(
        "cpu-limit", (Cause.QUOTA,), STRESS, {"stressor": "cpu", "cpu-method": "int64"}, "workers", WIDE,
        run={"cpu_limit": 0.75 * NPROC},
    ),
    Case("memory", (Cause.MEMORY,), LIMITED, {"load": "pages"}, "workers", [1, 2, 4, 8], run={"memory_limit": "96MiB"}),
    Case("lock-file", (Cause.LOCK,), LIMITED, {"load": "flock"}, "workers", [1, 2, 4, 8]),
    Case("lock-semaphore", (Cause.LOCK,), LIMITED, {"load": "semaphore"}, "workers", [1, 2, 4, 8]),
    Case("io-limit", (Cause.IO_LIMIT,), FIO, READ, "iodepth", [1, 2, 4, 8], io={"read_iops": 1000}),
    Case("io-limit-bytes", (Cause.IO_LIMIT,), FIO, {**READ, "bs": "64KiB"}, "iodepth", [1, 2, 4, 8],
         io={"read_bps": 30_000_000}),
    Case("disk", (Cause.DISK,), FIO, {**READ, "bs": "1MiB"}, "iodepth", [1, 8, 64]),
    Case("nothing", (Cause.NONE,), FIO, {**READ, "ioengine": "psync", "rate_iops": 1000}, "iodepth", [1, 2, 4, 8]),
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=[case.name for case in CASES], default=[])
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=2, help="of each trial; stress-ng takes whole ones")
    parser.add_argument("--keep", type=Path, help="keep the runs in this folder")
    parser.add_argument("--verbose", action="store_true", help="show every counter")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that control groups are removed
    right, ran = 0, 0
    with tempfile.TemporaryDirectory(prefix="peak-causes-", dir=options.keep) as folder:
        for case in CASES:
            if options.only and case.name not in options.only:
                continue
            place = Path(options.keep or folder, case.name)
            shutil.rmtree(place, ignore_errors=True)
            why = measure(case, place, options.repetitions, options.seconds)
            if why:
                print(f"{case.name:16s} cannot run here: {why}", flush=True)
                continue
            good = report(case, peaks_of(place / "run"), options.verbose)
            right, ran = right + good, ran + 1
    print(f"\n{right} of {ran} causes are right, with {options.repetitions} repetitions of {options.seconds} s")


def measure(case: Case, place: Path, repetitions: int, seconds: int) -> str:
    """Run the study of a case; why it could not be run, or ''."""
    place.mkdir(parents=True)
    (place / "study.toml").write_text(study(case, place, repetitions, seconds))
    command = [sys.executable, "-c", IOASSAY, "run", str(place / "study.toml"), "--output", str(place / "run")]
    try:
        with limited(case, place) as groups:

            def enter() -> None:
                for group in groups:
                    Path(group, "cgroup.procs").write_text(str(os.getpid()))

            done = subprocess.run(command, capture_output=True, text=True, cwd=place, preexec_fn=enter)
    except OSError as error:
        return str(error)
    failed = done.returncode != 0 and not (place / "run" / "plan.jsonl").exists()
    return (done.stderr or done.stdout).strip().splitlines()[-1] if failed else ""


def study(case: Case, place: Path, repetitions: int, seconds: int) -> str:
    """The study's TOML."""
    length = {"fio": "runtime", "stress_ng": "timeout", "limited": "seconds"}[case.tool["driver"]]
    lasting = seconds if case.tool["driver"] == "limited" else f"{seconds}s"
    tables: dict[str, dict[str, Any]] = {
        "params": {**case.params, length: lasting},
        "factors": {case.factor: list(case.levels)},
        "run": dict(case.run),
        "watch": {"monitors": MONITORS, "interval": "100ms"},
        "analysis": {"lead": "peak", "responses": [case.tool["response"]]},
    }
    if case.tool.get("target"):
        tables["target"] = {"kind": "file", "path": str(place / "file"), "size": case.size}
    lines = [f'title = "{case.name}"', f'driver = "{case.tool["driver"]}"', f"repetitions = {repetitions}"]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{key} = {toml(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


@contextmanager
def limited(case: Case, place: Path) -> Iterator[list[Path]]:
    """Groups for the run: one that outweighs other programs, and one with the I/O limits of the case, on the device
    under `place`; OSError where there can be none of the latter.
    """
    trees = cgroup.groups_of("self")
    groups: list[Path] = []
    try:
        if "cpu" in trees:
            version, _, mount = trees["cpu"]
            groups.append(made(mount))
            name, most = ("cpu.shares", 262144) if version == 1 else ("cpu.weight", 10000)
            (groups[-1] / name).write_text(str(most))
        if case.io:
            controller = next((name for name in ("io", "blkio") if name in trees), None)
            if controller is None:
                raise OSError("no control group limits I/O here")
            version, _, mount = trees[controller]
            groups.append(made(mount))
            limit(groups[-1], version, case.io, place.stat().st_dev)
        yield groups
    finally:
        for group in set(groups):
            remove(group)


def made(mount: Path) -> Path:
    """A group of this benchmark's own; of version 2 one for all controllers."""
    group = mount / f"peak-causes-{os.getpid()}"
    group.mkdir(exist_ok=True)
    return group


def remove(group: Path, patience_s: float = 10.0) -> None:
    """Remove a group once the processes of an interrupted run have ended."""
    end_s = time.monotonic() + patience_s
    while group.exists():
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.1)


def limit(group: Path, version: int, limits: Mapping[str, int], device: int) -> None:
    """Limit the I/O of a group."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for name, most in limits.items():
        if version == 1:
            (group / f"blkio.throttle.{name}_device").write_text(f"{number} {most}")
        else:
            (group / "io.max").write_text(f"{number} {name[0]}{name.partition('_')[2]}={most}")


def peaks_of(run: Path) -> list[Peak]:
    """The peaks of the first response."""
    DRIVERS["limited"] = "limited_load:LimitedLoad"
    records = load(RunStore.open(run))
    (study,) = records.studies
    (response, *_) = optimum.judged(records, study)
    return [peak for peaks in optimum.measured(records, study, response).values() for peak in peaks]


def report(case: Case, peaks: Sequence[Peak], verbose: bool) -> bool:
    """Print what was named; whether it is the right cause."""
    wanted = " or ".join(case.causes)
    for peak in peaks:
        named = peak.explanation.cause if peak.explanation else None
        good = named in case.causes or (named is None and Cause.NONE in case.causes)
        print(f"{'right' if good else 'WRONG':6s}{case.name:16s} wanted {wanted:24s} named {named or peak.outcome}")
        text = peak_text.causes(peak) or peak_text.in_brief(peak)
        print(f"      {' '.join(map(str, text))}", flush=True)
        for table in peak_text.counters_table(peak) if verbose or not good else []:
            for row in table.rows:
                print(f"        {row[0]:42s} {row[1]:>12s} {row[2]:>12s} {row[3]:>12s}  {row[4]}")
        if not good:
            means = {str(peak.level(index)): float(cell.values.mean()) for index, cell in enumerate(peak.cells)}
            print(f"        {case.tool['response']}: {means}")
        return good
    print(f"WRONG {case.name:16s} wanted {wanted:24s} nothing was measured")
    return False


if __name__ == "__main__":
    main()
