"""Scaling curves: levels, perfect scaling, the law with its peak, the plateau; and the reason where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import synthetic
from charts import mark, rows, styled, subtitle

from ioassay.report import figures, page
from ioassay.stats.sample import mean_interval
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

WORKERS = [1, 2, 3, 4, 5, 6, 8, 12, 16]


def run(measure: Any, factors: dict[str, list[Any]] | None = None, repetitions: int = 5) -> Dataset:
    """One trial a level and repetition; `measure(level)` gives its value, None for a failed trial."""
    factors = factors or {"workers": WORKERS}
    points = [{}]
    for name, levels in factors.items():
        points = [{**point, name: level} for point in points for level in levels]
    trials = []
    for repetition in range(repetitions):
        for point in points:
            value = measure(point)
            status = "ok" if value is not None else "failed"
            key = {"study": "s", "trial": f"t{len(trials)}", "status": status, "reason": "", "repetition": repetition}
            trials.append({**key, "order": len(trials), "duration_s": 1.0, **point, "value": value})
    empty = pl.DataFrame()
    return Dataset(
        root=Path("run"),
        studies=[Study(name="s", title="s", driver="null", factors=factors)],
        host={},
        trials=pl.DataFrame(trials, infer_schema_length=None),
        planned={"s": len(trials)},
        **dict.fromkeys(("series", "hist", "samples", "warnings"), empty),
    )


def draw(records: Dataset, **keys: Any) -> figures.Drawn:
    table = {"kind": "scaling", "name": "a", "x": "workers", "y": "value", **keys}
    return synthetic.draw(records, records.studies[0], table)


def test_levels_decades_apart_make_perfect_scaling_a_straight_line_on_two_logarithmic_axes() -> None:
    workers = [1, 2, 4, 8, 16, 32]
    records = run(lambda point: 100.0 * point["workers"] ** 0.95, {"workers": workers}, 3)
    drawn = draw(records)
    (ideal,) = styled(drawn.spec, "reference")
    assert ideal["encoding"]["y"]["scale"]["type"] == ideal["encoding"]["x"]["scale"]["type"] == "log"
    line = rows(ideal)
    assert line[-1]["y"] / line[0]["y"] == pytest.approx(line[-1]["x"] / line[0]["x"], rel=1e-5)
    linear = styled(draw(records, log_y=False).spec, "reference")[0]["encoding"]
    assert linear["y"]["scale"].get("type") is linear["x"]["scale"].get("type") is None


def falling_back(seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)

    def measure(point: dict[str, Any]) -> float:
        n = point["workers"]
        return 100 * n / (1 + 0.05 * (n - 1) + 0.01 * n * (n - 1)) * rng.lognormal(0, 0.02)

    return measure


def with_corner(seed: int = 2) -> Any:
    rng = np.random.default_rng(seed)
    return lambda point: 100 * min(point["workers"], 4) * rng.lognormal(0, 0.01)


def test_levels_have_their_interval_and_every_repetition() -> None:
    records = run(falling_back())
    drawn = draw(records)
    assert drawn.problem == "" and drawn.title == "Value over number of workers: scaling"
    (means,) = [rows(layer) for layer in styled(drawn.spec, "mean")]
    values = records.trials.filter(pl.col("workers") == 8)["value"].to_list()
    interval, row = mean_interval(values, 0.95), means[6]
    assert row["n"] == 5 and row["y"] == pytest.approx(np.mean(values))
    assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))
    assert len(rows(styled(drawn.spec, "repetition")[0])) == 45


def test_the_law_is_drawn_with_its_peak_and_its_interval() -> None:
    drawn = draw(run(falling_back()))
    curve, across, down = styled(drawn.spec, "fit")
    assert rows(curve)[0]["role"] == "universal scalability law"
    top = max(rows(curve), key=lambda row: row["y"])
    (peak,) = rows(across)
    assert peak["x"] == pytest.approx(top["x"], abs=0.3) and peak["y"] >= top["y"] * 0.999
    assert peak["from"] < np.sqrt(95) < peak["to"]
    assert mark(down)["type"] == "rule"
    assert "cannot run in parallel, peak at 9." in subtitle(drawn.spec)


def test_perfect_scaling_starts_at_the_first_level_and_ends_in_the_picture() -> None:
    drawn = draw(run(with_corner()))
    (ideal,) = [rows(layer) for layer in styled(drawn.spec, "reference")]
    assert ideal[0]["y"] == pytest.approx(100, abs=2) and ideal[0]["x"] == 1
    for row in ideal:
        assert row["y"] == pytest.approx(ideal[0]["y"] * row["x"], rel=1e-5)
    assert max(row["y"] for row in ideal) <= 410 * 1.1


def test_a_corner_has_a_band_its_place_in_words_and_a_law_up_to_there() -> None:
    drawn = draw(run(with_corner()))
    ((band,),) = [rows(layer) for layer in styled(drawn.spec, "window")]
    assert (band["x"], band["end"]) == (4, 16)
    (law,) = [rows(layer) for layer in styled(drawn.spec, "fit")]
    assert (law[0]["x"], law[-1]["x"]) == (1, 4)
    said = subtitle(drawn.spec)
    assert "shaded: within 5 % of the best" in said
    assert "bends near 4" in said and "up to the plateau: " in said


def test_a_curve_that_still_rises_has_no_band_and_says_so() -> None:
    rng = np.random.default_rng(5)
    drawn = draw(run(lambda point: 100 * point["workers"] * rng.lognormal(0, 0.01)))
    assert styled(drawn.spec, "window") == []
    assert "no plateau: " in subtitle(drawn.spec)


def test_noise_alone_has_neither_band_nor_law() -> None:
    rng = np.random.default_rng(3)
    drawn = draw(run(lambda point: 100 * rng.lognormal(0, 0.2)))
    assert styled(drawn.spec, "window") == styled(drawn.spec, "fit") == []
    assert "the levels are not distinguishable" in subtitle(drawn.spec)


def test_parts_can_be_left_out() -> None:
    drawn = draw(run(falling_back()), ideal=False, law=False, plateau=False, repetitions=False, log_x=True)
    for style in ("reference", "fit", "window", "repetition"):
        assert styled(drawn.spec, style) == []
    assert "law" not in subtitle(drawn.spec)


@pytest.mark.parametrize(("cpus", "marked"), [(4, True), (16, True), (1, False), (64, False), (None, False)])
def test_hardware_threads_are_marked_where_they_lie_among_the_levels(cpus: int | None, marked: bool) -> None:
    records = replace(run(with_corner()), host={"cpu": {"cpus": cpus}} if cpus else {})
    notes = styled(draw(records).spec, "note")
    assert [row["text"] for layer in notes for row in rows(layer)] == [f"{cpus} hardware threads"] * marked
    assert styled(draw(records, threads=False).spec, "note") == []


def test_requests_in_flight_are_not_set_against_hardware_threads() -> None:
    measure = with_corner()
    records = run(lambda point: measure({"workers": point["iodepth"]}), {"iodepth": WORKERS})
    assert styled(draw(replace(records, host={"cpu": {"cpus": 4}}), x="iodepth").spec, "note") == []


def test_the_best_level_has_a_ring_unless_none_can_be_told() -> None:
    drawn = draw(run(falling_back()))
    ((best,),) = [rows(layer) for layer in styled(drawn.spec, "best")]
    assert best["y"] == max(row["y"] for row in rows(styled(drawn.spec, "mean")[0]))
    rng = np.random.default_rng(3)
    assert styled(draw(run(lambda point: 100 * rng.lognormal(0, 0.2))).spec, "best") == []


def test_means_are_joined_where_no_law_leads_the_eye() -> None:
    assert len(rows(styled(draw(run(with_corner())).spec, "joined")[0])) == 9
    assert styled(draw(run(falling_back())).spec, "joined") == []


def test_other_factors_have_to_be_fixed() -> None:
    measure = falling_back()
    records = run(measure, {"workers": WORKERS, "pinned": ["yes", "no"]}, 3)
    assert "pinned vary as well" in draw(records).problem
    fixed = draw(records, where={"pinned": "yes"})
    assert fixed.problem == "" and len(rows(styled(fixed.spec, "mean")[0])) == 9


def test_words_and_single_levels_have_no_scaling() -> None:
    words = run(lambda point: len(point["workers"]), {"workers": ["few", "some", "many"]})
    assert "are words" in draw(words).problem
    alone = run(lambda point: 5.0 if point["workers"] == 2 else None, {"workers": [1, 2]})
    assert "only one level" in draw(alone).problem
    assert "went well" in draw(run(lambda point: None)).problem


def test_where_lower_is_better_there_is_neither_law_nor_perfect_scaling() -> None:
    records = run(lambda point: 1e5 * point["workers"] * (1 + 1e-3 * point["workers"] % 3))
    records = replace(records, trials=records.trials.rename({"value": "read.lat.p99"}))
    drawn = draw(records, y="read.lat.p99")
    assert drawn.problem == "" and styled(drawn.spec, "fit") == [] and styled(drawn.spec, "reference") == []


@pytest.mark.parametrize("repetitions", [1, 2])
def test_few_repetitions_draw_what_there_is(repetitions: int) -> None:
    drawn = draw(run(falling_back(), repetitions=repetitions))
    assert drawn.problem == "" and len(rows(styled(drawn.spec, "mean")[0])) == 9
    assert page.svg(drawn.spec).startswith("<svg")
