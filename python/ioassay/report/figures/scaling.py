"""How a response scales with the number of workers: levels, perfect scaling, the fitted law and the plateau.

All numbers are those of the question `peak` (`analysis/optimum/optimum.py`); where it tells no law, none is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ioassay import units
from ioassay.factors import factor_label, level_number, same_level
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart, condition_rows, hardware_threads, metric_view, selection
from ioassay.report.figures.metric_view import REPETITION, View
from ioassay.report.figures.spec import ErrorBar, FigureSpec, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay.analysis.optimum.optimum import Peak
    from ioassay.stats.scalability import Law

IDEAL = "perfect scaling"
BEST = "best level"
LAWS = {"usl": "universal scalability law", "amdahl": "Amdahl's law"}
_STEPS = 80
_HEADROOM = 1.08
"""The line of perfect scaling ends this much above the highest value."""


class Spec(FigureSpec):
    """Keys of a scaling curve."""

    x: str
    y: str
    log_x: bool = False
    log_y: bool | None = None
    error: ErrorBar = "ci"
    ideal: bool = True
    law: bool = True
    plateau: bool = True
    repetitions: bool = True
    threads: bool = True


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The layered chart; of an unfit machine without best level, plateau and law."""
    from ioassay.stats.result import mean_of

    found = _measured(records, study, spec)
    # The levels in ascending order, as the analysis has them.
    shown = condition_rows.of(found.cells, study, spec.y, spec.x)
    shown.sort(key=lambda one: level_number(spec.x, one.level) or 0.0)
    ask = condition_rows.Ask(spec.y, None, spec.error, study.analysis.confidence)
    levels = condition_rows.levels_of(shown)
    # Perfect scaling is a straight line where both axes are linear or both logarithmic.
    log_y = axes.metric_axis(spec.y, condition_rows.measured_values(shown), spec.log_y).log
    axis = axes.level_axis(spec.x, levels, spec.log_x or (log_y and axes.geometric(spec.x, levels)))
    view = metric_view.of(records, study, shown, ask, axis, spec.width, spec.log_y)
    conclusive = selection.is_conclusive(records, study)
    numbers, marked = found.numbers or (), conclusive and not found.indistinct
    ends = found.plateau
    law = found.law if spec.law and conclusive else None
    # The law of the levels up to the plateau, where all together follow none.
    growth = found.growth if spec.law and conclusive and ends and not law else None
    single = view.single() if spec.repetitions else []
    shapes = {view.mean_name: "circle", **({REPETITION: chart.BAR} if single else {})}
    shapes |= {BEST: chart.RING} if marked else {}
    banded = bool(spec.plateau and marked and ends and ends.first != ends.last)
    layers = [view.band(numbers[ends.first], numbers[ends.last])] if banded and ends else []
    if spec.threads and (threads := hardware_threads.threads(records.machine(study), spec.x, numbers)):
        layers += hardware_threads.rule(threads, view.x)
    if spec.ideal and found.scaling is not None:
        # It soon leaves what is measured.
        first, start = mean_of(found.cells[0].values), numbers[0]
        top = max(condition_rows.measured_values(view.conditions)) * _HEADROOM
        places = view.axis.places(_STEPS, start, min(numbers[-1], top / first * start))
        layers += view.curve(IDEAL, view.along(lambda x: first * x / start, places), "reference", [2, 4])
    if curve := law or growth:
        last = numbers[ends.first] if ends and curve is growth else numbers[-1]
        rows = view.along(curve.at, view.axis.places(_STEPS, numbers[0], last))
        layers += view.curve(LAWS[curve.kind], rows, "fit", [7, 3])
    layers += _peak(view, law, numbers, spec.height) if law else []
    # A law's curve leads the eye already.
    joined: VegaLite = {} if law else {"style": "joined", "strokeWidth": 1.3}
    layers += [*view.repetitions(single, shapes), *view.means(shapes, **joined)]
    if marked:
        ring = view.symbols([view.points[found.best]], BEST, shapes).mark("point", style="best", filled=True, size=230)
        layers.append(ring.encode(tooltip=view.tooltip))
    title = f"{selection.metric_label(spec.y)} over {factor_label(spec.x)}: scaling"
    said = ["the levels are not distinguishable"] if conclusive else [selection.UNFIT]
    if marked:
        said = _notes(found, law, growth, banded, spec.law)
    deviation = view.mean_name if spec.error == "sd" else ""
    notes = [deviation, view.counted, *said, view.axis.note, view.metric_axis.note]
    whole = chart.layered(layers, spec, study, title, notes, points=view.points)
    # A legend that all lines shared would show them in the colour of one.
    return {**whole, "resolve": {"scale": {"strokeDash": "independent"}}}


