"""What a monitor saw, as named lines over time in one unit; rates come from `analysis.measurements.monitor_rates`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ioassay.analysis.measurements import monitor_rates, sysstat
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
_DEVICES = {"disk": "device", "net": "interface"}
_DISK_LABELS = {"bytes/s": "Disk bandwidth", "requests/s": "Disk requests", "ms": "Disk waiting time"}


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
    found, names, unit, label = _READERS[monitor](records, study, fields or _DEFAULTS.get(monitor, ()))
    note = ""
    if monitor in _DEVICES:
        # The one that moved most, so that a disk and its partitions are not counted twice.
        moved = found.filter(pl.col("field").is_in(_DEFAULTS[monitor])).group_by("device").agg(pl.col("value").sum())
        device = next(iter(moved.sort("value", "device", descending=[True, False])["device"].to_list()), "")
        found, note = found.filter(pl.col("device") == device), f"{_DEVICES[monitor]} {device}"
    named = found.filter(pl.col("field").is_in(list(names))).with_columns(line=pl.col("field").replace(names))
    lines = named.group_by("trial", "time_s", "line").agg(pl.col("value").sum()).sort("trial", "time_s")
    frame = monitor_rates.during_load(lines)
    if frame.is_empty():
        nothing = f"the monitor '{monitor}' recorded nothing of that for the study '{study.name}'"
        raise NoData(f'{nothing}; it needs watch.monitors = ["{monitor}"]')
    present = set(frame["line"].unique().to_list())
    shown = [line for line in dict.fromkeys(names.values()) if line in present]
    return MonitorLines(frame, shown, unit, label, note)


_Read = tuple["pl.DataFrame", Mapping[str, str], str, str]
"""Rates by `field`, of several by `device`; the fields to show and what their lines are called; unit; label."""


def _cpu(records: Dataset, study: Study, fields: Sequence[str]) -> _Read:
    found = monitor_rates.cpu(records, study).filter(pl.col("core") == "all")
    return found.rename({"state": "field", "percent": "value"}), _STATES, "%", "CPU time of all cores"


def _disk(records: Dataset, study: Study, fields: Sequence[str]) -> _Read:
    unit = _one_unit("disk", fields, monitor_rates.DISK_QUANTITIES)
    found = monitor_rates.disk(records, study).rename({"quantity": "field"})
    return found, {field: _NAMES.get(field, field) for field in fields}, unit, _DISK_LABELS.get(unit, "Disk")


def _memory(records: Dataset, study: Study, fields: Sequence[str]) -> _Read:
    unit = _one_unit("memory", fields, {name: "bytes" if name.endswith("_bytes") else "per second" for name in fields})
    names = {field: field.removesuffix("_bytes").replace("_", " ") for field in fields}
    return monitor_rates.per_second(records, study, "memory").rename({"name": "field"}), names, unit, "Memory"


def _net(records: Dataset, study: Study, fields: Sequence[str]) -> _Read:
    unit = _one_unit("net", fields, {name: "bytes/s" if name.endswith("_bytes") else "packets/s" for name in fields})
    found = sysstat.network(records, study).rename({"interface": "device", "quantity": "field"})
    return found, {field: _NAMES.get(field, field) for field in fields}, unit, "Network"


def _pressure(records: Dataset, study: Study, fields: Sequence[str]) -> _Read:
    # The counters are µs of waiting, so µs a second is a share of the time.
    found = monitor_rates.per_second(records, study, "pressure").with_columns(pl.col("value") / 1e4, field="name")
    scopes = {field: scope for field, scope in (("some_total", "some"), ("full_total", "all")) if field in fields}
    resources = ("cpu", "memory", "io", "irq")
    names = {f"{one}.{field}": f"{one}, {scope} tasks" for one in resources for field, scope in scopes.items()}
    return found, names, "%", "Time spent waiting"


_READERS = {"cpu": _cpu, "disk": _disk, "memory": _memory, "net": _net, "pressure": _pressure}


def _one_unit(monitor: str, fields: Sequence[str], units: Mapping[str, str]) -> str:
    """The unit that all fields share; NoData otherwise: one axis has one unit."""
    unknown = [field for field in fields if field not in units]
    if unknown:
        raise NoData(f"the monitor '{monitor}' has no field '{unknown[0]}'; known: {', '.join(units)}")
    shared = sorted({units[field] for field in fields})
    if len(shared) != 1:
        raise NoData(f"the fields {', '.join(fields)} have the units {', '.join(shared)}; wanted one unit a figure")
    return shared[0]
