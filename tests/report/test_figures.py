"""All kinds of figures: every one is drawn, checked, rendered, and replaced by its reason when it cannot be."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import altair
import pytest
import synthetic
from charts import check, check_files, layers, mark, rows

from ioassay.errors import StudyError
from ioassay.report import figures, page
from ioassay.report.figures import default_figures
from ioassay.runner import worker_pool
from ioassay.store.dataset import Dataset
from ioassay.study import catalog

EXAMPLES: dict[str, dict[str, Any]] = {
    "bar": {"y": "read.bw"},
    "box": {"y": "read.bw"},
    "calls": {},
    "cdf": {"direction": "read", "latency": "lat"},
    "hosts": {"y": "read.bw"},
    "convergence": {"y": "read.bw"},
    "heatmap": {"x": "numjobs", "y": "numjobs", "value": "read.bw"},
    "latency_bar": {},
    "latency_heatmap": {},
    "lines": {"x": "numjobs", "y": "read.bw", "color": "numjobs"},
    "monitors": {"monitor": "cpu"},
    "multiples": {"studies": ["jobs"]},
    "order": {"y": "read.bw"},
    "path_costs": {"x": "numjobs"},
    "scaling": {"x": "numjobs", "y": "read.bw"},
    "search": {},
    "series": {"y": "read.bw"},
    "stack": {},
    "steady_window": {"y": "read.bw", "where": {"numjobs": 1}},
    "throughput_latency": {},
    "timeline": {},
    "trend": {"x": "numjobs", "y": "read.bw"},
    "twin_curves": {},
}
PUBLISHED = {
    *(f"task1_{pattern}_bw_{way}" for pattern in ("rw", "rand_rw") for way in "rw"),
    *(f"task2_bw_req_size_{way}" for way in "rw"),
    *(f"task3_bw_{way}" for way in "rw"),
    "task3_latency_bar",
    *(f"task3_{kind}_{way}_cdf_perc" for kind in ("lat", "clat", "slat") for way in "rw"),
    *(f"task4_numjobs_bw_{way}" for way in "rw"),
}


def records_for(kind: str, records: Dataset) -> Dataset:
    """What a kind needs and the made-up run has not."""
    if kind == "throughput_latency":
        return synthetic.with_percentiles(records)
    if kind == "path_costs":
        return synthetic.with_drive_counts(records)
    if kind in ("convergence", "steady_window"):
        return synthetic.in_rounds(records)
    if kind == "hosts":
        return synthetic.on_hosts(records)
    if kind == "latency_heatmap":
        return synthetic.with_histogram_logs(records, records.studies[3].name)
    return synthetic.as_search(records) if kind == "search" else records


@pytest.fixture(autouse=True)
def learned_drive(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run measured of a drive, in place of a fit."""
    from ioassay.packs.ssd.questions import twin
    from ioassay.packs.ssd.twin.loads import Fit, Load, Residual

    loads = [Load(f"read-{depth}", "depths", "read", 4096, depth) for depth in (1, 4, 16)]
    fit = Fit({}, (), tuple(Residual(load, twin.MEAN, 60.0, 61.0, is_fitted=True) for load in loads))
    monkeypatch.setattr(twin, "learned", lambda _root: twin.Learned("disk", 2**30, True, (), fit))


def example(kind: str) -> dict[str, Any]:
    return {"kind": kind, "name": f"a_{kind}", **EXAMPLES[kind]}


def test_there_is_an_example_of_every_kind() -> None:
    assert EXAMPLES.keys() == figures.FIGURES.keys()


@pytest.mark.parametrize("kind", figures.FIGURES)
def test_every_kind_is_drawn_and_rendered(suite: Dataset, kind: str, tmp_path: Path) -> None:
    records = records_for(kind, suite)
    drawn = synthetic.draw(records, records.studies[3], example(kind))
    assert drawn.problem == "" and drawn.title and drawn.description.startswith(drawn.title.replace("\xa0", " "))
    check_files(drawn, tmp_path)


@pytest.mark.parametrize("kind", figures.FIGURES)
def test_declarations_are_valid_by_the_schema_of_vega_lite(suite: Dataset, lost: Dataset, kind: str) -> None:
    for records in (records_for(kind, suite), records_for(kind, lost)):
        drawn = synthetic.draw(records, records.studies[3], example(kind))
        check(drawn.spec)


@pytest.mark.parametrize("kind", figures.FIGURES)
def test_a_figure_whose_trials_all_failed_says_so(lost: Dataset, kind: str) -> None:
    drawn = synthetic.draw(lost, lost.studies[3], example(kind))
    failed = "the only trial with numjobs = 1 failed" if "where" in EXAMPLES[kind] else "none of the 5 trials went well"
    assert f"{failed}: fio did no I/O: file:io_setup failed" in drawn.problem
    text = json.dumps(drawn.spec)
    assert "Nothing to draw" in text
    assert "io_setup failed" in text


@pytest.mark.parametrize("kind", figures.FIGURES)
def test_charts_name_only_roles_that_both_schemes_colour(suite: Dataset, kind: str) -> None:
    records = records_for(kind, suite)
    drawn = synthetic.draw(records, records.studies[3], example(kind))
    assert all(rows(layer) for layer in layers(drawn.spec)), "an empty layer makes Vega warn on the console"
    used = {mark(layer)["style"] for layer in layers(drawn.spec) if "style" in mark(layer)}
    assert used <= page.config()["style"].keys()
    sizes = re.findall(r'[fF]ontSize": ([\d.]+)', json.dumps([drawn.spec, page.config()]))
    assert min(map(float, sizes)) >= 13
    assert page.config().keys() == page.config(dark=True).keys()
    assert "#" not in re.sub(r'"description":"[^"]*"', "", json.dumps(drawn.spec))


