"""A comparison of two runs in words, as JSON, Markdown and JUnit XML. Page and terminal show the same lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from ioassay import metrics
from ioassay.analysis.condition_comparison import Row, RunScatter, Verdict
from ioassay.narrative import conditions_text, phrases
from ioassay.narrative.say import Change, Response, Say, say, sentence
from ioassay.packs.comparison.run_comparison import Comparison, Difference, Outcome
from ioassay.report.tables import BREAKS
from ioassay.report.tables import plain as escaped
from ioassay.stats.result import Undefined, plain
from ioassay.stats.run_scatter import FEWEST_RUNS
from ioassay.store.dataset import Dataset

METHOD = say("comparison.method")
MARKS = dict(zip(Verdict, "▼✚▲◆■●–", strict=True))
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
        Outcome.SAME: ("runs", True) if comparison.scatter == RunScatter.UNKNOWN else ("one", total == 1),
        Outcome.UNDECIDED: ("same", Verdict.SAME in counts),
    }
    variant, holds = variants.get(outcome, ("both", len(runs) > 1))
    code = f"comparison.{outcome}_{variant}" if holds else f"comparison.{outcome}"
    known = {"margin": comparison.margin, "earlier": comparison.earlier, "fewest": FEWEST_RUNS}
    return say(code, total=total, runs=runs, **known, **counts)


def worst(comparison: Comparison) -> Say | None:
    """The largest loss; None where B is slower nowhere, or where no conclusion is drawn."""
    if (row := comparison.worst) is None:
        return None
    return say("comparison.worst", study=row.study, label=row.label, reason=reason(row))


def account(comparison: Comparison) -> Say:
    """`24 rows compared: slower in 3 and same in 21.`"""
    counts = comparison.counts.items()
    verdicts = [say("comparison.verdict", verdict=verdict, number=number) for verdict, number in counts]
    return say("comparison.account", total=len(comparison.rows), verdicts=verdicts)


def scatter(comparison: Comparison) -> Say | None:
    """What tells how much two runs differ by themselves, or what would; None where they do not."""
    is_said = comparison.scatter != RunScatter.NONE and comparison.is_conclusive
    if not is_said:
        return None
    if comparison.earlier is not None and comparison.scatter != RunScatter.TURNS:
        few = "" if comparison.scatter == RunScatter.HISTORY else "_few"
        return say(f"comparison.scatter_history{few}", runs=comparison.earlier, fewest=FEWEST_RUNS)
    return say(f"comparison.scatter_{comparison.scatter}")


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
        row = group[0]
        line = Line(
            row=row,
            responses=tuple(one.response for one in group),
            condition=f"{row.study}: {row.label}" if several else row.label,
            means=(metrics.format_metric(row.response, row.mean_a), metrics.format_metric(row.response, row.mean_b)),
            change=change(row),
            verdict=row.verdict if row.interval else "not compared",
            mark=MARKS[row.verdict] if row.interval else "",
            reservation=reservation(row),
        )
        found.append(line)
    return found


def reservation(row: Row) -> str:
    """Why a row is not compared, or the repetitions that would decide it; '' where it is decided."""
    if isinstance(row.ratio, Undefined):
        return row.ratio.reason
    is_open = row.verdict == Verdict.UNDECIDED and row.needed is not None
    if metrics.lower_bounds((row.mean_a, row.mean_b)):
        return str(say("comparison.bounded"))
    return str(say("comparison.needs", needed=row.needed)) if is_open else ""


def reason(row: Row) -> Say:
    """The change and what the verdict rests on."""
    response, ratio = Response(row.response), row.ratio
    if isinstance(ratio, Undefined):
        return say("comparison.row_none", response=response, reason=ratio.reason)
    way, changed = "higher" if ratio.ratio >= 1 else "lower", Change(ratio.ratio, row.interval or ratio.interval)
    known = say(f"comparison.{way}", response=response, size=abs(ratio.ratio - 1), change=changed)
    decided = row.verdict in (Verdict.SLOWER, Verdict.FASTER, Verdict.CHANGED)
    said = say("comparison.row" if decided else f"comparison.row_{row.verdict}", change=known, margin=row.margin)
    is_open = row.verdict == Verdict.UNDECIDED and row.needed is not None
    return say("comparison.row_needs", row=said, needed=row.needed) if is_open else said


def responses(rows: Sequence[Row]) -> str:
    """What rows of one condition are about, in brief: `read p99 latency`, `read IOPS and read bandwidth`."""
    return phrases.listed([phrases.brief(row.response) for row in rows])


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
    return {
        letter: [say("comparison.condition" if one.response else "comparison.study", **vars(one)) for one in missing]
        for letter, missing in (("A", comparison.only_a), ("B", comparison.only_b))
    }


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
    names = ("a", "b", "margin", "confidence", "outcome", "scatter", "fail_on", "regression", "unfit", "contradicted")
    said = [account(comparison), worst(comparison), scatter(comparison)]
    if not comparison.has_baseline:
        said = [headline(comparison)]
    elif not comparison.rows:
        said = [say("comparison.nothing")]
    elif not comparison.is_conclusive:
        said = [headline(comparison), account(comparison)]
    return {
        **{name: plain(getattr(comparison, name)) for name in (*names, "counts")},
        **{f"only_{letter.lower()}": [*map(str, own)] for letter, own in only(comparison).items()},
        "rows": [{**plain(row), "reason": str(reason(row))} for row in comparison.rows],
        "warnings": [str(warning(one)) for one in comparison.differences],
        "method": str(METHOD),
        "statement": " ".join(str(one) for one in said if one),
    }


# Markdown (`report/tables.py`): names in tables are code spans, where neither markup nor HTML nor `@user` counts.

_OPEN_ROWS, _MOST_ROWS = 15, 150
"""Rows that are shown, and those that can be unfolded. A comment of GitHub holds 65,536 characters."""
_MOST_NOTES = 10
_LONGEST_NAME = 100
_COLUMNS = ("", "condition", "metric", "A", "B", "B / A", "verdict")


def markdown(a: Dataset, b: Dataset, comparison: Comparison) -> str:
    """The whole summary. It ends with a line feed."""
    titles = dict.fromkeys(study.title or study.name for study in b.studies)
    trusts = {letter: conditions_text.trust(records) for letter, records in (("A", a), ("B", b))}
    trusted = {letter: escaped(f"{one.conditions} {one.claims}".rstrip()) for letter, one in trusts.items() if one}
    shown = lines(comparison, comparison.results)
    folded, omitted = shown[_OPEN_ROWS:_MOST_ROWS], shown[_MOST_ROWS:]
    more = phrases.count(len(folded), "more row")
    about = [account(comparison), scatter(comparison)] if comparison.has_baseline else []
    parts = [
        f"### ioassay: {say(f'comparison.title_{comparison.outcome}')}",
        " · ".join(map(_code, titles)),
        " ".join([f"**{escaped(headline(comparison))}**", *map(escaped, filter(None, about))]),
        "\n".join(f"- {letter}: {text}" for letter, text in trusted.items()),
        _compared(shown[:_OPEN_ROWS]) if shown else "",
        f"<details><summary>{more}</summary>\n\n{_compared(folded)}\n\n</details>" if folded else "",
        sentence("comparison.more_rows", rows=phrases.count(len(omitted), "row")) if omitted else "",
        _list("Warnings", [*map(warning, comparison.differences)]),
        *(_list(f"Only in {letter}", missing) for letter, missing in only(comparison).items()),
        str(basis(comparison)) if comparison.has_baseline else "",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _compared(lines: Sequence[Line]) -> str:
    rows: list[Sequence[str]] = [_COLUMNS, ["---"] * len(_COLUMNS)]
    for line in lines:
        verdict = f"{line.verdict} ({line.reservation})" if line.reservation else line.verdict
        names = line.mark, _code(line.condition), _code(", ".join(line.responses))
        rows.append([*names, *map(escaped, (*line.means, line.change, verdict))])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _list(title: str, said: Sequence[Say]) -> str:
    """Settings and facts that differ, or what only one run has: each makes the result harder to read."""
    more = [sentence("comparison.more_notes", number=len(said) - _MOST_NOTES)] if len(said) > _MOST_NOTES else []
    return "\n".join([f"{title}:", "", *(f"- {_code(str(one))}" for one in said[:_MOST_NOTES]), *more]) if said else ""


def _code(text: str) -> str:
    """A code span of one line that fits a cell: a longer row of backticks encloses those inside."""
    shown = re.sub(BREAKS, " ", text)
    if len(shown) > _LONGEST_NAME:
        shown = f"{shown[: _LONGEST_NAME - 1]}…"
    shown = shown.replace("|", "¦")  # a bar ends a cell inside code as well
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    space = " " if shown[:1] == "`" or shown[-1:] == "`" or not shown else ""
    return f"{fence}{space}{shown}{space}{fence}"


# Characters that XML 1.0 cannot hold, even escaped.
_IMPOSSIBLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COUNTS = {"tests": "testcase", "failures": "*/failure", "errors": "*/error", "skipped": "*/skipped"}


def junit_xml(comparison: Comparison) -> str:
    """The whole document: one test suite a study, one test case a condition and response.

    A row that fails the job is a failure (`Comparison.fails`); 'undecided', 'differs' and what only one run has are
    skipped tests, because nothing was shown. All are skipped where the machine was not fit, and errors where the kernel
    contradicts the claims. The format is that of Apache Ant's JUnit task as Jenkins and pytest read and write it (the
    attribute `time` is required there).
    """
    root = ElementTree.Element("testsuites", name="ioassay compare")
    known: dict[str, object] = {
        "baseline": comparison.a,
        "judged": comparison.b,
        "margin": f"{comparison.margin:g}",
        "confidence": f"{comparison.confidence:g}",
        "method": METHOD,
    }
    known |= {f"warning {number}": warning(one) for number, one in enumerate(comparison.differences, start=1)}
    for study in dict.fromkeys(row.study for row in comparison.rows):
        suite = _add(root, "testsuite", name=study)
        properties = _add(suite, "properties")
        for name, value in known.items():
            _add(properties, "property", name=name, value=value)
        for row in (row for row in comparison.rows if row.study == study):
            why = reason(row)
            case = _add(suite, "testcase", classname=study, name=f"{row.label}: {row.response}", time=0)
            if not comparison.is_conclusive:
                kind = "error" if comparison.contradicted else "skipped"
                _add(case, kind, message=headline(comparison), type=comparison.outcome)
            elif comparison.fails(row):
                _add(case, "failure", message=why, type=row.verdict).text = _text(why)
            elif row.verdict in (Verdict.UNDECIDED, Verdict.DIFFERS):
                _add(case, "skipped", message=why)
            _add(case, "system-out").text = _text(f"{row.verdict}: {why}")
    for letter, missing in only(comparison).items():
        if missing:
            suite = _add(root, "testsuite", name=f"only in {letter}")
            for one in missing:
                case = _add(suite, "testcase", classname=f"only in {letter}", name=one, time=0)
                _add(case, "skipped", message=f"only in {letter}")
    for suite in root:
        for count, path in _COUNTS.items():
            suite.set(count, str(len(suite.findall(path))))
        suite.set("time", "0")
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    root.set("time", "0")
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _add(parent: ElementTree.Element, tag: str, **attributes: object) -> ElementTree.Element:
    return ElementTree.SubElement(parent, tag, {name: _text(value) for name, value in attributes.items()})


def _text(value: object) -> str:
    return _IMPOSSIBLE.sub("\ufffd", str(value))
