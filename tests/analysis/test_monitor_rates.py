"""Rates from raw counters."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from ioassay.analysis.measurements import monitor_rates
from ioassay.monitors import MONITORS, fields, system_monitors
from ioassay.monitors.text_monitor import GAUGE

CPU = {"user": 10.0, "system": 20.0, "idle": 60.0, "iowait": 8.0, "steal": 2.0, "guest": 10.0}
DISK = {
    "reads": 1000.0,
    "read_sectors": 8000.0,
    "read_ms": 500.0,
    "writes": 0.0,
    "write_ms": 0.0,
    "write_sectors": 0.0,
    "io_ms": 900.0,
    "weighted_io_ms": 1800.0,
}
"""Growth per second."""


def watched(lab: Any, samples: list[tuple[str, str, float, float]], **metrics: float) -> Any:
    study = lab.study()
    return study, lab.records(lab.run(study, lambda *_: {"read.bw": 1.0, **metrics, "_samples": samples}, 2))


def grown(monitor: str, prefix: str, per_second: dict[str, float], times: list[float]) -> list[Any]:
    return [(monitor, f"{prefix}.{name}", t, 1e6 + rate * t) for t in times for name, rate in per_second.items()]


TIMES = [-0.1, 0.4, 0.9, 2.0]


def test_shares_of_processor_time_add_up_without_guest_time(lab: Any) -> None:
    samples = [*grown("cpu", "all", CPU, TIMES), *grown("cpu", "cpu0", CPU, TIMES), ("cpu", "running", 0.4, 3.0)]
    study, records = watched(lab, samples)
    found = monitor_rates.cpu(records, study)
    assert set(found["core"]) == {"all", "cpu0"}
    assert "guest" not in set(found["state"])
    totals = found.group_by("trial", "core", "time_s").agg(pl.col("percent").sum())["percent"]
    assert totals.to_list() == pytest.approx([100.0] * 12)
    idle = found.filter((pl.col("state") == "idle") & (pl.col("core") == "all"))["percent"]
    assert idle.to_list() == pytest.approx([60.0] * 6)
    assert set(monitor_rates.cpu(records, study, core="all")["core"]) == {"all"}


def test_disk_rates_are_iostat_s(lab: Any) -> None:
    study, records = watched(lab, grown("disk", "vda", DISK, TIMES))
    found = monitor_rates.disk(records, study).filter(pl.col("trial") == "study-0")
    last = {row["quantity"]: row["value"] for row in found.filter(pl.col("time_s") == 2.0).iter_rows(named=True)}
    assert last == {
        "read_bw": pytest.approx(8000 * 512),
        "write_bw": 0.0,
        "read_iops": pytest.approx(1000),
        "write_iops": 0.0,
        "util": pytest.approx(90),
        "queue": pytest.approx(1.8),
        "read_await": pytest.approx(0.5),
        "read_size": pytest.approx(4096),
    }
    assert "write_await" not in last


def test_a_counter_that_went_backwards_gives_no_rate(lab: Any) -> None:
    samples = [("disk", "sda.reads", t, v) for t, v in ((0.0, 50.0), (1.0, 150.0), (2.0, 10.0), (3.0, 40.0))]
    study, records = watched(lab, samples)
    found = monitor_rates.counters(records, study, "disk").filter(pl.col("trial") == "study-0")
    assert found["delta"].to_list() == [100.0, 30.0]


def test_gauges_stay_as_they_are_and_counters_become_rates(lab: Any) -> None:
    samples = [
        ("memory", "dirty_bytes", 0.0, 4096.0),
        ("memory", "dirty_bytes", 2.0, 8192.0),
        ("memory", "faults", 0.0, 100.0),
        ("memory", "faults", 2.0, 300.0),
    ]
    study, records = watched(lab, samples)
    found = monitor_rates.per_second(records, study, "memory").filter(pl.col("trial") == "study-0")
    assert found.filter(pl.col("name") == "dirty_bytes")["value"].to_list() == [4096.0, 8192.0]
    assert found.filter(pl.col("name") == "faults")["value"].to_list() == [100.0]


@pytest.mark.parametrize("monitor", MONITORS)
@pytest.mark.parametrize("prefix", ["", "all.", "eth0.100."])
def test_gauges_are_those_of_the_monitors(monitor: str, prefix: str) -> None:
    prefix = prefix or ("eth0." if monitor == "net" else "")
    for name, field in fields(monitor).items():
        assert monitor_rates.gauge(f"{prefix}{name}") == (field.kind == GAUGE), name


def test_the_states_are_those_of_the_monitor() -> None:
    columns = list(fields("cpu"))[: system_monitors.CPU_COLUMNS]
    assert set(monitor_rates.CPU_STATES) == {*columns} - {"guest", "guest_nice"}


def test_volume_of_a_trial_is_that_of_the_busiest_device(lab: Any) -> None:
    """A partition and its disk count the same bytes: their sum would be twice the truth."""
    samples = [*grown("disk", "vda", DISK, [0.0, 1.0]), *grown("disk", "vda1", DISK, [0.0, 1.0])]
    study, records = watched(lab, samples)
    found = monitor_rates.disk_bytes(records, study)
    assert found["read_bytes"].to_list() == [8000 * 512.0] * 2
    assert found["write_bytes"].to_list() == [0.0] * 2


def test_the_reading_before_the_load_is_not_during_it(lab: Any) -> None:
    study, records = watched(lab, grown("disk", "vda", DISK, [-1.0, -0.5, 0.5]))
    assert set(monitor_rates.during_load(monitor_rates.disk(records, study))["time_s"]) == {0.5}


def test_no_samples_give_empty_frames(lab: Any) -> None:
    study, records = watched(lab, [])
    assert monitor_rates.cpu(records, study).is_empty()
    assert monitor_rates.disk(records, study).is_empty()
    assert monitor_rates.disk_bytes(records, study).is_empty()
    assert monitor_rates.per_second(records, study, "net").is_empty()


def test_an_old_kernel_s_shorter_line_only_lacks_its_quantities(lab: Any) -> None:
    study, records = watched(lab, grown("disk", "vda", {"reads": 5.0}, [0.0, 1.0]))
    assert monitor_rates.disk(records, study)["quantity"].unique().to_list() == ["read_iops"]
