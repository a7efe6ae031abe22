"""ioassay compare: the verdict in at most 15 lines, the page's folder, exit codes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay.cli import closing

from .conftest import Ask, ask, ask_alone

STUDY = """
name = "null"
title = "Null"
driver = "null"
repetitions = 5
[params]
metrics = { "read.bw" = SPEED }
noise = 0.001
[factors]
x = [1, 2, 4, 8]
y = ["a", "b", "c", "d"]
[analysis]
responses = ["read.bw"]
"""

QUIET = {"seconds": 1.0, "processors": 2, "own_share": 0.1, "kernel_share": 0.0, "steal_share": 0.0}
"""Of the environment of a trial, but for what others used."""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs A, B (as fast) and C (half as fast)."""
    folder = tmp_path_factory.mktemp("work")
    for name, speed in {"A": "1e8", "B": "1e8", "C": "5e7"}.items():
        (folder / "null.toml").write_text(STUDY.replace("SPEED", speed))
        answer = ask("run", "null.toml", "--set", f"seed={ord(name)}", "--output", name, cwd=folder)
        assert answer.code == 0, answer.err
    return folder


def test_the_verdict_is_first_and_the_page_last_in_at_most_15_lines(work: Path) -> None:
    answer = ask("compare", "A", "C", "--output", "slow", cwd=work)
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert lines[0] == "B is slower than A in 16 of 16 comparisons."
    assert lines[-1] == "page    slow/index.html"
    assert len(lines) + len(answer.err.splitlines()) <= closing.MOST_LINES
    assert any(line.startswith("… and ") and line.endswith(" more rows on the page") for line in lines)
    assert "warning: null: params.metrics is " in answer.err
    assert (work / "slow" / "index.html").is_file()


def test_equal_runs_end_with_0_and_a_new_folder_below_runs(work: Path) -> None:
    answer = ask("compare", "A", "B", cwd=work)
    assert answer.code == 0, answer.err
    assert answer.out.startswith("B is the same as A to within 5 % in all 16 comparisons.")
    (page,) = work.glob("runs/*-compare/index.html")
    assert answer.out.splitlines()[-1] == f"page    {page.relative_to(work)}"


def test_json_has_the_page(work: Path) -> None:
    answer = ask("compare", "A", "B", "--output", "json", "--json", cwd=work)
    assert answer.json["report"] == "json/index.html"
    stored = json.loads((work / "json" / "comparison.json").read_text())
    assert {key: value for key, value in answer.json.items() if key != "report"} == stored


def test_figures_are_files_as_well(work: Path) -> None:
    assert ask_alone("compare", "A", "C", "--output", "drawn", cwd=work).code == 1
    names = sorted(path.name for path in (work / "drawn" / "figures").iterdir())
    assert names == ["null-read-bw.png", "null-read-bw.svg", "ratios.png", "ratios.svg"]
    assert (work / "drawn" / "figures" / "ratios.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: (path.mkdir(), (path / "thesis").touch()), "exists already; wanted a new or an empty folder"),
        (lambda path: path.touch(), "is a file; wanted a new folder"),
    ],
)
def test_what_lies_at_the_output_is_left_alone(
    work: Path, tmp_path: Path, make: Callable[[Path], Any], message: str
) -> None:
    make(tmp_path / "out")
    before = sorted(tmp_path.rglob("*"))
    answer = ask("compare", "A", "B", "--output", tmp_path / "out", cwd=work)
    assert answer.code == 2 and message in answer.err
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_folder_is_taken(work: Path, tmp_path: Path) -> None:
    assert ask("compare", "A", "B", "--output", tmp_path, cwd=work).code == 0
    assert (tmp_path / "index.html").is_file()


