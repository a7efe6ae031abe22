"""Runs of pure drivers that tests compare: the studies, how they are run, and what of a run may differ."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from ioassay.roles import Consent
from ioassay.runner import preflight, run
from ioassay.runner.progress import Progress
from ioassay.runner.run import Tally
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite, make_study
from ioassay.study.plan import Trial

TRACE = "".join(f"{number * 0.1:.6f} 0 {number * 37 % 512 * 8} 8 {number % 2}\n" for number in range(600))
"""A trace in DiskSim's format: time (ms), device, sector, sectors, 1 for a read."""


class AtEnd(Progress):
    """Does something when so many trials have ended."""

    def __init__(self, ends: int, deed: Callable[[], object]) -> None:
        self.ends, self.deed = ends, deed

    def ended(self, trial: Trial, status: str) -> None:
        self.ends -= 1
        if not self.ends:
            self.deed()


def suite(**changes: Any) -> Suite:
    table = {"name": "s", "title": "S", "driver": "null_pure", "repetitions": 3, **changes}
    return Suite(name="s", title="S", studies=[make_study(table, "s.toml")])


def simulations(trace: str = "small.trace", **params: Any) -> Suite:
    """A few small simulations of a trace file."""
    drive = {"elements": 2, "buffer": "64KiB"}
    return suite(
        driver="simulate",
        repetitions=1,
        params={"trace": trace, "format": "disksim", **drive, **params},
        factors={"policy": ["fifo", "lru", "none"]},
    )


def variety() -> Suite:
    """All that a record of a pure driver may have: failures, skips, series, distributions."""
    params = {"fail_share": 0.15, "skip_share": 0.1, "samples": 3, "latencies": {"read.lat": 1e5}}
    return suite(repetitions=4, factors={"x": [1, 2, 3, 4, 5]}, params=params)


def execute(root: Path, made: Suite, executor: Executor | None = None, told: Progress | None = None) -> Tally:
    """Run what has no record yet; without an executor in this process."""
    benches = preflight.assemble(made, Consent())
    preflight.examine(benches)
    store = RunStore.open(root) if root.exists() else RunStore.create(root, made, {})
    return run.execute(store, benches, told or Progress(), workers=1, executor=executor)


TIMES = re.compile(rb'"(started_unix_s|duration_s|sim.wall|wall_s)": [0-9.e+-]+')


def contents(root: Path) -> dict[str, bytes]:
    """Every file of a run by its path, with the times of trials masked."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): TIMES.sub(b"time", path.read_bytes()) for path in files}


def require_same(root: Path, other: Path) -> None:
    """Assert that two runs have the same files."""
    one, two = contents(root), contents(other)
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []


def require_same_as_here(folder: Path, made: Suite, executor: Executor) -> Tally:
    """Run a suite here and in an executor, and assert that files and tallies are the same; the tally."""
    tally = execute(folder / "here", made)
    assert execute(folder / "there", made, executor) == tally
    require_same(folder / "here", folder / "there")
    return tally
