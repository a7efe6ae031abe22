"""A study in one small panel: where the processors' time went at each level of what it sweeps (as figure `stack`)."""

from __future__ import annotations

from ioassay.factors import level_phrase
from ioassay.report.figures import axes, panels, selection, stack
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


def draw(records: Dataset, study: Study, ask: panels.Ask) -> panels.Panel:
    """The panel; NoData where nothing went well, nothing is swept or nothing watched."""
    import altair as alt

    trials = selection.select(records, study, ask.where)
    points = selection.points_of(study, trials)
    factor, _ = panels.swept(study, points)
    means, counts = stack.level_means(records, study, trials, factor)
    levels = study.design.in_order(factor, list(counts))
    axis = axes.category_axis(factor, levels)
    y = alt.Y("y:Q", title=None, scale=alt.Scale(domain=[0, 100], nice=False), axis=alt.Axis(values=[0, 50, 100]))
    chart = alt.layer(*stack.bars(means, axis, axis.encoding(ask.width), y, every=True))
    busiest = max(levels, key=lambda level: 100 - means[level].get("idle", 0.0))
    share = 100 - means[busiest].get("idle", 0.0)
    told = f"busiest: {share:.0f} % at {level_phrase(factor, busiest)}"
    notes = [told, selection.pooled(points, factor)]
    return panels.Panel(chart.properties(width=ask.width, height=ask.height), notes)
