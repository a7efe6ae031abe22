"""How much load until requests wait: the highest load without waiting, and what the storage serves at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay.analysis.storage.load_saturation import MARGIN, PERCENTILE, LoadLevel, Saturation
from ioassay.metrics import format_metric
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.result import Interval, plain

CALM = "Up to {load}, requests do not wait ({percentile} below {times} times its lowest, {lowest}); {limit}."
PERHAPS = "Up to {load}, {percentile} stays below {times} times its lowest, {lowest}, but {why}; {limit}."
LOWEST = "Up to {load}, {percentile} does not rise ({lowest} there, its lowest); {limit}."
ALWAYS = "Beyond the least load, {load}, {percentile} exceeds {times} times its value there, {lowest}; {limit}."
SATURATED = "Fewer requests are served than are offered {place}; {limit}."
SCATTER, SINGLE = "repetitions scatter", "repetitions are missing"
WAITS = "From {load} on they certainly wait: {percentile} is {value}."
LIMIT = "the storage serves at most {most}"
NO_LIMIT = "all {most} that were offered are served"
FEWER = (
    "From {load} on, fewer requests are served than are offered. Latencies there leave out the wait for a free slot."
)
COLUMNS = ("offered", "served", "from", "to", "p99", "from", "to", "p99 / lowest")


def findings(answers: Sequence[Saturation]) -> list[Finding]:
    """One finding for each place."""
    return [_finding(one) for one in answers]


def _finding(one: Saturation) -> Finding:
    said = _sentences(one)
    saturated = one.saturates
    return Finding(
        study=one.study,
        question="load",
        response=one.percentile,
        title="How much load until requests wait?",
        statement=" ".join(said),
        where=one.where,
        statistics={**plain(one), "saturates": saturated, "summary": said},
        tables=[Table(COLUMNS, [_row(one, level) for level in one.levels], _formats(one))],
        caveats=[] if saturated is None else [FEWER.format(load=_rate(one, one.levels[saturated].offered))],
    )


def _sentences(one: Saturation) -> list[str]:
    most = one.levels[one.most]
    shown = _rate(one, most.served)
    if isinstance(most.served_interval, Interval):
        shown += f" ({phrases.span(one.rate, most.served_interval.low, most.served_interval.high, format_metric)})"
    limit = LIMIT.format(most=shown) if one.saturates is not None else NO_LIMIT.format(most=shown)
    sentences = [phrases.placed(one.where, _calm(one, limit))]
    if one.waits is not None:
        level = one.levels[one.waits]
        value = format_metric(one.percentile, level.latency)
        sentences.append(WAITS.format(load=_rate(one, level.offered), percentile=PERCENTILE, value=value))
    return sentences


def _calm(one: Saturation, limit: str) -> str:
    """Up to which load requests do not wait, as far as that was judged."""
    if one.lowest is None or one.calm_mean is None:
        return SATURATED.format(place="at every load", limit=limit)
    place, template = one.calm_mean, PERHAPS
    if one.calm is not None and one.calm > one.lowest:  # a level against itself proves nothing
        place, template = one.calm, CALM
    elif place == one.lowest == 0 and one.levels[1].saturated:
        return SATURATED.format(place=f"beyond the least load, {_rate(one, one.levels[0].offered)}", limit=limit)
    elif place == one.lowest:
        template = LOWEST if place else ALWAYS
    return template.format(
        load=_rate(one, one.levels[place].offered),
        percentile=PERCENTILE,
        times=f"{1 + MARGIN:g}",
        lowest=format_metric(one.percentile, one.levels[one.lowest].latency),
        why=SCATTER if one.tested else SINGLE,
        limit=limit,
    )


def _rate(one: Saturation, rate: float) -> str:
    return phrases.value(one.rate, rate)


def _row(one: Saturation, level: LoadLevel) -> list[Any]:
    lowest = 0.0 if one.lowest is None else one.levels[one.lowest].latency
    ratio = level.latency / lowest if lowest else None
    served, latency = (phrases.ends(found) or (None, None) for found in (level.served_interval, level.latency_interval))
    return [level.offered, level.served, *served, level.latency, *latency, ratio]


def _formats(one: Saturation) -> list[str]:
    return [*[one.rate] * 4, *[one.percentile] * 3, ""]
