"""IOPS, bandwidth and latency percentiles of named workloads, against numpy over all requests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioassay.analysis import descriptive
from ioassay.analysis.descriptive import LATENCIES, MOST_WORKLOADS, RATE, VOLUME, ConditionMean
from ioassay.narrative import describe_text
from ioassay.packs.fio.commands import quick
from ioassay.report import study_sections, tables

REQUESTS = 4000


def cases(number: int) -> list[dict[str, Any]]:
    return [{"name": f"depth {2**place}", "iodepth": 2**place} for place in range(number)]


def measured(lab: Any, directions: tuple[str, ...] = ("read",), repetitions: int = 3, **keys: Any) -> Any:
    """Study, records and the latencies of each case and direction in ns."""
    study = lab.study(responses=["read.iops"], **keys)
    random = np.random.default_rng(1)
    requests: dict[tuple[str, str], list[Any]] = {}

    def measure(point: Any, repetition: int) -> dict[str, Any]:
        row: dict[str, Any] = {"_hist": []}
        for direction in directions:
            drawn = random.lognormal(11, 0.5, REQUESTS).astype(int)
            requests.setdefault((str(point.get("case", "")), direction), []).append(drawn)
            row["_hist"].append((direction, "lat", *np.unique(drawn, return_counts=True)))
            row |= {f"{direction}.iops": 1000.0 + repetition, f"{direction}.bw": 4.096e6, f"{direction}.lat.mean": 7e4}
            row |= {f"{direction}.{name}": float(np.percentile(drawn, 50)) for name in LATENCIES}
        return row

    records = lab.records(lab.run(study, measure, repetitions))
    return study, records, {key: np.concatenate(parts) for key, parts in requests.items()}


def test_every_case_has_a_row_in_the_order_of_the_study(lab: Any) -> None:
    study, records, requests = measured(lab, case=cases(3))
    found = descriptive.profiles(records, study)
    assert [profile.workload for profile in found] == ["depth 1", "depth 2", "depth 4"]
    for profile in found:
        every = requests[profile.workload, "read"]
        assert profile.values[RATE].mean == pytest.approx(1001.0)
        assert profile.values[VOLUME].mean == pytest.approx(4.096e6)
        for name, percent in zip(LATENCIES, (50, 99, 99.9), strict=True):
            assert profile.values[name].mean == pytest.approx(np.percentile(every, percent), rel=0.002)
        assert profile.latencies is not None and profile.latencies.count == every.size
        # Student's t of 1000, 1001 and 1002: 4.302653 / sqrt(3).
        mean, ends = profile.values[RATE].mean, profile.values[RATE].ci95
        assert ends is not None
        assert (ends[1] - mean) / mean == pytest.approx(np.expm1(4.302653 / 3**0.5 / 1001.0), rel=1e-6)


def test_reads_and_writes_of_one_workload_are_two_rows(lab: Any) -> None:
    study, records, _ = measured(lab, ("read", "write"), case=cases(1))
    table = tables.profile_table(descriptive.profiles(records, study))
    assert table is not None
    assert [row.workload for row in table.rows] == ["depth 1, reads", "depth 1, writes"]


def test_what_sweeps_a_factor_has_a_figure_instead(lab: Any) -> None:
    study, records, _ = measured(lab, factors={"iodepth": [1, 2, 4]})
    assert descriptive.profiles(records, study) == []
    study, records, _ = measured(lab, case=cases(MOST_WORKLOADS + 1))
    assert descriptive.profiles(records, study) == []


def test_a_single_condition_is_a_row(lab: Any) -> None:
    study, records, _ = measured(lab, repetitions=1)
    (profile,) = descriptive.profiles(records, study)
    assert profile.values[RATE].ci95 is None
    screen = study_sections.first_screen(records, [])
    assert screen.profile is not None and screen.layout == "below"


def test_no_histogram_is_no_chart_but_still_a_row(lab: Any) -> None:
    study = lab.study(responses=["read.iops"], case=cases(1))
    metrics = {"read.iops": 10.0, "read.lat.p50": 1e5}
    records = lab.records(lab.run(study, lambda *_: metrics, repetitions=2))
    table = tables.profile_table(descriptive.profiles(records, study))
    assert table is not None and table.columns == ["IOPS", "p50"]
    assert not table.decades and table.rows[0].outline == ""


def test_the_small_charts_share_one_axis_and_hold_every_request(lab: Any) -> None:
    study, records, requests = measured(lab, case=cases(2))
    table = tables.profile_table(descriptive.profiles(records, study))
    assert table is not None
    assert [label for _, label, _ in table.decades] == ["100 µs"]
    for row in table.rows:
        places = [x for x, _ in row.marks]
        assert places == sorted(places) and 0 < places[0] < places[-1] <= tables.WIDTH
        every = requests[row.workload, "read"]
        at_decade = table.decades[0][0]
        assert (places[0] < at_decade) == (np.median(every) < 1e5)
        assert row.spoken.startswith(f"Latencies of {row.workload}: p50 ")
        heights = [float(part.partition("H")[0]) for part in row.outline.split("V")[1:-1]]
        assert min(heights) == pytest.approx(4.0) and max(heights) <= tables.HEIGHT


def test_percentiles_behind_few_requests_are_marked(lab: Any) -> None:
    study, records, _ = measured(lab, case=cases(1), repetitions=2)  # 8 of 8,000 requests lie beyond 99.9 %
    table = tables.profile_table(descriptive.profiles(records, study))
    assert table is not None
    assert [cell.text.endswith("*") for cell in table.rows[0].cells] == [False, False, False, False, True]
    assert "* fewer than 10 requests lie beyond" in table.caption


def test_a_wide_interval_is_told_by_its_ends() -> None:
    def shown(ends: tuple[float, float] | None) -> str:
        mean = ConditionMean("study", "case", {}, "read.iops", "IOPS", 100.0, 100.0, ends, 3)
        return describe_text.half_width("read.iops", mean)

    assert (shown((40.0, 104.2)), shown((40.0, 240.0)), shown(None)) == ("± 4.2 %", "40 to 240", "")


def test_the_terminal_has_the_same_rows(lab: Any) -> None:
    _, records, _ = measured(lab, case=cases(2))
    published: Any = type("Published", (), {"records": records})
    head, *rows = quick._table(published)
    assert head.split() == ["workload", "IOPS", "bandwidth", "p50", "p99", "p99.9", "IOPS,", "95", "%"]
    assert [row.split()[:2] for row in rows] == [["depth", "1"], ["depth", "2"]]
