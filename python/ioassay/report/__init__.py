"""Findings and figures as one page that works offline, plus a PNG and an SVG file for each figure.

Reads records and findings; measures nothing and decides nothing. `build` is all that others need.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import __version__
from ioassay.analysis import OVERALL
from ioassay.factors import level_word

if TYPE_CHECKING:
    from ioassay.narrative.finding import Finding
    from ioassay.report.figures import Drawn
    from ioassay.report.page import Waiting
    from ioassay.store.dataset import Dataset
    from ioassay.study.model import Figure, Study

PAGE = "index.html"
FINDINGS = "findings.json"
FIGURES = "figures"
_STUDY = "study.toml"


@dataclass(frozen=True)
class FigurePaths:
    """One figure's files; `study` is '' where it shows several. `problem` says why it is a placeholder, else ''."""

    study: str
    name: str
    png: Path
    svg: Path
    problem: str


@dataclass(frozen=True)
class ReportPaths:
    """What was written."""

    page: Path
    findings: Path
    figures: tuple[FigurePaths, ...]


def build(
    records: Dataset,
    findings: Sequence[Finding],
    out: Path,
    *,
    title: str,
    description: str = "",
    drawn: Sequence[Drawn] | None = None,
    files: Waiting | None = None,
) -> ReportPaths:
    """Write `out`/index.html, findings.json and figures/<name>.{png,svg}; what is there already is replaced.

    `drawn` is what `declare` returned, and `files` what `page.submit` did; they are called without. Command lines and
    raw outputs are looked up and linked below `records.root`. Pages are published: names of this machine, of its drives
    and people are replaced, and home folders are `~`. OSError when `out` cannot be written; StudyError when a
    `[[figures]]` table is wrong.
    """
    from ioassay.host import privacy
    from ioassay.report import page

    drawn = declare(records) if drawn is None else drawn
    files = files or page.submit(drawn, out / FIGURES)
    view = _view(records, findings, drawn, out, title, description)
    hidden = privacy.Redaction(privacy.of_host(), mild=True)
    texts = {out / PAGE: page.render(view, page.bundle(), hidden.text)}
    # A line for each finding: `indent` would take an encoder that is ten times slower.
    stated = "[\n" + ",\n".join(json.dumps(_plain(finding.as_dict())) for finding in findings) + "\n]\n"
    texts[out / FINDINGS] = hidden.text(stated)
    for path, text in texts.items():
        # Whole or not at all: a page that is open in a browser is never half of one. A file name that is not UTF-8 is
        # shown escaped: the page has to stay readable.
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        temporary.replace(path)
    figures = (FigurePaths(one.study, one.name, *paths, one.problem) for one, paths in zip(drawn, files(), strict=True))
    return ReportPaths(out / PAGE, out / FINDINGS, tuple(figures))


def declare(records: Dataset) -> list[Drawn]:
    """Every figure's declaration, those of all studies first; StudyError when a `[[figures]]` table is wrong."""
    from ioassay.report import figures

    return [figures.draw(records, study, figure) for study, figure in figures_of(records)]


def figures_of(records: Dataset) -> Iterator[tuple[Study | None, Figure]]:
    """Every figure with its study (None where it shows several) under a name of its own, not drawn yet.

    Names that two figures share get the second's study in front; small multiples replace those that say so.
    """
    from ioassay.report import figures
    from ioassay.report.figures import default_figures

    names: set[str] = set()
    overall = records.figures or default_figures.of_run(records)
    for figure in overall:
        names.add(figure.name)
        yield None, figure
    for study in records.studies:
        own = study.figures or default_figures.of_study(records, study)
        for figure in [*default_figures.of_explained(records, study, own), *own]:
            if overall and not figures.read(figure, study.name).suite:
                continue
            name = figure.name if figure.name not in names else f"{study.name}-{figure.name}"
            names.add(name)
            yield study, figure.model_copy(update={"name": name})


def _view(
    records: Dataset, findings: Sequence[Finding], drawn: Sequence[Drawn], out: Path, title: str, description: str
) -> dict[str, object]:
    from ioassay.analysis.descriptive import headline
    from ioassay.narrative import conditions_text
    from ioassay.narrative.finding import is_answer, premises
    from ioassay.report import run_facts, study_sections, warnings

    rows = headline(records, list(records.studies))
    together = [finding for finding in findings if finding.question in OVERALL]
    names = (_STUDY, "tune.json", "plan.jsonl", "found.json", "host.json")
    files = {name: records.root / name for name in names}
    known = {study.name for study in records.studies}
    screen = study_sections.first_screen(records, drawn)
    stories = study_sections.studies(records, findings, rows)
    return {
        "title": title,
        "premises": premises(findings),
        "description": description,
        "version": __version__,
        "measured_with": records.host.get("ioassay", {}).get("version", __version__),
        "trust": conditions_text.trust(records),
        "summary": study_sections.summary(records, findings, stories),
        "answered": any(map(is_answer, findings)),
        "anchors": {story.name: story.anchor for story in stories},
        "studies": stories,
        "together": [study_sections.group(finding.title, [finding]) for finding in together],
        "others": [
            study_sections.group(finding.title, [finding])
            for finding in findings
            if finding.study not in known and finding not in together
        ],
        "figures": {name: [one for one in drawn if one.study == name and one not in screen.figures] for name in known},
        "overview": [one for one in drawn if not one.study and one not in screen.figures],
        "screen": screen,
        "alerts": warnings.alerts(records, drawn, findings),
        "trials": run_facts.trials(records, out),
        "host": run_facts.sections(records.host),
        "machine": run_facts.machines(records),
        "setup": run_facts.setup(records),
        "fleet": run_facts.fleet(records),
        "study_toml": files[_STUDY].read_text(encoding="utf-8", errors="replace") if files[_STUDY].is_file() else "",
        "seeds": {study.name: study.seed for study in records.studies},
        "files": {name: run_facts.link(path, out) for name, path in files.items() if path.is_file()},
        "again": rerun_command(records),
        "root": run_facts.run_folder(records.root),
    }


def rerun_command(records: Dataset) -> str:
    """`ioassay run study.toml`, or the search with all that it was asked."""
    if (tuning := records.tuning) is None:
        return f"ioassay run {_STUDY}"
    words = ["ioassay", "tune", _STUDY, "--maximize" if tuning["maximize"] else "--minimize", str(tuning["metric"])]
    for constraint in tuning["constraints"]:
        words += ["--subject-to", constraint["text"]]
    words.append("--listed")  # the study has every level of the axes, so that the listed ones are the space
    for name, level in tuning["default"].items():
        words += ["--default", f"{name}={level_word(level)}"]
    for option in ("trials", "confirm", "seed", "margin"):
        words += [f"--{option}", str(tuning[option])]
    words += ["--workers", str(tuning["batch"])] if tuning["batch"] > 1 else []
    words += [] if tuning["budget_s"] is None else ["--budget", f"{tuning['budget_s']:g}s"]
    return shlex.join(words if tuning["pruning"] else [*words, "--no-pruning"])


def _plain(value: Any) -> Any:
    """JSON-able: mappings, lists, and None for numbers that JSON does not know."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
