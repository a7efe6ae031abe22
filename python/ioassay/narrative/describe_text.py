"""Sentences about single conditions: their means with intervals, their outliers, and what few repetitions mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay import metrics
from ioassay.analysis.effects.descriptive import Description, Summary
from ioassay.analysis.headline import ConditionMean
from ioassay.analysis.storage.latency import FEW_BEYOND
from ioassay.analysis.storage.workload_profile import Value
from ioassay.narrative import omissions, phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.result import Interval, Undefined, plain

SINGLE = "{name}: {known}."
RANGE = "{name} ranges from {lowest} to {highest}."
OUTLIERS = "Flagged as outliers and kept: {outliers}."
ALL_REQUESTS = (
    "The percentile is that of all requests of a condition. "
    "Median, deviation, variation, minimum, maximum and outliers are of the repetitions' own percentiles."
)
OWN_PERCENTILES = "The means are over the percentiles of single repetitions: their histograms were not kept."
ONE_REPETITION = "One repetition gives no uncertainty estimate; run at least 3, preferably 5."
_ALIKE = 0.2
"""Both sides of an interval are a like share of the mean up to here."""
_RATES = (".bw", ".iops", "_rate")


def findings(answers: Sequence[Description]) -> list[Finding]:
    """One finding for each response, with a row for each condition."""
    return [_finding(description) for description in answers]


def _finding(description: Description) -> Finding:
    cells = description.cells
    return Finding(
        study=cells.study,
        question="describe",
        response=cells.response,
        title=f"{phrases.name(cells.response)} of each condition",
        statements=_statement(cells.response, description.conditions),
        statistics={"unit": "repetition", "points": [_numbers(summary) for summary in description.conditions]},
        tables=[_table(description)],
        caveats=[*omissions.left_out(cells), *_caveats(description)],
    )


def _statement(response: str, conditions: Sequence[Summary]) -> str:
    name, ranked = phrases.subject(response), sorted(conditions, key=lambda summary: summary.moments.mean)
    if len(conditions) == 1:
        return SINGLE.format(name=name, known=_known(response, ranked[0]))
    low, high = (_known(response, summary, f" at {summary.cell.label}") for summary in (ranked[0], ranked[-1]))
    return RANGE.format(name=name, lowest=low, highest=high)


def _known(response: str, summary: Summary, place: str = "") -> str:
    shown = f"{phrases.value(response, summary.moments.mean)}{place}"
    if isinstance(summary.interval, Undefined):
        return f"{shown} ({phrases.count(summary.moments.n, 'repetition')})"
    return f"{shown} ({phrases.interval(response, summary.interval)}, n = {summary.moments.n})"


def _numbers(summary: Summary) -> dict[str, Any]:
    cell = summary.cell
    return {
        "point": dict(cell.point),
        "label": cell.label,
        **plain(summary.moments),
        "ci": phrases.ends(summary.interval),
        "outliers": [
            {
                "repetition": int(cell.repetition[outlier.index]),
                "trial": cell.trials[outlier.index],
                "value": float(cell.measured[outlier.index]),
                "score": outlier.score,
            }
            for outlier in summary.outliers
        ],
    }


def _table(description: Description) -> Table:
    factors, unit, level = list(description.cells.factors), description.cells.response, _level(description)
    columns = ["n", phrases.centre(description.cells.merged)]
    columns += ["median", "deviation", "variation (%)", "minimum", "maximum"]
    columns += [f"{level} interval, low", "high", "outliers"]
    formats = [*("" for _ in factors), "", unit, unit, unit, "", unit, unit, unit, unit, ""]
    return Table([*factors, *columns], [_row(factors, summary) for summary in description.conditions], formats)


def _level(description: Description) -> str:
    known = any(isinstance(summary.interval, Interval) for summary in description.conditions)
    return phrases.level(description.confidence) if known else "95 %"


def _row(factors: Sequence[str], summary: Summary) -> list[Any]:
    moments = summary.moments
    return [
        *(summary.cell.point[factor] for factor in factors),
        moments.n,
        moments.mean,
        moments.median,
        moments.stddev,
        phrases.in_percent(moments.cv),
        moments.minimum,
        moments.maximum,
        *(phrases.ends(summary.interval) or (None, None)),
        len(summary.outliers),
    ]


def _caveats(description: Description) -> list[str]:
    response, conditions, fewest = description.cells.response, description.conditions, description.fewest
    outliers = [
        f"{phrases.value(response, float(summary.cell.measured[outlier.index]))} at {summary.cell.label} "
        f"(median {phrases.value(response, summary.moments.median)})"
        for summary in conditions
        for outlier in summary.outliers
    ]
    caveats = [OUTLIERS.format(outliers=phrases.listed(outliers, len(outliers)))] if outliers else []
    if metrics.is_percentile(response):
        caveats.append(ALL_REQUESTS if description.cells.merged else OWN_PERCENTILES)
    if fewest < 2:
        caveats.append(ONE_REPETITION)
    return caveats


def means_in_brief(rows: Sequence[ConditionMean], most: int) -> list[str]:
    """A sentence for each of the first conditions: its rates, or its first metric where it has none."""
    sentences = []
    for condition in list(dict.fromkeys(row.workload for row in rows))[:most]:
        own = [row for row in rows if row.workload == condition]
        rates = [row for row in own if row.metric.endswith(_RATES)] or own[:1]
        sentences.append(f"{phrases.capital(condition)}: {', '.join(map(_mean, rates))}.")
    return sentences


def _mean(row: ConditionMean) -> str:
    span = row.ci95 and f"95 % interval {phrases.span(row.metric, *row.ci95, metrics.format_metric)}"
    mean = metrics.format_metric(row.metric, row.mean)
    return f"{phrases.inside(row.metric)} {mean} ({span or 'one repetition, no interval'})"


def half_width(metric: str, value: Value) -> str:
    """The interval of a mean: `± 4.2 %`, by both its ends where these are far apart; empty where there is none."""
    if value.half_width is None or value.ci95 is None:
        return ""
    if value.half_width <= _ALIKE:
        return f"± {phrases.points(value.half_width)} %"
    return phrases.span(metric, *value.ci95, metrics.format_metric)


def profile_caption(repetitions: Sequence[int], *, sparse: bool) -> str:
    """What the numbers of a table of workloads are; `sparse`: some percentile is marked with an asterisk."""
    ends = sorted({min(repetitions), max(repetitions)})
    count = "–".join(str(end) for end in ends)
    means = f"IOPS and bandwidth: means of {count} repetitions, with their 95 % interval. " if ends[-1] > 1 else ""
    beyond = f" * fewer than {FEW_BEYOND} requests lie beyond." if sparse else ""
    return f"{means}Latencies: percentiles of all requests; lines in the charts at p50, p99 and p99.9.{beyond}"
