"""A comparison of two runs in words and as JSON. The page, Markdown, JUnit and the terminal show the same lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ioassay import metrics
from ioassay.analysis.condition_comparison import Row, Verdict
from ioassay.narrative import phrases
from ioassay.narrative.say import Change, Response, Say, say
from ioassay.packs.comparison.run_comparison import Comparison, Difference, Outcome
from ioassay.stats.result import Undefined, plain

METHOD = say("comparison.method")
MARKS = dict(zip(Verdict, "▼▲◆■●–", strict=True))
"""As the picture has them."""
_LARGE = 3.0
"""From this ratio on, percent are hard to read."""
_NOTHING_PERCENT, _WHOLE_PERCENT = 0.05, 9.95
"""A smaller change is none, and from the second on it has no decimals."""


def headline(comparison: Comparison) -> Say:
    """The verdict on all rows in one sentence, or why there is none."""
    outcome, counts, runs = comparison.outcome, comparison.counts, comparison.contradicted or comparison.unfit
    total = len(comparison.rows)
    variants = {
        Outcome.SLOWER: ("faster", Verdict.FASTER in counts),
        Outcome.SAME: ("one", total == 1),
        Outcome.UNDECIDED: ("same", Verdict.SAME in counts),
    }
    variant, holds = variants.get(outcome, ("both", len(runs) > 1))
    code = f"comparison.{outcome}_{variant}" if holds else f"comparison.{outcome}"
    return say(code, total=total, margin=comparison.margin, runs=runs, **counts)


def worst(comparison: Comparison) -> Say | None:
    """The largest loss; None where B is slower nowhere, or where no conclusion is drawn."""
    if (row := comparison.worst) is None:
        return None
    return say("comparison.worst", study=row.study, label=row.label, reason=reason(row))


def account(comparison: Comparison) -> Say:
    """`B compared with A in 24 rows: slower in 3 and same in 21.`"""
    counts = comparison.counts.items()
    verdicts = [say("comparison.verdict", verdict=verdict, number=number) for verdict, number in counts]
    return say("comparison.account", total=len(comparison.rows), verdicts=verdicts)


def basis(comparison: Comparison) -> Say:
    """What the verdicts rest on."""
    return say("comparison.basis", margin=comparison.margin, confidence=comparison.confidence)


@dataclass(frozen=True)
class Line:
    """A row as it is shown, with the `responses` of those that restate it in another unit."""

    row: Row
    responses: tuple[str, ...]
    condition: str
    """With its study where there are several."""
    means: tuple[str, str]
    change: str
    verdict: str
    mark: str
    reservation: str


def lines(comparison: Comparison, groups: Sequence[Sequence[Row]]) -> list[Line]:
    """Each of `groups`, such as `comparison.results`, in a line."""
    several = len({row.study for row in comparison.rows}) > 1
    found = []
    for group in groups:
        row, form = group[0], metrics.metric(group[0].response).format
        condition = f"{row.study}: {row.label}" if several else row.label
        verdict, mark = (row.verdict, MARKS[row.verdict]) if row.interval else ("not compared", "")
        names, means = tuple(one.response for one in group), (form(row.mean_a), form(row.mean_b))
        found.append(Line(row, names, condition, means, change(row), verdict, mark, reservation(row)))
    return found


def reservation(row: Row) -> str:
    """Why a row is not compared, or the repetitions that would decide it; '' where it is decided."""
    if isinstance(row.ratio, Undefined):
        return row.ratio.reason
    return "" if (needed := _needed(row)) is None else str(say("comparison.needs", needed=needed))


def _needed(row: Row) -> int | None:
    return row.needed if row.verdict == Verdict.UNDECIDED else None


def reason(row: Row) -> Say:
    """The change and what the verdict rests on."""
    response, ratio = Response(row.response), row.ratio
    if isinstance(ratio, Undefined):
        return say("comparison.row_none", response=response, reason=ratio.reason)
    way, changed = "higher" if ratio.ratio >= 1 else "lower", Change(ratio.ratio, row.interval or ratio.interval)
    known = say(f"comparison.{way}", response=response, size=abs(ratio.ratio - 1), change=changed)
    decided = row.verdict in (Verdict.SLOWER, Verdict.FASTER, Verdict.CHANGED)
    said = say("comparison.row" if decided else f"comparison.row_{row.verdict}", change=known, margin=row.margin)
    return said if (needed := _needed(row)) is None else say("comparison.row_needs", row=said, needed=needed)


def responses(rows: Sequence[Row]) -> str:
    """What rows of one condition are about, in brief: `read p99 latency`, `read IOPS and read bandwidth`."""
    return phrases.listed([brief(row.response) for row in rows])


def brief(response: str) -> str:
    """A response in two or three words inside a sentence: `read p99 latency`, `write bandwidth`."""
    percentile = metrics.latency_percentile(response)
    if percentile is None or percentile.kind != "lat":
        return phrases.inside(response)
    return f"{percentile.direction} {metrics.percentile_name(percentile.percent)} latency"


def change(row: Row) -> str:
    """`−18 % (−25 to −10 %)`; large increases as factors: `×12 (×8.1 to ×18)`; a dash where there is no ratio."""
    if isinstance(row.ratio, Undefined):
        return "–"
    ratio, bounds = row.ratio.ratio, row.interval or row.ratio.interval
    middle, low, high = (_in_brief(one, ratio >= _LARGE) for one in (ratio, bounds.low, bounds.high))
    if bounds.low == bounds.high:  # exact, as of simulations
        return middle
    return f"{middle} (beyond a factor of 10)" if bounds.vague else f"{middle} ({low.removesuffix(' %')} to {high})"


def _in_brief(ratio: float, factor: bool) -> str:
    percent = 100 * (ratio - 1)
    if factor:
        return f"×{phrases.plain_number(ratio)}"
    if abs(percent) < _NOTHING_PERCENT:
        return "±0 %"
    return f"{percent:+.{0 if abs(percent) >= _WHOLE_PERCENT else 1}f} %".replace("-", "−")


def only(comparison: Comparison) -> dict[str, list[Say]]:
    """What one run has and the other has not, by the run's letter."""
    found: dict[str, list[Say]] = {"A": [], "B": []}
    for letter, missing in (("A", comparison.only_a), ("B", comparison.only_b)):
        for one in missing:
            code = "comparison.condition" if one.response else "comparison.study"
            found[letter].append(say(code, study=one.study, label=one.label, response=one.response))
    return found


