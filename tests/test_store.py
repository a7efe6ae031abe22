"""A run on disk and what its witness saw: what is written, what is read back, what a broken file is told."""

from __future__ import annotations

import dataclasses
import functools
import json
import operator
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay import atomic_file
from ioassay.errors import InputError, RunError, StudyError, ToolError, UsageError
from ioassay.process import supervisor
from ioassay.records.observation import (
    Calls,
    File,
    Histogram,
    Observation,
    Operation,
    Pattern,
    Requests,
    Session,
    from_dict,
    of_witness,
)
from ioassay.records.record import FAILED, OK, Buckets, Claim, Record, Samples, Series, Warning_
from ioassay.roles import Trial
from ioassay.store import frames, run_folder
from ioassay.store.run_folder import RunStore
from ioassay.study import plan
from ioassay.study.model import Suite, make_study

from .corpora import cases
from .patience import PATIENCE_S, until


def suite(**changes: object) -> Suite:
    table = {"title": "S", "driver": "null", "repetitions": 2, "factors": {"bs": ["4k", "8k"], "n": [1, 2]}}
    return Suite(name="s", title="S", studies=[make_study({"name": "s", **table, **changes}, "s.toml")])


@pytest.fixture
def run(tmp_path: Path) -> RunStore:
    return RunStore.create(tmp_path / "run", suite(), {"cpu": {"model": "a cpu"}})


def record(trial: Trial, **changes: object) -> Record:
    names = ("id", "study", "driver", "point", "repetition", "seed", "order", "twin")
    identity = {key: getattr(trial, key) for key in names}
    return Record(**{"trial": identity, "status": OK, **changes})  # type: ignore[arg-type]


def write(run: RunStore, trial: Trial, **changes: object) -> None:
    run.begin(trial.id)
    run.write(record(trial, **changes))


def test_a_plan_reads_back_as_it_was_made(run: RunStore) -> None:
    assert list(run.trials()) == list(plan.trials(run.suite()))
    assert run.planned() == {"s": 8}
    assert run.host() == {"cpu": {"model": "a cpu"}}


def test_records_read_back_as_frames(run: RunStore) -> None:
    first, second, *_ = run.trials()
    run.begin(first.id)
    run.write(
        record(first, metrics={"read.bw": 5.0}, warnings=(Warning_("w", "text", "remedy"),)),
        [Buckets("read", "lat", [10, 20], [1, 2])],
        [Series("read.bw", [0.1, 0.2], [1.0, 2.0])],
        [Samples("cpu", [0.0, 0.0], ["user", "sys"], [1.0, 2.0])],
    )
    write(run, second, status=FAILED, reason="broken")
    found = frames.load(run)
    assert found.trials["status"].to_list() == [OK, FAILED]
    assert found.trials["read.bw"].to_list() == [5.0, None]
    assert found.trials["bs"].to_list() == [first.point["bs"], second.point["bs"]]
    assert found.trials["n"].dtype.is_integer()
    assert found.hist.rows() == [("s", first.id, "read", "lat", -1, 10, 1), ("s", first.id, "read", "lat", -1, 20, 2)]
    assert found.series["value"].to_list() == [1.0, 2.0]
    assert found.samples["name"].to_list() == ["user", "sys"]
    assert found.warnings.rows() == [("s", first.id, "w", "text", "remedy")]
    assert found.planned == {"s": 8}


def test_an_empty_run_has_frames_with_their_columns(run: RunStore) -> None:
    found = frames.load(run)
    assert {"study", "trial", "status", "order"} <= set(found.trials.columns)
    assert found.hist.columns == list(frames.SCHEMAS["hist"])
    assert found.warnings.columns == list(frames.WARNINGS)


def test_a_frame_without_pandas_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("pandas", "pyarrow"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ToolError, match=r"pip install 'ioassay\[notebook\]'"):
        frames.Frame({"bs": ["4k"]}).to_pandas()


def test_a_trial_without_record_never_happened(run: RunStore) -> None:
    trial = next(run.trials())
    raw = run.begin(trial.id)
    (raw / "fio.json").write_text("half")
    assert not run.has(trial.id)
    assert list(run.records()) == []
    assert list(run.begin(trial.id).iterdir()) == []


