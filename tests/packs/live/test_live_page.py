"""`ioassay.LivePage`: the page of a run that a program starts, from before the run to its end."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import ioassay as ia
from ioassay.roles import Trial

from ...api.conftest import HOSTILE, computed

LONG_S = 240


class Reader:
    """A browser that follows a page to its end, from the moment on when this is made."""

    def __init__(self, page: ia.LivePage, pool: ThreadPoolExecutor) -> None:
        self._follows = threading.Event()
        self._news = pool.submit(self._read, f"{page.url}events")
        assert self._follows.wait(LONG_S)

    def _read(self, url: str) -> list[dict[str, Any]]:
        news = []
        with urllib.request.urlopen(url, timeout=LONG_S) as lines:
            for line in lines:
                if line.startswith(b"data: "):
                    news.append(json.loads(line[6:]))
                    self._follows.set()
        return news

    def news(self) -> list[dict[str, Any]]:
        return self._news.result(LONG_S)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_a_page_waits_for_its_run_shows_it_and_names_the_report(
    pool: ThreadPoolExecutor, capfd: pytest.CaptureFixture[str]
) -> None:
    with ia.LivePage() as page:
        reader = Reader(page, pool)
        run = computed().run("out", progress=page, workers=1)
        page.publishing()
        report = run.report()
    waiting, last = reader.news()[0], reader.news()[-1]
    assert (waiting["title"], waiting["folder"], waiting["total"]) == ("Waiting for the run", "", 0)
    assert (last["title"], last["folder"], last["total"]) == (HOSTILE, str(Path("out").absolute()), 6)
    assert last["counts"] == {"ok": 6} and (last["end"], last["report"]) == ("complete", str(report.absolute()))
    assert capfd.readouterr() == ("", "")


def test_a_search_adds_its_trials_and_a_page_may_be_a_bar_as_well(pool: ThreadPoolExecutor) -> None:
    class Bar(ia.LivePage):
        ends = 0

        def ended(self, trial: Trial, status: str) -> None:
            super().ended(trial, status)
            self.ends += 1

    with Bar() as page:
        reader = Reader(page, pool)
        search = ia.tune(computed(), maximize="value", trials=4, output="found", progress=page, workers=1)
    last = reader.news()[-1]
    assert sum(last["counts"].values()) == page.ends >= search.history.height > 0


@pytest.mark.parametrize(
    ("error", "end", "text"),
    [
        (ValueError("mine\n<b>"), "failed", "The run ended with an error: mine\\n<b>"),
        (ia.Interrupted("interrupted; resume it"), "interrupted", "The run was interrupted; resume it"),
        (KeyboardInterrupt(), "interrupted", "The run was interrupted"),
    ],
)
def test_an_error_in_the_context_is_the_end_that_the_page_shows(
    pool: ThreadPoolExecutor, error: BaseException, end: str, text: str
) -> None:
    with pytest.raises(type(error)), ia.LivePage() as page:
        reader = Reader(page, pool)
        raise error
    last = reader.news()[-1]
    assert (last["end"], last["end_text"], last["report"]) == (end, text, "")


def test_a_page_shows_one_run_and_has_an_address_while_it_is_served() -> None:
    page = ia.LivePage()
    assert "not served" in page._repr_html_()
    with pytest.raises(ia.UsageError, match="no address before it is served"):
        page.url.upper()
    with page:
        computed().run("one", progress=page, workers=1)
        with pytest.raises(ia.UsageError, match=r"shows the run .*one; expected a LivePage of its own for two"):
            computed().run("two", progress=page, workers=1)
        assert page.url in repr(page) and f'href="{page.url}"' in page._repr_html_()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(page.url, timeout=LONG_S)
