"""What the machine did meanwhile: rates and shares from the monitors' raw counters.

Everything is vectorised over all trials of a study. A counter that went backwards (a device that came back, the
kernel's iowait) gives no rate for that interval, instead of a negative one. Frames are long, one value a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

CPU_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""States that add up to all time; guest time is inside user and nice (proc_stat(5))."""
SECTOR_BYTES = 512
_GAUGES = (
    r"(^|\.)(running|blocked|in_flight|load1|load5|load15|runnable|tasks|unread|own|frequency_khz|temperature_mc"
    r"|(quota|period)_us|(read|write)_limit(_iops)?)$|_bytes$|_avg10$"
)


def gauge(name: str) -> bool:
    """Whether a field is a level at the time of reading; the others are counters that only grow."""
    import re

    return re.search(_GAUGES, name) is not None and not re.search(r"\.(rx|tx)_bytes$", name)


def counters(records: Dataset, study: Study, monitor: str, prefix: str = "", *, whole: bool = False) -> pl.DataFrame:
    """Growth of every counter (whose name starts with `prefix`) between neighbouring readings.

    Columns: trial, name, time_s (end of the interval, from the start of the load), seconds (its length), delta.
    `whole`: all intervals of a trial added up to one, so that what one says does not hang on their lengths.
    """
    import polars as pl

    rows = _rows(records, study, monitor)
    rows = rows.filter(pl.col("name").str.starts_with(prefix) & ~_is_gauge(rows)) if rows.height else rows
    by = ["trial", "name"]
    grown = (
        rows.sort("trial", "name", "time_s")
        .with_columns(
            seconds=pl.col("time_s").diff().over(by),
            delta=pl.col("value").diff().over(by),
        )
        .filter((pl.col("seconds") > 0) & (pl.col("delta") >= 0))
        .select("trial", "name", "time_s", "seconds", "delta")
    )
    if not whole:
        return grown
    return grown.group_by(by).agg(pl.col("time_s").max(), pl.col("seconds").sum(), pl.col("delta").sum()).sort(by)


def per_second(records: Dataset, study: Study, monitor: str) -> pl.DataFrame:
    """Counters as rates and gauges as they are. Columns: trial, name, time_s, value (per second, or the level)."""
    import polars as pl

    rows = _rows(records, study, monitor)
    rates = counters(records, study, monitor).select(
        "trial", "name", "time_s", value=pl.col("delta") / pl.col("seconds")
    )
    if rows.is_empty():
        return rates
    levels = rows.filter(_is_gauge(rows)).select("trial", "name", "time_s", "value")
    return pl.concat([rates, levels]).sort("trial", "name", "time_s")


def cpu(records: Dataset, study: Study, core: str = "") -> pl.DataFrame:
    """Share of each state, of every core or of one ('all' is the machine).

    Columns: trial, time_s, core ('all', 'cpu0', …), state, percent (of that core's time).
    """
    import polars as pl

    found = counters(records, study, "cpu", prefix=f"{core}." if core else "").with_columns(
        core=pl.col("name").str.split(".").list.first(), state=pl.col("name").str.split(".").list.last()
    )
    found = found.filter(pl.col("state").is_in(CPU_STATES) & pl.col("name").str.contains(".", literal=True))
    total = pl.col("delta").sum().over("trial", "time_s", "core")
    return (
        found.with_columns(percent=100 * pl.col("delta") / total)
        .filter(pl.col("percent").is_not_nan())
        .select("trial", "time_s", "core", "state", "percent")
        .sort("trial", "core", "state", "time_s")
    )


DISK_QUANTITIES = {
    "read_bw": "bytes/s",
    "write_bw": "bytes/s",
    "read_iops": "requests/s",
    "write_iops": "requests/s",
    "util": "%",
    "queue": "requests",
    "read_await": "ms",
    "write_await": "ms",
    "read_merged": "requests/s",
    "write_merged": "requests/s",
    "read_size": "bytes",
    "write_size": "bytes",
    "discard_bw": "bytes/s",
    "discard_iops": "requests/s",
    "discard_await": "ms",
    "flush_iops": "requests/s",
    "flush_await": "ms",
}
"""What `disk` derives, and the units. util: share of time with a request in flight; queue: mean number in flight."""


