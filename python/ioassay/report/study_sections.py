"""What the page tells of each study: the findings in the order of a report, and its means in one table.

Only arranges: every sentence is the narrative's, every number a finding's or the headline's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ioassay.analysis.descriptive import ConditionMean
from ioassay.metrics import format_metric, metric
from ioassay.narrative import answers, describe_text, heading, phrases
from ioassay.narrative.answers import Answer
from ioassay.narrative.finding import NOTHING, Finding, Table
from ioassay.report import tables
from ioassay.report.tables import Cell, Shown
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

CAVEATS = "caveats"
MOST_SENTENCES = 5
"""The page's summary, and what each study begins with, have no more."""
_FEW_CONDITIONS = 12
"""Up to so many are shown whole in the summary; beyond, its lowest and highest."""
_HEADLINE_METRICS = 2
_MOST_COLUMNS = 6


@dataclass(frozen=True)
class Group:
    """Findings as shown together: each sentence once, and one table for all that have the same columns."""

    title: str
    statements: Sequence[str]
    tables: Sequence[tuple[str, Shown]]
    """Each with what stands above it."""
    caveats: Sequence[str]
    warns: bool


@dataclass(frozen=True)
class StudyStory:
    """One study's section."""

    name: str
    anchor: str
    title: str
    description: str
    summary: Sequence[str]
    """What answers for the study, or its means where nothing does: MOST_SENTENCES at most."""
    doubts: Sequence[Group]
    means: Shown | None
    groups: Sequence[Group]


def summary(records: Dataset, findings: Sequence[Finding], stories: Sequence[StudyStory]) -> list[Answer]:
    """What the page begins with: MOST_SENTENCES in all; the means of a single study where nothing answers."""
    found = answers.answers(records.studies, findings)
    if not found and len(stories) == 1:
        found = [Answer(stories[0].name, "", stories[0].summary)] if stories[0].summary else []
    shown = answers.fitted([answer.sentences for answer in found], MOST_SENTENCES, lambda _: 1)
    return [replace(answer, sentences=said) for answer, said in zip(found, shown, strict=False)]


def studies(records: Dataset, findings: Sequence[Finding], rows: Sequence[ConditionMean]) -> list[StudyStory]:
    """The section of each study; `rows` are the headline's."""
    return [_study(study, findings, rows, exact=not records.is_measured(study)) for study in records.studies]


def _study(study: Study, findings: Sequence[Finding], rows: Sequence[ConditionMean], *, exact: bool) -> StudyStory:
    name = study.name
    own = [finding for finding in findings if finding.study == name]
    measured = [row for row in rows if row.study == name]
    answered = answers.answers([study], own)
    said = answered[0].sentences if answered else describe_text.means_in_brief(measured, _FEW_CONDITIONS)
    summary = said[:MOST_SENTENCES]
    by_question: dict[str, list[Finding]] = {}
    for finding in own:
        if finding.question != CAVEATS:
            by_question.setdefault(finding.question, []).append(finding)
    names = {question: heading(question) for question in by_question}
    groups = [group(names[question], found, summary) for question, found in by_question.items()]
    return StudyStory(
        name=name,
        anchor="study-" + re.sub(r"[^A-Za-z0-9_-]+", "-", name),
        title=study.title or study.name,
        description=study.description,
        summary=summary,
        doubts=[group(one.title, [one]) for one in own if one.question == CAVEATS and one.severity != "warning"],
        means=means(measured, exact=exact),
        groups=[one for one in groups if one.statements or one.tables or one.caveats],
    )


def group(title: str, findings: Sequence[Finding], known: Sequence[str] = ()) -> Group:
    """Findings as shown together, without sentences that are `known`.

    A table of several says in its first column of which finding a row is.
    """
    said = dict.fromkeys(str(said) for one in findings for said in (*one.statements, *one.details))
    owners: dict[tuple[str, ...], list[tuple[Finding, Shown]]] = {}
    for one in findings:
        for table in one.tables:
            owners.setdefault(tuple(table.columns), []).append((one, tables.shown(table)))
    return Group(
        title,
        [text for text in said if text not in known],
        [_joined(title, own) for own in owners.values()],
        list(dict.fromkeys(caveat for one in findings for caveat in one.caveats)),
        any(one.severity == "warning" for one in findings),
    )


