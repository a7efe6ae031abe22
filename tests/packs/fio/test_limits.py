"""A response within its limit, beyond it, or neither for sure."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay.analysis.measurements.cells import cells
from ioassay.errors import StudyError
from ioassay.packs.fio.questions import limits
from ioassay.packs.fio.questions.limits import Judged
from ioassay.stats.result import Interval, Undefined
from ioassay.store import frames
from ioassay.store.run_folder import RunStore

from ...computed_runs import execute, suite


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
