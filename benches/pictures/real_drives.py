"""Pictures of real drives and their models, for docs/real-drives.md: measured points and the model's curves.

    .venv/bin/python benches/pictures/real_drives.py docs/images/real-drives

Filled points were open to the fit, hollow ones are held out. Drives that were not measured have curves alone.
"""

from __future__ import annotations

import sys
from itertools import accumulate
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from ioassay.packs.ssd import simulator
from ioassay.packs.ssd.simulator import drive_accuracy
from ioassay.report import page
from ioassay.simulation import drive_files, traces
from ioassay.units import format_size

PICTURES = {
    "samsung-980-pro-depth": ("samsung-980-pro", "reads-4k-spdk", ("mean_us", "p50_us", "p99_us")),
    "samsung-980-pro-size": ("samsung-980-pro", "reads-by-size", ("mean_us",)),
    "nvme-a-writes": ("nvme-a", "writes-io-uring", ("mean_us",)),
    "nvme-b-writes": ("nvme-b", "writes-io-uring", ("mean_us",)),
}
"""Name -> drive, measurement, statistics. One statistic has a curve for each size, several have one each."""
NAMES = {"mean_us": "mean", "p50_us": "median", "p99_us": "99 %"}
WIDTH, HEIGHT = 520, 300
CLIFF = "client-write-cliff"
CLIFF_CURVES = {
    "tlc-client": ("tlc-client", 1.0),
    "qlc-client, half full": ("qlc-client", 0.5),
    "qlc-client, 90 % full": ("qlc-client", 0.9),
    "qlc-client, full": ("qlc-client", 1.0),
}
"""Curve -> drive, and the share of its pages that is mapped at first."""
CLIFF_BYTES, CLIFF_REQUEST = 90 * 10**9, 2**20


def rows(drive: str, measurement: str, statistics: tuple[str, ...]) -> list[dict[str, Any]]:
    """A row for each point and statistic: its curve, depth, measured and simulated time."""
    described = drive_files.load(drive)
    (wanted,) = (each for each in described.measurements if each.name == measurement)
    return [
        {
            "curve": NAMES[statistic] if len(statistics) > 1 else format_size(each.point.size_bytes),
            "order": each.point.size_bytes + statistics.index(statistic),
            "depth": each.point.depth,
            "measured": each.point.statistics[statistic],
            "simulated": each.simulated[statistic],
            "use": "fitted" if each.is_fitted else "held out",
        }
        for each in drive_accuracy.accuracy(described, wanted).comparisons
        for statistic in statistics
    ]


def chart(data: list[dict[str, Any]]) -> dict[str, Any]:
    """Vega-Lite: lines of the model, points of the drive, both axes logarithmic."""
    curves = list(dict.fromkeys(row["curve"] for row in sorted(data, key=lambda row: row["order"])))
    depths = sorted({row["depth"] for row in data})
    base = alt.Chart(alt.Data(values=data)).encode(
        x=alt.X("depth:Q", title="queue depth", scale=alt.Scale(type="log", base=2), axis=alt.Axis(values=depths)),
        color=alt.Color("curve:N", title=None, scale=alt.Scale(domain=curves)),
    )
    scale = alt.Scale(type="log", nice=False, padding=8)
    lines = base.mark_line(strokeWidth=1.5).encode(y=alt.Y("simulated:Q", title="latency, µs", scale=scale))
    fitted, held_out = (
        base.transform_filter(f"datum.use == '{use}'")
        .mark_point(size=44, filled=filled, strokeWidth=1.4, opacity=1)
        .encode(y=alt.Y("measured:Q", scale=scale))
        for use, filled in (("fitted", True), ("held out", False))
    )
    found: dict[str, Any] = (lines + fitted + held_out).properties(width=WIDTH, height=HEIGHT).to_dict()
    return {**found, "config": page.config()}


def cliff_rows(curve: str) -> list[dict[str, Any]]:
    """Sequential writes at depth 8: the rate over what was written so far, but for the last slices of time."""
    drive, fill = CLIFF_CURVES[curve]
    options = {**drive_files.load(drive).options, "fill": fill}
    size = simulator.check(options)["capacity_bytes"] // CLIFF_REQUEST * CLIFF_REQUEST
    load = traces.recipe(
        requests=CLIFF_BYTES // CLIFF_REQUEST, arrivals="none", addresses="sequential", sizes=CLIFF_REQUEST, range=size
    )
    done = simulator.simulate(load, feed="closed:8", window=None, driver="fcfs", **options)
    series = done.series.head(-2)
    width_s = series["time_s"][1]
    written_gb = (series["written_pages"] * 4096 / 1e9).to_list()
    ends = list(accumulate(written_gb))
    return [
        {"curve": curve, "written": end - gb / 2, "rate": gb * 1e3 / width_s}
        for end, gb in zip(ends, written_gb, strict=True)
    ]


def cliff_chart(data: list[dict[str, Any]]) -> dict[str, Any]:
    """Vega-Lite: a line for each drive and state; rates logarithmic."""
    found: dict[str, Any] = (
        alt.Chart(alt.Data(values=data))
        .mark_line(strokeWidth=1.5)
        .encode(
            x=alt.X("written:Q", title="written, GB"),
            y=alt.Y("rate:Q", title="sequential writes, MB/s", scale=alt.Scale(type="log", nice=False, padding=8)),
            color=alt.Color("curve:N", title=None, scale=alt.Scale(domain=list(CLIFF_CURVES))),
        )
        .properties(width=WIDTH, height=HEIGHT)
        .to_dict()
    )
    return {**found, "config": page.config()}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (drive, measurement, statistics) in PICTURES.items():
        svg = vl_convert.vegalite_to_svg(chart(rows(drive, measurement, statistics)))
        (folder / f"{name}.svg").write_text(svg + "\n")
    data = [row for curve in CLIFF_CURVES for row in cliff_rows(curve)]
    (folder / f"{CLIFF}.svg").write_text(vl_convert.vegalite_to_svg(cliff_chart(data)) + "\n")


if __name__ == "__main__":
    main()
