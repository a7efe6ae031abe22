"""Threats to the validity of the results: all that the records themselves show, each with its evidence.

Threats in the numbers, from the machine and from what trials ran under. What other programs did meanwhile is judged by
`analysis.machine_conditions`. What a driver or the host check reported when they ran are warnings of the records, and
repeated here only where they decide what may be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import polars as pl

from ioassay.analysis import stability
from ioassay.analysis.measurements import monitor_rates
from ioassay.analysis.measurements.cells import Cells, cells, label
from ioassay.analysis.measurements.log_samples import samples, within_trials
from ioassay.analysis.one_factor import families, shape
from ioassay.analysis.stability import UNSTABLE_CV
from ioassay.factors import CONCURRENCY, LevelIndex, changes_operation
from ioassay.records.record import FAILED, OK, SKIPPED, Scalar
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.result import plain
from ioassay.store.dataset import Dataset, Host
from ioassay.study.model import Study


class Code(StrEnum):
    """The threats, under stable names. `narrative/catalogue/threats.toml` has their words and remedies."""

    FAILED = "trials-failed"
    SKIPPED = "trials-skipped"
    INCOMPLETE = "incomplete"
    DIFFERENT_WORK = "different-work"
    FEW_REPETITIONS = "few-repetitions"
    IN_MEMORY = "memory-filesystem"
    BUFFERED = "buffered"
    CACHED_READS = "cached-reads"
    CACHED_WRITES = "cached-writes"
    TWO_MODES = "two-modes"
    UNSTABLE = "unstable"
    DRIFT = "drift"
    UNSTEADY = "unsteady"
    SHORT = "short"
    SATURATION = "saturation"
    FEWER_PROCESSORS = "fewer-processors"
    DEBUG_BUILD = "debug-build"
    CALIBRATION = "calibration-uncertain"
    LATE_ANSWERS = "late-answers"
    FAULTS = "faults-injected"
    DEVICE_BUSY = "device-busy"
    VIRTUAL = "virtual"
    GOVERNOR = "governor"
    CLOCK = "clock"
    INTERRUPTED = "interrupted"
    SEQUENTIAL_STOPPING = "sequential-stopping"


@dataclass(frozen=True)
class Threat:
    """One threat with its `evidence`: JSON-able numbers and names."""

    code: Code
    evidence: Mapping[str, Any] = field(default_factory=dict)
    severity: str = "warning"
    response: str = ""


@dataclass(frozen=True)
class Context:
    """One study and its records, with what several checks need computed once."""

    records: Dataset
    study: Study

    def threat(self, code: Code, severity: str = "warning", response: str = "", /, **evidence: Any) -> Threat:
        return Threat(code, evidence, severity, response)

    @cached_property
    def responses(self) -> dict[str, Cells]:
        """Response -> its cells, for responses that have values."""
        found = {name: cells(self.records, self.study, name) for name in self.records.responses(self.study)}
        return {name: part for name, part in found.items() if part.cells}

    @cached_property
    def trials(self) -> pl.DataFrame:
        return self.records.trials_of(self.study)

    @cached_property
    def good(self) -> pl.DataFrame:
        return self.trials.filter(pl.col("status") == OK)

    @cached_property
    def points(self) -> dict[str, dict[str, Scalar]]:
        """Trial id -> its point, spelled as the study spells it, of the trials that went well."""
        factors = self.study.levels
        design = LevelIndex({name: levels for name, levels in factors.items() if name in self.good.columns})
        return {row["trial"]: design.point(row) for row in self.good.iter_rows(named=True)}

    def conditions(self, trials: Iterable[str]) -> dict[str, dict[str, Scalar]]:
        """Label -> point of the conditions of those of these trials that went well, in the study's order."""
        points = [self.points[trial] for trial in trials if trial in self.points]
        return {label(point): point for point in sorted(points, key=self.study.design.place)}

    def partial(self, code: Code, trials: Collection[str], severity: str = "warning", **evidence: Any) -> list[Threat]:
        """A threat to trials that went well: their number, of how many, and their conditions; none to no trials."""
        where = {"trials": len(trials), "of": len(self.points), "conditions": list(self.conditions(trials))}
        return [self.threat(code, severity, **where, **evidence)] if len(trials) else []

    def warned(self, *codes: str) -> list[str]:
        """The trials that went well and whose records have a warning of these codes."""
        if self.records.warnings.is_empty():
            return []
        concerned = set(self.records.warnings.filter(self.records.warnings["code"].is_in([*map(str, codes)]))["trial"])
        return [trial for trial in self.points if trial in concerned]


