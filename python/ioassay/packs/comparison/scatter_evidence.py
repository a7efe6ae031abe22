"""What tells how much two runs of one thing differ: the turns that both were measured in, or earlier runs.

Turns are seen in the records: blocks of A and B follow each other in pairs, and which is first alternates. So it does
not matter what measured them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ioassay.analysis.condition_comparison import Row, RunScatter
from ioassay.analysis.measurements.cells import Cell, point_key
from ioassay.packs.comparison.earlier_runs import EarlierRuns
from ioassay.stats import run_scatter
from ioassay.stats.contrasts import Ratio
from ioassay.stats.result import Floats
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

Pairs = Sequence[tuple[Cell, Cell]]


def turns(a: Dataset, b: Dataset, study_a: Study, study_b: Study) -> list[int]:
    """The repetitions of a study that two runs measured in turns, in their order; none where they took no turns."""
    blocks = sorted([*_blocks(a, study_a, "A"), *_blocks(b, study_b, "B")])
    pairs = list(zip(blocks[::2], blocks[1::2], strict=False))
    one_after_other = all(one[1] < other[0] for one, other in itertools.pairwise(blocks))
    are_pairs = all({one[2], other[2]} == {"A", "B"} and one[3] == other[3] for one, other in pairs)
    first = [one[2] for one, _ in pairs]
    is_alternating = all(one != other for one, other in itertools.pairwise(first))
    return [one[3] for one, _ in pairs] if one_after_other and are_pairs and is_alternating else []


def _blocks(records: Dataset, study: Study, letter: str) -> Iterator[tuple[float, float, str, int]]:
    """The start of the first and of the last trial of each repetition in seconds, the letter, the repetition."""
    times: dict[int, list[float]] = {}
    for repetition, began_s in records.trials_of(study).select("repetition", "started_unix_s").iter_rows():
        if began_s:
            times.setdefault(repetition, []).append(began_s)
    for repetition, own in times.items():
        yield min(own), max(own), letter, repetition


def by_turns(rows: Sequence[Row], pairs: Pairs, repetitions: Sequence[int]) -> list[Row]:
    """The rows judged by their turns, as far as they have enough of them."""
    ratios = run_scatter.turn_ratios([(_at(a, repetitions), _at(b, repetitions)) for a, b in pairs])
    return _known(rows, ratios, RunScatter.TURNS)


def by_history(rows: Sequence[Row], pairs: Pairs, earlier: EarlierRuns, *, is_baseline: bool) -> list[Row]:
    """The rows judged by the scatter of earlier runs; where these are the baseline, A has their present values."""
    series = [
        earlier.series(point_key(b.point), row.response, [b] if is_baseline else [a, b])
        for row, (a, b) in zip(rows, pairs, strict=True)
    ]
    return _known(rows, run_scatter.run_ratios(series), RunScatter.HISTORY)


def _at(cell: Cell, repetitions: Sequence[int]) -> Floats:
    values = dict(zip(cell.repetition.tolist(), cell.values.tolist(), strict=True))
    return np.array([values.get(one, np.nan) for one in repetitions])


def _known(rows: Sequence[Row], ratios: Sequence[Ratio | None], scatter: RunScatter) -> list[Row]:
    """Rows whose ratio has an error that holds from run to run; those that could not be compared stay so."""
    return [
        replace(row, ratio=ratio, scatter=scatter, needed=None) if ratio and isinstance(row.ratio, Ratio) else row
        for row, ratio in zip(rows, ratios, strict=True)
    ]
