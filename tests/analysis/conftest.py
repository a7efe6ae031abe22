"""Makes Datasets from numbers, so that an analysis can be tested without a run.

lab.study("s", factors={"bs": ["4KiB", "64KiB"]}, responses=["read.bw"])
lab.records(lab.run(study, lambda point, repetition: {"read.bw": 1e8}, repetitions=10))
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ioassay.store.dataset import Dataset
from ioassay.store.frames import drivers_of
from ioassay.study import plan
from ioassay.study.model import Study, make_study

Point = Mapping[str, Any]
SCHEMAS = {
    "hist": {
        "study": pl.String,
        "trial": pl.String,
        "direction": pl.String,
        "kind": pl.String,
        "job": pl.Int64,
        "value_ns": pl.Int64,
        "count": pl.Int64,
    },
    "series": {
        "study": pl.String,
        "trial": pl.String,
        "metric": pl.String,
        "job": pl.Int64,
        "time_s": pl.Float64,
        "value": pl.Float64,
    },
    "samples": {
        "study": pl.String,
        "trial": pl.String,
        "monitor": pl.String,
        "name": pl.String,
        "time_s": pl.Float64,
        "value": pl.Float64,
    },
    "warnings": {"study": pl.String, "trial": pl.String, "code": pl.String, "text": pl.String, "remedy": pl.String},
}
BASE = {
    "study": pl.String,
    "trial": pl.String,
    "status": pl.String,
    "reason": pl.String,
    "repetition": pl.Int64,
    "order": pl.Int64,
    "started_unix_s": pl.Float64,
    "duration_s": pl.Float64,
}


@dataclass
class Rows:
    """Trials of one study, with whatever belongs to them."""

    study: Study
    trials: list[dict[str, Any]]
    extra: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in SCHEMAS})


class Lab:
    """The builder."""

    def study(
        self,
        name: str = "study",
        *,
        factors: Mapping[str, Sequence[Any]] | None = None,
        case: Sequence[Mapping[str, Any]] = (),
        responses: Sequence[str] = ("read.bw",),
        confidence: float = 0.95,
        questions: Sequence[str] = (),
        lead: str = "shape",
        **keys: Any,
    ) -> Study:
        """A study as the dataset carries it."""
        table = {
            "name": name,
            "title": name,
            "driver": "fio",
            "target": {"kind": "file", "path": "testfile", "size": 2**30},
            "params": {"direct": 1},
            "factors": dict(factors or {}),
            "case": list(case),
            "analysis": {
                "responses": list(responses),
                "questions": list(questions),
                "lead": lead,
                "confidence": confidence,
            },
            **keys,
        }
        return make_study(table, name, stored=True)

    def run(
        self,
        study: Study,
        measure: Callable[[Point, int], Mapping[str, Any] | None],
        repetitions: int = 10,
        seed: int = 1,
        first_order: int = 0,
    ) -> Rows:
        """One trial a point and repetition, in shuffled blocks. `measure` gives its metrics, None for a failed one.

        Keys of the metrics that start with '_' go to other frames: `_series` {metric: values} (one every 0.1 s),
        `_hist` [(direction, kind, values_ns, counts)], `_samples` [(monitor, name, time_s, value)],
        `_warnings` [(code, text)].
        """
        rows, order = Rows(study, []), itertools.count(first_order)
        for repetition in range(repetitions):
            block = plan.points(study)
            random.Random(seed * 1000 + repetition).shuffle(block)
            for point in block:
                self._add(rows, point, repetition, next(order), measure(point, repetition))
        return rows

    def _add(self, rows: Rows, point: Point, repetition: int, order: int, measured: Mapping[str, Any] | None) -> None:
        study, trial = rows.study.name, f"{rows.study.name}-{order}"
        key = {"study": study, "trial": trial}
        given = dict(measured or {})
        rows.trials.append(
            {
                **key,
                "status": "ok" if measured is not None else "failed",
                "reason": "" if measured is not None else "the tool crashed",
                "repetition": repetition,
                "order": order,
                "started_unix_s": 1.7e9 + order,
                "duration_s": 1.0,
                **point,
                **{name: value for name, value in given.items() if not name.startswith("_")},
            }
        )
        for metric, values in given.get("_series", {}).items():
            rows.extra["series"] += [
                {**key, "metric": metric, "job": -1, "time_s": 0.1 * (i + 1), "value": float(value)}
                for i, value in enumerate(values)
            ]
        for direction, kind, values_ns, counts in given.get("_hist", ()):
            rows.extra["hist"] += [
                {**key, "direction": direction, "kind": kind, "job": -1, "value_ns": int(v), "count": int(c)}
                for v, c in zip(values_ns, counts, strict=True)
            ]
        for monitor, name, time_s, value in given.get("_samples", ()):
            rows.extra["samples"].append(
                {**key, "monitor": monitor, "name": name, "time_s": float(time_s), "value": float(value)}
            )
        for code, text in given.get("_warnings", ()):
            rows.extra["warnings"].append({**key, "code": code, "text": text, "remedy": ""})

    def records(self, *parts: Rows, host: Mapping[str, Any] | None = None) -> Dataset:
        """All of it as one Dataset; factor columns become text where a level is a word, as frames.py does."""
        rows = [dict(row) for part in parts for row in part.trials]
        factors = {name for part in parts for point in plan.points(part.study) for name in point}
        for name in factors:
            if not all(isinstance(row.get(name), int | float | None) for row in rows):
                for row in rows:
                    row[name] = None if row.get(name) is None else str(row[name])
        metrics = {name for row in rows for name in row} - BASE.keys() - factors
        schema = {**BASE, **dict.fromkeys(sorted(metrics), pl.Float64)}
        trials = pl.DataFrame(rows, schema_overrides=schema, infer_schema_length=None)
        frames = {
            name: pl.DataFrame([row for part in parts for row in part.extra[name]], schema=columns)
            for name, columns in SCHEMAS.items()
        }
        return Dataset(
            root=Path("run"),
            studies=[part.study for part in parts],
            host=dict(host or {}),
            trials=trials,
            planned={part.study.name: len(part.trials) for part in parts},
            drivers=drivers_of([part.study for part in parts]),
            **frames,
        )


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab()


# Samples with published results. Facts; each names where it was published.

INSECT_SPRAYS = {
    "A": [10, 7, 20, 14, 14, 12, 10, 23, 17, 20, 14, 13],
    "B": [11, 17, 21, 11, 16, 14, 17, 17, 19, 21, 7, 13],
    "C": [0, 1, 7, 2, 3, 1, 2, 1, 3, 0, 1, 4],
    "D": [3, 5, 12, 6, 4, 3, 5, 5, 5, 5, 2, 4],
    "E": [3, 5, 3, 5, 3, 6, 1, 1, 3, 2, 6, 4],
    "F": [11, 9, 15, 22, 15, 16, 13, 10, 26, 26, 24, 13],
}
"""Beall, "The transformation of data from entomological field experiments", Biometrika 29 (1942); R's InsectSprays."""

