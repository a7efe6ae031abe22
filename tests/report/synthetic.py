"""A made-up run of the block I/O suite, in memory: numbers with noise, drift and warnings, from a seed.

Shapes are those that real drives show; no number means anything. Used by the report's tests and its benchmark.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ioassay.records.record import Environment
from ioassay.report import figures
from ioassay.report.figures import Drawn
from ioassay.store import frames
from ioassay.store.dataset import Dataset
from ioassay.store.frames import SCHEMAS
from ioassay.study import plan
from ioassay.study.model import Figure, Study, Until, make_study

SHARES = [0, 12, 25, 38, 50, 63, 75, 88, 100]
SIZES = [f"{2**power}KiB" for power in range(11)]
CASES = ["mixed", "4k", "16k", "64k"]
DIRECTIONS = ("read", "write")
JOBS = [1, 2, 4, 6, 8]
PARAMS = {"ioengine": "libaio", "iodepth": 16, "direct": 1, "runtime": 10}


def block_io(root: Path, repetitions: int = 10, seed: int = 1, failed_share: float = 0.0) -> Dataset:
    """The four studies of the suite: 420 trials with ten repetitions."""
    studies = [write_share(), block_size(), mixed_sizes(), jobs()]
    return run(root, studies, repetitions, seed, failed_share)


def write_share() -> Study:
    return study(
        "write-share",
        "Bandwidth against write share",
        {"rw": ["rw", "randrw"], "rwmixwrite": SHARES},
        [
            trend(f"task1_{short}_bw_{d[0]}", "rwmixwrite", f"{d}.bw", where={"rw": rw})
            for short, rw in (("rw", "rw"), ("rand_rw", "randrw"))
            for d in ("read", "write")
        ],
    )


def block_size() -> Study:
    figures = [trend(f"task2_bw_req_size_{d[0]}", "bs", f"{d}.bw", log_x=True) for d in ("read", "write")]
    return study("block-size", "Bandwidth against block size", {"bs": SIZES}, figures, rw="randrw")


def mixed_sizes() -> Study:
    figures: list[dict[str, Any]] = [
        {"kind": "bar", "name": f"task3_bw_{d[0]}", "y": f"{d}.bw"} for d in ("read", "write")
    ]
    figures.append({"kind": "latency_bar", "name": "task3_latency_bar"})
    figures += [
        {"kind": "cdf", "name": f"task3_{kind}_{d[0]}_cdf_perc", "direction": d, "latency": kind}
        for kind in ("lat", "clat", "slat")
        for d in ("read", "write")
    ]
    made = study("mixed-sizes", "Mixed against fixed sizes", {"rw": ["randread", "randwrite"]}, figures)
    return made.model_copy(update={"case": [{"name": name} for name in CASES]})


def jobs() -> Study:
    figures = [trend(f"task4_numjobs_bw_{d[0]}", "numjobs", f"{d}.bw") for d in ("read", "write")]
    return study("jobs", "Bandwidth against parallel jobs", {"numjobs": JOBS}, figures, rw="randrw")


def trend(name: str, x: str, y: str, **more: Any) -> dict[str, Any]:
    return {"kind": "trend", "name": name, "x": x, "y": y, **more}


def study(
    name: str, title: str, factors: Mapping[str, list[Any]], figures: list[dict[str, Any]], **params: Any
) -> Study:
    table = {
        "name": name,
        "title": title,
        "description": f"How {title[:1].lower()}{title[1:]} behaves.",
        "driver": "fio",
        "target": {"kind": "file", "path": "testfile", "size": "1GiB"},
        "params": {**PARAMS, **params},
        "factors": dict(factors),
        "analysis": {"responses": ["read.bw", "write.bw"]},
        "figures": figures,
    }
    return make_study(table, name)


def draw(records: Dataset, study: Study | None, table: Mapping[str, Any]) -> Drawn:
    """The figure that a `[[figures]]` table asks for."""
    return figures.draw(records, study, Figure.model_validate({"name": "a", **table}))


def run(root: Path, studies: list[Study], repetitions: int = 10, seed: int = 1, failed_share: float = 0.0) -> Dataset:
    """The records of the studies: every point `repetitions` times, in blocks."""
    random_ = random.Random(seed)
    trials: list[dict[str, Any]] = []
    for own in studies:
        for repetition in range(repetitions):
            for point in plan.points(own):
                trials.append(trial(own, point, repetition, len(trials), random_, failed_share))
    return Dataset(
        root=root,
        studies=studies,
        host={"hostname": "lab", "cpu": {"model": "Example CPU", "cores": 8}, "kernel": "6.1.0"},
        trials=pl.DataFrame(trials, infer_schema_length=None),
        hist=histograms(trials, seed),
        series=series(trials, random_),
        samples=samples(trials, seed),
        warnings=warnings(trials),
        calls=calls(trials),
        drivers=frames.drivers_of(studies),
        planned={own.name: len(plan.points(own)) * repetitions for own in studies},
    )


def as_search(records: Dataset, constraint: Mapping[str, Any] | None = None) -> Dataset:
    """The study of jobs as if it were a search for read bandwidth: each block of repetitions had another purpose."""
    ends = pl.col("numjobs").is_in([1, 8])
    purposes = [
        pl.when(pl.col("numjobs") == 1).then(pl.lit("default")).otherwise(pl.lit("explore")),
        pl.lit("refine"),
        pl.lit("repeat"),
        pl.when(ends).then(pl.lit("confirm")).otherwise(pl.lit("pruned")),
        pl.when(ends).then(pl.lit("confirm")).otherwise(pl.lit("short")),
    ]
    search = pl.coalesce(
        pl.when(pl.col("repetition") == repetition).then(purpose) for repetition, purpose in enumerate(purposes)
    )
    tuning = {
        "metric": "read.bw",
        "maximize": True,
        "constraints": [constraint] if constraint else [],
        "points": 5,
        "axes": [{"name": "numjobs", "levels": JOBS, "numbers": JOBS, "log": False}],
        "default": {"numjobs": 1},
        "margin": 0.05,
        "found": {"ended": "trials", "asked": 15, "winner": {"numjobs": 8}, "feasible": True},
    }
    return replace(records, trials=records.trials.with_columns(search=search), tuning=tuning)


def unfit(records: Dataset) -> Dataset:
    """Other programs used the machine while every trial ran, so that no conclusion is drawn."""
    busy = Environment(1.0, 2, own_share=0.1, others_share=0.9, kernel_share=0.0, steal_share=0.0, idle_share=0.0)
    return replace(records, environments=dict.fromkeys(records.trials["trial"], busy))


def on_hosts(records: Dataset) -> Dataset:
    """The study of jobs as if each number of jobs were a host."""
    names = [f"h{number}" for number in JOBS]
    made = study("jobs", "Bandwidth of hosts", {"host": names}, [], rw="randrw")
    host = pl.when(pl.col("study") == "jobs").then("h" + pl.col("numjobs").cast(pl.Int64).cast(pl.String))
    return replace(records, studies=[*records.studies[:3], made], trials=records.trials.with_columns(host=host))


def in_rounds(records: Dataset) -> Dataset:
    """The study of jobs as if it ran in rounds until bandwidth was steady."""
    jobs = records.studies[3]
    made = jobs.model_copy(update={"until": Until(metric="read.bw", steady=True)})
    return replace(records, studies=[*records.studies[:3], made])


def with_percentiles(records: Dataset) -> Dataset:
    """Every trial has percentiles of its latencies, which its histograms replace."""
    ways = [way for way in DIRECTIONS if f"{way}.lat.mean" in records.trials.columns]
    named = {f"{way}.lat.p{name}": pl.col(f"{way}.lat.mean") for way in ways for name in ("50", "99", "99.9")}
    return replace(records, trials=records.trials.with_columns(**named))


def with_drive_counts(records: Dataset) -> Dataset:
    """Every trial is of a virtual drive, which counted the tool's requests, in half of their time."""
    ways = [way for way in DIRECTIONS if f"{way}.lat.mean" in records.trials.columns]
    counted = {f"{ends}{way}.ios": pl.lit(1000.0) for way in ways for ends in ("", "drive.")}
    timed = {f"drive.{way}.lat.mean": pl.col(f"{way}.lat.mean") / 2 for way in ways}
    rate = {"total.iops": pl.lit(1000.0)}
    served = [
        study.model_copy(update={"target": study.target.model_copy(update={"kind": "virtual"})})
        for study in records.studies
    ]
    return replace(records, studies=served, trials=records.trials.with_columns(**rate, **counted, **timed))


