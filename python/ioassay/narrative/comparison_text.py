"""A comparison of two runs in words and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ioassay import metrics
from ioassay.analysis.run_comparison import (
    DRIVES,
    HOSTS,
    MACHINE,
    PROGRAMS,
    Comparison,
    Difference,
    Row,
    Unmatched,
    Verdict,
)
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
    Verdict.WITHHELD: "{change}; no conclusion is drawn from it.",
}
_CHANGED = "{change}."
_DECIDED = (Verdict.SLOWER, Verdict.FASTER, Verdict.CHANGED, Verdict.SAME)
_LARGE = 3.0
"""From this ratio on, percent are hard to read."""
_NOTHING_PERCENT, _WHOLE_PERCENT = 0.05, 9.95
"""A smaller change is none, and from the second on it has no decimals."""
_NEEDED = " That needs {needed} in each run."


def headline(comparison: Comparison) -> str:
    """The verdict on all rows in one sentence, or why there is none."""
    if comparison.contradicted:
        runs = "both runs" if len(comparison.contradicted) > 1 else f"run {comparison.contradicted[0]}"
        return f"No conclusion is drawn: the kernel contradicts claims of {runs}."
    if comparison.unfit:
        runs = "in either run" if len(comparison.unfit) > 1 else f"in run {comparison.unfit[0]}"
        return f"No conclusion is drawn: the machine was not quiet enough {runs}."
    total, counts = len(comparison.rows), comparison.counts
    slower, faster, changed, same = (counts.get(verdict.value, 0) for verdict in _DECIDED)
    of_all, margin = f"of {phrases.count(total, 'comparison')}", phrases.percent(comparison.margin)
    if slower:
        return f"B is slower than A in {slower} {of_all}" + (f" and faster in {faster}." if faster else ".")
    if faster:
        return f"B is faster than A in {faster} {of_all} and slower in none."
    if changed:
        return f"B differs from A in {changed} {of_all}."
    if same == total:
        every = f"all {total} comparisons" if total > 1 else "the one comparison"
        return f"B is the same as A to within {margin} in {every}."
    if same:
        return f"B is the same as A to within {margin} in {same} {of_all}. The others are not decided."
    return (
        f"Not decided: {phrases.count(total, 'comparison')} prove neither a difference nor equality to within {margin}."
    )


def worst(comparison: Comparison) -> str:
    """The largest loss in a sentence; '' where B is slower nowhere, or where no conclusion is drawn."""
    row = comparison.worst if comparison.is_conclusive else None
    return f"Worst: {row.study}, {row.label}: {reason(row, comparison.margin)}" if row else ""


def reservation(row: Row) -> str:
    """Why a row is not compared, or the repetitions that would decide it; '' where it is decided."""
    if isinstance(row.ratio, Undefined):
        return row.ratio.reason
    if row.verdict != Verdict.UNDECIDED or row.needed is None:
        return ""
    return f"needs {phrases.repetitions_needed(row.needed).removesuffix(' repetitions')}"


def responses(rows: Sequence[Row]) -> str:
    """What rows of one condition are about, in brief: `read p99 latency`, `read IOPS and read bandwidth`."""
    return phrases.listed([brief(row.response) for row in rows])


def brief(response: str) -> str:
    """A response in two or three words inside a sentence: `read p99 latency`, `write bandwidth`."""
    percentile = metrics.latency_percentile(response)
    if percentile is None or percentile.kind != "lat":
        return phrases.inside(response)
    return f"{percentile.direction} {metrics.percentile_name(percentile.percent)} latency"


def change(ratio: Ratio, bounds: Interval) -> str:
    """`−18 % (−25 to −10 %)`; large increases as factors: `×12 (×8.1 to ×18)`."""
    shown = [_change_in_brief(one, ratio.ratio >= _LARGE) for one in (ratio.ratio, bounds.low, bounds.high)]
    if bounds.low == bounds.high:  # exact, as of simulations
        return shown[0]
    if bounds.vague:
        return f"{shown[0]} (beyond a factor of 10)"
    return f"{shown[0]} ({shown[1].removesuffix(' %')} to {shown[2]})"


def _change_in_brief(ratio: float, factor: bool) -> str:
    if factor:
        return f"×{phrases.plain_number(ratio)}"
    percent = 100 * (ratio - 1)
    if abs(percent) < _NOTHING_PERCENT:
        return "±0 %"
    return f"{percent:+.{0 if abs(percent) >= _WHOLE_PERCENT else 1}f} %".replace("-", "−")


def statement(comparison: Comparison) -> str:
    """One or two sentences for people."""
    if not comparison.rows:
        return "The runs share no condition with values, so there is nothing to compare."
    if not comparison.is_conclusive:
        return f"{headline(comparison)} {account(comparison)}"
    return f"{account(comparison)} {worst(comparison)}".rstrip()


def account(comparison: Comparison) -> str:
    """`B compared with A in 24 rows: slower in 3 and same in 21.`"""
    parts = [f"{verdict} in {number}" for verdict, number in comparison.counts.items()]
    return f"B compared with A in {phrases.count(len(comparison.rows), 'row')}: {phrases.listed(parts, 9)}."


def basis(comparison: Comparison) -> str:
    """What the verdicts rest on."""
    margin, confidence = phrases.percent(comparison.margin), phrases.level(comparison.confidence)
    return f"A is the baseline. The margin is {margin}, and the confidence {confidence} for all rows together."


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
    whole, on = replace(difference, host="", a=None, b=None), f" {difference.host}" if difference.host else ""
    if whole == HOSTS:
        return f"hosts: A was measured on {_hosts(difference.a)} and B on {_hosts(difference.b)}"
    if whole == MACHINE:
        return f"host{on}: A and B were measured on different machines"
    if whole == DRIVES:
        return f"disk{f' of host{on}' if on else ''}: A and B were measured on different drives"
    if whole == PROGRAMS and isinstance(difference.a, list) and isinstance(difference.b, list):
        used = (phrases.listed(tools) for tools in (difference.a, difference.b))
        return f"host{on}: A was measured with {' and B with '.join(used)}"
    subject = f"host{on}" if difference.host else difference.subject
    return f"{subject}: {difference.name} is {_value(difference.a)} in A and {_value(difference.b)} in B"


def _value(seen: object) -> str:
    return "not set" if seen is None else repr(seen)


def _hosts(names: object) -> str:
    return phrases.hosts(names) if isinstance(names, list) and names else "the machine that ran it"


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
        "outcome": comparison.outcome,
        "regression": comparison.regression,
        "unfit": list(comparison.unfit),
        "contradicted": list(comparison.contradicted),
        "counts": comparison.counts,
        "statement": statement(comparison),
    }
