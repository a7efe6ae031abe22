"""How often the claims about a sweep are wrong: studies are made up, the truth is known.

    .venv/bin/python benches/inference_coverage.py [--studies N] [--noise SHARES] [--repetitions NUMBERS]
                                                   [--errors NAMES] [--truths NAMES] [--shapes]
    .venv/bin/python benches/inference_coverage.py --words [--studies N] [--noise SHARES] [--repetitions NUMBERS]
    .venv/bin/python benches/inference_coverage.py --modes
    .venv/bin/python benches/inference_coverage.py --contradictions N

Twelve shapes over eight levels, and errors of a kind in ERRORS, whose scale is the noise, a share of the mean. Passes
run in random order. A claim is wrong where the true means contradict it (`CLAIMS`); a study counts once for each kind,
however many claims of the kind it makes. 5 % is what each kind promises. A kind that makes no claim has not decided;
the last columns say how often a claim was made.

`--words` counts what is said of the shape, of these and of shapes that turn: saws, humps, a dip in a plateau.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ioassay.analysis.condition_comparison import Verdict, judged_pairs
from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.analysis.one_factor import LevelFamily, shape
from ioassay.packs.hosts.questions.host_comparison import Standing, deviations, standings
from ioassay.stats.condition_means import ConditionMeans, Ints, average, fit
from ioassay.stats.contrasts import MARGIN, Contrasts, best_level, levels_off, plateau, second_peaks, slopes
from ioassay.stats.modes import modes
from ioassay.stats.result import Floats
from ioassay.stats.shapes import ShapeKind

X = np.arange(1.0, 9.0)
LOG_X = np.log2(X)
SHAPES: dict[str, Floats] = {
    "flat": np.ones(8),
    "linear": X,
    "gentle rise": 1 + 0.02 * (X - 1),
    "step": np.where(X <= 4, 1.0, 1.5),
    "saturating": np.minimum(X, 4),
    "smooth saturation": X / (1 + 0.3 * X),
    "retrograde": X / (1 + 0.05 * (X - 1) + 0.03 * X * (X - 1)),
    "logarithmic": 1 + LOG_X,
    "slow logarithm": 1 + 0.2 * LOG_X,
    "two peaks": np.array([1, 2, 3, 2, 1, 2, 3.2, 2]),
    "needle": np.where(X == 6, 1.3, 1.0),
    "just beyond the margin": np.where(X <= 4, 1.0, 1.052),
}
TURNING: dict[str, Floats] = {
    "saw of 10 %": np.array([1, 1.1] * 4),
    "saw of 20 %": np.array([1, 1.2] * 4),
    "short saw of 20 %": np.array([1, 1.2] * 3),
    "saw of 100 %": np.array([1, 2] * 3),
    "rising saw": np.array([1, 3, 1.5, 4, 2, 5]),
    "hump": np.exp(-(((X - 4.5) / 3) ** 2)),
    "low hump": np.array([1, 1.1, 1.2, 1.3, 1.3, 1.2, 1.1, 1.05]),
    "hump that ends above its start": np.array([1, 3, 4, 3.5, 3, 2]),
    "collapse": np.array([1, 2, 4, 8, 8, 1.1]),
    "dip in a plateau": np.array([1, 2, 4, 4, 3.2, 4, 4, 4]),
    "slow decline": np.array([1, 2, 4, 3.92, 3.84, 3.76, 3.68, 3.6]),
}
"""Shapes that rise and fall, for `--words`."""
WORDS = ("rises", "tends to rise", "falls", "tends to fall", "peak", "dip", "mixed", "level", "unclear")
FACTORS = np.array([1, 0.9, 1, 1.1, 1, 0.94, 1, 1])
"""Of the second run of a comparison, whose conditions are otherwise those of the shape."""
CLAIMS = {
    "effect": "a level is said to be above another, whose true mean is as high or higher",
    "direction": "a rise, a fall, a peak, or a rise and a fall are said of means that do not have them",
    "best": "the truly best level is said to be worse than another",
    "as good": "a level is said to be within 5 % of the best, or all of each other, and is not",
    "plateau": "it is said to begin at a level that is more than 5 % below the best, or not before one, and does",
    "second peak": "a level is said to stand apart from the best, and the true means have no valley between them",
    "comparison": "a condition is said to be slower or faster and is not, or the same and differs by more than 5 %",
    "slope": "the line through the means is said to rise or to fall, and does not",
    "hosts": "one of twenty equal hosts is said to be slow or fast, or the one that is slow to be fast",
}
HOSTS = np.where(np.arange(20) == 3, 0.9, 1.0)
"""Of the hosts, over the first two conditions of the shape."""
_TINY = 1e-9
Error = Callable[[float, Ints, np.random.Generator], Floats]
Claims = dict[str, bool]
"""Of each kind that made a claim: whether one was wrong."""


def _walk(start: float, stay: float, times: Ints, random: np.random.Generator) -> Floats:
    """1 where a trial is in the rarer mode, which it begins in with this chance and stays in with that one."""
    enter, now = start * (1 - stay) / (1 - start), random.random() < start
    visited = np.zeros(times.size)
    for time_index in range(times.size):
        visited[time_index] = now
        now = random.random() < (stay if now else enter)
    found: Floats = visited[times]
    return found


def _follow(times: Ints, random: np.random.Generator) -> Floats:
    """Standard normal, each 0.9 of the one before."""
    values = random.standard_normal(times.size)
    for time_index in range(1, times.size):
        values[time_index] = 0.9 * values[time_index - 1] + math.sqrt(1 - 0.81) * values[time_index]
    found: Floats = values[times]
    return found


def _halved(share: float, stay: float | None = None, scatter: float = 0.02) -> Error:
    """A share of the trials runs at half the speed: each by itself, or staying in it with this chance."""

    def error(noise: float, times: Ints, random: np.random.Generator) -> Floats:
        slow = random.random(times.shape) < share if stay is None else _walk(share, stay, times, random)
        mixture: Floats = (1 - 0.5 * slow) / (1 - 0.5 * share) * (1 + scatter * random.standard_normal(times.shape))
        return mixture

    return error


def _scatters(count: int, random: np.random.Generator) -> Floats:
    """From a fifth of the noise to twice the noise, of shape (count, 1)."""
    return random.permutation(np.geomspace(0.2, 2, count))[:, None]


ERRORS: dict[str, Error] = {
    # The noise, the place of each trial in the run by condition and pass, and chance -> factors of mean 1.
    "normal": lambda noise, times, random: 1 + noise * random.standard_normal(times.shape),
    "ar1": lambda noise, times, random: 1 + noise * _follow(times, random) + 0.01 * random.standard_normal(times.shape),
    "drift": lambda noise, times, random: (
        1 + 0.4 * noise * random.standard_normal(times.shape) + 0.2 * (times / times.size - 0.5)
    ),
    "gc10": _halved(0.1),
    "gc": _halved(0.3),
    "gc50": _halved(0.5),
    "gcsticky10": _halved(0.1, 0.8),
    "gcsticky": _halved(0.3, 0.8),
    "gcsticky50": _halved(0.5, 0.8),
    "t2.5": lambda noise, times, random: 1 + noise * np.clip(random.standard_t(2.5, times.shape), -8, 8),
    "hetero": lambda noise, times, random: (
        1 + noise * _scatters(len(times), random) * random.standard_normal(times.shape)
    ),
    "outlier": lambda noise, times, random: (
        np.where(random.random(times.shape) < 0.07, 0.3, 1.0)
        * (1 + 0.4 * noise * random.standard_normal(times.shape))
        / (1 - 0.07 * 0.7)
    ),
    "lognormal": lambda noise, times, random: np.exp(10 * noise * random.standard_normal(times.shape) - 50 * noise**2),
    "quantised": lambda noise, times, random: 1 + noise * random.standard_normal(times.shape),
    "blockshift": lambda noise, times, random: (
        1 + 0.4 * noise * random.standard_normal(times.shape) + 0.1 * random.standard_normal(times.shape[1])
    ),
}
"""`lognormal` is ten times as noisy; values of `quantised` are whole twentieths of the largest mean."""


def study(truth: Floats, errors: str, noise: float, n: int, random: np.random.Generator) -> list[Floats]:
    order = np.stack([random.permutation(truth.size) for _ in range(n)])
    times = (np.arange(n)[:, None] * truth.size + np.argsort(order, axis=1)).T
    values = truth[:, None] * np.maximum(ERRORS[errors](noise, times, random), 0.02)
    if errors == "quantised":
        step = truth.max() / 20
        values = np.maximum(np.round(values / step), 1) * step
    return list(values)


def claims(truth: Floats, errors: str, noise: float, n: int, random: np.random.Generator) -> Claims:
    """What one study claims, and whether that is wrong."""
    groups, made = study(truth, errors, noise, n, random), dict[str, bool]()
    model = fit(groups, [np.arange(n)] * truth.size)
    if isinstance(model, ConditionMeans):
        made |= dict(_of_sweep(Contrasts(model, 0.95, lines=2), truth))
    made |= dict(_of_comparison(groups, study(truth * FACTORS, errors, noise, n, random)))
    made |= dict(_of_hosts([study(truth[:2] * factor, errors, noise, n, random) for factor in HOSTS]))
    return made


def _of_sweep(family: Contrasts, truth: Floats) -> Iterator[tuple[str, bool]]:
    floor = truth.max() / (1 + MARGIN) - _TINY
    found, flat = best_level(family), plateau(family)
    if family.different:
        yield "effect", bool((family.above & (truth[:, None] <= truth[None, :] + _TINY)).any())
    if (word := shape_word(family)) in _DIRECTIONS:
        yield "direction", not _DIRECTIONS[word](truth)
    if len(found.candidates) < truth.size:
        yield "best", max(truth[list(found.candidates)]) < truth.max() - _TINY
    if found.as_good:
        spread = family.equivalent and truth.max() / truth.min() > 1 + MARGIN + _TINY
        yield "as good", bool(spread or min(truth[list(found.as_good)]) < floor)
    reaches = flat is not None and flat.last == truth.size - 1
    if flat is not None and flat.first < flat.last and (not reaches or levels_off(family, X.tolist(), flat)):
        start = flat.first
        while start and truth[start - 1] >= floor:
            start -= 1
        yield "plateau", bool(min(truth[flat.first : flat.last + 1]) < floor or start < flat.earliest)
    if second := second_peaks(family):
        yield "second peak", any(not _valley(truth, found.index, index) for index in second)
    over = {"linear": X, "log2": LOG_X}
    lines = [(line.direction, np.polyfit(over[kind], truth, 1)[0]) for kind, line in slopes(family, over).items()]
    if any(claimed for claimed, _ in lines):
        yield "slope", any(claimed and claimed * (0 if abs(true) < _TINY else true) <= 0 for claimed, true in lines)


def shape_word(family: Contrasts) -> str:
    """What is said of the levels in order."""
    numbers = np.arange(1.0, family.means.sizes.size + 1)
    lines = slopes(family, {"linear": tuple(numbers), "log2": tuple(np.log2(numbers))})
    points = tuple(_cell(np.ones(1)) for _ in numbers)
    found = shape(LevelFamily("x", Cells("study", "read.bw", {}, points), points, tuple(numbers), family, lines))
    assert found is not None
    goes = {ShapeKind.UP: ("rises", "tends to rise"), ShapeKind.DOWN: ("falls", "tends to fall")}.get(found.kind)
    return goes[found.tendency is not None] if goes else found.kind.value


def _rises(truth: Floats) -> bool:
    """Up by more than twice what it ever goes back."""
    fall = float((np.maximum.accumulate(truth) - truth).max())
    return bool(truth[-1] > truth[0] + _TINY and truth.max() - truth.min() > 2 * fall)


_DIRECTIONS: dict[str, Callable[[Floats], bool]] = {
    "rises": _rises,
    "tends to rise": _rises,
    "falls": lambda truth: _rises(-truth),
    "tends to fall": lambda truth: _rises(-truth),
    "peak": lambda truth: bool(truth[1:-1].max() > max(truth[0], truth[-1]) + _TINY),
    "dip": lambda truth: bool(truth[1:-1].min() < min(truth[0], truth[-1]) - _TINY),
    "mixed": lambda truth: bool(np.diff(truth).max() > _TINY and np.diff(truth).min() < -_TINY),
}


def _valley(truth: Floats, best: int, other: int) -> bool:
    between = truth[min(best, other) + 1 : max(best, other)]
    return bool(between.min() < min(truth[best], truth[other]) - _TINY)


def _of_comparison(a: list[Floats], b: list[Floats]) -> Iterator[tuple[str, bool]]:
    rows = judged_pairs("study", "read.bw", [(_cell(first), _cell(second)) for first, second in zip(a, b, strict=True)])
    verdicts = [row.verdict for row in rows]
    if any(verdict != Verdict.UNDECIDED for verdict in verdicts):
        yield "comparison", any(_false(verdict, true) for verdict, true in zip(verdicts, FACTORS, strict=True))


def _of_hosts(hosts: list[list[Floats]]) -> Iterator[tuple[str, bool]]:
    groups = [values for host in hosts for values in host]
    model = fit(groups, [np.arange(values.size) for values in groups])
    if isinstance(model, ConditionMeans):
        found = deviations(Contrasts(average(model, np.arange(len(groups)).reshape(len(hosts), -1).tolist()), 0.95))
        said = standings(found, sum(values.size for values in hosts[0]))
        called = np.array([{Standing.SLOW: -1, Standing.FAST: 1}.get(one, 0) for one in said])
        if called.any():
            yield "hosts", bool(((called != 0) & (called != np.sign(HOSTS - 1))).any())


def _cell(values: Floats) -> Cell:
    numbers = np.arange(values.size)
    return Cell({}, values, values, numbers, numbers, tuple(map(str, numbers)))


def _false(verdict: Verdict, true: float) -> bool:
    if verdict == Verdict.SAME:
        return bool(abs(np.log(true)) > np.log1p(MARGIN) + _TINY)
    return (verdict == Verdict.SLOWER and true >= 1) or (verdict == Verdict.FASTER and true <= 1)


def counted(shape: str, errors: str, noise: float, n: int, studies: int) -> tuple[Counter[str], Counter[str]]:
    """Of each kind in how many studies it made a claim, and in how many a wrong one."""
    random = np.random.default_rng([list(SHAPES).index(shape), list(ERRORS).index(errors), round(1000 * noise), n])
    made: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for _ in range(studies):
        for kind, false in claims(SHAPES[shape], errors, noise, n, random).items():
            made[kind] += 1
            wrong[kind] += false
    return made, wrong


def words(truth: Floats, noise: float, n: int, studies: int) -> Counter[str]:
    """What is said of the shape, of so many studies."""
    random, said = np.random.default_rng([truth.size, round(1000 * noise), n]), Counter[str]()
    for _ in range(studies):
        model = fit(study(truth, "normal", noise, n, random), [np.arange(n)] * truth.size)
        assert isinstance(model, ConditionMeans)
        said[shape_word(Contrasts(model, 0.95, lines=2))] += 1
    return said


def _print_words(noise: float, n: int, studies: int) -> None:
    print(f"{f'noise {noise}, n {n}; of {studies}':32}" + "".join(f"{word:>14}" for word in WORDS) + f"{'wrong':>8}")
    for name, truth in (SHAPES | TURNING).items():
        said = words(truth, noise, n, studies)
        wrong = sum(count for word, count in said.items() if word in _DIRECTIONS and not _DIRECTIONS[word](truth))
        print(f"{name:32}" + "".join(f"{said[word]:14}" for word in WORDS) + f"{wrong:8}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--studies", type=int, default=300)
    options.add_argument("--noise", default="0.03,0.1,0.2")
    options.add_argument("--repetitions", default="3,5,10")
    options.add_argument("--errors", default="normal", help=f"of {', '.join(ERRORS)}")
    options.add_argument("--truths", default=",".join(SHAPES), help="names of shapes")
    options.add_argument("--shapes", action="store_true", help="a row for each shape")
    options.add_argument("--words", action="store_true", help="count what is said of each shape instead")
    options.add_argument("--modes", action="store_true", help="count the studies in which two modes are found instead")
    options.add_argument("--contradictions", type=int, metavar="N", help="read the findings of N whole studies instead")
    given = options.parse_args()
    began = time.perf_counter()
    if given.contradictions:
        _print_contradictions(given.contradictions)
        print(f"{time.perf_counter() - began:.0f} s")
        return
    if given.words:
        for noise, n in itertools.product(map(float, given.noise.split(",")), map(int, given.repetitions.split(","))):
            _print_words(noise, n, given.studies)
        return
    if given.modes:
        _print_modes(given.studies)
        return
    print(f"wrong, of {given.studies} studies a shape: all shapes (worst shape); then made, of all studies")
    print(f"{'':22}{'errors':>11}{'noise':>6}{'n':>4}" + "".join(f"{kind:>14}" for kind in CLAIMS))
    numbers = [given.errors.split(","), map(float, given.noise.split(",")), map(int, given.repetitions.split(","))]
    for errors, noise, n in itertools.product(*numbers):
        found = {shape: counted(shape, errors, noise, n, given.studies) for shape in given.truths.split(",")}
        _print(found, f"{errors:>11}{noise:6}{n:4}", given.studies, each=given.shapes)
    print(f"{time.perf_counter() - began:.0f} s")


def _print_modes(studies: int) -> None:
    """In how many studies two modes are found, of conditions whose means rise, by errors, noise and number."""
    print(f"two modes found, % of {studies} studies of 4, 8 and 20 conditions with 2, 3, 5 and 10 repetitions")
    designs = [*itertools.product((4, 8, 20), (2, 3, 5, 10))]
    print(f"{'':17}" + "".join(f"{f'{k} x {n}':>8}" for k, n in designs))
    for errors, noise in itertools.product(ERRORS, (0.05, 0.1)):
        random, shares = np.random.default_rng(1), []
        for k, n in designs:
            made = (study(np.linspace(1, 2, k), errors, noise, n, random) for _ in range(studies))
            shares.append(100 * sum(modes(groups) is not None for groups in made) / studies)
        print(f"{errors:11}{noise:6}" + "".join(f"{share:8.1f}" for share in shares), flush=True)


def _print_contradictions(studies: int) -> None:
    """Findings that contradict each other, in the studies that the tests simulate (`tests/contradictions.py`)."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from contradictions import contradictions, simulated
    from lab import Lab

    lab = Lab()
    found = [(number, text) for number in range(studies) for text in contradictions(simulated(lab, number))]
    for number, text in found:
        print(f"study {number}: {text}")
    print(f"{len(found)} contradictions in the findings of {studies} studies")


def _print(found: dict[str, tuple[Counter[str], Counter[str]]], given: str, studies: int, *, each: bool) -> None:
    names = list(found)
    if each:
        for name in names:
            made, wrong = found[name]
            cells = [f"{100 * wrong[kind] / studies:5.1f} /{100 * made[kind] / studies:4.0f}" for kind in CLAIMS]
            print(f"{name:22}{given}" + "".join(f"{cell:>14}" for cell in cells))
    shares = {kind: [100 * found[name][1][kind] / studies for name in names] for kind in CLAIMS}
    wrong_cells = [f"{np.mean(shares[kind]):.1f} ({max(shares[kind]):.1f})" for kind in CLAIMS]
    made_cells = [f"{np.mean([100 * found[name][0][kind] / studies for name in names]):.0f}" for kind in CLAIMS]
    print(f"{'wrong %':22}{given}" + "".join(f"{cell:>14}" for cell in wrong_cells))
    print(f"{'made %':22}{given}" + "".join(f"{cell:>14}" for cell in made_cells), flush=True)


if __name__ == "__main__":
    main()
