"""The command on the page that does a run again."""

from __future__ import annotations

from typing import Any

import pytest

from ioassay.report import rerun_command


class Records:
    """As much of a Dataset as is asked."""

    def __init__(self, tuning: dict[str, Any] | None) -> None:
        self.tuning = tuning


ASKED = {
    "metric": "read.iops",
    "maximize": True,
    "constraints": [{"text": "read.lat.p99 < 5ms"}],
    "default": {"iodepth": 1, "direct": True},
    "trials": 20,
    "confirm": 5,
    "seed": 7,
    "margin": 0.05,
    "batch": 1,
    "budget_s": None,
    "pruning": True,
}


def test_a_run_is_done_again_with_its_study() -> None:
    assert rerun_command(Records(None)) == "ioassay run study.toml"  # type: ignore[arg-type]


def test_a_search_is_done_again_with_all_that_it_was_asked() -> None:
    assert rerun_command(Records(ASKED)) == (  # type: ignore[arg-type]
        "ioassay tune study.toml --maximize read.iops --subject-to 'read.lat.p99 < 5ms' --listed --default iodepth=1 "
        "--default direct=true --trials 20 --confirm 5 --seed 7 --margin 0.05"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"maximize": False}, "--minimize read.iops"),
        ({"budget_s": 90.0}, "--budget 90s"),
        ({"pruning": False}, "--no-pruning"),
        ({"batch": 4}, "--workers 4"),
    ],
)
def test_what_is_not_usual_is_said(changes: dict[str, Any], words: str) -> None:
    assert words in rerun_command(Records({**ASKED, **changes}))  # type: ignore[arg-type]