def test_the_record_is_the_last_thing_written(run: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        order.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    trial = next(run.trials())
    (run.begin(trial.id) / "fio.json").write_text("{}")
    run.write(record(trial), [Buckets("read", "lat", [1], [1])])
    assert order == ["hist.parquet", "fio.json", "raw", ".record.json.tmp", run.folder(trial.id).name, "trials"]


def test_a_run_whose_study_lists_a_level_twice_is_read(run: RunStore) -> None:
    """Versions before compared levels by their text, and ran both."""
    path = run.root / "study.toml"
    path.write_text(path.read_text().replace('"8k"', '"4KiB"'))
    assert run.suite().studies[0].factors["bs"] == ["4k", "4KiB"]


def test_a_full_disk_is_told_with_the_way_on(run: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, written: object) -> None:
        raise OSError(28, "No space left on device")

    trial = next(run.trials())
    run.begin(trial.id)
    monkeypatch.setattr(atomic_file, "write", full)
    with pytest.raises(RunError, match=f"No space left on device.*{resume(run)}"):
        run.write(record(trial))
    monkeypatch.setattr(atomic_file, "write_pieces", full)
    with pytest.raises(RunError, match="No space left on device; --output names another place"):
        RunStore.create(tmp_path / "other", suite(), {})
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def resume(run: RunStore) -> str:
    return f"--resume {re.escape(shlex.quote(str(run.root)))}"


@cases("stored", "broken")
def test_what_is_broken_in_a_run_is_named_with_its_remedy(case: dict[str, Any], run: RunStore) -> None:
    trial = next(run.trials())
    run.begin(trial.id)
    run.write(record(trial), [Buckets("read", "lat", [1], [1])], seen=Observation("bpf", "block", ["block"], block=[]))
    name = case["file"]
    path = run.root / name if (run.root / name).exists() else run.folder(trial.id) / name
    whole = path.read_text() if name != "hist.parquet" else ""
    broken = changed(whole, case["changes"]) if "changes" in case else case["text"] * case.get("times", 1)
    broken = case.get("before", "") + broken
    path.write_bytes((whole * case.get("behind", False) + broken).encode("latin-1"))
    read: dict[str, Callable[[], object]] = {
        "record.json": lambda: run.record(trial.id),
        "hist.parquet": lambda: frames.load(run),
        "plan.jsonl": run.planned,
        "study.toml": run.suite,
        "witness.json": lambda: run.observation(trial.id),
    }
    with pytest.raises(InputError, match=f"{re.escape(str(path))}.*{case['message']}"):
        read[name]()


def changed(text: str, changes: dict[str, Any]) -> str:
    """The first object of a text with these values at their dotted keys."""
    table = json.JSONDecoder().raw_decode(text)[0]
    for dotted, value in changes.items():
        *outer, key = dotted.split(".")
        functools.reduce(operator.getitem, outer, table)[key] = None if value == "null" else value
    return json.dumps(table)


def test_old_records_load_for_ever() -> None:
    folders = sorted((Path(__file__).parent / "records").glob("v*"))
    assert [folder.name for folder in folders] == [f"v{number}" for number in range(1, run_folder.SCHEMA + 1)]
    for folder in folders:
        for path in folder.glob("*.json"):
            found = run_folder.read_record(json.loads(path.read_text()), path)
            assert found.schema == run_folder.SCHEMA
            assert found.status in (OK, FAILED)


def test_a_folder_that_is_no_run_or_lacks_a_file_is_told_so(run: RunStore, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        RunStore.open(tmp_path / "none")
    with pytest.raises(InputError, match="has no plan.jsonl"):
        RunStore.open(tmp_path)
    (run.root / "host.json").unlink()
    with pytest.raises(InputError, match="host.json: cannot be read: No such file"):
        run.host()
    with pytest.raises(InputError, match="is a file"):
        RunStore.open(run.root / "plan.jsonl")


def test_a_run_is_written_over_nothing(run: RunStore, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for place, reason in {
        run.root: f"exists already.*ioassay run {resume(run)}",
        tmp_path: "exists already; expected a new or an empty folder$",
        run.root / "plan.jsonl": "plan.jsonl: is a file",
    }.items():
        with pytest.raises(UsageError, match=reason):
            RunStore.create(place, suite(), {})
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_path_that_is_not_utf_8_is_told_so(tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9")
    with pytest.raises(StudyError, match=r"caf\\udce9' is not UTF-8"):
        RunStore.create(tmp_path / "run", suite(target={"kind": "file", "path": odd, "size": 1}), {})


def test_a_run_is_held_by_one_process(run: RunStore) -> None:
    with run.locked(), pytest.raises(RunError, match="another ioassay"), run.locked():
        pass


def test_who_goes_on_waits_for_what_clears_up_after_a_killed_runner(run: RunStore) -> None:
    """Else the late end of all that carries the run's tag would hit the processes of the next runner."""
    cleared, held = run.root / "cleared", run.root / "held"
    if not (runner := os.fork()):
        try:
            with (
                run.locked() as lock,
                supervisor.kill_orphans_after("nothing", lambda: time.sleep(0.5) or cleared.touch(), lock),
            ):
                held.touch()
                time.sleep(PATIENCE_S)
        finally:
            os._exit(1)
    until(held.exists)
    os.kill(runner, signal.SIGKILL)
    os.waitpid(runner, 0)
    with run.locked():
        assert cleared.exists()


def test_new_folders_never_collide(tmp_path: Path) -> None:
    for _ in range(3):
        run_folder.new_folder(tmp_path, "s", now=0).mkdir()


def test_a_record_holds_only_what_was_seen() -> None:
    """Guards the file format: a changed field needs a new schema number and a migration."""
    names = "trial status reason started_unix_s duration_s metrics parts claims warnings command exit_code"
    assert [field.name for field in dataclasses.fields(Record)] == [
        *names.split(), "monitor_cost", "environment", "raw", "schema"
    ]  # fmt: skip


def test_of_twins_the_unwatched_trials_are_analysed_and_the_others_stand_apart(tmp_path: Path) -> None:
    twins = suite(repetitions=1, factors={"n": [1, 2]}, watch={"witness": "syscalls", "twins": True})
    run = RunStore.create(tmp_path / "run", twins, {})
    for trial in run.trials():
        run.begin(trial.id)
        seen = None if trial.twin else Observation("counters", "syscalls", ["counters"], why="no BPF")
        claims = [Claim("fio", "read", operations=3)]
        kept = record(trial, claims=claims, metrics={"read.bw": 1.0 + trial.twin})
        run.write(kept, [Buckets("read", "lat", [10], [1])], seen=seen)
    found = frames.load(run)
    assert found.trials["read.bw"].to_list() == [2.0, 2.0]
    assert found.traced is not None and found.traced["read.bw"].to_list() == [1.0, 1.0]
    assert set(found.hist["trial"]) == set(found.trials["trial"])
    assert set(found.observations) == set(found.traced["trial"])
    assert [seen.why for seen in found.observations.values()] == ["no BPF", "no BPF"]
    assert all(claims == (Claim("fio", "read", operations=3),) for claims in found.claims.values())
    assert len(found.claims) == 4


PATTERN = Pattern(3, 2, stride_bytes=-4, unique_bytes=8, highest_bytes=8)
READS = Calls(calls=3, completed=2, bytes=8, first_ns=10, last_ns=50, sum_ns=9, min_ns=4, max_ns=5)


def observation() -> Observation:
    read = {"read": READS, "first": READS, "second_ns": 20, "ended_ns": 55, "read_pattern": PATTERN}
    return Observation(
        "bpf",
        "syscalls",
        ["block", "syscalls"],
        operations=[Operation("pread64", "read", READS, Histogram([4, 5], [1, 1]))],
        files=[File(0, "8:1", 12, "/data", "regular", "ext4", 4096)],
        sessions=[Session(0, 5, 60, ["read", "direct"], **read)],
        block=[Requests("8:0", "sda", True, "read", READS, 1, Histogram([4], [2]))],
        health={"lost": 0},
        counters={"rchar": 8.0},
        disks={"sda": {"reads": 3}},
        cost={"attach_s": 0.1},
    )


def test_an_observation_reads_back_from_json_as_it_was() -> None:
    assert from_dict(json.loads(json.dumps(observation().as_dict()))) == observation()
    stored = json.loads(json.dumps(observation().as_stored()))
    assert from_dict(stored) == observation()
    assert of_witness(observation().as_dict()) == of_witness({**stored, "new": 1}) == observation()
    (session,) = stored["sessions"]
    assert not session.keys() & {"write", "write_pattern"}
    assert session["read_pattern"].keys() == {"calls", "sequential", "stride_bytes", "unique_bytes", "highest_bytes"}


def test_what_another_version_has_more_or_less_is_left_out_and_a_later_schema_refused() -> None:
    table = observation().as_dict()
    table["files"][0]["colour"] = "red"
    assert from_dict({**table, "colour": "red"}) == observation()
    with pytest.raises(ValueError, match="update ioassay"):
        from_dict({**table, "schema": 2})
    before = observation().as_stored()  # before offsets were kept
    del before["sessions"][0]["read_pattern"]
    (session,) = from_dict(before).sessions
    assert (session.read_pattern, session.write_pattern) == (None, None)
    before["sessions"][0]["read_pattern"] = 3
    for wrong in (before, {}, {"backend": "bpf"}, {**table, "files": [{}]}, {"files": 3}):
        with pytest.raises(ValueError, match="not an observation"):
            from_dict(wrong)


def test_two_classes_of_calls_add_up_whichever_comes_first() -> None:
    later = Calls(calls=1, completed=1, bytes=2, first_ns=5, last_ns=90, sum_ns=1, min_ns=1, max_ns=1)
    both = Calls(calls=4, completed=3, bytes=10, first_ns=5, last_ns=90, sum_ns=10, min_ns=1, max_ns=5)
    assert READS.plus(later) == later.plus(READS) == both
    assert READS.plus(Calls()) == Calls().plus(READS) == READS
