"""Doubts that the machine raises: caches between the load and the device, other users of it, clocks, interruptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from ioassay.analysis.measurements import monitor_rates
from ioassay.analysis.measurements.cells import label
from ioassay.analysis.threats.threat import Context, Threat
from ioassay.narrative import phrases

REACHED = 0.9
"""Share of the claimed bytes that must have reached the device; journals and other programs only add to it."""
SMALL_BYTES = 1 << 20
"""Volumes below this are not judged: metadata alone is as large."""
BUSY_PERCENT, STEAL_PERCENT, OTHERS_PERCENT = 95.0, 1.0, 10.0
MANY = 0.1
"""Share of the trials from which on a disturbance is a warning."""
PRECISE_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen")
GAP_S = 300.0


def buffered(context: Context) -> Iterator[Threat]:
    """Conditions that go through the page cache."""
    driver, points = context.records.driver(context.study), _distinct(context)
    remedies = {label(point): driver.page_cache_remedy(context.study.params_at(point)) for point in points}
    conditions = [condition for condition, remedy in remedies.items() if remedy]
    if conditions:
        yield Threat(
            "buffered",
            "Buffered I/O",
            f"{len(conditions)} of {phrases.count(len(points), 'condition')} use the page cache "
            f"({phrases.listed(conditions)}): memory may be measured instead of the device.",
            remedy=remedies[conditions[0]],
            evidence={"conditions": conditions, "memory_bytes": _memory_bytes(context)},
        )


def cached(context: Context) -> Iterator[Threat]:
    """Fewer bytes at the device than the load claims: a cache served the rest."""
    moved = monitor_rates.disk_bytes(context.records, context.study)
    if moved.is_empty() or context.good.is_empty():
        return
    for direction in ("read", "write"):
        claim = f"{direction}.bytes"
        if claim not in context.good.columns:
            continue
        rows = context.good.select("trial", claim).join(moved, on="trial").filter(pl.col(claim) > SMALL_BYTES)
        rows = rows.with_columns(share=pl.col(f"{direction}_bytes").fill_null(0.0) / pl.col(claim))
        low = rows.filter(pl.col("share") < REACHED)
        if low.is_empty():
            continue
        shares = {row["trial"]: row["share"] for row in low.iter_rows(named=True)}
        where = _places(context, shares)
        least = min(shares.values())
        yield Threat(
            f"cached-{direction}s",
            f"Not all {direction}s reached the device",
            f"In {low.height} of {phrases.count(rows.height, 'trial')} the device moved less than "
            f"{phrases.percent(REACHED)} of the bytes that the load claims to have {_PAST[direction]} (least: "
            f"{phrases.percent(least)}; {phrases.listed(where)}). A cache served the rest.",
            remedy="use direct I/O, a file larger than memory, or name the right disk for the monitor",
            evidence={"share_of_claim": shares, "least": least},
        )


_PAST = {"read": "read", "write": "written"}


def busy_device(context: Context) -> Iterator[Threat]:
    """A device that was never idle."""
    found = monitor_rates.during_load(monitor_rates.disk(context.records, context.study))
    util = found.filter(pl.col("quantity") == "util").group_by("trial", "device").agg(pl.col("value").mean())
    full = util.filter(pl.col("value") >= BUSY_PERCENT)
    if full.is_empty():
        return
    where = _places(context, full["trial"].to_list())
    devices = sorted(full["device"].unique().to_list())
    yield Threat(
        "device-busy",
        "The device was never idle",
        f"{', '.join(devices)} had a request in flight at least {BUSY_PERCENT:g} % of the time in "
        f"{phrases.count(full['trial'].n_unique(), 'trial')} ({phrases.listed(where)}). A disk that serves one request "
        "at a time is saturated then; a drive that works in parallel need not be.",
        remedy="compare with a deeper queue: if throughput grows, it was not saturated",
        evidence={"limit_percent": BUSY_PERCENT, "trials": full["trial"].n_unique(), "devices": devices},
        severity="info",
    )


def stolen(context: Context) -> Iterator[Threat]:
    """Processor time that the hypervisor gave to others."""
    found = monitor_rates.during_load(monitor_rates.cpu(context.records, context.study, core="all"))
    steal = found.filter(pl.col("state") == "steal")
    if steal.is_empty():
        return
    by_trial = steal.group_by("trial").agg(pl.col("percent").mean())
    over = by_trial.filter(pl.col("percent") >= STEAL_PERCENT)
    if over.is_empty():
        return
    largest = _number(over["percent"].max())
    yield Threat(
        "steal",
        "The hypervisor took processor time",
        f"In {over.height} of {phrases.count(by_trial.height, 'trial')} the hypervisor gave {STEAL_PERCENT:g} % or "
        f"more of processor time to other guests (most: {largest:.2g} %). Latencies hold that waiting too.",
        remedy="measure on a host of your own, or repeat at a quieter time",
        evidence={"limit_percent": STEAL_PERCENT, "trials": over.height, "largest_percent": largest},
        severity="warning" if over.height >= MANY * by_trial.height else "info",
    )


def contended(context: Context) -> Iterator[Threat]:
    """Processor time that others on this machine took, where the tool says how much it used itself."""
    cpus = (context.records.host.get("cpu") or {}).get("cpus")
    own = ("usr_time", "sys_time", "real_time")
    if not isinstance(cpus, int) or not set(own) <= set(context.good.columns):
        return
    found = monitor_rates.during_load(monitor_rates.cpu(context.records, context.study, core="all"))
    idle = (
        found.filter(pl.col("state").is_in(["idle", "iowait"])).group_by("trial", "time_s").agg(pl.col("percent").sum())
    )
    free = idle.group_by("trial").agg(free=pl.col("percent").mean())
    rows = context.good.filter(pl.col("real_time") > 0).select("trial", *own).join(free, on="trial")
    used = 100 * (pl.col("usr_time") + pl.col("sys_time")) / pl.col("real_time") / cpus
    over = (rows := rows.with_columns(others=100 - pl.col("free") - used)).filter(pl.col("others") >= OTHERS_PERCENT)
    if over.is_empty():
        return
    typical, largest = (_number(value) for value in (over["others"].median(), over["others"].max()))
    yield Threat(
        "contended",
        "Others used the processors",
        f"In {over.height} of {phrases.count(rows.height, 'trial')} others took {OTHERS_PERCENT:g} % or more of the "
        f"processors' time (typically {typical:.2g} %, at most {largest:.2g} %): the load had to share them.",
        remedy="end what else runs (ioassay doctor names it), and repeat",
        evidence={"limit_percent": OTHERS_PERCENT, "trials": over.height, "largest_percent": largest},
        severity="warning" if over.height >= MANY * rows.height else "info",
    )


def virtual(context: Context) -> Iterator[Threat]:
    """A virtual machine or a container."""
    found: Mapping[str, Any] = context.records.host.get("virtualisation") or {}
    kind = found.get("vm") or found.get("container")
    if not kind or kind == "none":
        return
    seen = "disk seen here is shared, cached" if context.study.has_target else "processors seen here are shared"
    yield Threat(
        "virtual",
        "Virtualised host",
        f"Measured inside {phrases.listed([str(found[key]) for key in ('vm', 'container') if found.get(key)])}: "
        f"the {seen} or limited by a host that cannot be seen.",
        evidence=dict(found),
        severity="info",
    )


def governor(context: Context) -> Iterator[Threat]:
    """Processors that save power while measuring."""
    if context.study.run.governor != "keep":
        return
    found = (context.records.host.get("cpu") or {}).get("governors") or ()
    names = sorted(found) if isinstance(found, Mapping | list | tuple) else [str(found)]
    if not names or names == ["performance"]:
        return
    yield Threat(
        "governor",
        "Processor frequency was not fixed",
        f"The frequency governor was {phrases.listed(names)} and was kept: submission costs may vary with the clock.",
        remedy="leave run.governor at 'performance'",
        evidence={"governors": names},
        severity="info",
    )


def clock(context: Context) -> Iterator[Threat]:
    """A clock too coarse or too slow for latencies."""
    source = (context.records.host.get("clock") or {}).get("source")
    if source is None or source in PRECISE_CLOCKS:
        return
    yield Threat(
        "clock",
        "Slow clock",
        f"The kernel's clock source is {source}: each reading costs microseconds, which is in every latency.",
        remedy="boot with clocksource=tsc where the processor's counter is stable",
        evidence={"source": source},
    )


def interrupted(context: Context) -> Iterator[Threat]:
    """A long pause between trials: a resumed run, perhaps on a machine that changed meanwhile."""
    rows = context.trials.sort("started_unix_s").select("trial", "started_unix_s", "duration_s")
    idle = rows.with_columns(
        idle_s=pl.col("started_unix_s") - (pl.col("started_unix_s") + pl.col("duration_s")).shift(1)
    ).filter(pl.col("idle_s") > GAP_S)
    if idle.is_empty():
        return
    longest_s = _number(idle["idle_s"].max())
    yield Threat(
        "interrupted",
        "The run was interrupted",
        f"The run paused {phrases.count(idle.height, 'time')} for more than {GAP_S / 60:g} minutes (longest: "
        f"{longest_s / 60:.3g} minutes). Trials before and after may have met a different machine.",
        remedy="look at the drift over the run; measure again without a pause where it matters",
        evidence={"pauses": idle.height, "longest_s": longest_s, "before_trials": idle["trial"].to_list()},
        severity="info",
    )


def _distinct(context: Context) -> list[dict[str, Any]]:
    """The conditions that ran, in the study's order."""
    found = {label(point): point for point in context.points().values()}
    return sorted(found.values(), key=context.study.design.place)


def _places(context: Context, trials: Iterable[str]) -> list[str]:
    """The conditions of some trials in words, in the study's order."""
    points = context.points()
    concerned = {label(points[trial]) for trial in trials if trial in points}
    return [shown for point in _distinct(context) if (shown := label(point)) in concerned]


def _memory_bytes(context: Context) -> Any:
    return (context.records.host.get("memory") or {}).get("total_bytes")


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
