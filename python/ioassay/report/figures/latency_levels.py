"""The latencies of each level of a factor, all its requests merged: what distributions of latencies are drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ioassay._core import Histogram
from ioassay.factors import factor_label, level_label
from ioassay.records.record import Scalar
from ioassay.report.figures import level_marks, selection
from ioassay.report.figures.chart import pl
from ioassay.report.figures.spec import Direction, FigureSpec, Latency, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_count, format_ns

if TYPE_CHECKING:
    from ioassay._core import Histogram

_KINDS = {"lat": "total", "clat": "completion", "slat": "submission"}
Percentage = Annotated[float, Field(gt=0, lt=100)]


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
    color: VegaLite
    """The channel of the levels' colours, where there are several."""

    def group(self, level: Scalar | None) -> VegaLite:
        """The field that tells rows of a level from those of others."""
        return {} if self.factor is None or level is None else {"group": level_label(self.factor, level)}

    @property
    def tips(self) -> dict[str, str]:
        """What hovering tells of a level."""
        return {"group:N": factor_label(self.factor)} if self.factor else {}

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

    def told(self, texts: Mapping[Scalar | None, str]) -> str:
        """The levels in words, each with its text."""
        return "; ".join("".join(f"{name}: " for name in self.group(at).values()) + text for at, text in texts.items())


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


def percentiles(histogram: Histogram, percentages: Sequence[float]) -> list[tuple[float, float, str]]:
    """Each percentage with its latency in ns, and this as text."""
    values = histogram.quantiles([percent / 100 for percent in percentages])
    return [(percent, value, format_ns(value)) for percent, value in zip(percentages, values, strict=True)]


def of(records: Dataset, study: Study, spec: LatencySpec) -> LatencyLevels:
    """The levels of the factor that the figure names, or of the first that it leaves free."""
    trials = selection.select(records, study, spec.where)
    free = [name for name in study.levels if name not in spec.where]
    factor = spec.color or (free[0] if free else None)
    if factor is not None:
        selection.require_factor(study, factor)
    rows = records.hist.filter(direction=spec.direction, kind=spec.latency)
    rows = rows.join(trials.select("trial", level=factor or pl.lit(None)), on="trial")
    if rows.is_empty():
        raise NoData(f"no {spec.direction} {spec.latency} histogram was recorded")
    # Of all jobs of a trial merged, or of its single jobs where only these were kept.
    rows = rows.filter((pl.col("job") == -1) | ~(pl.col("job") == -1).any().over("trial"))
    shown = trials.filter(trials["trial"].is_in(rows["trial"].unique().implode()))
    pooled = selection.pooled(selection.points_of(study, shown), factor)
    found = [level for level in rows["level"].unique().to_list() if level is not None]
    merged: dict[Scalar | None, Histogram] = {}
    for level in study.design.in_order(factor, found) if factor else [None]:
        own = rows.filter(pl.col("level").eq_missing(level)) if factor else rows
        merged[level] = Histogram.from_buckets(own["value_ns"].to_list(), own["count"].to_list())
    color = level_marks.of(records, study, factor, merged).color() if factor else {}
    return LatencyLevels(latency_name(spec.direction, spec.latency), factor, merged, shown.height, pooled, color)