ENOUGH_REPETITIONS = 5
SHORT_S = 5.0
REACHED = 0.9
"""Share of the claimed bytes that must have reached the device; journals and other programs only add to it."""
SMALL_BYTES = 1 << 20
"""Volumes below this are not judged: metadata alone is as large."""
_MOST_LATE = {"p50": (0.3, 20_000), "p99": (1.0, 100_000)}
"""How late answers may be at a percentile: this share of the mean latency, or this many ns. On an idle machine the
median is 4 to 17 µs where clients sleep (benches/README.md, device.py)."""
BUSY_PERCENT = 95.0
PRECISE_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen")
GAP_S = 300.0


def incomplete(context: Context) -> Iterator[Threat]:
    """Trials that failed or were skipped, fewer records than planned trials, and a number of them that is adaptive."""
    for status, code in ((FAILED, Code.FAILED), (SKIPPED, Code.SKIPPED)):
        rows = context.trials.filter(pl.col("status") == status)
        if not rows.is_empty():
            reasons = Counter(reason or "" for reason in rows["reason"].to_list()).most_common()
            yield context.threat(code, trials=rows["trial"].to_list(), of=context.trials.height, reasons=dict(reasons))
    name = context.study.name
    planned, recorded = context.records.planned.get(name, 0), context.trials.height
    for apart in (context.records.traced, context.records.counting):  # planned as well, and not among those that count
        recorded += apart["study"].to_list().count(name) if apart is not None else 0
    if (
        until := context.study.until
    ) and not until.of_rounds:  # adaptive repetition makes intervals a little too narrow
        numbers = {"trials": context.good.height, "planned_at_most": planned}
        yield context.threat(Code.SEQUENTIAL_STOPPING, "info", metric=until.metric, **numbers)
    elif recorded < planned:
        yield context.threat(Code.INCOMPLETE, planned=planned, recorded=recorded, run=str(context.records.root))


def little(context: Context) -> Iterator[Threat]:
    """Few repetitions, and short trials of a driver that lets their length be chosen."""
    counts = {cell.label: cell.values.size for found in context.responses.values() for cell in found.cells}
    fewest = min(counts.values(), default=ENOUGH_REPETITIONS)
    if fewest < ENOUGH_REPETITIONS:
        numbers = {"fewest": fewest, "conditions": [*counts.values()].count(fewest), "enough": ENOUGH_REPETITIONS}
        yield context.threat(Code.FEW_REPETITIONS, "warning" if fewest < 3 else "info", **numbers)
    key, typical_s = context.records.driver(context.study).length_key, context.good["duration_s"].median()
    if key and isinstance(typical_s, float) and typical_s < SHORT_S:
        times = {"median_s": typical_s, "enough_s": SHORT_S}
        yield context.threat(Code.SHORT, "info", **times, key=key, target=context.study.has_target)


def buffered(context: Context) -> Iterator[Threat]:
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


def instability(context: Context) -> Iterator[Threat]:
    """Responses in two modes, beyond 5 % variation, that drift, without SNIA's steady state: each kind together."""
    apart = {
        response: {name: getattr(part.modes, name) for name in ("ratio", "share", "carries", "needed", "p_of_shares")}
        for response, part in context.responses.items()
        if part.modes
    }
    inside = {
        response: {"ratio": within.ratio, "share": within.share}
        for response in context.responses
        if (within := within_trials(samples(context.records, context.study, response).values()))
    }
    if apart or inside:
        yield context.threat(Code.TWO_MODES, "warning" if apart else "info", modes=apart, inside=inside)
    cvs, conditions, drifts, unsteady = dict[str, Any](), dict[str, int](), dict[str, Any](), dict[str, Any]()
    for one in stability.analyse(context.records, context.study):
        response = one.cells.response
        if one.variation and one.variation.unstable:
            cvs[response], conditions[response] = one.variation.unstable, len(one.cells.cells)
        if one.drift and one.drift.notable:
            drifts[response] = {key: plain(getattr(one.drift, key)) for key in ("change", "interval", "p")}
        if (found := one.steadiness) and not found.attained:
            judged = {"conditions": found.unsteady, "conditions_judged": len(found.by_repetition)}
            unsteady[response] = {**judged, "trials": len(found.within), "trials_attained": found.trials_attained}
    if cvs:
        yield context.threat(Code.UNSTABLE, limit=UNSTABLE_CV, cv=cvs, conditions=conditions)
    if drifts:
        yield context.threat(Code.DRIFT, **drifts)
    if unsteady:
        yield context.threat(Code.UNSTEADY, **unsteady)


