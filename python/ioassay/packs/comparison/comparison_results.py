"""Two runs compared: is B faster than A, slower, the same, or do the data not decide?"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import api
from ioassay.api import publication, run_results
from ioassay.api.run_results import Run
from ioassay.errors import RunError, UsageError
from ioassay.host import privacy
from ioassay.packs.comparison import comparison_page, comparison_text, run_comparison
from ioassay.runner import worker_pool
from ioassay.stats.contrasts import MARGIN, Ratio
from ioassay.store import frames, run_folder

if TYPE_CHECKING:
    import polars as pl


class Comparison:
    """The conditions that two runs share, judged one by one; `compare` returns it."""

    def __init__(self, a: Run, b: Run, margin: float, confidence: float) -> None:
        self.a, self.b = a, b
        self.result = run_comparison.compare(a.records, b.records, margin, confidence)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """One row a condition and response, the worst first.

        study, condition, response, a and b (means), ratio (b / a), low and high (its interval), verdict ('slower',
        'faster', 'changed', 'same', 'undecided'), reason.
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
        """Whether B is slower anywhere; never where no conclusion is drawn."""
        return self.result.regression

    @property
    def outcome(self) -> str:
        """The verdict in a word: 'contradicted', 'not-comparable', 'slower', 'faster', 'changed', 'same', 'undecided'.

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
        out = Path(folder) if folder is not None else run_folder.new_folder(Path("runs"), "compare")
        sides = self.a.records, self.b.records
        try:
            if out.exists() and not out.is_dir():
                raise UsageError(f"{out}: is a file; expected a new folder")
            out.mkdir(parents=True, exist_ok=True)
            if any(out.iterdir()):
                raise UsageError(f"{out}: exists already; expected a new or an empty folder")
            try:
                drawn = comparison_page.declare(*sides, self.result)
                return comparison_page.build(*sides, self.result, drawn, out, processes)
            except BaseException:
                shutil.rmtree(out, ignore_errors=True)  # it was empty a moment ago
                raise
        except (worker_pool.WorkerLost, worker_pool.NoWorker) as error:
            raise RunError(f"the figures cannot be drawn: {error}") from error
        except OSError as error:
            raise UsageError(f"{out}: cannot be written: {error.strerror}; --output names another place") from None

    def junit(self) -> str:
        """The rows as JUnit XML, for CI: those where B is slower are failures.

        All are skipped where the machine was not fit, and errors where the kernel contradicts the claims.
        """
        return comparison_text.junit_xml(self.result)

    def markdown(self) -> str:
        """A summary in Markdown for CI: verdict, trust lines, the worst rows, what else differs.

        As on the page, names of this machine, of its drives and people are replaced.
        """
        text = comparison_text.markdown(self.a.records, self.b.records, self.result)
        return privacy.Redaction(privacy.of_host(), mild=True).text(text)

    def as_dict(self) -> dict[str, Any]:
        """What `ioassay compare --json` prints, but for the report."""
        return comparison_text.as_dict(self.result)

    def __repr__(self) -> str:
        return f"<Comparison of {self.b.root} with {self.a.root}: {self.verdict}>"

    def _repr_html_(self) -> str:
        columns = ("study", "condition", "response", "verdict", "reason")
        table = api.table(columns, self.rows.select(columns).rows())
        return api.section(f"{self.a.root} and {self.b.root}", [self.verdict], tables=table)


def compare(
    a: Run | str | Path, b: Run | str | Path, *, margin: float = MARGIN, confidence: float = 0.95
) -> Comparison:
    """Judge run `b` against the baseline `a`: runs or their folders.

    Relative differences below `margin` count as the same; `confidence` is that all verdicts are right together.
    InputError for a folder that is no run, UsageError for runs that share no condition with values, or for a margin or
    a confidence out of its range.
    """
    for name, value, low, high in (("margin", margin, 0.0, 1.0), ("confidence", confidence, 0.5, 1.0)):
        if not low <= value < high or value == 0:
            raise UsageError(f"{name} is {value}; expected a number above {low:g} and below {high:g}")
    before, after = (run if isinstance(run, Run) else run_results.open(run) for run in (a, b))
    found = Comparison(before, after, margin, confidence)
    if not found.result.rows:
        raise UsageError(f"{before.root} and {after.root} share no condition with values; nothing can be compared")
    return found
