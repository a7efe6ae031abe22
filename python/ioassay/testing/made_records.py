"""What entries are given, made of a few numbers: a trial, a tool's end with its output, the records of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay.records.record import OK, Record, Scalar
from ioassay.roles import Outcome, Trial
from ioassay.store.run_folder import RunStore
from ioassay.study import plan
from ioassay.study.model import Suite, make_study

if TYPE_CHECKING:
    from ioassay.store.dataset import Dataset


def trial(
    params: Mapping[str, Any], *, driver: str = "", target: Mapping[str, Any] | None = None, repetition: int = 0
) -> Trial:
    """The first trial of a study with these parameters."""
    return Trial(
        id="0" * 16,
        study="contract",
        driver=driver,
        point={},
        params=params,
        target=target or {},
        run={},
        repetition=repetition,
        seed=1,
        order=0,
    )


def outcome(
    raw: Path, stdout: str | bytes = "", stderr: str | bytes = "", exit_code: int | None = 0, duration_s: float = 1.0
) -> Outcome:
    """A process that ended so, with its output in `raw`; one without an exit code was ended by SIGKILL."""
    for name, text in (("stdout", stdout), ("stderr", stderr)):
        (raw / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return Outcome(exit_code, 9 if exit_code is None else None, False, 0.0, duration_s, raw / "stdout", raw / "stderr")


def records(
    folder: Path, study: Mapping[str, Any], measure: Callable[[Mapping[str, Scalar], int], Mapping[str, float]]
) -> Dataset:
    """The records of a run below `folder`, as analyses and figures get them.

    `study` is what a study's file says; `measure(point, repetition)` gives the metrics of a trial.
    """
    from ioassay.store import frames

    made = make_study({"name": "study", "title": "Study", "watch": {"monitors": []}, **study}, "study")
    suite = Suite(name=made.name, title=made.title, studies=[made])
    trials = list(plan.trials(suite))
    store = RunStore.create(folder / "run", suite, {}, trials)
    for one in trials:
        store.begin(one.id)
        fields = ("id", "study", "driver", "repetition", "seed", "order")
        described = {"point": dict(one.point), **{name: getattr(one, name) for name in fields}}
        values = dict(measure(one.point, one.repetition))
        store.write(Record(described, OK, started_unix_s=float(one.order), duration_s=1.0, metrics=values))
    return frames.load(store)
