"""What the page tells: its first screen, the findings of each study in the order of a report, and its means in a table.

Only arranges: every sentence is the narrative's, every number a finding's or the headline's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ioassay.analysis import descriptive
from ioassay.analysis.descriptive import ConditionMean
from ioassay.narrative import describe_text, heading, phrases
from ioassay.narrative.finding import Answer, Finding, answers, fitted
from ioassay.report import tables
from ioassay.report.figures import Drawn
from ioassay.report.figures.default_figures import PARTS
from ioassay.report.figures.spec import VegaLite
from ioassay.report.tables import Cell, ProfileTable, Shown
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_SIDE_BY_SIDE = 2
"""So many studies show a figure each where none is over all of them."""
_BESIDE_PX = (800, 620)
"""Up to this width and height a figure has the answer to its right; what is higher has it above."""
_MARGIN_PX = (75, 60)
"""About what axes and their titles take around a chart."""
CAVEATS = "caveats"
MOST_SENTENCES = 5
"""The page's summary, and what each study begins with, have no more."""


class Screen(NamedTuple):
    """A table or figures, or neither; `layout`, a class of the style sheet, is where the answer stands."""

    figures: Sequence[Drawn]
    profile: ProfileTable | None
    layout: str


class Group(NamedTuple):
    """Findings as shown together. `tables` has each with what stands above it."""

    title: str
    statements: Sequence[str]
    tables: Sequence[tuple[str, Shown]]
    caveats: Sequence[str]
    warns: bool


class Story(NamedTuple):
    """One study's section. `summary` is what answers for it, or its means where nothing does."""

    name: str
    anchor: str
    title: str
    description: str
    summary: Sequence[str]
    doubts: Sequence[Group]
    means: Shown | None
    groups: Sequence[Group]


def first_screen(records: Dataset, drawn: Sequence[Drawn]) -> Screen:
    """The picture of the first screen: a table or figures, or neither; figures that have nothing to show do not lead.

    A study of named workloads begins with their table, a row a workload, beside it the shape of its latencies; a suite
    with the figure over all of its studies; any other study with its first figure, so the order of `[[figures]]` says
    which.
    """
    figures = [figure for figure in drawn if not figure.problem]
    overall = [figure for figure in figures if not figure.study]
    if overall:
        return _screen(overall[:1])
    if len(records.studies) == 1:
        profile = tables.profile_table(descriptive.profiles(records, records.studies[0]))
        explains = records.studies[0].may_explain and figures[:1] and figures[0].kind == PARTS
        return _screen([] if profile and not explains else figures[:1], profile)
    firsts = [next((figure for figure in figures if figure.study == study.name), None) for study in records.studies]
    shown = [figure for figure in firsts if figure is not None]
    alike = len(shown) == _SIDE_BY_SIDE and all("width" in figure.spec for figure in shown)
    return _screen(shown if alike else shown[:1])


def _screen(figures: Sequence[Drawn], profile: ProfileTable | None = None) -> Screen:
    layout = "below"
    if profile is None and len(figures) == 1:
        width, height = _size(figures[0].spec)
        layout = "above" if height > _BESIDE_PX[1] else "beside" if width <= _BESIDE_PX[0] else "below"
    return Screen(figures, profile, layout)


def _size(chart: VegaLite) -> tuple[float, float]:
    for kind, columns in (("hconcat", None), ("vconcat", 1), ("concat", chart.get("columns"))):
        if panels := [_size(part) for part in chart.get(kind, ())]:
            across = columns or len(panels)
            rows = [panels[start : start + across] for start in range(0, len(panels), across)]
            widths, heights = ([[size[way] for size in row] for row in rows] for way in (0, 1))
            return max(map(sum, widths)), sum(map(max, heights))
    return chart.get("width", 0) + _MARGIN_PX[0], chart.get("height", 0) + _MARGIN_PX[1]


def summary(records: Dataset, findings: Sequence[Finding], stories: Sequence[Story]) -> list[Answer]:
    """What the page begins with: MOST_SENTENCES in all; the means of a single study where nothing answers."""
    found = answers(records.studies, findings)
    if not found and len(stories) == 1:
        (story,) = stories
        found = [Answer(story.name, "", story.summary)] if story.summary else []
    shown = fitted([answer.sentences for answer in found], MOST_SENTENCES, lambda _: 1)
    return [replace(answer, sentences=said) for answer, said in zip(found, shown, strict=False)]


def studies(records: Dataset, findings: Sequence[Finding], rows: Sequence[ConditionMean]) -> list[Story]:
    """The section of each study; `rows` are the headline's."""
    return [_study(study, findings, rows, exact=not records.is_measured(study)) for study in records.studies]


def _study(study: Study, findings: Sequence[Finding], rows: Sequence[ConditionMean], *, exact: bool) -> Story:
    own = [finding for finding in findings if finding.study == study.name]
    measured = [row for row in rows if row.study == study.name]
    answered = answers([study], own)
    said = answered[0].sentences if answered else describe_text.means_in_brief(measured, tables.FEW_CONDITIONS)
    summary = said[:MOST_SENTENCES]
    by_question: dict[str, list[Finding]] = {}
    for finding in own:
        if finding.question != CAVEATS:
            by_question.setdefault(finding.question, []).append(finding)
    groups = [group(heading(question), found, summary) for question, found in by_question.items()]
    return Story(
        name=study.name,
        anchor="study-" + re.sub(r"[^A-Za-z0-9_-]+", "-", study.name),
        title=study.title or study.name,
        description=study.description,
        summary=summary,
        doubts=[group(one.title, [one]) for one in own if one.question == CAVEATS and one.severity != "warning"],
        means=tables.means(measured, exact=exact),
        groups=[one for one in groups if one.statements or one.tables or one.caveats],
    )


def group(title: str, findings: Sequence[Finding], known: Sequence[str] = ()) -> Group:
    """Findings as shown together: each sentence once, without those `known`, and one table for all with equal columns.

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
        list(dict.fromkeys(str(caveat) for one in findings for caveat in one.caveats)),
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
