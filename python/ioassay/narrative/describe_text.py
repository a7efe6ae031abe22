"""Single conditions in words: means and percentiles with intervals, outliers, and what few repetitions mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ioassay import metrics
from ioassay.analysis.descriptive import FEW_BEYOND, ConditionMean, Description, Distribution
from ioassay.analysis.measurements.cells import label
from ioassay.metrics import PERCENTILES, percentile_name
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table, bounds, left_out
from ioassay.narrative.say import Quantity, Response, Say, holding, say
from ioassay.records.record import Scalar
from ioassay.stats.result import Interval, plain

_ALIKE = 0.2
"""Both sides of an interval are a like share of the mean up to here."""
_RATES = (".bw", ".iops", "_rate")


def findings(answers: Sequence[Description | Distribution]) -> list[Finding]:
    return [_described(one) if isinstance(one, Description) else _distributed(one) for one in answers]


def _levels(point: Mapping[str, Scalar], point_of: Callable[[Any], Mapping[str, Scalar]]) -> list[Any]:
    return [(factor, lambda row, factor=factor: point_of(row)[factor]) for factor in point]


def _described(one: Description) -> Finding:
    cells, unit = one.cells, one.cells.response
    table = Table.of(
        one.conditions,
        *_levels(one.conditions[0].point, lambda row: row.point),
        ("n", lambda row: row.moments.n),
        (phrases.centre(cells.merged), lambda row: row.moments.mean, unit),
        *bounds(lambda row: row.interval, unit),
        ("median", lambda row: row.moments.median, unit),
        ("deviation", lambda row: row.moments.stddev, unit),
        ("variation (%)", lambda row: phrases.in_percent(row.moments.cv)),
        ("minimum", lambda row: row.moments.minimum, unit),
        ("maximum", lambda row: row.moments.maximum, unit),
        ("outliers", lambda row: len(row.outliers)),
    )
    known = sorted(one.conditions, key=lambda summary: summary.moments.mean)
    lowest, highest = (
        say("describe.place", mean=Quantity(unit, summary.moments.mean, summary.interval), place=label(summary.point))
        for summary in (known[0], known[-1])
    )
    said = say("describe.range", response=Response(unit), lowest=lowest, highest=highest)
    if len(known) == 1:
        said = say("describe.one", response=Response(unit), mean=lowest.values["mean"])
    percentile, alone = metrics.is_percentile(unit), min(summary.moments.n for summary in known) < 2
    own = {"all_requests": percentile and cells.merged, "own_percentiles": percentile and not cells.merged}
    return Finding(
        response=unit,
        title=str(say("describe.title", name=Response(unit))),
        statements=[said],
        statistics={"unit": "repetition", "points": plain(one.conditions)},
        tables=[table],
        caveats=[*left_out(cells), *_outliers(one), *holding("describe", **own, one_repetition=alone)],
    )


def _outliers(one: Description) -> list[Say]:
    found = []
    for summary in one.conditions:
        median = Quantity(one.cells.response, summary.moments.median)
        for flagged in summary.outliers:
            value = Quantity(one.cells.response, flagged.value)
            found.append(say("describe.outlier", value=value, place=label(summary.point), median=median))
    return [say("describe.outliers", outliers=found)] if found else []


def _distributed(one: Distribution) -> Finding:
    unit, conditions = f"{one.direction}.{one.kind}.p99", one.conditions
    naive = [column._replace(title=f"naive, {column.title}") for column in bounds(lambda row: row[1].naive, unit)]
    table = Table.of(
        [(part, percentile) for part in conditions for percentile in part.percentiles],
        *_levels(conditions[0].point, lambda row: row[0].point),
        ("n", lambda row: row[0].repetitions),
        ("requests", lambda row: row[0].requests),
        ("mean", lambda row: row[0].mean_ns, unit),
        ("percentile", lambda row: percentile_name(row[1].percent)),
        ("all requests", lambda row: row[1].value, unit),
        *bounds(lambda row: row[1].interval, unit),
        *naive,
    )
    # Median and 99th percentile where that is lowest, and highest.
    said, ranked = [], sorted(conditions, key=lambda condition: condition.at(99.0).value)
    for condition in (ranked[0], ranked[-1])[: len(ranked)]:
        half, tail = condition.at(50.0), condition.at(99.0)
        code = "describe.latency" if len(ranked) == 1 else "describe.latency_at"
        ends = {"half": Quantity(unit, half.value), "tail": Quantity(unit, tail.value, tail.interval)}
        said.append(say(code, place=label(condition.point), requests=metrics.requests_of(one.direction), **ends))
    name = phrases.inside(f"{one.direction}.{one.kind}.mean")
    return Finding(
        response=unit,
        title=str(say("describe.title_latency", name=name.removeprefix("mean "))),
        statements=said,
        statistics={"points": plain(conditions)},
        tables=[table],
        caveats=_caveats(one),
    )


def _caveats(one: Distribution) -> Iterator[Say]:
    for response in one.responses:
        yield from (*left_out(response.cells), *_outliers(response))
    yield say("describe.naive")
    if sparse := [percent for percent in PERCENTILES if any(part.at(percent).sparse for part in one.conditions)]:
        yield say("describe.sparse", few=FEW_BEYOND, percentiles=[*map(percentile_name, sparse)])
    alone = min(condition.repetitions for condition in one.conditions) < 2
    yield from holding("describe", no_interval=alone, closed_loop=one.kind == "lat")


def means_in_brief(rows: Sequence[ConditionMean], most: int) -> list[str]:
    """A sentence for each of the first conditions: its rates, or its first metric where it has none."""
    sentences = []
    for condition in list(dict.fromkeys(row.workload for row in rows))[:most]:
        own = [row for row in rows if row.workload == condition]
        rates = [row for row in own if row.metric.endswith(_RATES)] or own[:1]
        means = []
        for row in rates:
            known = Interval(*row.ci95, 0.95, "") if row.ci95 else None
            code, mean = f"describe.mean{'' if known else '_alone'}", Quantity(row.metric, row.mean, known)
            means.append(say(code, response=Response(row.metric), mean=mean))
        sentences.append(str(say("describe.brief", condition=condition, means=means)))
    return sentences


def half_width(metric: str, value: ConditionMean) -> str:
    """The interval of a mean: `± 4.2 %`, by both its ends where these are far apart; empty where there is none."""
    if value.ci95 is None or not value.mean:
        return ""
    share = (value.ci95[1] - value.mean) / value.mean
    return (
        f"± {phrases.points(share)} %" if share <= _ALIKE else phrases.span(metric, *value.ci95, metrics.format_metric)
    )


def profile_caption(repetitions: Sequence[int], requests: str, *, rates: bool, sparse: bool) -> str:
    """What the numbers of a table of workloads are; `sparse`: some percentile is marked with an asterisk."""
    ends = sorted({min(repetitions), max(repetitions)})
    said = [say("describe.profile_means", n="–".join(map(str, ends)))] if rates and ends[-1] > 1 else []
    said += [
        say("describe.profile_percentiles", requests=requests),
        *([say("describe.profile_sparse", few=FEW_BEYOND, requests=requests)] if sparse else []),
    ]
    return " ".join(map(str, said))
