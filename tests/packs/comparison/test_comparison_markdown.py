"""The summary of a comparison in Markdown: what it says first, what it folds, and that no name can be markup."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ioassay.analysis.condition_comparison import Verdict
from ioassay.packs.comparison import comparison_text, run_comparison
from ioassay.packs.comparison.run_comparison import MACHINE, Comparison, Difference, Unmatched
from ioassay.report import tables
from ioassay.store.dataset import Dataset

from . import compared_runs
from .compared_runs import comparison, row

HOSTILE = "<img src=x> [a](javascript:b) @octocat #12 ``` `|` **bold**\n# heading\x1b[31m"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Dataset]:
    return compared_runs.runs(tmp_path_factory.mktemp("runs"))


def rendered(both: tuple[Dataset, Dataset], found: Comparison) -> str:
    return comparison_text.markdown(*both, found)


def outside_code(text: str) -> str:
    """The text without its code spans, as GitHub Flavored Markdown delimits them."""
    return re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)


def test_the_verdict_is_first_and_the_worst_row_heads_the_table(both: tuple[Dataset, Dataset]) -> None:
    lines = rendered(both, run_comparison.compare(*both)).splitlines()
    assert lines[0] == "### ioassay: slower"
    assert any(line.startswith("**B is slower than A in 22 of 72 comparisons") for line in lines)
    table = [line for line in lines if line.startswith("|")]
    assert table[0].startswith("|  | condition | metric | A | B |") and table[2].startswith("| ▼ | `block-size: ")
    assert {line.count("|") for line in table} == {8}


def test_the_rows_that_do_not_fit_are_folded_and_then_counted(both: tuple[Dataset, Dataset]) -> None:
    text = rendered(both, comparison(*(row(number, 1 + number / 1e4) for number in range(200))))
    shown, folded = text.split("<details>")
    assert shown.count("`bs=") == 15 and folded.count("`bs=") == 135
    assert "<summary>135 more rows</summary>" in folded and "… and 50 rows on the page" in folded


@pytest.mark.parametrize(
    ("changes", "title", "verdict"),
    [
        ({}, "slower", "B is slower than A in 1 of 1 comparison."),
        ({"unfit": ("B",)}, "not comparable", "No conclusion is drawn: the machine was not quiet enough in run B."),
        (
            {"contradicted": ("A", "B"), "unfit": ("A",)},
            "contradicted by the kernel",
            "No conclusion is drawn: the kernel contradicts claims of both runs.",
        ),
    ],
)
def test_no_conclusion_is_drawn_of_runs_that_are_no_measurements(
    both: tuple[Dataset, Dataset], changes: dict[str, tuple[str, ...]], title: str, verdict: str
) -> None:
    text = rendered(both, replace(comparison(row(1, 0.5, Verdict.SLOWER)), **changes))
    assert text.startswith(f"### ioassay: {title}\n") and f"**{verdict}**" in text


def test_a_name_is_never_markup_html_a_mention_or_another_cell(both: tuple[Dataset, Dataset]) -> None:
    found = comparison(replace(row(1, 0.5, Verdict.SLOWER), study=HOSTILE, label=HOSTILE), replace(row(2, None)))
    found = replace(
        found,
        differences=(Difference(HOSTILE, HOSTILE, HOSTILE, 1), MACHINE),
        only_a=(Unmatched(HOSTILE, HOSTILE, HOSTILE),),
    )
    titled = [study.model_copy(update={"title": HOSTILE}) for study in both[1].studies]
    text = rendered((both[0], replace(both[1], studies=titled)), found)
    assert "octocat" in text and "\x1b" not in text
    bare = outside_code(text)
    assert not re.search(r"octocat|<img|javascript|bold\*|#12", bare)
    assert {line.count("|") for line in text.splitlines() if line.startswith("|")} == {8}


@pytest.mark.parametrize("name", ["plain", "`", "``a`", "a`", "\\", "a|b\\|c", "", "x" * 500])
def test_a_code_span_ends_where_its_name_ends(name: str) -> None:
    span = comparison_text._code(name)
    assert outside_code(f"before {span} after") == "before  after"
    assert "|" not in span and len(span) < 120


def test_plain_text_has_no_character_that_means_something() -> None:
    shown = tables.plain("Other programs (<b>, _x_, @me, #1, [a](b)) used 5 %.\n# no")
    assert shown == "Other programs (\\<b\\>, \\_x\\_, @\u2060me, \\#\u20601, \\[a\\](b)) used 5 %. \\# no"


def test_settings_that_differ_and_what_one_run_lacks_are_listed(both: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    a, b = both
    other = replace(b, studies=b.studies[1:], host={**b.host, "kernel": {"release": "7.0"}})
    text = rendered((a, other), run_comparison.compare(a, other))
    assert "Warnings:" in text and "`host: kernel.release is " in text
    assert "Only in A:\n\n- `study " in text
