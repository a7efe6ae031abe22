"""The page of a comparison: the verdict, the ratios, both runs over each other, and what else differs.

Shows what `analysis.run_comparison` found and decides nothing. `build` is all that others need.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ioassay import atomic_file, metrics
from ioassay.analysis.run_comparison import Comparison, Difference, Row, Verdict
from ioassay.narrative import comparison_text, conditions_text, phrases
from ioassay.narrative.conditions_text import Trust
from ioassay.report import FIGURES, PAGE, host_facts, page, raw_files, render
from ioassay.report.figures import Drawn, ratio_forest, run_overlay
from ioassay.report.figures.chart import with_rows
from ioassay.report.figures.spec import NoData
from ioassay.stats.ratio_of_means import Ratio
from ioassay.store.dataset import Dataset

DATA = "comparison.json"
MARKS = {
    Verdict.SLOWER: "▼",
    Verdict.FASTER: "▲",
    Verdict.CHANGED: "◆",
    Verdict.UNDECIDED: "■",
    Verdict.SAME: "●",
    Verdict.WITHHELD: "–",
}
"""As the picture has them."""
_MOST_OVERLAYS = 8
_MOST_BARS = 12
_OPEN_ROWS = 40
_MOST_ROWS = 2000
"""Of the table; the file of data has them all."""
_MOST_UNMATCHED = 50
_RATIOS = "ratios"


@dataclass(frozen=True)
class ComparisonPaths:
    """What was written."""

    page: Path
    data: Path
    figures: tuple[tuple[Path, Path], ...]


@dataclass(frozen=True)
class Side:
    """One of the two runs. `link` leads to its own page, '' where there is none near the comparison's."""

    letter: str
    folder: str
    link: str
    title: str
    about: str
    machine: str
    trust: Trust | None


@dataclass(frozen=True)
class TableRow:
    """One row as shown."""

    condition: str
    metric: str
    means: tuple[str, str]
    repetitions: str
    ratio: str
    interval: str
    verdict: str
    mark: str
    reason: str


@dataclass(frozen=True)
class Setting:
    """One condition that differs between the runs; `text` where it has no values to show."""

    subject: str
    name: str
    values: tuple[str, str] | None
    text: str


def declare(a: Dataset, b: Dataset, comparison: Comparison) -> list[Drawn]:
    """The picture of the ratios, where there are any, and the overlays of the responses with the worst rows."""
    from altair.utils import schemapi

    # Tests hold the declarations against the schema of Vega-Lite.
    with schemapi.debug_mode(False):
        return [*_ratios(comparison), *_overlays(a, b, comparison)]


def _ratios(comparison: Comparison) -> Iterator[Drawn]:
    try:
        yield _drawn("", _RATIOS, "forest", ratio_forest.draw(comparison))
    except NoData:
        return  # the table gives the reason of each row


def _overlays(a: Dataset, b: Dataset, comparison: Comparison) -> list[Drawn]:
    studies = [{study.name: study for study in records.studies} for records in (a, b)]
    responses = dict.fromkeys((group[0].study, group[0].response) for group in comparison.results)
    labels: dict[str, list[str]] = {}
    for group in comparison.results:
        labels.setdefault(group[0].study, []).append(group[0].label)
    found: dict[tuple[str, str], Drawn] = {}
    for study, response in responses:
        if len(found) == _MOST_OVERLAYS:
            break
        pair = run_overlay.Pair(a, studies[0][study], b, studies[1][study])
        if (study, "") not in found and (drawn := _overlay(pair, study, response, labels[study])):
            found[study, "" if drawn.kind == "distributions" else response] = drawn
    order = list(dict.fromkeys(row.study for row in comparison.rows))
    shown = sorted(found.values(), key=lambda one: order.index(one.study))
    names = [one.name for one in shown]
    return [
        replace(one, name=f"{one.name}-{place + 1}") if one.name in names[:place] else one
        for place, one in enumerate(shown)
    ]


