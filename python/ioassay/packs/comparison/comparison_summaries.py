"""Comparisons as text for continuous integration: Markdown and JUnit XML. Text in, text out.

In the tables of Markdown (`report/ci_summaries.py`), names are code spans, where neither markup nor HTML nor `@user`
counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from ioassay.analysis.condition_comparison import Verdict
from ioassay.narrative import conditions_text, phrases
from ioassay.narrative.say import say
from ioassay.packs.comparison import comparison_text
from ioassay.packs.comparison.comparison_text import Line
from ioassay.packs.comparison.run_comparison import Comparison
from ioassay.report.ci_summaries import BREAKS, plain
from ioassay.store.dataset import Dataset

_OPEN_ROWS, _MOST_ROWS = 15, 150
"""Rows that are shown, and those that can be unfolded. A comment of GitHub holds 65,536 characters."""
_MOST_NOTES = 10
_LONGEST_NAME = 100
_COLUMNS = ("", "condition", "metric", "A", "B", "B / A", "verdict")


def markdown(a: Dataset, b: Dataset, comparison: Comparison) -> str:
    """The whole summary. It ends with a line feed."""
    titles = dict.fromkeys(study.title or study.name for study in b.studies)
    trusts = {letter: conditions_text.trust(records) for letter, records in (("A", a), ("B", b))}
    parts = [
        f"### ioassay: {say(f'comparison.title_{comparison.outcome}')}",
        " · ".join(map(_code, titles)),
        f"**{plain(comparison_text.headline(comparison))}** {plain(comparison_text.account(comparison))}",
        "\n".join(
            f"- {letter}: {plain(f'{one.conditions} {one.claims}'.rstrip())}" for letter, one in trusts.items() if one
        ),
        *_tables(comparison),
        *_list("Warnings", [*map(comparison_text.warning, comparison.differences)]),
    ]
    for letter, missing in comparison_text.only(comparison).items():
        parts += _list(f"Only in {letter}", missing)
    return "\n\n".join(filter(None, (*parts, str(comparison_text.basis(comparison))))) + "\n"


def _tables(comparison: Comparison) -> Iterator[str]:
    lines = comparison_text.lines(comparison, comparison.results)
    if lines:
        yield _compared(lines[:_OPEN_ROWS])
    if folded := lines[_OPEN_ROWS:_MOST_ROWS]:
        number = phrases.count(len(folded), "more row")
        yield f"<details><summary>{number}</summary>\n\n{_compared(folded)}\n\n</details>"
    if omitted := lines[_MOST_ROWS:]:
        yield f"… and {phrases.count(len(omitted), 'row')} on the page"


def _compared(lines: Sequence[Line]) -> str:
    rows: list[Sequence[str]] = [_COLUMNS, ["---"] * len(_COLUMNS)]
    for line in lines:
        verdict = f"{line.verdict} ({line.reservation})" if line.reservation else line.verdict
        names = line.mark, _code(line.condition), _code(", ".join(line.responses))
        rows.append([*names, *map(plain, (*line.means, line.change, verdict))])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _list(title: str, said: Sequence[object]) -> Iterator[str]:
    """Settings and facts that differ, or what only one run has: each makes the result harder to read."""
    if said:
        more = [f"- … and {len(said) - _MOST_NOTES} more on the page"] if len(said) > _MOST_NOTES else []
        yield "\n".join([f"{title}:", "", *(f"- {_code(str(one))}" for one in said[:_MOST_NOTES]), *more])


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

    'slower' is a failure; 'undecided' and what only one run has are skipped tests, because nothing was shown. All tests
    are skipped where the machine was not fit, and are errors where the kernel contradicts the claims. The format is
    that of Apache Ant's JUnit task as Jenkins and pytest read and write it (the attribute `time` is required there).
    """
    root = ElementTree.Element("testsuites", name="ioassay compare")
    for study in dict.fromkeys(row.study for row in comparison.rows):
        suite = _add(root, "testsuite", name=study)
        properties = _add(suite, "properties")
        known: dict[str, object] = {
            "baseline": comparison.a,
            "judged": comparison.b,
            "margin": f"{comparison.margin:g}",
            "confidence": f"{comparison.confidence:g}",
            "method": comparison_text.METHOD,
        }
        warnings = enumerate(map(comparison_text.warning, comparison.differences), start=1)
        for name, value in {**known, **{f"warning {number}": warning for number, warning in warnings}}.items():
            _add(properties, "property", name=name, value=value)
        for row in comparison.rows:
            if row.study == study:
                reason = comparison_text.reason(row)
                case = _add(suite, "testcase", classname=row.study, name=f"{row.label}: {row.response}", time=0)
                if not comparison.is_conclusive:
                    kind = "error" if comparison.contradicted else "skipped"
                    _add(case, kind, message=comparison_text.headline(comparison), type=comparison.outcome)
                elif row.verdict == Verdict.SLOWER:
                    _add(case, "failure", message=reason, type=row.verdict).text = _text(reason)
                elif row.verdict == Verdict.UNDECIDED:
                    _add(case, "skipped", message=reason)
                _add(case, "system-out").text = _text(f"{row.verdict}: {reason}")
    for letter, missing in comparison_text.only(comparison).items():
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