def saturated(context: Context) -> Iterator[Threat]:
    """Curves over queue depth or number of jobs that flatten."""
    for response in context.responses:
        groups = families(context.records, context.study, response)
        for factor in (name for name in CONCURRENCY if name in groups):
            for family in groups[factor]:
                curve = shape(family)
                if curve and curve.plateau:
                    evidence = {"factor": factor, "from": curve.plateau.point[factor], "margin": MARGIN}
                    yield context.threat(Code.SATURATION, "info", response, where=family.part.where(), **evidence)


def other_work(context: Context) -> Iterator[Threat]:
    """Bogo operations of different stressors, or methods of one: each is a piece of work of its own (stress-ng(1))."""
    cases, params = context.study.case, context.study.params
    named = {key: [case.get(key, params.get(key)) for case in cases] for case in cases for key in case}
    if differ := different_work(context.responses, {**named, **context.study.factors}):
        yield context.threat(Code.DIFFERENT_WORK, "info", factors=differ)


def different_work(responses: Iterable[str], varied: Mapping[str, Iterable[object]]) -> list[str]:
    """Which of the factors that vary change what an operation is, where operations are counted at all."""
    if not any(response.startswith("bogo_ops") for response in responses):
        return []
    return [name for name, levels in varied.items() if changes_operation(name) and len({*levels} - {None}) > 1]


def warned(context: Context) -> Iterator[Threat]:
    """What a driver or a target warned of when trials ran, where it decides what may be compared."""
    # A file system in memory, by the words of its own warning; `everywhere`: in all studies of the run.
    if trials := context.warned(Code.IN_MEMORY):
        warnings = context.records.warnings.filter(pl.col("code") == Code.IN_MEMORY)
        text = warnings.filter(pl.col("trial").is_in(trials))["text"][0]
        everywhere = warnings["trial"].n_unique() == context.records.trials.height
        yield from context.partial(Code.IN_MEMORY, trials, everywhere=everywhere, text=text)
    # Real-time policies that left a processor to ioassay, compared with others that had all.
    concerned = context.warned("affinity-narrowed")
    fewer, others = map(context.conditions, (concerned, [one for one in context.points if one not in concerned]))
    if fewer and others:
        yield context.threat(Code.FEWER_PROCESSORS, "info", conditions=list(fewer), others=list(others))
    # Tools that check themselves, and a virtual drive whose transports' own time was measured on a busy machine, or
    # not at all.
    yield from context.partial(Code.DEBUG_BUILD, context.warned(Code.DEBUG_BUILD), tool=context.study.driver)
    yield from context.partial(Code.CALIBRATION, context.warned(Code.CALIBRATION, "floor-unknown"))


def virtual_drive(context: Context) -> Iterator[Threat]:
    """Faults that it injected, and answers later than its model says: most often it waited for a processor."""
    if (name := "drive.faults") in context.good.columns:
        rows = context.good.filter(pl.col(name) > 0)
        yield from context.partial(Code.FAULTS, rows["trial"], "info", fired=int(rows[name].sum()))
    names = [f"drive.late.{percentile}" for percentile in _MOST_LATE]
    kinds = [kind for kind in ("read", "write") if f"drive.{kind}.lat.mean" in context.good.columns]
    if not kinds or not {*names} <= {*context.good.columns}:
        return
    ios = {kind: pl.col(f"drive.{kind}.ios").fill_null(0) for kind in kinds}
    total_ns = pl.sum_horizontal(pl.col(f"drive.{kind}.lat.mean").fill_null(0) * ios[kind] for kind in kinds)
    mean_ns = total_ns / pl.sum_horizontal(ios.values())
    limits = [pl.max_horizontal(mean_ns * share, pl.lit(least_ns)) for share, least_ns in _MOST_LATE.values()]
    is_late = pl.any_horizontal(pl.col(name) > limit for name, limit in zip(names, limits, strict=True))
    rows = context.good.with_columns(mean_ns=mean_ns).filter(is_late)
    if not rows.is_empty():
        worst = rows.sort(names[-1]).row(-1, named=True)
        times = {f"late_{percentile}_ns": worst[f"drive.late.{percentile}"] for percentile in _MOST_LATE}
        yield from context.partial(Code.LATE_ANSWERS, rows["trial"], mean_ns=worst["mean_ns"], **times)


