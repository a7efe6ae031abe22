"""mpstat's, iostat's and sar's quantities from stored counters, beside what the real mpstat and iostat make of them."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ioassay.analysis.measurements import monitor_rates
from ioassay.monitors import monitor

SECONDS = 5000.0
"""Since the boot that the tools are told of: their first report is of the time since then."""
IOSTAT = {
    "r/s": ("read_iops", 1),
    "w/s": ("write_iops", 1),
    "d/s": ("discard_iops", 1),
    "f/s": ("flush_iops", 1),
    "rkB/s": ("read_bw", 1024),
    "wkB/s": ("write_bw", 1024),
    "dkB/s": ("discard_bw", 1024),
    "rrqm/s": ("read_merged", 1),
    "wrqm/s": ("write_merged", 1),
    "r_await": ("read_await", 1),
    "w_await": ("write_await", 1),
    "d_await": ("discard_await", 1),
    "f_await": ("flush_await", 1),
    "rareq-sz": ("read_size", 1024),
    "wareq-sz": ("write_size", 1024),
    "aqu-sz": ("queue", 1),
    "util": ("util", 1),
}
"""iostat's column -> our quantity, and our units in one of iostat's."""
# The files stand in for those of /proc in a mount namespace of the tools' own, which ends with them.
REPORT = """set -e
for name in diskstats uptime stat; do mount --bind "$1/proc/$name" "/proc/$name"; done
LC_ALL=C exec "$2" $3 -o JSON
"""


def stored(lab: Any, samples: list[tuple[str, str, float, float]]) -> tuple[Any, Any]:
    study = lab.study()
    return study, lab.records(lab.run(study, lambda *_: {"read.bw": 1.0, "_samples": samples}, 1))


def reading(name: str, root: Path) -> list[tuple[str, str, float, float]]:
    """What the monitor reads, grown from nothing in SECONDS."""
    found = monitor(name, root=root).read()
    return [(name, field, t, value * (t > 0)) for field, value in found.items() for t in (0.0, SECONDS)]


@pytest.fixture
def since_boot(tmp_path: Path) -> Path:
    """A root whose /proc has counters made by chance, as of a machine that has run for SECONDS."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    cores = os.cpu_count() or 1
    ticks = [[chance.randrange(1000, 50000) for _ in range(8)] for _ in range(cores)]
    ticks = [[*row, chance.randrange(row[0]), chance.randrange(row[1])] for row in ticks]
    lines = [
        ("cpu ", [sum(column) for column in zip(*ticks, strict=True)]),
        *((f"cpu{i}", row) for i, row in enumerate(ticks)),
    ]
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("".join(f"{name} {' '.join(map(str, row))}\n" for name, row in lines))
    (tmp_path / "proc/uptime").write_text(f"{SECONDS:.2f} {SECONDS:.2f}\n")
    counts = [chance.randrange(1000, 4_000_000) for _ in range(17)]
    (tmp_path / "proc/diskstats").write_text(f" 254 0 vda {' '.join(map(str, counts))}\n")
    return tmp_path


def report(root: Path, tool: str, *options: str) -> Any:
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed (Debian: sysstat)")
    command = ["unshare", "-m", "sh", "-c", REPORT, "sh", str(root), found, " ".join(options)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=240)
    if told.returncode:
        pytest.skip(f"cannot give {tool} another /proc: {told.stderr.strip()}")
    return json.loads(told.stdout)["sysstat"]["hosts"][0]["statistics"][0]


@pytest.mark.root
def test_shares_of_cores_are_those_of_the_real_mpstat(lab: Any, since_boot: Path) -> None:
    told = {row.pop("cpu"): row for row in report(since_boot, "mpstat", "-P", "ALL")["cpu-load"]}
    study, records = stored(lab, reading("cpu", since_boot))
    ours: dict[str, dict[str, float]] = {}
    for row in monitor_rates.mpstat(records, study).iter_rows(named=True):
        ours.setdefault(row["core"].removeprefix("cpu"), {})[row["state"]] = row["percent"]
    assert ours.keys() == told.keys()
    for core, states in told.items():
        assert ours[core] == pytest.approx(states, abs=0.0051), core


