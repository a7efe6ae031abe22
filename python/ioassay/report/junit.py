"""A comparison of two runs as JUnit XML, for continuous integration. Text in, text out: nothing is written here.

One test suite a study, one test case a condition and response. 'slower' is a failure; 'undecided' and what only one
run has are skipped tests, because nothing was shown; everything else passes. All tests are skipped where the machine
was not fit, and are errors where the kernel contradicts the claims. The format is that of Apache Ant's
JUnit task as Jenkins and pytest read and write it (the attribute `time` is required there, and is 0: nothing ran).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from ioassay.analysis.run_comparison import Comparison, Row, Unmatched

# Characters that XML 1.0 cannot hold, even escaped.
_IMPOSSIBLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(comparison: Comparison) -> str:
    """The whole document."""
    root = ElementTree.Element("testsuites", name="ioassay compare")
    for study in dict.fromkeys(row.study for row in comparison.rows):
        rows = [row for row in comparison.rows if row.study == study]
        suite = _suite(root, study, len(rows))
        _properties(suite, comparison)
        for row in rows:
            _case(suite, row, comparison)
        for count, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(count, str(len(suite.findall(f"testcase/{element}"))))
    _unmatched(root, "only in A", comparison.only_a)
    _unmatched(root, "only in B", comparison.only_b)
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("time", "0")
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(root: ElementTree.Element, name: str, tests: int) -> ElementTree.Element:
    counts = {"tests": str(tests), "failures": "0", "errors": "0", "skipped": "0", "time": "0"}
    return ElementTree.SubElement(root, "testsuite", {"name": _text(name), **counts})


def _properties(suite: ElementTree.Element, comparison: Comparison) -> None:
    from ioassay.narrative import comparison_text

    warnings = map(comparison_text.warning, comparison.differences)
    known = {
        "baseline": comparison.a,
        "judged": comparison.b,
        "margin": f"{comparison.margin:g}",
        "confidence": f"{comparison.confidence:g}",
        "method": comparison_text.METHOD,
        **{f"warning {number}": text for number, text in enumerate(warnings, start=1)},
    }
    parent = ElementTree.SubElement(suite, "properties")
    for name, value in known.items():
        ElementTree.SubElement(parent, "property", name=name, value=_text(value))


def _case(suite: ElementTree.Element, row: Row, comparison: Comparison) -> None:
    from ioassay.analysis.run_comparison import Verdict
    from ioassay.narrative import comparison_text

    reason = _text(comparison_text.reason(row, comparison.margin))
    name = _text(f"{row.label}: {row.response}")
    case = ElementTree.SubElement(suite, "testcase", classname=_text(row.study), name=name, time="0")
    if comparison.contradicted:
        ElementTree.SubElement(
            case, "error", message=comparison_text.headline(comparison), type=comparison.outcome.value
        )
    elif comparison.unfit:
        ElementTree.SubElement(case, "skipped", message=comparison_text.headline(comparison))
    elif row.verdict == Verdict.SLOWER:
        ElementTree.SubElement(case, "failure", message=reason, type=row.verdict).text = reason
    elif row.verdict == Verdict.UNDECIDED:
        ElementTree.SubElement(case, "skipped", message=reason)
    ElementTree.SubElement(case, "system-out").text = f"{row.verdict}: {reason}"


def _unmatched(root: ElementTree.Element, title: str, names: Sequence[Unmatched]) -> None:
    from ioassay.narrative import comparison_text

    if not names:
        return
    suite = _suite(root, title, len(names))
    suite.set("skipped", str(len(names)))
    for name in names:
        case = ElementTree.SubElement(
            suite, "testcase", classname=title, name=_text(comparison_text.unmatched(name)), time="0"
        )
        ElementTree.SubElement(case, "skipped", message=title)


def _text(text: str) -> str:
    return _IMPOSSIBLE.sub("\ufffd", text)
