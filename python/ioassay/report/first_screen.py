"""What a page begins with: the picture that answers the question, beside or above the answer.

A study of named workloads begins with their table; a suite with the figure over all of its studies; any other study
with its first figure, so the order of `[[figures]]` says which.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ioassay.report import profile_table
from ioassay.report.figures import Drawn
from ioassay.report.figures.spec import VegaLite
from ioassay.report.profile_table import ProfileTable
from ioassay.store.dataset import Dataset

_SIDE_BY_SIDE = 2
"""So many studies show a figure each where none is over all of them."""
_BESIDE_PX = (800, 620)
"""Up to this width and height a figure has the answer to its right; what is higher has it above."""
_MARGIN_PX = (75, 60)
"""About what axes and their titles take around a chart."""


@dataclass(frozen=True)
class FirstScreen:
    """A table or figures, or neither. `layout`: 'beside', 'below' or 'above' is where the answer stands."""

    profile: ProfileTable | None
    figures: Sequence[Drawn]

    @property
    def layout(self) -> str:
        """A class of the style sheet."""
        if self.profile is not None or len(self.figures) != 1:
            return "below"
        width, height = _size(self.figures[0].spec)
        if height > _BESIDE_PX[1]:
            return "above"
        return "beside" if width <= _BESIDE_PX[0] else "below"


def _size(chart: VegaLite) -> tuple[float, float]:
    """About the width and height that a chart takes, in pixels."""
    columns, rows = ([_size(part) for part in chart.get(name, ())] for name in ("hconcat", "vconcat"))
    if columns:
        return sum(width for width, _ in columns), max(height for _, height in columns)
    if panels := [_size(part) for part in chart.get("concat", ())]:
        across = chart.get("columns", len(panels))
        width, height = (max(size[way] for size in panels) for way in (0, 1))
        return width * min(across, len(panels)), height * math.ceil(len(panels) / across)
    if rows:
        return max(width for width, _ in rows), sum(height for _, height in rows)
    return chart.get("width", 0) + _MARGIN_PX[0], chart.get("height", 0) + _MARGIN_PX[1]


def first_screen(records: Dataset, drawn: Sequence[Drawn]) -> FirstScreen:
    """The picture of the first screen; figures that have nothing to show do not lead."""
    from ioassay.analysis.storage import workload_profile

    figures = [figure for figure in drawn if not figure.problem]
    overall = [figure for figure in figures if not figure.study]
    if overall:
        return FirstScreen(None, overall[:1])
    if len(records.studies) == 1:
        profile = profile_table.table(workload_profile.profiles(records, records.studies[0]))
        return FirstScreen(profile, [] if profile else figures[:1])
    firsts = [next((figure for figure in figures if figure.study == study.name), None) for study in records.studies]
    shown = [figure for figure in firsts if figure is not None]
    alike = len(shown) == _SIDE_BY_SIDE and all("width" in figure.spec for figure in shown)
    return FirstScreen(None, shown if alike else shown[:1])
