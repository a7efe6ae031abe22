"""The page of a comparison: the verdict, the ratios, both runs over each other, and what else differs.

Shows what `analysis.run_comparison` found and decides nothing. `build` is all that others need.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ioassay import __version__, atomic_file
from ioassay.host import privacy
from ioassay.narrative import conditions_text, phrases
from ioassay.packs.comparison import comparison_charts, comparison_text
from ioassay.packs.comparison.run_comparison import Comparison
from ioassay.report import FIGURES, PAGE, figures, page, run_facts
from ioassay.report.figures import Drawn
from ioassay.report.figures.spec import NoData
from ioassay.store.dataset import Dataset

DATA = "comparison.json"
_MOST_OVERLAYS = 8
_MOST_BARS = 12
_OPEN_ROWS = 40
_MOST_ROWS = 2000
"""Of the table; the file of data has them all."""
_MOST_UNMATCHED = 50
_RATIOS = "ratios"


def declare(a: Dataset, b: Dataset, comparison: Comparison) -> list[Drawn]:
    """The picture of the ratios, where there are any, and the overlays of the responses with the worst rows."""
    ratios: list[Drawn] = []
    with suppress(NoData):  # the table gives the reason of each row
        ratios.append(figures.drawn("", _RATIOS, "forest", comparison_charts.forest(comparison)))
    studies_a, studies_b = ({study.name: study for study in records.studies} for records in (a, b))
    worst = [group[0] for group in comparison.results]
    overlays: list[Drawn] = []
    with_distributions: set[str] = set()
    for study, response in dict.fromkeys((row.study, row.response) for row in worst):
        if len(overlays) == _MOST_OVERLAYS:
            break
        if study in with_distributions:
            continue
        pair = comparison_charts.Pair(a, studies_a[study], b, studies_b[study])
        labels, name = [row.label for row in worst if row.study == study], _file_name(study)
        with suppress(NoData):
            kind, chart = comparison_charts.overlay(pair, response, labels)
            if kind == "distributions":
                with_distributions.add(study)
            shows = _file_name(response) if kind == "curves" else "latencies"
            overlays.append(figures.drawn(study, f"{name}-{shows}", kind, chart))
    order = list(dict.fromkeys(row.study for row in comparison.rows))
    shown = sorted(overlays, key=lambda one: order.index(one.study))
    names = [one.name for one in shown]
    numbered = [f"{name}-{place + 1}" if name in names[:place] else name for place, name in enumerate(names)]
    return [*ratios, *(replace(one, name=name) for one, name in zip(shown, numbered, strict=True))]


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text)[:60]


def build(
    a: Dataset,
    b: Dataset,
    comparison: Comparison,
    drawn: Sequence[Drawn],
    out: Path,
    executors: Sequence[Executor] = (),
) -> Path:
    """Write index.html, comparison.json and figures/<name>.{png,svg} into `out`, a folder that exists; the page's path.

    `drawn` is what `declare` returned; `executors` write the figures' files meanwhile (`page.submit`). As on
    every page, names of this machine, of its drives and people are replaced. OSError when `out` cannot be written.
    """
    wait = page.submit(drawn, out / FIGURES, executors)
    hidden = privacy.Redaction(privacy.of_host(), mild=True)
    rows = [(row,) for group in comparison.results for row in group]
    lines = comparison_text.lines(comparison, rows[:_MOST_ROWS])
    titles = {study.name: study.title or study.name for study in b.studies}
    overlays: dict[str, list[Drawn]] = {}
    for one in drawn:
        if one.study:
            overlays.setdefault(titles[one.study], []).append(one)
    ratios = next((one for one in drawn if one.name == _RATIOS), None)
    view = {
        "title": "B compared with A",
        "version": __version__,
        "text": comparison_text,
        "comparison": comparison,
        "shown": run_facts.shown,
        "sides": [_side("A", a, out), _side("B", b, out)],
        "ratios": ratios,
        "bars": comparison_charts.bars(comparison, _MOST_BARS) if ratios else None,
        "overlays": overlays,
        "lines": lines[:_OPEN_ROWS],
        "other_lines": lines[_OPEN_ROWS:],
        "omitted": len(rows) - len(lines),
        "most_unmatched": _MOST_UNMATCHED,
        "confidence": phrases.level(comparison.confidence),
        "again": f"ioassay compare {run_facts.run_folder(a.root)} {run_facts.run_folder(b.root)} "
        f"--margin {100 * comparison.margin:g}% --confidence {comparison.confidence:g}",
        "data_file": DATA,
    }
    texts = {
        PAGE: page.render(view, page.bundle(), hidden.text, "comparison.html.j2"),
        DATA: hidden.text(json.dumps(comparison_text.as_dict(comparison), indent=1)),
    }
    for name, text in texts.items():
        # A file name that is not UTF-8 is shown escaped: the page has to stay readable.
        atomic_file.write(out / name, text.encode("utf-8", "backslashreplace").decode())
    wait()
    return out / PAGE


def _side(letter: str, records: Dataset, out: Path) -> dict[str, object]:
    """One of the two runs; `link` leads to its own page, '' where there is none near the comparison's."""
    own_page = records.root / "report" / PAGE
    # A link to elsewhere would tell where people keep things.
    is_near = own_page.is_file() and own_page.resolve().is_relative_to(out.resolve().parent)
    began = [moment for moment in records.trials["started_unix_s"].to_list() if moment]
    version = records.host.get("ioassay", {}).get("version", "")
    about = (
        phrases.count(records.trials.height, "trial"),
        run_facts.utc(min(began)) if began else "",
        f"ioassay {version}" if version else "",
    )
    return {
        "letter": letter,
        "folder": run_facts.run_folder(records.root),
        "link": run_facts.link(own_page, out) if is_near else "",
        "title": ", ".join(dict.fromkeys(study.title or study.name for study in records.studies)),
        "about": " · ".join(filter(None, about)),
        "machine": run_facts.machines(records),
        "trust": conditions_text.trust(records),
    }
