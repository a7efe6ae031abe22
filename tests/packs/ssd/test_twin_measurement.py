"""A drive that is learned: loads become runs of fio and come back as readings, whatever ends the run on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ioassay as ia
from ioassay.errors import InputError, Interrupted, SafetyRefusal, UsageError
from ioassay.packs.foreign.importer import take_in
from ioassay.packs.ssd.twin import battery, learning, measurement
from ioassay.packs.ssd.twin.loads import Load, Reading
from ioassay.records.record import Record
from ioassay.roles import Trial
from ioassay.runner.progress import Progress
from ioassay.store.run_folder import RunStore
from ioassay.study import plan
from ioassay.study.model import make_study

from ...corpora import cases

MIB = 2**20
TARGET = {"kind": "file", "path": "/x", "size": 64 * MIB}


@cases("twin", "loads")
def test_parameters_of_fio_are_a_load_or_none(case: dict[str, Any]) -> None:
    table = {"name": "s", "title": "S", "driver": "fio", "target": TARGET, "params": case["params"]}
    made = make_study(table, "s")
    load = measurement.load_of(plan.make_trial(made, {}, 0, 0))
    if "load" not in case:
        assert load is None
        return
    assert load is not None
    found = asdict(load)
    assert {key: found[key] for key in case["load"]} == case["load"]
    usual = asdict(Load("", "", "read", 1))
    others = found.keys() - case["load"].keys() - {"name", "stage"}
    assert {key: found[key] for key in others} == {key: usual[key] for key in others}


LOADS = (
    Load("read", "s", "read", 4096, 7, seconds=1.5),
    Load(
        "aligned", "s", "read", 512, 256, align_bytes=48 * 1024, begin_bytes=MIB, span_bytes=170 * 48 * 1024, seconds=1
    ),
    Load("mixed", "s", "mixed", 8192, 3, read_share=0.25, zipf=0.99, requests=100, rest_s=2.0),
    Load("fill", "s", "write", 131072, 8, "sequential", requests=512, seconds=30),
    Load("ordered", "s", "write", 4096, requests=50, in_order=True),
    Load("pair", "s", "read", 512, align_bytes=MIB, span_bytes=2 * MIB, seconds=1),
    Load("durable", "s", "durable", 4096, requests=5),
)


def test_a_load_comes_back_from_the_trial_that_measures_it() -> None:
    made = measurement.study("s", LOADS, TARGET, "io_uring", 1)
    trials = [plan.make_trial(made, point, 0, 0) for point in plan.points(made)]
    ranged = [load if load.span_bytes else replace(load, span_bytes=64 * MIB) for load in LOADS]
    assert [measurement.load_of(trial) for trial in trials] == ranged


def histogram(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As fio has it: 64 bins for each power of two."""
    power = np.exp2(np.floor(np.log2(values)) - 6)
    binned, counts = np.unique((np.floor(values / power) + 0.5) * power, return_counts=True)
    return binned, counts.astype(float)


def test_noise_of_statistics_is_their_scatter_from_run_to_run(seed: int) -> None:
    rng = np.random.default_rng(seed)
    runs: list[dict[str, float]] = []
    noises: list[dict[str, float]] = []
    for _ in range(400):
        values = 50 + rng.exponential(40, 2000)
        noises.append(measurement.noise_of(*histogram(values), [float(part.mean()) for part in np.split(values, 20)]))
        runs.append(
            dict(zip(("p50_us", "p99_us"), np.quantile(values, (0.5, 0.99)), strict=True)) | {"mean_us": values.mean()}
        )
    for name in ("mean_us", "p50_us", "p99_us"):
        seen = np.array([run[name] for run in runs])
        stated = float(np.median([noise[name] for noise in noises]))
        assert 0.75 < stated / (seen.std() / seen.mean()) < 1.6, name


def test_noise_grows_where_the_load_drifts() -> None:
    values = np.linspace(50, 100, 2000)
    steady = measurement.noise_of(*histogram(values))
    drifting = measurement.noise_of(*histogram(values), [float(part.mean()) for part in np.split(values, 20)])
    assert all(drifting[name] > 3 * steady[name] for name in ("mean_us", "iops", "p50_us"))


def reading(name: str, stage: str, depth: int, p50_us: float, iops: float) -> Reading:
    return Reading(Load(name, stage, "read", 4096, depth), 1, 1.0, {"p50_us": p50_us, "iops": iops})


