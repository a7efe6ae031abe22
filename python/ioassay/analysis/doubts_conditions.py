"""Doubts that the conditions raise which trials ran under, as the lab could give them."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ioassay.analysis import wording
from ioassay.analysis.cells import label
from ioassay.analysis.doubt import Context, Doubt

_NARROWED = "affinity-narrowed"


def narrowed(context: Context) -> Iterator[Doubt]:
    """Real-time policies that had a processor fewer, which was left to the lab, beside others that had all."""
    warnings = context.records.warnings
    of_study = (pl.col("study") == context.study["name"]) & (pl.col("code") == _NARROWED)
    concerned = set(warnings.filter(of_study)["trial"].to_list()) if not warnings.is_empty() else set()
    points = context.points()
    fewer = list(dict.fromkeys(label(point) for trial, point in points.items() if trial in concerned))
    others = list(dict.fromkeys(label(point) for trial, point in points.items() if trial not in concerned))
    if not fewer or not others:
        return
    yield Doubt(
        "fewer-processors",
        "One processor fewer under real-time policies",
        f"{wording.listed(fewer)} ran on one processor fewer than {wording.listed(others)}: it was left to the lab. "
        "With as many workers as processors, or more, they are not compared under the same conditions.",
        remedy="set run.affinity to the same processors for all, one less than there are",
        evidence={"conditions": fewer, "others": others},
        severity="info",
    )