BINS = 29 * 16
"""Of a histogram log of fio 3 with log_hist_coarseness=2."""


def with_histogram_logs(records: Dataset, study: str, windows: int = 20) -> Dataset:
    """Trials of a study keep a histogram log: ten windows a second of 100 requests, and a slow one in the third.

    The logs are in a folder of their own: a session's run must not be changed.
    """
    root = records.root / "logged"
    for trial in records.trials.filter(study=study, status="ok")["trial"].to_list():
        raw = root / "trials" / trial / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        lines = []
        for window in range(1, windows + 1):
            counts = [0] * BINS
            counts[150] = 100
            counts[300] = int(window == 3)
            lines.append(f"{100 * window + 7}, 0, 4096, {', '.join(map(str, counts))}\n")
        (raw / "log_clat_hist.1.log").write_text("".join(lines))
    return replace(records, root=root)


def calls(trials: list[dict[str, Any]]) -> pl.DataFrame:
    """The system calls of every trial of a study of jobs that went well; reads and writes grow with the jobs."""
    rare = {f"rare{place}": 3.0 for place in range(9)}
    rows = []
    for row in trials:
        if row["status"] == "ok" and "numjobs" in row:
            rates = {"pread64": 4000.0 * row["numjobs"], "pwrite64": 2000.0 * row["numjobs"], "mmap": 40.0, **rare}
            for name, rate in rates.items():
                key = (row["study"], row["trial"], row["numjobs"], name)
                rows.append((*key, round(10 * rate), round(rate) if name == "mmap" else 0, rate, "bpf"))
    text, number = pl.String(), pl.Int64()
    schema = {"study": text, "trial": text, "numjobs": number, "name": text, "count": number, "errors": number}
    return pl.DataFrame(rows, schema={**schema, "per_second": pl.Float64(), "by": text}, orient="row")


