"""What mpstat and sar would have shown during each trial, from the stored counters (iostat's part: `rates.disk`).

The definitions are those of sysstat's manual pages, mpstat(1) and sar(1), which each function names; the numbers come
from ioassay's own samples, so no such tool has to run. Frames are long, one value a row; `whole` gives one a trial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ioassay.analysis.measurements import monitor_rates
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

MPSTAT_STATES = {
    "usr": ("user", "guest"),
    "nice": ("nice", "guest_nice"),
    "sys": ("system", None),
    "iowait": ("iowait", None),
    "irq": ("irq", None),
    "soft": ("softirq", None),
    "steal": ("steal", None),
    "guest": ("guest", None),
    "gnice": ("guest_nice", None),
    "idle": ("idle", None),
}
"""mpstat's state -> the counter, and the one that is counted in it too and has a state of its own."""

PAGING = {
    "paged_in": ("paged_in_kib", 1024.0),
    "paged_out": ("paged_out_kib", 1024.0),
    "swapped_in": ("swapped_in_pages", 1.0),
    "swapped_out": ("swapped_out_pages", 1.0),
    "faults": ("faults", 1.0),
    "major_faults": ("major_faults", 1.0),
}
"""Quantity per second -> the counter, and what one of it is in bytes or in itself."""
SYSTEM = ("context_switches", "interrupts", "softirqs", "forks")


def mpstat(records: Dataset, study: Study, core: str = "", *, whole: bool = False) -> pl.DataFrame:
    """mpstat's shares of each core's time, of all cores or of one ('all' is the machine). They add up to 100.

    Columns: trial, time_s, core ('all', 'cpu0', …), state (of MPSTAT_STATES), percent. Unlike in /proc/stat, time of
    guests is not in usr and nice (mpstat(1): %usr, %guest).
    """
    import polars as pl

    found = monitor_rates.counters(records, study, "cpu", prefix=f"{core}." if core else "", whole=whole)
    parted = _parted(found).filter(pl.col("field").is_in([counter for counter, _ in MPSTAT_STATES.values()]))
    schema = {"trial": pl.String, "time_s": pl.Float64, "core": pl.String, "state": pl.String, "percent": pl.Float64}
    if parted.is_empty():
        return pl.DataFrame(schema=schema)
    wide = parted.pivot("field", index=["trial", "time_s", "which"], values="delta").fill_null(0.0)
    zero = pl.lit(0.0)
    ticks = {
        state: (pl.col(counter) - (pl.col(inside) if inside in wide.columns else zero)).clip(lower_bound=0.0)
        for state, (counter, inside) in MPSTAT_STATES.items()
        if counter in wide.columns
    }
    shares = wide.select("trial", "time_s", core="which", **ticks).unpivot(
        index=["trial", "time_s", "core"], variable_name="state", value_name="ticks"
    )
    total = pl.col("ticks").sum().over("trial", "time_s", "core")
    return (
        shares.with_columns(percent=100 * pl.col("ticks") / total)
        .filter(pl.col("percent").is_not_nan())
        .select(list(schema))
        .sort("trial", "core", "state", "time_s")
    )


def paging(records: Dataset, study: Study, *, whole: bool = False) -> pl.DataFrame:
    """Paging as `sar -B` and `sar -W` have it. Columns: trial, time_s, quantity, value.

    Per second: paged_in and paged_out (bytes), swapped_in and swapped_out (pages), faults, major_faults, minor_faults,
    scanned and reclaimed (pages, by the reclaiming thread and by others); reclaim_efficiency in per cent
    (sar(1): %vmeff, pages reclaimed of those scanned), where any were scanned.
    """
    import polars as pl

    found = monitor_rates.counters(records, study, "memory", whole=whole)
    schema = {"trial": pl.String, "time_s": pl.Float64, "quantity": pl.String, "value": pl.Float64}
    if found.is_empty():
        return pl.DataFrame(schema=schema)
    wide = found.pivot("name", index=["trial", "time_s", "seconds"], values="delta")

    def of(name: str) -> Any:
        return pl.col(name) if name in wide.columns else pl.lit(None, pl.Float64)

    scanned = pl.sum_horizontal(of("scanned_kswapd_pages"), of("scanned_direct_pages"))
    reclaimed = pl.sum_horizontal(of("reclaimed_kswapd_pages"), of("reclaimed_direct_pages"))
    second = pl.col("seconds")
    quantities = {name: factor * of(counter) / second for name, (counter, factor) in PAGING.items()}
    quantities["minor_faults"] = (of("faults") - of("major_faults")) / second
    quantities |= {"scanned": scanned / second, "reclaimed": reclaimed / second}
    quantities["reclaim_efficiency"] = pl.when(scanned > 0).then(100 * reclaimed / scanned)
    return (
        wide.select("trial", "time_s", **quantities)
        .unpivot(index=["trial", "time_s"], variable_name="quantity", value_name="value")
        .drop_nulls("value")
        .sort("trial", "quantity", "time_s")
    )


def network(records: Dataset, study: Study, *, whole: bool = False) -> pl.DataFrame:
    """Rates of each interface as `sar -n DEV` and `sar -n EDEV` have them: the fields of the monitor `net` per second.

    Columns: trial, interface, time_s, quantity (`rx_bytes`, `tx_packets`, `rx_errors`, `tx_dropped` …), value.
    """
    import polars as pl

    found = _parted(monitor_rates.counters(records, study, "net", whole=whole))
    value = pl.col("delta") / pl.col("seconds")
    return found.select("trial", "time_s", interface="which", quantity="field", value=value).sort(
        "trial", "interface", "quantity", "time_s"
    )


def system(records: Dataset, study: Study, *, whole: bool = False) -> pl.DataFrame:
    """Context switches, interrupts, soft interrupts and forks per second, as `sar -w` and `sar -I SUM` have them.

    Columns: trial, time_s, quantity (of SYSTEM), value.
    """
    import polars as pl

    found = monitor_rates.counters(records, study, "cpu", whole=whole).filter(pl.col("name").is_in(SYSTEM))
    value = pl.col("delta") / pl.col("seconds")
    return found.select("trial", "time_s", quantity="name", value=value).sort("trial", "quantity", "time_s")


def _parted(found: pl.DataFrame) -> pl.DataFrame:
    """With the two parts of a field's name: `which` one of several, and its `field`."""
    import polars as pl

    # The last dot: the name of a VLAN's interface has one itself.
    return found.filter(pl.col("name").str.contains(".", literal=True)).with_columns(
        which=pl.col("name").str.replace(r"\.[^.]*$", ""), field=pl.col("name").str.extract(r"\.([^.]*)$")
    )
