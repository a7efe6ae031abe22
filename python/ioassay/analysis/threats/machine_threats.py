"""Threats from the machine: caches between the load and the device, a full device, clocks, interruptions.

What other programs did meanwhile is judged by `analysis.machine_conditions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from ioassay.analysis.measurements import monitor_rates
from ioassay.analysis.measurements.cells import label
from ioassay.analysis.threats.threat import Code, Context, Threat
from ioassay.store.schema import Host

REACHED = 0.9
"""Share of the claimed bytes that must have reached the device; journals and other programs only add to it."""
SMALL_BYTES = 1 << 20
"""Volumes below this are not judged: metadata alone is as large."""
BUSY_PERCENT = 95.0
PRECISE_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen")
GAP_S = 300.0


def buffered(context: Context) -> Iterator[Threat]:
    """Conditions that go through the page cache."""
    driver, points = context.records.driver(context.study), _distinct(context)
    remedies = {label(point): driver.page_cache_remedy(context.study.params_at(point)) for point in points}
    if conditions := [condition for condition, remedy in remedies.items() if remedy]:
        yield context.threat(
            Code.BUFFERED,
            conditions=conditions,
            of=len(points),
            remedy=remedies[conditions[0]],
            memory_bytes=_memory_bytes(context),
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
        yield context.threat(
            Code(f"cached-{direction}s"),
            share_of_claim=shares,
            least=min(shares.values()),
            limit=REACHED,
            of=rows.height,
            conditions=_places(context, shares),
        )


def busy_device(context: Context) -> Iterator[Threat]:
    """A device that was never idle."""
    found = monitor_rates.during_load(monitor_rates.disk(context.records, context.study))
    util = found.filter(pl.col("quantity") == "util").group_by("trial", "device").agg(pl.col("value").mean())
    full = util.filter(pl.col("value") >= BUSY_PERCENT)
    if full.is_empty():
        return
    yield context.threat(
        Code.DEVICE_BUSY,
        "info",
        limit_percent=BUSY_PERCENT,
        trials=full["trial"].n_unique(),
        devices=sorted(full["device"].unique().to_list()),
        conditions=_places(context, full["trial"].to_list()),
    )


def virtual(context: Context) -> Iterator[Threat]:
    """A virtual machine or a container; qemu names its emulated processors after its code generator, TCG."""

    def evidence(host: Host) -> dict[str, Any] | None:
        found = host.get("virtualisation", {})
        kind = found.get("vm") or found.get("container")
        if not kind or kind == "none":
            return None
        return {**found, "emulated": "TCG" in str(host.get("cpu", {}).get("model", ""))}

    for found in _of_machines(context, evidence):
        yield context.threat(Code.VIRTUAL, "info", **found, target=context.study.has_target)


def governor(context: Context) -> Iterator[Threat]:
    """Processors that save power while measuring."""
    if context.study.run.governor != "keep":
        return

    def evidence(host: Host) -> dict[str, Any] | None:
        found: object = host.get("cpu", {}).get("governors") or ()
        names = sorted(found) if isinstance(found, Mapping | list | tuple) else [str(found)]
        return {"governors": names} if names and names != ["performance"] else None

    for found in _of_machines(context, evidence):
        yield context.threat(Code.GOVERNOR, "info", **found)


def clock(context: Context) -> Iterator[Threat]:
    """A clock too coarse or too slow for latencies."""

    def evidence(host: Host) -> dict[str, Any] | None:
        source = host.get("clock", {}).get("source")
        return {"source": source} if source is not None and source not in PRECISE_CLOCKS else None

    for found in _of_machines(context, evidence):
        yield context.threat(Code.CLOCK, **found)


def _of_machines(context: Context, evidence: Callable[[Host], dict[str, Any] | None]) -> Iterator[dict[str, Any]]:
    """What there is to say of the machines that measured, each once; `hosts` has those of whom not all have it."""
    machines = context.records.machines(context.study)
    found: list[tuple[dict[str, Any], list[str]]] = []
    for host, facts in machines.items():
        if (own := evidence(facts)) is None:
            continue
        names = next((names for known, names in found if known == own), None)
        if names is None:
            found.append((own, [host]))
        else:
            names.append(host)
    for own, names in found:
        yield {**own, "hosts": names} if len(names) < len(machines) else own


def interrupted(context: Context) -> Iterator[Threat]:
    """A long pause between trials: a resumed run, perhaps on a machine that changed meanwhile."""
    rows = context.trials.sort("started_unix_s").select("trial", "started_unix_s", "duration_s")
    idle = rows.with_columns(
        idle_s=pl.col("started_unix_s") - (pl.col("started_unix_s") + pl.col("duration_s")).shift(1)
    ).filter(pl.col("idle_s") > GAP_S)
    if idle.is_empty():
        return
    longest_s = _number(idle["idle_s"].max())
    trials = idle["trial"].to_list()
    evidence = {"pauses": idle.height, "longest_s": longest_s, "limit_s": GAP_S, "before_trials": trials}
    yield context.threat(Code.INTERRUPTED, "info", **evidence)


def _distinct(context: Context) -> list[dict[str, Any]]:
    """The conditions that ran, in the study's order."""
    found = {label(point): point for point in context.points().values()}
    return sorted(found.values(), key=context.study.design.place)


def _places(context: Context, trials: Iterable[str]) -> list[str]:
    """The labels of the conditions of some trials, in the study's order."""
    points = context.points()
    concerned = {label(points[trial]) for trial in trials if trial in points}
    return [shown for point in _distinct(context) if (shown := label(point)) in concerned]


def _memory_bytes(context: Context) -> Any:
    return context.records.machine(context.study).get("memory", {}).get("total_bytes")


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