def trial(
    study: Study, point: Mapping[str, Any], repetition: int, order: int, random_: random.Random, bad: float
) -> dict[str, Any]:
    name = study.name
    identity = hashlib.sha256(f"{name}{point}{repetition}".encode()).hexdigest()[:16]
    row: dict[str, Any] = {"study": name, "trial": identity, "status": "ok", "reason": ""}
    row |= {"repetition": repetition, "order": order, "started_unix_s": 1.7e9 + 11 * order, "duration_s": 10.4}
    row |= point
    if random_.random() < bad:
        return {**row, "status": "failed", "reason": "fio did no I/O: file:io_setup failed, error=Resource busy"}
    return row | metrics(study, point, order, random_)


def metrics(study: Study, point: Mapping[str, Any], order: int, random_: random.Random) -> dict[str, float]:
    """Bandwidths and mean latencies of one trial, with 2 % noise and a slow drift."""
    rw = point.get("rw") or study.params.get("rw", "randrw")
    share = {"randread": 0.0, "randwrite": 1.0}.get(rw, point.get("rwmixwrite", 50) / 100)
    size = block_bytes(point)
    per_io_s = 60e-6 + size / 1.6e9
    total = min(16 * point.get("numjobs", 1), 64) / 16 * size / per_io_s * (0.7 + 0.3 * share)
    if rw == "rw":
        total *= 2.2 - share
    found = {}
    for direction, part in (("read", 1 - share), ("write", share)):
        if part > 0:
            bw = total * part * random_.gauss(1, 0.02) * (1 - 1e-4 * order)
            found |= {f"{direction}.bw": bw, f"{direction}.iops": bw / size}
            lat = 16 * size / bw * 1e9 * part
            found |= {f"{direction}.lat.mean": lat, f"{direction}.clat.mean": lat * 0.94}
            found[f"{direction}.slat.mean"] = lat * 0.06
    return found


def block_bytes(point: Mapping[str, Any]) -> int:
    if "bs" in point:
        return int(str(point["bs"]).removesuffix("KiB")) * 1024
    return {"mixed": 14, "4k": 4, "16k": 16, "64k": 64}.get(str(point.get("case")), 4) * 1024


