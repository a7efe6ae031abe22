"""The store of a history: a run once, files of older versions, foreign and broken files, several writers, places."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import threading
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ioassay.errors import InputError, RunError, ToolError, UnreadableFile, UsageError
from ioassay.packs.history import history_store
from ioassay.packs.history.record_columns import RUN_COLUMNS, VALUE_COLUMNS, VERSION
from ioassay.store.dataset import Dataset

STORED = Path(__file__).parents[2] / "corpus/history"
"""A file of each version, and one of a writer that knew fewer columns."""
MACHINE = {
    "identity": {"key": "1f09ac42", "machine": "bb60fc8443b84e1a"},
    "cpu": {"model": "A CPU", "governors": {"performance": 8}, "mitigations": {"meltdown": "Mitigation: PTI"}},
    "kernel": {"release": "6.1.0-18"},
    "ioassay": {"version": "0.1.0"},
    "tools": {"fio": "fio-3.33"},
    "disk": {
        "mount": {"filesystem": "ext4", "options": ["relatime", "rw"]},
        "devices": [{"name": "nvme0n1", "model": "A Drive", "firmware": "2B4QEXM7", "identity": "09b4bec31790e39e"}],
    },
}


def run(lab: Any, seed: int = 1, *, begun: float = 1.75e9, name: str = "nightly", **host: Any) -> Dataset:
    study = lab.study(name, factors={"bs": ["4KiB", "64KiB"]}, responses=["read.bw", "read.iops"])
    rng = np.random.default_rng(seed)
    rows = lab.run(study, lambda *_: {"read.bw": rng.normal(1e8, 1e6), "read.iops": rng.normal(1e4, 1e2)}, 3)
    records: Dataset = lab.records(rows, host={**MACHINE, **host})
    return replace(records, trials=records.trials.with_columns(started_unix_s=begun + pl.col("order")))


def test_a_run_is_kept_once_with_its_numbers_and_facts(lab: Any, tmp_path: Path) -> None:
    store = history_store.open(tmp_path / "history")
    first, second = run(lab, 1), run(lab, 2, begun=1.74e9)
    assert store.add(first, label="v1.2-3-gabc")
    assert store.add(second)
    assert not store.add(replace(first, root=Path("elsewhere")))

    runs = store.runs()
    assert tuple(runs.columns) == RUN_COLUMNS
    assert runs["begun"].dt.epoch("s").to_list() == [1_740_000_000, 1_750_000_000]
    row = runs.row(1, named=True)
    facts = {"kernel": "6.1.0-18", "tool": "fio", "tool_version": "fio-3.33", "drive": "A Drive", "cpu": "A CPU"}
    facts |= {"firmware": "2B4QEXM7", "filesystem": "ext4", "mount_options": "relatime,rw", "governor": "performance"}
    facts |= {"mitigations": "meltdown: Mitigation: PTI", "ioassay": "0.1.0", "commit": "v1.2-3-gabc"}
    assert row | facts | {"host": "bb60fc84", "target": "file testfile", "grade": "", "page": ""} == row
    assert row["headline"]

    values = store.values("nightly", "read.bw")
    assert tuple(values.columns) == VALUE_COLUMNS
    assert values["run"].to_list() == [runs["run"][0]] * 2 + [runs["run"][1]] * 2
    assert [json.loads(point) for point in values["point"][:2]] == [{"bs": "4KiB"}, {"bs": "64KiB"}]
    own = first.trials.filter(pl.col("bs") == "4KiB").sort("order")["read.bw"].to_list()
    assert values["values"][2].to_list() == own
    assert values["mean"][2] == pytest.approx(np.mean(own))
    assert values.select("n", "unit", "better").row(2) == (3, "bytes/s", "higher")
    assert store.values("nightly").height == 8
    assert store.values("another").height == 0


def test_columns_choose_runs(lab: Any, tmp_path: Path) -> None:
    store = history_store.open(tmp_path)
    for seed, name in enumerate(["nightly", "weekly", "nightly"]):
        store.add(run(lab, seed, name=name, begun=1.75e9 + seed, kernel={"release": f"6.{seed}"}))
    assert store.runs("nightly")["kernel"].to_list() == ["6.0", "6.2"]
    assert store.runs(where={"kernel": "6.1", "host": "bb60fc84"})["study"].to_list() == ["weekly"]
    assert set(store.values("nightly", where={"kernel": "6.2"})["run"]) == set(store.runs()["run"][2:])
    with pytest.raises(UsageError, match="'kernel'"):
        store.runs(where={"kernle": "6.1"})


def test_a_run_with_several_studies_has_a_row_of_each(lab: Any, tmp_path: Path) -> None:
    one, other = (lab.run(lab.study(name), lambda *_: {"read.bw": 1e8}, 3) for name in ("one", "other"))
    store = history_store.open(tmp_path)
    store.add(lab.records(one, other, host=MACHINE))
    runs = store.runs()
    assert sorted(runs["study"]) == ["one", "other"]
    assert runs["run"].n_unique() == 1


def test_a_name_may_stand_for_the_hash_of_a_machine(lab: Any, tmp_path: Path) -> None:
    store = history_store.open(tmp_path)
    store.add(run(lab), host="runners")
    assert store.runs(where={"host": "runners"}).height == 1
    assert set(store.values("nightly")["host"]) == {"runners"}


def test_a_run_that_was_interrupted_is_refused_with_the_command_that_ends_it(lab: Any, tmp_path: Path) -> None:
    records = run(lab)
    with pytest.raises(UsageError, match="2 of 8 trials have no record yet; .* --resume run"):
        history_store.open(tmp_path).add(replace(records, planned={"nightly": 8}))


def test_files_of_older_versions_are_read(lab: Any, tmp_path: Path) -> None:
    shutil.copytree(STORED, tmp_path / "history")
    store = history_store.open(tmp_path / "history")
    assert [path.name for path in STORED.iterdir() if f"version-{VERSION}" in path.name], "add one of this version"
    store.add(run(lab))
    runs = store.runs("nightly")
    assert runs.height == len([*STORED.iterdir()]) + 1
    assert runs.null_count().sum_horizontal()[0] == 0
    fewer = runs.row(by_predicate=pl.col("run") == "00000000000000ff", named=True)
    assert (fewer["study"], fewer["governor"], fewer["firmware"]) == ("nightly", "", "")
    old = store.values("nightly", "read.bw", {"run": "00000000000000ff"})
    assert old["values"].to_list() == [[1e8, 2e8]]
    assert old["unit"].to_list() == [None]


def test_broken_foreign_and_newer_files_are_named_once_and_left_out(lab: Any, tmp_path: Path) -> None:
    store = history_store.open(tmp_path)
    store.add(run(lab))
    (good,) = tmp_path.iterdir()
    (tmp_path / "cut.parquet").write_bytes(good.read_bytes()[:-40])
    (tmp_path / "empty.parquet").touch()
    pl.DataFrame({"values": [1.0], "run": ["x"]}).write_parquet(tmp_path / "foreign.parquet")
    pl.DataFrame({"mean": ["x"], "begun": ["x"]}).write_parquet(tmp_path / "typed.parquet")
    newer = pl.read_parquet(good).with_columns(history_version=pl.lit(VERSION + 1), run=pl.lit("newer"))
    newer.write_parquet(tmp_path / "newer.parquet")
    (tmp_path / "README").write_text("no table")
    content = bytearray(good.read_bytes())
    content[4:64] = bytes(60)
    (tmp_path / "damaged.parquet").write_bytes(content)
    with pytest.warns(UnreadableFile) as caught:
        assert store.runs().height == 1
        assert store.values("nightly").height == 4
    said = sorted(str(one.message) for one in caught)
    assert [Path(text.partition(":")[0]).name for text in said] == [
        "cut.parquet", "damaged.parquet", "empty.parquet", "foreign.parquet", "newer.parquet", "typed.parquet",
    ]  # fmt: skip
    assert "no record of a run" in said[3]
    assert "update ioassay" in said[4]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.runs().height == 1


def test_a_run_whose_file_was_damaged_can_be_added_again(lab: Any, tmp_path: Path) -> None:
    store = history_store.open(tmp_path)
    store.add(run(lab))
    (file,) = tmp_path.iterdir()
    for content in (b"", file.read_bytes()[:-40]):
        file.write_bytes(content)
        assert store.add(run(lab))
        assert not store.add(run(lab))
    assert store.runs().height == 1


@pytest.mark.parametrize("place", ["{folder}", "memory://changed/history"])
def test_a_run_of_which_a_trial_was_repeated_replaces_what_was_added_before(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = history_store.open(place.format(folder=tmp_path / "history"))
    first, other = run(lab), run(lab, 2, begun=1.75e9 + 0.25)
    is_last = pl.col("order") == 5
    changed = replace(
        first, trials=first.trials.with_columns(**{"read.bw": pl.when(is_last).then(9e7).otherwise("read.bw")})
    )
    for one in (first, other, changed):
        assert store.add(one)
    assert store.runs().height == 2
    assert 9e7 in store.values("nightly", "read.bw")["values"].explode().to_list()


def test_names_of_this_machine_and_home_folders_are_not_kept(lab: Any, tmp_path: Path) -> None:
    host = socket.gethostname()
    study = lab.study(factors={"file": ["/home/alice/a", "/srv/b"]}, target={"kind": "file", "path": "/home/bob/t"})
    records = lab.records(lab.run(study, lambda *_: {"read.bw": 1e8}, 2))
    store = history_store.open(tmp_path)
    store.add(records, label=f"of {host}")
    assert store.runs()["target"].to_list() == ["file ~/t"]
    kept = json.dumps([store.runs().to_dicts(), store.values("study").to_dicts()], default=str)
    assert "alice" not in kept
    assert "bob" not in kept
    if len(host) > 3:
        assert host not in store.runs()["commit"][0]


def test_several_writers_of_the_same_runs_leave_each_once(lab: Any, tmp_path: Path) -> None:
    runs, added = [run(lab, seed, begun=1.75e9 + seed) for seed in range(4)], []

    def write() -> None:
        store = history_store.open(tmp_path / "new/history")
        added.extend(store.add(one) for one in runs)

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(added) == 16
    assert sum(added) >= 4
    store = history_store.open(tmp_path / "new/history")
    assert store.runs().height == 4
    assert len([*(tmp_path / "new/history").iterdir()]) == 4


def test_the_umask_says_who_may_read_and_write(lab: Any, tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        history_store.open(tmp_path / "shared").add(run(lab))
    finally:
        os.umask(before)
    (file,) = (tmp_path / "shared").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o664
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o775


@pytest.mark.parametrize("name", ["a history", "star*[1]?", "quote's"])
def test_a_folder_may_have_any_name(lab: Any, tmp_path: Path, name: str) -> None:
    store = history_store.open(tmp_path / name)
    store.add(run(lab))
    assert store.runs().height == 1
    assert store.values("nightly").height == 4


def test_a_place_that_cannot_be_used_is_said(lab: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = history_store.open(tmp_path / "file")
    with pytest.raises(InputError, match="file: cannot be read: Not a directory"):
        store.runs()
    with pytest.raises(RunError, match="cannot be written: .*; --to or"):
        store.add(run(lab))
    assert history_store.open(tmp_path / "none").runs().columns == [*RUN_COLUMNS]
    with pytest.raises(UsageError, match="expected a folder, or an address"):
        history_store.open("nothing://bucket/x")


def test_the_default_place_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(history_store.PLACE, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert history_store.open().place == str(tmp_path / "ioassay/history")
    monkeypatch.setenv(history_store.PLACE, "/srv/history")
    assert history_store.open().place == "/srv/history"


def test_an_object_store_is_read_through_the_cache(lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = history_store.open("memory://bucket/history")
    assert store.runs().height == 0
    assert store.add(run(lab))
    assert not history_store.open("memory://bucket/history").add(run(lab))
    assert store.runs().height == 1
    memory = fsspec.filesystem("memory")
    (name,) = memory.ls("/bucket/history", detail=False)
    monkeypatch.setattr(type(memory), "cat", lambda *_: pytest.fail("what is in the cache is read there"))
    assert store.values("nightly").height == 4
    memory.rm(name)
    assert store.runs().height == 0, "what is gone there is not in the history"


def test_what_an_object_store_says_is_passed_on(lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("AccessDenied")

    store = history_store.open("memory://denied/history")
    monkeypatch.setattr(fsspec.filesystem("memory").__class__, "pipe_file", refuse)
    with pytest.raises(RunError, match="memory://denied/history: the history cannot be written: AccessDenied"):
        store.add(run(lab))


def test_a_package_that_lacks_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")

    def lacks(_: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", lacks)
    with pytest.raises(ToolError, match=r"Install s3fs .*ioassay\[objectstore\]"):
        history_store.open("s3://bucket/history")
