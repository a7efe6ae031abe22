"""Two made-up runs of the block I/O suite, the second with other speeds, and comparisons of any size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from ioassay.analysis.condition_comparison import Row, Verdict
from ioassay.packs.comparison.run_comparison import Comparison
from ioassay.stats.contrasts import Ratio
from ioassay.stats.result import Interval, Undefined
from ioassay.store.dataset import Dataset

from ...report import synthetic

SPEEDS = {"block-size": 0.6, "jobs": 1.5}


def runs(root: Path, repetitions: int = 5, speeds: Mapping[str, float] = SPEEDS) -> tuple[Dataset, Dataset]:
    """A and B in turns; B's studies run at `speeds` times A's, and latencies move the other way."""
    a = synthetic.block_io(root / "A", repetitions)
    b = synthetic.block_io(root / "B", repetitions, seed=2)
    return in_turns(a, faster(b, speeds))


def in_turns(a: Dataset, b: Dataset, order: str = "ABBA") -> tuple[Dataset, Dataset]:
    """The same, measured in turns of a block each; `order` has those of two blocks, and goes on so."""
    places = {letter: [place for place, one in enumerate(order) if one == letter] for letter in "AB"}

    def timed(records: Dataset, letter: str) -> Dataset:
        first, second = places[letter]
        block = pl.col("repetition")
        turn = 4 * (block // 2) + pl.when(block % 2 == 0).then(first).otherwise(second)
        began = (1.7e9 + 1e5 * turn + pl.col("order")).cast(pl.Float64)
        return replace(records, trials=records.trials.with_columns(started_unix_s=began))

    return timed(a, "A"), timed(b, "B")


def faster(records: Dataset, speeds: Mapping[str, float]) -> Dataset:
    speed = pl.col("study").replace_strict(speeds, default=1.0, return_dtype=pl.Float64)
    rates = [name for name in records.trials.columns if name.endswith((".bw", ".iops"))]
    times = [name for name in records.trials.columns if "lat." in name]
    return replace(
        records,
        trials=records.trials.with_columns(*(pl.col(name) * speed for name in rates)).with_columns(
            *(pl.col(name) / speed for name in times)
        ),
        hist=records.hist.with_columns((pl.col("value_ns") / speed).cast(pl.Int64)),
    )


def row(
    number: int,
    ratio: float | None,
    verdict: Verdict = Verdict.UNDECIDED,
    response: str = "read.bw",
    width: float = 1.1,
) -> Row:
    """A row of condition `number`; its interval reaches from ratio / width to ratio * width."""
    known: Ratio | Undefined = Undefined("a condition has one repetition only, so its spread is unknown")
    if ratio is not None:
        known = Ratio(ratio, Interval(ratio / width, ratio * width, 0.95, "t"), 0.05, 8.0, 0.01)
    mean_b = 1e8 if ratio is None else 1e8 * ratio
    return Row("s", {"bs": number}, f"bs={number}", response, 5, 5, 1e8, mean_b, known, needed=12, verdict=verdict)


def comparison(*rows: Row) -> Comparison:
    return Comparison("A", "B", 0.05, 0.95, rows, (), (), ())
