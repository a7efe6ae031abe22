"""Doubts that the conditions raise which trials ran under, as the lab could give them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import polars as pl

from ioassay.analysis.measurements.cells import label
from ioassay.analysis.threats.threat import Context, Threat
from ioassay.factors import factor_label
from ioassay.narrative import phrases

_NARROWED = "affinity-narrowed"
_BOGO = "bogo_ops"
_WORK = ("stressor", "-method")
"""Ends of the names of stress-ng's options that say what its work is."""


def narrowed(context: Context) -> Iterator[Threat]:
    """Real-time policies that had a processor fewer, which was left to the lab, beside others that had all."""
    warnings = context.records.warnings
    of_study = (pl.col("study") == context.study.name) & (pl.col("code") == _NARROWED)
    concerned = set(warnings.filter(of_study)["trial"].to_list()) if not warnings.is_empty() else set()
    points = context.points()
    fewer = list(dict.fromkeys(label(point) for trial, point in points.items() if trial in concerned))
    others = list(dict.fromkeys(label(point) for trial, point in points.items() if trial not in concerned))
    if not fewer or not others:
        return
    yield Threat(
        "fewer-processors",
        "One processor fewer under real-time policies",
        f"{phrases.listed(fewer)} ran on one processor fewer than {phrases.listed(others)}: it was left to the lab. "
        "With as many workers as processors, or more, they are not compared under the same conditions.",
        remedy="set run.affinity to the same processors for all, one less than there are",
        evidence={"conditions": fewer, "others": others},
        severity="info",
    )


def other_work(context: Context) -> Iterator[Threat]:
    """Bogo operations of different stressors, or methods of one: each is a piece of work of its own (stress-ng(1))."""
    cases, params = context.study.case, context.study.params
    named = {key: [case.get(key, params.get(key)) for case in cases] for case in cases for key in case}
    differ = different_work(context.responses, {**named, **context.study.factors})
    if not differ:
        return
    yield Threat(
        "different-work",
        "An operation is not the same work everywhere",
        different_work_text(differ),
        remedy="compare what else varies, at one of them at a time",
        evidence={"factors": differ},
        severity="info",
    )


def different_work(responses: Iterable[str], varied: Mapping[str, Iterable[object]]) -> list[str]:
    """Which of the factors that vary change what an operation is, where operations are counted at all."""
    if not any(response.startswith(_BOGO) for response in responses):
        return []
    return [name for name, levels in varied.items() if name.endswith(_WORK) and len({*levels} - {None}) > 1]


def different_work_text(factors: Sequence[str]) -> str:
    """What that means for a comparison."""
    return (
        f"A bogo operation is whatever its stressor does again and again, so it is other work for each "
        f"{phrases.listed([factor_label(name) for name in factors])}: that one has a higher rate of them does not "
        "mean that it is faster."
    )
