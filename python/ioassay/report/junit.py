"""A comparison of two runs as JUnit XML, for continuous integration. Text in, text out: nothing is written here.

One test suite a study, one test case a condition and response. 'slower' is a failure; 'undecided' and what only one
run has are skipped tests, because nothing was shown; everything else passes. All tests are skipped where the machine
was not fit, and are errors where the kernel contradicts the claims. The format is that of Apache Ant's
JUnit task as Jenkins and pytest read and write it (the attribute `time` is required there, and is 0: nothing ran).
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from ioassay.analysis.run_comparison import Comparison, Row, Verdict
from ioassay.narrative import comparison_text

# Characters that XML 1.0 cannot hold, even escaped.
_IMPOSSIBLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COUNTS = {"tests": "testcase", "failures": "*/failure", "errors": "*/error", "skipped": "*/skipped"}


def junit_xml(comparison: Comparison) -> str:
    """The whole document."""
    root = ElementTree.Element("testsuites", name="ioassay compare")
    for study in dict.fromkeys(row.study for row in comparison.rows):
        suite = _add(root, "testsuite", name=study)
        properties = _add(suite, "properties")
        for name, value in _properties(comparison).items():
            _add(properties, "property", name=name, value=value)
        for row in comparison.rows:
            if row.study == study:
                _case(suite, row, comparison)
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


def _properties(comparison: Comparison) -> dict[str, object]:
    warnings = map(comparison_text.warning, comparison.differences)
    return {
        "baseline": comparison.a,
        "judged": comparison.b,
        "margin": f"{comparison.margin:g}",
        "confidence": f"{comparison.confidence:g}",
        "method": comparison_text.METHOD,
        **{f"warning {number}": warning for number, warning in enumerate(warnings, start=1)},
    }


def _case(suite: ElementTree.Element, row: Row, comparison: Comparison) -> None:
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


def _add(parent: ElementTree.Element, tag: str, **attributes: object) -> ElementTree.Element:
    return ElementTree.SubElement(parent, tag, {name: _text(value) for name, value in attributes.items()})


def _text(value: object) -> str:
    return _IMPOSSIBLE.sub("\ufffd", str(value))
