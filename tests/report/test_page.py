"""The page: complete, self-contained, and safe against what tools print."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import synthetic

from ioassay import report
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.pipeline import analyse_all
from ioassay.report import page
from ioassay.store import packed_page
from ioassay.store.dataset import Dataset

HOSTILE = '<script>alert("x")</script>\'"&</style>'


class Elements(html.parser.HTMLParser):
    """Every start tag with its attributes, every script's text, and the visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text: list[str] = []
        self._inside: tuple[str, dict[str, str | None]] = ("", {})
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = (tag, dict(attrs))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self._inside[0] == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self._inside[0] != "style":
            self.text.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._inside = ("", {})


def small_run(root: Path, **changes: object) -> Dataset:
    """Eight trials of a study with hostile names, one of them failed, with records on disk."""
    study = synthetic.mixed_sizes()
    words = {"title": f"Sizes {HOSTILE}", "description": HOSTILE}
    cases = [{"name": "4k"}, {"name": HOSTILE}]
    study = study.model_copy(update={**words, "case": cases, "figures": study.figures[2:4]})
    records = synthetic.run(root, [study], 2)
    failed = pl.arange(pl.len()) == 3
    trials = records.trials.with_columns(
        status=pl.when(failed).then(pl.lit("failed")).otherwise("status"),
        reason=pl.when(failed).then(pl.lit(f"fio printed {HOSTILE}")).otherwise("reason"),
    )
    for trial in trials["trial"]:
        raw = root / "trials" / trial / "raw"
        raw.mkdir(parents=True)
        command = ["fio", f"--output={raw}/fio.json", f"{raw}/job file.fio"]
        content = {"command": command, "raw": ["fio.json", "<b>.log"]}
        (raw.parent / "record.json").write_text(json.dumps(content))
    (root / "study.toml").write_text(f"title = '{HOSTILE}'\n")
    return replace(records, trials=trials, host={"cpu": {"model": HOSTILE}, "flags": [HOSTILE]}, **changes)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, report.ReportPaths, str]:
    """A small run's report and the text of its page."""
    root = tmp_path_factory.mktemp("run") / "a run"
    root.mkdir()
    records = small_run(root)
    paths = report.build(records, analyse_all(records), root / "report", title=f"Title {HOSTILE}")
    whole = packed_page.unpacked(paths.page.read_text())
    return records, paths, re.sub('<script type="application/gzip">(.*?)</script>', r"\1", whole, flags=re.DOTALL)


def test_everything_is_written_where_it_is_said(built: tuple) -> None:
    records, paths, _ = built
    assert paths.page == records.root / "report" / "index.html"
    assert [figure.name for figure in paths.figures] == ["task3_latency_bar", "task3_lat_r_cdf_perc"]
    for figure in paths.figures:
        assert figure.png == records.root / "report" / "figures" / f"{figure.name}.png"
        assert figure.png.stat().st_size > 1000
        assert figure.svg.stat().st_size > 1000
    findings = json.loads(paths.findings.read_text())
    assert {finding["question"] for finding in findings} >= {"conclude", "describe"}


def test_nothing_from_outside_is_asked_for(built: tuple) -> None:
    elements = Elements(built[2])
    for tag, attributes in elements.tags:
        for name in ("src", "href", "action", "srcset", "data"):
            assert not re.match(r"(https?:)?//", attributes.get(name) or ""), (tag, attributes)
    assert not re.search(r"url\(|@import", (page.TEMPLATE / "style.css").read_text())


def test_all_colours_are_those_of_the_theme() -> None:
    variables = set(re.findall(r"(--[\w-]+):", page.css_variables()))
    used: set[str] = set()
    for path in page.TEMPLATE.glob("*.*"):
        text = path.read_text()
        used |= set(re.findall(r"var\((--[\w-]+)\)", text))
        assert path.suffix == ".js" or not re.search(r":[^;{]*#[0-9a-fA-F]{3,8}\b[^{]*;", text), path
    assert used == variables


def test_only_our_scripts_may_run(built: tuple) -> None:
    elements = Elements(built[2])
    policy = next(found["content"] for tag, found in elements.tags if found.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe-eval" not in policy
    run = [text for attributes, text in elements.scripts if "type" not in attributes]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run]
    assert len(run) == 2
    assert re.findall(r"'sha256-([^']+)'", policy) == hashes


