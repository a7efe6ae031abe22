"""The repetitions of every condition for one response: what almost every analysis starts from.

A failed or skipped trial has no value here, and a condition where the response does not occur (reads at 100 %
writes) has no cell; both are counted, so that every analysis can say what it left out. A percentile of a latency is
that of all requests of a condition (`merged_histograms`), wherever all its trials have kept their histograms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ioassay import metrics
from ioassay.analysis.measurements import merged_histograms
from ioassay.analysis.measurements.memo import memoized
from ioassay.factors import CASE, Design, level_key
from ioassay.records.record import FAILED, OK, SKIPPED, Scalar
from ioassay.stats.result import Floats, Interval, Undefined
from ioassay.stats.sample import mean_interval
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

    from ioassay._core import Histogram

Ints = npt.NDArray[np.int64]
Key = tuple[tuple[str, str], ...]
SMALLEST, LARGEST = 1e-100, 1e100


@dataclass(frozen=True)
class Cell:
    """One condition: `values` of its repetitions in the order they ran, in the unit of the response.

    Their mean is the value of the condition. `measured` is what each repetition measured by itself: the same, but for
    percentiles of merged histograms, whose `values` are pseudo-values. `order` is the position in the whole run,
    `trials` the trials' ids, `histograms` their latencies; all have the shape (n,), or are empty without histograms.
    """

    point: Mapping[str, Scalar]
    values: Floats
    measured: Floats
    repetition: Ints
    order: Ints
    trials: tuple[str, ...]
    histograms: tuple[Histogram, ...] = ()

    @property
    def label(self) -> str:
        """The condition in words."""
        return label(self.point)


@dataclass(frozen=True)
class Cells:
    """All conditions of one study with values of one response, in the study's order.

    `factors` holds only levels that have values. `absent`: conditions that ran but have no such response;
    `failed` and `skipped`: numbers of trials that are left out; `implausible`: of values that are no measurement;
    `lost`: conditions of which no trial went well.
    """

    study: str
    response: str
    factors: Mapping[str, tuple[Scalar, ...]]
    cells: tuple[Cell, ...]
    absent: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    failed: int = 0
    skipped: int = 0
    implausible: int = 0

    @property
    def groups(self) -> list[Floats]:
        """The values, one array a condition."""
        return [cell.values for cell in self.cells]

    @property
    def merged(self) -> bool:
        """Whether the values are percentiles of merged histograms."""
        return any(cell.histograms for cell in self.cells)

    def varying(self) -> list[str]:
        """Factors with two levels or more that have values."""
        return [name for name, levels in self.factors.items() if len(levels) > 1]

    def column(self, factor: str) -> list[str]:
        """What level of the factor each value has, cell by cell: equal where the levels are the same."""
        return [level_key(factor, cell.point[factor]) for cell in self.cells for _ in cell.values]

    def slices(self, factor: str) -> list[Cells]:
        """One set for each combination of the other factors' levels, in which only `factor` varies."""
        others = [name for name in self.factors if name != factor]
        found: dict[tuple[str, ...], list[Cell]] = {}
        for cell in self.cells:
            found.setdefault(tuple(level_key(name, cell.point[name]) for name in others), []).append(cell)
        return [self._restricted(cells) for cells in found.values()]

    def where(self) -> dict[str, Scalar]:
        """The levels that all conditions share, of factors that the study varies."""
        return {name: levels[0] for name, levels in self.factors.items() if len(levels) == 1 and len(self.factors) > 1}

    def _restricted(self, cells: Sequence[Cell]) -> Cells:
        return replace(self, cells=tuple(cells), factors=_present(self.factors, cells))


@memoized
def cells(records: Dataset, study: Study, response: str) -> Cells:
    """Collect the values of `response`, of trials that count; a missing column gives no cells."""
    factors, design = study.levels, study.design
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    trials = that_count(records.trials_of(study))
    wanted = [name for name in ("trial", "status", "repetition", "order", *factors) if name in trials.columns]
    performed = f"{response.partition('.')[0]}.ios"
    extra = [name for name in (response, performed) if name in trials.columns and name not in wanted]
    for row in trials.select(*wanted, *extra).iter_rows(named=True):
        rows.setdefault(design.key(row), []).append(row)
    known = {
        key: design.point(part[0]) for key, part in sorted(rows.items(), key=lambda item: design.place(item[1][0]))
    }
    found = {key: _cell(known[key], rows[key], response, performed) for key in known}
    found = _with_histograms(records, study, response, found)
    kept = [cell for cell in found.values() if cell.values.size]
    status = trials["status"].to_list()
    return Cells(
        study=study.name,
        response=response,
        factors=_present(factors, kept),
        cells=tuple(kept),
        absent=tuple(label(cell.point) for key, cell in found.items() if not cell.values.size and _ran(rows[key])),
        lost=tuple(label(known[key]) for key in known if not _ran(rows[key])),
        failed=status.count(FAILED),
        skipped=status.count(SKIPPED),
        implausible=sum(_implausible(row, response) for part in rows.values() for row in part),
    )


