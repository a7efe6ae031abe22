"""The trend of a study: which series there are, which runs count, what changed where, and how it is shown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ioassay.errors import InputError, UsageError
from ioassay.packs.history import history_store, trend, trend_page, trend_text
from ioassay.packs.history.history_store import Store
from ioassay.packs.history.trend import Fact, Outcome, Series, Trend
from ioassay.records.record import Environment, Program

RUNS, CHANGE, DISTURBED, UNSEEN = 60, 40, 50, 20
"""Of one machine: from CHANGE on one of its two conditions is slower; DISTURBED is unfit, UNSEEN has no value of it."""
FIRST = 1.75e9
DAY = 86_400.0


def _environment(others: float) -> Environment:
    return Environment(
        seconds=10.0,
        processors=8,
        own_share=0.3,
        others_share=others,
        kernel_share=0.05,
        steal_share=0.0,
        programs=[Program("backup", others)],
        idle_share=0.0 if others else 0.6,
    )


@pytest.fixture(scope="module")
def store(lab: Any, tmp_path_factory: pytest.TempPathFactory) -> Store:
    study = lab.study("nightly", factors={"bs": ["4KiB", "64KiB"]}, responses=["read.bw", "read.iops", "read.lat.p99"])
    kept = history_store.open(tmp_path_factory.mktemp("history"))
    rng = np.random.default_rng(3)
    for number in range(RUNS):
        scatter = dict(zip(("4KiB", "64KiB"), rng.normal(0, 0.01, 2), strict=True))

        def measure(point: Mapping[str, Any], _: int, number: int = number, scatter: Any = scatter) -> Any:
            speed = math.exp(scatter[point["bs"]]) * (0.9 if number >= CHANGE and point["bs"] == "4KiB" else 1.0)
            if number == UNSEEN and point["bs"] == "4KiB":
                return None
            speed *= 0.5 if number == DISTURBED else 1.0
            found = {"read.bw": 1e8 * speed, "read.iops": 1e8 / 4096 * speed, "read.lat.p99": 1e5 * rng.normal(1, 0.01)}
            return {**found, "_environment": _environment(0.6 if number == DISTURBED else 0.0)}

        host = {
            "identity": {"machine": "bb60fc8443b84e1a"},
            "kernel": {"release": "6.9.7" if number < CHANGE else "6.10.3"},
            "cpu": {"mitigations": {"spectre_v2": "Vulnerable" if number < CHANGE else "Mitigation: Retpolines"}},
            "disk": {"mount": {"options": ["rw"] if number < CHANGE else ["discard", "rw"]}},
            "ioassay": {"version": "0.1.0"},
        }
        records = lab.records(lab.run(study, measure, 2, seed=number), host=host)
        begun = FIRST + number * DAY
        records = replace(records, trials=records.trials.with_columns(started_unix_s=begun + pl.col("order")))
        kept.add(records, label=f"c{number // 2}" if number < RUNS - 2 else "")
    return kept


@pytest.fixture(scope="module")
def found(store: Store) -> Trend:
    return trend.of_study(store, "nightly")


def of(found: Trend, condition: str, response: str) -> Series:
    (series,) = (one for one in found.series if one.condition == f"bs={condition}" and one.response == response)
    return series


def test_other_settings_make_another_series_which_names_them(lab: Any, tmp_path: Path) -> None:
    store = history_store.open(tmp_path)
    for number in range(6):
        policy = {"policy": "lru" if number % 2 else "fifo", "make": {"requests": 1000}}
        study = lab.study("nightly", factors={"bs": ["4KiB", "64KiB"]}, responses=["read.bw"], params=policy)
        records = lab.records(lab.run(study, lambda *_: {"read.bw": 1e8}, 2, seed=number))
        store.add(replace(records, trials=records.trials.with_columns(started_unix_s=FIRST + DAY * number)))
    found = trend.of_study(store, "nightly")
    assert [len(series.values) for series in found.series] == [3] * 4
    assert {trend_text.name(found, series) for series in found.series} == {
        f"bs={size}, params.policy={policy}" for size in ("4KiB", "64KiB") for policy in ("lru", "fifo")
    }


def test_records_without_settings_go_with_the_next_ones_of_their_host() -> None:
    runs = {name: {"host": host, "settings": given} for name, host, given in (
        ("1", "a", ""), ("2", "b", ""), ("3", "a", "x=1"), ("4", "a", "x=2"), ("5", "a", ""),
    )}  # fmt: skip
    assert trend._settings(runs) == {"1": "x=1", "2": "", "3": "x=1", "4": "x=2", "5": ""}


def test_the_worst_series_is_first_and_a_response_in_another_unit_is_no_series_of_its_own(found: Trend) -> None:
    assert [one.outcome for one in found.series] == [Outcome.SLOWER, Outcome.SAME, Outcome.SAME, Outcome.SAME]
    assert {(one.condition, one.response): one.restated for one in found.series} == {
        ("bs=4KiB", "read.bw"): ("read.iops",),
        ("bs=64KiB", "read.bw"): ("read.iops",),
        ("bs=4KiB", "read.lat.p99"): (),
        ("bs=64KiB", "read.lat.p99"): (),
    }


def test_a_change_is_where_it_was_with_its_size_and_the_facts_that_differ(found: Trend) -> None:
    (step,) = of(found, "4KiB", "read.bw").steps
    assert step.run.begun == datetime.fromtimestamp(FIRST + CHANGE * DAY, UTC)
    assert step.direction == Outcome.SLOWER
    assert step.point.change.low < 0.9 < step.point.change.high
    assert {one for one in step.facts if one.name != "commit"} == {
        Fact("kernel", "6.9.7", "6.10.3"),
        Fact("mitigations", "spectre_v2: Vulnerable", "Mitigation: Retpolines"),
        Fact("mount_options", "", "discard"),
    }


def test_unfit_runs_are_shown_but_do_not_count(found: Trend) -> None:
    values = of(found, "64KiB", "read.bw").values
    assert [place for place, value in enumerate(values) if not value.weighs] == [DISTURBED]
    assert found.left_out == 1
    assert len(of(found, "4KiB", "read.bw").values) == RUNS - 1


def test_contradicted_runs_do_not_count() -> None:
    assert not trend._weighs({"grade": "fit", "verdict": "CONTRADICTED"})
    assert trend._weighs({"grade": "", "verdict": ""}) and trend._weighs({"grade": "noisy", "verdict": "CACHED"})


def test_a_slow_metric_is_no_slower_machine() -> None:
    assert trend._direction("read.lat.p99", rises=True) == Outcome.SLOWER
    assert trend._direction("read.iops", rises=True) == Outcome.FASTER
    assert trend._direction("sim.hit_ratio", rises=True) == Outcome.CHANGED


def test_over_commits_runs_of_one_are_together_and_others_are_left_out(store: Store) -> None:
    found = trend.of_study(store, "nightly", "read.bw", over=trend.COMMIT)
    assert (len(found.runs), found.without_commit) == (RUNS - 2, 2)
    assert trend_text.moment(found, of(found, "4KiB", "read.bw").steps[0].run) == f"c{CHANGE // 2}"
    assert "Runs without a commit are left out: 2." in map(str, trend_text.leads(found))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"study": "nightli"}, r"nightli: no run of this study in .*; did you mean 'nightly'\?"),
        ({"metric": "read.bww"}, r"--metric read.bww: no run of nightly has it; .* did you mean 'read.bw'\?"),
        ({"where": {"host": "a"}}, "nightly: none of 60 runs in .* with host=a"),
        ({"where": {"hots": "a"}}, r"runs have no such column; .*did you mean 'host'\?"),
        ({"since": datetime(2100, 1, 1, tzinfo=UTC)}, "nightly: none of 60 runs in .* since 2100-01-01"),
    ],
)
def test_what_no_run_has_is_refused(store: Store, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        trend.of_study(store, **{"study": "nightly", **changes})


def test_an_empty_history_says_how_to_fill_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no runs; put some there with: ioassay history add RUN"):
        trend.of_study(history_store.open(tmp_path), "nightly")


def test_a_risk_is_that_of_all_series_and_found_changes_leave_it_to_the_others() -> None:
    def series(name: str, size: float, seed: int) -> Series:
        noise = np.random.default_rng(seed).normal(0, 0.01, 40)
        noise[20:] += size
        day = datetime(2026, 1, 1, tzinfo=UTC)
        values = tuple(trend.Value(str(i), day, float(v), 3, True) for i, v in enumerate(np.exp(noise)))
        return Series("h", name, "read.bw", values)

    runs = {str(i): {"commit": "", **dict.fromkeys(trend.FACTS, "")} for i in range(40)}
    edge = next(
        size
        for size in np.arange(0.005, 0.03, 0.0005)
        if 0.005 < (trend.change_points([v.value for v in series("", size, 1).values]).p) < 0.024
    )
    weak = series("weak", edge, 1)
    steady = [series(f"steady {seed}", 0.0, seed + 50) for seed in range(7)]
    strong = [series(f"strong {seed}", 0.2, seed + 90) for seed in range(7)]
    assert trend._judged([weak, *steady], runs, 0.03)[0].outcome == Outcome.SAME
    assert trend._judged([weak, *strong], runs, 0.03)[0].outcome != Outcome.SAME


# Words


def test_the_first_sentence_answers_and_the_second_says_how_much_when_and_with_what(found: Trend) -> None:
    assert str(trend_text.headline(found)) == "Slower than before: 1 of 4 series."
    lead = str(trend_text.leads(found)[0])
    assert lead.startswith("Read bandwidth of bs=4KiB fell by ") and " % (95 % interval " in lead
    assert "on 2025-07-25, with kernel 6.9.7 → 6.10.3, mount options + discard, " in lead


def test_without_a_change_it_is_said_which_would_have_been_found(store: Store) -> None:
    found = trend.of_study(store, "nightly", "read.lat.p99")
    assert str(trend_text.headline(found)) == "No change in 2 series."
    assert " would be found in four of five such series." in str(trend_text.leads(found)[0])
    assert all(line.change.endswith(" would show") for line in trend_text.lines(found))


def test_too_few_runs_are_no_answer(store: Store) -> None:
    since = datetime.fromtimestamp(FIRST + (RUNS - 4) * DAY, UTC)
    found = trend.of_study(store, "nightly", since=since)
    text = str(trend_text.headline(found))
    assert text == "No answer yet: change points need 10 runs, and the longest series has 4."
    assert {line.change for line in trend_text.lines(found)} == {"– too few runs"}


def test_a_spark_line_is_the_series_in_small(found: Trend) -> None:
    spark = trend_text.spark(of(found, "4KiB", "read.bw"))
    assert len(spark) == 24
    assert min(spark[:14]) > max(spark[17:])


def test_json_has_all_values_and_changes(found: Trend) -> None:
    table = json.loads(json.dumps(trend_text.as_dict(found)))
    first = table["series"][0]
    assert (first["outcome"], first["n"], len(first["values"])) == ("slower", RUNS - 2, RUNS - 1)
    assert first["changes"][0]["facts"][0] == {"name": "kernel", "before": "6.9.7", "after": "6.10.3"}


def test_markdown_holds_no_markup_of_names(found: Trend) -> None:
    hostile = replace(found, title="<img src=x> @octocat |", series=(replace(found.series[0], condition="a|b `c`"),))
    text = trend_text.markdown(hostile)
    assert "<img" not in text.replace("\\<", "") and "@octocat" not in text
    assert {line.count("|") - line.count("\\|") for line in text.splitlines() if line.startswith("|")} == {7}
    assert "**Slower than before: 1 of 1 series.**" in text


# The page


def test_the_page_has_the_answer_the_panels_and_the_data(found: Trend, tmp_path: Path) -> None:
    page = trend_page.publish(found, tmp_path / "out", "ioassay history show nightly")
    text = page.read_text()
    assert "<h1>Slower than before: 1 of 4 series.</h1>" in text
    assert "kernel 6.9.7 → 6.10.3" in text and "ioassay history show nightly" in text
    assert text.count("<figure ") == 4
    assert len(list((page.parent / "figures").glob("*.png"))) == 4
    assert json.loads((page.parent / "trend.json").read_text())["study"] == "nightly"
    with pytest.raises(UsageError, match="exists already; expected a new or an empty folder"):
        trend_page.publish(found, tmp_path / "out", "")


def test_only_pages_near_the_page_are_linked(found: Trend, tmp_path: Path) -> None:
    near, far = tmp_path / "runs/a/report/index.html", tmp_path / "elsewhere/index.html"
    for path in (near, far):
        path.parent.mkdir(parents=True)
        path.touch()
    (tmp_path / "runs/page").mkdir()
    names = list(found.runs)[-2:]
    pages = dict(zip(names, (near, far), strict=True))
    runs = {name: {**run, "page": str(pages.get(name, ""))} for name, run in found.runs.items()}
    links = {run["run"]: link for run, link in trend_page._runs(replace(found, runs=runs), tmp_path / "runs/page")}
    assert [links[name] for name in names] == ["../a/report/index.html", ""]
    assert set(links.values()) == {"../a/report/index.html", ""}


def test_panels_mark_changes_and_hover_has_the_run(found: Trend) -> None:
    drawn = trend_page.panel(found, found.series[0], 1)
    text = json.dumps(drawn.spec, ensure_ascii=False)
    assert '"6.10.3"' in text and found.series[0].values[0].run in text
    assert f'"label": "{trend_text.size(found.series[0], found.series[0].steps[0]).split(" (")[0]}"' in text
    assert "2025-07-25" in drawn.description
    over = trend_page.panel(replace(found, over=trend.COMMIT), found.series[0], 1)
    assert '"utc"' in text and '"utc"' not in json.dumps(over.spec)
