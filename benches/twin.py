"""How good a twin is: hidden drives learned from outside, and held-out workloads replayed on both, request by request.

    .venv/bin/python benches/twin.py [--drives 40] [--seed 1000] [--jobs 2] [--output FILE.json]
    .venv/bin/python benches/twin.py --misfits

Each hidden drive (`hidden_drives.py`) is measured by the battery of `ioassay drive learn` with 2 % noise on every
statistic, and described from these readings alone. Printed are, with counts: in how many the structure is right (flash
elements, program unit, and flash page); how far the twin's mean latency and p99 are from the hidden drive's on loads of
reads that no battery has; how many 90 % intervals have the true value; the CPU time of a fit. With `--writes` also
those of writes: write cache within a unit or 2 %, SLC region within 5 %, loads in steady state. `--misfits`
learns drives of other families, which have to be called so.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hidden_drives import Noisy, OtherFamily, Workload, hidden_drive, workloads

from ioassay import simulator
from ioassay.packs.ssd.twin import battery, inference
from ioassay.packs.ssd.twin.loads import Fit, Parameter, Target
from ioassay.packs.ssd.twin.simulated import SimulatedTarget

BUDGET_S = 600.0
CACHE_TOLERANCE, REGION_TOLERANCE = 0.02, 0.05


def learned(target: Target) -> tuple[Fit, float, int]:
    """What a drive's readings tell, the CPU seconds of the fit, and the number of loads."""
    readings = battery.learn(target, writes=True, budget_s=BUDGET_S)
    begin = time.process_time()
    fit = inference.fit(readings, capacity_bytes=target.capacity_bytes, laid_out=True)
    return fit, time.process_time() - begin, len(readings)


def structure_errors(truth: Mapping[str, Any], fit: Fit, writes: bool) -> list[str]:
    """The parts of the structure that are wrong."""

    def off(name: str, tolerance: float, unit: int) -> bool:
        true, seen = (effective(options, name) for options in (truth, fit.options))
        return (true == 0) != (seen == 0) or bool(abs(true - seen) > max(unit, tolerance * true))

    wrong = [name for name in ("elements", "program_unit", "flash_page") if truth[name] != fit.options.get(name)]
    if not writes:
        return wrong
    wrong += ["write_cache"] if off("write_cache", CACHE_TOLERANCE, truth["program_unit"]) else []
    wrong += ["slc_region"] if off("slc_region", REGION_TOLERANCE, truth["program_unit"] * truth["elements"]) else []
    return wrong


