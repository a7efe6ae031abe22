"""The figure hosts: one row a host, worst first, whose mark, interval and limits say the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ioassay.packs.hosts.questions import host_comparison
from ioassay.report.figures import FIGURES, Drawn, default_figures, selection
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

from ...lab import Lab
from ...report import charts, synthetic

HOSTS = [f"n{number:02}" for number in range(20)]


def run(hosts: list[str], speeds: Mapping[str, float] | None = None, repetitions: int = 5) -> tuple[Dataset, Study]:
    lab, rng = Lab(), np.random.default_rng(1)
    study = lab.study(run={"hosts": hosts}, responses=["read.iops", "read.lat.mean"], repetitions=repetitions)

    def measure(point: Mapping[str, Any], _: int) -> dict[str, Any]:
        speed = (speeds or {}).get(str(point["host"]), 1.0)
        return {"read.iops": 1e4 * rng.lognormal(0, 0.02), "read.lat.mean": 1e5 / speed * rng.lognormal(0, 0.02)}

    return lab.records(lab.run(study, measure, repetitions)), study


def drawn(records: Dataset, study: Study, **keys: Any) -> Drawn:
    return synthetic.draw(records, study, {"kind": "hosts", "name": "x", **keys})


def rows(figure: Drawn) -> list[dict[str, Any]]:
    return charts.rows(charts.styled(figure.spec, "window")[0])


def test_each_host_is_a_row_worst_first() -> None:
    records, study = run(HOSTS, {"n07": 0.8})
    figure = drawn(records, study, y="read.lat.mean")
    assert not figure.problem
    shown = rows(figure)
    assert len(shown) == 20 and shown[0]["host"] == "n07"
    assert [row["deviation"] for row in shown] == sorted((row["deviation"] for row in shown), reverse=True)
    assert figure.spec["layer"][0]["encoding"]["y"]["sort"] == [row["host"] for row in shown]
    assert "n07: +2" in figure.description and "slow" in figure.description


def test_a_mark_outside_of_the_limits_is_one_whose_interval_excludes_the_mean() -> None:
    shown = rows(drawn(*run(HOSTS, {"n07": 0.8, "n03": 1.3}), y="read.lat.mean"))
    for row in shown:
        outside = not row["from"] <= row["deviation"] <= row["to"]
        assert outside == (not row["low"] <= 0 <= row["high"])
        assert outside == (row["standing"] in ("slow", "fast"))
    assert {row["host"]: row["standing"] for row in shown if row["standing"] in ("slow", "fast")} == {
        "n07": "slow",
        "n03": "fast",
    }


def test_the_response_in_which_hosts_deviate_most_is_shown_where_none_is_named() -> None:
    figure = drawn(*run(HOSTS, {"n07": 0.8}))
    assert "latency" in figure.title.lower()
    assert "19 hosts that agree" in charts.subtitle(figure.spec)


def test_the_numbers_are_those_of_the_question() -> None:
    records, study = run(["a", "b", "c"], {"c": 0.7})
    shown = {row["host"]: row for row in rows(drawn(records, study, y="read.lat.mean"))}
    response = host_comparison.comparison(records, study).responses[1]
    for one in response.hosts:
        assert shown[one.host]["deviation"] == pytest.approx(one.estimate - 1, rel=1e-4)


def test_hosts_on_an_unfit_machine_have_intervals_and_no_standing() -> None:
    records, study = run(HOSTS, {"n07": 0.8})
    figure = drawn(synthetic.unfit(records), study)
    assert "n07: +2" in figure.description and selection.UNFIT in figure.description
    assert not charts.styled(figure.spec, "window") and "color" not in str(figure.spec)
    assert not re.search("slow|agree|worst", figure.description)


@pytest.mark.parametrize(
    ("hosts", "repetitions", "keys", "reason"),
    [
        (["a", "b"], 1, {}, "One repetition does not show"),
        (["a", "b"], 5, {"y": "read.bw"}, "known: read.iops, read.lat.mean"),
        (["a", "b"], 5, {"where": {"host": "a"}}, "over all points"),
        (["a"], 5, {}, "fewer than two hosts"),
    ],
)
def test_without_a_comparison_the_placeholder_says_why(
    hosts: list[str], repetitions: int, keys: dict[str, Any], reason: str
) -> None:
    assert reason in drawn(*run(hosts, repetitions=repetitions), **keys).problem


def test_a_study_on_several_hosts_shows_them_first_by_default() -> None:
    records, study = run(["a", "b"])
    assert default_figures.of_study(records, study)[0].kind == "hosts"
    assert "hosts" in FIGURES