@pytest.mark.parametrize(("cached_us", "bound"), [(2.0, ["fast"]), (40.0, [])])
def test_loads_near_the_rate_of_cached_data_are_bound_by_the_host(cached_us: float, bound: list[str]) -> None:
    """Not where the cached loads took so long that they reached the drive."""
    host = [reading("host-1", "host", 1, cached_us, 2e5), reading("host-256", "host", 256, 900, 3e5)]
    own = [reading("slow", "depths", 1, 60, 16e3), reading("fast", "depths", 64, 250, 2.5e5)]
    found = measurement.with_ceiling([*host, *own])
    assert [one.load.name for one in found if one.is_host_bound] == bound


def test_a_log_of_requests_gives_their_latencies_in_order(tmp_path: Path) -> None:
    log = tmp_path / "log_lat.1.log"
    log.write_text("0, 2000, 0, 4096, 0\n0, 9000, 1, 4096, 0\n1, 3500, 0, 4096, 0\n")
    assert measurement.latencies(log).tolist() == [2.0, 3.5]
    assert measurement.latencies(log, "write").tolist() == [9.0]
    log.write_text("no, log\n")
    with pytest.raises(InputError, match=r"log_lat\.1\.log: .*expected lines of a latency log"):
        measurement.latencies(log)


# Runs of the real fio on a small file


def small(target: Any, *, writes: bool, budget_s: float) -> list[Reading]:
    """Two batches, the second by what the first gave."""
    first = target.run([Load(f"size-{size}", "sizes", "read", size, seconds=0.1) for size in (4096, 65536)])
    if not writes:
        return list(first)
    slowest = max(first, key=lambda one: one.statistics["mean_us"])
    burst = Load(f"after-{slowest.load.size_bytes}", "writes", "write", 4096, requests=300, in_order=True)
    mixed = Load("mixed", "writes", "mixed", 4096, 4, read_share=0.5, requests=400, rest_s=0.1)
    return [*first, *target.run([burst, mixed]), *target.run([Load("durable", "writes", "durable", 4096, requests=20)])]


@pytest.fixture
def small_battery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(battery, "learn", small)


class Stopped(Progress):
    """Ctrl-C once so many trials of this session have their records."""

    def __init__(self, after: int) -> None:
        self.left = after
        self.measured: list[str] = []

    def recorded(self, trial: Trial, record: Record) -> None:
        self.measured.append(trial.id)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.fio
@pytest.mark.usefixtures("small_battery")
def test_a_drive_is_measured_in_stages_that_follow_from_the_readings(tmp_path: Path) -> None:
    twin = ia.learn(tmp_path / "file", size="16MiB", budget_s=60, output=tmp_path / "run")
    assert not twin.failed and isinstance(ia.open(tmp_path / "run"), ia.Twin)
    found = {one.load.name: one for one in twin.readings}
    slowest = max((found["size-4096"], found["size-65536"]), key=lambda one: one.statistics["mean_us"])
    assert [*found] == [
        "host-1",
        "host-256",
        "layout",
        "size-4096",
        "size-65536",
        f"after-{slowest.load.size_bytes}",
        "mixed",
        "durable",
    ]
    assert [study.name for study in twin.records.studies] == ["host", "layout", "sizes", "writes", "writes-2"]
    for one in found.values():
        assert {"mean_us", "p50_us", "p99_us", "iops"} <= one.statistics.keys() == one.noise.keys()
        assert one.bins_us is not None and one.counts is not None and (np.diff(one.bins_us) > 0).all()
        mean = float((one.bins_us * one.counts).sum() / one.counts.sum())
        assert mean == pytest.approx(one.statistics["mean_us"], rel=0.02), one.load
    burst, mixed = found[f"after-{slowest.load.size_bytes}"], found["mixed"]
    assert burst.requests == 300 and burst.latencies_us is not None and burst.latencies_us.shape == (300,)
    assert burst.latencies_us.mean() == pytest.approx(burst.statistics["mean_us"], rel=0.01)
    assert mixed.requests == 400 and mixed.load.rest_s == 0.1 and mixed.statistics["write_iops"] > 0
    assert found["durable"].load.operation == "durable" and found["durable"].requests >= 19
    assert twin.trust is not None and twin.trust.contradicted == 0


@pytest.mark.fio
@pytest.mark.usefixtures("small_battery")
@pytest.mark.parametrize("after", [1, 2, 3, 4, 7])
def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path, after: int) -> None:
    root = tmp_path / "run"
    first = Stopped(after)
    with pytest.raises(Interrupted, match="drive learn --resume"):
        ia.learn(tmp_path / "file", size="16MiB", budget_s=60, output=root, progress=first)
    planned = (root / "plan.jsonl").read_text()
    second = Stopped(-1)
    twin = ia.open(root).resume(progress=second)
    assert isinstance(twin, ia.Twin) and second.measured[:after] == first.measured, "kept ones come first"
    assert twin.tally.ok == twin.tally.planned == 8 and len(twin.readings) == 8
    assert (root / "plan.jsonl").read_text().startswith(planned)


