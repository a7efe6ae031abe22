"""A comparison of two runs in words and as JSON."""

from __future__ import annotations

from typing import Any

from ioassay.analysis.run_comparison import DRIVES, MACHINE, Comparison, Difference, Row, Unmatched, Verdict
from ioassay.narrative import phrases
from ioassay.stats.ratio_of_means import Ratio
from ioassay.stats.result import Interval, Undefined, plain

METHOD = (
    "Ratios of means are estimated on the log scale, with variances moderated by all conditions of a response. "
    "Intervals and p values hold for all rows at once (Bonferroni). 'same' is shown by two one-sided tests."
)
_REASONS = {
    Verdict.SAME: "{change}, which is proved to be within {margin}.",
    Verdict.UNDECIDED: ("{change}. Neither a difference nor equality to within {margin} is proved.{needed}"),
}
_CHANGED = "{change}."
_NEEDED = " That needs {needed} in each run."


def statement(comparison: Comparison) -> str:
    """One or two sentences for people."""
    if not comparison.rows:
        return "The runs share no condition with values, so there is nothing to compare."
    parts = [f"{verdict} in {number}" for verdict, number in comparison.counts.items()]
    text = f"B compared with A in {phrases.count(len(comparison.rows), 'row')}: {phrases.listed(parts, 9)}."
    worst = comparison.worst
    return f"{text} Worst: {worst.study}, {worst.label}: {reason(worst, comparison.margin)}" if worst else text


def reason(row: Row, margin: float) -> str:
    """The change and what the verdict rests on."""
    name = phrases.name(row.response)
    if isinstance(row.ratio, Undefined):
        return f"{name}: not compared: {row.ratio.reason}."
    template = _REASONS.get(row.verdict, _CHANGED)
    change, shown = f"{name} is {_change(row.ratio, row.interval or row.ratio.interval)}", phrases.percent(margin)
    needed = "" if row.needed is None else _NEEDED.format(needed=phrases.repetitions_needed(row.needed))
    return template.format(change=change, margin=shown, needed=needed)


def _change(ratio: Ratio, bounds: Interval) -> str:
    way = "higher" if ratio.ratio >= 1 else "lower"
    known = phrases.signed_bounds(bounds.low - 1, bounds.high - 1, bounds.confidence)
    return f"{phrases.points(abs(ratio.ratio - 1))} % {way} in B ({known})"


def unmatched(one: Unmatched) -> str:
    """`bs, bs=1MiB: read.bw`, or `study bs`."""
    return f"{one.study}, {one.label}: {one.response}" if one.response else f"study {one.study}"


def warning(difference: Difference) -> str:
    """A difference between the runs that is not what is compared."""
    if difference == MACHINE:
        return "host: A and B were measured on different machines"
    if difference == DRIVES:
        return "disk: A and B were measured on different drives"
    return f"{difference.subject}: {difference.name} is {difference.a!r} in A and {difference.b!r} in B"


def as_dict(comparison: Comparison) -> dict[str, Any]:
    """Plain JSON-able form."""
    rows = [{**plain(row), "reason": reason(row, comparison.margin)} for row in comparison.rows]
    return {
        "a": comparison.a,
        "b": comparison.b,
        "margin": comparison.margin,
        "confidence": comparison.confidence,
        "rows": rows,
        "only_a": [unmatched(one) for one in comparison.only_a],
        "only_b": [unmatched(one) for one in comparison.only_b],
        "warnings": [warning(difference) for difference in comparison.differences],
        "method": METHOD,
        "regression": comparison.regression,
        "counts": comparison.counts,
        "statement": statement(comparison),
    }
