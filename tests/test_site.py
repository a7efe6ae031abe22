"""The site, built strictly and read as files without a server or a network; and the film of a session in README.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ioassay import metrics
from ioassay.cli import COMMANDS
from ioassay.drivers import DRIVERS
from ioassay.store import packed_page

ROOT = Path(__file__).parent.parent
GALLERY = ROOT / "docs" / "gallery"
SESSION = ROOT / "docs" / "images" / "session.svg"
SVG = "{http://www.w3.org/2000/svg}"
MOST_BYTES = 1_500_000
"""Of all records of the gallery together: they are in every clone."""
PATIENCE_MS = 120_000
HOME = re.compile("How fast is this storage")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a site that `./check site` would build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    return folder


@pytest.fixture
def requests() -> list[str]:
    """What the page of the test asked for, files apart."""
    return []


@pytest.fixture
def page(browser: Any, site: Path, requests: list[str]) -> Iterator[Any]:
    """The home page in a browser that can reach files only."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.route(re.compile(r"^(?!file:|data:|blob:|about:)"), lambda route: route.abort())
    context.set_default_timeout(PATIENCE_MS)
    opened = context.new_page()
    opened.on("request", lambda one: None if one.url.startswith(("file:", "data:")) else requests.append(one.url))
    opened.goto((site / "index.html").as_uri())
    opened.wait_for_selector("html.js")  # its script has run
    yield opened
    context.close()


# What the build makes


def test_the_reference_has_each_command_driver_metric_key_and_public_name(site: Path) -> None:
    commands, lists, names = (
        (site / "reference" / f"{name}.html").read_text() for name in ("commands", "lists", "metrics")
    )
    assert [name for name in COMMANDS if f"ioassay {name}<" not in commands] == []
    assert [name for name in DRIVERS if f"<code>{name}</code>" not in lists] == []
    assert [name for name in metrics.USUAL if f"<code>{name}</code>" not in names] == []
    assert "--destroy-data" in commands
    keys = (site / "reference" / "study-keys.html").read_text()
    assert "Number of processors that <code>nproc</code> was." in keys
    assert "<code>run.&lt;key&gt;</code>" in keys
    assert "<td><a href=#until>Until</a></td>" in keys.replace('"', "")
    page = (site / "reference" / "python-api.html").read_text()
    assert (
        "StudyError names the key that is wrong." in page
        and 'id="ioassay.packs.comparison.comparison_results.compare"' in page
    )


def test_links_to_documents_outside_docs_lead_to_pages_of_the_site(site: Path) -> None:
    names = "CONTRIBUTING.html CHANGELOG.html benches/index.html examples/index.html examples/simulate.py"
    assert [name for name in names.split() if not (site / name).is_file()] == []
    assert 'href="benches/index.html"' in (site / "witness.html").read_text()


def test_no_page_names_a_script_a_style_or_a_font_of_another_host(site: Path) -> None:
    loaded = re.compile(r'<(?:script|img|link|iframe)[^>]+(?:src|href)="?(https?:[^" >]+)')
    pages = {path: loaded.findall(path.read_text()) for path in site.rglob("*.html")}
    assert {path.name: links for path, links in pages.items() if links} == {}


def test_each_picture_of_the_gallery_opens_a_page_that_is_made_of_its_records(site: Path) -> None:
    document = (site / "gallery.html").read_text()
    opened = re.findall(r'<a href="(gallery/[\w/-]+\.html)"><img', document)
    archives = {path.name for path in GALLERY.iterdir()}
    assert len(opened) >= 5 and len(opened) == document.count("<img alt")
    assert archives == set(re.findall(r'href="gallery/([\w-]+\.tar\.xz)"', document))
    for name in opened:
        page = packed_page.unpacked((site / name).read_text())
        links = set(re.findall(r'href="([^"#:]+)"', page))
        assert links and [link for link in links if not (site / name).parent.joinpath(link).is_file()] == []
        assert str(ROOT) not in page and tempfile.gettempdir() not in page, name


