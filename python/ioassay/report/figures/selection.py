"""Which trials and conditions a figure shows, and how their levels and factors are called on it.

Computes no statistic. When nothing is left to show, `NoData` says why, in words for the figure's reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ioassay import units
from ioassay.records.record import OK, RecordSet, Scalar, level_number
from ioassay.report.figures.spec import FigureSpec, NoData

if TYPE_CHECKING:
    import polars as pl

    from ioassay.analysis.measurements.cells import Cell

_PERCENT = ("rwmixread", "rwmixwrite")
_SIZES = ("bs", "size", "filesize", "blocksize", "buffer", "page", "file_size", "record_size")
# Conditions worth a subtitle where the study fixes them: they decide what is measured at all.
_TELLING = ("rw", "bs", "bssplit", "rwmixwrite", "ioengine", "iodepth", "numjobs", "direct", "stressor")


def select(records: RecordSet, study: Mapping[str, Any], where: Mapping[str, Scalar]) -> pl.DataFrame:
    """The study's trials that went well and match `where`, in the order they ran; NoData when there are none."""
    import polars as pl

    from ioassay.analysis.measurements import study_view

    trials = study_view.trials_of(records, study)
    for factor, level in where.items():
        require_factor(study, factor)
        found = trials[factor].to_list() if factor in trials.columns else [None] * trials.height
        trials = trials.filter(pl.Series([same_level(level, other) for other in found], dtype=pl.Boolean))
    shown = f" with {describe_where(where)}" if where else ""
    if trials.is_empty():
        raise NoData(f"no trial of the study '{study['name']}'{shown} was recorded")
    good = trials.filter(pl.col("status") == OK)
    if good.is_empty():
        reason = next((text for text in trials["reason"].to_list() if text), "no reason was recorded")
        number = "the only trial" if trials.height == 1 else f"none of the {trials.height} trials"
        raise NoData(f"{number}{shown} went well: {reason}")
    return good


def measured(
    records: RecordSet, study: Mapping[str, Any], where: Mapping[str, Scalar], name: str, *split: str | None
) -> list[Cell]:
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
        if all(same_level(level, cell.point[factor]) for factor, level in where.items())
    ]
    if not found:
        raise NoData(f"none of the {trials.height} trials that went well has the metric '{name}'")
    return found


def require_factor(study: Mapping[str, Any], factor: str) -> None:
    """NoData when the study has no such factor: a figure may outlive the factor it was written for."""
    known = factors(study)
    if factor not in known:
        raise NoData(f"the study '{study['name']}' has no factor '{factor}'; it has {', '.join(known) or 'none'}")


def factors(study: Mapping[str, Any]) -> list[str]:
    """Names of the study's factors, `case` first where it has cases."""
    from ioassay.analysis.measurements import study_view

    return list(study_view.factors(study))


def main_factor(study: Mapping[str, Any], chosen: str | None, where: Mapping[str, Scalar]) -> str:
    """The factor asked for, or else the first that `where` leaves free."""
    if chosen:
        return chosen
    free = [factor for factor in factors(study) if factor not in where]
    if not free:
        raise NoData(f"the study '{study['name']}' has no factor left to compare")
    return free[0]


def in_order(study: Mapping[str, Any], factor: str, found: Sequence[Scalar | None]) -> list[Scalar]:
    """The levels among `found`, each once, as the study lists them; others behind."""
    from ioassay.analysis.measurements import study_view

    listed = [study_view.level_key(level) for level in study_view.factors(study).get(factor, ())]
    once = {study_view.level_key(level): level for level in found if level is not None}
    ranks = {key: listed.index(key) if key in listed else len(listed) for key in once}
    return [once[key] for key in sorted(once, key=lambda key: ranks[key])]