@pytest.mark.root
def test_rates_of_disks_are_those_of_the_real_iostat(lab: Any, since_boot: Path) -> None:
    told = report(since_boot, "iostat", "-x", "-p", "ALL")["disk"][0]
    study, records = stored(lab, reading("disk", since_boot))
    found = monitor_rates.disk(records, study, whole=True)
    ours = dict(zip(found["quantity"], found["value"], strict=True))
    assert told["disk_device"] == "vda"
    assert ours.keys() == {quantity for quantity, _ in IOSTAT.values()}
    for column, (quantity, factor) in IOSTAT.items():
        wanted = min(told[column], 100.0) if column == "util" else told[column]
        assert ours[quantity] / factor == pytest.approx(wanted, abs=0.0051), column


CPU = {"user": 30.0, "guest": 10.0, "nice": 5.0, "guest_nice": 5.0, "system": 20.0, "idle": 40.0, "iowait": 5.0}


def grown(prefix: str, growth: dict[str, float], of: str, times: list[float]) -> list[tuple[str, str, float, float]]:
    return [(of, f"{prefix}{name}", t, 1e6 + rate * t) for t in times for name, rate in growth.items()]


def test_time_of_guests_is_in_no_other_state_and_all_add_up(lab: Any) -> None:
    study, records = stored(lab, grown("all.", CPU, "cpu", [0.0, 1.0, 3.0]))
    found = monitor_rates.mpstat(records, study, "all")
    last = found.filter(pl.col("time_s") == 3.0)
    assert dict(zip(last["state"], last["percent"], strict=True)) == pytest.approx(
        {"usr": 20.0, "nice": 0.0, "sys": 20.0, "idle": 40.0, "iowait": 5.0, "guest": 10.0, "gnice": 5.0}
    )
    assert set(found["time_s"]) == {1.0, 3.0}


def test_a_whole_trial_weighs_its_intervals_by_their_length(lab: Any) -> None:
    busy = [("cpu", "all.user", t, v) for t, v in ((0.0, 0.0), (1.0, 100.0), (1.01, 101.0), (2.0, 101.0))]
    idle = [("cpu", "all.idle", t, v) for t, v in ((0.0, 0.0), (1.0, 0.0), (1.01, 0.0), (2.0, 99.0))]
    study, records = stored(lab, [*busy, *idle])
    found = monitor_rates.mpstat(records, study, whole=True)
    assert dict(zip(found["state"], found["percent"], strict=True)) == pytest.approx({"usr": 50.5, "idle": 49.5})
    assert set(found["time_s"]) == {2.0}


def test_a_whole_trial_is_one_row_also_where_a_counter_went_backwards(lab: Any) -> None:
    readings = {"faults": (0.0, 10.0, 20.0), "major_faults": (5.0, 6.0, 0.0)}
    rows = [("memory", name, float(t), v) for name, values in readings.items() for t, v in enumerate(values)]
    found = monitor_rates.rates(*reversed(stored(lab, rows)), "memory", whole=True)
    assert dict(zip(found["name"], found["value"], strict=True)) == {"faults": 10.0, "major_faults": 1.0}
    assert set(found["time_s"]) == {2.0}


def test_network_rates_belong_to_their_interface_even_with_a_dot_in_its_name(lab: Any) -> None:
    study, records = stored(lab, grown("eth0.100.", {"rx_bytes": 500.0, "tx_errors": 1.0}, "net", [0.0, 2.0]))
    found = monitor_rates.network(records, study)
    assert found.select("interface", "quantity", "value").rows() == [
        ("eth0.100", "rx_bytes", 500.0),
        ("eth0.100", "tx_errors", 1.0),
    ]


def test_a_run_that_was_not_watched_gives_empty_frames(lab: Any) -> None:
    study, records = stored(lab, [])
    for found in (monitor_rates.mpstat, monitor_rates.network):
        assert found(records, study).is_empty(), found.__name__
