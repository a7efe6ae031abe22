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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from scipy import stats

from ioassay.stats.result import Floats
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from made_history import STUDY, made_history

from lab import Lab

LAB = Lab()

RUNS, REPETITIONS = 200, 5
NEAR = 10
"""Runs: a point farther from the step is another one."""
STEP = 0.97
MARGIN = 0.01
"""What counts as the same: less than STEP."""
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
    shocks = (
        random.standard_t(noise.tails, number) / math.sqrt(noise.tails / (noise.tails - 2))
        if noise.tails
        else (random.standard_normal(number))
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
        return [
            int(one) for one in ruptures.KernelCPD("linear", min_size=2).fit(logs[:, None]).predict(pen=penalty)[:-1]
        ]

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


EARLIER, LATER = 30, 10
"""Runs of a history: those that are there before the first comparison, and those that are compared and then added."""
WORKLOADS = 6


def comparisons(series: int, seed: int) -> Iterator[str]:
    number = max(series // 4, 1)
    yield f"compare of {number} runs in which nothing changed, after {EARLIER} or more: exit 1 (95 %);"
    yield f"{WORKLOADS} conditions, 3 responses, n = {REPETITIONS}, margin {MARGIN:.0%}; at last {STEP - 1:+.0%} in one"
    yield _cells(
        "", ["run, history", "two runs, history", "two runs", "two runs, --fail-on any", "slower run, history"]
    )
    every = np.zeros(5, dtype=np.int64)
    noises = [Noise(follows, run, 0.03) for follows in (0.0, 0.7) for run in (0.0, 0.02, 0.05)]
    for place, noise in enumerate(noises):
        random = np.random.default_rng([seed, 4, place])
        parts = [min(LATER, number - done) for done in range(0, number, LATER)]
        exits = np.sum([_later_runs(noise, part, random) for part in parts], axis=0)
        every += exits
        yield _cells(str(noise), [share(int(count), number) for count in exits])
    yield _cells("all", [share(int(count), number * len(noises)) for count in every])


def _later_runs(noise: Noise, number: int, random: Random) -> npt.NDArray[np.int64]:
    """In how many of so many runs of one new history each way of comparing fails a job."""
    from ioassay.packs.comparison.earlier_runs import as_run, earlier_runs
    from ioassay.packs.comparison.run_comparison import FailOn, compare
    from ioassay.packs.history import history_store

    starts = replace(noise, repetition=0.0)
    rates = [drawn(starts, EARLIER + number, random) for _ in range(WORKLOADS)]
    exits = np.zeros(5, dtype=np.int64)
    words: Any = patch("ioassay.narrative.pipeline.analyse_all", lambda run: [])  # headlines, which nobody reads here
    with words, tempfile.TemporaryDirectory() as folder:
        store, before = history_store.open(folder), None
        for place in range(EARLIER + number):
            own = [float(one[place]) for one in rates]
            run = _night(own, place, noise.repetition, random)
            if before is not None and place >= EARLIER:
                slower = _night([STEP * own[0], *own[1:]], place, noise.repetition, random)
                known, of_slower = earlier_runs(folder, run), earlier_runs(folder, slower)
                found = [
                    compare(as_run(known, run), run, MARGIN, earlier=known, is_history=True),
                    compare(before, run, MARGIN, earlier=earlier_runs(folder, run, before)),
                    compare(before, run, MARGIN),
                    compare(before, run, MARGIN, fail_on=FailOn.ANY),
                    compare(as_run(of_slower, slower), slower, MARGIN, earlier=of_slower, is_history=True),
                ]
                exits += [one.regression for one in found]
            store.add(run)
            before = run
    return exits


def _night(rates: Sequence[float], place: int, scatter: float, random: Random) -> Dataset:
    def measure(point: Mapping[str, Any], _: int) -> dict[str, float]:
        rate = rates[int(point["iodepth"]) - 1] * (1 + scatter * random.standard_normal())
        return {"read.bw": rate, "read.iops": rate / 4096, "read.lat.mean": 1e12 / rate}

    rows = LAB.run(_study(WORKLOADS), measure, REPETITIONS)
    for row in rows.trials:
        row["started_unix_s"] = 1.7e9 + 86400 * place + 10 * row["order"]
    records: Dataset = LAB.records(rows, host={"identity": {"key": "0", "machine": "rack-a"}})
    return records


TURNS: dict[str, tuple[Noise, float]] = {
    "each start for itself": (Noise(0.0, 0.03), 0.0),
    "starts follow, AR 0.7": (Noise(0.7, 0.03), 0.0),
    "starts follow, AR 0.9": (Noise(0.9, 0.03), 0.0),
    "a drift of 6 %, starts 0.5 %": (Noise(0.0, 0.005), 0.06),
}
"""Noise of single starts, and the drift over a session."""


def turns(series: int, seed: int) -> Iterator[str]:
    yield f"compare of two runs in turns A B B A, margin {MARGIN:.0%}: exit 1, of {series} sessions (95 %), then the"
    yield "most that is possible: two-sided z of generalised least squares with the true covariance"
    yield _cells("", [f"n = {n}, {STEP - 1:+.0%}" if step != 1 else f"n = {n}, no change" for step, n in _DESIGNS])
    for number, (name, (noise, drift)) in enumerate(TURNS.items()):
        for conditions in (1, 6):
            found = []
            for step, n in _DESIGNS:
                random = np.random.default_rng([seed, 3, number, conditions, n])
                exits = sum(_session(noise, drift, n, step, conditions, random) for _ in range(series))
                most = _most_power(noise, drift, n, step, conditions)
                found.append(f"{share(exits, series)}{f', most {most:.0%}' if step != 1 else ''}")
            yield _cells(f"{name}, {conditions} condition{'s' * (conditions > 1)}", found)


_DESIGNS = [(1.0, 5), (STEP, 5), (STEP, 10)]


def _order(n: int) -> list[str]:
    return [letter for pair in range(n) for letter in ("AB", "BA")[pair % 2]]


def _session(noise: Noise, drift: float, n: int, step: float, conditions: int, random: Random) -> bool:
    """Whether `compare` fails a job; B differs in the first of the conditions, each of which has noise of its own."""
    from ioassay.packs.comparison.run_comparison import compare

    order = _order(n)
    effects = [
        np.array([step if letter == "B" and not place else 1.0 for letter in order]) for place in range(conditions)
    ]
    table = [drawn(noise, 2 * n, random) * (1 + drift * np.linspace(0, 1, 2 * n)) * one for one in effects]
    runs = {}
    for letter in "AB":
        places = [place for place, one in enumerate(order) if one == letter]
        own = [values[places] for values in table]
        rows = LAB.run(_study(conditions), partial(_measured, own), n)
        for row in rows.trials:
            row["started_unix_s"] = 1.7e9 + 100 * places[row["repetition"]] + row["iodepth"]
        runs[letter] = LAB.records(rows)
    return compare(runs["A"], runs["B"], margin=MARGIN).regression


def _measured(table: Sequence[Floats], point: Mapping[str, Any], repetition: int) -> dict[str, float]:
    return {"read.bw": float(table[int(point["iodepth"]) - 1][repetition])}


@cache
def _study(conditions: int) -> Study:
    factors = {"iodepth": [*range(1, conditions + 1)]}
    made: Study = LAB.study("nightly", factors=factors, responses=["read.bw", "read.iops", "read.lat.mean"])
    return made


def _most_power(noise: Noise, drift: float, n: int, step: float, conditions: int) -> float:
    places = np.arange(2 * n)
    covariance = noise.run**2 * noise.follows ** np.abs(places[:, None] - places).astype(float)
    columns = [np.ones(2 * n), np.array([letter == "B" for letter in _order(n)], dtype=float)]
    design = np.stack([*columns, places - places.mean()] if drift else columns, axis=1)
    information = design.T @ np.linalg.solve(covariance, design)
    z = abs(math.log(step)) / math.sqrt(np.linalg.inv(information)[1, 1])
    return float(stats.norm.sf(stats.norm.isf(0.025 / conditions) - z))


def made(_: int, seed: int) -> Iterator[str]:
    """A change is found by points of its series within NEAR days."""
    from ioassay.packs.history import history_store, trend

    with tempfile.TemporaryDirectory() as folder:
        changes = made_history(Path(folder), seed)
        series = trend.of_study(history_store.open(folder), STUDY).series
    points = [(one, step) for one in series for step in one.steps]
    yield f"a made history: {len(changes)} changes, {len(series)} series, {len(points)} change points"
    for change in changes:
        affected = [one for one in series if one.host == change.host and one.condition in change.conditions]
        found = [
            step
            for one, step in points
            if one in affected and abs(step.run.begun - change.begun) <= timedelta(days=NEAR)
        ]
        points = [(one, step) for one, step in points if step not in found]
        named = sum(change.fact in [fact.name for fact in step.facts] for step in found)
        sizes = [
            f"{step.point.size:.3f} ({step.point.change.low:.3f} to {step.point.change.high:.3f})" for step in found
        ]
        yield f"  {change.host}, {', '.join(change.conditions)}, ×{change.ratio}: {len(found)} of {len(affected)}"
        yield f"    series; {change.fact} is named in {named}; {', '.join(sizes)}"
    others = [f"{one.host}, {one.condition}, {one.response}, {step.run.begun:%Y-%m-%d}" for one, step in points]
    others += [
        f"{one.host}, {one.condition}, {one.response}, drift" for one in series if getattr(one.changes, "drift", 0)
    ]
    yield f"  where nothing changed: {'; '.join(others) or 'none'}"


def _cells(first: str, others: Sequence[str] | dict[str, Any]) -> str:
    return f"{first:34}" + "".join(f"{one:>34}" for one in others)


SECTIONS = {"points": points, "steps": steps, "comparisons": comparisons, "turns": turns, "made": made}


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
