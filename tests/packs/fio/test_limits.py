"""A response within its limit, beyond it, or neither for sure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ioassay.analysis import descriptive
from ioassay.analysis.measurements.cells import cells
from ioassay.errors import StudyError
from ioassay.packs.fio.questions import limits
from ioassay.packs.fio.questions.limits import Judged
from ioassay.report import tables
from ioassay.stats.result import Interval, Undefined
from ioassay.store import frames
from ioassay.store.run_folder import RunStore

from ...computed_runs import execute, suite
from ...lab import Lab


@pytest.fixture
def lab() -> Lab:
    return Lab()


def measured(root: Path, repetitions: int = 3, **limit: object) -> list[str]:
    """What the question says of a load whose requests take 100 µs."""
    made = suite(
        repetitions=repetitions,
        params={"metrics": {"read.lat.p50": 1e5}, "noise": 0.01},
        analysis={"limits": {"read.lat.p50": limit}, "questions": ["limits"]},
    )
    execute(root, made)
    records = frames.load(RunStore.open(root))
    return [str(said) for finding in limits.analyse(records, records.studies[0]) for said in finding.statements]


@pytest.mark.parametrize(("most", "outcome"), [("10s", "within"), ("10ns", "above")])
def test_a_whole_interval_is_on_one_side(tmp_path: Path, most: str, outcome: str) -> None:
    (said,) = measured(tmp_path / "run", most=most, of="etcd")
    assert "interval" in said and said.endswith(f": {outcome} etcd's {'10 s' if outcome == 'within' else '10 ns'}.")


@pytest.mark.parametrize(
    ("offered", "most", "outcome"),
    [(100, "1s", limits.WITHIN), (8000, "1s", limits.UNDECIDED), (8000, "10ns", limits.BEYOND)],
)
def test_a_lower_bound_is_within_no_limit(lab: Any, offered: int, most: str, outcome: str) -> None:
    asked = {"responses": ["read.iops"], "limits": {"read.lat.p99": {"most": most}}}
    study = lab.study(params={"rate_iops": offered}, analysis=asked)
    random = np.random.default_rng(3)
    rows = lab.run(study, lambda *_: {"read.iops": 100.0, "read.lat.p99": random.normal(1e5, 1e3)}, 3)
    records = lab.records(rows)
    (found,) = limits.analyse(records, study)
    assert [row[-1] for table in found.tables for row in table.rows] == [outcome]


@pytest.mark.parametrize("direction", ["sync", "kernel.fdatasync"])
def test_the_answer_is_that_of_all_synchronisations_and_not_of_writes(lab: Any, direction: str) -> None:
    random, drawn = np.random.default_rng(3), {"sync": list[Any](), "write": list[Any]()}
    limit = {f"{direction}.lat.p99": {"most": "10ms", "of": "etcd"}}
    asked = {"responses": [f"{direction}.lat.p99", "write.iops"], "limits": limit, "questions": ["limits"]}
    study = lab.study(case=[{"name": "log"}], analysis=asked)

    def measure(point: Any, repetition: int) -> dict[str, Any]:
        for name, around_ns in (("sync", 2e6), ("write", 5e3)):
            drawn[name].append((random.lognormal(0, 0.4, 3000) * around_ns).astype(int))
        latest = {direction: drawn["sync"][-1], "write": drawn["write"][-1]}
        found = {f"{way}.lat.{name}": float(np.percentile(latest[way], percent))
                 for way in latest for name, percent in (("p50", 50), ("p99", 99))}  # fmt: skip
        counts = [(way, "lat", *np.unique(ns, return_counts=True)) for way, ns in latest.items()]
        return {"write.iops": 1e4, **found, "_hist": counts}

    records = lab.records(lab.run(study, measure, 3))
    wanted_ns = np.percentile(np.concatenate(drawn["sync"]), 99)
    (finding,) = limits.analyse(records, study)
    (point,) = finding.statistics["points"]
    assert point["mean"] == pytest.approx(wanted_ns, rel=0.002) and point["outcome"] == "within"
    (profile,) = descriptive.profiles(records, study)
    assert profile.direction == direction
    assert profile.values["lat.p99"].mean == pytest.approx(wanted_ns, rel=0.002)
    table = tables.profile_table([profile])
    assert table is not None and table.columns[1] == f"{direction.rpartition('.')[2]} p99"
    (described,) = [one for one in descriptive.analyse(records, study) if getattr(one, "direction", "") == direction]
    assert isinstance(described, descriptive.Distribution)
    assert described.conditions[0].at(99.0).value == pytest.approx(wanted_ns, rel=0.002)


def test_one_repetition_tells_little(tmp_path: Path) -> None:
    (said,) = measured(tmp_path / "run", repetitions=1, most="10s")
    assert said.endswith(": within the limit of 10 s, as far as one repetition can tell.")


def test_a_limit_without_its_unit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"analysis\.limits\.read\.lat\.p50"):
        measured(tmp_path / "run", most="soon")


@pytest.mark.parametrize(
    ("response", "bounds", "outcome"),
    [
        ("sync.lat.p99", (8e6, 1e7), "within"),
        ("sync.lat.p99", (8e6, 1.1e7), "undecided"),
        ("sync.lat.p99", (1.1e7, 1.2e7), "beyond"),
        ("read.iops", (1e7, 2e7), "within"),
        ("read.iops", (9e6, 2e7), "undecided"),
        ("read.iops", (8e6, 9e6), "beyond"),
        ("read.iops", None, "within"),
    ],
)
def test_outcomes(response: str, bounds: tuple[float, float] | None, outcome: str, tmp_path: Path) -> None:
    execute(tmp_path / "run", suite())
    records = frames.load(RunStore.open(tmp_path / "run"))
    (cell,) = cells(records, records.studies[0], "value").cells
    known = Interval(*bounds, 0.95, "t") if bounds else Undefined("one repetition")
    judged = Judged(response, cell, 1e7, known, 1e7, "")
    assert judged.outcome == outcome
    side = "below" if response == "read.iops" else "above"
    assert outcome != "beyond" or f": {side} the limit of" in str(judged.statement(alone=True))