@pytest.mark.fio
@pytest.mark.slow
def test_a_killed_run_goes_on_by_its_command(tmp_path: Path) -> None:
    command = "drive learn file --budget 20s --size 16MiB --output run"
    words = [sys.executable, "-m", "ioassay", *command.split()]
    started = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while started.poll() is None and len(list((tmp_path / "run" / "trials").glob("*/record.json"))) < 2:
            time.sleep(0.05)
    finally:
        started.send_signal(signal.SIGKILL)
        started.wait()
    ended = subprocess.run([*words[:5], "--resume", "run"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert RunStore.open(tmp_path / "run").api_name == "Twin"


@pytest.mark.fio
@pytest.mark.slow
def test_loads_are_no_longer_than_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(target: Any, *, writes: bool, budget_s: float) -> list[Reading]:
        loads = [Load(f"long-{number}", "long", "read", 4096, seconds=600) for number in range(3)]
        endless = Load("endless", "long", "read", 4096, requests=10**9)
        return [*target.run([*loads, endless]), *target.run([replace(loads[0], name="never", stage="late")])]

    monkeypatch.setattr(battery, "learn", greedy)
    made = tmp_path / "file"
    made.write_bytes(os.urandom(4 * MIB))
    stopped = Stopped(3)
    with pytest.raises(Interrupted):
        ia.learn(made, read_only=True, budget_s=20, output=tmp_path / "run", progress=stopped)
    planned = [measurement.load_of(trial) for trial in RunStore.open(tmp_path / "run").trials()]
    assert len(planned) == 6
    assert sum(load.seconds for load in planned if load is not None) <= 20


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Any]:
    with ia.serve("16MiB", [f"fuse:{tmp_path}/drive"], precondition="full", calibrate=False) as drive:
        yield drive


@pytest.mark.root
@pytest.mark.fio
@pytest.mark.usefixtures("small_battery")
def test_nothing_is_written_to_a_drive_without_consent(served: Any, tmp_path: Path) -> None:
    path = Path(served.addresses["fuse"])
    with pytest.raises(SafetyRefusal, match=f"go on with --destroy-data={path}"):
        ia.learn(path, budget_s=60, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    twin = ia.learn(path, read_only=True, budget_s=60, output=tmp_path / "run")
    counted = served.stats()
    assert counted["writes"]["bytes"] == 0 < counted["reads"]["bytes"]
    assert not twin.failed and all(one.load.operation == "read" for one in twin.readings)
    twin = ia.learn(path, destroy_data=[str(path)], budget_s=60, output=tmp_path / "written")
    assert not twin.failed and served.stats()["writes"]["bytes"] >= 300 * 4096


@pytest.mark.root
@pytest.mark.fio
@pytest.mark.slow
def test_a_served_drive_is_learned_in_whole(served: Any, tmp_path: Path) -> None:
    path = Path(served.addresses["fuse"])
    twin = ia.learn(path, destroy_data=[str(path)], budget_s=40, output=tmp_path / "run")
    assert not twin.failed and twin.trust is not None and not twin.trust.contradicted
    names = [one.load.name for one in twin.readings]
    assert len(names) == len(set(names)) == twin.tally.ok > 10
    assert sum(one.load.seconds for one in twin.readings) <= 40
    assert twin.report().is_file()


BAD: Sequence[tuple[str, dict[str, Any], str]] = (
    ("/dev/nope", {}, "no such device"),
    (".", {}, "a folder; expected a device"),
    ("missing", {"read_only": True}, "--read-only makes none"),
    ("file", {"budget_s": 1}, "--budget is 1 s; expected 20 s or more"),
    ("file", {"budget_s": float("nan")}, "expected 20 s or more"),
    ("file", {"size": "10"}, "expected 1 MiB or a multiple"),
    ("file", {"size": 0}, "expected 1 MiB or a multiple"),
    ("file", {"size": "lots"}, "--size lots"),
    ("tiny", {"read_only": True}, "expected 1 MiB or more"),
    ("whole", {"size": "8MiB", "read_only": True}, "has 2 MiB; expected at most that"),
)


@pytest.mark.parametrize(("target", "options", "wrong"), BAD, ids=[f"{one[0]} {[*one[1]]}" for one in BAD])
def test_what_cannot_be_learned_is_refused_before_anything_is_made(
    tmp_path: Path, target: str, options: dict[str, Any], wrong: str
) -> None:
    (tmp_path / "tiny").write_bytes(b"x")
    (tmp_path / "whole").write_bytes(bytes(2 * MIB))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=wrong):
        ia.learn(tmp_path / target, output=tmp_path / "run", **options)
    assert sorted(tmp_path.iterdir()) == before


def test_only_a_run_that_learned_a_drive_is_resumed_as_one(tmp_path: Path) -> None:
    run = ia.Study(driver="null", name="plain").run(tmp_path / "plain")
    with pytest.raises(UsageError, match="learned no drive; continue it: ioassay run --resume"):
        learning.resume(run.root, learning.RunOptions())


@pytest.mark.parametrize(
    ("load", "places"),
    [
        (Load("pair", "s", "read", 512, align_bytes=MIB, span_bytes=MIB + 4096), [0, MIB]),
        (Load("farther than half the target", "s", "read", 512, align_bytes=3 * MIB, span_bytes=3 * MIB + 4096), None),
        (Load("to the end", "s", "read", 512, align_bytes=3 * MIB), [0]),
        (Load("overlapping", "s", "read", 2 * MIB, align_bytes=MIB), [0, MIB, 2 * MIB]),
    ],
    ids=lambda value: value.name if isinstance(value, Load) else "",
)
@pytest.mark.fio
def test_fio_reads_at_all_places_of_a_load(tmp_path: Path, load: Load, places: list[int] | None) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(4 * MIB))
    target = measurement.FioTarget(4 * MIB)
    if places is None:
        assert target.run([load]) == [], "fio cannot place it"
        return
    with pytest.raises(measurement.Unmeasured):
        target.run([load])
    words = {**measurement.parameters(replace(load, requests=64), 4 * MIB), "norandommap": 1, "randrepeat": 0}
    options = [f"--{name}={value}" for name, value in words.items() if name not in ("logs", "log_interval")]
    asked = ["fio", "--name=x", f"--filename={path}", "--write_iolog=log", "--ioengine=psync", *options]
    subprocess.run(asked, cwd=tmp_path, check=True, capture_output=True)
    reads = (line.split() for line in (tmp_path / "log").read_text().splitlines() if " read " in line)
    assert sorted({int(words[-2]) for words in reads}) == places


