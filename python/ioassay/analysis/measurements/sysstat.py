"""What mpstat and sar would have shown during each trial, from the stored counters; iostat is `monitor_rates.disk`.

The definitions are those of sysstat's manual pages, mpstat(1) and sar(1), which each function names; the numbers come
import polars as pl

from ioassay's own samples, so no such tool has to run. Frames are long, one value a row; `whole` gives one a trial.
"""

from __future__ import annotations

from functools import partial

import polars as pl

from ioassay.analysis.measurements import monitor_rates
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

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
    return monitor_rates.processor_shares(records, study, MPSTAT_STATES, core, whole=whole).fill_null(0.0)


def paging(records: Dataset, study: Study, *, whole: bool = False) -> pl.DataFrame:
    """Paging as `sar -B` and `sar -W` have it. Columns: trial, time_s, quantity, value.

    Per second: paged_in and paged_out (bytes), swapped_in and swapped_out (pages), faults, major_faults, minor_faults,
    scanned and reclaimed (pages, by the reclaiming thread and by others); reclaim_efficiency in per cent
    (sar(1): %vmeff, pages reclaimed of those scanned), where any were scanned.
    """
    by = ["trial", "time_s"]
    wide = monitor_rates.rates(records, study, "memory", whole=whole).pivot("name", index=by, values="value")
    column = partial(monitor_rates.column, wide)
    quantities = {name: factor * column(counter) for name, (counter, factor) in PAGING.items()}
    quantities["minor_faults"] = column("faults") - column("major_faults")
    for name in ("scanned", "reclaimed"):
        quantities[name] = pl.sum_horizontal(column(f"{name}_kswapd_pages"), column(f"{name}_direct_pages"))
    scanned, reclaimed = quantities["scanned"], quantities["reclaimed"]
    quantities["reclaim_efficiency"] = pl.when(scanned > 0).then(100 * reclaimed / scanned)
    return monitor_rates.long(wide.select(*by, **quantities), by).drop_nulls("value")


def network(records: Dataset, study: Study, *, whole: bool = False) -> pl.DataFrame:
    """Rates of each interface as `sar -n DEV` and `sar -n EDEV` have them: the fields of the monitor `net` per second.

    Columns: trial, interface, time_s, quantity (`rx_bytes`, `tx_packets`, `rx_errors`, `tx_dropped` …), value.
    """
    found = monitor_rates.parted(monitor_rates.rates(records, study, "net", whole=whole))
    named = found.rename({"which": "interface", "field": "quantity"}).sort("trial", "interface", "quantity", "time_s")
    return named.select("trial", "time_s", "interface", "quantity", "value")


def system(records: Dataset, study: Study, *, whole: bool = False) -> pl.DataFrame:
    """Context switches, interrupts, soft interrupts and forks per second, as `sar -w` and `sar -I SUM` have them.

    Columns: trial, time_s, quantity (of SYSTEM), value.
    """
    found = monitor_rates.rates(records, study, "cpu", whole=whole).filter(pl.col("name").is_in(SYSTEM))
    named = found.rename({"name": "quantity"}).sort("trial", "quantity", "time_s")
    return named.select("trial", "time_s", "quantity", "value")