def test_a_folder_that_cannot_be_made_is_no_regression(work: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = ask("compare", "A", "C", "--output", tmp_path / "file" / "out", cwd=work)
    assert answer.code == 2
    assert "cannot be written: Not a directory; --output names another place" in answer.err


def test_runs_without_a_common_condition_leave_no_folder(ioassay: Ask, work: Path, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(STUDY.replace("SPEED", "1e8").replace("[1, 2, 4, 8]", "[7]"))
    assert ioassay("run", "other.toml", "--output", "other").code == 0
    answer = ioassay("compare", work / "A", "other")
    assert answer.code == 2 and "share no condition" in answer.err
    assert not (tmp_path / "runs").exists()


def test_conditions_of_one_run_only_are_counted(ioassay: Ask, work: Path, tmp_path: Path) -> None:
    (tmp_path / "null.toml").write_text(STUDY.replace("SPEED", "1e8").replace("[1, 2, 4, 8]", "[1]"))
    assert ioassay("run", "null.toml", "--output", "few").code == 0
    answer = ioassay("compare", work / "A", "few", "--output", "page")
    assert "only in A: null, x=2 y=a: read.bw and 11 more" in answer.err
    assert "Only in A" in (tmp_path / "page" / "index.html").read_text()


def test_one_repetition_has_no_ratio_and_says_so(ioassay: Ask, work: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / "null.toml").write_text(STUDY.replace("SPEED", "1e8").replace("repetitions = 5", "repetitions = 1"))
        assert ioassay("run", "null.toml", "--output", name).code == 0
    answer = ioassay("compare", "one", "other", "--output", "page")
    assert answer.code == 0
    assert answer.out.startswith("Not decided: 16 comparisons prove neither")
    assert "one repetition only" in (tmp_path / "page" / "index.html").read_text()


def test_an_interval_beyond_all_measure_is_not_spelled_out(ioassay: Ask, tmp_path: Path) -> None:
    scattered = STUDY.replace("SPEED", "1e8").replace("repetitions = 5", "repetitions = 2").replace("0.001", "1.5")
    for seed in ("1", "2"):
        (tmp_path / "null.toml").write_text(scattered)
        assert ioassay("run", "null.toml", "--set", f"seed={seed}", "--output", seed).code == 0
    shown = ioassay("compare", "1", "2", "--output", "page").out
    assert "< 0.001 … > 1000" in shown
    assert not re.search(r"\d{5}\.\d{3}", shown)


def test_two_runs_of_one_name_are_told_by_their_letters(work: Path, tmp_path: Path) -> None:
    shutil.copytree(work / "A", tmp_path / "A", ignore=shutil.ignore_patterns("report"))
    assert ask("compare", work / "A", tmp_path / "A", "--output", tmp_path / "page", cwd=work).code == 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert "<strong>A</strong>, the baseline: " in page and "<strong>B</strong>: A" in page


def disturbed(run: Path, share: float, to: Path) -> Path:
    """A copy of a run whose machine other programs used for a share of its time."""
    shutil.copytree(run, to, ignore=shutil.ignore_patterns("report"))
    for path in to.glob("trials/*/record.json"):
        record = json.loads(path.read_text())
        record["environment"] = {**QUIET, "others_share": share}
        path.write_text(json.dumps(record))
    return to


def test_a_machine_that_was_not_fit_is_no_regression(work: Path, tmp_path: Path) -> None:
    busy, quiet = (disturbed(work / "C", share, tmp_path / name) for share, name in ((0.6, "busy"), (0.0, "quiet")))
    answer = ask("compare", "A", busy, "--output", tmp_path / "page", "--json", cwd=work)
    assert answer.code == 0, answer.err
    assert (answer.json["outcome"], answer.json["regression"], answer.json["unfit"]) == ("not-comparable", False, ["B"])
    answer = ask("compare", "A", quiet, "--output", tmp_path / "other", "--json", cwd=work)
    assert (answer.code, answer.json["outcome"]) == (1, "slower")


def test_a_summary_in_markdown_has_the_verdict_first(work: Path, tmp_path: Path) -> None:
    answer = ask("compare", "A", "C", "--output", tmp_path / "page", "--markdown", tmp_path / "s.markdown", cwd=work)
    assert answer.code == 1
    text = (tmp_path / "s.markdown").read_text()
    assert text.startswith("### ioassay: slower\n\n`Null`\n\n**B is slower than A in 16 of 16 comparisons.**")


@pytest.mark.parametrize("option", ["--junit", "--markdown"])
def test_a_file_that_cannot_be_written_is_named_with_its_option(work: Path, tmp_path: Path, option: str) -> None:
    answer = ask("compare", "A", "C", option, tmp_path / "nowhere" / "file", cwd=work)
    assert answer.code == 2
    assert f"{option} {tmp_path}/nowhere/file: cannot be written: No such file or directory" in answer.err