def test_what_tools_print_stays_text(built: tuple) -> None:
    elements = Elements(built[2])
    assert not [text for _, text in elements.scripts if text.startswith("alert(")]
    assert "b" not in {tag for tag, _ in elements.tags}
    shown = "".join(elements.text)
    for place in ("Title", "fio printed", "title = '"):
        assert f"{place} {HOSTILE}" in shown or f"{place}{HOSTILE}" in shown
    for attributes, text in elements.scripts:
        if attributes.get("type") == "application/json" or attributes.get("id", "").startswith("spec-"):
            assert "<" not in text
            json.loads(text)


def test_every_figure_has_its_words_and_its_files(built: tuple) -> None:
    elements = Elements(built[2])
    charts = [found for _, found in elements.tags if found.get("class") == "chart"]
    assert [chart["data-name"] for chart in charts] == ["task3_latency_bar", "task3_lat_r_cdf_perc"]
    links = {found.get("href") for tag, found in elements.tags if tag == "a"}
    for chart in charts:
        spec = next(text for found, text in elements.scripts if found.get("id") == chart["data-spec"])
        assert json.loads(spec)["description"]
        assert {f"figures/{chart['data-name']}.png", f"figures/{chart['data-name']}.svg"} <= links


def test_every_link_leads_somewhere(built: tuple) -> None:
    _, paths, text = built
    elements = Elements(text)
    identities = [found["id"] for _, found in elements.tags if "id" in found]
    assert len(identities) == len(set(identities))
    from urllib.parse import unquote

    for tag, found in elements.tags:
        target = found.get("href") or ""
        if tag == "a" and target.startswith("#"):
            assert target[1:] in identities
        elif tag == "a" and "%3Cb%3E" not in target and "fio.json" not in target:
            assert (paths.page.parent / unquote(target)).exists(), target


