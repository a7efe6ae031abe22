"""Threats from the conditions that trials ran under, as ioassay could set them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import polars as pl

from ioassay.analysis.threats.threat import Code, Context, Threat
from ioassay.factors import changes_operation

_MOST_LATE = {"p50": (0.3, 20_000), "p99": (1.0, 100_000)}
"""How late answers may be at a percentile: this share of the mean latency, or this many ns. On an idle machine the
median is 4 to 17 µs where clients sleep (benches/README.md, device.py)."""


def in_memory(context: Context) -> Iterator[Threat]:
    """A target on a file system in memory, by the words of its own warning; `everywhere`: in all studies of the run."""
    if trials := context.warned(Code.IN_MEMORY):
        warnings = context.records.warnings.filter(pl.col("code") == Code.IN_MEMORY)
        text = warnings.filter(pl.col("trial").is_in(trials))["text"][0]
        everywhere = warnings["trial"].n_unique() == context.records.trials.height
        yield context.partial(Code.IN_MEMORY, trials, everywhere=everywhere, text=text)


def narrowed(context: Context) -> Iterator[Threat]:
    """Real-time policies that left a processor to ioassay, compared with others that had all."""
    concerned = context.warned("affinity-narrowed")
    fewer, others = map(context.conditions, (concerned, [one for one in context.points if one not in concerned]))
    if fewer and others:
        yield context.threat(Code.FEWER_PROCESSORS, "info", conditions=list(fewer), others=list(others))


def uncalibrated(context: Context) -> Iterator[Threat]:
    """A virtual drive whose transports' own time was measured on a busy machine, or not at all."""
    if trials := context.warned(Code.CALIBRATION, "floor-unknown"):
        yield context.partial(Code.CALIBRATION, trials)


def debug_build(context: Context) -> Iterator[Threat]:
    """Tools that were built to check themselves, or without optimisation, by their own words."""
    if trials := context.warned(Code.DEBUG_BUILD):
        yield context.partial(Code.DEBUG_BUILD, trials, tool=context.study.driver)


def late(context: Context) -> Iterator[Threat]:
    """A virtual drive that answered later than its model says: most often it waited for a processor."""
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
        yield context.partial(Code.LATE_ANSWERS, rows["trial"], mean_ns=worst["mean_ns"], **times)


def faulty(context: Context) -> Iterator[Threat]:
    """A virtual drive that had faults, which struck."""
    name = "drive.faults"
    if name in context.good.columns and not (rows := context.good.filter(pl.col(name) > 0)).is_empty():
        yield context.partial(Code.FAULTS, rows["trial"], "info", fired=int(rows[name].sum()))


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
