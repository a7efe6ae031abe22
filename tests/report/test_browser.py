"""The page in a real browser, from a file, with the network off."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from opened_pages import opened
from tests.patience import until

from ioassay import report
from ioassay.narrative.pipeline import analyse_all
from ioassay.store.dataset import Dataset

pytestmark = pytest.mark.browser
FIGURES = 19


@pytest.fixture(scope="module")
def page_path(suite: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the whole suite, with all its figures."""
    out = tmp_path_factory.mktemp("browser") / "report"
    return report.build(suite, analyse_all(suite), out, title="Block I/O").page


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(23, 27, 33)")])
def test_every_chart_is_drawn_without_network_and_without_a_word_on_the_console(
    browser: Any, page_path: Path, scheme: str, paper: str
) -> None:
    with opened(browser, page_path, color_scheme=scheme) as (page, wrong):
        drawn = "all => all.map(one => [one.dataset.state, !!one.querySelector('svg.marks path')])"
        assert page.eval_on_selector_all(".chart", drawn) == [["drawn", True]] * FIGURES
        assert wrong == []
        assert papers(page) == {paper}


def papers(page: Any) -> set[str]:
    """The background colours of the charts."""
    return set(
        page.eval_on_selector_all(".chart svg.marks", "all => all.map(one => getComputedStyle(one).backgroundColor)")
    )


def test_a_chart_tells_its_numbers_and_what_it_shows(browser: Any, page_path: Path) -> None:
    with opened(browser, page_path) as (page, wrong):
        chart = page.locator("#chart-task3_bw_r")
        told = chart.locator("[role=graphics-document]").get_attribute("aria-label")
        assert told.startswith("Read bandwidth by case.")
        assert "64k: " in told
        chart.locator(".mark-rect path").first.hover(force=True)
        tooltip = page.locator("#vg-tooltip-element.visible")
        tooltip.wait_for()
        assert "MB/s" in tooltip.inner_text()
        assert wrong == []


def test_what_is_folded_is_unpacked_when_it_is_opened(browser: Any, page_path: Path, suite: Dataset) -> None:
    with opened(browser, page_path) as (page, wrong):
        fold = page.locator("#trials details.bulk")
        assert fold.locator("tbody tr").count() == 0
        fold.locator("summary").press("Enter")
        fold.locator("tbody tr").first.wait_for(state="visible")
        assert fold.locator("tbody tr").count() == suite.trials.height
        assert wrong == []


def test_the_first_screen_has_the_picture_the_answer_and_the_trust_line(browser: Any, page_path: Path) -> None:
    with opened(browser, page_path, viewport={"width": 1280, "height": 900}) as (page, _):
        for part in (".hero .chart svg", ".hero .answer p"):
            box = page.locator(part).first.bounding_box()
            assert box["y"] + min(box["height"], 200) <= 900, part


def test_the_page_fits_a_telephone_and_follows_a_change_of_scheme(browser: Any, page_path: Path) -> None:
    with opened(browser, page_path, viewport={"width": 400, "height": 800}, color_scheme="light") as (page, wrong):
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.emulate_media(color_scheme="dark")
        page.wait_for_selector("html[data-charts=dark][data-state=drawn]", state="attached")
        assert papers(page) == {"rgb(23, 27, 33)"}
        assert wrong == []


DRAWN = """all => all.map(chart => {
  const picture = chart.querySelector(".marks"), shown = picture.getBoundingClientRect().width;
  const sizes = [...picture.querySelectorAll("text")].map(text => parseFloat(getComputedStyle(text).fontSize));
  return [chart.dataset.name, chart.clientWidth, shown, Math.min(...sizes) * shown / picture.getAttribute("width")];
})"""
"""Name, room, width and the size of the smallest text of each chart."""


FITTING = """document.documentElement.dataset.state === "drawn" &&
[...document.querySelectorAll(".chart")].every(chart => {
  const picture = chart.querySelector("svg.marks");
  return picture && picture.getBoundingClientRect().width <= chart.clientWidth;
})"""
"""Every chart is drawn, and none is wider than its room."""


def test_charts_are_drawn_for_the_width_of_the_page_with_text_of_full_size(browser: Any, page_path: Path) -> None:
    with opened(browser, page_path, viewport={"width": 400, "height": 800}) as (page, wrong):
        page.eval_on_selector_all("details.fold:not(.bulk)", "all => all.forEach(fold => { fold.open = true; })")
        until(lambda: page.evaluate(FITTING))
        narrow = page.eval_on_selector_all(".chart", DRAWN)
        assert [name for name, room, width, _ in narrow if width > room] == []
        assert [name for name, _, _, text in narrow if text < 11] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.set_viewport_size({"width": 1280, "height": 800})
        width = "+document.querySelector('#chart-overview svg.marks')?.getAttribute('width')"
        until(lambda: page.evaluate(f"{width} > 800"))
        assert wrong == []


def test_print_opens_what_is_folded_and_shows_no_navigation(browser: Any, page_path: Path) -> None:
    with opened(browser, page_path) as (page, wrong):
        page.emulate_media(media="print")
        assert not page.locator("nav").is_visible()
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details.fold:not(.bulk):not([open])").count() == 0
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert page.locator("details.fold:not(.bulk):not([open])").count() > 0
        assert wrong == []


def test_without_scripts_the_figures_are_pictures(browser: Any, page_path: Path) -> None:
    page = browser.new_context(offline=True, java_script_enabled=False).new_page()
    page.set_default_timeout(240_000)
    page.goto(page_path.as_uri())
    pictures = page.locator("noscript img")
    assert pictures.count() == FIGURES
    for fold in page.locator("details.fold:not(.bulk):has(figure) > summary").all():
        fold.click()
    assert min(picture.bounding_box()["width"] for picture in pictures.all()) > 300
    page.context.close()


def test_a_table_is_sorted_by_the_head_that_is_chosen_and_saved_as_csv(browser: Any, page_path: Path) -> None:
    with opened(browser, page_path) as (page, wrong):
        page.locator("summary", has_text="Values of all conditions").first.press("Enter")
        table = page.locator(".tabled", has_text="Read bandwidth").filter(visible=True).first
        head = table.locator("thead th", has_text="Read bandwidth")
        for order in ("ascending", "descending"):
            head.press("Enter")
            assert head.get_attribute("aria-sort") == order
            column = f"td:nth-child({head.evaluate('one => one.cellIndex + 1')})"
            values = table.locator(column).evaluate_all("all => all.map(one => one.dataset.value).filter(one => one)")
            numbers = [float(value) for value in values]
            assert numbers == sorted(numbers, reverse=order == "descending") and len(set(numbers)) > 2
        with page.expect_download() as saved:
            table.locator("button", has_text="CSV").click()
        heads, *rows = csv.reader(saved.value.path().read_text().splitlines())
        place = heads.index("Read bandwidth (bytes/s)")
        assert heads[place + 1 : place + 3] == ["low", "high"]
        assert [row[place] for row in rows if row[place]] == values
        assert wrong == []
