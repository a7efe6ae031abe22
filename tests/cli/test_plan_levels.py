"""What `ioassay plan` shows of levels that are not numbers yet, or were not written as such."""

from __future__ import annotations

import os
from pathlib import Path

from .conftest import Ask

SUITE = """title = "both"

[[study]]
name = "sweep"
title = "sweep"
driver = "null"
factors = { steps = [1, "nproc*2", "nproc*4", 1000] }

[[study]]
name = "after"
title = "after"
driver = "null"
params = { steps = "best of sweep", requests = "nproc" }
"""


def test_the_plan_shows_what_was_written_and_the_numbers(tmp_path: Path, ioassay: Ask) -> None:
    (tmp_path / "both.toml").write_text(SUITE)
    processors = len(os.sched_getaffinity(0))
    text = ioassay("plan", "both.toml", "--trials").out
    levels = f"1, {2 * processors}, {4 * processors}, 1000"
    assert f"sweep: factors.steps = {levels} here, written 1, nproc*2, nproc*4, 1000" in text
    assert f"after: params.requests = {processors} here, written nproc" in text
    assert "after: params.steps = best of sweep, known when that study has ended" in text
    assert "known later" in text
    sweep, after = ioassay("plan", "both.toml", "--json").json["studies"]
    assert sweep["relative"][0]["here"] == [1, 2 * processors, 4 * processors, 1000]
    assert after["relative"][1] == {"key": "params.steps", "written": "best of sweep", "here": None}