def disk(records: Dataset, study: Study, *, whole: bool = False) -> pl.DataFrame:
    """iostat's quantities. Columns: trial, device, time_s, quantity (of DISK_QUANTITIES), value.

    Formulas: sysstat's iostat(1) and Documentation/admin-guide/iostats.rst. There is no waiting time where no
    request ended. `whole`: one value a trial.
    """
    import polars as pl

    found = counters(records, study, "disk", whole=whole)
    wide = (
        found.with_columns(
            device=pl.col("name").str.replace(r"\.[^.]*$", ""), field=pl.col("name").str.extract(r"\.([^.]*)$")
        ).pivot("field", index=["trial", "device", "time_s", "seconds"], values="delta")
        if found.height
        else found
    )
    schema = {"trial": pl.String, "device": pl.String, "time_s": pl.Float64, "quantity": pl.String, "value": pl.Float64}
    if wide.is_empty():
        return pl.DataFrame(schema=schema)
    derived = wide.select("trial", "device", "time_s", **_disk_formulas(set(wide.columns)))
    return (
        derived.unpivot(index=["trial", "device", "time_s"], variable_name="quantity", value_name="value")
        .filter(pl.col("value").is_finite())
        .sort("trial", "device", "quantity", "time_s")
    )


def _disk_formulas(known: set[str]) -> dict[str, Any]:
    import polars as pl

    def rate(field: str, factor: float = 1.0) -> Any:
        return factor * pl.col(field) / pl.col("seconds") if field in known else pl.lit(None, pl.Float64)

    def each(field: str, ended: str, factor: float = 1.0) -> Any:
        if not {ended, field} <= known:
            return pl.lit(None, pl.Float64)
        return pl.when(pl.col(ended) > 0).then(factor * pl.col(field) / pl.col(ended))

    return {
        "read_bw": rate("read_sectors", SECTOR_BYTES),
        "write_bw": rate("write_sectors", SECTOR_BYTES),
        "read_iops": rate("reads"),
        "write_iops": rate("writes"),
        # io_ms is in milliseconds and rounded to ticks: it may pass 100 % by a little.
        "util": rate("io_ms", 0.1).clip(upper_bound=100.0),
        "queue": rate("weighted_io_ms", 0.001),
        "read_await": each("read_ms", "reads"),
        "write_await": each("write_ms", "writes"),
        "read_merged": rate("reads_merged"),
        "write_merged": rate("writes_merged"),
        "read_size": each("read_sectors", "reads", SECTOR_BYTES),
        "write_size": each("write_sectors", "writes", SECTOR_BYTES),
        "discard_bw": rate("discard_sectors", SECTOR_BYTES),
        "discard_iops": rate("discards"),
        "discard_await": each("discard_ms", "discards"),
        "flush_iops": rate("flushes"),
        "flush_await": each("flush_ms", "flushes"),
    }


def disk_bytes(records: Dataset, study: Study) -> pl.DataFrame:
    """Volume that the busiest device moved during each trial. Columns: trial, read_bytes, write_bytes.

    The largest over devices, not their sum: a partition and its disk, or an array and its members, count the same
    bytes. From the first reading to the last, so other programs' requests are in it.
    """
    import polars as pl

    found = counters(records, study, "disk").with_columns(
        device=pl.col("name").str.replace(r"\.[^.]*$", ""), field=pl.col("name").str.extract(r"\.([^.]*)$")
    )
    moved = found.group_by("trial", "device", "field").agg(pl.col("delta").sum() * SECTOR_BYTES)
    return (
        moved.group_by("trial")
        .agg(
            read_bytes=pl.col("delta").filter(pl.col("field") == "read_sectors").max(),
            write_bytes=pl.col("delta").filter(pl.col("field") == "write_sectors").max(),
        )
        .sort("trial")
    )


def during_load(frame: pl.DataFrame) -> pl.DataFrame:
    """Only intervals that end after the load began: the first reading is taken before."""
    import polars as pl

    return frame.filter(pl.col("time_s") > 0)


def _rows(records: Dataset, study: Study, monitor: str) -> pl.DataFrame:
    import polars as pl

    return records.samples.filter((pl.col("study") == study.name) & (pl.col("monitor") == monitor))


def _is_gauge(rows: pl.DataFrame) -> Any:
    import polars as pl

    return pl.col("name").is_in([name for name in rows["name"].unique().to_list() if gauge(name)])