def same_level(wanted: Scalar, found: Scalar | None) -> bool:
    """Whether two spellings mean one level: 12 and '12', '4KiB' and '4k'; words by their text."""
    if found is None:
        return False
    if isinstance(wanted, bool) or isinstance(found, bool):
        return str(wanted).lower() == str(found).lower()
    numbers = level_number(wanted), level_number(found)
    return numbers[0] == numbers[1] if None not in numbers else str(wanted) == str(found)


def is_size(factor: str) -> bool:
    """Whether the factor's numbers are bytes."""
    return factor.rpartition(".")[2] in _SIZES


def level_label(factor: str, level: Scalar) -> str:
    """A level for an axis: sizes as `4 KiB`, other levels as in sentences, but without what they count."""
    from ioassay.analysis.measurements import study_view
    from ioassay.analysis.narrative import phrases

    if factor == study_view.CASE:
        return str(level)  # a name that the study chose
    if is_size(factor) and not isinstance(level, bool) and (number := level_number(level)) is not None:
        return kib(number)
    return phrases.level_text(factor, level)


def kib(size_bytes: float) -> str:
    """A request size as these are known: `512 B`, `4 KiB`, `1024 KiB`, and MiB only when it is several."""
    if 1024 <= size_bytes < 2 * 1024**2 and size_bytes % 1024 == 0:
        return f"{size_bytes / 1024:.0f} KiB"
    return units.format_size(size_bytes)


def factor_label(factor: str) -> str:
    """What an axis over the factor is called: `Write share (%)`."""
    from ioassay.analysis.narrative import phrases

    return phrases.capital(plain_factor(factor)) + (" (%)" if is_percent(factor) else "")


def is_percent(factor: str) -> bool:
    """Whether the factor's numbers are percentages."""
    return factor in _PERCENT


def plain_factor(factor: str) -> str:
    """The factor in the middle of a sentence: `block size`, `write share`."""
    from ioassay.analysis.narrative import phrases

    return phrases.factor(factor)


def describe_where(where: Mapping[str, Scalar]) -> str:
    """A restriction in words: `rw = randrw, bs = 4 KiB`, `without cache fence`."""
    from ioassay.analysis.narrative import phrases

    return ", ".join(
        phrases.level_of(factor, level) if isinstance(level, bool) else f"{factor} = {level_label(factor, level)}"
        for factor, level in where.items()
    )


def conditions(study: Mapping[str, Any], spec: FigureSpec) -> str:
    """What all trials of the figure share beside its restriction: the study's telling parameters."""
    varied = set(factors(study)) | set(spec.where) | {key for case in study.get("case") or () for key in case}
    params = study.get("params") or {}
    fixed = {key: params[key] for key in _TELLING if key in params and key not in varied}
    return describe_where(fixed)


def pooled(points: Iterable[Mapping[str, Scalar]], *split: str | None) -> str:
    """Says where one mark holds conditions that the figure does not tell apart; `split` is what it does tell apart."""
    found: dict[tuple[Scalar | None, ...], dict[str, set[Scalar]]] = {}
    for point in points:
        levels = found.setdefault(tuple(point.get(name) for name in split if name), {})
        for name, level in point.items():
            levels.setdefault(name, set()).add(level)
    mixed = dict.fromkeys(name for levels in found.values() for name, seen in levels.items() if len(seen) > 1)
    return f"all levels of {' and '.join(map(plain_factor, mixed))} together" if mixed else ""


def points_of(study: Mapping[str, Any], trials: pl.DataFrame) -> list[dict[str, Scalar]]:
    """The points of trials: factor -> level."""
    known = [name for name in factors(study) if name in trials.columns]
    rows = trials.select(known).unique().to_dicts()
    return [{name: level for name, level in row.items() if level is not None} for row in rows]


def repetitions_text(counts: Sequence[int]) -> str:
    """How many repetitions stand behind each mean: `n = 10`, `n = 8 to 10`."""
    low, high = min(counts), max(counts)
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def metric_label(name: str) -> str:
    """The metric as the head of a title: `Read bandwidth`, `Mean read total latency`."""
    from ioassay.analysis.narrative import phrases

    return phrases.name(name)
