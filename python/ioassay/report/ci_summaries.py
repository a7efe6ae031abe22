"""A run as Markdown for continuous integration. Text in, text out.

It is read by a forge that renders GitHub Flavored Markdown (its specification, version 0.29), as the summary or a
comment of a change. Names come from studies and machines, so no name may format the text or call a person: characters
that mean something are escaped. Deliberately not here: figures, the distribution of what was measured and the caveats,
which are on the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ioassay.analysis.descriptive import ConditionMean
from ioassay.narrative.finding import Answer
from ioassay.narrative.say import say
from ioassay.report import tables

BREAKS = r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+"
_MOST_CONDITIONS = 50


def summary(title: str, premises: Sequence[str], answered: Sequence[Answer], means: Sequence[ConditionMean]) -> str:
    """The text, which ends with a line feed; `premises` are lines on trust and on how the trials ended."""
    blocks = [f"## {plain(title)}"]
    blocks += ["  \n".join(plain(line) for line in premises if line)]
    for answer in answered:
        head = f"**{plain(answer.title)}**\n\n" if len(answered) > 1 and answer.title else ""
        blocks.append(head + "\n".join(f"- {plain(sentence)}" for sentence in answer.sentences))
    for study in dict.fromkeys(row.study for row in means):
        own = [row for row in means if row.study == study]
        head = f"**{plain(study)}**\n\n" if len({row.study for row in means}) > 1 else ""
        blocks.append(head + "\n".join(_means_table(own)))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _means_table(means: Sequence[ConditionMean]) -> Iterator[str]:
    shown = tables.means(means, exact=not any(row.ci95 for row in means))
    if shown is not None:
        yield _table_row(column.text for column in shown.columns)
        yield "|" + "|".join("---:" if column.number else "---" for column in shown.columns) + "|"
        for cells in shown.rows[:_MOST_CONDITIONS]:
            yield _table_row(f"{cell.text} ({cell.note})" if cell.note else cell.text for cell in cells)
        if len(shown.rows) > _MOST_CONDITIONS:
            yield f"\n… and {len(shown.rows) - _MOST_CONDITIONS} more conditions"
    if any(row.ci95 for row in means):
        yield f"\n{say('describe.means_95')}"


def plain(text: object) -> str:
    """Text on one line, without markup, HTML, control characters, mentions and references."""
    escaped = re.sub(r"[\\`*_\[\]<>&|~#]", r"\\\g<0>", re.sub(BREAKS, " ", str(text)))
    return re.sub(r"[@#](?=\w)", "\\g<0>\u2060", escaped)


def _table_row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(plain, cells))} |"
