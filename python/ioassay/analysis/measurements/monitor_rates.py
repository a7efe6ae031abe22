"""What the machine did meanwhile: rates and shares from the monitors' counters, as iostat, mpstat and sar have them.

Everything is vectorised over all trials of a study. A counter that went backwards (a device that came back, the
kernel's iowait) gives no rate for that interval, instead of a negative one. Frames are long, one value a row; `whole`
gives one a trial. The definitions are those of sysstat's manual pages, mpstat(1), iostat(1) and sar(1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

CPU_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""States that add up to all time; guest time is inside user and nice (proc_stat(5))."""
SECTOR_BYTES = 512
_GAUGES = (
    r"(^|\.)(running|blocked|in_flight|load1|load5|load15|runnable|tasks|unread|own|frequency_khz|temperature_mc"
    r"|(quota|period)_us|(read|write)_limit(_iops)?)$|_bytes$|_avg10$"
)
_DISK: dict[str, tuple[str, str, str, float]] = {
    "read_bw": ("bytes/s", "read_sectors", "", SECTOR_BYTES),
    "write_bw": ("bytes/s", "write_sectors", "", SECTOR_BYTES),
    "read_iops": ("requests/s", "reads", "", 1),
    "write_iops": ("requests/s", "writes", "", 1),
    "util": ("%", "io_ms", "", 0.1),
    "queue": ("requests", "weighted_io_ms", "", 0.001),
    "read_await": ("ms", "read_ms", "reads", 1),
    "write_await": ("ms", "write_ms", "writes", 1),
    "read_merged": ("requests/s", "reads_merged", "", 1),
    "write_merged": ("requests/s", "writes_merged", "", 1),
    "read_size": ("bytes", "read_sectors", "reads", SECTOR_BYTES),
    "write_size": ("bytes", "write_sectors", "writes", SECTOR_BYTES),
    "discard_bw": ("bytes/s", "discard_sectors", "", SECTOR_BYTES),
    "discard_iops": ("requests/s", "discards", "", 1),
    "discard_await": ("ms", "discard_ms", "discards", 1),
    "flush_iops": ("requests/s", "flushes", "", 1),
    "flush_await": ("ms", "flush_ms", "flushes", 1),
}
"""Quantity -> its unit; the counter, and another by whose growth it is divided instead of by the time; one of the
counter in that unit. util: share of time with a request in flight; queue: mean number in flight."""
DISK_QUANTITIES = {name: unit for name, (unit, *_) in _DISK.items()}
"""What `disk` derives, and the units."""


def gauge(name: str) -> bool:
    """Whether a field is a level at the time of reading; the others are counters that only grow."""
    return re.search(_GAUGES, name) is not None and not re.search(r"\.(rx|tx)_bytes$", name)


def counters(records: Dataset, study: Study, monitor: str, prefix: str = "", *, whole: bool = False) -> pl.DataFrame:
    """Growth of every counter (whose name starts with `prefix`) between neighbouring readings.

    Columns: trial, name, time_s (end of the interval, from the start of the load), seconds (its length), delta.
    `whole`: all intervals of a trial added up to one, so that what one says does not hang on their lengths.
    """
    by = ["trial", "name"]
    rows = _rows(records, study, monitor, gauges=False).filter(pl.col("name").str.starts_with(prefix))
    grown = (
        rows.sort(*by, "time_s")
        .with_columns(seconds=pl.col("time_s").diff().over(by), delta=pl.col("value").diff().over(by))
        .filter((pl.col("seconds") > 0) & (pl.col("delta") >= 0))
        .select(*by, "time_s", "seconds", "delta")
    )
    if not whole:
        return grown
    added = grown.group_by(by).agg(pl.col("time_s").max(), pl.col("seconds").sum(), pl.col("delta").sum())
    return added.with_columns(pl.col("time_s").max().over("trial")).sort(by)


def rates(records: Dataset, study: Study, monitor: str, *, whole: bool = False) -> pl.DataFrame:
    """The growth of counters per second. Columns: trial, name, time_s, value."""
    grown = counters(records, study, monitor, whole=whole)
    return grown.select("trial", "name", "time_s", value=pl.col("delta") / pl.col("seconds"))


def per_second(records: Dataset, study: Study, monitor: str) -> pl.DataFrame:
    """Counters as rates and gauges as they are. Columns: trial, name, time_s, value (per second, or the level)."""
    grown = rates(records, study, monitor)
    levels = _rows(records, study, monitor, gauges=True).select(grown.columns)
    return pl.concat([grown, levels]).sort("trial", "name", "time_s")


def parted(found: pl.DataFrame) -> pl.DataFrame:
    """The fields that several things have: with the two parts of a name, `which` of them and its `field`."""
    # The last dot: the name of a VLAN's interface has one itself.
    return found.filter(pl.col("name").str.contains(".", literal=True)).with_columns(
        which=pl.col("name").str.replace(r"\.[^.]*$", ""), field=pl.col("name").str.extract(r"\.([^.]*)$")
    )


def column(frame: pl.DataFrame, name: str) -> pl.Expr:
    """A column that may be missing, which has no values then."""
    return pl.col(name) if name in frame.columns else pl.lit(None, pl.Float64)


def long(wide: pl.DataFrame, by: list[str], name: str = "quantity", value: str = "value") -> pl.DataFrame:
    """A row for each of the columns beside `by`, which give its name and value."""
    return wide.unpivot(index=by, variable_name=name, value_name=value).sort(
        *(one for one in by if one != "time_s"), name, "time_s"
    )