def effective(options: Mapping[str, Any], name: str) -> int:
    """Bytes; of an SLC region those of its whole superblocks, of which the drive has no part."""
    value = int(options.get(name, 0) or 0)
    if name != "slc_region" or not value:
        return value
    unit, rows = (
        options["program_unit"],
        options["pages_per_block"] * options["planes"] * 4096 // options["program_unit"],
    )
    superblock = max(1, rows // options["bits_per_cell"]) * unit * options["elements"]
    return int(value // superblock * superblock)


def covered(truth: Mapping[str, Any], parameter: Parameter) -> bool | None:
    """Whether an interval has the true value; None where there is no interval, or no such option."""
    true = truth.get(parameter.name)
    if parameter.low is None or parameter.high is None or parameter.options or not isinstance(true, int | float):
        return None
    return bool(parameter.low <= true <= parameter.high)


def answer(options: Mapping[str, Any], workload: Workload, steady: simulator.Drive | None) -> dict[str, float]:
    drive = steady.copy() if steady is not None else simulator.Drive(**options)
    summary = drive.run(workload.arrays, **workload.feed).summary
    found = {"mean": summary["mean_response_ms"], "p99": summary["p99_ms"]}
    if workload.is_steady and summary["write_amplification"]:
        found["write amplification"] = summary["write_amplification"]
    return found


def capacity_rate(options: Mapping[str, Any], capacity_bytes: int, seed: int) -> float:
    """Requests a second of the open loops: 60 % of what a closed loop of 8 KiB reads reaches."""
    load = next(each for each in workloads(capacity_bytes, seed, rate_per_s=1.0) if "at_us" in each.arrays)
    closed = {name: column for name, column in load.arrays.items() if name != "at_us"}
    drive = simulator.Drive(**options)
    return 0.6 * float(drive.run(closed, feed="closed:64", window=None, driver="fcfs").summary["iops"])


def one(seed: int, writes: bool) -> dict[str, Any]:
    truth = hidden_drive(seed)
    target = Noisy(SimulatedTarget(truth, seed=seed), seed)
    capacity_bytes = target.capacity_bytes
    fit, cpu_s, loads = learned(target)
    row: dict[str, Any] = {"seed": seed, "cpu_s": cpu_s, "loads": loads, "misfit": fit.misfit}
    row["structure"] = structure_errors(truth, fit, writes)
    row["intervals"] = {each.name: inside for each in fit.parameters if (inside := covered(truth, each)) is not None}
    row["identified"] = {each.name: each.identified for each in fit.parameters}
    try:
        row["errors"] = held_out(truth, dict(fit.options), capacity_bytes, seed, writes)
    except Exception as error:  # one drive that fails must not lose the others
        row["failure"] = f"{type(error).__name__}: {error}"
    return row


def held_out(
    truth: dict[str, Any], twin: dict[str, Any], capacity_bytes: int, seed: int, writes: bool
) -> dict[str, dict[str, float]]:
    """Workload -> statistic -> relative error of the twin."""
    common = min(capacity_bytes, simulator.check(twin)["capacity_bytes"])
    loads = workloads(common, seed, rate_per_s=capacity_rate(truth, common, seed))
    steady = [simulator.Drive(**each, precondition=1) for each in (truth, twin)] if writes else [None, None]
    errors = {}
    for load in (load for load in loads if writes or not load.is_steady):
        true, modelled = (
            answer(options, load, drive if load.is_steady else None)
            for options, drive in zip((truth, twin), steady, strict=True)
        )
        errors[load.name] = {name: modelled[name] / true[name] - 1 for name in true if name in modelled}
    return errors


def quantiles(values: list[float]) -> str:
    middle, high = np.quantile(np.abs(values), (0.5, 0.9))
    return f"median {middle:.1%}, 90th percentile {high:.1%}, worst {max(map(abs, values)):.0%} of {len(values)}"


def summarise(rows: list[dict[str, Any]]) -> None:
    right = sum(not row["structure"] for row in rows)
    print(f"structure right: {right} of {len(rows)}")
    parts = [part for row in rows for part in row["structure"]]
    for part in sorted(set(parts)):
        print(f"  {part} wrong: {parts.count(part)}")
    for statistic in ("mean", "p99", "write amplification"):
        values = [each[statistic] for row in rows for each in row.get("errors", {}).values() if statistic in each]
        if values:
            print(f"{statistic}: {quantiles(values)}")
    for name in rows[0].get("errors", {}):
        values = [row["errors"][name]["mean"] for row in rows if "errors" in row]
        print(f"  mean of {name}: {quantiles(values)}")
    inside = [value for row in rows for value in row["intervals"].values()]
    print(
        f"90 % intervals with the true value: {sum(inside)} of {len(inside)} ({sum(inside) / max(1, len(inside)):.0%})"
    )
    for name in sorted({name for row in rows for name in row["intervals"]}):
        each = [row["intervals"][name] for row in rows if name in row["intervals"]]
        print(f"  {name}: {sum(each)} of {len(each)}")
    print(f"called a misfit: {sum(bool(row['misfit']) for row in rows)} of {len(rows)}")
    cpu, loads = ([row[name] for row in rows] for name in ("cpu_s", "loads"))
    print(f"CPU time of a fit: median {np.median(cpu):.1f} s, longest {max(cpu):.1f} s; loads: {max(loads)}")
    for row in rows:
        if "failure" in row:
            print(f"  seed {row['seed']}: {row['failure']}")


def misfits() -> None:
    for kind in OtherFamily.KINDS:
        fit, _, _ = learned(OtherFamily(kind))
        print(f"{kind}: {'misfit: ' + fit.misfit if fit.misfit else 'NOT called a misfit'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drives", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--writes", action="store_true")
    parser.add_argument("--misfits", action="store_true")
    given = parser.parse_args()
    if given.misfits:
        misfits()
        return
    rows = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for row in pool.map(partial(one, writes=given.writes), range(given.seed, given.seed + given.drives)):
            rows.append(row)
            print(f"{row['seed']}: {row['cpu_s']:.1f} s, {row['structure'] or 'structure right'}", file=sys.stderr)
    summarise(rows)
    if given.output:
        given.output.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
