"""The figure block_time: the median time of a block over its size, with the line of a fixed cost and a bandwidth."""

from __future__ import annotations

from typing import Any

from ioassay.report.figures.spec import FigureSpec, NoData
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay_dd import block_line

IOASSAY_API = 1


class Spec(FigureSpec):
    """No keys but those of every figure."""


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """An Altair chart; NoData where there are not three block sizes."""
    import altair as alt

    found = block_line.line(records, study)
    if found is None:
        raise NoData(f"the study '{study.name}' has no times of three block sizes")
    rows = [
        {"KiB": size / 1024, "µs": time / 1e3, "line": (found.fixed_ns + found.ns_per_byte * size) / 1e3}
        for size, time in zip(found.sizes_bytes, found.times_ns, strict=True)
    ]
    chart = alt.Chart(alt.Data(values=rows)).encode(x=alt.X("KiB:Q", title="Block size (KiB)"))
    points = chart.mark_point(filled=True).encode(y=alt.Y("µs:Q", title="Time of a block (µs)"))
    return alt.layer(points, chart.mark_line().encode(y="line:Q")).properties(
        width=spec.width,
        height=spec.height,
        title={"text": spec.title or "Time of a block"},
        description=f"Median time of a block over its size, {len(rows)} sizes, with a fitted line.",
    )
