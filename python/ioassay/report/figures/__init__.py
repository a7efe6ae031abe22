"""Kinds of figures; each turns records into one chart declaration. Starts nothing and writes nothing.

`FIGURES` is the literal list: kind -> module, or a `Kind` in one, with a model `Spec` (the kind's keys in a study's
`[[figures]]`) and `draw(records, study, spec)`, which returns a Vega-Lite declaration or raises `NoData` with the
reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ioassay import registry
from ioassay.errors import StudyError
from ioassay.narrative.say import sentence
from ioassay.pack import listed
from ioassay.registry import Contract, Registry
from ioassay.report.figures.spec import SCHEMA, FigureSpec, NoData, VegaLite, read_spec
from ioassay.store.dataset import Dataset
from ioassay.study.model import Figure, Study, Suite

FIGURES: dict[str, str] = listed(
    "figures",
    {
        "bar": "ioassay.report.figures.bars:BAR",
        "box": "ioassay.report.figures.bars:BOX",
        "calls": "ioassay.report.figures.bars:CALLS",
        "cdf": "ioassay.report.figures.latency_distributions:CDF",
        "heatmap": "ioassay.report.figures.heatmap:HEATMAP",
        "latency_bar": "ioassay.report.figures.bars:LATENCY_BAR",
        "latency_heatmap": "ioassay.report.figures.heatmap:LATENCY_HEATMAP",
        "lines": "ioassay.report.figures.curves:LINES",
        "monitors": "ioassay.report.figures.monitors:MONITORS",
        "multiples": "ioassay.report.figures.curves:MULTIPLES",
        "path_costs": "ioassay.report.figures.bars:PATH_COSTS",
        "order": "ioassay.report.figures.curves:ORDER",
        "scaling": "ioassay.report.figures.curves:SCALING",
        "series": "ioassay.report.figures.monitors:SERIES",
        "stack": "ioassay.report.figures.monitors:STACK",
        "throughput_latency": "ioassay.report.figures.latency_distributions:THROUGHPUT_LATENCY",
        "timeline": "ioassay.report.figures.monitors:TIMELINE",
        "trend": "ioassay.report.figures.curves:TREND",
    },
)


REGISTRY = Registry("figures", "kind of figure", FIGURES, Contract("Spec", "draw"))

SEVERAL = ("multiples",)
"""Kinds that show several studies at once, for the `[[figures]]` of a suite."""


class Kind(NamedTuple):
    """A kind of figure, for modules that have several: the model of its keys, and what draws it."""

    Spec: type[FigureSpec]
    draw: Callable[[Dataset, Study, Any], Any]


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
    spec: VegaLite
    problem: str = ""


def check(study: Study) -> None:
    """Read every figure of a study; StudyError names the figure, the key and the value."""
    for figure in study.figures:
        read(figure, study.name)


def check_suite(suite: Suite) -> None:
    """`check` every study and the suite's own figures; those may only be of the kinds that show several studies."""
    for study in suite.studies:
        check(study)
    for figure in suite.figures:
        if figure.kind in REGISTRY and figure.kind not in SEVERAL:
            message = sentence("figures.kind_of_one_study", kind=figure.kind, kinds=", ".join(SEVERAL))
            raise StudyError(message, source=suite.name, key=f"figures.{figure.name}.kind")
        read(figure, suite.name)


def read(figure: Figure, source: str) -> FigureSpec:
    """A figure as the model of its kind; StudyError names `source` when the kind is unknown or a key is wrong."""
    if why := REGISTRY.refusal(figure.kind):
        raise StudyError(why, source=source, key=f"figures.{figure.name}.kind")
    model: type[FigureSpec] = REGISTRY.load(figure.kind).Spec
    return read_spec(model, figure, source)


def draw(records: Dataset, study: Study | None, figure: Figure) -> Drawn:
    """One figure, of no study where it shows several; a placeholder with the reason where its data is missing."""
    source = study.name if study else ""
    spec = read(figure, source)
    problem = ""
    try:
        chart = REGISTRY.load(spec.kind).draw(*_subject(records, study, spec), spec)
    except NoData as missing:
        problem = str(missing)
        chart = _placeholder(spec, problem)
    except Exception as error:
        if not (problem := registry.fault(error)):
            raise
        chart = _placeholder(spec, problem)
    return drawn(source, spec.name, spec.kind, chart, problem)


def drawn(study: str, name: str, kind: str, chart: Any, problem: str = "") -> Drawn:
    """The figure of a chart: ours are dictionaries, a plugin's may be Altair's."""
    given = chart if isinstance(chart, dict) else chart.to_dict(validate=False)
    declared: VegaLite = {"$schema": SCHEMA, **given}
    declared.pop("config", None)  # the theme's, not altair's, decides how charts look
    title = declared["title"]["text"]
    shown = title if isinstance(title, str) else " ".join(title)
    return Drawn(study, name, kind, shown, str(declared.get("description", "")), declared, problem)


def _subject(records: Dataset, study: Study | None, spec: FigureSpec) -> tuple[Dataset, Study | None]:
    """What the figure is of: the run itself, or its passes, loads or layers as if each were a trial."""
    if study is None or spec.of == "trials":
        return records, study
    from ioassay.analysis.measurements import passes
    from ioassay.report.figures import selection

    expand, lacking = {
        "loads": (passes.expanded_loads, sentence("figures.no_loads")),
        "layers": (passes.layers, sentence("figures.no_layers")),
        "passes": (passes.expanded, sentence("figures.no_passes")),
    }[spec.of]
    if (made := expand(records, study)) is None:
        if spec.of == "passes":
            selection.select(records, study, {})  # says why where nothing went well
        raise NoData(f"no trial of the study '{study.name}' {lacking}")
    return made, made.studies[0]


def _placeholder(spec: FigureSpec, reason: str) -> Any:
    from ioassay.report.figures import chart

    title, blank = spec.title or spec.name, chart.blank(f"Nothing to draw: {reason}", spec.width - 120)
    return {
        **chart.panel(blank, spec.width, min(spec.height, 160)),
        "title": {"text": title, "subtitle": f"figure '{spec.name}' of kind {spec.kind}"},
        "description": f"{title}: nothing to draw: {reason}",
    }
