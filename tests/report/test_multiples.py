"""Small multiples: one panel a study with its best level, its plateau and its own unit; suites may ask for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import synthetic
from charts import layers, mark, rows, styled, subtitle

from ioassay import report
from ioassay.errors import StudyError
from ioassay.records.record import Environment
from ioassay.report import figures, page
from ioassay.report.figures import axes, default_figures
from ioassay.store.dataset import Dataset
from ioassay.study import catalog
from ioassay.study.model import Figure


def draw(records: Dataset, **keys: Any) -> figures.Drawn:
    return synthetic.draw(records, None, {"kind": "multiples", "name": "a", **keys})


def panel(drawn: figures.Drawn, title: str) -> dict[str, Any]:
    """The panel of a study, by its title."""
    return next(one for one in drawn.spec["concat"] if " ".join(one["title"]["text"]) == title)


def test_panels_of_an_unfit_machine_mark_nothing(suite: Dataset) -> None:
    busy = Environment(1.0, 2, own_share=0.1, others_share=0.9, kernel_share=0.0, steal_share=0.0, idle_share=0.0)
    drawn = draw(replace(suite, environments=dict.fromkeys(suite.trials["trial"], busy)))
    one = panel(drawn, suite.studies[1].title)
    assert styled(one, "mean") and not styled(one, "best") and not styled(one, "window")
    assert "best" not in drawn.description and "best" not in subtitle(drawn.spec)
    assert not any("best" in line for line in one["title"]["subtitle"])


def test_every_study_has_a_panel_over_what_it_sweeps_with_its_own_unit(suite: Dataset) -> None:
    drawn = draw(suite)
    assert drawn.problem == "" and drawn.study == ""
    titles = [" ".join(one["title"]["text"]) for one in drawn.spec["concat"]]
    assert titles == [study.title for study in suite.studies]
    swept = [next(layers(one))["encoding"]["x"]["title"] for one in drawn.spec["concat"]]
    assert swept == ["Write share (%)", "Block size", "Case", "Number of jobs"]
    assert panel(drawn, suite.studies[1].title)["title"]["subtitle"][0].startswith("Read bandwidth (")
    assert "4 studies" in subtitle(drawn.spec)


def test_a_panel_shows_means_with_intervals_and_a_ring_around_the_best(suite: Dataset) -> None:
    one = panel(draw(suite), suite.studies[1].title)
    (means,) = [rows(layer) for layer in styled(one, "mean")]
    assert len(means) == 11 and all(row["low"] < row["y"] < row["high"] for row in means)
    ((best,),) = [rows(layer) for layer in styled(one, "best")]
    assert best["y"] == max(row["y"] for row in means)
    assert any("best: 1 MiB" in line or "best: 1024 KiB" in line for line in one["title"]["subtitle"])


def test_a_second_factor_has_lines_of_its_own_colour(suite: Dataset) -> None:
    one = panel(draw(suite), suite.studies[0].title)
    (means,) = styled(one, "mean")
    assert {row["group"] for row in rows(means)} == {"rw", "randrw"}
    assert means["encoding"]["color"]["title"] == "access pattern"


def test_levels_as_good_as_the_best_are_shaded_and_hardware_threads_marked(tmp_path: Path) -> None:
    study = synthetic.jobs()
    records = synthetic.run(tmp_path, [study], 5)
    flat = pl.when(pl.col("numjobs") < 4).then(pl.col("read.bw") / 4).otherwise(2e8 + 1e6 * pl.col("repetition"))
    records = replace(records, trials=records.trials.with_columns(flat.alias("read.bw")), host={"cpu": {"cpus": 4}})
    drawn = draw(records)
    ((band,),) = [rows(layer) for layer in styled(drawn.spec, "window")]
    assert (band["x"], band["end"]) == (4, 8)
    ((rule,),) = [rows(layer) for layer in styled(drawn.spec, "reference")]
    assert rule["text"] == "4 hardware threads"
    assert any("as good: 4 to 8 jobs" in line for line in drawn.spec["concat"][0]["title"]["subtitle"])


def without(records: Dataset, name: str, status: str, reason: str) -> Dataset:
    """The same run, in which no trial of one study went well."""
    of = pl.col("study") == name
    told = records.trials.with_columns(
        status=pl.when(of).then(pl.lit(status)).otherwise("status"),
        reason=pl.when(of).then(pl.lit(reason)).otherwise("reason"),
    )
    return replace(records, trials=told)


def test_a_study_that_was_skipped_keeps_its_panel_and_says_why(suite: Dataset) -> None:
    drawn = draw(without(suite, "jobs", "skipped", "this host has no </script> to run jobs on"))
    assert drawn.problem == ""
    one = panel(drawn, suite.studies[3].title)
    (text,) = [rows(layer)[0] for layer in layers(one) if mark(layer)["type"] == "text"]
    assert "no </script> to run jobs on" in text["reason"]
    assert "1 without a curve" in subtitle(drawn.spec)
    assert "<script" not in page.svg(drawn.spec)


def test_processor_time_is_stacked_in_every_panel_under_one_legend(suite: Dataset) -> None:
    drawn = draw(suite, show="cpu")
    assert drawn.problem == "" and "resolve" not in drawn.spec
    for one in drawn.spec["concat"]:
        bands = [row for layer in styled(one, "band") for row in rows(layer)]
        assert max(row["y2"] for row in bands) <= 100
    legends = {tuple(layer["encoding"]["color"]["legend"]["values"]) for layer in styled(drawn.spec, "band")}
    assert legends == {("usr", "sys", "iowait", "irq", "soft", "steal", "nice", "guest")}


def test_what_no_run_has_is_told(suite: Dataset, lost: Dataset) -> None:
    assert "the run has no study 'jbos'; it has write-share, " in draw(suite, studies=["jbos"]).problem
    assert "went well" in draw(lost).problem
    assert "it needs watch.monitors" in draw(replace(suite, samples=suite.samples.clear()), show="cpu").problem


def test_suites_of_three_sweeps_get_them_by_themselves(suite: Dataset) -> None:
    assert [figure.name for figure in default_figures.of_run(suite)] == ["overview", "overview_cpu"]
    assert [figure.name for figure in default_figures.of_run(replace(suite, samples=suite.samples.clear()))] == [
        "overview"
    ]
    assert default_figures.of_run(replace(suite, studies=suite.studies[:2])) == []


def test_what_the_multiples_show_is_not_drawn_again_for_each_study(suite: Dataset) -> None:
    studies = [study.model_copy(update={"figures": []}) for study in suite.studies]
    whole, alone = (
        {one.kind for one in report.declare(replace(suite, studies=shown)) if one.study == studies[3].name}
        for shown in (studies, studies[3:4])
    )
    assert alone - whole == {"stack", "timeline"} and whole < alone


def test_a_table_can_leave_itself_to_runs_without_multiples(suite: Dataset) -> None:
    bars = [Figure.model_validate({"kind": "bar", "name": name, "y": "read.bw"}) for name in ("always", "alone")]
    listed = [bars[0], bars[1].model_copy(update={"suite": False})]
    studies = [study.model_copy(update={"figures": listed}) for study in suite.studies]
    names = {one.name for one in report.declare(replace(suite, studies=studies)) if one.study}
    assert any("always" in name for name in names) and not any("alone" in name for name in names)
    assert [one.name for one in report.declare(replace(suite, studies=studies[:1]))] == ["always", "alone"]


def test_studies_of_many_factors_or_none_are_left_to_their_own_figures(suite: Dataset) -> None:
    many = synthetic.study("many", "Many", {"bs": ["4k", "8k"], "numjobs": [1, 2], "iodepth": [1, 2]}, [])
    one = synthetic.study("one", "One", {}, [])
    (figure, *_) = default_figures.of_run(replace(suite, studies=[*suite.studies, many, one]))
    assert figure.model_dump()["studies"] == [study.name for study in suite.studies]
    assert default_figures.of_run(replace(suite, studies=[*suite.studies[:2], many, one])) == []


def test_of_conditions_taken_together_none_is_best(tmp_path: Path) -> None:
    factors = {"numjobs": [1, 2, 4], "rw": ["randread", "randrw"], "iodepth": [1, 2]}
    drawn = draw(synthetic.run(tmp_path, [synthetic.study("many", "Many", factors, [])], 3))
    assert styled(drawn.spec, "best") == []
    assert any("together" in line for line in drawn.spec["concat"][0]["title"]["subtitle"])


def test_the_best_of_each_line_is_told_by_the_words_of_the_legend(tmp_path: Path) -> None:
    factors = {"numjobs": [1, 2, 4], "cache-fence": [False, True]}
    records = synthetic.run(tmp_path, [synthetic.study("fence", "Fence", factors, [])], 5)
    most = pl.when(pl.col("cache-fence").cast(pl.String) == "true").then(4).otherwise(1)
    peaked = (pl.col("numjobs") == most).cast(pl.Float64) * 1e8 + 1e7 + 1e3 * pl.col("repetition")
    one = draw(replace(records, trials=records.trials.with_columns(peaked.alias("read.bw")))).spec["concat"][0]
    assert "best of no: 1 job; yes: 4 jobs" in " ".join(one["title"]["subtitle"])


SUITE = """
title = "All"
suite = ["jobs", "block-size"]
[[figures]]
kind = "{kind}"
name = "glance"
"""


def test_a_suite_may_ask_for_them_itself(tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    path.write_text(SUITE.format(kind="multiples") + "columns = 2\n")
    found = catalog.load(str(path), lambda table: catalog.scaled(table, "quick"))
    figures.check_suite(found)
    assert catalog.from_table(catalog.to_table(found), path) == found
    assert found.figures[0].model_dump() == {"kind": "multiples", "name": "glance", "columns": 2}


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("trend", r"all: figures\.glance\.kind: kind 'trend' shows one study; those of a suite are: multiples"),
        ("pie", r"figures\.glance\.kind: no kind of figure is called 'pie'"),
    ],
)
def test_a_suite_has_no_figures_of_single_studies(tmp_path: Path, kind: str, message: str) -> None:
    path = tmp_path / "all.toml"
    path.write_text(SUITE.format(kind=kind))
    with pytest.raises(StudyError, match=message):
        figures.check_suite(catalog.load(str(path)))


def test_figures_of_a_suite_have_different_names_and_are_tables(tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    path.write_text(SUITE.format(kind="multiples") + '[[figures]]\nkind = "multiples"\nname = "glance"\n')
    with pytest.raises(StudyError, match="name 'glance' is used twice"):
        catalog.load(str(path))
    path.write_text('suite = ["jobs"]\nfigures = "all"\n')
    with pytest.raises(StudyError, match=r"expected \[\[figures\]\] tables"):
        catalog.load(str(path))


@pytest.mark.parametrize(
    ("levels", "geometric"),
    [
        ([1, 2, 4, 8, 16], True),
        ([1, 2, 3, 4, 6, 8, 12, 16], True),
        (list(range(1, 97, 5)), False),
        ([1, 2, 4, 6], False),
        ([0, 1, 16], False),
        (["few", "many"], False),
        (["4KiB", "64KiB", "1MiB"], True),
    ],
)
def test_levels_that_grow_by_factors_have_a_logarithmic_axis(levels: list[Any], geometric: bool) -> None:
    assert axes.geometric("x", levels) is geometric
