"""The page of a comparison: complete, small, escaped, and readable in a browser in every form."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ioassay.analysis.condition_comparison import Verdict
from ioassay.packs.comparison import comparison_charts, comparison_results, run_comparison
from ioassay.packs.comparison.run_comparison import DRIVES, Comparison, Difference, Unmatched
from ioassay.report import figures
from ioassay.store import packed_page
from ioassay.store.dataset import Dataset

from ...report.opened_pages import opened
from . import compared_runs
from .compared_runs import comparison, row

HOSTILE = '<script>alert("x")</script>\'"&</style>'


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Dataset]:
    return compared_runs.runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def built(both: tuple[Dataset, Dataset], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(both, run_comparison.compare(*both), tmp_path_factory.mktemp("page"))


def build(both: tuple[Dataset, Dataset], found: Comparison, out: Path) -> Path:
    return comparison_results.build(*both, found, comparison_results.declare(*both, found), out)


def _figures(page: Path) -> list[Path]:
    return sorted((page.parent / "figures").iterdir())


def text(page: Path) -> str:
    """What is read of a page with all that is folded, without its scripts, styles and tags."""
    unpacked = packed_page.unpacked(page.read_text())
    opened = re.sub(r'<script type="application/gzip">(.*?)</script>', r"\1", unpacked, flags=re.S)
    whole = re.sub(r"<(script|style)\b.*?</\1>", "", opened, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", whole))


def test_the_verdict_comes_first_then_the_picture_then_both_runs_the_table_and_the_conditions(
    built: Path,
) -> None:
    page = built.read_text()
    places = [
        page.index(f'id="{name}"') for name in ("verdict", "figure-ratios", "runs", "rows", "conditions", "method")
    ]
    assert places == sorted(places)
    read = text(built)
    assert "B is slower than A in 22 of 72 comparisons and faster in 10." in read
    assert "▼ 22 slower" in read
    assert "Worst: block-size" in read


def test_every_figure_has_its_files_and_the_data_all_rows(built: Path) -> None:
    names = re.findall(r'id="figure-([\w-]+)"', built.read_text())
    assert "ratios" in names and "block-size-read-bw" in names and "mixed-sizes-latencies" in names
    assert {path.stem for path in _figures(built)} == set(names)
    assert all(path.stat().st_size > 1000 for path in _figures(built))
    data = json.loads(built.with_name("comparison.json").read_text())
    assert len(data["rows"]) == 72 and data["regression"]


def test_studies_whose_names_differ_in_odd_letters_have_files_of_their_own(
    both: tuple[Dataset, Dataset], tmp_path: Path
) -> None:
    names = {"jobs": "a b", "block-size": "a/b"}
    a, b = (renamed(one, names) for one in both)
    page = build((a, b), run_comparison.compare(a, b), tmp_path)
    stems = [png.stem for png in _figures(page) if png.suffix == ".png"]
    assert len(set(stems)) == len(stems) and "a-b-read-bw" in stems


def renamed(records: Dataset, names: dict[str, str]) -> Dataset:
    studies = [one.model_copy(update={"name": names[one.name]}) for one in records.studies if one.name in names]
    of_study = pl.col("study").replace(names)
    return replace(records, studies=studies, trials=records.trials.with_columns(of_study))


def test_a_run_is_linked_only_where_its_page_is_near(both: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    near, far = tmp_path / "here" / "A", tmp_path / "elsewhere" / "B"
    for folder in (near, far):
        (folder / "report").mkdir(parents=True)
        (folder / "report" / "index.html").touch()
    a, b = (replace(one, root=root) for one, root in zip(both, (near, far), strict=True))
    found = comparison(row(1, 0.5, Verdict.SLOWER))
    (tmp_path / "here" / "page").mkdir()
    page = comparison_results.build(a, b, found, [], tmp_path / "here" / "page").read_text()
    assert 'href="../A/report/index.html"' in page and "elsewhere" not in page


def test_it_needs_no_network(built: Path) -> None:
    page = re.sub(r"<script.*?</script>", "", built.read_text(), flags=re.S)
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page)


def ratios(found: Comparison) -> list[figures.Drawn]:
    return [figures.drawn("", "ratios", "forest", comparison_charts.forest(found))]


def test_a_stranger_cannot_write_into_the_page(both: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    found = comparison(
        replace(row(1, 0.5, Verdict.SLOWER), study=HOSTILE, label=HOSTILE),
        replace(row(2, None), label=HOSTILE, response=HOSTILE),
    )
    found = replace(
        found,
        differences=(Difference(HOSTILE, f"params.{HOSTILE}", HOSTILE, 1), DRIVES),
        only_a=(Unmatched(HOSTILE, HOSTILE, HOSTILE),),
        only_b=(Unmatched(HOSTILE),),
    )
    drawn = ratios(found)
    page = packed_page.unpacked(comparison_results.build(*both, found, drawn, tmp_path).read_text())
    assert HOSTILE not in page and "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_thousands_of_rows_make_a_page_that_is_small_and_made_quickly(
    both: tuple[Dataset, Dataset], tmp_path: Path
) -> None:
    rows = [row(number, 1 + number / 10_000, list(Verdict)[number % 5]) for number in range(10_000)]
    began_s = time.process_time()
    found = comparison(*rows)
    page = comparison_results.build(*both, found, ratios(found), tmp_path)
    assert time.process_time() - began_s < 60
    assert page.stat().st_size < 3e6
    assert len(json.loads(page.with_name("comparison.json").read_text())["rows"]) == 10_000
    read = text(page)
    assert "The other comparisons (1960)" in read and "8000 more are in comparison.json" in read


def test_rows_without_a_ratio_have_no_picture_but_their_reason(both: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    first = [replace(one, trials=one.trials.filter(pl.col("repetition") == 0)) for one in both]
    page = build((first[0], first[1]), run_comparison.compare(*first), tmp_path)
    read = text(page)
    assert "No row has a ratio" in read
    assert "a condition has one repetition only" in read and "not compared" in read
    assert 'id="figure-ratios"' not in page.read_text()


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_means_without_a_ratio_leave_the_other_rows(
    both: tuple[Dataset, Dataset], tmp_path: Path, value: float
) -> None:
    a, b = both
    odd = replace(b, trials=b.trials.with_columns(pl.lit(value).alias("read.bw")))
    read = text(build((a, odd), run_comparison.compare(a, odd), tmp_path))
    assert "B is " in read and "write bandwidth" in read


def test_what_differs_and_what_one_run_lacks_is_listed(both: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    a, b = both
    jobs = [study.model_copy(update={"params": {**study.params, "iodepth": 1}}) for study in b.studies[1:]]
    other = replace(b, studies=jobs, host={**b.host, "kernel": {"release": "7.0"}})
    page = build((a, other), run_comparison.compare(a, other), tmp_path)
    read = text(page)
    assert "conditions, and each can have caused a change" in read
    assert "params.iodepth 16 1" in read and "kernel.release" in read
    assert "Only in A (1) study write-share" in read


def test_one_condition_that_differs_may_be_what_was_compared(both: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    a, b = both
    other = replace(b, host={**b.host, "kernel": {"release": "7.0"}})
    read = text(build((a, other), run_comparison.compare(a, other), tmp_path))
    assert "The runs differ in one condition: kernel.release" in read


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_first_screen_has_the_verdict_and_the_picture(browser: Any, built: Path, scheme: str) -> None:
    size = {"width": 1280, "height": 900}
    with opened(browser, built, color_scheme=scheme, viewport=size) as (page, wrong):
        assert page.locator("h1").inner_text().startswith("B is slower than A in 22")
        picture = page.locator("#chart-ratios svg.marks").bounding_box()
        assert picture["y"] < 400 and picture["width"] > 700
        drawn = "all => all.map(one => [one.dataset.state, !!one.querySelector('svg.marks path')])"
        assert set(map(tuple, page.eval_on_selector_all(".chart", drawn))) == {("drawn", True)}
        assert not page.locator("ol.bars").is_visible()
        assert wrong == []


@pytest.mark.browser
def test_a_long_metric_leaves_room_for_the_last_column(browser: Any, built: Path) -> None:
    with opened(browser, built, viewport={"width": 1280, "height": 900}) as (page, wrong):
        name = "P99 of time of an operation of readmissing"
        page.evaluate(f"document.querySelectorAll('#rows td:nth-child(2)').forEach(one => one.textContent = '{name}')")
        assert page.evaluate("(one => one.scrollWidth - one.clientWidth)(document.querySelector('#rows .scroll'))") <= 0
        assert wrong == []


@pytest.mark.browser
def test_a_telephone_has_bars_instead_of_the_wide_picture(browser: Any, built: Path) -> None:
    with opened(browser, built, viewport={"width": 400, "height": 800}) as (page, wrong):
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert not page.locator("#figure-ratios").is_visible()
        bars = page.locator("ol.bars li")
        assert bars.count() == 12 and "▼" in bars.first.inner_text()
        assert bars.first.locator("svg").bounding_box()["width"] > 250
        assert wrong == []


@pytest.mark.browser
def test_print_shows_no_menu_and_fits_the_paper(browser: Any, built: Path) -> None:
    with opened(browser, built, viewport={"width": 720, "height": 900}) as (page, wrong):
        page.emulate_media(media="print")
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert not page.locator("nav").is_visible()
        assert page.locator(".vega-actions:visible").count() == 0
        assert page.locator("#rows table").first.bounding_box()["width"] <= 720
        assert wrong == []


@pytest.mark.browser
def test_the_keyboard_reaches_the_results_and_every_table(browser: Any, built: Path) -> None:
    with opened(browser, built) as (page, wrong):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
        regions = page.locator("[role=region]")
        assert regions.count() >= 2
        labels = [regions.nth(place).get_attribute("aria-label") for place in range(regions.count())]
        assert all(labels)
        assert all(regions.nth(place).get_attribute("tabindex") == "0" for place in range(regions.count()))
        assert page.locator("#chart-ratios [role=graphics-document]").get_attribute("aria-label").startswith("B is")
        assert wrong == []
