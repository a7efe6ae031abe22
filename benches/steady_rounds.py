"""When rounds are steady: our rule and that of TKperf on the same random series, from a checkout of TKperf.

    .venv/bin/python benches/steady_rounds.py TKPERF [--series 100]

A series is a write cliff: it decays from fresh to steady, with noise. Printed are the rounds at which each stops, in
how many series they differ, and of all windows how many are judged differently. Its module needs no drive.
"""

import argparse
import sys
import types
from pathlib import Path

import numpy as np

from ioassay.analysis.descriptive import end_steady
from ioassay.stats.sample import ROUNDS

MOST = 25


def series(seed: int) -> list[float]:
    """IOPS of 25 rounds: from up to five times the steady value, over up to ten rounds, with up to 15 % noise."""
    draws = np.random.default_rng(seed)
    cliff, rounds, noise = draws.uniform(0, 4), draws.uniform(0.5, 10), draws.uniform(0, 0.15)
    shape = 1 + cliff * np.exp(-np.arange(MOST) / rounds)
    return [float(one) for one in 10_000 * shape * draws.normal(1, noise, MOST)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tkperf", type=Path)
    parser.add_argument("--series", type=int, default=100)
    given = parser.parse_args()
    lxml = types.ModuleType("lxml")  # which it imports to write reports
    lxml.etree = None  # type: ignore[attr-defined]
    sys.modules.setdefault("lxml", lxml)
    sys.path.insert(0, str(given.tkperf / "src"))
    from perfTest.StdyState import StdyState  # type: ignore[import-not-found]

    windows = apart = differ = 0
    stops: dict[int, int] = {}
    for seed in range(given.series):
        values = series(seed)
        ours, theirs = [], []
        for last in range(ROUNDS - 1, MOST):
            places = range(last - ROUNDS + 1, last + 1)
            window = {place: values[place] for place in places}
            ours.append(end_steady([window]))
            theirs.append(bool(StdyState().checkSteadyState(list(places), list(window.values()), last)))
        windows += len(ours)
        apart += sum(one != other for one, other in zip(ours, theirs, strict=True))
        first = [next((ROUNDS + place for place, one in enumerate(found) if one), MOST + 1) for found in (ours, theirs)]
        differ += first[0] != first[1]
        stops[first[0]] = stops.get(first[0], 0) + 1
    never = stops.pop(MOST + 1, 0)
    print(f"{given.series} series: stop at another round in {differ}; {apart} of {windows} windows judged differently")
    print(f"never steady: {never}; stopped after: {', '.join(f'{key}: {stops[key]}' for key in sorted(stops))}")


if __name__ == "__main__":
    main()
