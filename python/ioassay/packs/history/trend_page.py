"""The page of a trend: whether it is slower than before, a panel a series, the changes, the runs. Decides nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from ioassay import __version__, atomic_file
from ioassay.api import publication
from ioassay.host import privacy
from ioassay.narrative import phrases
from ioassay.narrative.say import sentence
from ioassay.packs.history import trend_text
from ioassay.packs.history.trend import COMMIT, Series, Trend
from ioassay.report import FIGURES, PAGE, figures, page, run_facts
from ioassay.report.figures import Drawn, axes, chart
from ioassay.report.figures.spec import FigureSpec
from ioassay.stats.change_points import Changes

DATA = "trend.json"
MOST_PANELS = 30
_OPEN_PANELS = 8
_WIDTH_PX, _HEIGHT_PX = 840, 190
_MOST_LABELS = 8
_GREY, _COUNTED = "not counted", "counted"


def publish(trend: Trend, folder: Path | None, again: str, executors: Sequence[Executor] = ()) -> Path:
    """Write the page into a new folder, by default runs/<time>-history; the page's path. `again` is the command.

    UsageError where the folder has something in it or cannot be written, RunError where no figure can be drawn.
    """
    with publication.new_page_folder(folder, "history", "--page") as out:
        return build(trend, out, again, executors)


def build(trend: Trend, out: Path, again: str, executors: Sequence[Executor] = ()) -> Path:
    """Write index.html, trend.json and figures/<name>.{png,svg} into a folder that exists; the page's path.

    As on every page, names of this machine, of its drives and people are replaced. OSError where `out` cannot be
    written.
    """
    drawn = [panel(trend, series, number) for number, series in enumerate(trend.series[:MOST_PANELS], start=1)]
    wait = page.submit(drawn, out / FIGURES, executors)
    begun = [run["begun"] for run in trend.runs.values()]
    view = {
        "title": f"Trend of {trend.title}",
        "version": __version__,
        "text": trend_text,
        "trend": trend,
        "span": f"{trend_text.day(min(begun))} to {trend_text.day(max(begun))}",
        "counted": phrases.count(len(trend.runs), "run"),
        "hosts": phrases.count(len(trend.hosts), "host"),
        "changed": [(series, step) for series in trend.series for step in series.steps[::-1]],
        "panels": list(zip(trend.series, drawn, strict=False)),
        "open": _OPEN_PANELS,
        "lines": trend_text.lines(trend),
        "rows": [*_runs(trend, out)],
        "facts": _varied(trend),
        "again": again,
        "data_file": DATA,
    }
    texts = {
        PAGE: page.render(view, page.bundle(), hidden, "trend.html.j2"),
        DATA: hidden(json.dumps(trend_text.as_dict(trend), indent=1)),
    }
    for name, text in texts.items():
        # A name that is not UTF-8 is shown escaped: the page has to stay readable.
        atomic_file.write(out / name, text.encode("utf-8", "backslashreplace").decode())
    wait()
    return out / PAGE


def hidden(text: str) -> str:
    """A text without the names of this machine, of its drives and people."""
    return _redaction().text(text)


@cache
def _redaction() -> privacy.Redaction:
    return privacy.Redaction(privacy.of_host(), mild=True)


def _varied(trend: Trend) -> list[str]:
    """The facts that differ among the runs, which the table of runs has as columns."""
    names = (
        "tool_version",
        "kernel",
        "firmware",
        "mount_options",
        "mitigations",
        "governor",
        "settings",
        "ioassay",
        COMMIT,
    )
    return [name for name in names if len({run[name] for run in trend.runs.values()}) > 1]


def _runs(trend: Trend, out: Path) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Each run, newest first, with the link to its page; '' where that is not near: it would show where it is kept."""
    near = out.resolve().parent
    for run in sorted(trend.runs.values(), key=lambda run: run["begun"], reverse=True):
        own = Path(run["page"]).expanduser() if run["page"] else None
        is_near = False
        with suppress(OSError):
            is_near = own is not None and own.is_file() and own.resolve().is_relative_to(near)
        yield run, run_facts.link(own.resolve(), out.resolve()) if own is not None and is_near else ""


# A panel


