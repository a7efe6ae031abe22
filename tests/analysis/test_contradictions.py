"""No two findings of a study contradict each other: simulated studies of many shapes, noises and sizes.

`benches/inference_coverage.py --contradictions 3000` does the same with more of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from contradictions import contradictions, simulated


@pytest.mark.parametrize("part", range(4))
def test_no_two_findings_contradict_each_other(lab: Any, part: int) -> None:
    found = [
        f"study {number}: {text}"
        for number in range(28 * part, 28 * (part + 1))
        for text in contradictions(*simulated(lab, number))
    ]
    assert found == []
