"""A comparison of two runs as Markdown, for the summary and the comments of continuous integration.

Arranges what `analysis.run_comparison` found in the words of the narrative; nothing is decided or written here. Names
come from studies and machines, and the text is read by a forge that renders GitHub Flavored Markdown (its
specification, version 0.29). So names in tables are code spans, where neither markup nor HTML nor `@user` counts.
Elsewhere the characters that mean something are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ioassay import metrics
from ioassay.analysis.run_comparison import Comparison, Outcome, Row
from ioassay.narrative import comparison_text, conditions_text, phrases
from ioassay.report.comparison_page import MARKS
from ioassay.stats.ratio_of_means import Ratio
from ioassay.store.dataset import Dataset

TITLES = {
    Outcome.CONTRADICTED: "contradicted by the kernel",
    Outcome.NOT_COMPARABLE: "not comparable",
    Outcome.SLOWER: "slower",
    Outcome.FASTER: "faster",
    Outcome.CHANGED: "changed",
    Outcome.SAME: "the same",
    Outcome.UNDECIDED: "undecided",
}
_OPEN_ROWS, _MOST_ROWS = 15, 150
"""Rows that are shown, and those that can be unfolded. A comment of GitHub holds 65,536 characters."""
_MOST_NOTES = 10
_LONGEST_NAME = 100
_COLUMNS = ("", "condition", "metric", "A", "B", "B / A", "verdict")


def markdown(a: Dataset, b: Dataset, comparison: Comparison) -> str:
    """The whole summary. It ends with a line feed."""
    titles = dict.fromkeys(study.title or study.name for study in b.studies)
    parts = [
        f"### ioassay: {TITLES[comparison.outcome]}",
        " · ".join(_code(title) for title in titles),
        f"**{_plain(comparison_text.headline(comparison))}** {_plain(comparison_text.account(comparison))}",
        "\n".join([*_trust("A", a), *_trust("B", b)]),
        *_tables(comparison),
        *_notes(comparison),
        comparison_text.basis(comparison),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _trust(letter: str, records: Dataset) -> Iterator[str]:
    """Whether a run can be relied on, a list item a run."""
    trust = conditions_text.trust(records)
    if trust is not None:
        yield f"- {letter}: {_plain(' '.join(filter(None, (trust.conditions, trust.claims))))}"


def _tables(comparison: Comparison) -> Iterator[str]:
    """The worst rows, and the others where they can be unfolded."""
    several = len({row.study for row in comparison.rows}) > 1
    rows = [_cells(group, several) for group in comparison.results]
    if rows:
        yield _table(rows[:_OPEN_ROWS])
    if folded := rows[_OPEN_ROWS:_MOST_ROWS]:
        number = phrases.count(len(folded), "more row")
        yield f"<details><summary>{number}</summary>\n\n{_table(folded)}\n\n</details>"
    if omitted := len(rows[_MOST_ROWS:]):
        yield f"… and {phrases.count(omitted, 'row')} on the page"


def _cells(group: Sequence[Row], several: bool) -> list[str]:
    """One row of the table; those that restate it in another unit are named with it."""
    row = group[0]
    form = metrics.metric(row.response).format
    ratio = "–"
    if isinstance(row.ratio, Ratio):
        ratio = comparison_text.change(row.ratio, row.interval or row.ratio.interval)
    return [
        MARKS[row.verdict],
        _code(f"{row.study}: {row.label}" if several else row.label),
        _code(", ".join(other.response for other in group)),
        _plain(form(row.mean_a)),
        _plain(form(row.mean_b)),
        _plain(ratio),
        " ".join(filter(None, (row.verdict.value, _reservation(row)))),
    ]


def _reservation(row: Row) -> str:
    text = comparison_text.reservation(row)
    return f"({_plain(text)})" if text else ""


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = [_COLUMNS, ["---"] * len(_COLUMNS), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _notes(comparison: Comparison) -> Iterator[str]:
    """Settings and facts that differ, and what only one run has: each makes the result harder to read."""
    lists = [("Warnings", [comparison_text.warning(one) for one in comparison.differences])]
    for letter, missing in (("A", comparison.only_a), ("B", comparison.only_b)):
        lists.append((f"Only in {letter}", [comparison_text.unmatched(one) for one in missing]))
    for title, texts in lists:
        if texts:
            items = [f"- {_code(text)}" for text in texts[:_MOST_NOTES]]
            if omitted := len(texts) - len(items):
                items.append(f"- … and {omitted} more on the page")
            yield "\n".join([f"{title}:", "", *items])


def _code(text: str) -> str:
    """A code span of one line that fits a cell: a longer row of backticks encloses those inside."""
    shown = _line(text)
    if len(shown) > _LONGEST_NAME:
        shown = f"{shown[: _LONGEST_NAME - 1]}…"
    shown = shown.replace("|", "¦")  # a bar ends a cell inside code as well
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    space = " " if shown[:1] == "`" or shown[-1:] == "`" or not shown else ""
    return f"{fence}{space}{shown}{space}{fence}"


def _plain(text: str) -> str:
    """Text without markup, HTML, mentions and references."""
    escaped = re.sub(r"[\\`*_\[\]<>&|~]", r"\\\g<0>", _line(text))
    return re.sub(r"[@#](?=\w)", "\\g<0>\u2060", escaped)


def _line(text: str) -> str:
    """Text on one line, without control characters."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text)