def test_the_records_of_the_gallery_are_small_and_redacted() -> None:
    assert sum(path.stat().st_size for path in GALLERY.iterdir()) <= MOST_BYTES
    for path in GALLERY.iterdir():
        with tarfile.open(path) as archive:
            if all(entry.isdir() or entry.name.endswith(".parquet") for entry in archive.getmembers()):
                continue  # a made history, of no machine
            (manifest,) = (entry for entry in archive.getmembers() if Path(entry.name).name == "MANIFEST.json")
            assert json.load(archive.extractfile(manifest) or pytest.fail())["redacted"] is True, path
            assert not [entry.name for entry in archive.getmembers() if "/report/" in entry.name]


# How it is read


@pytest.mark.browser
def test_a_reader_navigates_and_searches_without_a_request_that_leaves(page: Any, requests: list[str]) -> None:
    assert HOME.search(page.content())
    page.locator(".md-tabs__link", has_text="Explanation").click()
    page.get_by_role("link", name="Verdicts", exact=True).first.click()
    page.wait_for_selector("h1:has-text('Verdicts')")
    page.locator(".md-logo").first.click()
    page.wait_for_function("document.title.startsWith('ioassay') || document.title.startsWith('Home')")
    page.wait_for_selector("html.js")
    page.locator("input[name=query]").click()
    page.locator("input[name=query]").fill("coordinated omissio")
    page.locator("input[name=query]").press("n")  # each key is a question: the hits of a first letter are others
    hit = page.locator(".md-search-result__link", has_text=re.compile("Time and latency|Glossary")).first
    hit.wait_for()
    hit.click()
    page.wait_for_url(re.compile("GLOSSARY.html"))
    assert requests == []


@pytest.mark.browser
def test_colours_follow_the_system_and_a_narrow_screen_scrolls_downwards_only(page: Any, site: Path) -> None:
    for scheme, lightness in (("light", range(200, 256)), ("dark", range(60))):
        page.emulate_media(color_scheme=scheme)
        page.reload()
        page.wait_for_function("getComputedStyle(document.body).backgroundColor !== ''")
        colours = page.evaluate(
            "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
        )
        assert all(colour in lightness for colour in colours), (scheme, colours)
    page.set_viewport_size({"width": 380, "height": 700})
    for name in ("index.html", "tutorials/measure-a-disk.html", "reference/commands.html", "figures.html"):
        page.goto((site / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 380, name
        assert page.locator(".md-header__button[for=__drawer]").first.is_visible()


@pytest.mark.browser
def test_a_page_of_the_gallery_opens_as_a_file_and_draws_its_figures(
    page: Any, site: Path, requests: list[str]
) -> None:
    page.goto((site / "gallery.html").as_uri())
    page.get_by_role("link", name="The page of load-latency").click()
    page.wait_for_url(re.compile("gallery/load-latency/report/index.html"))
    page.locator(".chart svg.marks:visible").first.wait_for()
    assert "How much load until requests wait?" in page.title()
    assert requests == []


# The film of a terminal session that README.md begins with, and what records it (setup/site/recording.py)


def texts(film: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(film).iter(f"{SVG}text")]


def test_a_session_is_typed_run_and_shown_as_it_was_printed(tmp_path: Path) -> None:
    commands = ["printf 'a < b\\n'; printf '\\033[31mred\\033[0m, plain\\n'", "seq 40; exit 3"]
    command = [sys.executable, str(ROOT / "setup/site/recording.py"), "film.svg", *commands]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=600)
    film = (tmp_path / "film.svg").read_text()
    shown = texts(film)
    assert {"$ p", f"$ {commands[0]}", "a < b", "red", ", plain", "20", "40"} <= set(shown)  # "1" may be gone
    assert '#ff7b72">red' in film
    steps = re.findall(r"translateY\(-?(\d+)px\)", film)
    assert len(set(steps)) >= sum(map(len, commands))


def test_the_film_of_the_readme_is_small_and_needs_neither_script_nor_network() -> None:
    film = SESSION.read_text()
    assert f"(docs/images/{SESSION.name})" in (ROOT / "README.md").read_text()
    assert len(film) < 400_000
    assert not re.search(r"<script|<foreignObject|@import|url\(|href=\"[^#]", film)
    typed = [text for text in texts(film) if text.startswith("$ ioassay ")]
    assert {"$ ioassay quick"} <= set(typed)
    assert any("the kernel confirms" in text for text in texts(film))
