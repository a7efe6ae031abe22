"""Which trials and conditions a figure shows, and how their levels and factors are called on it.

Computes no statistic. When nothing is left to show, `NoData` says why, in words for the figure's reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ioassay.analysis import machine_conditions
from ioassay.factors import CONDITIONS, factor_label, level_axis_numbers, level_label, level_phrase, same_level
from ioassay.narrative import phrases
from ioassay.narrative.say import sentence
from ioassay.records.record import OK, Scalar
from ioassay.report.figures.spec import FigureSpec, NoData
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

    from ioassay.analysis.measurements.cells import Cell


def select(records: Dataset, study: Study, where: Mapping[str, Scalar]) -> pl.DataFrame:
    """The study's trials that went well and match `where`, in the order they ran; NoData when there are none."""
    import polars as pl

    for factor in where:
        require_factor(study, factor)
    trials = matching(records.trials_of(study), where)
    shown = f" with {describe_where(where)}" if where else ""
    if trials.is_empty():
        raise NoData(f"no trial of the study '{study.name}'{shown} was recorded")
    good = trials.filter(pl.col("status") == OK)
    if good.is_empty():
        reason = next((text for text in trials["reason"].to_list() if text), sentence("figures.no_reason"))
        if trials.height == 1:
            raise NoData(f"the only trial{shown} failed: {reason}")
        raise NoData(f"{sentence('figures.none_of_trials', number=trials.height)}{shown} went well: {reason}")
    return good


def matching(rows: pl.DataFrame, where: Mapping[str, Scalar]) -> pl.DataFrame:
    """The rows whose factors have these levels."""
    import polars as pl

    for factor, level in where.items():
        found = rows[factor].to_list() if factor in rows.columns else [None] * rows.height
        rows = rows.filter(pl.Series([same_level(factor, level, other) for other in found], dtype=pl.Boolean))
    return rows


UNFIT = sentence("figures.unfit")


def is_conclusive(records: Dataset, study: Study) -> bool:
    """Whether a figure may mark what is best, or where something begins or ends."""
    return not machine_conditions.is_unfit(records, study)


def measured(records: Dataset, study: Study, where: Mapping[str, Scalar], name: str, *split: str | None) -> list[Cell]:
    """The conditions that match `where` and have the metric; NoData when there are none.

    `split` are the factors that the figure tells apart, which must exist (None is left out).
    """
    from ioassay.analysis.measurements.cells import cells

    trials = select(records, study, where)
    for factor in split:
        if factor is not None:
            require_factor(study, factor)
    found = [
        cell
        for cell in cells(records, study, name).cells
        if all(same_level(factor, level, cell.point[factor]) for factor, level in where.items())
    ]
    if not found:
        raise NoData(f"none of the {trials.height} trials that went well has the metric '{name}'")
    return found


def require_factor(study: Study, factor: str) -> None:
    """NoData when the study has no such factor: a figure may outlive the factor it was written for."""
    known = study.levels
    if factor not in known:
        raise NoData(f"the study '{study.name}' has no factor '{factor}'; it has {', '.join(known) or 'none'}")


def main_factor(study: Study, chosen: str | None, where: Mapping[str, Scalar]) -> str:
    """The factor asked for, or else the first that `where` leaves free."""
    if chosen:
        return chosen
    free = [factor for factor in study.levels if factor not in where]
    if not free:
        raise NoData(f"the study '{study.name}' has no factor left to compare")
    return free[0]


def swept(study: Study, points: Sequence[Mapping[str, Scalar]]) -> tuple[str, str | None]:
    """The factor with most levels, rather of numbers than of words, and the next one, which takes the colour."""
    levels = {name: study.design.in_order(name, [point.get(name) for point in points]) for name in study.levels}
    varied = [name for name in levels if len(levels[name]) > 1]
    if not varied:
        raise NoData(f"the study '{study.name}' has values of one condition only")
    numeric = [name for name in varied if level_axis_numbers(name, levels[name]) and len(levels[name]) > 2]
    x = max(numeric or varied, key=lambda name: len(levels[name]))
    others = [name for name in varied if name != x]
    return x, others[0] if others else None


def describe_where(where: Mapping[str, Scalar]) -> str:
    """A restriction in words: `rw = randrw, bs = 4 KiB`, `without cache fence`."""
    return ", ".join(
        level_phrase(factor, level) if isinstance(level, bool) else f"{factor} = {level_label(factor, level)}"
        for factor, level in where.items()
    )


def conditions(study: Study, spec: FigureSpec) -> str:
    """What all trials of the figure share beside its restriction: the study's telling parameters."""
    varied = {*study.levels, *spec.where, *(key for case in study.case for key in case)}
    return describe_where({key: study.params[key] for key in CONDITIONS if key in study.params and key not in varied})


def pooled(points: Iterable[Mapping[str, Scalar]], *split: str | None) -> str:
    """Says where one mark holds conditions that the figure does not tell apart; `split` is what it does tell apart."""
    found: dict[tuple[Scalar | None, ...], dict[str, set[Scalar]]] = {}
    for point in points:
        levels = found.setdefault(tuple(point.get(name) for name in split if name), {})
        for name, level in point.items():
            levels.setdefault(name, set()).add(level)
    mixed = dict.fromkeys(name for levels in found.values() for name, seen in levels.items() if len(seen) > 1)
    return sentence("figures.pooled", factors=" and ".join(map(factor_label, mixed))) if mixed else ""


def points_of(study: Study, trials: pl.DataFrame) -> list[dict[str, Scalar]]:
    """The points of trials: factor -> level."""
    known = [name for name in study.levels if name in trials.columns]
    rows = trials.select(known).unique().to_dicts()
    return [{name: level for name, level in row.items() if level is not None} for row in rows]


def repetitions_text(counts: Sequence[int]) -> str:
    """How many repetitions stand behind each mean: `n = 10`, `n = 8 to 10`."""
    low, high = min(counts), max(counts)
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def metric_label(name: str) -> str:
    """The metric as the head of a title: `Read bandwidth`, `Mean read total latency`."""
    return phrases.name(name)


def metric_phrase(name: str) -> str:
    """The same inside a title: `read IOPS`."""
    label = metric_label(name)
    return label[:1].lower() + label[1:]