TOOTH_GROWTH = {
    ("VC", 0.5): [4.2, 11.5, 7.3, 5.8, 6.4, 10, 11.2, 11.2, 5.2, 7],
    ("VC", 1.0): [16.5, 16.5, 15.2, 17.3, 22.5, 17.3, 13.6, 14.5, 18.8, 15.5],
    ("VC", 2.0): [23.6, 18.5, 33.9, 25.5, 26.4, 32.5, 26.7, 21.5, 23.3, 29.5],
    ("OJ", 0.5): [15.2, 21.5, 17.6, 9.7, 14.5, 10, 8.2, 9.4, 16.5, 9.7],
    ("OJ", 1.0): [19.7, 23.3, 23.6, 26.4, 20, 25.2, 25.8, 21.2, 14.5, 27.3],
    ("OJ", 2.0): [25.5, 26.4, 22.4, 24.5, 24.8, 30.9, 26.4, 27.3, 29.4, 23],
}
"""Crampton, "The growth of the odontoblast of the incisor teeth", Journal of Nutrition 33 (1947); R's ToothGrowth."""


@pytest.fixture(scope="session")
def insect_sprays() -> list[list[float]]:
    return [list(map(float, group)) for group in INSECT_SPRAYS.values()]


@pytest.fixture(scope="session")
def tooth_growth() -> dict[tuple[str, float], list[float]]:
    return {key: list(map(float, values)) for key, values in TOOTH_GROWTH.items()}
