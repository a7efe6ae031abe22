"""A run as a short text in Markdown, for a comment on a change: trust, answer, and each condition's means.

Text from files is escaped, so that no name in it formats the comment. Deliberately not here: figures, the distribution
of what was measured and the caveats, which are on the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ioassay.analysis.effects.descriptive import ConditionMean
from ioassay.factors import factor_label
from ioassay.metrics import format_metric, metric
from ioassay.narrative import answers
from ioassay.narrative.answers import Answer
from ioassay.narrative.finding import Table
from ioassay.report import tables

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")
_MOST_ROWS = 50


def summary(title: str, premises: Sequence[str], answered: Sequence[Answer], means: Sequence[ConditionMean]) -> str:
    """The text, which ends with a line feed; `premises` are lines on trust and on how the trials ended."""
    blocks = [f"## {_plain(title)}"]
    blocks += ["  \n".join(_plain(line) for line in premises if line)]
    for answer in answered:
        head = f"**{_plain(answer.title)}**\n\n" if len(answered) > 1 and answer.title else ""
        blocks.append(head + "\n".join(f"- {_plain(sentence)}" for sentence in answer.sentences))
    for study in dict.fromkeys(row.study for row in means):
        own = [row for row in means if row.study == study]
        head = f"**{_plain(study)}**\n\n" if len({row.study for row in means}) > 1 else ""
        blocks.append(head + "\n".join(_table(own)))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _table(means: Sequence[ConditionMean]) -> Iterator[str]:
    """A row for each condition, a column for each factor and each response."""
    factors = list(dict.fromkeys(name for row in means for name in row.point))
    responses = list(dict.fromkeys(row.metric for row in means))
    conditions: dict[tuple[object, ...], dict[str, ConditionMean]] = {}
    for row in means:
        conditions.setdefault(tuple(row.point.get(name) for name in factors), {})[row.metric] = row
    head = [*(factor_label(name) for name in factors), *(metric(name).label for name in responses), "n"]
    rows = [
        [*levels, *(_mean(found.get(name)) for name in responses), max(one.repetitions for one in found.values())]
        for levels, found in conditions.items()
    ]
    shown = tables.shown(Table(head, rows))
    yield _row([cell.text for cell in shown.columns])
    yield "|" + "|".join("---:" if cell.number else "---" for cell in shown.columns) + "|"
    for cells in shown.rows[:_MOST_ROWS]:
        yield _row([cell.text for cell in cells])
    if len(shown.rows) > _MOST_ROWS:
        yield f"\n… and {len(shown.rows) - _MOST_ROWS} more conditions"
    if any(row.ci95 for row in means):
        yield f"\n{answers.MEANS}"


def _mean(row: ConditionMean | None) -> str | None:
    if row is None:
        return None
    value = format_metric(row.metric, row.mean)
    if row.ci95 is None:
        return value
    low, high = (format_metric(row.metric, end) for end in row.ci95)
    return f"{value} ({low} to {high})"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_plain, cells))} |"


def _plain(text: str) -> str:
    """In one line and without a meaning in Markdown; no `@` calls a person."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("@", "@\u2060")
