"""Whether a drive drifted from its description: the verdict on a run whose numbers are known."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ioassay as ia
from ioassay.analysis.machine_conditions import Grade
from ioassay.errors import InputError, SafetyRefusal
from ioassay.packs.ssd.twin import drift, measurement
from ioassay.records.record import Record
from ioassay.simulation import drive_files
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite

from .conftest import ioassay as ioassay

POINTS = {4096: (80.0, 75.0, 140.0), 65536: (150.0, 145.0, 260.0), 131072: (210.0, 200.0, 420.0)}
METRICS = ("read.lat.mean", "read.lat.p50", "read.lat.p99")


@pytest.fixture
def described(tmp_path: Path) -> drive_files.DriveFile:
    rows = [f"fio,read,random,{size},1,{','.join(map(str, values))}" for size, values in POINTS.items()]
    (tmp_path / "mine.csv").write_text(
        "\n".join(["engine,operation,pattern,size_bytes,depth,mean_us,p50_us,p99_us", *rows])
    )
    (tmp_path / "mine.toml").write_text(
        'about = "mine"\n[sources]\nhere = "here"\n'
        '[drive]\nelements = { value = 4, basis = "assumed", source = "here" }\n'
        '[measurements.reads]\nabout = "reads"\ndata = "mine.csv"\nsource = "here"\n'
    )
    return drive_files.load(tmp_path / "mine.toml")


def measured(drive: drive_files.DriveFile, root: Path, seed: int, scatter: float, factors: tuple[float, ...]) -> ia.Run:
    """A run in which the statistics of all points are off by these factors, and scatter by a share."""
    points, _ = drift.sample(drive, writes=False)
    loads = [drift._load(point, 1.0, 2**30, 512) for point in points]
    target = {"kind": "file", "path": str(root / "drive"), "size": 2**30}
    made = measurement.study("check", loads, target, "io_uring", 1, 5)
    store = RunStore.create(root, Suite(name="check", title="Check", studies=[made]), {})
    rng = np.random.default_rng(seed)
    for trial in store.trials():
        store.begin(trial.id)
        values = np.array(POINTS[trial.params["bs"]]) * factors * np.exp(rng.normal(0, scatter, 3)) * 1e3
        identity = {"id": trial.id, "study": trial.study, "driver": "fio", "point": dict(trial.point)}
        identity |= {"repetition": trial.repetition, "seed": trial.seed, "order": trial.order, "twin": False}
        metrics = dict(zip(METRICS, map(float, values), strict=True))
        store.write(Record(trial=identity, status="ok", metrics=metrics))
    return ia.open(root)


@pytest.mark.parametrize(
    ("scatter", "factors", "outcome", "said"),
    [
        (
            0.005,
            (1.0, 1.0, 1.0),
            drift.SAME,
            "has not drifted from its description mine: all 9 statistics are within 10%",
        ),
        (0.005, (1.03, 0.98, 1.02), drift.SAME, "within 10%"),
        (0.005, (1.0, 1.3, 1.0), drift.DRIFTED, "3 of 9 statistics differ by more than 10%, the p50 of"),
        (0.005, (0.7, 1.0, 1.0), drift.DRIFTED, "the mean latency of"),
        (0.2, (1.0, 1.0, 1.0), drift.OPEN, "No drift from its description mine is shown"),
    ],
)
def test_a_drive_drifted_where_an_interval_is_beyond_the_margin(
    described: drive_files.DriveFile,
    tmp_path: Path,
    scatter: float,
    factors: tuple[float, ...],
    outcome: str,
    said: str,
) -> None:
    found = drift.compare(described, measured(described, tmp_path / "run", 7, scatter, factors))
    assert found.outcome == outcome
    assert said in found.verdict


def test_a_drive_that_is_as_described_is_seldom_called_drifted(
    described: drive_files.DriveFile, tmp_path: Path, seed: int
) -> None:
    """With a margin of nearly nothing any interval that misses is a drift: one drive in twenty."""
    drifted = 0
    for number in range(25):
        run = measured(described, tmp_path / f"run-{number}", seed + number, 0.05, (1.0, 1.0, 1.0))
        drifted += drift.compare(described, run, margin=1e-6).outcome == drift.DRIFTED
    assert drifted <= 5, "of 25, one on average"


def test_no_drift_is_claimed_of_an_unfit_machine(
    described: drive_files.DriveFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = measured(described, tmp_path / "run", 1, 0.005, (2.0, 2.0, 2.0))
    monkeypatch.setattr(type(run), "trust", SimpleNamespace(grade=Grade.UNFIT))
    found = drift.compare(described, run)
    assert found.outcome == drift.OPEN and "is not judged: the machine was unfit" in found.verdict


def test_the_change_of_a_statistic_is_a_ratio_with_its_interval(
    described: drive_files.DriveFile, tmp_path: Path
) -> None:
    found = drift.compare(described, measured(described, tmp_path / "run", 3, 0.02, (1.5, 1.0, 1.0)))
    means = [one for one in found.changes if one.statistic == "mean_us"]
    for one in means:
        assert one.ratio is not None and one.ratio.low < one.measured / one.described < one.ratio.high
        assert math.isclose(one.described, POINTS[one.point.size_bytes][0])
        assert one.ratio.low < 1.5 < one.ratio.high
    head, rows = found.columns(), list(found.rows())
    assert head == ["load", "mean latency", "p50", "p99"] and len(rows) == 3
    assert found.as_dict()["outcome"] == drift.DRIFTED and len(found.as_dict()["changes"]) == 9


def test_a_description_of_writes_needs_consent() -> None:
    drive = drive_files.load("nvme-a")
    with pytest.raises(InputError, match="describes writes only; expected --destroy-data"):
        drift.sample(drive, writes=False)
    points, of_model = drift.sample(drive, writes=True)
    assert 1 < len(points) <= 6 and not of_model and {point.operation for point in points} == {"write"}


def test_a_description_without_measurements_is_compared_with_its_model() -> None:
    points, of_model = drift.sample(drive_files.load("tlc-client"), writes=False)
    assert of_model and {point.operation for point in points} == {"read"}
    assert all(point.statistics["mean_us"] > 0 for point in points)


@pytest.mark.fio
@pytest.mark.slow
def test_a_file_is_checked_by_reads_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    content = bytes(range(256)) * 2**14
    path.write_bytes(content)
    with pytest.raises(SafetyRefusal):
        ia.learn(path, output=tmp_path / "run")
    found = ia.drift("samsung-980-pro", path, budget_s=20, output=tmp_path / "run")
    assert path.read_bytes() == content
    assert not found.run.failed and len(found.changes) == 9
    assert found.outcome in (drift.DRIFTED, drift.OPEN), "no such drive is here"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["samsung-980-pro", "--measure", "missing"], 2, "missing: no such file"),
        (["samsung-980-pro", "--measure", "file", "--margin", "lots"], 2, "--margin lots: expected a share"),
        (["samsung-980-pro", "--measure", "file", "--budget", "lots"], 2, "--budget: 'lots'"),
        (["samsung-980-pro", "--budget", "2m"], 2, "are about --measure"),
        (["samsung-980-pro", "--measure", "file", "--points"], 2, "expected it without --measure"),
        (["nothing", "--measure", "file"], 2, "no drive is called 'nothing'"),
    ],
)
def test_what_cannot_be_checked_is_a_usage_error(
    ioassay: Any, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    (tmp_path / "file").write_bytes(bytes(2**20))
    answer = ioassay("drive", "check", *words, cwd=tmp_path)
    assert (answer.code, said in answer.err) == (code, True), answer.err
    assert not (tmp_path / "runs").exists()
