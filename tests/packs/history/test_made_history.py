"""All changes of a made history are found, with what changed beside them, and no others."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benches"))

import pytest
from made_history import STUDY, made_history

NEAR = timedelta(days=10)


@pytest.mark.slow
def test_known_changes_are_found_and_no_others(tmp_path: Path) -> None:
    from ioassay.packs.history import history_store, trend

    changes = made_history(tmp_path)
    series = trend.of_study(history_store.open(tmp_path), STUDY).series
    expected, found = {}, {}
    for one in series:
        place = (one.host, one.condition, one.response)
        for change in changes:
            if one.host == change.host and one.condition in change.conditions:
                expected[place] = change
        for step in one.steps:
            assert place not in found, f"{place} changed once"
            found[place] = step
    assert found.keys() == expected.keys()
    assert len({change.begun for change in expected.values()}) == 4
    for place, step in found.items():
        change = expected[place]
        assert abs(step.run.begun - change.begun) <= NEAR
        assert change.fact in [fact.name for fact in step.facts]
        true = change.ratio if place[2].endswith(".bw") else 1 / change.ratio
        assert step.point.size == pytest.approx(true, abs=0.03)