def busy_device(context: Context) -> Iterator[Threat]:
    found = monitor_rates.during_load(monitor_rates.disk(context.records, context.study))
    util = found.filter(pl.col("quantity") == "util").group_by("trial", "device").agg(pl.col("value").mean())
    full = util.filter(pl.col("value") >= BUSY_PERCENT)
    if not full.is_empty():
        trials, devices = full["trial"].unique(), sorted(full["device"].unique())
        numbers = {"limit_percent": BUSY_PERCENT, "trials": len(trials), "devices": devices}
        yield context.threat(Code.DEVICE_BUSY, "info", **numbers, conditions=list(context.conditions(trials)))


def machines(context: Context) -> Iterator[Threat]:
    """What the facts of the machines that measured show, each once; `hosts` has those of whom not all have it."""
    known, found = context.records.machines(context.study), dict[str, tuple[Threat, list[str]]]()
    for host, facts in known.items():
        for threat in _of_machine(context, facts):
            found.setdefault(repr(threat), (threat, []))[1].append(host)
    for threat, hosts in found.values():
        some = {"hosts": hosts} if len(hosts) < len(known) else {}
        yield replace(threat, evidence={**threat.evidence, **some})


def _of_machine(context: Context, host: Host) -> Iterator[Threat]:
    """Virtual machines and containers, processors that save power, and clocks too coarse or too slow for latencies."""
    virtual = host.get("virtualisation", {})
    if (virtual.get("vm") or virtual.get("container") or "none") != "none":
        # qemu names its emulated processors after its code generator, TCG.
        kind = {"emulated": "TCG" in str(host.get("cpu", {}).get("model", "")), "target": context.study.has_target}
        yield context.threat(Code.VIRTUAL, "info", **{**virtual, **kind})
    found: object = host.get("cpu", {}).get("governors") or ()
    names = sorted(found) if isinstance(found, Mapping | list | tuple) else [str(found)]
    if context.study.run.governor == "keep" and names and names != ["performance"]:
        yield context.threat(Code.GOVERNOR, "info", governors=names)
    source = host.get("clock", {}).get("source")
    if source is not None and source not in PRECISE_CLOCKS:
        yield context.threat(Code.CLOCK, source=source)


def interrupted(context: Context) -> Iterator[Threat]:
    """A long pause between trials: a resumed run, perhaps on a machine that changed meanwhile."""
    ended = (pl.col("started_unix_s") + pl.col("duration_s")).shift(1)
    rows = context.trials.sort("started_unix_s").select("trial", idle_s=pl.col("started_unix_s") - ended)
    if pauses := dict(rows.filter(pl.col("idle_s") > GAP_S).iter_rows()):
        numbers = {"pauses": len(pauses), "longest_s": max(pauses.values()), "limit_s": GAP_S}
        yield context.threat(Code.INTERRUPTED, "info", **numbers, before_trials=list(pauses))


CHECKS = (
    *(incomplete, little, buffered, cached, instability, saturated, other_work, warned),
    *(virtual_drive, busy_device, machines, interrupted),
)


def analyse(records: Dataset, study: Study) -> list[Threat]:
    """In the order of `Code`."""
    context = Context(records, study)
    # Where nothing was measured, warnings of a simulation itself are among the warnings of its records.
    checks = CHECKS if records.is_measured(study) else (incomplete,)
    return sorted((threat for check in checks for threat in check(context)), key=lambda one: [*Code].index(one.code))
