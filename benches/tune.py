"""Whether a search finds the best level, beside plain TPE and random search with as many trials.

    .venv/bin/python benches/tune.py [--seeds N] [--workers N] [--only TEXT]

Each surface is known exactly; what is told is its value with log-normal noise of 3 % and of 5 %. All searches have 40
trials, repeats included. Found means: the point that is named in the end lies within 2 % of the exhaustive best of the
noise-free surface (and fulfils the constraint, where there is one). TPE is that of optuna 5 with its defaults, where
it is installed (.venv/bin/python -m pip install optuna; ioassay itself does without it); it and the random search name
the point with the best value they were told. So does the Gaussian process of scikit-optimize, where that is installed;
it knows no constraints, and is told the worst value so far of a point that breaks one. Then what an ask and a tell
cost.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec

from ioassay import stats

stats.load_numpy()
import numpy as np  # noqa: E402
from tune_surfaces import Key, Surface, axis, surfaces  # noqa: E402

from ioassay.packs.tuning.search.search import Search  # noqa: E402

TRIALS = 40
NOISES = (0.03, 0.05)
WITHIN = 0.02
Measure = Callable[[Key], tuple[float, float]]


def measuring(surface: Surface, noise: float, seed: int) -> Measure:
    """What a trial tells: a value, and how far it breaks the constraint."""
    random = np.random.default_rng([seed, 99])

    def measure(key: Key) -> tuple[float, float]:
        value, over = (math.exp(noise * random.standard_normal()) for _ in range(2))
        limit = 0.0 if surface.limited is None else float(surface.limited[key]) * over / surface.bound - 1
        return float(surface.values[key]) * value, limit

    return measure


def ours(surface: Surface, measure: Measure, seed: int) -> Key:
    limits = int(surface.limited is not None)
    search = Search(surface.axes, maximize=surface.maximize, constraints=limits, seed=seed, budget=TRIALS)
    for _ in range(TRIALS):
        point = search.ask().point
        value, over = measure(surface.key(point))
        search.tell(point, value, [over] * limits)
    best = search.best()
    assert best is not None
    return surface.key(best.point)


def tpe(surface: Surface, measure: Measure, seed: int) -> Key:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        direction="maximize" if surface.maximize else "minimize", sampler=optuna.samplers.TPESampler(seed=seed)
    )
    told = []
    for _ in range(TRIALS):
        trial = study.ask()
        key = tuple(
            trial.suggest_int(axis.name, 0, len(axis.levels) - 1)
            if axis.numbers
            else trial.suggest_categorical(axis.name, range(len(axis.levels)))
            for axis in surface.axes
        )
        value, over = measure(key)
        if surface.limited is not None:
            trial.set_constraint("limit", over)
        study.tell(trial, value)
        told.append((key, value, over))
    return luckiest(surface, told)


def skopt(surface: Surface, measure: Measure, seed: int) -> Key:
    import warnings

    from skopt import Optimizer
    from skopt.space import Categorical, Integer

    warnings.simplefilter("ignore")
    dimensions = [
        Integer(0, len(axis.levels) - 1) if axis.numbers else Categorical(range(len(axis.levels)))
        for axis in surface.axes
    ]
    optimizer = Optimizer(dimensions, random_state=seed)
    sign = -1 if surface.maximize else 1
    told: list[tuple[Key, float, float]] = []
    for _ in range(TRIALS):
        places = optimizer.ask()
        key = tuple(map(int, places))
        told.append((key, *measure(key)))
        worst = max(sign * value for _, value, _ in told)
        optimizer.tell(places, sign * told[-1][1] if told[-1][2] <= 0 else worst)
    return luckiest(surface, told)


def at_random(surface: Surface, measure: Measure, seed: int) -> Key:
    places = np.random.default_rng([seed, 7]).permutation(surface.values.size)[:TRIALS]
    keys = [tuple(int(place) for place in np.unravel_index(flat, surface.values.shape)) for flat in places]
    return luckiest(surface, [(key, *measure(key)) for key in keys])


def luckiest(surface: Surface, told: list[tuple[Key, float, float]]) -> Key:
    """The point with the best value that was told, among those whose constraint was told to hold."""
    sign = 1 if surface.maximize else -1
    return max(told, key=lambda one: (one[2] <= 0, sign * one[1]))[0]


SEARCHES: dict[str, Callable[[Surface, Measure, int], Key]] = {"ioassay": ours, "random": at_random}
RIVALS = {"optuna": ("TPE", tpe), "skopt": ("skopt", skopt)}
SEARCHES |= dict(rival for module, rival in RIVALS.items() if find_spec(module) is not None)


def loss(job: tuple[int, str, float, int]) -> float:
    place, name, noise, seed = job
    surface = surfaces()[place]
    return surface.loss(SEARCHES[name](surface, measuring(surface, noise, seed), seed))


def table(seeds: int, workers: int, only: str) -> Iterator[str]:
    chosen = [place for place, surface in enumerate(surfaces()) if only in surface.name]
    jobs = [
        (place, name, noise, seed) for place in chosen for name in SEARCHES for noise in NOISES for seed in range(seeds)
    ]
    found: dict[tuple[int, str, float], list[float]] = {}
    with ProcessPoolExecutor(workers) as executor:
        for (place, name, noise, _), lost in zip(jobs, executor.map(loss, jobs, chunksize=5), strict=True):
            found.setdefault((place, name, noise), []).append(lost)
    for noise in NOISES:
        yield f"\n{seeds} seeds, {TRIALS} trials, noise of {noise:.0%}: found within {WITHIN:.0%}, median loss"
        yield f"{'':42s} good/all " + "".join(f"{name:>16s}" for name in SEARCHES)
        for place in chosen:
            surface = surfaces()[place]
            cells = (found[place, name, noise] for name in SEARCHES)
            shown = "".join(
                f"{sum(one <= WITHIN for one in lost):7d} {statistics.median(lost):7.2%} " for lost in cells
            )
            good = sum(surface.loss(key) <= WITHIN for key in np.ndindex(surface.values.shape))
            yield f"{surface.name:42s} {good:3d}/{surface.values.size:3d} {shown}"


def cost() -> Iterator[str]:
    """Milliseconds that an ask and its tell take."""
    wide = Surface("wide", (axis("x", tuple(range(1, 1025))), axis("y", tuple(range(1, 51)))), np.zeros(()))
    for surface, trials in ((surfaces()[0], TRIALS), (wide, TRIALS), (wide, 200)):
        search = Search(surface.axes, maximize=True, seed=1, budget=trials)
        random, spent_ms = np.random.default_rng(1), []
        for _ in range(trials):
            began_s = time.perf_counter()
            point = search.ask().point
            asked_s = time.perf_counter()
            value = 100 - sum(
                (place / len(one.levels) - 0.6) ** 2
                for place, one in zip(surface.key(point), surface.axes, strict=True)
            )
            value *= math.exp(0.03 * random.standard_normal())
            told_s = time.perf_counter()
            search.tell(point, value)
            spent_ms.append((asked_s - began_s + time.perf_counter() - told_s) * 1000)
        points = math.prod(len(one.levels) for one in surface.axes)
        yield (
            f"ask and tell, {points} points, {trials} trials: median {statistics.median(spent_ms):.1f} ms, "
            f"at most {max(spent_ms):.0f} ms"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--only", default="", help="surfaces whose name has this text")
    asked = parser.parse_args()
    for module, (name, _) in RIVALS.items():
        if name not in SEARCHES:
            print(f"{name} is left out: {module} is not installed")
    for line in cost():
        print(line, flush=True)
    for line in table(asked.seeds, asked.workers, asked.only):
        print(line, flush=True)


if __name__ == "__main__":
    main()
