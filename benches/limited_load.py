"""Loads that a lock or memory limits, for `peak_causes.py`.

As a program it runs a load and prints the number of turns a second. As the driver `LimitedLoad` it is run by ioassay:

    python limited_load.py flock|semaphore|pages WORKERS SECONDS

`flock` holds a lock of a file while it sleeps, as a program does that writes its log under a lock. `semaphore` holds
one in shared memory while it computes, as a serial section does. `pages` touches the pages of a file of its own in
turn, at a pace that one processor keeps up easily as long as they stay in memory.
"""

from __future__ import annotations

import fcntl
import mmap
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay.errors import StudyError
from ioassay.metrics import Metric, plain
from ioassay.records.record import FAILED, OK, Warning_
from ioassay.roles import NOTHING, Command, Confinement, Driver, Estimate, Load, Outcome, Parsed, Tool, Touch, Trial

HELD_S, SLEPT_S = 0.001, 0.005
FILE_PAGES, PACE_HZ = 8192, 60_000
RESPONSE = "limited.turns"


class LimitedLoad(Driver):
    """Parameters: `load`, `workers`, `seconds`."""

    name = "limited"
    measures = True
    length_key = "seconds"
    responses = (RESPONSE,)
    metrics = (Metric(RESPONSE, "turns/s", "higher", "Turns", plain, "rate"),)

    def tool(self) -> Tool | None:
        return None

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        pass

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        if params.get("load") not in LOADS:
            raise StudyError(f"is '{params.get('load')}'; expected one of {', '.join(LOADS)}", key="load")
        return ()

    def access(self, params: Mapping[str, Any]) -> str:
        return NOTHING

    def touches(self, params: Mapping[str, Any]) -> Sequence[Touch]:
        return ()

    def confinement(self, params: Mapping[str, Any]) -> Confinement:
        return Confinement(waiver="a semaphore is a file of /dev/shm")

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        return Estimate(float(params["seconds"]) + 0.3, written_bytes=0)

    def command(self, trial: Trial, load: Load, raw: Path) -> Command | None:
        params = trial.params
        argv = [sys.executable, str(Path(__file__).resolve()), params["load"], str(params["workers"])]
        return Command([*argv, str(params["seconds"])], float(params["seconds"]) + 30, cwd=raw.absolute())

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        text = outcome.stdout.read_text() if outcome is not None else ""
        return Parsed(OK, metrics={RESPONSE: float(text)}) if text.strip() else Parsed(FAILED, "it printed nothing")


def flock(seconds: float, path: str, number: int, semaphore: Any) -> int:
    turns, end_s = 0, time.monotonic() + seconds
    with Path(path).open("w") as file:
        while time.monotonic() < end_s:
            fcntl.flock(file, fcntl.LOCK_EX)
            time.sleep(SLEPT_S)
            fcntl.flock(file, fcntl.LOCK_UN)
            turns += 1
    return turns


def semaphore(seconds: float, path: str, number: int, semaphore: Any) -> int:
    turns, end_s = 0, time.monotonic() + seconds
    while time.monotonic() < end_s:
        with semaphore:
            until_s = time.monotonic() + HELD_S
            while time.monotonic() < until_s:
                pass
        turns += 1
    return turns


def pages(seconds: float, path: str, number: int, semaphore: Any) -> int:
    with Path(f"{path}-{number}").open("w+b") as file:
        for _ in range(FILE_PAGES):
            file.write(bytes(mmap.PAGESIZE))
        file.flush()
        os.fsync(file.fileno())
        mapped = mmap.mmap(file.fileno(), FILE_PAGES * mmap.PAGESIZE, prot=mmap.PROT_READ)
        mapped.madvise(mmap.MADV_RANDOM)  # no reading ahead
        turns, began_s = 0, time.monotonic()
        while (spent_s := time.monotonic() - began_s) < seconds:
            if turns >= PACE_HZ * spent_s:
                time.sleep(0.002)
                continue
            for page in range(turns, turns + 16):
                mapped[page % FILE_PAGES * mmap.PAGESIZE]
            turns += 16
        return turns


LOADS = {"flock": flock, "semaphore": semaphore, "pages": pages}


def main() -> None:
    kind, workers, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    context = multiprocessing.get_context("fork")
    held, counts = context.Lock(), context.Array("q", workers)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = str(Path(folder, "file"))

        def work(number: int) -> None:
            counts[number] = LOADS[kind](seconds, path, number, held)

        processes = [context.Process(target=work, args=(number,)) for number in range(workers)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    print(sum(counts[:]) / seconds)


if __name__ == "__main__":
    main()