@pytest.mark.parametrize(("runtime_s", "iops"), [(0.05, 4 * 300 / 0.1), (20.0, 5000.0)])
def test_the_rate_of_a_short_run_is_that_of_a_closed_loop(tmp_path: Path, runtime_s: float, iops: float) -> None:
    """Reads of 100 us and writes of 700 us, of which 300 and 100 were four at a time."""
    load = Load("mixed", "s", "mixed", 4096, 4, read_share=0.75)
    shares = {"read": (300, 1e5), "write": (100, 7e5)}
    metrics = {
        f"{side}.{name}": value
        for side, (ios, mean) in shares.items()
        for name, value in (
            ("ios", float(ios)),
            ("lat.mean", mean),
            ("lat.p50", mean),
            ("lat.p99", mean),
            ("iops", 5000.0),
            ("runtime", runtime_s),
        )
    }
    found = measurement.reading(load, Record(trial={}, status="ok", metrics=metrics), tmp_path)
    assert found is not None and found.statistics["iops"] == pytest.approx(iops)


def test_an_imported_result_of_a_polling_engine_is_a_reading(tmp_path: Path) -> None:
    latency = {"min": 1, "max": 90_000, "mean": 60_000.0, "stddev": 9.0, "N": 32_000}
    side = {"io_bytes": 4096 * 32_000, "total_ios": 32_000, "runtime": 2000, "iops": 16_000.0, "bw_bytes": 65_536_000}
    side |= {"lat_ns": latency, "slat_ns": {**latency, "mean": 200.0}}
    side |= {"clat_ns": {**latency, "percentile": {"50.000000": 56_000, "99.000000": 69_000}}}
    job = {"jobname": "1", "groupid": 0, "error": 0, "read": side, "usr_cpu": 99.9, "sys_cpu": 0.0}
    shared = {"ioengine": "spdk", "filename": "traddr=0", "bs": "4kb", "direct": "1", "rw": "randread", "thread": "1"}
    for depth in (1, 8):
        text = json.dumps(
            {
                "fio version": "fio-3.35",
                "timestamp": 1,
                "global options": shared,
                "jobs": [{**job, "job options": {"iodepth": str(depth)}}],
            }
        )
        (tmp_path / f"{depth}.json").write_text(text)
    run = take_in([tmp_path / "1.json", tmp_path / "8.json"], tmp_path / "run")
    read = sorted(measurement.readings(run), key=lambda one: one.load.depth)
    assert [(one.load.depth, one.load.size_bytes, one.load.pattern) for one in read] == [
        (1, 4096, "random"),
        (8, 4096, "random"),
    ]
    assert not any(one.is_host_bound for one in read)
    assert read[0].statistics == pytest.approx({"mean_us": 60.0, "p50_us": 56.2, "p99_us": 69.2, "iops": 16_000.0})
