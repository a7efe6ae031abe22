"""Synchronisations of the study `database-log`: 99th percentiles of fio, of the record and of the kernel.

    .venv/bin/python benches/sync_latency.py [FOLDER] [--runs 20] [--engine sync] [--seconds 1]

fio's JSON is read here with `json` alone. `equal` counts trials whose record has fio's number of synchronisations and
its 99th percentile; `kernel / fio` are ratios of the witness's 99th percentile, and of its mean, to fio's. A file is
made in FOLDER, on the file system to look at. Needs root and fio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ioassay as ia

WITHIN = 0.05


class Trial(NamedTuple):
    case: str
    equal: bool
    counted: float
    """The kernel's number over fio's."""
    p99_ns: float
    p99_ratio: float
    mean_ratio: float


def trials(folder: Path, engine: str, seconds: float) -> Iterator[Trial]:
    run = folder / "run"
    settings = {"runtime": f"{seconds:g}s", "ioengine": engine, "target.path": str(folder / "log")}
    ia.Study.read("database-log", settings=settings, repetitions=1).run(run)
    for path in sorted((run / "trials").iterdir()):
        record: dict[str, Any] = json.loads((path / "record.json").read_text())
        (job,) = json.loads((path / "raw" / "fio.json").read_text())["jobs"]
        said, found = job["sync"]["lat_ns"], record["metrics"]
        p99_ns = said["percentile"]["99.000000"]
        equal = (found["sync.ios"], found["sync.lat.p99"]) == (said["N"], p99_ns)
        kernel = [found[f"kernel.sync.{name}"] for name in ("ios", "lat.p99", "lat.mean")]
        ratios = [ours / theirs for ours, theirs in zip(kernel, (said["N"], p99_ns, said["mean"]), strict=True)]
        yield Trial(record["trial"]["point"]["case"], equal, ratios[0], p99_ns, *ratios[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path())
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--engine", default="sync")
    parser.add_argument("--seconds", type=float, default=1)
    options = parser.parse_args()
    found: dict[str, list[Trial]] = {}
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="sync-") as folder:
            for one in trials(Path(folder).resolve(), options.engine, options.seconds):
                found.setdefault(one.case, []).append(one)
    for case, own in found.items():
        ratios, means = sorted(one.p99_ratio for one in own), sorted(one.mean_ratio for one in own)
        close = sum(abs(ratio - 1) <= WITHIN for ratio in ratios)
        print(
            f"{case}: equal {sum(one.equal for one in own)} of {len(own)}, "
            f"p99 {statistics.median(one.p99_ns for one in own) / 1e3:.0f} us; "
            f"kernel / fio {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}), "
            f"{close} of {len(own)} within 5 %; "
            f"means {statistics.median(means):.3f} ({means[0]:.3f} to {means[-1]:.3f}); "
            f"number {min(one.counted for one in own):.4f} to {max(one.counted for one in own):.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