def panel(trend: Trend, series: Series, number: int) -> Drawn:
    """The figure of a series: runs as points, levels as lines, changes as rules with their sizes."""
    axis = axes.metric_axis(series.response, [value.value for value in series.values], log=False)
    unit = axis.unit
    place = _places(trend, series)
    facts = (trend.runs[value.run] for value in series.values)
    rows: list[dict[str, Any]] = [
        {
            "x": place[value.run],
            "y": unit.scale(value.value),
            "kind": _COUNTED if value.weighs else _GREY,
            "value": phrases.value(series.response, value.value),
            "date": f"{value.begun:%Y-%m-%d %H:%M}",
            "run": value.run,
            **{name: run[name] or "–" for name in ("kernel", "tool_version", COMMIT)},
            "state": run["grade"] or "–",
            "n": value.n,
        }
        for value, run in zip(series.values, facts, strict=True)
    ]
    x = _time_axis(trend, series, place)
    y = axis.encoding(zero=False, ticks=5) | {"title": unit.name or None}
    tips = {"date:N": "", "value:N": "", "n:Q": "repetitions", "run:N": "", "kernel:N": "", "tool_version:N": "tool"}
    tooltip = chart.tips({**tips, "state:N": "machine", **({"commit:N": ""} if trend.over == COMMIT else {})})
    layers = []
    grey = [row for row in rows if row["kind"] == _GREY]
    if grey:
        mark = chart.base(grey).mark("point", style="reference", filled=False, size=30)
        layers.append(mark.encode(x=x, y=y, tooltip=tooltip))
    known = [row for row in rows if row["kind"] == _COUNTED]
    if known:
        mark = chart.base(known).mark("point", style="mark", filled=True, size=26)
        layers.append(mark.encode(x=x, y=y, tooltip=tooltip))
    layers += _levels(series, place, unit, x, y)
    layers += _rules(trend, series, place, x)
    words = [sentence("trend.chart"), sentence("trend.chart_grey") if grey else ""]
    said = [str(trend_text.change(trend, series)), *(f"{trend_text.dates(trend, one)}" for one in series.steps)]
    spec = FigureSpec(kind="trend", name="trend", width=_WIDTH_PX, height=_HEIGHT_PX)
    title = f"{phrases.capital(phrases.brief(series.response))}: {trend_text.name(trend, series)}"
    whole = chart.layer(*layers, width=_WIDTH_PX, height=_HEIGHT_PX)
    done = chart.figure(whole, spec, None, title, words, details=". ".join(said))
    short = re.sub(r"[^A-Za-z0-9_-]+", "-", f"{series.host}-{series.condition}-{series.response}")[:60].strip("-")
    return figures.drawn("", f"{number:02}-{short}", "trend", done)


def _places(trend: Trend, series: Series) -> dict[str, float]:
    """Where a run is on the axis: its time in ms since 1970, or the number of its commit."""
    if trend.over != COMMIT:
        return {value.run: value.begun.timestamp() * 1000 for value in series.values}
    commits = list(dict.fromkeys(run[COMMIT] for run in trend.runs.values()))
    return {value.run: commits.index(trend.runs[value.run][COMMIT]) for value in series.values}


def _time_axis(trend: Trend, series: Series, place: dict[str, float]) -> Any:
    if trend.over != COMMIT:
        scale = {"type": "utc", "nice": False, "padding": 8}
        return {"field": "x", "type": "temporal", "title": None, "scale": scale, "axis": {"tickCount": _MOST_LABELS}}
    commits = {place[value.run]: str(trend.runs[value.run][COMMIT]) for value in series.values}
    step = max(1, -(-len(commits) // _MOST_LABELS))
    shown = {at: text if len(text) <= 12 else f"{text[:11]}…" for at, text in list(commits.items())[::step]}
    axis = {"values": list(shown), "labelExpr": axes.labels_at(shown), "labelOverlap": "greedy"}
    return chart.channel("x:Q", title=None, axis=axis, scale={"nice": False, "zero": False, "padding": 8})


def _levels(series: Series, place: dict[str, float], unit: axes.Unit, x: Any, y: Any) -> list[Any]:
    """The level between changes, or the drift, as lines."""
    if not isinstance(series.changes, Changes):
        return []
    known, cuts = series.weighing, [step.point.index for step in series.steps]
    parts = []
    for begin, end in zip([0, *cuts], [*cuts, len(known)], strict=True):
        for at in (begin, end - 1):
            level = unit.scale(float(series.changes.levels[at]))
            parts.append({"x": place[known[at].run], "y": level, "part": f"level {begin}"})
    line = chart.base(parts).mark("line", style="fit", strokeWidth=2)
    return [line.encode(x=x, y=y, detail=chart.channel("part:N"))]


def _rules(trend: Trend, series: Series, place: dict[str, float], x: Any) -> list[Any]:
    """A rule at each change with its size and date, and a band over the runs at which it may be."""
    rows = [
        {
            "x": place[step.run.run],
            "low": place[step.first.run],
            "high": place[step.last.run],
            "label": f"{trend_text.size(series, step).partition(' (')[0]}",
            "size": trend_text.size(series, step),
            "when": trend_text.dates(trend, step),
            "facts": trend_text.facts(step),
        }
        for step in series.steps
    ]
    if not rows:
        return []
    tooltip = chart.tips({"size:N": "change", "when:N": "from", "facts:N": "at the same time"})
    base = chart.base(rows)
    band = base.mark("rect", style="window").encode(x=chart.on(x, "low") | {"type": x["type"]}, x2="high:Q")
    rule = base.mark("rule", style="reference", strokeWidth=1.5, strokeDash=[4, 3]).encode(x=x, tooltip=tooltip)
    text = base.mark("text", style="value", align="left", dx=4, fontWeight="bold")
    return [band, rule, text.encode(x=x, y={"value": 8}, text="label:N", tooltip=tooltip)]
