"""The earlier runs of a study on the machine of a run, from a history: a baseline, and what runs scatter by.

They ended before the run began, with the same settings, on the same machine and target, fit and not contradicted. Runs
before a change point of a condition tell its scatter, and not its present mean.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import ioassay
from ioassay.analysis.measurements.cells import Cell, Key, cells, point_key
from ioassay.errors import UsageError
from ioassay.process import supervisor
from ioassay.stats.change_points import RISK, Changes, change_points
from ioassay.stats.result import Floats
from ioassay.stats.run_scatter import FEWEST_RUNS, Series
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

    from ioassay.packs.comparison.run_comparison import Difference

MOST_RUNS = 200
"""The latest ones; what was before is another time."""
_NO_FACTS = ("run", "begun", "study", "title", "target", "host", "grade", "verdict", "headline", "page", "commit")
_UNFIT, _CONTRADICTED = "unfit", "contradicted"


@dataclass(frozen=True)
class _Value:
    """A run's mean of a condition, the squared relative deviation of its `n` repetitions, NaN of one."""

    mean: float
    variance: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float] | Floats) -> _Value:
        n, mean = len(values), math.fsum(values) / len(values)
        if n < 2 or mean == 0:
            return cls(mean, math.nan, n)
        return cls(mean, math.fsum((one - mean) ** 2 for one in values) / (n - 1) / mean**2, n)


@dataclass(frozen=True)
class EarlierRuns:
    """Of one study: `runs` has a row a run in the order of time, `values` by condition, response and run."""

    study: Study
    runs: pl.DataFrame
    values: Mapping[tuple[Key, str], Mapping[str, _Value]]
    own: Mapping[str, Any]
    """The row of the run that they are compared with."""

    @cached_property
    def names(self) -> list[str]:
        return self.runs["run"].to_list()

    def series(self, point: Key, response: str, later: Sequence[Cell]) -> Series:
        """The runs, and behind them `later` ones, each a span of its own."""
        known = self.values.get((point, response), {})
        found = [known.get(run, _Value(math.nan, math.nan, 1)) for run in self.names]
        behind = [_Value.of(cell.values) for cell in later]
        means, variances, sizes = zip(*((one.mean, one.variance, one.n) for one in [*found, *behind]), strict=True)
        spans = [*self.spans.get((point, response), [0] * len(found)), *range(len(found), len(found) + len(behind))]
        return Series(*(np.asarray(one) for one in (means, variances, sizes, spans)))

    @cached_property
    def spans(self) -> dict[tuple[Key, str], list[int]]:
        """A number for each run, of the time between two changes that it is in."""
        found = {}
        for key, known in self.values.items():
            means = [known[run].mean if run in known else math.nan for run in self.names]
            changes = change_points(means, RISK / len(self.values))
            places = [point.index for point in changes.points] if isinstance(changes, Changes) else []
            found[key] = [sum(place <= run for place in places) for run in range(len(means))]
        return found

    def trials(self, b: Dataset) -> Iterator[dict[str, Any]]:
        """A trial for each run and condition, with the means of the responses, as far as they are of the present."""
        points = {
            point_key(cell.point): cell.point
            for response in b.responses(self.study)
            for cell in cells(b, self.study, response).cells
        }
        for place, row in enumerate(self.runs.iter_rows(named=True)):
            for number, (key, point) in enumerate(points.items()):
                present = {
                    response: value.mean
                    for (of, response), known in self.values.items()
                    if of == key
                    and (value := known.get(row["run"]))
                    and self.spans[of, response][place] == self.spans[of, response][-1]
                }
                if present:
                    trial = {"study": self.study.name, "trial": f"{row['run']}-{number}", "status": "ok", "reason": ""}
                    when = {"repetition": place, "order": place, "started_unix_s": row["begun"].timestamp()}
                    yield {**trial, **when, "duration_s": 0.0, **point, **present}

    def differences(self) -> list[Difference]:
        """Facts of the host that differ between the last of them and the run."""
        from ioassay.packs.comparison.run_comparison import Difference

        (last,) = self.runs.tail(1).rows(named=True)
        facts = [name for name in last if name not in _NO_FACTS and last[name] != self.own[name]]
        return [Difference("host", name, last[name] or None, self.own[name] or None) for name in facts]


def earlier_runs(place: str, run: Dataset, without: Dataset | None = None) -> dict[str, EarlierRuns]:
    """By the study's name, of the history at a place; '' is the user's. `without` is a run that is left out.

    UsageError where this installation has no histories, or for a run that has not ended.
    """
    if (history := getattr(ioassay, "history", None)) is None:
        raise UsageError("--history needs the pack 'history', which this installation does not have")
    store = history(place)
    with supervisor.temporary_folder("ioassay-history-") as folder:  # the row that the run has in a history
        own = history(folder)
        own.add(run)
        rows = {row["study"]: row for row in own.runs().rows(named=True)}
    left_out = []
    if without is not None and (began := [one for one in without.trials["started_unix_s"].to_list() if one]):
        left_out = [min(began)]
    found = {study.name: _of_study(store, study, rows[study.name], left_out) for study in run.studies}
    return {name: one for name, one in found.items() if one is not None}


def _of_study(store: Any, study: Study, own: Mapping[str, Any], left_out: Sequence[float]) -> EarlierRuns | None:
    runs = store.runs(study.name, {"host": own["host"]})
    kept = [
        row["begun"] < own["begun"]
        and row["grade"] != _UNFIT
        and row["verdict"] != _CONTRADICTED
        and _is_same(row, own)
        and not any(abs(row["begun"].timestamp() - one) < 1e-3 for one in left_out)
        for row in runs.iter_rows(named=True)
    ]
    runs = runs.filter(kept).tail(MOST_RUNS)
    if runs.is_empty():
        return None
    names, values = set(runs["run"]), dict[tuple[Key, str], dict[str, _Value]]()
    for row in store.values(study.name, where={"host": own["host"]}).iter_rows(named=True):
        if row["run"] in names and row["values"]:
            key = point_key(json.loads(row["point"])), row["response"]
            values.setdefault(key, {})[row["run"]] = _Value.of(row["values"])
    return EarlierRuns(study, runs, values, own)


def _is_same(row: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Whether two runs have the same settings, or the same target if one is of a version that kept no settings."""
    if row["settings"] and own["settings"]:
        return bool(row["settings"] == own["settings"])
    return _place(row["target"]) == _place(own["target"])


def _place(target: str) -> str:
    """A target without the name of a file, which may be that of one run."""
    kind, _, path = target.partition(" ")
    return f"{kind} {Path(path).parent}" if kind == "file" else target


def as_run(earlier: Mapping[str, EarlierRuns], b: Dataset) -> Dataset:
    """Earlier runs as a run to compare with, in which each of them is a repetition; without studies of too few runs."""
    import polars as pl

    enough = {name: one for name, one in earlier.items() if len(one.names) >= FEWEST_RUNS}
    rows = [row for one in enough.values() for row in one.trials(b)]
    empty = {name: getattr(b, name).clear() for name in ("hist", "series", "samples", "warnings", "calls")}
    return replace(
        b,
        root=Path("history"),
        studies=[study for study in b.studies if study.name in enough],
        trials=pl.DataFrame(rows, schema=b.trials.schema),
        planned={},
        traced=None,
        counting=None,
        observations={},
        environments={},
        claims={},
        tuning=None,
        **empty,
    )
