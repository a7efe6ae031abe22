"""What the lab itself costs: null trials, each durably recorded, and the memory they take.

    .venv/bin/python benches/null_trials.py [FOLDER]

Prints milliseconds a trial and the peak memory of runs of 100, 1000 and 5000 trials, in turn, beside the floor:
the same number of files written with the same durability (temporary file, fsync, rename, fsync of two folders).
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = (100, 1000, 5000)
TURNS = 3
STUDY = 'title = "Null"\ndriver = "null"\nrepetitions = {}\n[factors]\nlevel = {}\n'


def measured(folder: Path, number: int) -> dict[str, float]:
    """One run in a process of its own: seconds for the trials and peak memory in MiB."""
    answer = subprocess.run(
        [sys.executable, __file__, "--one", str(folder), str(number)], check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def one(folder: Path, number: int) -> None:
    """Run `number` null trials and print what it took."""
    from ioassay.roles import Consent
    from ioassay.runner import preflight, run
    from ioassay.runner.progress import Progress
    from ioassay.store.run_folder import RunStore
    from ioassay.study import catalog

    study = folder / "null.toml"
    study.write_text(STUDY.format(number // 10, list(range(10))))
    suite = catalog.load(str(study))
    benches = preflight.assemble(suite, Consent())
    store = RunStore.create(folder / "run", suite, {})
    began_s = time.monotonic()
    tally = run.execute(store, benches, Progress())
    seconds = time.monotonic() - began_s
    assert tally.ok == number, tally
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "peak_mib": peak_mib}))


def floor_s(folder: Path, number: int) -> float:
    """Seconds for `number` durable files in folders of their own: what the disk asks for."""
    from ioassay import atomic_file

    began_s = time.monotonic()
    for index in range(number):
        trial = folder / "floor" / str(index)
        trial.mkdir(parents=True)
        atomic_file.write(trial / "record.json", "x" * 700)
        atomic_file.sync(trial.parent)
    return time.monotonic() - began_s


def median(values: list[float]) -> float:
    """The middle one."""
    return sorted(values)[len(values) // 2]


def main() -> None:
    """Take turns over the sizes and print a table."""
    parent = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    found: dict[int, list[dict[str, float]]] = {size: [] for size in SIZES}
    floors_ms: list[float] = []
    for _ in range(TURNS):
        for size in SIZES:
            with tempfile.TemporaryDirectory(dir=parent) as folder:
                found[size].append(measured(Path(folder), size))
        with tempfile.TemporaryDirectory(dir=parent) as folder:
            floors_ms.append(floor_s(Path(folder), 1000))
    floor_ms = median(floors_ms)
    print(f"{'trials':>8} {'ms/trial':>9} {'of the floor':>13} {'peak MiB':>9}   (medians of {TURNS})")
    for size, runs in found.items():
        each_ms = median([run["seconds"] for run in runs]) / size * 1000
        peak_mib = median([run["peak_mib"] for run in runs])
        print(f"{size:8d} {each_ms:9.2f} {each_ms / floor_ms:12.2f}x {peak_mib:9.1f}")
    print(f"floor: {floor_ms:.2f} ms a durable file")


if __name__ == "__main__":
    one(Path(sys.argv[2]), int(sys.argv[3])) if sys.argv[1:2] == ["--one"] else main()
