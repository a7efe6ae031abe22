"""How long a person waits for the commands that measure nothing, beside Python's own start.

    .venv/bin/python benches/commands.py [--turns N] [--run RUN] [--start]

Prints wall and processor time (medians and least) and their ratios to `python -c pass` of the same turns: the import of
the package, the launcher, --help, a simulation of one request, plan block-io, the report of a run of `quick`, which is
made first unless RUN names one, and its comparison with a copy. `--start` leaves out those that do something. Processor
time says what a command costs where the machine has other work.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAUNCHER = str(ROOT / "ioassay")
PYTHON = "python -c pass"


def starts() -> dict[str, list[str]]:
    """Python's own start, and what it takes until ioassay can do something."""
    python = [sys.executable, "-I"]
    return {
        PYTHON: [*python, "-c", "pass"],
        "python -c 'import ioassay'": [*python, "-c", "import ioassay"],
        "python -m ioassay --help": [*python, "-m", "ioassay", "--help"],
        "./ioassay --help": [LAUNCHER, "--help"],
    }


def commands(folder: Path, run: Path) -> dict[str, list[str]]:
    """Those that do something; `run` has been made."""
    launcher, trace = LAUNCHER, folder / "one.disksim"
    trace.write_text("0.0 0 8 8 0\n")
    shutil.copytree(run, folder / "again")
    return {
        "./ioassay simulate, one request": [launcher, "simulate", str(trace)],
        "./ioassay plan block-io": [launcher, "plan", "block-io"],
        "./ioassay report, quick": [launcher, "report", str(run)],
        "./ioassay compare, quick": [launcher, "compare", str(run), str(folder / "again")],
    }


def spent(argv: list[str]) -> tuple[float, float]:
    """Wall and processor milliseconds of one command."""
    before_s, began_s = children_s(), time.monotonic()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall_s, used_s = time.monotonic() - began_s, children_s() - before_s
    return wall_s * 1000, used_s * 1000


def children_s() -> float:
    """The processor time of all that has ended, in steps of a microsecond (os.times has ten milliseconds)."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Run the commands in turn and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--start", action="store_true")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ioassay-bench-") as name:
        folder = Path(name)
        run = wanted.run or folder / "run"
        if not wanted.run and not wanted.start:
            argv = [LAUNCHER, "quick", "--output", str(run)]
            subprocess.run(argv, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        timed = starts() if wanted.start else {**starts(), **commands(folder, run)}
        found: dict[str, list[tuple[float, float]]] = {}
        for _ in range(wanted.turns):
            for title, argv in timed.items():
                found.setdefault(title, []).append(spent(argv))
    print(f"{'command':32} {'wall ms':>9} {'least':>7} {'processor ms':>13} {'least':>7} {'of python':>11}")
    base_ms = statistics.median(used for _, used in found[PYTHON])
    for title, times in found.items():
        walls_ms, used_ms = zip(*times, strict=True)
        print(
            f"{title:32} {statistics.median(walls_ms):9.1f} {min(walls_ms):7.1f} {statistics.median(used_ms):13.1f} "
            f"{min(used_ms):7.1f} {statistics.median(used_ms) / base_ms:10.2f}x"
        )
    print(f"medians of {wanted.turns} turns at a load of {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