def subject(one: Difference) -> str:
    """What a difference is of: a study, or the host of a fact."""
    whose = "host" if one.subject == "host" or not one.name else one.subject
    return f"{whose} {one.host}".rstrip()


def warning(one: Difference) -> Say:
    """A difference between the runs that is not what is compared."""
    a, b = one.a, one.b
    if one.name:
        a, b = (say("comparison.not_set") if seen is None else repr(seen) for seen in (a, b))
    elif one.subject == "hosts":
        a, b = (say("comparison.on_hosts", hosts=names) if names else say("comparison.here") for names in (a, b))
    code = "setting" if one.name else one.subject
    return say(f"comparison.{code}", of=subject(one), name=one.name, a=a, b=b)


def as_dict(comparison: Comparison) -> dict[str, Any]:
    """Plain JSON-able form."""
    names = ("a", "b", "margin", "confidence", "outcome", "regression", "unfit", "contradicted", "counts")
    said = [account(comparison), worst(comparison)]
    if not comparison.rows:
        said = [say("comparison.nothing")]
    elif not comparison.is_conclusive:
        said = [headline(comparison), account(comparison)]
    return {
        **{name: plain(getattr(comparison, name)) for name in names},
        **{f"only_{letter.lower()}": [*map(str, own)] for letter, own in only(comparison).items()},
        "rows": [{**plain(row), "reason": str(reason(row))} for row in comparison.rows],
        "warnings": [str(warning(one)) for one in comparison.differences],
        "method": str(METHOD),
        "statement": " ".join(str(one) for one in said if one),
    }
