"""Two runs over each other: curves through the means of both, and their latency distributions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ioassay.analysis.measurements.cells import cells
from ioassay.packs.comparison import comparison_charts
from ioassay.report.figures.spec import NoData
from ioassay.store.dataset import Dataset

from ...report import charts, synthetic
from . import compared_runs


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Dataset]:
    return compared_runs.runs(tmp_path_factory.mktemp("runs"), repetitions=3)


def pair(both: tuple[Dataset, Dataset], name: str) -> comparison_charts.Pair:
    a, b = both
    (study_a,), (study_b,) = ([one for one in records.studies if one.name == name] for records in both)
    return comparison_charts.Pair(a, study_a, b, study_b)


def points(panel: Any, kind: str = "point") -> dict[str, list[dict[str, Any]]]:
    """Run -> the rows of its marks."""
    found: dict[str, list[dict[str, Any]]] = {}
    for layer in charts.layers(panel):
        if charts.mark(layer)["type"] == kind:
            for row in charts.rows(layer):
                found.setdefault(row["group"], []).append(row)
    return found


def test_a_curve_of_each_run_goes_through_its_means(both: tuple[Dataset, Dataset]) -> None:
    of = pair(both, "block-size")
    (panel,) = comparison_charts.curves(of, "read.bw", [])["concat"]
    found = points(panel)
    bottom, top = next(charts.layers(panel))["encoding"]["y"]["scale"]["domain"]
    for run, records, study in (("A", of.a, of.study_a), ("B", of.b, of.study_b)):
        means = [cell.values.mean() / 1e6 for cell in cells(records, study, "read.bw").cells]
        assert [row["y"] for row in found[run]] == pytest.approx(means)
        assert all(bottom <= row["low"] <= row["y"] <= row["high"] <= top for row in found[run])
    assert sum(row["y"] for row in found["B"]) == pytest.approx(0.6 * sum(row["y"] for row in found["A"]), rel=0.05)


def test_there_is_a_panel_for_each_combination_of_the_other_factors(both: tuple[Dataset, Dataset]) -> None:
    drawn = comparison_charts.curves(pair(both, "write-share"), "read.bw", [])
    heads = [row["text"] for layer in charts.layers(drawn) for row in charts.rows(layer) if "text" in row]
    assert heads == [["rw=rw"], ["rw=randrw"]]


def test_levels_that_are_words_are_not_joined(both: tuple[Dataset, Dataset]) -> None:
    of = pair(both, "mixed-sizes")
    assert comparison_charts.overlay(of, "read.bw", [])[0] == "distributions"
    assert comparison_charts.overlay(pair(both, "jobs"), "read.bw", [])[0] == "curves"
    drawn = comparison_charts.curves(of, "read.bw", [])
    assert points(drawn).keys() == {"A", "B"} and not points(drawn, "line")


def test_conditions_without_an_order_have_the_distributions_of_both_runs(both: tuple[Dataset, Dataset]) -> None:
    of = pair(both, "mixed-sizes")
    drawn = comparison_charts.distributions(of, [])
    assert len(drawn["concat"]) == 8  # four cases, read and written
    lines = points(drawn["concat"][0], "line")
    medians = {run: min(rows, key=lambda row: abs(row["y"] - 0.30103))["x"] for run, rows in lines.items()}
    known = of.distributions()["mixed rw=randread", "read"]
    assert medians["A"] == pytest.approx(known["A"].quantiles([0.5])[0], rel=0.1)
    assert medians["B"] == pytest.approx(known["B"].quantiles([0.5])[0], rel=0.1)
    assert [row["y"] for row in lines["A"]] == sorted(row["y"] for row in lines["A"])


@pytest.mark.parametrize(("study", "response"), [("block-size", "read.bw"), ("mixed-sizes", "write.bw")])
def test_declarations_are_valid_by_the_schema_of_vega_lite(
    both: tuple[Dataset, Dataset], study: str, response: str
) -> None:
    of = pair(both, study)
    charts.check(comparison_charts.curves(of, response, []))
    charts.check(comparison_charts.distributions(of, []))


def test_of_many_panels_those_with_the_worst_rows_are_shown_in_their_order(tmp_path: Path) -> None:
    study = synthetic.study("many", "Many", {"bs": [f"{2**power}KiB" for power in range(14)]}, [])
    a, b = (synthetic.run(tmp_path / name, [study], 1, seed) for seed, name in enumerate(("A", "B")))
    worst = ["bs=8192KiB", "bs=4KiB"]
    drawn = comparison_charts.distributions(comparison_charts.Pair(a, study, b, study), worst)
    heads = [row["text"][0] for layer in charts.layers(drawn) for row in charts.rows(layer) if "text" in row]
    assert len(heads) == comparison_charts.MOST_PANELS
    assert heads[:3] == ["bs=1KiB, read", "bs=2KiB, read", "bs=4KiB, read"]
    assert {"bs=8192KiB, read", "bs=8192KiB, write", "bs=4KiB, write"} <= set(heads)
    assert "the 12 of 28 panels with the worst rows" in charts.subtitle(drawn)


def test_a_single_condition_without_histograms_has_nothing_to_show(tmp_path: Path) -> None:
    study = synthetic.study("one", "One", {}, [])
    a = synthetic.run(tmp_path, [study], 3)
    a = replace(a, hist=a.hist.clear())
    of = comparison_charts.Pair(a, study, a, study)
    with pytest.raises(NoData, match="values of one condition only"):
        comparison_charts.overlay(of, "read.bw", [])
    with pytest.raises(NoData, match="values of one condition only"):
        comparison_charts.curves(of, "read.bw", [])
    with pytest.raises(NoData, match="has kept no latency histograms"):
        comparison_charts.distributions(of, [])


def test_levels_that_are_spelled_differently_are_matched(tmp_path: Path) -> None:
    a, b = (
        synthetic.study("s", "S", {"bs": levels}, []) for levels in (["4KiB", "8KiB", "16KiB"], ["4k", "8k", "16k"])
    )
    runs = [synthetic.run(tmp_path / str(seed), [a], 2, seed) for seed in (1, 2)]
    drawn = comparison_charts.curves(comparison_charts.Pair(runs[0], a, runs[1], b), "read.bw", [])
    assert [[row["x"] for row in points(drawn)[run]] for run in ("A", "B")] == [[4096, 8192, 16384]] * 2


def test_values_of_0_and_below_keep_a_linear_axis(both: tuple[Dataset, Dataset]) -> None:
    a, b = (replace(one, trials=one.trials.with_columns(pl.lit(0.0).alias("read.bw"))) for one in both)
    drawn = comparison_charts.curves(pair((a, b), "jobs"), "read.bw", [])
    scales = [layer["encoding"]["y"].get("scale", {}) for layer in charts.layers(drawn) if "x" in layer["encoding"]]
    assert not any(isinstance(scale, dict) and scale.get("type") == "log" for scale in scales)
