"""A comparison of two runs as Markdown, for the summary and the comments of continuous integration.

Arranges what `analysis.run_comparison` found in the words of the narrative; nothing is decided or written here. Names
come from studies and machines, and the text is read by a forge that renders GitHub Flavored Markdown (its
specification, version 0.29). So names in tables are code spans, where neither markup nor HTML nor `@user` counts.
Elsewhere the characters that mean something are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ioassay.analysis.run_comparison import Comparison
from ioassay.narrative import comparison_text, conditions_text, phrases
from ioassay.narrative.comparison_text import Line
from ioassay.narrative.say import say
from ioassay.store.dataset import Dataset

_OPEN_ROWS, _MOST_ROWS = 15, 150
"""Rows that are shown, and those that can be unfolded. A comment of GitHub holds 65,536 characters."""
_MOST_NOTES = 10
_LONGEST_NAME = 100
_COLUMNS = ("", "condition", "metric", "A", "B", "B / A", "verdict")


def markdown(a: Dataset, b: Dataset, comparison: Comparison) -> str:
    """The whole summary. It ends with a line feed."""
    titles = dict.fromkeys(study.title or study.name for study in b.studies)
    trusts = {letter: conditions_text.trust(records) for letter, records in (("A", a), ("B", b))}
    parts = [
        f"### ioassay: {say(f'comparison.title_{comparison.outcome}')}",
        " · ".join(map(_code, titles)),
        f"**{_plain(comparison_text.headline(comparison))}** {_plain(comparison_text.account(comparison))}",
        "\n".join(
            f"- {letter}: {_plain(f'{one.conditions} {one.claims}'.rstrip())}" for letter, one in trusts.items() if one
        ),
        *_tables(comparison),
        *_list("Warnings", [*map(comparison_text.warning, comparison.differences)]),
    ]
    for letter, missing in comparison_text.only(comparison).items():
        parts += _list(f"Only in {letter}", missing)
    return "\n\n".join(filter(None, (*parts, str(comparison_text.basis(comparison))))) + "\n"


def _tables(comparison: Comparison) -> Iterator[str]:
    """The worst rows, and the others where they can be unfolded."""
    lines = comparison_text.lines(comparison, comparison.results)
    if lines:
        yield _table(lines[:_OPEN_ROWS])
    if folded := lines[_OPEN_ROWS:_MOST_ROWS]:
        number = phrases.count(len(folded), "more row")
        yield f"<details><summary>{number}</summary>\n\n{_table(folded)}\n\n</details>"
    if omitted := lines[_MOST_ROWS:]:
        yield f"… and {phrases.count(len(omitted), 'row')} on the page"


def _table(lines: Sequence[Line]) -> str:
    rows = [_COLUMNS, ["---"] * len(_COLUMNS), *map(_cells, lines)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _cells(line: Line) -> list[str]:
    names = _code(line.condition), _code(", ".join(line.responses))
    verdict = f"{line.verdict} ({line.reservation})" if line.reservation else line.verdict
    return [line.mark, *names, *map(_plain, (*line.means, line.change, verdict))]


def _list(title: str, said: Sequence[object]) -> Iterator[str]:
    """Settings and facts that differ, or what only one run has: each makes the result harder to read."""
    if said:
        more = [f"- … and {len(said) - _MOST_NOTES} more on the page"] if len(said) > _MOST_NOTES else []
        yield "\n".join([f"{title}:", "", *(f"- {_code(str(one))}" for one in said[:_MOST_NOTES]), *more])


def _code(text: str) -> str:
    """A code span of one line that fits a cell: a longer row of backticks encloses those inside."""
    shown = _line(text)
    if len(shown) > _LONGEST_NAME:
        shown = f"{shown[: _LONGEST_NAME - 1]}…"
    shown = shown.replace("|", "¦")  # a bar ends a cell inside code as well
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    space = " " if shown[:1] == "`" or shown[-1:] == "`" or not shown else ""
    return f"{fence}{space}{shown}{space}{fence}"


def _plain(text: object) -> str:
    """Text without markup, HTML, mentions and references."""
    escaped = re.sub(r"[\\`*_\[\]<>&|~]", r"\\\g<0>", _line(str(text)))
    return re.sub(r"[@#](?=\w)", "\\g<0>\u2060", escaped)


def _line(text: str) -> str:
    """Text on one line, without control characters."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text)