def _overlay(pair: run_overlay.Pair, study: str, response: str, labels: Sequence[str]) -> Drawn | None:
    """Curves over numbers; distributions of conditions without an order, or their means where none were kept."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", study)[:60]
    try:
        if not run_overlay.has_curve(pair, response):
            return _drawn(study, f"{name}-latencies", "distributions", run_overlay.distributions(pair, labels))
    except NoData:
        pass
    try:
        shown = f"{name}-{re.sub(r'[^A-Za-z0-9_-]+', '-', response)[:60]}"
        return _drawn(study, shown, "curves", run_overlay.curves(pair, response, labels))
    except NoData:
        return None


def _drawn(study: str, name: str, kind: str, chart: Any) -> Drawn:
    declared = with_rows(chart.to_dict(validate=False))
    declared.pop("config", None)  # the theme's, not altair's, decides how charts look
    title = declared["title"]["text"]
    return Drawn(
        study=study,
        name=name,
        kind=kind,
        title=title if isinstance(title, str) else " ".join(title),
        description=declared["description"],
        spec=declared,
    )


def build(
    a: Dataset,
    b: Dataset,
    comparison: Comparison,
    drawn: Sequence[Drawn],
    out: Path,
    executors: Sequence[Executor] = (),
) -> ComparisonPaths:
    """Write `out`/index.html, comparison.json and figures/<name>.{png,svg} into a folder that exists.

    `drawn` is what `declare` returned; `executors` write the figures' files meanwhile (`render.submit`). As on
    every page, names of this machine, of its drives and people are replaced. OSError when `out` cannot be written.
    """
    from ioassay.host import privacy

    (out / FIGURES).mkdir(parents=True, exist_ok=True)
    charts = [(one.name, one.spec) for one in drawn]
    wait = render.submit(charts, out / FIGURES, executors)
    hidden = privacy.Redaction(privacy.of_host(), mild=True)
    view = _view(a, b, comparison, drawn, out)
    _write(out / PAGE, page.render(view, page.bundle(), hidden.text, "comparison.html.j2"))
    _write(out / DATA, hidden.text(json.dumps(comparison_text.as_dict(comparison), indent=1)))
    files = wait()
    return ComparisonPaths(out / PAGE, out / DATA, tuple(files))


def _write(path: Path, text: str) -> None:
    """A file name that is not UTF-8 is shown escaped: the page has to stay readable."""
    atomic_file.write(path, text.encode("utf-8", "backslashreplace").decode())


def _view(a: Dataset, b: Dataset, comparison: Comparison, drawn: Sequence[Drawn], out: Path) -> dict[str, object]:
    """All that the template shows."""
    from ioassay import __version__

    rows = [row for group in comparison.results for row in group]
    several = len({row.study for row in rows}) > 1
    table = [_table_row(row, comparison.margin, several) for row in rows[:_MOST_ROWS]]
    titles = {study.name: study.title or study.name for study in b.studies}
    overlays = [one for one in drawn if one.study]
    return {
        "title": "B compared with A",
        "version": __version__,
        "headline": comparison_text.headline(comparison),
        "counts": [(MARKS[Verdict(name)], number, name) for name, number in comparison.counts.items()],
        "worst": comparison_text.worst(comparison),
        "sides": [_side("A", a, out), _side("B", b, out)],
        "ratios": next((one for one in drawn if one.name == _RATIOS), None),
        "bars": ratio_forest.bars(comparison, _MOST_BARS) if any(one.name == _RATIOS for one in drawn) else None,
        "marks": MARKS,
        "overlays": {
            titles[name]: [one for one in overlays if one.study == name]
            for name in dict.fromkeys(one.study for one in overlays)
        },
        "rows": table[:_OPEN_ROWS],
        "other_rows": table[_OPEN_ROWS:],
        "omitted": len(rows) - len(table),
        "differences": [_setting(one) for one in comparison.differences],
        "unmatched": [
            (letter, [comparison_text.unmatched(one) for one in missing[:_MOST_UNMATCHED]], len(missing))
            for letter, missing in (("A", comparison.only_a), ("B", comparison.only_b))
            if missing
        ],
        "method": comparison_text.METHOD,
        "margin": phrases.percent(comparison.margin),
        "confidence": phrases.level(comparison.confidence),
        "again": f"ioassay compare {raw_files.run_folder(a.root)} {raw_files.run_folder(b.root)} "
        f"--margin {100 * comparison.margin:g}% --confidence {comparison.confidence:g}",
        "data_file": DATA,
    }


def _side(letter: str, records: Dataset, out: Path) -> Side:
    own_page = records.root / "report" / PAGE
    # A link to elsewhere would tell where people keep things.
    is_near = own_page.is_file() and own_page.resolve().is_relative_to(out.resolve().parent)
    began = [moment for moment in records.trials["started_unix_s"].to_list() if moment]
    version = records.host.get("ioassay", {}).get("version", "")
    about = (
        phrases.count(records.trials.height, "trial"),
        host_facts.utc(min(began)) if began else "",
        f"ioassay {version}" if version else "",
    )
    return Side(
        letter=letter,
        folder=raw_files.run_folder(records.root),
        link=raw_files.link(own_page, out) if is_near else "",
        title=", ".join(dict.fromkeys(study.title or study.name for study in records.studies)),
        about=" · ".join(filter(None, about)),
        machine=host_facts.machines(records),
        trust=conditions_text.trust(records),
    )


def _table_row(row: Row, margin: float, several: bool) -> TableRow:
    form, known = metrics.metric(row.response).format, isinstance(row.ratio, Ratio)
    return TableRow(
        condition=f"{row.study}: {row.label}" if several else row.label,
        metric=comparison_text.brief(row.response),
        means=(form(row.mean_a), form(row.mean_b)),
        repetitions=str(row.n_a) if row.n_a == row.n_b else f"{row.n_a} and {row.n_b}",
        ratio=f"{row.ratio.ratio:.4g}" if isinstance(row.ratio, Ratio) else "–",
        interval=f"{row.interval.low:.3g} to {row.interval.high:.3g}" if row.interval else "",
        verdict=row.verdict if known else "not compared",
        mark=MARKS[row.verdict] if known else "",
        reason=comparison_text.reservation(row),
    )


def _setting(difference: Difference) -> Setting:
    left, right = (host_facts.shown(difference.name, value) for value in (difference.a, difference.b))
    values = (left, right) if difference.name else None
    return Setting(difference.subject, difference.name, values, comparison_text.warning(difference))