def by_key(records: Dataset, study: Study, response: str) -> dict[Key, Cell]:
    """The conditions, each by what finds it in another run."""
    return {point_key(cell.point): cell for cell in cells(records, study, response).cells}


def point_key(point: Mapping[str, Scalar]) -> Key:
    """Equal for the same condition of two runs, whatever the order of its factors and the spelling of levels."""
    return tuple(sorted((name, level_key(name, level)) for name, level in point.items()))


def that_count(trials: pl.DataFrame) -> pl.DataFrame:
    """The trials whose values count: of a search those of its confirmation, since by the others' luck it chose."""
    return trials.filter(trials["search"] == "confirm") if "search" in trials.columns else trials


def _ran(rows: Sequence[Mapping[str, object]]) -> bool:
    return any(row["status"] == OK for row in rows)


def _cell(point: Mapping[str, Scalar], rows: Sequence[Mapping[str, object]], response: str, performed: str) -> Cell:
    # A direction without a single request has no rate, even where a tool says 0.
    good = [
        row for row in rows if row["status"] == OK and plausible(row.get(response)) and row.get(performed, 1.0) != 0
    ]
    measured = np.array([row[response] for row in good], dtype=np.float64)
    return Cell(
        point=point,
        values=measured,
        measured=measured,
        repetition=np.array([row["repetition"] for row in good], dtype=np.int64),
        order=np.array([row["order"] for row in good], dtype=np.int64),
        trials=tuple(str(row["trial"]) for row in good),
    )


def _with_histograms(
    records: Dataset, study: Study, response: str, found: Mapping[tuple[str, ...], Cell]
) -> dict[tuple[str, ...], Cell]:
    """The same cells; of a percentile with its values from all requests, unless a trial has kept no histogram."""
    percentile = metrics.latency_percentile(response)
    if percentile is None:
        return dict(found)
    known = merged_histograms.of_trials(records, study, percentile.direction, percentile.kind)
    if not all(trial in known for cell in found.values() for trial in cell.trials):
        return dict(found)
    return {
        key: _merged_cell(cell, tuple(known[trial] for trial in cell.trials), percentile.percent)
        for key, cell in found.items()
    }


def _merged_cell(cell: Cell, histograms: tuple[Histogram, ...], percent: float) -> Cell:
    if not histograms:
        return cell
    return replace(cell, values=merged_histograms.pseudo_values(histograms, [percent]).ravel(), histograms=histograms)


def pooled(cells: Sequence[Cell], response: str) -> Cell:
    """Several conditions as one, the first's; percentiles are of all their requests."""
    if len(cells) == 1:
        return cells[0]
    joined = replace(
        cells[0],
        values=np.concatenate([cell.values for cell in cells]),
        measured=np.concatenate([cell.measured for cell in cells]),
        repetition=np.concatenate([cell.repetition for cell in cells]),
        order=np.concatenate([cell.order for cell in cells]),
        trials=tuple(trial for cell in cells for trial in cell.trials),
        histograms=(),
    )
    percentile = metrics.latency_percentile(response)
    if percentile is None or not all(cell.histograms for cell in cells):
        return joined
    return _merged_cell(joined, tuple(one for cell in cells for one in cell.histograms), percentile.percent)


def interval(response: str, cell: Cell, confidence: float = 0.95) -> Interval | Undefined:
    """The interval of a condition's value: the one that every table, figure and sentence shows.

    It keeps within what the response can be, and that of a percentile in line with those of other percentiles.
    """
    percentile = metrics.latency_percentile(response)
    if percentile is None or not cell.histograms:
        return mean_interval(cell.values, confidence, metrics.metric(response).bounds)
    percents = sorted({*metrics.PERCENTILES, percentile.percent})
    rows = merged_histograms.pseudo_values(cell.histograms, percents)
    return merged_histograms.intervals(rows, confidence)[percents.index(percentile.percent)]


def plausible(value: object) -> bool:
    """Whether a value can be a measurement: a finite number whose square is one, too. None is none."""
    return isinstance(value, int | float) and (value == 0 or SMALLEST <= abs(value) <= LARGEST)


def _implausible(row: Mapping[str, object], response: str) -> bool:
    return row["status"] == OK and row.get(response) is not None and not plausible(row.get(response))


def _present(factors: Mapping[str, tuple[Scalar, ...]], kept: Sequence[Cell]) -> dict[str, tuple[Scalar, ...]]:
    design = Design(factors)
    return {name: tuple(design.in_order(name, [cell.point[name] for cell in kept])) for name in factors}


def label(point: Mapping[str, Scalar]) -> str:
    """A condition in words: `rw=randrw rwmixwrite=25`; a case by its name; 'all trials' for the only point."""
    words = [str(level) if name == CASE else f"{name}={level}" for name, level in point.items()]
    return " ".join(words) or "all trials"