def test_headings_make_an_outline(built: tuple) -> None:
    levels = [int(tag[1]) for tag, _ in Elements(built[2]).tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_commands_that_differ_only_in_their_folder_are_listed_once_and_each_in_full(built: tuple) -> None:
    records, _, text = built
    shown = "".join(Elements(text).text)
    assert shown.count("fio --output=RAW/fio.json 'RAW/job file.fio'") == 1
    for trial in records.trials["trial"]:
        assert f"{trial}/raw/fio.json" in shown


def test_raw_outputs_are_linked_relative_to_the_page(built: tuple) -> None:
    records, _, text = built
    links = [found.get("href") for tag, found in Elements(text).tags if tag == "a"]
    trial = records.trials["trial"][0]
    assert f"../trials/{trial}/raw/fio.json" in links
    assert f"../trials/{trial}/raw/%3Cb%3E.log" in links


def test_what_went_wrong_stands_on_top_with_its_remedy(built: tuple) -> None:
    shown = " ".join("".join(Elements(built[2]).text).split())
    assert f"1 of 8 trials failed: fio printed {HOSTILE}" in shown
    assert "The trial ran 9.1 s instead of 10 s (3 trials of mixed-sizes; short)" in shown
    assert "Remedy: ioassay run --set runtime=20s" in shown
    assert shown.index("trials failed") < shown.index("Every trial in the order")


def test_statements_tables_and_caveats_of_all_findings_are_shown(built: tuple) -> None:
    records, _, text = built
    shown = " ".join("".join(Elements(text).text).split())
    for finding in analyse_all(records):
        for sentence in (*map(str, finding.statements), *finding.caveats):
            if finding.question != "conclude" and not str(finding.statistics.get("code", "")).startswith("trials-"):
                assert " ".join(sentence.removeprefix("Next step: ").split()) in shown
        for table in finding.tables:
            for column in table.columns:
                assert str(column) in shown


def test_figures_of_a_run_that_failed_are_placeholders_named_in_the_result(lost: Dataset, tmp_path: Path) -> None:
    records = replace(lost, studies=lost.studies[3:])
    paths = report.build(records, analyse_all(records), tmp_path / "report", title="Lost")
    assert all("none of the 5 trials went well" in figure.problem for figure in paths.figures)
    assert all(figure.png.exists() for figure in paths.figures)
    assert re.search(r"figures \([^)]*task4_numjobs_bw_r[^)]*\) have nothing to show", paths.page.read_text())


def test_a_run_without_any_record_still_has_its_page(tmp_path: Path) -> None:
    records = synthetic.run(tmp_path, [synthetic.jobs()], 0)
    empty = synthetic.run(tmp_path, [synthetic.jobs()], 1)
    records = replace(records, trials=empty.trials.clear(), warnings=empty.warnings.clear(), planned={"jobs": 5})
    paths = report.build(records, [], tmp_path / "report", title="Nothing yet")
    text = paths.page.read_text()
    assert "5 of 5 planned trials were not run" in text
    assert "no trial of the study &#39;jobs&#39; was recorded" in text


def test_two_studies_may_use_one_name_for_a_figure(tmp_path: Path) -> None:
    studies = [synthetic.jobs().model_copy(update={"name": name}) for name in ("a", "b")]
    paths = report.build(synthetic.run(tmp_path, studies, 2), [], tmp_path / "report", title="Twice")
    names = [figure.name for figure in paths.figures]
    assert names == ["task4_numjobs_bw_r", "task4_numjobs_bw_w", "b-task4_numjobs_bw_r", "b-task4_numjobs_bw_w"]


def test_findings_that_are_no_study_s_and_numbers_that_json_does_not_know_are_kept(tmp_path: Path) -> None:
    finding = Finding(
        study="other", question="compare", response="read.bw", title="A comparison", statements="It is so.",
        statistics={"ratio": float("inf"), "p": float("nan")}, tables=[Table(["a", "p"], [[None, 0.00001]])],
    )  # fmt: skip
    records = synthetic.run(tmp_path, [synthetic.jobs().model_copy(update={"figures": []})], 2)
    paths = report.build(records, [finding], tmp_path / "report", title="Other")
    assert json.loads(paths.findings.read_text())[0]["statistics"] == {"ratio": None, "p": None}
    shown = "".join(Elements(paths.page.read_text()).text)
    assert "A comparison" in shown
    assert "< 0.0001" in shown
    assert paths.figures[0].name == "read_bw_by_numjobs"


def test_a_page_is_packed_without_loss(built: tuple) -> None:
    _, paths, _ = built
    page_text = paths.page.read_text()
    parts = re.findall('<script type="application/gzip"[^>]*>(.*?)</script>', page_text, re.DOTALL)
    assert len(parts) > 5
    whole = packed_page.unpacked(page_text)
    assert len(whole) > len(page_text) and "application/gzip" in whole
    assert packed_page.packed(HOSTILE) == packed_page.packed(HOSTILE)
    damaged = page_text.replace(parts[0], "AAAA")
    assert '<script type="application/gzip"' in packed_page.unpacked(damaged)


def test_building_twice_replaces_the_page(tmp_path: Path) -> None:
    records = synthetic.run(tmp_path, [synthetic.jobs()], 2)
    for title in ("First", "Second"):
        paths = report.build(records, [], tmp_path / "report", title=title)
    assert "<title>Second" in paths.page.read_text()
    assert sorted(path.name for path in paths.page.parent.iterdir()) == ["figures", "findings.json", "index.html"]


def test_what_all_studies_come_to_stands_at_the_top_and_once(tmp_path: Path) -> None:
    records = small_run(tmp_path)
    table = Table(["Sweep", "Best"], [["the sweep of workers", "4 workers"]])
    found = [
        Finding("", "peaks", "", "Best values", "A best value can be told in one.", tables=[table]),
        Finding("", "unclaimed", "", "What the kernel can say", "The tool claims no I/O."),
        Finding(
            "mixed-sizes",
            "verdict",
            "",
            "Verdict",
            "Said by the run already.",
            statistics={"claims": 0},
            severity="info",
        ),
    ]
    text = report.build(records, found, tmp_path / "report", title="All").page.read_text()
    shown = " ".join(" ".join(Elements(text).text).split())
    assert shown.index("A best value can be told in one.") < shown.index("the sweep of workers")
    assert shown.index("the sweep of workers") < shown.index("The tool claims no I/O.")
    assert shown.count("The tool claims no I/O.") == 1 and "Other findings" not in shown


@pytest.fixture
def assembled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """How often the bundle is put together; the cache is empty."""
    calls: list[str] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(page, "_assembled", lambda: calls.append("") or "vega")
    page.bundle.cache_clear()
    yield calls
    page.bundle.cache_clear()


def again() -> str:
    page.bundle.cache_clear()
    return page.bundle()


def test_the_bundle_is_assembled_once_for_all_reports(assembled: list[str], tmp_path: Path) -> None:
    assert (again(), again(), len(assembled)) == ("vega", "vega", 1)
    (kept,) = (tmp_path / "ioassay").iterdir()
    assert kept.read_text() == "vega"


def test_a_bundle_that_others_could_have_written_is_not_used(assembled: list[str], tmp_path: Path) -> None:
    again()
    (kept,) = (tmp_path / "ioassay").iterdir()
    kept.write_text("alert(1)")
    kept.chmod(0o666)
    assert again() == "vega"
    assert (len(assembled), kept.read_text(), kept.stat().st_mode & 0o777) == (2, "vega", 0o644)


def test_a_bundle_that_cannot_be_kept_is_assembled_each_time(
    assembled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert (again(), again(), len(assembled)) == ("vega", "vega", 2)
