"""Figures of the kind `lines`: panels, marks that can be told apart, saturated conditions as crosses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import synthetic
from charts import check_files, layers, mark, rows, subtitle

from ioassay.errors import StudyError
from ioassay.report import figures
from ioassay.store.dataset import Dataset

from ..corpora import cases

METRIC = "write.lat.mean"
MEANS = {"none": 400e3, "lru": 400e3, "epo": 300e3}
TABLE = {"kind": "lines", "name": "a", "x": "buffer", "y": METRIC, "color": "policy"}


def simulated(measure: Callable[[Mapping[str, Any]], Mapping[str, float] | None], **factors: list[Any]) -> Dataset:
    """A study of policies whose every trial has the metrics that `measure` gives; None skips it."""
    import polars as pl

    axes = {"policy": list(MEANS), "buffer": ["4MiB", "8MiB", "16MiB"], **factors}
    study = synthetic.study("s", "S", axes, []).model_copy(update={"driver": "simulate"})
    records = synthetic.run(Path(), [study], 1)
    names = ["policy", "buffer", *factors]
    found = []
    for row in records.trials.select("study", "trial", "repetition", "order", *names).to_dicts():
        given = measure({name: row[name] for name in names})
        good = {"status": "ok", "reason": "", "started_unix_s": 1.7e9, "duration_s": 1.0}
        missing = {"status": "skipped", "reason": "the trace is not here"}
        found.append({**row, **(good | dict(given) if given is not None else missing)})
    return replace(records, trials=pl.DataFrame(found, infer_schema_length=None))


def draw(records: Dataset, **keys: Any) -> figures.Drawn:
    return synthetic.draw(records, records.studies[0], {**TABLE, **keys})


def level(point: Mapping[str, Any]) -> dict[str, float]:
    return {METRIC: MEANS[point["policy"]]}


def saturating(point: Mapping[str, Any]) -> dict[str, float]:
    if point["policy"] == "none" and point["buffer"] == "16MiB":
        return {"sim.saturated": 1.0}
    return {**level(point), "sim.saturated": 0.0}


def marks(drawn: figures.Drawn) -> list[Mapping[str, Any]]:
    """The layers of points, crosses left out."""
    return [one for one in layers(drawn.spec) if mark(one)["type"] == "point" and "shape" in one["encoding"]]


def crosses(drawn: figures.Drawn) -> list[Mapping[str, Any]]:
    return [one for one in layers(drawn.spec) if mark(one)["type"] == "point" and "shape" not in one["encoding"]]


def lines(drawn: figures.Drawn) -> list[Mapping[str, Any]]:
    return [one for one in layers(drawn.spec) if mark(one)["type"] == "line"]


def panels(drawn: figures.Drawn) -> list[list[str]]:
    return [[panel["title"]["text"] for panel in row["hconcat"]] for row in drawn.spec["vconcat"]]


def test_each_condition_is_a_point_of_its_levels_line() -> None:
    drawn = draw(simulated(level))
    assert drawn.problem == ""
    (points,) = marks(drawn)
    at = {(row["group"], row["level"]): row["y"] for row in rows(points)}
    assert len(at) == 9
    assert at["none", "8 MiB"] == pytest.approx(400)
    assert at["epo", "4 MiB"] == pytest.approx(300)
    assert rows(lines(drawn)[0]) == rows(points)


def test_levels_that_lie_over_each_other_can_be_told_apart() -> None:
    drawn = draw(simulated(level))
    encoding = marks(drawn)[0]["encoding"]
    domain = ["none", "lru", "epo"]
    for channel in ("shape", "size"):
        scale = encoding[channel]["scale"]
        assert scale["domain"] == domain
        assert len(set(scale["range"])) == 3
    sizes = encoding["size"]["scale"]["range"]
    assert sizes == sorted(sizes, reverse=True)
    assert mark(marks(drawn)[0])["filled"] is False
    dashes = lines(drawn)[0]["encoding"]["strokeDash"]["scale"]
    assert dashes["domain"] == domain[::-1]
    assert len({tuple(dash) for dash in dashes["range"]}) == 3


def test_the_marks_of_the_legend_are_not_dashed() -> None:
    """As Vega draws it: Vega-Lite merges legends that say the same."""
    import vl_convert

    (legend,) = vl_convert.vegalite_to_vega(draw(simulated(level)).spec)["legends"]
    assert {"stroke", "shape", "size"} <= legend.keys() and "strokeDash" not in legend


def test_one_panel_a_level_in_so_many_columns() -> None:
    records = simulated(level, planes=[1, 2, 4, 8])
    assert panels(draw(records, panel="planes")) == [["1", "2", "4"], ["8"]]
    assert panels(draw(records, panel="planes", columns=2)) == [["1", "2"], ["4", "8"]]
    assert len(marks(draw(records, panel="planes"))) == 4


def test_a_factor_that_is_neither_axis_nor_panel_is_told() -> None:
    assert "all levels of" in subtitle(draw(simulated(level, planes=[1, 2])).spec)


def test_panels_whose_trials_were_skipped_are_named_and_left_out() -> None:
    records = simulated(lambda point: level(point) if point["planes"] == 1 else None, planes=[1, 2])
    drawn = draw(records, panel="planes")
    assert panels(drawn) == [["1"]]
    assert "not here: 2" in subtitle(drawn.spec)


def test_sizes_lie_on_a_logarithmic_axis_where_asked() -> None:
    def scale(**keys: Any) -> Any:
        return marks(draw(simulated(level), **keys))[0]["encoding"]["x"]["scale"]

    assert scale(log_x=True)["type"] == "log"
    assert "type" not in scale()


def test_words_have_their_marks_side_by_side_and_no_lines() -> None:
    drawn = draw(simulated(level, trace=["a", "b"]), x="trace", where={"buffer": "4MiB"})
    assert lines(drawn) == []
    encoding = marks(drawn)[0]["encoding"]
    assert encoding["x"]["type"] == "nominal"
    assert encoding["xOffset"]["field"] == "group"


def test_values_far_apart_get_a_logarithmic_axis_and_near_ones_do_not() -> None:
    def scale(ratio: float) -> Any:
        shown = simulated(lambda point: {METRIC: 1e5 * (ratio if point["policy"] == "none" else 1)})
        return marks(draw(shown))[0]["encoding"]["y"]["scale"]

    assert scale(20)["type"] == "log"
    assert "type" not in scale(5)


def test_a_saturated_condition_is_a_cross_at_the_upper_edge_and_no_point() -> None:
    drawn = draw(simulated(saturating))
    assert len(rows(marks(drawn)[0])) == 8
    (cross,) = crosses(drawn)
    assert [(row["group"], row["level"]) for row in rows(cross)] == [("none", "16 MiB")]
    assert cross["encoding"]["y"] == {"value": 5}
    assert "× at the upper edge: saturated" in subtitle(drawn.spec)
    assert "saturated" in drawn.description
    assert "saturated" not in subtitle(draw(simulated(level)).spec)


def test_crosses_at_one_place_stand_below_each_other() -> None:
    drawn = draw(simulated(lambda point: {"sim.saturated": 1.0} if point["policy"] != "epo" else level(point)))
    heights = {rows(cross)[0]["group"]: cross["encoding"]["y"]["value"] for cross in crosses(drawn)}
    assert heights == {"none": 5, "lru": 14}


def test_all_saturated_is_a_figure_of_crosses() -> None:
    drawn = draw(simulated(lambda _: {"sim.saturated": 1.0}))
    assert drawn.problem == ""
    assert len(crosses(drawn)) == 9


@pytest.mark.parametrize("keys", [{}, {"panel": "planes"}, {"x": "policy", "color": "buffer"}])
def test_it_is_rendered(tmp_path: Path, keys: dict[str, Any]) -> None:
    check_files(draw(simulated(saturating, planes=[1, 2]), **keys), tmp_path)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"y": "read.bw"}, "read.bw"),
        ({"panel": "colour"}, "colour"),
        ({"x": "pages"}, "pages"),
        ({"where": {"buffer": "1MiB"}}, "buffer"),
    ],
)
def test_what_cannot_be_drawn_says_why(keys: dict[str, Any], why: str) -> None:
    assert why in draw(simulated(level), **keys).problem


def test_skipped_trials_alone_say_why_they_were_skipped() -> None:
    assert "the trace is not here" in draw(simulated(lambda _: None)).problem


@cases("lists", "line_keys")
def test_a_bad_key_is_refused_by_name(case: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match=case["said"]):
        figures.check(synthetic.study("s", "S", {}, [{**TABLE, **case["keys"]}]))


@pytest.mark.parametrize("key", ["x", "y", "color"])
def test_a_key_that_it_needs_is_asked_for(key: str) -> None:
    table = {name: value for name, value in TABLE.items() if name != key}
    with pytest.raises(StudyError, match=rf"figures\.a\.{key}: is missing"):
        figures.check(synthetic.study("s", "S", {}, [table]))