def processor_shares(
    records: Dataset, study: Study, states: Mapping[str, tuple[str, str]], core: str = "", *, whole: bool = False
) -> pl.DataFrame:
    """The share of each state in the time of every core, or of one ('all' is the machine).

    `states`: name -> its counter, and the counter of another state that is counted in it, '' for none.
    Columns: trial, time_s, core ('all', 'cpu0', …), state, percent (null where the counter gave no rate).
    """
    by = ["trial", "time_s", "core"]
    found = parted(counters(records, study, "cpu", prefix=f"{core}." if core else "", whole=whole))
    found = found.filter(pl.col("field").is_in([counter for counter, _ in states.values()])).rename({"which": "core"})
    wide = found.pivot("field", index=by, values="delta")
    ticks = {
        state: (column(wide, counter) - column(wide, inside).fill_null(0.0)).clip(lower_bound=0.0)
        for state, (counter, inside) in states.items()
        if counter in wide.columns
    }
    total = pl.col("percent").sum().over(by)
    shares = long(wide.select(*by, **ticks), by, "state", "percent").filter(total > 0)
    return shares.with_columns(percent=100 * pl.col("percent") / total)


def cpu(records: Dataset, study: Study, core: str = "") -> pl.DataFrame:
    """Share of each of CPU_STATES, of every core or of one ('all' is the machine).

    Columns: trial, time_s, core ('all', 'cpu0', …), state, percent (of that core's time).
    """
    return processor_shares(records, study, {state: (state, "") for state in CPU_STATES}, core).drop_nulls()


def disk(records: Dataset, study: Study, *, whole: bool = False) -> pl.DataFrame:
    """iostat's quantities. Columns: trial, device, time_s, quantity (of DISK_QUANTITIES), value.

    Formulas: sysstat's iostat(1) and Documentation/admin-guide/iostats.rst. There is no waiting time where no
    request ended. `whole`: one value a trial.
    """
    by = ["trial", "device", "time_s"]
    found = parted(rates(records, study, "disk", whole=whole)).rename({"which": "device"})
    wide = found.pivot("field", index=by, values="value")
    derived = {name: factor * column(wide, counter) for name, (_, counter, _, factor) in _DISK.items()}
    for name, (_, _, divisor, _) in _DISK.items():
        if divisor:
            derived[name] = pl.when(column(wide, divisor) > 0).then(derived[name] / column(wide, divisor))
    # io_ms is in milliseconds and rounded to ticks: it may pass 100 % by a little.
    derived["util"] = derived["util"].clip(upper_bound=100.0)
    return long(wide.select(*by, **derived), by).filter(pl.col("value").is_finite())


def disk_bytes(records: Dataset, study: Study) -> pl.DataFrame:
    """Volume that the busiest device moved during each trial. Columns: trial, read_bytes, write_bytes.

    The largest over devices, not their sum: a partition and its disk, or an array and its members, count the same
    bytes. From the first reading to the last, so other programs' requests are in it.
    """
    grown = parted(counters(records, study, "disk", whole=True)).group_by("trial", "field").agg(pl.col("delta").max())
    wide = grown.pivot("field", index="trial", values="delta")
    moved = {f"{way}_bytes": SECTOR_BYTES * column(wide, f"{way}_sectors") for way in ("read", "write")}
    return wide.select("trial", **moved).sort("trial")


def during_load(frame: pl.DataFrame) -> pl.DataFrame:
    """Only intervals that end after the load began: the first reading is taken before."""
    return frame.filter(pl.col("time_s") > 0)


def _rows(records: Dataset, study: Study, monitor: str, *, gauges: bool) -> pl.DataFrame:
    rows = records.samples.filter((pl.col("study") == study.name) & (pl.col("monitor") == monitor))
    return rows.filter(pl.col("name").is_in([name for name in rows["name"].unique() if gauge(name) == gauges]))


MPSTAT_STATES = {
    "usr": ("user", "guest"),
    "nice": ("nice", "guest_nice"),
    "sys": ("system", ""),
    "iowait": ("iowait", ""),
    "irq": ("irq", ""),
    "soft": ("softirq", ""),
    "steal": ("steal", ""),
    "guest": ("guest", ""),
    "gnice": ("guest_nice", ""),
    "idle": ("idle", ""),
}
"""mpstat's state -> the counter, and the one that is counted in it too and has a state of its own."""


def mpstat(records: Dataset, study: Study, core: str = "", *, whole: bool = False) -> pl.DataFrame:
    """mpstat's shares of each core's time, of all cores or of one ('all' is the machine). They add up to 100.

    Columns: trial, time_s, core ('all', 'cpu0', …), state (of MPSTAT_STATES), percent. Unlike in /proc/stat, time of
    guests is not in usr and nice (mpstat(1): %usr, %guest).
    """
    return processor_shares(records, study, MPSTAT_STATES, core, whole=whole).fill_null(0.0)


def network(records: Dataset, study: Study, *, whole: bool = False) -> pl.DataFrame:
    """Rates of each interface as `sar -n DEV` and `sar -n EDEV` have them: the fields of the monitor `net` per second.

    Columns: trial, interface, time_s, quantity (`rx_bytes`, `tx_packets`, `rx_errors`, `tx_dropped` …), value.
    """
    found = parted(rates(records, study, "net", whole=whole))
    named = found.rename({"which": "interface", "field": "quantity"}).sort("trial", "interface", "quantity", "time_s")
    return named.select("trial", "time_s", "interface", "quantity", "value")
