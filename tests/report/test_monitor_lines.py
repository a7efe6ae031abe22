"""Figures of what the monitors saw: processor time stacked over levels, the machine over all trials."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
import synthetic
from charts import layers, mark, rows, styled, subtitle

from ioassay.errors import StudyError
from ioassay.report import figures
from ioassay.store.dataset import Dataset

JOBS = 3


def draw(records: Dataset, kind: str, **table: object) -> figures.Drawn:
    return synthetic.draw(records, records.studies[JOBS], {"kind": kind, "name": "a", **table})


def bars(drawn: figures.Drawn) -> dict[Any, dict[str, tuple[float, float]]]:
    """Level -> band -> from and to."""
    found: dict[Any, dict[str, tuple[float, float]]] = {}
    for row in [row for layer in layers(drawn.spec) for row in rows(layer)]:
        found.setdefault(row["x"], {})[row["part"]] = (row["y"], row["y2"])
    return found


def test_the_states_of_a_level_lie_on_each_other_and_idle_fills_up(suite: Dataset) -> None:
    found = bars(draw(suite, "stack"))
    assert list(found) == ["1", "2", "4", "6", "8"]
    for bands in found.values():
        edges = sorted(bands.values())
        assert edges[0][0] == 0
        assert edges[-1] == bands["idle"]
        assert edges[-1][1] == 100
        assert all(one[1] == other[0] for one, other in itertools.pairwise(edges))
    waiting = [bands["iowait"][1] - bands["iowait"][0] for bands in found.values()]
    assert waiting == sorted(waiting)  # the made-up machine waits more with more jobs


def test_a_bar_is_the_mean_of_the_shares_of_whole_trials(suite: Dataset) -> None:
    named = suite.samples.filter((pl.col("study") == "jobs") & (pl.col("monitor") == "cpu"))
    trials = suite.trials.filter((pl.col("study") == "jobs") & (pl.col("numjobs") == 4))["trial"].to_list()
    shares = []
    for trial in trials:
        grown = {
            name: part["value"].max() - part["value"].min()
            for (name,), part in named.filter(pl.col("trial") == trial).group_by("name")
        }
        shares.append(100 * grown["all.user"] / sum(grown.values()))
    low, high = bars(draw(suite, "stack"))["4"]["usr"]
    assert high - low == pytest.approx(sum(shares) / len(shares), abs=1e-3)


def test_guests_are_in_the_legend_only_where_there_are_any(suite: Dataset) -> None:
    legend = styled(draw(suite, "stack").spec, "band")[0]["encoding"]["color"]["legend"]
    assert legend["values"] == ["usr", "sys", "iowait", "irq", "soft", "steal"]
    guests = suite.samples.filter(pl.col("name") == "all.user").with_columns(name=pl.lit("all.guest"))
    halved = guests.with_columns(value=pl.col("value") / 2)
    hosting = replace(suite, samples=pl.concat([suite.samples, halved]))
    legend = styled(draw(hosting, "stack").spec, "band")[0]["encoding"]["color"]["legend"]
    assert "guest" in legend["values"]


def panels(drawn: figures.Drawn) -> dict[str, Mapping[str, Any]]:
    """Title of the axis -> the layer of its values."""
    found = [layer for layer in layers(drawn.spec) if mark(layer).get("interpolate")]
    return {layer["encoding"]["y"]["title"]: layer for layer in found}


def test_all_trials_stand_one_after_the_other_with_their_boundaries(suite: Dataset) -> None:
    drawn = draw(suite, "timeline")
    assert "25 trials, one after the other, by number of jobs" in subtitle(drawn.spec)
    assert "not watched: net, memory" in subtitle(drawn.spec)
    found = panels(drawn)
    assert [title.split(" (")[0] for title in found] == ["CPU", "Disk bandwidth"]
    ends = [row["x"] for row in rows(styled(drawn.spec, "reference")[0])]
    assert len(ends) == 24
    places: dict[str, list[float]] = {}
    for row in rows(found["CPU (%)"]):
        places.setdefault(row["trial"], []).append(row["x"])
    spans = sorted((min(place), max(place)) for place in places.values())
    assert all(one[1] < end < other[0] for (one, other), end in zip(itertools.pairwise(spans), ends, strict=True))


def test_the_shares_at_one_time_are_stacked_and_never_pass_100_percent(suite: Dataset) -> None:
    found = rows(panels(draw(suite, "timeline", trials="one"))["CPU (%)"])
    at = [row for row in found if row["x"] == found[40]["x"]]
    assert all(one["y2"] == pytest.approx(other["y"]) for one, other in itertools.pairwise(at))
    assert 0 < max(row["y2"] for row in found) <= 100.001


def test_trials_can_be_ordered_by_their_levels_and_are_named_by_them(suite: Dataset) -> None:
    drawn = draw(suite, "timeline", order="levels", repetition=2)
    labels = [row["label"] for row in rows(styled(drawn.spec, "note")[0])]
    assert labels == ["1", "2", "4", "6", "8"]


def test_one_trial_has_its_end_marked(suite: Dataset) -> None:
    drawn = draw(suite, "timeline", trials="one", where={"numjobs": 4})
    assert "repetition 1" in subtitle(drawn.spec)
    assert [row["x"] for row in rows(styled(drawn.spec, "reference")[0])] == [10.4]
    assert not styled(drawn.spec, "note")


def test_a_panel_where_nothing_moved_begins_at_zero(suite: Dataset) -> None:
    sent = suite.samples.filter(pl.col("name") == "all.user").with_columns(
        monitor=pl.lit("net"), name=pl.lit("eth0.tx_bytes"), value=pl.lit(7.0)
    )
    drawn = draw(replace(suite, samples=pl.concat([suite.samples, sent])), "timeline", panels=["net"])
    assert panels(drawn)["Network (B/s)"]["encoding"]["y"]["scale"]["domain"] == [0, 1]
    texts = [row.get("text") for layer in styled(drawn.spec, "note") for row in rows(layer)]
    assert "nothing the whole time" in texts


@pytest.mark.parametrize(
    ("kind", "table", "reason"),
    [
        ("stack", {"core": "cpu7"}, "nothing watched 'cpu7'"),
        ("stack", {"x": "bs"}, "no factor 'bs'"),
        ("timeline", {"panels": ["net", "pressure"]}, 'it needs watch.monitors = ["net", "pressure"]'),
        ("timeline", {"repetition": 9}, "was watched in repetition 9"),
    ],
)
def test_what_cannot_be_shown_is_told(suite: Dataset, kind: str, table: dict[str, Any], reason: str) -> None:
    assert reason in draw(suite, kind, **table).problem


@pytest.mark.parametrize(("kind", "key"), [("stack", {"core": "0"}), ("timeline", {"panels": ["gpu"]})])
def test_a_core_or_panel_that_cannot_be_is_refused(suite: Dataset, kind: str, key: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match=rf"figures\.a\.{next(iter(key))}"):
        draw(suite, kind, **key)
