"""Warnings that trials will be skipped: those of trials that then were say nothing more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl


def test_a_warning_of_trials_that_were_then_skipped_is_left_out(lab: Any) -> None:
    study = lab.study()
    warned = [("will-be-skipped", "no plugin"), ("will-be-skipped", "no kernel"), ("noise", "no plugin at all")]
    records = lab.records(lab.run(study, lambda point, repetition: {"read.bw": 1.0, "_warnings": warned}, 2))
    assert records.announced_skips() == set()
    trials = records.trials.with_columns(
        status=pl.Series(["ok", "skipped"]), reason=pl.Series(["", "no plugin: set the path"])
    )
    assert replace(records, trials=trials).announced_skips() == {"no plugin"}
