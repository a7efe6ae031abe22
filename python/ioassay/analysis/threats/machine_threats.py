"""Threats from the machine: caches between the load and the device, a full device, clocks, interruptions.

What other programs did meanwhile is judged by `analysis.machine_conditions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from ioassay.analysis.measurements import monitor_rates
from ioassay.analysis.threats.threat import Code, Context, Threat
from ioassay.store.schema import Host
from ioassay.study.model import Study

REACHED = 0.9
"""Share of the claimed bytes that must have reached the device; journals and other programs only add to it."""
SMALL_BYTES = 1 << 20
"""Volumes below this are not judged: metadata alone is as large."""
BUSY_PERCENT = 95.0
PRECISE_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen")
GAP_S = 300.0


def buffered(context: Context) -> Iterator[Threat]:
    """Conditions that go through the page cache."""
    driver, points = context.records.driver(context.study), context.conditions(context.points)
    remedies = {name: driver.page_cache_remedy(context.study.params_at(point)) for name, point in points.items()}
    if conditions := [name for name, remedy in remedies.items() if remedy]:
        memory_bytes = context.records.machine(context.study).get("memory", {}).get("total_bytes")
        numbers = {"conditions": conditions, "of": len(points), "memory_bytes": memory_bytes}
        yield context.threat(Code.BUFFERED, **numbers, remedy=remedies[conditions[0]])


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
        if shares := dict(rows.filter(pl.col("share") < REACHED).select("trial", "share").iter_rows()):
            numbers = {"share_of_claim": shares, "least": min(shares.values()), "limit": REACHED, "of": rows.height}
            conditions = list(context.conditions(shares))
            yield context.threat(Code(f"cached-{direction}s"), **numbers, conditions=conditions)


def busy_device(context: Context) -> Iterator[Threat]:
    """A device that was never idle."""
    found = monitor_rates.during_load(monitor_rates.disk(context.records, context.study))
    util = found.filter(pl.col("quantity") == "util").group_by("trial", "device").agg(pl.col("value").mean())
    full = util.filter(pl.col("value") >= BUSY_PERCENT)
    if not full.is_empty():
        trials, devices = full["trial"].unique(), sorted(full["device"].unique())
        numbers = {"limit_percent": BUSY_PERCENT, "trials": len(trials), "devices": devices}
        yield context.threat(Code.DEVICE_BUSY, "info", **numbers, conditions=list(context.conditions(trials)))


def machines(context: Context) -> Iterator[Threat]:
    """What the facts of the machines that measured show, each once; `hosts` has those of whom not all have it."""
    known = context.records.machines(context.study)
    for code, severity, evidence in FACTS:
        found: dict[str, tuple[dict[str, Any], list[str]]] = {}
        for host, facts in known.items():
            if own := evidence(facts, context.study):
                found.setdefault(repr(own), (own, []))[1].append(host)
        for own, hosts in found.values():
            yield context.threat(code, severity, **own, **({"hosts": hosts} if len(hosts) < len(known) else {}))


def _virtual(host: Host, study: Study) -> dict[str, Any]:
    """A virtual machine or a container; qemu names its emulated processors after its code generator, TCG."""
    found = host.get("virtualisation", {})
    if (found.get("vm") or found.get("container") or "none") == "none":
        return {}
    return {**found, "emulated": "TCG" in str(host.get("cpu", {}).get("model", "")), "target": study.has_target}


def _governor(host: Host, study: Study) -> dict[str, Any]:
    """Processors that save power while measuring."""
    found: object = host.get("cpu", {}).get("governors") or ()
    names = sorted(found) if isinstance(found, Mapping | list | tuple) else [str(found)]
    return {"governors": names} if study.run.governor == "keep" and names and names != ["performance"] else {}


def _clock(host: Host, study: Study) -> dict[str, Any]:
    """A clock too coarse or too slow for latencies."""
    source = host.get("clock", {}).get("source")
    return {} if source is None or source in PRECISE_CLOCKS else {"source": source}


FACTS = ((Code.VIRTUAL, "info", _virtual), (Code.GOVERNOR, "info", _governor), (Code.CLOCK, "warning", _clock))


def interrupted(context: Context) -> Iterator[Threat]:
    """A long pause between trials: a resumed run, perhaps on a machine that changed meanwhile."""
    ended = (pl.col("started_unix_s") + pl.col("duration_s")).shift(1)
    rows = context.trials.sort("started_unix_s").select("trial", idle_s=pl.col("started_unix_s") - ended)
    if pauses := dict(rows.filter(pl.col("idle_s") > GAP_S).iter_rows()):
        numbers = {"pauses": len(pauses), "longest_s": max(pauses.values()), "limit_s": GAP_S}
        yield context.threat(Code.INTERRUPTED, "info", **numbers, before_trials=list(pauses))
