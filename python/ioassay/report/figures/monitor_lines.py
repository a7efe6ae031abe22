"""What a monitor saw, as named lines over time in one unit; rates come from `analysis.measurements.monitor_rates`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ioassay.analysis.measurements import monitor_rates
from ioassay.report.figures.chart import pl
from ioassay.report.figures.spec import NoData
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_STATES = {
    "user": "user",
    "nice": "user",
    "system": "kernel",
    "iowait": "waiting for I/O",
    "irq": "interrupts",
    "softirq": "interrupts",
    "steal": "stolen by the hypervisor",
}
"""CPU state -> band of the chart; idle is what is left to 100 %."""
BANDS = tuple(dict.fromkeys(_STATES.values()))
_NAMES = {
    "read_bw": "read",
    "write_bw": "written",
    "read_iops": "reads",
    "write_iops": "writes",
    "read_await": "time of a read",
    "write_await": "time of a write",
    "rx_bytes": "received",
    "tx_bytes": "sent",
}
_DEFAULTS = {
    "disk": ("read_bw", "write_bw"),
    "memory": ("free_bytes", "cached_bytes", "dirty_bytes"),
    "net": ("rx_bytes", "tx_bytes"),
    "pressure": ("some_total", "full_total"),
}


@dataclass(frozen=True)
class MonitorLines:
    """Long frame of one monitor: trial, time_s, line, value (all in `unit`). `lines` in order; `label` for the axis."""

    frame: pl.DataFrame
    lines: Sequence[str]
    unit: str
    label: str
    note: str = ""


def monitor_lines(records: Dataset, study: Study, monitor: str, fields: Sequence[str]) -> MonitorLines:
    """What `monitor` saw during the load of every trial; NoData when it was not asked to watch."""
    found = _READERS[monitor](records, study, fields or _DEFAULTS.get(monitor, ()))
    frame = monitor_rates.during_load(found.frame)
    if frame.is_empty():
        nothing = f"the monitor '{monitor}' recorded nothing of that for the study '{study.name}'"
        raise NoData(f'{nothing}; it needs watch.monitors = ["{monitor}"]')
    present = set(frame["line"].unique().to_list())
    return replace(found, frame=frame, lines=[line for line in found.lines if line in present])


def _cpu(records: Dataset, study: Study, fields: Sequence[str]) -> MonitorLines:
    found = monitor_rates.cpu(records, study).filter((pl.col("core") == "all") & pl.col("state").is_in(list(_STATES)))
    banded = found.with_columns(line=pl.col("state").replace_strict(_STATES, return_dtype=pl.String))
    frame = banded.group_by("trial", "time_s", "line").agg(value=pl.col("percent").sum()).sort("trial", "time_s")
    return MonitorLines(frame, BANDS, "%", "CPU time of all cores")


def _disk(records: Dataset, study: Study, fields: Sequence[str]) -> MonitorLines:
    unit = _one_unit("disk", fields, monitor_rates.DISK_QUANTITIES)
    label = {"bytes/s": "Disk bandwidth", "requests/s": "Disk requests", "ms": "Disk waiting time"}.get(unit, "Disk")
    found = monitor_rates.disk(records, study).rename({"quantity": "field"})
    return _of_busiest(found, fields, MonitorLines(found, (), unit, label, "device"), _DEFAULTS["disk"])


def _memory(records: Dataset, study: Study, fields: Sequence[str]) -> MonitorLines:
    unit = _one_unit("memory", fields, {name: "bytes" if name.endswith("_bytes") else "per second" for name in fields})
    found = monitor_rates.per_second(records, study, "memory").filter(pl.col("name").is_in(list(fields)))
    names = {field: field.removesuffix("_bytes").replace("_", " ") for field in fields}
    lines = found.select("trial", "time_s", line=pl.col("name").replace(names), value="value")
    return MonitorLines(lines, list(names.values()), unit, "Memory")


def _net(records: Dataset, study: Study, fields: Sequence[str]) -> MonitorLines:
    unit = _one_unit("net", fields, {name: "bytes/s" if name.endswith("_bytes") else "packets/s" for name in fields})
    found = monitor_rates.per_second(records, study, "net").with_columns(
        # The last dot: the name of a VLAN's interface has one itself.
        device=pl.col("name").str.replace(r"\.[^.]*$", ""),
        field=pl.col("name").str.extract(r"\.([^.]*)$"),
    )
    return _of_busiest(found, fields, MonitorLines(found, (), unit, "Network", "interface"), _DEFAULTS["net"])


def _pressure(records: Dataset, study: Study, fields: Sequence[str]) -> MonitorLines:
    found = monitor_rates.per_second(records, study, "pressure").with_columns(
        resource=pl.col("name").str.split(".").list.first(), field=pl.col("name").str.split(".").list.last()
    )
    frame = found.filter(pl.col("field").is_in([field for field in fields if field.endswith("_total")]))
    scopes = pl.when(pl.col("field") == "some_total").then(pl.lit(", some tasks")).otherwise(pl.lit(", all tasks"))
    # The counters are µs of waiting, so µs a second is a share of the time.
    lines = frame.select("trial", "time_s", line=pl.col("resource") + scopes, value=pl.col("value") / 1e4)
    names = [f"{resource}, {scope} tasks" for resource in ("cpu", "memory", "io", "irq") for scope in ("some", "all")]
    return MonitorLines(lines, names, "%", "Time spent waiting")


_READERS = {"cpu": _cpu, "disk": _disk, "memory": _memory, "net": _net, "pressure": _pressure}


def _of_busiest(found: pl.DataFrame, fields: Sequence[str], kind: MonitorLines, moved: Sequence[str]) -> MonitorLines:
    """The fields of the device that moved most, so that a disk and its partitions are not counted twice.

    `moved` are the fields that are summed for this; the note of `kind` says what devices are called.
    """
    totals = found.filter(pl.col("field").is_in(list(moved))).group_by("device").agg(pl.col("value").sum())
    device = next(iter(totals.sort("value", "device", descending=[True, False])["device"].to_list()), "")
    frame = found.filter((pl.col("device") == device) & pl.col("field").is_in(list(fields)))
    names = {field: _NAMES.get(field, field) for field in fields}
    lines = frame.select("trial", "time_s", line=pl.col("field").replace(names), value="value")
    return replace(kind, frame=lines, lines=list(names.values()), note=f"{kind.note} {device}")


def _one_unit(monitor: str, fields: Sequence[str], units: Mapping[str, str]) -> str:
    """The unit that all fields share; NoData otherwise: one axis has one unit."""
    unknown = [field for field in fields if field not in units]
    if unknown:
        raise NoData(f"the monitor '{monitor}' has no field '{unknown[0]}'; known: {', '.join(units)}")
    shared = sorted({units[field] for field in fields})
    if len(shared) != 1:
        raise NoData(f"the fields {', '.join(fields)} have the units {', '.join(shared)}; wanted one unit a figure")
    return shared[0]