def _joined(title: str, owners: Sequence[tuple[Finding, Shown]]) -> tuple[str, Shown]:
    """Tables with the same columns as one, with what stands above it."""
    columns = owners[0][1].columns
    titles = list(dict.fromkeys(one.title for one, _ in owners))
    names = [(one.title if len(titles) > 1 else "", phrases.levels(one.where)) for one, _ in owners]
    rows = [
        [Cell(", ".join(filter(None, name)), False), *row]
        for name, (_, shown) in zip(names, owners, strict=True)
        for row in shown.rows
    ]
    label = titles[0] if len(titles) == 1 else title
    if len(set(names)) > 1:
        return label, Shown([Cell("of", False), *columns], rows)
    return ", ".join(filter(None, [label, names[0][1]])), Shown(columns, [row[1:] for row in rows])


def means(rows: Sequence[ConditionMean], *, exact: bool = False) -> Shown | None:
    """Conditions below each other, metrics side by side: means with their intervals; None for no rows.

    What is `exact` has no interval, and nothing is said of it.
    """
    if not rows:
        return None
    metrics = list(dict.fromkeys(row.metric for row in rows))
    by_condition: dict[str, dict[str, ConditionMean]] = {}
    for row in rows:
        by_condition.setdefault(row.workload, {})[row.metric] = row
    present = sum(map(len, by_condition.values()))
    if len(metrics) > _MOST_COLUMNS or present < 0.6 * len(metrics) * len(by_condition):
        # One mean below the other: for many metrics, or such that occur in few conditions.
        long = Table.of(
            rows,
            ("Condition", lambda row: row.workload),
            ("Metric", lambda row: phrases.name(row.metric)),
            ("n", lambda row: row.repetitions),
            ("Value", lambda row: _mean(row, exact)),
            ("Median of the repetitions", lambda row: tables.mean(row.metric, row.median, None)),
        )
        return tables.shown(long)
    head, body = [Cell("Condition", False), Cell("n", True)], []
    for name in metrics:
        title, unit = phrases.name(name), metric(name).unit
        head.append(Cell(title, True, unit="" if title.endswith(unit) else unit))
    for workload, found in by_condition.items():
        counts = sorted({row.repetitions for row in found.values()})
        n = Cell("–".join(str(count) for count in (counts[0], counts[-1])[: len(counts)]), True)
        body.append([Cell(workload, False), n, *(_mean(found.get(name), exact) for name in metrics)])
    return Shown(head, body)


def _mean(row: ConditionMean | None, exact: bool) -> Cell:
    if row is None:
        return Cell(NOTHING, True)
    return tables.mean(row.metric, row.mean, row.ci95, "" if exact else _interval(row))


def _interval(row: ConditionMean) -> str:
    if row.ci95 is None:
        return "no interval"
    return phrases.span(row.metric, *row.ci95, format_metric)


def headline(records: Dataset, rows: Sequence[ConditionMean]) -> Shown | None:
    """The summary's table: every mean where conditions are few, else the lowest and highest of each study."""
    if len({(row.study, row.workload) for row in rows}) <= _FEW_CONDITIONS and len(records.studies) == 1:
        return means(rows)
    body = []
    for study in records.studies:
        own = [row for row in rows if row.study == study.name]
        for name in list(dict.fromkeys(row.metric for row in own))[:_HEADLINE_METRICS]:
            found = sorted((row for row in own if row.metric == name), key=lambda row: row.mean)
            body.append([study.title or study.name, phrases.name(name), len(found), _end(found[0]), _end(found[-1])])
    return tables.shown(Table(("Study", "Metric", "Conditions", "Lowest", "Highest"), body)) if body else None


def _end(row: ConditionMean) -> Cell:
    interval = f"{_interval(row)}\n" if row.ci95 else ""
    return tables.mean(row.metric, row.mean, row.ci95, f"{interval}at {row.workload}")
