"""No two findings of a study contradict each other: simulated studies of many shapes, noises and sizes.

`benches/inference_coverage.py --contradictions 3000` does the same with more of them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from contradictions import contradictions, simulated
from ioassay import report
from ioassay.narrative.pipeline import analyse_all, concludes
from ioassay.records.record import Environment


@pytest.mark.parametrize("part", range(4))
def test_no_two_findings_contradict_each_other(lab: Any, part: int) -> None:
    found = [
        f"study {number}: {text}"
        for number in range(28 * part, 28 * (part + 1))
        for text in contradictions(simulated(lab, number))
    ]
    assert found == []


@pytest.mark.parametrize("number", [1, 3, 55, 66])
def test_what_is_withheld_is_in_no_sentence_table_or_picture(lab: Any, number: int) -> None:
    busy = Environment(
        seconds=1.0, processors=2, own_share=0.1, others_share=0.9, kernel_share=0.0, steal_share=0.0, idle_share=0.0
    )
    records = simulated(lab, number, _environment=busy)
    for finding in analyse_all(records):
        if concludes(finding.question):
            assert finding.withheld and not finding.statistics and all(table.observed for table in finding.tables)
            assert "No conclusion is drawn" in finding.statement
    drawn = "".join(json.dumps(each.spec) for each in report.declare(records))
    marks = [style for style in ("best", "fit", "window") if f'"style": "{style}"' in drawn]
    assert drawn and not marks and "best:" not in drawn and "best of" not in drawn
