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

from ioassay.records.observation import Observation
from ioassay.records.record import Environment
from ioassay.store import frames
from ioassay.store.dataset import Dataset
from ioassay.store.frames import TRIALS, WARNINGS, drivers_of
from ioassay.study import plan
from ioassay.study.model import Study, make_study
from ioassay.verify.verdict import Code, Verdict

Point = Mapping[str, Any]


def codes(verdict: Verdict) -> set[Code]:
    """What its explanation and its notes say."""
    return {statement.code for statement in (*verdict.explanation, *verdict.notes)}


SCHEMAS = {**frames.SCHEMAS, "warnings": WARNINGS}


@dataclass
class Rows:
    """Trials of one study, with whatever belongs to them."""

    study: Study
    trials: list[dict[str, Any]]
    environments: dict[str, Environment] = field(default_factory=dict)
    observations: dict[str, Observation] = field(default_factory=dict)
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
        `_warnings` [(code, text)]; `_environment` is an Environment, `_observation` an Observation.
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
        if (environment := given.get("_environment")) is not None:
            rows.environments[trial] = environment
        if (observation := given.get("_observation")) is not None:
            rows.observations[trial] = observation
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
        metrics = {name for row in rows for name in row} - TRIALS.keys() - factors
        schema = {**TRIALS, **dict.fromkeys(sorted(metrics), pl.Float64)}
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
            environments={trial: one for part in parts for trial, one in part.environments.items()},
            observations={trial: one for part in parts for trial, one in part.observations.items()},
            drivers=drivers_of([part.study for part in parts]),
            **frames,
        )
