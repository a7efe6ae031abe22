"""The latencies of each level of a factor, all its requests merged: what distributions of latencies are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ioassay.factors import level_label
from ioassay.records.record import Scalar
from ioassay.report.figures import selection
from ioassay.report.figures.spec import Direction, FigureSpec, Latency, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_count

if TYPE_CHECKING:
    import polars as pl

    from ioassay._core import Histogram

_KINDS = {"lat": "total", "clat": "completion", "slat": "submission"}


class LatencySpec(FigureSpec):
    """Keys of every distribution of latencies."""

    direction: Direction
    latency: Latency
    color: str | None = None


@dataclass(frozen=True)
class LatencyLevels:
    """One histogram a level, in the order of the study; one for None where no factor varies."""

    name: str
    """Of the latency: `Read total latency`."""
    factor: str | None
    merged: Mapping[Scalar | None, Histogram]
    trials: int
    pooled: str

    @property
    def levels(self) -> list[Scalar]:
        """Those of the factor."""
        return [level for level in self.merged if level is not None]

    def group(self, level: Scalar | None) -> VegaLite:
        """The field that tells rows of a level from those of others."""
        return {} if self.factor is None or level is None else {"group": level_label(self.factor, level)}

    def requests_text(self) -> str:
        """How much was merged: `177 k requests of 9 trials`."""
        requests = format_count(sum(found.count for found in self.merged.values()))
        return f"{requests} requests of {self.trials} trials"

    def supported(self) -> LatencyLevels:
        """The levels with enough requests for a median; NoData without one."""
        kept = {level: histogram for level, histogram in self.merged.items() if last_percentage(histogram) >= 50}
        if not kept:
            most = max(histogram.count for histogram in self.merged.values())
            raise NoData(
                f"no level has more than {most} requests; a median needs {2 * few_slower()}, with half of them slower"
            )
        return replace(self, merged=kept)


def latency_name(direction: str, kind: str) -> str:
    """`Read total latency`."""
    return f"{direction.capitalize()} {_KINDS[kind]} latency"


def few_slower() -> int:
    """The requests that have to be slower than a percentile, so that no single ones decide it."""
    from ioassay.analysis.effects import descriptive

    return descriptive.FEW_BEYOND


def last_percentage(histogram: Histogram) -> float:
    """The highest percentage that the requests support."""
    return round(100 * (1 - few_slower() / histogram.count), 9)


def of(records: Dataset, study: Study, spec: LatencySpec) -> LatencyLevels:
    """The levels of the factor that the figure names, or of the first that it leaves free."""
    trials = selection.select(records, study, spec.where)
    free = [name for name in study.levels if name not in spec.where]
    factor = spec.color or (free[0] if free else None)
    rows = _rows(records, study, trials, spec, factor)
    shown = trials.filter(trials["trial"].is_in(rows["trial"].unique().implode()))
    pooled = selection.pooled(selection.points_of(study, shown), factor)
    merged = _merged(study, trials, rows, factor)
    return LatencyLevels(latency_name(spec.direction, spec.latency), factor, merged, shown.height, pooled)


def _rows(records: Dataset, study: Study, trials: pl.DataFrame, spec: LatencySpec, factor: str | None) -> pl.DataFrame:
    """The buckets of each trial: of all its jobs merged, or of its single jobs where only these were kept."""
    import polars as pl

    if factor is not None:
        selection.require_factor(study, factor)
    wanted = (pl.col("direction") == spec.direction) & (pl.col("kind") == spec.latency)
    rows = records.hist.filter(wanted & pl.col("trial").is_in(trials["trial"].implode()))
    if rows.is_empty():
        raise NoData(f"no {spec.direction} {spec.latency} histogram was recorded")
    merged = rows.filter(pl.col("job") == -1)
    apart = rows.filter(~pl.col("trial").is_in(merged["trial"].unique().implode()))
    return pl.concat([merged, apart])


def _merged(
    study: Study, trials: pl.DataFrame, rows: pl.DataFrame, factor: str | None
) -> dict[Scalar | None, Histogram]:
    """One histogram a level, all its trials merged."""
    from ioassay._core import Histogram

    if factor is None:
        return {None: Histogram.from_buckets(rows["value_ns"].to_list(), rows["count"].to_list())}
    rows = rows.join(trials.select("trial", factor), on="trial").drop_nulls(factor)
    found: dict[Scalar | None, Histogram] = {}
    for level in study.design.in_order(factor, rows[factor].unique().to_list()):
        members = rows.filter(rows[factor] == level)
        found[level] = Histogram.from_buckets(members["value_ns"].to_list(), members["count"].to_list())
    return found