def histograms(trials: list[dict[str, Any]], seed: int) -> pl.DataFrame:
    """Latency bins of 2000 requests around each mean latency of each trial."""
    random_ = np.random.default_rng(seed)
    heads, values, counts = [], [], []
    for row in trials:
        for key in [key for key in row if key.endswith("lat.mean")]:
            direction, kind, _ = key.split(".")
            bins, count = np.unique(buckets(random_.lognormal(0, 0.5, 500) * row[key] * 0.88), return_counts=True)
            heads.append(((row["study"], row["trial"], direction, kind), bins.size))
            values.append(bins)
            counts.append(count * 4)
    if not heads:
        return pl.DataFrame(schema=SCHEMAS["hist"])
    names = ("study", "trial", "direction", "kind")
    sizes = [size for _, size in heads]
    columns: dict[str, Any] = {name: np.repeat([head[at] for head, _ in heads], sizes) for at, name in enumerate(names)}
    columns |= {"job": np.full(sum(sizes), -1), "value_ns": np.concatenate(values), "count": np.concatenate(counts)}
    return pl.DataFrame(columns, schema=SCHEMAS["hist"])


def buckets(values_ns: Any) -> Any:
    """The middles of fio's bins, of which a power of two has 64."""
    whole = np.maximum(values_ns.astype(np.int64), 1)
    shift = np.maximum(np.floor(np.log2(whole)).astype(np.int64) - 6, 0)
    return ((whole >> shift) << shift) + ((1 << shift) >> 1)


def series(trials: list[dict[str, Any]], random_: random.Random, every_s: float = 0.5) -> pl.DataFrame:
    """Read bandwidth of each trial every half second, with a slow start."""
    rows = []
    for row in trials:
        if row["status"] == "ok" and "read.bw" in row:
            for step in range(1, int(10 / every_s) + 1):
                value = row["read.bw"] * random_.gauss(1, 0.03) * (1.4 if step < 4 else 1.0)
                rows.append((row["study"], row["trial"], "read.bw", -1, (step - 0.5) * every_s, value))
    return pl.DataFrame(rows, schema=SCHEMAS["series"], orient="row")


def samples(trials: list[dict[str, Any]], seed: int, every_s: float = 0.5) -> pl.DataFrame:
    """Raw counters of processor and disk: ticks of eight cores, a disk and its partition."""
    random_ = np.random.default_rng(seed)
    time_s = np.arange(-every_s, 10.1, every_s)
    found = []
    for row in trials:
        if row["status"] == "ok":
            fields = counters(row, time_s.size, every_s, random_)
            for monitor, names in fields.items():
                for name, growth in names.items():
                    value = np.cumsum(growth) + 1e6
                    columns = {"time_s": time_s, "value": np.round(value)}
                    head = {"study": row["study"], "trial": row["trial"], "monitor": monitor, "name": name}
                    found.append((head, columns))
    if not found:
        return pl.DataFrame(schema=SCHEMAS["samples"])
    size = time_s.size
    texts = {key: np.repeat([head[key] for head, _ in found], size) for key in found[0][0]}
    numbers = {key: np.concatenate([columns[key] for _, columns in found]) for key in ("time_s", "value")}
    return pl.DataFrame({**texts, **numbers}).select(list(SCHEMAS["samples"]))


def counters(
    row: Mapping[str, Any], size: int, every_s: float, random_: np.random.Generator
) -> dict[str, dict[str, Any]]:
    """Growth of each counter in each interval."""
    ticks = 8 * 100 * every_s
    user, system, iowait = (
        ticks * part * random_.uniform(0.8, 1.2, size) for part in (0.08, 0.15, 0.05 * row.get("numjobs", 1))
    )
    idle = np.maximum(ticks - user - system - iowait, 0)
    cpu = {"all.user": user, "all.system": system, "all.iowait": iowait, "all.idle": idle, "all.softirq": user / 9}
    read, written = (row.get(f"{way}.bw", 0.0) / 512 * every_s * random_.uniform(0.9, 1.1, size) for way in DIRECTIONS)
    disk = {f"{name}.{field}": growth for name in ("sda", "sda1") for field, growth in (
        ("read_sectors", read), ("write_sectors", written), ("reads", read / 8), ("writes", written / 8),
        ("read_ms", read / 70), ("write_ms", written / 50), ("io_ms", np.full(size, 900 * every_s)),
        ("weighted_io_ms", np.full(size, 9000 * every_s)),
    )}  # fmt: skip
    return {"cpu": cpu, "disk": disk}


def warnings(trials: list[dict[str, Any]]) -> pl.DataFrame:
    rows = [
        (row["study"], row["trial"], "short", "the trial ran 9.1 s instead of 10 s", "ioassay run --set runtime=20s")
        for row in trials[:3]
    ]
    return pl.DataFrame(rows, schema=frames.WARNINGS, orient="row")
