"""How often history is wrong: series of runs are made up, the truth is known.

    .venv/bin/python benches/history.py [--series N] [--seed S] [--only SECTION …]

`points`: change points in series of 200 runs in which nothing changes; at most 1 false of 1,000 runs is promised.
`steps`: a step of 3 % in such series, found within 10 runs; promised for independent runs that scatter by 2 %.
`made`: the history of `made_history.py`, whose four changes are known.

The noise of runs follows itself in time (AR(1)); a run's value is the mean of five repetitions. The same series are
given to the peers that are installed: PELT of ruptures (least squares, the penalty of BIC, the scatter from the
differences of neighbours) and E-divisive of apache-otava (its defaults). Rates have exact intervals at 95 %: of counts
after Garwood (1936), of shares after Clopper and Pearson (1934).
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from ioassay.stats.result import Floats

RUNS, REPETITIONS = 200, 5
NEAR = 10
"""Runs: a point farther from the step is another one."""
STEP = 0.97
Random = np.random.Generator
Search = Callable[[Floats], Sequence[int]]
"""Values of runs -> the first run after each change."""


@dataclass(frozen=True)
class Noise:
    """Standard deviations are shares of the mean; `follows` is the correlation of a run with the one before."""

    follows: float
    run: float
    repetition: float = 0.0
    tails: int = 0
    """Degrees of freedom of Student's t, whose draws are scaled to the same deviation; 0: normal."""

    def __str__(self) -> str:
        tails = f", t({self.tails})" if self.tails else ""
        return f"AR {self.follows}, run {self.run:.0%}, repetition {self.repetition:.0%}{tails}"


BARS = [Noise(follows, 0.02) for follows in (0.0, 0.3, 0.5, 0.7)]
OTHERS = [
    Noise(0.0, 0.0),
    Noise(0.0, 0.0, 0.03),
    Noise(0.7, 0.02, 0.03),
    Noise(0.7, 0.05, 0.03),
    Noise(0.3, 0.02, tails=3),
]


def drawn(noise: Noise, number: int, random: Random) -> Floats:
    """Values of runs around 1, the noise stationary from the first one on."""
    shocks = random.standard_t(noise.tails, number) / math.sqrt(noise.tails / (noise.tails - 2)) if noise.tails else (
        random.standard_normal(number)
    )
    shocks[1:] *= math.sqrt(1 - noise.follows**2)
    for place in range(1, number):
        shocks[place] += noise.follows * shocks[place - 1]
    spread = noise.repetition / math.sqrt(REPETITIONS) * random.standard_normal(number)
    values: Floats = 1e8 * np.exp(noise.run * shocks + spread)
    return values


# Searches


def _ours() -> Search:
    from ioassay.stats.change_points import change_points

    return lambda values: [point.index for point in getattr(change_points(values), "points", ())]


def _pelt() -> Search:
    ruptures = importlib.import_module("ruptures")

    def search(values: Floats) -> list[int]:
        logs = np.log(values)
        scatter = float(np.median(np.abs(np.diff(logs)))) / (stats.norm.ppf(0.75) * math.sqrt(2))
        penalty = max(2 * math.log(logs.size) * scatter**2, 1e-9)
        return [int(one) for one in ruptures.KernelCPD("linear", min_size=2).fit(logs[:, None]).predict(pen=penalty)[:-1]]

    return search


def _otava() -> Search:
    analysis = importlib.import_module("otava.analysis")
    return lambda values: [int(one.index) for one in analysis.compute_change_points(list(values))[0]]


def searches() -> dict[str, Search]:
    found = {"ioassay": _ours()}
    for name, make in (("PELT", _pelt), ("otava", _otava)):
        try:
            found[name] = make()
        except ImportError as error:
            print(f"{name}: not installed ({error}), so it is left out")
    return found


# Rates


def rate(count: int, runs: int) -> str:
    """Of 1,000 runs, with its interval."""
    low = stats.chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    high = stats.chi2.ppf(0.975, 2 * count + 2) / 2
    return f"{count:5} {1000 * count / runs:6.2f} ({1000 * low / runs:.2f} to {1000 * high / runs:.2f})"


def share(count: int, number: int) -> str:
    low = stats.beta.ppf(0.025, count, number - count + 1) if count else 0.0
    high = stats.beta.ppf(0.975, count + 1, number - count) if count < number else 1.0
    return f"{count:4} of {number} {count / number:5.0%} ({low:.0%} to {high:.0%})"


# Sections


def points(series: int, seed: int) -> Iterator[str]:
    yield f"change points of {series} series of {RUNS} runs in which nothing changes: number, of 1,000 runs (95 %)"
    known = searches()
    yield _cells("", known)
    for number, noise in enumerate((*BARS, *OTHERS)):
        random = np.random.default_rng([seed, 1, number])
        made = [drawn(noise, RUNS, random) for _ in range(series)]
        counts = [sum(len(search(values)) for values in made) for search in known.values()]
        yield _cells(str(noise), [rate(count, series * RUNS) for count in counts])


def steps(series: int, seed: int) -> Iterator[str]:
    yield f"a step of {STEP - 1:+.0%} at a random run of {series} series of {RUNS}: found within {NEAR} runs (95 %);"
    yield f"then other points, of 1,000 runs; then found when {NEAR} runs after the step are there"
    known = searches()
    yield _cells("", known)
    for number, noise in enumerate(BARS):
        random = np.random.default_rng([seed, 2, number])
        made = []
        for _ in range(series):
            step = int(random.integers(40, 160))
            made.append((step, drawn(noise, RUNS, random) * np.where(np.arange(RUNS) < step, 1.0, STEP)))
        found, others, early = [], [], []
        for search in known.values():
            near = [[abs(one - step) <= NEAR for one in search(values)] for step, values in made]
            found.append(share(sum(any(one) for one in near), series))
            others.append(rate(sum(max(len(one) - any(one), 0) for one in near), series * RUNS))
            ends = [any(abs(one - step) <= NEAR for one in search(values[: step + NEAR])) for step, values in made]
            early.append(share(sum(ends), series))
        yield _cells(str(noise), found)
        yield _cells("  others", others)
        yield _cells(f"  {NEAR} runs after it", early)


def made(_: int, seed: int) -> Iterator[str]:
    raise NotImplementedError


def _cells(first: str, others: Sequence[str] | dict[str, Any]) -> str:
    return f"{first:34}" + "".join(f"{one:>34}" for one in others)


SECTIONS = {"points": points, "steps": steps, "made": made}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--series", type=int, default=200, help="series or comparisons of each kind")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    given = options.parse_args()
    if given.series < 1:
        options.error(f"--series {given.series}: expected at least 1")
    for name in given.only:
        began = time.process_time()
        for line in SECTIONS[name](given.series, given.seed):
            print(line, flush=True)
        print(f"{name}: {time.process_time() - began:.0f} s of processor time\n", flush=True)


if __name__ == "__main__":
    main()
