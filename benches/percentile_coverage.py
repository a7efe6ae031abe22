"""How often intervals of a percentile cover the true one: repetitions are made up, the truth is known.

    .venv/bin/python benches/percentile_coverage.py [--experiments N] [--percent P]

Compares the interval that ioassay shows (the jackknife over repetitions of the percentile's logarithm) with a
percentile bootstrap over repetitions, and with Student's t of the repetitions' own percentiles, which concerns their
mean. 95 % is what each promises. Repetitions have 2000 requests and are alike, differ in speed (15 %), differ in their
share of slow requests (2 % in the mean), or have a stall in one of five.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np

from ioassay._core import Histogram
from ioassay.stats.percentiles import merge_histograms, percentile_intervals, pseudo_values
from ioassay.stats.result import Floats, Interval
from ioassay.stats.sample import t_interval

REQUESTS, POPULATION, RESAMPLES = 2000, 400, 400
Random = np.random.Generator


def alike(random: Random, size: int) -> Floats:
    return random.lognormal(0, 0.5, size)


def in_speed(random: Random, size: int) -> Floats:
    return random.lognormal(random.normal(0, 0.15), 0.5, size)


def in_tail(random: Random, size: int) -> Floats:
    slow = random.random(size) < random.beta(2, 98)
    return np.where(slow, random.lognormal(2, 0.4, size), random.lognormal(0, 0.3, size))


def in_stalls(random: Random, size: int) -> Floats:
    values = random.lognormal(0, 0.3, size)
    stalled = size * 3 // 100 if random.random() < 0.2 else 0
    values[:stalled] += random.exponential(10, stalled)
    return values


def histogram(values: Floats) -> Histogram:
    made = Histogram()
    made.record_many(np.round(values * 1e5).astype(np.int64))
    return made


def bootstrap(parts: Sequence[Histogram], share: float, random: Random) -> tuple[float, float]:
    drawn = random.integers(0, len(parts), (RESAMPLES, len(parts)))
    quantiles = [merge_histograms([parts[place] for place in places]).quantile(share) for places in drawn]
    low, high = np.quantile(quantiles, [0.025, 0.975])
    return float(low), float(high)


def coverage(make: Callable[[Random, int], Floats], number: int, percent: float, experiments: int) -> list[float]:
    """Shares of experiments in which each of the three intervals has the true percentile in it."""
    random = np.random.default_rng(1)
    true = merge_histograms([histogram(make(random, 5000)) for _ in range(POPULATION)]).quantile(percent / 100)
    hits = np.zeros(3)
    for _ in range(experiments):
        parts = [histogram(make(random, REQUESTS)) for _ in range(number)]
        (shown,) = percentile_intervals(pseudo_values(parts, [percent]), 0.95)
        own = t_interval([part.quantile(percent / 100) for part in parts], 0.95)
        assert isinstance(shown, Interval) and isinstance(own, Interval)
        ends = [(shown.low, shown.high), bootstrap(parts, percent / 100, random), (own.low, own.high)]
        hits += [low <= true <= high for low, high in ends]
    return list(hits / experiments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=300)
    parser.add_argument("--percent", type=float, default=99.0)
    asked = parser.parse_args()
    print(f"{'repetitions':>22} {'n':>3} {'shown':>7} {'bootstrap':>10} {'of own percentiles':>19}")
    for make in (alike, in_speed, in_tail, in_stalls):
        for number in (3, 5, 10):
            shares = coverage(make, number, asked.percent, asked.experiments)
            words = "alike" if make is alike else f"differ {make.__name__.replace('_', ' ')}"
            print(f"{words:>22} {number:>3} {shares[0]:>7.2f} {shares[1]:>10.2f} {shares[2]:>19.2f}", flush=True)


if __name__ == "__main__":
    main()
