"""What a study asks: its factors and their levels, its responses, its confidence. Reads no measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ioassay import metrics
from ioassay.analysis.measurements.memo import memoized
from ioassay.factors import CASE, Design, distinct_levels
from ioassay.records.record import RecordSet, Scalar

if TYPE_CHECKING:
    import polars as pl

Study = Mapping[str, Any]
# What is worth answering where a study names no responses, most telling first.
_USUAL = (
    *(f"{direction}.{quantity}" for quantity in ("bw", "iops", "lat.p99") for direction in metrics.DIRECTIONS),
    "bogo_ops_real_rate",
    "value",
)


def factors(study: Study) -> dict[str, tuple[Scalar, ...]]:
    """Factor -> its levels as the study wrote them; `case` first where there are cases, as the plan has it.

    Studies that were run before duplicates were refused may list a level twice: it counts once.
    """
    cases = [case["name"] for case in study.get("case") or ()]
    listed = {**({CASE: cases} if cases else {}), **(study.get("factors") or {})}
    return {name: distinct_levels(name, levels) for name, levels in listed.items()}


def design(study: Study) -> Design:
    """The same, to find levels however they are spelled and to put points in the study's order."""
    return Design(factors(study))


DETERMINISTIC = ("simulate",)
"""Drivers whose trials give the same again: no machine was measured, and there is nothing to repeat."""


def is_measured(study: Study) -> bool:
    """Whether its trials measured a machine, so that repetitions differ and the machine may be doubted."""
    return study.get("driver") not in DETERMINISTIC


def confidence(study: Study) -> float:
    """Confidence of every interval; one minus it is the risk of every test."""
    return float((study.get("analysis") or {}).get("confidence", 0.95))


def has_target(study: Study) -> bool:
    """Whether it loads storage; studies of processors and of other subsystems have no target."""
    return bool((study.get("target") or {}).get("kind", "null") != "null")


def is_about_peaks(study: Study) -> bool:
    """Whether the study is about where the best lies, so that its summary begins with that."""
    return bool((study.get("analysis") or {}).get("lead") == "peak")


def is_about_choice(study: Study) -> bool:
    """Whether the study is about which of its cases to choose, so that its summary begins with that."""
    return bool((study.get("analysis") or {}).get("lead") == "choice")


def responses(records: RecordSet, study: Study) -> list[str]:
    """The metrics to answer: as the study lists them, or the usual ones that its trials have."""
    listed = (study.get("analysis") or {}).get("responses") or ()
    trials = trials_of(records, study)
    wanted = listed or [name for name in _USUAL if name in trials.columns]
    return [name for name in wanted if name in trials.columns and trials[name].null_count() < trials.height]


@memoized
def trials_of(records: RecordSet, study: Study) -> pl.DataFrame:
    """All recorded trials of the study, failed ones too, in the order they ran."""
    import polars as pl

    return records.trials.filter(pl.col("study") == study["name"]).sort("order")


def that_count(trials: pl.DataFrame) -> pl.DataFrame:
    """The trials whose values count: of a search those of its confirmation, since by the others' luck it chose."""
    import polars as pl

    return trials.filter(pl.col("search") == "confirm") if "search" in trials.columns else trials


def settings(study: Study, point: Mapping[str, Scalar]) -> dict[str, Any]:
    """The driver's parameters at one point: fixed ones, the case's own, then factors."""
    cases: dict[Any, Mapping[str, Any]] = {case["name"]: case for case in study.get("case") or ()}
    own = {key: value for key, value in cases.get(point.get(CASE), {}).items() if key != "name"}
    merged = {**(study.get("params") or {}), **own}
    return {**merged, **{name: level for name, level in point.items() if name != CASE and "." not in name}}
