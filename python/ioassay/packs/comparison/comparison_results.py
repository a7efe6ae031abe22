"""Two runs compared: the Python API, and the page.

The page has the verdict, the ratios, both runs over each other, and what else differs. It shows what `run_comparison`
found and decides nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import __version__, api, atomic_file
from ioassay.api import publication, run_results
from ioassay.api.run_results import Run
from ioassay.errors import UsageError
from ioassay.hints import nearest
from ioassay.host import privacy
from ioassay.narrative import conditions_text, phrases
from ioassay.packs.comparison import comparison_charts, comparison_text, earlier_runs, run_comparison
from ioassay.packs.comparison.run_comparison import FailOn
from ioassay.report import FIGURES, PAGE, figures, page, run_facts
from ioassay.report.figures import Drawn
from ioassay.report.figures.spec import NoData
from ioassay.stats.contrasts import MARGIN, Ratio
from ioassay.store import frames
from ioassay.store.dataset import Dataset

if TYPE_CHECKING:
    import polars as pl

DATA = "comparison.json"
_MOST_OVERLAYS = 8
_MOST_BARS = 12
_OPEN_ROWS = 40
_MOST_ROWS = 2000
"""Of the table; the file of data has them all."""
_MOST_UNMATCHED = 50
_RATIOS = "ratios"


class Comparison:
    """The conditions that two runs share, judged one by one; `compare` returns it."""

    def __init__(
        self, a: Run | None, b: Run, margin: float, confidence: float, fail_on: FailOn, history: str | None = None
    ) -> None:
        """Without `a`, the runs before `b` in the history at a place are what it is compared with."""
        self.a, self.b, self.history = a, b, history
        earlier = None
        if history is not None:
            earlier = earlier_runs.earlier_runs(history, b.records, a.records if a else None)
        baseline = a.records if a else earlier_runs.as_run(earlier or {}, b.records)
        self.sides = baseline, b.records
        self.result = run_comparison.compare(*self.sides, margin, confidence, fail_on, earlier, is_history=a is None)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """One row a condition and response, the worst first.

        study, condition, response, a and b (means), ratio (b / a), low and high (its interval), verdict ('slower',
        'differs', 'faster', 'changed', 'same', 'undecided'), reason.
        """
        import polars as pl

        rows = [
            {
                "study": row.study,
                "condition": row.label,
                "response": row.response,
                "a": row.mean_a,
                "b": row.mean_b,
                "ratio": row.ratio.ratio if isinstance(row.ratio, Ratio) else None,
                "low": row.interval.low if row.interval else None,
                "high": row.interval.high if row.interval else None,
                "verdict": row.verdict.value,
                "reason": str(comparison_text.reason(row)),
            }
            for group in self.result.results
            for row in group
        ]
        numbers = dict.fromkeys(("a", "b", "ratio", "low", "high"), pl.Float64())
        texts = dict.fromkeys(("study", "condition", "response"), pl.String())
        return frames.Frame(rows, schema={**texts, **numbers, "verdict": pl.String(), "reason": pl.String()})

    @property
    def verdict(self) -> str:
        """The verdict on all rows in one sentence, or why no conclusion is drawn."""
        return str(comparison_text.headline(self.result))

    @property
    def regression(self) -> bool:
        """Whether B is slower in a row of those that `fail_on` names; never where no conclusion is drawn."""
        return self.result.regression

    @property
    def outcome(self) -> str:
        """The verdict in a word.

        'contradicted', 'not-comparable', 'measured' (there is no baseline yet), 'slower', 'differs', 'faster',
        'changed', 'same' or 'undecided'.

        No conclusion is drawn of claims that the kernel contradicts, nor of a machine that was not fit.
        """
        return self.result.outcome.value

    def report(self, folder: str | Path | None = None) -> Path:
        """Write the page of the comparison into a new folder, by default runs/<time>-compare; the page's path.

        UsageError where the folder has something in it or cannot be written.
        """
        with publication.figure_processes() as processes:
            return self.publish(folder, processes)

    def publish(self, folder: str | Path | None, processes: Sequence[Executor]) -> Path:
        """As `report`, by processes that `publication.figure_processes` has started."""
        sides = self.sides
        with publication.new_page_folder(folder, "compare", "--output") as out:
            return build(*sides, self.result, declare(*sides, self.result), out, processes, self._again)

    def junit(self) -> str:
        """The rows as JUnit XML, for CI: those where B is slower are failures.

        All are skipped where the machine was not fit, and errors where the kernel contradicts the claims.
        """
        return comparison_text.junit_xml(self.result)

    def markdown(self) -> str:
        """A summary in Markdown for CI: verdict, trust lines, the worst rows, what else differs.

        As on the page, names of this machine, of its drives and people are replaced.
        """
        text = comparison_text.markdown(*self.sides, self.result)
        return privacy.Redaction(privacy.of_host(), mild=True).text(text)

    def as_dict(self) -> dict[str, Any]:
        """What `ioassay compare --json` prints, but for the report."""
        return comparison_text.as_dict(self.result)

    @property
    def _again(self) -> str:
        """The command that compares alike."""
        result = self.result
        words = [run_facts.run_folder(run.root) for run in (self.a, self.b) if run]
        words += [f"--margin {100 * result.margin:g}%", f"--confidence {result.confidence:g}"]
        words += [f"--fail-on {result.fail_on}"] if result.fail_on != FailOn.KNOWN else []
        words += ["--history"] if self.history == "" else [f"--history={self.history}"] if self.history else []
        return " ".join(["ioassay compare", *words])

    def __repr__(self) -> str:
        return f"<Comparison of {self.b.root} with {self.sides[0].root}: {self.verdict}>"

    def _repr_html_(self) -> str:
        columns = ("study", "condition", "response", "verdict", "reason")
        table = api.table(columns, self.rows.select(columns).rows())
        return api.section(f"{self.sides[0].root} and {self.b.root}", [self.verdict], tables=table)


def compare(
    a: Run | str | Path | None,
    b: Run | str | Path,
    *,
    margin: float = MARGIN,
    confidence: float = 0.95,
    fail_on: str = FailOn.KNOWN,
    history: str | Path | None = None,
) -> Comparison:
    """Judge run `b` against the baseline `a`: runs or their folders. `history`: the place of one, '' the user's.

    A history tells the scatter from run to run; without `a` its runs before `b` are the baseline, too.

    Relative differences below `margin` count as the same; `confidence` is that all verdicts are right together.
    `fail_on`: what a `regression` is: B slower where the scatter from run to run is 'known', 'any' difference by a loss
    of speed, 'never'. InputError for a folder that is no run, UsageError for runs that share no condition with values,
    or for a value that none of these options takes.
    """
    for name, value, low, high in (("margin", margin, 0.0, 1.0), ("confidence", confidence, 0.5, 1.0)):
        if not low <= value < high or value == 0:
            raise UsageError(f"{name} is {value}; expected a number above {low:g} and below {high:g}")
    if fail_on not in list(FailOn):
        raise UsageError(f"fail_on is {fail_on!r}; expected {', '.join(FailOn)}{nearest(fail_on, list(FailOn))}")
    if a is None and history is None:
        raise UsageError("there is one run; expected another one to compare it with, or a history")
    before, after = (run if isinstance(run, Run | None) else run_results.open(run) for run in (a, b))
    assert after is not None
    place = None if history is None else str(history)
    found = Comparison(before, after, margin, confidence, FailOn(fail_on), place)
    if found.result.has_baseline and not found.result.rows:
        raise UsageError(
            f"{found.sides[0].root} and {after.root} share no condition with values; nothing can be compared"
        )
    return found


# The page


def declare(a: Dataset, b: Dataset, comparison: run_comparison.Comparison) -> list[Drawn]:
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
    comparison: run_comparison.Comparison,
    drawn: Sequence[Drawn],
    out: Path,
    executors: Sequence[Executor] = (),
    again: str = "",
) -> Path:
    """Write index.html, comparison.json and figures/<name>.{png,svg} into `out`, a folder that exists; the page's path.

    `drawn` is what `declare` returned; `executors` write the figures' files meanwhile (`page.submit`); `again` is the
    command that compares alike. As on every page, names of this machine, of its drives and people are replaced. OSError
    when `out` cannot be written.
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
        "brief": phrases.brief,
        "comparison": comparison,
        "shown": run_facts.shown,
        "sides": [_side("A", a, out, comparison.earlier), _side("B", b, out)],
        "ratios": ratios,
        "bars": comparison_charts.bars(comparison, _MOST_BARS) if ratios else None,
        "overlays": overlays,
        "lines": lines[:_OPEN_ROWS],
        "other_lines": lines[_OPEN_ROWS:],
        "omitted": len(rows) - len(lines),
        "most_unmatched": _MOST_UNMATCHED,
        "confidence": phrases.level(comparison.confidence),
        "again": again,
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


def _side(letter: str, records: Dataset, out: Path, earlier: int | None = None) -> dict[str, object]:
    """One of the two runs; `link` leads to its own page, '' where there is none near the comparison's.

    `earlier`: how many runs of a history stand for it, if they do: none of their trials was planned.
    """
    own_page = records.root / "report" / PAGE
    # A link to elsewhere would tell where people keep things.
    is_near = own_page.is_file() and own_page.resolve().is_relative_to(out.resolve().parent)
    began = [moment for moment in records.trials["started_unix_s"].to_list() if moment]
    version = records.host.get("ioassay", {}).get("version", "")
    about = (
        phrases.count(records.trials.height, "trial")
        if records.planned
        else phrases.count(earlier or 0, "earlier run"),
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
