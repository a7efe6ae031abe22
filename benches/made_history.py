"""A made history: nightly runs of three machines over three months, in which four changes are known.

    .venv/bin/python benches/made_history.py PLACE [--seed S]

300 runs of one study of four conditions, three repetitions each. The noise of runs follows itself in time (AR(1) 0.4,
2 %), repetitions scatter by 1.5 %. One machine never changes, though its kernel does; nights are missing, some runs
were disturbed and are unfit, and one good run is an outlier. Nothing is measured and no clock is read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ioassay.records.record import Environment, Program
from ioassay.stats.result import Floats

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from lab import Lab

if TYPE_CHECKING:
    from ioassay.store.dataset import Dataset
    from ioassay.study.model import Study

STUDY = "nightly"
RUNS, NIGHTS, REPETITIONS = 100, 112, 3
"""Of each machine: runs, and the nights of which they are a part."""
FIRST = datetime(2026, 6, 1, 2, 15, tzinfo=UTC)
FOLLOWS, RUN_SCATTER, REPETITION_SCATTER = 0.4, 0.02, 0.015
UNFIT = 0.06
"""Share of runs that other programs disturbed."""
OUTLIER = ("b", 31, 0.86)
"""Machine, number of its run, and the factor of all its rates."""
CASES: Mapping[str, Mapping[str, Any]] = {
    "random reads": {"rw": "randread", "bs": "4KiB"},
    "random writes": {"rw": "randwrite", "bs": "4KiB"},
    "sequential reads": {"rw": "read", "bs": "128KiB"},
    "sequential writes": {"rw": "write", "bs": "128KiB"},
}
BANDWIDTHS = {"random reads": 1.9e9, "random writes": 1.3e9, "sequential reads": 3.1e9, "sequential writes": 2.2e9}
SPEEDS = {"a": 1.0, "b": 0.62, "c": 1.15}


@dataclass(frozen=True)
class KnownChange:
    """From `run` on, counted from 0 over all runs of the machine, the rate of `conditions` is `ratio` of that before.

    `host` and `fact` are as in `Store.runs`: the machine, and the column that changed with it, from `before` to
    `after`. `begun` is the start of the run.
    """

    host: str
    conditions: tuple[str, ...]
    run: int
    begun: datetime
    ratio: float
    fact: str
    before: str
    after: str


@dataclass(frozen=True)
class _Change:
    machine: str
    run: int
    fact: str
    before: str
    after: str
    ratio: float = 1.0
    conditions: tuple[str, ...] = ()


_CHANGES = (
    _Change("a", 38, "kernel", "6.9.7", "6.10.3", 0.95, ("random reads",)),
    _Change("b", 52, "firmware", "1B2QGXA7", "2B2QGXA7", 1.08, ("random writes", "sequential writes")),
    _Change("a", 71, "mount_options", "relatime,rw", "discard,relatime,rw", 0.94, ("sequential writes",)),
    _Change("b", 80, "mitigations", "Vulnerable", "Mitigation: Safe RET", 0.93, ("random reads",)),
    _Change("c", 45, "kernel", "6.9.7", "6.10.3"),
    *(_Change(machine, 60, "ioassay", "0.1.0", "0.2.0") for machine in SPEEDS),
)
"""The last rows change a fact and no rate."""


def made_history(store_place: Path, seed: int = 1) -> list[KnownChange]:
    """Fill the store at a place with the 300 runs; return the changes that are in them. Both follow from the seed."""
    from ioassay.packs.history import history_store

    store = history_store.open(store_place)
    begun: dict[str, list[datetime]] = {machine: [] for machine in SPEEDS}
    for machine, started, run in runs(seed):
        store.add(run)
        begun[machine].append(started)
    return [
        KnownChange(
            host=_identity(one.machine),
            conditions=one.conditions,
            run=one.run,
            begun=begun[one.machine][one.run],
            ratio=one.ratio,
            fact=one.fact,
            before=one.before,
            after=one.after,
        )
        for one in _CHANGES
        if one.ratio != 1
    ]


def runs(seed: int = 1) -> Iterator[tuple[str, datetime, Dataset]]:
    """The machine of each run, its start, and its records; one machine after the other."""
    lab = Lab()
    responses = ["read.bw", "write.bw", "read.lat.p99", "write.lat.p99"]
    cases = [{"name": name, **levels} for name, levels in CASES.items()]
    study = lab.study(STUDY, case=cases, responses=responses)
    for place, machine in enumerate(SPEEDS):
        random = np.random.default_rng([seed, place])
        nights = np.sort(random.choice(NIGHTS, RUNS, replace=False))
        scatter = {name: RUN_SCATTER * _follows(RUNS, random) for name in CASES}
        for number, night in enumerate(nights.tolist()):
            begun = FIRST + timedelta(days=night, minutes=float(random.uniform(0, 20)))
            rates = {name: BANDWIDTHS[name] * _factor(machine, number, name, scatter[name]) for name in CASES}
            unfit = bool(random.random() < UNFIT)
            yield (
                machine,
                begun,
                _run(lab, study, rates, begun, unfit=unfit, host=_host(machine, number), random=random),
            )


def _follows(number: int, random: np.random.Generator) -> Floats:
    """AR(1) noise of standard deviation 1, stationary from the first value on."""
    noise = random.standard_normal(number)
    noise[1:] *= np.sqrt(1 - FOLLOWS**2)
    for place in range(1, number):
        noise[place] += FOLLOWS * noise[place - 1]
    return noise


def _factor(machine: str, number: int, condition: str, scatter: Floats) -> float:
    factor = SPEEDS[machine] * float(np.exp(scatter[number]))
    for one in _CHANGES:
        if one.machine == machine and one.run <= number and condition in one.conditions:
            factor *= one.ratio
    return factor * (OUTLIER[2] if (machine, number) == OUTLIER[:2] else 1.0)


def _run(
    lab: Lab,
    study: Study,
    rates: Mapping[str, float],
    begun: datetime,
    *,
    unfit: bool,
    host: Mapping[str, Any],
    random: np.random.Generator,
) -> Dataset:
    environment = Environment(
        seconds=10.0,
        processors=8,
        own_share=0.3,
        others_share=0.45 if unfit else 0.01,
        kernel_share=0.05,
        steal_share=0.0,
        programs=[Program("backup", 0.45)] if unfit else (),
        idle_share=0.0 if unfit else 0.6,
    )

    def measure(point: Mapping[str, Any], _: int) -> dict[str, Any]:
        condition = str(point["case"])
        way = "write" if "writes" in condition else "read"
        slower, tail = np.exp(REPETITION_SCATTER * random.standard_normal(2))
        rate = float(rates[condition] / slower)
        if unfit:
            rate *= random.uniform(0.6, 0.85)
        latency = {f"{way}.lat.p99": 4e14 / rate * float(tail)} if condition.startswith("random") else {}
        return {f"{way}.bw": rate, **latency, "_environment": environment}

    rows = lab.run(study, measure, REPETITIONS, seed=int(random.integers(2**31)))
    for row in rows.trials:
        row["started_unix_s"] = begun.timestamp() + 12 * row["order"]
        row["duration_s"] = 10.0
    records: Dataset = lab.records(rows, host=host)
    return records


def _identity(machine: str) -> str:
    return f"rack-{machine}"


def _host(machine: str, number: int) -> dict[str, Any]:
    """The facts of the machine at one of its runs, as host.json has them."""
    facts = {
        "kernel": "6.9.7", "firmware": "1B2QGXA7", "mount_options": "relatime,rw", "mitigations": "Vulnerable",
        "ioassay": "0.1.0",
    }  # fmt: skip
    for one in _CHANGES:
        if one.machine == machine:
            facts[one.fact] = one.after if one.run <= number else one.before
    drive = {
        "name": "nvme0n1",
        "kind": "disk",
        "size_bytes": 1_000_204_886_016,
        "model": "made-up drive 1 TB",
        "firmware": facts["firmware"],
        "identity": _identity(machine)[::-1],
    }
    mount = {"point": "/srv", "filesystem": "ext4", "options": facts["mount_options"].split(",")}
    return {
        "schema": 1,
        "cpu": {
            "model": "made-up processor",
            "cpus": 8,
            "governors": {"performance": 8},
            "mitigations": {"spec_rstack_overflow": facts["mitigations"]},
        },
        "kernel": {"name": "Linux", "release": facts["kernel"]},
        "memory": {"total_bytes": 2**35},
        "disk": {"path": "/srv/ioassay", "mount": mount, "devices": [drive]},
        "tools": {"fio": "fio-3.36"},
        "ioassay": {"version": facts["ioassay"]},
        "identity": {"key": "0" * 8, "machine": _identity(machine), "name": f"{machine}-lab"},
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("place", type=Path, metavar="PLACE", help="folder of the store")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    for change in made_history(given.place, given.seed):
        print(
            f"{change.host}: {', '.join(change.conditions)} ×{change.ratio} from {change.begun:%Y-%m-%d} on, "
            f"{change.fact} {change.before} → {change.after}"
        )


if __name__ == "__main__":
    main()