def _measured(records: Dataset, study: Study, spec: Spec) -> Peak:
    """The peak's analysis of what the figure shows; NoData where that is not one row of numbers."""
    from ioassay.analysis.effects.level_contrasts import families
    from ioassay.analysis.optimum import optimum

    selection.measured(records, study, spec.where, spec.y, spec.x)  # says why where there is nothing
    groups = families(records, study, spec.y).get(spec.x, [])
    parts = [family for family in groups if is_of(family.cells[0].point, spec.where, spec.x)]
    if len(parts) > 1:
        free = [name for name in study.levels if name != spec.x and name not in spec.where]
        raise NoData(f"{' and '.join(free)} vary as well; choose one level of each with `where`")
    if not parts:
        raise NoData(f"only one level of {spec.x} has values; scaling needs two")
    found = optimum.measure(parts[0], replace(optimum.ask_of(records, study), workers=True))
    if found.numbers is None:
        raise NoData(f"levels of {spec.x} are words; scaling needs numbers")
    return found


def is_of(point: Mapping[str, Scalar], where: Mapping[str, Scalar], x: str) -> bool:
    """Whether a point matches a restriction, whatever its level of `x`."""
    return all(same_level(name, level, point[name]) for name, level in where.items() if name != x)


def _peak(view: View, law: Law, numbers: Sequence[float], height: int) -> list[Any]:
    """The law's peak with its interval, where it lies within what was measured."""
    if law.peak is None or law.peak_interval is None or not numbers[0] <= law.peak <= numbers[-1]:
        return []
    row = {"x": float(f"{law.peak:.7g}"), "y": view.metric_axis.unit.scale(law.at(law.peak)), "peak": f"{law.peak:.3g}"}
    row |= {"from": max(law.peak_interval.low, numbers[0]), "to": min(law.peak_interval.high, numbers[-1])}
    base, tooltip = chart.base([row]).encode(x=view.x, y=view.y), chart.tips({"peak:N": "peak of the law"})
    across = base.mark("rule", style="fit", strokeWidth=5, opacity=0.45).encode(x=chart.on(view.x, "from"), x2="to:Q")
    return [across, base.mark("rule", style="fit", strokeWidth=1.2).encode(y2={"value": height}, tooltip=tooltip)]


def _notes(found: Peak, law: Law | None, growth: Law | None, banded: bool, laws: bool) -> list[str]:
    """The band, the law and what it predicts, or where the curve bends, in words."""
    from ioassay.narrative import peak_text
    from ioassay.stats.saturation import Knee

    said = [f"shaded: {condition_rows.as_good()}"] if banded else []
    if found.plateau is None and found.no_plateau:
        said.append(f"no plateau: {found.no_plateau}")
    if law is not None:
        return [*said, _law_note(law)]
    if isinstance(found.knee, Knee):
        bounds = found.knee.interval
        low, high = (peak_text.place(found, end) for end in (bounds.low, bounds.high))
        said.append(f"bends near {peak_text.place_text(found, found.knee.x)} ({low} to {high})")
    if growth is not None:
        return [*said, f"up to the plateau: {_law_note(growth)}"]
    return [*said, "no law of scaling fits"] if laws else said


def _law_note(law: Law) -> str:
    told = f"{units.format_percent(law.alpha)} % cannot run in parallel"
    if law.peak is not None and law.peak_interval is not None:
        told += f", peak at {law.peak:.3g} ({law.peak_interval.low:.3g} to {law.peak_interval.high:.3g})"
    return f"{told}, R² = {law.r2:.3f}"
