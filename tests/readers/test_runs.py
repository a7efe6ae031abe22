"""Folders of runs, damaged: every file of one is read or refused by its name, and what is read can be analysed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ioassay.narrative.pipeline import analyse_all
from ioassay.records.observation import Calls, File, Histogram, Observation, Operation, Requests, Session
from ioassay.records.record import OK, Buckets, Claim, Record, Samples, Series, Warning_
from ioassay.store import frames, importer
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite, make_study

from .mutation import COPIES, withstands

GOLDEN = Path(__file__).parent.parent / "golden"
RECORDS = Path(__file__).parent.parent / "records"
ANALYSED = max(25, COPIES * 3 // 100)
"""Copies of a file whose run is analysed as a whole, which takes a hundred times as long as reading the file."""
READS = Calls(calls=300, completed=300, bytes=1 << 20, first_ns=10, last_ns=10**9, sum_ns=9 * 10**6, min_ns=4, max_ns=5)
SEEN = Observation(
    "bpf",
    "syscalls",
    ["counters", "block", "syscalls"],
    held_ns=5,
    ended_ns=2 * 10**9,
    processes=3,
    threads=1,
    calls={"pread64": 300, "openat": 4},
    call_errors={"openat": 1},
    operations=[Operation("pread64", "read", READS, Histogram([4000, 5000], [100, 200]))],
    files=[File(0, "8:1", 12, "/data", "regular", "ext4", 4096)],
    sessions=[Session(0, 5, 60, ["read", "direct"], read=READS, first=READS, second_ns=20, ended_ns=55)],
    block=[Requests("8:0", "sda", True, "read", READS, 1, Histogram([4000], [300]))],
    health={"lost": 0, "missed": 0},
    counters={"rchar": 1048576.0, "read_bytes": 1048576.0},
    disks={"sda": {"reads": 300, "read_bytes": 1 << 20}},
    cost={"attach_s": 0.1, "cpu_s": 0.2},
)
CLAIM = Claim("fio", "read", "job", 300, 1 << 20, 1.0, 1e6, latency_ns={"mean": 5e3}, paths=("/data",))
STUDY: dict[str, Any] = {
    "name": "s",
    "title": "A study",
    "driver": "fio",
    "repetitions": 2,
    "params": {"rw": "read"},
    "factors": {"bs": ["4KiB", "8KiB"], "iodepth": [1, 2]},
    "analysis": {"responses": ["read.bw", "read.lat.p99"]},
    "watch": {"witness": "syscalls"},
    "figures": [{"kind": "bar", "name": "bw", "x": "bs", "y": "read.bw"}],
}


@pytest.fixture
def run(tmp_path: Path) -> RunStore:
    """A small run with everything that a record can have."""
    store = RunStore.create(
        tmp_path / "run", Suite(name="s", title="S", studies=[make_study(STUDY, "s.toml")]), host_facts()
    )
    for number, trial in enumerate(store.trials()):
        store.begin(trial.id)
        kept = {key: value for key, value in asdict(trial).items() if key not in ("params", "target", "run", "search")}
        metrics = {
            "read.bw": 1e6 + number,
            "read.iops": 250.0,
            "read.lat.mean": 5e3,
            "read.lat.p99": 9e3,
            "read.ios": 300,
        }
        store.write(
            Record(
                trial=kept,
                status=OK,
                started_unix_s=1.7e9 + number,
                duration_s=1.0,
                metrics=metrics,
                parts=[{"name": "job", "job": 0, "metrics": metrics}],
                claims=[CLAIM],
                warnings=(Warning_("code", "text", "remedy"),),
                command=["fio", "job.fio"],
                exit_code=0,
                monitor_cost={"cpu_s": 0.1, "samples": 4, "interval_s": 0.25},
                raw=["fio.json"],
            ),
            [Buckets("read", "lat", [4000, 9000], [100, 200])],
            [Series("read.bw", [0.1, 0.2, 0.3], [1e6, 1.1e6, 1e6])],
            [Samples("cpu", [0.0, 0.5], ["all.user", "all.user"], [1.0, 2.0])],
            SEEN,
        )
    return store


def host_facts() -> dict[str, Any]:
    from ioassay import host

    return {**host.facts(None), "working_directory": "/"}


def loaded(store: RunStore) -> None:
    """As the commands that look at a run read it: records, frames, observations, findings."""
    records = frames.load(store)
    for trial in records.observations:
        assert records.observations[trial].backend
    analyse_all(records)


def damaged(store: RunStore, path: Path, load: Callable[[RunStore], object]) -> Callable[[bytes], None]:
    def read(copy: bytes) -> None:
        path.write_bytes(copy)
        load(RunStore.open(store.root))

    return read


def of_trial(store: RunStore, name: str) -> Path:
    return store.folder(next(store.trials()).id) / name


def check(store: RunStore, path: Path, load: Callable[[RunStore], object], tree: str = "") -> None:
    """The file by itself, and then the whole run with it."""
    golden = [path.read_bytes()]
    name = str(path.relative_to(store.root)).replace(path.parent.name, "trial") if "trials" in path.parts else path.name
    withstands(damaged(store, path, load), golden, name, names=str(path), tree=tree)
    read = damaged(store, path, loaded)
    withstands(read, golden, f"run with {name}", names=str(store.root), tree=tree, count=ANALYSED)


def test_records(run: RunStore) -> None:
    path = of_trial(run, "record.json")
    check(run, path, lambda store: store.record(path.parent.name), "json")


def test_old_records(run: RunStore) -> None:
    path = of_trial(run, "record.json")
    goldens = [file.read_bytes() for file in sorted(RECORDS.rglob("*.json"))]
    read = damaged(run, path, lambda store: store.record(path.parent.name))
    withstands(read, goldens, "old record.json", names=str(path), tree="json")


def test_plans(run: RunStore) -> None:
    check(run, run.root / "plan.jsonl", lambda store: list(store.trials()), "jsonl")


def test_studies_of_runs(run: RunStore) -> None:
    check(run, run.root / "study.toml", RunStore.suite)


def test_host_facts(run: RunStore) -> None:
    check(run, run.root / "host.json", RunStore.host, "json")


def test_observations(run: RunStore) -> None:
    path = of_trial(run, "witness.json")
    check(run, path, lambda store: store.observation(path.parent.name), "json")


def tuned() -> dict[str, Any]:
    return {
        "schema": 1,
        "metric": "read.bw",
        "maximize": True,
        "constraints": [{"metric": "read.lat.p99", "sense": "<", "bound": 1e9, "text": "read.lat.p99 < 1s"}],
        "points": 4,
        "axes": [
            {"name": "bs", "levels": ["4KiB", "8KiB"], "numbers": [4096.0, 8192.0], "log": True},
            {"name": "iodepth", "levels": [1, 2], "numbers": [1.0, 2.0], "log": False},
        ],
        "default": {"bs": "4KiB", "iodepth": 1},
        "trials": 4,
        "seed": 1,
        "confirm": 5,
        "batch": 1,
        "pruning": True,
        "budget_s": None,
        "margin": 0.05,
        "source": "s.toml",
    }


@pytest.mark.parametrize("name", ["tune.json", "found.json"])
def test_searches(run: RunStore, name: str) -> None:
    (run.root / "tune.json").write_text(json.dumps(tuned(), indent=1))
    found = {"ended": "trials", "asked": 4, "winner": {"bs": "8KiB", "iodepth": 2}, "feasible": True}
    (run.root / "found.json").write_text(json.dumps(found, indent=1))
    check(run, run.root / name, RunStore.tuning, "json")


@pytest.mark.parametrize("name", ["hist", "series", "samples"])
def test_parquet(run: RunStore, name: str) -> None:
    path = of_trial(run, f"{name}.parquet")
    golden = path.read_bytes()
    read = damaged(run, path, lambda store: frames._parquet(store, list(store.records())[:1], name))
    withstands(read, [golden], f"{name}.parquet", names=str(path))
    withstands(damaged(run, path, loaded), [golden], f"run with {name}.parquet", names=str(run.root), count=ANALYSED)


def test_imported_results_are_analysed(tmp_path: Path) -> None:
    """Two good files and a damaged one: whatever is taken in, the findings can be made."""
    good = [tmp_path / f"{name}.json" for name in ("read", "write")]
    for path in good:
        shutil.copy(GOLDEN / "fio/3.33" / path.stem / "fio.json", path)
    bad, root = tmp_path / "bad.json", tmp_path / "run"

    def read(copy: bytes) -> None:
        bad.write_bytes(copy)
        shutil.rmtree(root, ignore_errors=True)
        loaded(importer.take_in([*good, bad], root))

    copies = [path.read_bytes() for path in sorted((GOLDEN / "fio/3.33").glob("*/fio.json")) if path.stat().st_size]
    withstands(read, copies, "imported", names=str(tmp_path), tree="json", count=2 * ANALYSED)
