"""Folders of runs, damaged: every file of one is read or refused by its name, and what is read can be analysed."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ioassay import host
from ioassay.narrative.pipeline import analyse_all
from ioassay.packs.foreign import importer
from ioassay.records.observation import from_dict
from ioassay.records.record import OK, Buckets, Claim, Record, Samples, Series, Warning_
from ioassay.store import frames
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite, make_study

from ..corpora import CORPUS
from .mutation import COPIES, withstands

GOLDEN = Path(__file__).parent.parent / "golden"
RECORDS = Path(__file__).parent.parent / "records"
ANALYSED = max(10, COPIES * 3 // 100)
"""Copies of a file whose run is analysed as a whole, which takes a hundred times as long as reading the file."""
PARTS = tomllib.loads((CORPUS / "readers" / "run.toml").read_text())


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    return {**host.facts(None), "working_directory": "/"}


@pytest.fixture
def run(tmp_path: Path, facts: dict[str, Any]) -> RunStore:
    """A small run with everything that a record can have."""
    suite = Suite(name="s", title="S", studies=[make_study(PARTS["study"], "s.toml")])
    store = RunStore.create(tmp_path / "run", suite, facts)
    for number, trial in enumerate(store.trials()):
        store.begin(trial.id)
        kept = {key: value for key, value in asdict(trial).items() if key not in ("params", "target", "run", "search")}
        held = PARTS["record"] | {"metrics": PARTS["record"]["metrics"] | {"read.bw": 1e6 + number}}
        record = Record(
            trial=kept,
            status=OK,
            started_unix_s=1.7e9 + number,
            duration_s=1.0,
            parts=[{"name": "job", "job": 0, "metrics": held["metrics"]}],
            claims=[Claim(**PARTS["claim"])],
            warnings=(Warning_("code", "text", "remedy"),),
            **held,
        )
        store.write(
            record,
            [Buckets("read", "lat", [4000, 9000], [100, 200])],
            [Series("read.bw", [0.1, 0.2, 0.3], [1e6, 1.1e6, 1e6])],
            [Samples("cpu", [0.0, 0.5], ["all.user", "all.user"], [1.0, 2.0])],
            from_dict(PARTS["observation"]),
        )
    return store


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


FILES: dict[str, tuple[Callable[[RunStore], object], str]] = {
    "record.json": (lambda store: store.record(next(store.trials()).id), "json"),
    "witness.json": (lambda store: store.observation(next(store.trials()).id), "json"),
    "plan.jsonl": (lambda store: list(store.trials()), "jsonl"),
    "study.toml": (RunStore.suite, ""),
    "host.json": (RunStore.host, "json"),
    "tune.json": (RunStore.tuning, "json"),
    "found.json": (RunStore.tuning, "json"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_of_a_run_is_named(run: RunStore, name: str) -> None:
    """The file by itself, and then the whole run with it."""
    load, tree = FILES[name]
    if load is RunStore.tuning:
        (run.root / "tune.json").write_text(json.dumps({**PARTS["tune"], "budget_s": None}, indent=1))
        (run.root / "found.json").write_text(json.dumps(PARTS["found"], indent=1))
    path = of_trial(run, name) if name in ("record.json", "witness.json") else run.root / name
    golden = [path.read_bytes()]
    withstands(damaged(run, path, load), golden, name, names=str(path), tree=tree)
    read = damaged(run, path, loaded)
    withstands(read, golden, f"run with {name}", names=str(run.root), tree=tree, count=ANALYSED)


def test_old_records(run: RunStore) -> None:
    path = of_trial(run, "record.json")
    goldens = [file.read_bytes() for file in sorted(RECORDS.rglob("*.json"))]
    read = damaged(run, path, FILES["record.json"][0])
    withstands(read, goldens, "old record.json", names=str(path), tree="json")


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