@pytest.mark.parametrize("kind", figures.FIGURES)
def test_an_unknown_key_is_refused_with_those_that_are_known(kind: str) -> None:
    study = synthetic.study("jobs", "Jobs", {}, [{**example(kind), "colour": "rw"}])
    with pytest.raises(StudyError, match=rf"jobs: figures\.a_{kind}\.colour: unknown key .* known: title, where"):
        figures.check(study)


def test_an_unknown_kind_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(
        StudyError, match=r"figures\.a\.kind: no kind of figure is called 'pie'; known: bar, box, calls, cdf"
    ):
        figures.check(synthetic.study("s", "S", {}, [{"kind": "pie", "name": "a"}]))


def test_a_missing_key_and_a_wrong_value_are_named() -> None:
    with pytest.raises(StudyError, match=r"figures\.a\.y: is missing; a figure of kind 'trend' needs it"):
        figures.check(synthetic.study("s", "S", {}, [{"kind": "trend", "name": "a", "x": "bs"}]))
    with pytest.raises(StudyError, match=r"figures\.a\.error: .*'sd', 'ci' or 'none'.*found 'se'"):
        figures.check(synthetic.study("s", "S", {}, [{"kind": "bar", "name": "a", "y": "read.bw", "error": "se"}]))


def test_the_built_in_studies_ask_for_all_published_figures() -> None:
    suite = catalog.load("block-io")
    for study in suite.studies:
        figures.check(study)
    assert {figure.name for study in suite.studies for figure in study.figures} == PUBLISHED


def test_a_study_without_figures_gets_some_for_its_responses_and_latencies(suite: Dataset) -> None:
    names = {study.name: [figure.name for figure in default_figures.of_study(suite, study)] for study in suite.studies}
    assert names["block-size"] == [
        "read_bw_by_bs",
        "write_bw_by_bs",
        "read_lat_cdf",
        "write_lat_cdf",
        "cpu_by_bs",
        "timeline",
    ]
    assert names["mixed-sizes"][0] == "read_bw_by_case"
    for figure in default_figures.of_study(suite, suite.studies[2]):
        assert figures.draw(suite, suite.studies[2], figure).problem == ""
    first = default_figures.of_study(suite, suite.studies[0])[0].model_dump()
    assert (first["kind"], first["x"], first["color"]) == ("trend", "rwmixwrite", "rw")


def test_workers_get_their_scaling_and_what_was_watched_is_shown(suite: Dataset) -> None:
    chosen = default_figures.of_study(suite, suite.studies[3])
    kinds = ["scaling", "scaling", "cdf", "cdf", "stack", "timeline", "calls"]
    assert [figure.kind for figure in chosen] == kinds
    assert chosen[5].model_dump()["panels"] == ["cpu", "disk"]
    for figure in chosen:
        assert figures.draw(suite, suite.studies[3], figure).problem == ""
    unwatched = replace(suite, samples=suite.samples.clear(), calls=suite.calls.clear())
    assert [figure.kind for figure in default_figures.of_study(unwatched, suite.studies[3])] == kinds[:4]


def test_a_study_of_one_condition_shows_its_run_order(tmp_path: Path) -> None:
    study = synthetic.study("one", "One", {}, [], rw="randrw")
    records = synthetic.run(tmp_path, [study], 4)
    chosen = default_figures.of_study(records, study)
    assert [figure.kind for figure in chosen] == ["order", "order", "timeline"]
    assert figures.draw(records, study, chosen[0]).problem == ""


def test_hostile_levels_stay_text(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>"
    cases = [{"name": hostile}, {"name": "' + alert(1) + '"}]
    study = synthetic.mixed_sizes().model_copy(update={"case": cases})
    records = synthetic.run(tmp_path, [study], 2)
    drawn = synthetic.draw(records, study, {"kind": "bar", "name": "a", "y": "read.bw"})
    assert "<script>" not in page.svg(drawn.spec)


def test_a_still_picture_of_a_plugin_s_chart_is_clipped_as_it_says() -> None:
    chart = altair.Chart(altair.Data(values=[{"x": 1}])).mark_point(clip=True).encode(x="x:Q").interactive()
    assert all("<clipPath" in page.svg(one.to_dict()) for one in (chart, altair.layer(chart)))


@pytest.mark.parametrize(("number", "drawing"), [(3, [3, 0, 0]), (40, [14, 13, 13]), (0, [0, 0, 0])])
def test_many_figures_are_shared_out_and_a_few_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, drawing: list[int]
) -> None:
    class Counting(worker_pool.InlineExecutor):
        vectors = 0

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            self.vectors += fn is page.write_svg
            # A picture is begun by who waits.
            return super().submit(fn, *args, **kwargs) if fn is page.write_svg else Future()

    monkeypatch.setattr(page, "svg", lambda spec: spec["drawn"])
    monkeypatch.setattr(page, "png", str.encode)
    charts = [figures.Drawn("", f"figure.{at}", "bar", "", "", {"drawn": str(at)}) for at in range(number)]
    executors = [Counting(), Counting(), Counting()]
    written = [path for pair in page.submit(charts, tmp_path, executors)() for path in pair]
    named = [tmp_path / f"{one.name}.{kind}" for one in charts for kind in ("png", "svg")]
    assert {path: path.read_text() for path in written} == {path: path.stem.split(".")[1] for path in named}
    assert [one.vectors for one in executors] == drawing
