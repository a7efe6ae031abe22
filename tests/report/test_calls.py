"""Bars of system calls: rates by name at each level, the most frequent by name, and the reason where none counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import synthetic
from charts import layers, mark, rows, styled, subtitle

from ioassay.report import figures, page
from ioassay.store.dataset import Dataset

JOBS = 3


def draw(records: Dataset, study: int = JOBS, **keys: Any) -> figures.Drawn:
    return synthetic.draw(records, records.studies[study], {"kind": "calls", "name": "a", **keys})


def panels(drawn: figures.Drawn) -> dict[str, list[dict[str, Any]]]:
    """Title of a panel -> its bars, or points where the axis is logarithmic."""
    return {one["title"]["text"]: rows((styled(one, "bar") or styled(one, "mean"))[0]) for one in drawn.spec["concat"]}


def test_every_level_has_a_panel_with_the_mean_rates_of_its_trials(suite: Dataset) -> None:
    drawn = draw(suite, log=False)
    assert drawn.problem == ""
    found = panels(drawn)
    assert list(found) == ["1 job", "2 jobs", "4 jobs", "6 jobs", "8 jobs"]
    shown = {row["name"]: row for row in found["4 jobs"]}
    assert shown["pread64"]["x"] == pytest.approx(16) and shown["pread64"]["text"] == "16 k"
    assert shown["mmap"]["failed"] == "10 %"
    assert "n = 5 · counted by BPF" in subtitle(drawn.spec)


def test_the_most_frequent_have_names_and_the_others_are_one_bar_at_the_end(suite: Dataset) -> None:
    found = panels(draw(suite, top=3))["1 job"]
    assert [row["name"] for row in found] == ["pread64", "pwrite64", "mmap", "other"]
    assert found[-1]["x"] == pytest.approx(27)
    alone = panels(draw(suite, top=11))["1 job"]
    assert "other" not in {row["name"] for row in alone}  # a single one is named


def test_a_call_that_some_trials_do_not_make_counts_as_none_there(suite: Dataset) -> None:
    first = suite.calls["trial"][0]
    fewer = suite.calls.filter(~((pl.col("trial") == first) & (pl.col("name") == "pread64")))
    found = panels(draw(replace(suite, calls=fewer), log=False))["1 job"]
    assert {row["name"]: row["x"] for row in found}["pread64"] == pytest.approx(4 * 4 / 5)


def test_rates_far_apart_have_a_logarithmic_axis_that_all_panels_share(suite: Dataset) -> None:
    drawn = draw(suite)
    assert "logarithmic axis" in subtitle(drawn.spec)
    points = styled(drawn.spec, "mean")
    scales = [layer["encoding"]["x"]["scale"] for layer in points]
    assert scales[0]["type"] == "log" and all(scale == scales[0] for scale in scales)
    assert not styled(drawn.spec, "bar")  # a logarithmic axis has no zero
    assert all(scales[0]["domain"][0] < row["x"] for layer in points for row in rows(layer))
    assert "type" not in styled(draw(suite, log=False).spec, "bar")[0]["encoding"]["x"]["scale"]


def test_of_many_levels_some_are_shown_from_first_to_last(tmp_path: Path) -> None:
    study = synthetic.study("many", "Many", {"numjobs": list(range(1, 21))}, [], rw="randrw")
    drawn = draw(synthetic.run(tmp_path, [study], 1), 0)
    assert "8 of 20 levels" in subtitle(drawn.spec)
    first, *_, last = panels(drawn)
    assert (first, last) == ("1 job", "20 jobs")


def test_a_study_of_one_condition_has_one_panel(suite: Dataset) -> None:
    drawn = draw(suite, where={"numjobs": 4})
    assert len(drawn.spec["concat"]) == 1 and "title" not in drawn.spec["concat"][0]
    assert drawn.title.startswith("System calls a second by name (numjobs")


def test_hostile_names_stay_text(suite: Dataset) -> None:
    named = suite.calls.with_columns(name=pl.col("name").replace("mmap", "</text><script>x</script>"))
    drawn = draw(replace(suite, calls=named))
    assert any(mark(layer)["type"] == "text" for layer in layers(drawn.spec))
    assert "<script" not in page.svg(drawn.spec)


def test_where_nothing_was_counted_the_reason_is_told(suite: Dataset) -> None:
    assert "it needs watch.calls = true" in draw(suite, 1).problem
    skipped = suite.trials.filter(pl.col("study") == "jobs").with_columns(
        status=pl.lit("skipped"), reason=pl.lit("neither BPF nor strace can be used")
    )
    counted = replace(suite, calls=suite.calls.clear(), counting=skipped)
    assert "neither BPF nor strace can be used" in draw(counted).problem
    assert "no factor 'bs'" in draw(suite, x="bs").problem
