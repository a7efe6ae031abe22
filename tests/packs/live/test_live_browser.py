"""The live page in a real browser, over a made-up run: what it shows and says, also when the run or its server ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S

from ioassay.packs.live.live_page import PageServer, RunState
from ioassay.records.record import Record
from ioassay.roles import CurrentRates, Rates, Trial

pytestmark = pytest.mark.browser
AGEING = """const later = setTimeout;
setTimeout = (call, wait, ...words) => wait > 3000 ? later(call, wait, ...words) : (age = () => call(...words), 0);"""
"""Numbers are old when a test calls `age`, and not after three seconds."""
HOSTILE = "<img src=x onerror=alert(1)>"


def trial(number: int) -> Trial:
    return Trial(f"{number}", "block", "fio", {"bs": f"{HOSTILE}{number}"}, {}, {}, {}, 0, 1, number)


def record(of: Trial) -> Record:
    kept = {"id": of.id, "study": of.study, "driver": of.driver, "point": of.point, "repetition": of.repetition}
    metrics = {"read.iops": 12_300.0, "read.lat.p99": 8e5}
    return Record(trial=kept, status="ok", started_unix_s=0.0, duration_s=2.0, metrics=metrics)


@pytest.fixture
def state() -> RunState:
    """A run whose first trial has ended and whose second one runs."""
    made = RunState(f"Title {HOSTILE}", Path("/runs/a #b"), 40, 60.0, map(trial, range(40)), clock=lambda: 9.0)
    made.started(trial(0))
    for second in range(5):
        made.measuring(trial(0), CurrentRates(second, Rates(1000.0, 4e6), "sda", Rates(1100.0, 5e6), 80_000.0))
    made.ended(trial(0), "ok")
    made.recorded(trial(0), record(trial(0)))
    made.started(trial(1))
    made.measuring(trial(1), CurrentRates(1.0, Rates(12_345.0, 50e6), "sda", Rates(13_000.0, 53e6), 81_000.0))
    return made


@pytest.fixture
def server(state: RunState) -> Iterator[PageServer]:
    made = PageServer(state)
    made.start()
    yield made
    state.end("complete", "The run has ended.")
    made.stop()


@contextmanager
def opened(browser: Any, server: PageServer, script: str = "", **context: Any) -> Iterator[tuple[Any, list[str]]]:
    """The page with its first news, and everything that went wrong; `script` runs before its own."""
    page = browser.new_context(**context).new_page()
    page.set_default_timeout(1000 * PATIENCE_S)
    page.add_init_script(script)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("request", lambda request: None if request.url.startswith(server.url) else wrong.append(request.url))
    page.goto(server.url, wait_until="domcontentloaded")
    page.wait_for_selector("#trials tr", state="attached")
    yield page, wrong
    page.context.close()


def texts(page: Any, *names: str) -> list[str]:
    return [page.inner_text(f"#{name}") for name in names]


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(23, 27, 33)")])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_shows_the_run_in_every_width_and_scheme(
    browser: Any, server: PageServer, scheme: str, paper: str, width: int
) -> None:
    context = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    with opened(browser, server, script="window.setTimeout = () => 0", **context) as (page, wrong):  # no number ages
        assert texts(page, "iops", "bandwidth", "latency") == ["12.3 k", "50 MB/s", "81 µs"]
        assert texts(page, "iops-source", "latency-source") == ["as fio states", "mean of sda"]
        assert texts(page, "counts") == ["1 of 40 trials"]
        assert page.inner_text("#now").startswith(f"Running: block bs={HOSTILE}1 #1")
        first = page.locator("#trials tr").first.locator("td").all_text_contents()
        assert first[2:] == ["ok", "Read IOPS: 12.3 k; Read total latency, 99th percentile: 800 µs", "2 s"]
        assert page.locator("#trials tr").count() == 40
        assert page.locator("#iops-chart path.tool").get_attribute("d").count("L") == 4
        assert page.title() == f"1/40 – Title {HOSTILE} – ioassay"
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == paper
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert wrong == []


def test_it_follows_the_run_and_says_calmly_that_it_ended(browser: Any, server: PageServer, state: RunState) -> None:
    with opened(browser, server, script=AGEING) as (page, wrong):
        state.measuring(trial(1), CurrentRates(2.0, None, "sda", Rates(7.0, 8e3)))
        page.wait_for_selector("#iops:text-is('7')")
        assert texts(page, "iops-source", "latency") == ["all requests of sda", "–"]
        state.ended(trial(1), "ok")
        state.started(trial(2))
        page.wait_for_selector("#iops-source:text-is('all requests of sda, in the trial before')")
        page.evaluate("age()")
        assert texts(page, "iops", "iops-source") == ["–", ""]
        state.end("complete", "The run has ended.", Path("/runs/a #b/report/index.html"))
        server.stop()
        page.wait_for_selector("#end", state="visible")
        assert texts(page, "end-text", "announcement") == ["The run has ended.", "The run has ended."]
        assert page.get_attribute("#report-link", "href") == "file:///runs/a%20%23b/report/index.html"
        assert not page.is_visible("#iops")
        page.wait_for_timeout(7000)
        assert not page.is_visible("#lost")
        assert wrong == []


ALONE = """
import sys
from pathlib import Path
from ioassay.packs.live.live_page import PageServer
from ioassay.packs.live.live_page import RunState
from ioassay.roles import Trial
state = RunState("Title", Path("/r"), 1, 9.0, [Trial("0", "s", "fio", {"x": 1}, {}, {}, {}, 0, 1, 0)])
server = PageServer(state)
server.start()
print(server.url, flush=True)
sys.stdin.read()
"""


def test_a_run_that_was_killed_is_named_as_that(browser: Any) -> None:
    pipe, page = subprocess.PIPE, browser.new_page()
    page.set_default_timeout(1000 * PATIENCE_S)
    with subprocess.Popen([sys.executable, "-c", ALONE], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        page.goto(process.stdout.readline().strip(), wait_until="domcontentloaded")
        page.wait_for_selector("#trials tr", state="attached")
        process.kill()
    page.wait_for_selector("#lost", state="visible")
    assert "It was killed" in page.inner_text("#lost")
    assert not page.is_visible("#end")
    page.close()


def test_a_screen_reader_hears_of_it_now_and_then_and_the_keyboard_reaches_everything(
    browser: Any, server: PageServer, state: RunState
) -> None:
    with opened(browser, server, script="Date.now = () => 1e12") as (page, _):  # no half a minute passes
        assert page.get_attribute("#announcement", "aria-live") == "polite"
        said = page.inner_text("#announcement")
        assert said.startswith("1 of 40 trials, about ")
        state.ended(trial(1), "ok")
        page.wait_for_selector("#counts:text('2 of 40')")
        assert page.inner_text("#announcement") == said
        assert page.locator("[aria-live]").count() == 1
        assert page.locator("svg[role=img][aria-label]").count() == 2
        state.end("complete", "The run has ended.", Path("/r/index.html"))
        page.wait_for_selector("#end", state="visible")
        reached = []
        for _ in range(4):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id"))
        assert reached == ["report-link", "copy", "follow", "scroll"]
