"""Colours and marks of levels: the same in every figure of a run, whatever it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import synthetic
from charts import layers, mark

from ioassay.report import page
from ioassay.report.figures import chart
from ioassay.store.dataset import Dataset
from ioassay.study import catalog


@pytest.fixture
def suite_of_engines(tmp_path: Path) -> Dataset:
    """Three studies: the second has one level more than the first, the third none of theirs."""
    levels = [["psync", "libaio"], ["libaio", "io_uring", "psync"], ["sync", "mmap"]]
    studies = [
        synthetic.study(f"s{place}", "S", {"numjobs": [1, 2, 4], "ioengine": own}, [], rw="randrw")
        for place, own in enumerate(levels)
    ]
    return synthetic.run(tmp_path, studies, 3)


def looks(records: Dataset, study: int, channel: str, **keys: Any) -> dict[str, Any]:
    """Label -> place or mark, of the levels in the figure's legend."""
    table = {"kind": "trend", "x": "numjobs", "y": "read.bw", "color": "ioengine", **keys}
    drawn = synthetic.draw(records, records.studies[study], table)
    assert drawn.problem == ""
    (layer,) = [
        one
        for one in layers(drawn.spec)
        if mark(one).get("style") in ("mean", "bar", "mark") and channel in one["encoding"]
    ][:1]
    found = layer["encoding"][channel]
    domain = found["scale"]["domain"]
    given = found["scale"].get("range", range(len(domain)))
    return {label: look for label, look in zip(domain, given, strict=True) if label in found["legend"]["values"]}


def test_a_level_looks_the_same_in_figures_of_studies_with_other_levels(suite_of_engines: Dataset) -> None:
    assert looks(suite_of_engines, 0, "color") == {"psync": 0, "libaio": 1}
    assert looks(suite_of_engines, 1, "color") == {"psync": 0, "libaio": 1, "io_uring": 2}
    first, second = (looks(suite_of_engines, study, "shape") for study in (0, 1))
    assert first.items() <= second.items() and len(set(second.values())) == 3


def test_a_figure_of_some_levels_keeps_their_looks_and_shows_no_others(suite_of_engines: Dataset) -> None:
    assert looks(suite_of_engines, 1, "color", where={"ioengine": "io_uring"}) == {"io_uring": 2}


def test_levels_that_no_other_study_shares_begin_with_the_first_colour(suite_of_engines: Dataset) -> None:
    assert looks(suite_of_engines, 2, "color") == {"sync": 0, "mmap": 1}


@pytest.mark.parametrize("name", sorted(catalog.builtin()))
def test_a_built_in_suite_has_a_colour_for_each_level(name: str) -> None:
    """With more levels than distinct colours, a level would look different from study to study."""
    levels: dict[str, set[Any]] = {}
    for study in catalog.load(name).studies:
        for factor in {getattr(figure, "color", "") for figure in study.figures} & study.levels.keys():
            levels.setdefault(factor, set()).update(study.levels[factor])
    for factor, every in levels.items():
        assert len(every) <= chart._COLOURS or all(isinstance(level, int) for level in every), (factor, every)


@pytest.mark.parametrize("kind", ["bar", "lines", "order"])
def test_other_kinds_give_the_same_colours(suite_of_engines: Dataset, kind: str) -> None:
    keys = {"x": "numjobs", "y": "read.bw", "color": "ioengine"}
    keys = {name: value for name, value in keys.items() if (kind, name) != ("order", "x")}
    drawn = synthetic.draw(suite_of_engines, suite_of_engines.studies[0], {"kind": kind, **keys})
    domains = [one["encoding"]["color"]["scale"]["domain"] for one in layers(drawn.spec) if "color" in one["encoding"]]
    assert domains and all(domain == ["psync", "libaio", "io_uring"] for domain in domains)


def test_a_legend_of_lines_shows_lines(suite: Dataset) -> None:
    drawn = synthetic.draw(suite, suite.studies[0], {"kind": "series", "y": "read.bw", "color": "rw"})
    legends = [one["encoding"]["color"]["legend"] for one in layers(drawn.spec) if "color" in one["encoding"]]
    assert legends and all(legend["symbolType"] == chart.DASH for legend in legends)


def test_many_levels_of_other_studies_do_not_take_the_distinct_colours(tmp_path: Path) -> None:
    studies = [
        synthetic.study("few", "Few", {"ioengine": ["e0", "e1"]}, [], rw="randrw"),
        synthetic.study("many", "Many", {"ioengine": [f"e{place}" for place in range(12)]}, [], rw="randrw"),
    ]
    records = synthetic.run(tmp_path, studies, 1)
    few, many = (chart.level_marks(records, study, "ioengine", study.levels["ioengine"]) for study in studies)
    assert (len(few.every), few.ordered) == (2, False)
    assert (len(many.every), many.ordered) == (12, True) and "shape" not in many.points()


def test_numbers_are_ordered_across_studies(tmp_path: Path) -> None:
    studies = [
        synthetic.study(name, name, {"numjobs": levels}, [], rw="randrw")
        for name, levels in (("a", [4, 1]), ("b", [1, 2]))
    ]
    records = synthetic.run(tmp_path, studies, 1)
    assert [chart.level_marks(records, study, "numjobs", [1]).every for study in studies] == [["1", "2", "4"]] * 2


def test_a_level_that_no_study_lists_is_shown_last(suite_of_engines: Dataset) -> None:
    study = suite_of_engines.studies[0]
    marks = chart.level_marks(suite_of_engines, study, "ioengine", ["other", "psync"])
    assert marks.every[-1] == marks.shown[-1] == "other"


@pytest.mark.parametrize(("kind", "keys"), [("trend", {"x": "numjobs"}), ("scaling", {"x": "numjobs"})])
def test_legends_show_filled_marks_filled(suite: Dataset, kind: str, keys: dict[str, Any]) -> None:
    drawn = synthetic.draw(suite, suite.studies[3], {"kind": kind, "y": "read.bw", **keys})
    points = [mark(one) for one in layers(drawn.spec) if mark(one)["type"] == "point"]
    assert points and all(one["filled"] for one in points)
    symbols = page.svg(drawn.spec).split('class="mark-symbol role-legend-symbol"')[1:]
    assert symbols and 'fill="transparent"' not in symbols[0].split("</g>")[0]
