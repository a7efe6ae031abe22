"""One file a kind of figure; each turns records into one chart declaration. Starts nothing and writes nothing.

`FIGURES` is the literal list: kind -> module with a model `Spec` (the kind's keys in a study's `[[figures]]`) and
`draw(records, study, spec)`, which returns an Altair chart or raises `NoData` with the reason.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ioassay.errors import StudyError
from ioassay.records.record import RecordSet
from ioassay.report.figures.spec import FigureSpec, NoData, read_spec

FIGURES: dict[str, str] = {
    "bar": "ioassay.report.figures.bar",
    "box": "ioassay.report.figures.box",
    "calls": "ioassay.report.figures.calls",
    "cdf": "ioassay.report.figures.cdf",
    "heatmap": "ioassay.report.figures.heatmap",
    "latency_bar": "ioassay.report.figures.latency_bar",
    "lines": "ioassay.report.figures.lines",
    "monitors": "ioassay.report.figures.machine_load",
    "multiples": "ioassay.report.figures.multiples",
    "order": "ioassay.report.figures.run_order",
    "scaling": "ioassay.report.figures.scaling",
    "search": "ioassay.report.figures.tuning_search",
    "series": "ioassay.report.figures.time_series",
    "stack": "ioassay.report.figures.stack",
    "timeline": "ioassay.report.figures.timeline",
    "trend": "ioassay.report.figures.trend",
}


SEVERAL = ("multiples",)
"""Kinds that show several studies at once, for the `[[figures]]` of a suite."""


@dataclass(frozen=True)
class Drawn:
    """One figure as a Vega-Lite declaration. `problem` says why it is a placeholder, '' where it is none."""

    study: str
    """'' where it shows several."""
    name: str
    kind: str
    title: str
    description: str
    """The figure in words, for those who cannot see it."""
    spec: Mapping[str, Any]
    problem: str = ""


def load() -> None:
    """Import what drawing needs, for a process that waits for its first figure."""
    import altair  # noqa: F401

    for module in FIGURES.values():
        importlib.import_module(module)


def check(study: Mapping[str, Any]) -> None:
    """Read every `[[figures]]` table of a study; StudyError names the figure, the key and the value."""
    for table in study.get("figures") or ():
        read(study, table)


def check_suite(suite: Mapping[str, Any]) -> None:
    """`check` every study and the suite's own tables; those may only be of the kinds that show several studies."""
    for study in suite["studies"]:
        check(study)
    for table in suite["figures"]:
        if (kind := table.get("kind")) in FIGURES and kind not in SEVERAL:
            message = f"kind '{kind}' shows one study; those of a suite are: {', '.join(SEVERAL)}"
            raise StudyError(message, source=str(suite["name"]), key=f"figures.{table.get('name', '?')}.kind")
        read(suite, table)


def read(study: Mapping[str, Any], table: Mapping[str, Any]) -> FigureSpec:
    """One table as the model of its kind; StudyError when the kind is unknown or a key is wrong."""
    kind = str(table.get("kind"))
    if kind not in FIGURES:
        place = f"figures.{table.get('name', '?')}.kind"
        known = ", ".join(FIGURES)
        raise StudyError(f"unknown kind '{kind}'; known: {known}", source=str(study.get("name", "")), key=place)
    model: type[FigureSpec] = importlib.import_module(FIGURES[kind]).Spec
    return read_spec(model, study, table)


def draw_several(records: RecordSet, table: Mapping[str, Any]) -> Drawn:
    """One figure of a suite, which belongs to none of its studies."""
    return draw(records, {"name": ""}, table)


def draw(records: RecordSet, study: Mapping[str, Any], table: Mapping[str, Any]) -> Drawn:
    """One figure; a placeholder with the reason where its data is missing."""
    from altair.utils import schemapi

    from ioassay.report.figures import chart_marks, placeholder

    spec = read(study, table)
    problem = ""
    # Tests hold the declarations against the schema of Vega-Lite; here that would take half of the time.
    with schemapi.debug_mode(False):
        try:
            chart = importlib.import_module(FIGURES[spec.kind]).draw(*_subject(records, study, spec), spec)
        except NoData as missing:
            problem = str(missing)
            chart = placeholder.draw(spec, problem)
        declared: dict[str, Any] = chart_marks.with_rows(chart.to_dict(validate=False))
    declared.pop("config", None)  # the theme's, not altair's, decides how charts look
    title = declared["title"]["text"]
    return Drawn(
        study=str(study["name"]),
        name=spec.name,
        kind=spec.kind,
        title=title if isinstance(title, str) else " ".join(title),
        description=str(declared.get("description", "")),
        spec=declared,
        problem=problem,
    )


def _subject(records: RecordSet, study: Mapping[str, Any], spec: FigureSpec) -> tuple[RecordSet, Mapping[str, Any]]:
    """What the figure is of: the run itself, or its passes or loads as if each were a trial."""
    if spec.of == "trials":
        return records, study
    from ioassay.analysis.measurements import loads, passes

    if spec.of == "loads":
        if (of_loads := loads.expanded(records, study)) is None:
            raise NoData(f"no trial of the study '{study['name']}' measured a load of a database")
        return of_loads.records, of_loads.study
    made = passes.expanded(records, study)
    if made is None:
        raise NoData(_without_passes(records, study))
    return made.records, made.study


def _without_passes(records: RecordSet, study: Mapping[str, Any]) -> str:
    from ioassay.report.figures import selection

    selection.select(records, study, {})  # says why where nothing went well
    return f"no trial of the study '{study['name']}' timed passes of its own"
