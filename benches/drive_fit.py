"""Fits a described drive to the measurements that its file names, and prints what the file should say.

    .venv/bin/python benches/drive_fit.py NAME|FILE [EVALUATIONS]

Free are all times, rates and bandwidths whose basis is "fitted", of the drive and of each measurement's own options;
equal values of a list stay equal. Counts and sizes are not searched: edit the file and fit again. Only every second
point is used (`Measurement.fitted`), of measurements with a limit; the errors of the others are printed as well.
The loss is the mean absolute logarithm of model over measurement, in units of the limit, averaged over measurements
and statistics. A Sobol sequence around the file's values finds the start of a Nelder-Mead search in logarithms.
Deterministic.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

from ioassay.packs.ssd.simulator import drive_accuracy
from ioassay.simulation import drive_files
from ioassay.simulation.drive_files import DriveFile, Entry, Measurement

EVALUATIONS = 200
STARTS = 16
SPREAD = 0.15
"""Of the start values, in logarithms: 16 %."""
OF_DRIVE = ""
"""Scope of a value of the drive, where those of a measurement's options have its name."""


@dataclass(frozen=True)
class Free:
    """A value that the fit chooses: an option, and those places in its list that have this value now."""

    scope: str
    option: str
    places: tuple[int, ...]
    start: float


def free_values(drive: DriveFile) -> list[Free]:
    """All values of basis "fitted" that are continuous and not 0."""
    scopes: list[tuple[str, Mapping[str, Entry]]] = [(OF_DRIVE, drive.entries)]
    scopes += [(each.name, each.options) for each in drive.measurements]
    found = []
    for scope, entries in scopes:
        for name, entry in entries.items():
            if entry.basis != "fitted" or entry.unit in ("", "B"):
                continue
            values = entry.value if isinstance(entry.value, list) else [entry.value]
            for value in dict.fromkeys(values):
                places = tuple(place for place, each in enumerate(values) if each == value)
                found += [Free(scope, name, places, float(value))] if value else []
    return found


def options(
    drive: DriveFile, measurement: Measurement, free: Sequence[Free], values: Sequence[float]
) -> dict[str, Any]:
    """The options of the drive in that campaign with the values of a fit."""
    of_campaign = {name: entry.value for name, entry in measurement.options.items()}
    found = {**drive.options, **of_campaign}
    for each, value in zip(free, values, strict=True):
        if each.scope != measurement.name and (each.scope != OF_DRIVE or each.option in of_campaign):
            continue
        if isinstance(found[each.option], list):
            found[each.option] = [
                value if place in each.places else old for place, old in enumerate(found[each.option])
            ]
        else:
            found[each.option] = value
    return found


def loss(drive: DriveFile, free: Sequence[Free], values: Sequence[float]) -> float:
    """Of the fitted points."""
    parts = []
    for measurement in drive.measurements:
        if not measurement.limits:
            continue
        model = drive_accuracy.small(options(drive, measurement, free, values), measurement.points)
        done = [(point, drive_accuracy.simulated(model, point)) for point in measurement.fitted]
        for statistic, limit in measurement.limits.items():
            errors = [abs(math.log(model_[statistic] / point.statistics[statistic])) for point, model_ in done]
            parts.append(fmean(errors) / limit)
    return fmean(parts)


def fit(drive: DriveFile, free: Sequence[Free], evaluations: int) -> list[float]:
    """The values with the least loss."""
    start = np.log([each.start for each in free])
    done: dict[tuple[float, ...], float] = {}

    def cost(logarithms: np.ndarray) -> float:
        values = tuple(float(each) for each in np.exp(logarithms))
        if values not in done:
            done[values] = loss(drive, free, values)
            print(f"{len(done):4} {done[values]:.4f}", file=sys.stderr)
        return done[values]

    offsets = qmc.scale(qmc.Sobol(len(free), rng=1).random(STARTS), -SPREAD, SPREAD) if STARTS else []
    best = min([start, *(start + offset for offset in offsets)], key=cost)
    simplex = np.vstack([best, *(best + row for row in np.eye(len(free)) * SPREAD / 2)])
    minimize(
        cost,
        best,
        method="Nelder-Mead",
        options={"maxfev": evaluations, "initial_simplex": simplex, "xatol": 1e-3, "fatol": 1e-4},
    )
    least = min(done, key=done.__getitem__)
    return list(least)


def main() -> None:
    drive = drive_files.load(sys.argv[1])
    free = free_values(drive)
    values = fit(drive, free, int(sys.argv[2]) if len(sys.argv) > 2 else EVALUATIONS)
    for each, value in zip(free, values, strict=True):
        scope = f"measurements.{each.scope}.options" if each.scope else "drive"
        print(f"{scope}.{each.option}: {each.start:.5g} -> {value:.5g}")
    for measurement in drive.measurements:
        fitted = drive_accuracy.accuracy(drive, measurement, options(drive, measurement, free, values))
        for statistic in measurement.limits or ("mean_us",):
            shares = [f"{fitted.mean_error(statistic, fitted=each):.2%}" for each in (True, False)]
            print(f"{measurement.name} {statistic}: fitted {shares[0]}, held out {shares[1]}")


if __name__ == "__main__":
    main()
