"""A run that has been recorded: its frames, findings, figures and page.

Everything is read from the run's folder and derived from its records when it is asked for, once for each `Run`. To see
what was recorded since, open the folder again.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from ioassay import api, report
from ioassay.api import diagnosis, execution, publication
from ioassay.api.execution import RunKeys, RunOptions
from ioassay.api.publication import TABLES
from ioassay.errors import ToolError, UsageError
from ioassay.host import system
from ioassay.narrative.finding import answers
from ioassay.process import supervisor
from ioassay.runner.progress import Progress

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    from altair.typing import ChartType

    from ioassay.api.execution import Execution
    from ioassay.api.publication import Bundle, TableFiles
    from ioassay.narrative.conditions_text import Trust
    from ioassay.narrative.finding import Finding
    from ioassay.report import ReportPaths
    from ioassay.runner.executors import KeptFile
    from ioassay.runner.run import Tally
    from ioassay.store.dataset import Dataset
    from ioassay.store.run_folder import RunStore
    from ioassay.study.model import Figure, Study


class Run:
    """A run: `Study.run` returns one, and `open` gives that of a folder.

    Frames are polars' own, `.to_pandas()` included (extra `notebook`). Columns have SI units: bytes, bytes/s, ns, s.
    """

    _resumed = staticmethod(execution.resume)
    """What continues a run of its kind."""

    def __init__(self, store: RunStore, ended: Execution | None = None) -> None:
        """`ended` is what carried the run out, of one that was not only opened."""
        self._store, self._ended = store, ended
        self.computing = ended.computing if ended is not None else None
        """Where its trials were computed, if an executor said so; None of a run that was opened."""
        self._paths: ReportPaths | None = None

    @property
    def root(self) -> Path:
        """The run's folder."""
        return self._store.root

    @property
    def title(self) -> str:
        """That of its study."""
        return self._store.suite().title

    @property
    def resume_command(self) -> str:
        """What a user types to resume the run."""
        return self._store.resume_command

    @cached_property
    def records(self) -> Dataset:
        """All records, as analyses and figures read them. InputError where a file of the run is damaged."""
        from ioassay.store import frames

        return frames.load(self._store)

    @property
    def trials(self) -> pl.DataFrame:
        """One row a trial: study, trial, status, reason, repetition, a column for each factor and each metric."""
        return self._frame("trials")

    @property
    def samples(self) -> pl.DataFrame:
        """What the monitors read, raw: study, trial, monitor, name, time_s, value."""
        return self._frame("samples")

    @property
    def series(self) -> pl.DataFrame:
        """What tools logged over time: study, trial, metric, job, time_s, value."""
        return self._frame("series")

    @property
    def histograms(self) -> pl.DataFrame:
        """Distributions of latency: study, trial, direction, kind, job, value_ns, count."""
        return self._frame("hist")

    @property
    def calls(self) -> pl.DataFrame:
        """System calls by name, where they were counted: study, trial, factors, name, count, errors, per_second, by."""
        return self._frame("calls")

    def _frame(self, table: str) -> pl.DataFrame:
        from ioassay.store import frames

        return frames.Frame(getattr(self.records, table))

    @cached_property
    def claims(self) -> pl.DataFrame:
        """One row a claim of a witnessed trial, with its verdict (docs/verdicts.md).

        study, trial, condition, claim, verdict, reason, explanation, operations, bytes, seconds, rate_bytes_per_s.
        """
        import polars as pl

        from ioassay.analysis import claim_verdicts
        from ioassay.narrative import explanation_text
        from ioassay.store import frames

        numbers = ("operations", "bytes", "seconds", "rate_bytes_per_s")
        rows = [
            {
                "study": study.name,
                "trial": one.trial,
                "condition": one.condition,
                "claim": one.claim,
                "verdict": one.verdict.category,
                "reason": one.verdict.reason,
                "explanation": explanation_text.text(one.verdict.explanation),
                **{name: getattr(one.verdict.claim, name, None) for name in numbers},
            }
            for study in self.records.studies
            for answer in claim_verdicts.analyse(self.records, study)
            for one in answer.judged
        ]
        texts = ("study", "trial", "condition", "claim", "verdict", "reason", "explanation")
        kinds = {**dict.fromkeys(texts, pl.String()), "operations": pl.Int64(), "bytes": pl.Int64()}
        return frames.Frame(rows, schema={**kinds, "seconds": pl.Float64(), "rate_bytes_per_s": pl.Float64()})

    @cached_property
    def warnings(self) -> pl.DataFrame:
        """One row a warning of the checks or of trials, each once: code, text, remedy, trials (their number)."""
        import polars as pl

        from ioassay.store import frames

        texts = dict.fromkeys(("code", "text", "remedy"), pl.String())
        return frames.Frame(self.all_warnings(), schema={**texts, "trials": pl.Int64()})

    @cached_property
    def findings(self) -> list[Finding]:
        """What the records show, in the order of the page: each question of each study, in words and numbers."""
        from ioassay.narrative.pipeline import analyse_all

        return analyse_all(self.records)

    @cached_property
    def trust(self) -> Trust | None:
        """Whether the machine was quiet enough and the claims are confirmed; None where nothing was measured."""
        from ioassay.narrative import conditions_text

        return conditions_text.trust(self.records)

    @property
    def contradicted(self) -> int:
        """The number of claims that the kernel contradicts."""
        verdicts = (finding for finding in self.findings if finding.question == "verdict")
        return sum(finding.statistics.get("contradicted", 0) for finding in verdicts)

    @property
    def failed(self) -> int:
        """The number of trials that failed."""
        return self.tally.failed

    @cached_property
    def tally(self) -> Tally:
        """How the trials ended, as far as they have."""
        from ioassay.runner.run import Tally

        if self._ended is not None and self._ended.tally is not None:
            return self._ended.tally
        tally = Tally()
        for row in _rows(self.records):
            tally.add(row["status"])
        tally.planned = sum(self.records.planned.values())
        return tally

    # Figures and the page

    @property
    def figures(self) -> list[str]:
        """The names of the figures, those of all studies first."""
        return list(self._figures)

    @cached_property
    def _figures(self) -> dict[str, tuple[Study | None, Figure]]:
        return {figure.name: (study, figure) for study, figure in report.figures_of(self.records)}

    def figure(self, name: str) -> ChartType:
        """One figure as an Altair chart, with the page's theme. UsageError for an unknown name.

        Where there is nothing to draw, the chart is a placeholder that gives the reason.
        """
        import altair

        from ioassay.report import figures, page

        if name not in self._figures:
            known = ", ".join(self._figures) or "none"
            raise UsageError(f"{self.root}: no figure '{name}'; available: {known}")
        study, figure = self._figures[name]
        drawn = figures.draw(self.records, study, figure)
        chart: ChartType = altair.Chart.from_dict({"config": page.schema_config(), **drawn.spec})
        return chart

    def report(self) -> Path:
        """Write the page and its figures anew; the page's path. RunError where they cannot be written."""
        return self.publish().page

    def publish(self, processes: Sequence[Executor] = ()) -> ReportPaths:
        """As `report`: the paths of all that was written. `processes` are those of `publication.figure_processes`."""
        self.records, self.findings, self._paths = publication.publish(self._store, processes)
        for name in ("trust", "claims", "warnings", "_figures"):
            self.__dict__.pop(name, None)
        return self._paths

    def export(self, output: str | Path | None = None, *, redact: bool = False, report: bool = True) -> Bundle:
        """Write the run into one archive to share, by default <run>.tar.gz in the working directory (docs/sharing.md).

        With `redact`, host and user names, folders, serial numbers and addresses are replaced in every file, and the
        page is made again. Without `report`, page and figures are left out. UsageError for a name that cannot be used,
        RunError where the archive cannot be written.
        """
        return publication.export(
            self._store, Path(output) if output is not None else None, redact=redact, report=report
        )

    def export_tables(
        self, output: str | Path | None = None, *, format: str = "parquet", redact: bool = False
    ) -> TableFiles:
        """Write trials, hist, series, samples, warnings and calls as files, with schema.json that has their units.

        `format` is 'parquet' or 'csv'; `output` is a new folder, by default <run>-<format> in the working directory, or
        of CSV a file *.csv for the trials alone. `redact` and errors as of `export`.
        """
        return publication.tables(self._store, Path(output) if output is not None else None, format, redact=redact)

    def markdown(self, *, redact: bool = False) -> str:
        """A summary in Markdown: how far the run can be trusted, its answer, each condition's means with intervals.

        Names of this machine and its users are replaced, as on the page; with `redact` all that `export` replaces.
        """
        return publication.markdown(self._store, type(self), redact=redact)

    @property
    def paths(self) -> ReportPaths:
        """What `report` wrote; it is called where it was not yet."""
        return self._paths or self.publish()

    # More questions, more trials

    def sql(self, query: str) -> pl.DataFrame:
        """What DuckDB answers over the tables trials, hist, series, samples, warnings and calls.

        UsageError for a query that fails.
        """

        from ioassay.store import frames

        columns, rows = sql_rows({self.root.resolve().name: self.records}, query)
        return frames.Frame(rows, schema=columns, orient="row", infer_schema_length=None)

    def resume(self, *, progress: Progress | None = None, **options: Unpack[RunKeys]) -> Self:
        """Run the trials that have no record yet. Arguments and errors as of `Study.run`."""
        progress, chosen = progress or Progress(), RunOptions(**options)
        with execution.interruptible():
            ready = self._resumed(self.root, chosen, progress.preparing)
        run = ready.run(progress)
        assert isinstance(run, type(self))
        return run

    # For those who print it

    def as_dict(self) -> dict[str, Any]:
        """What `ioassay run --json` prints; the report is written where it was not yet.

        It has a warning for each broken plugin that was met meanwhile, which are warnings of Python otherwise.
        """
        paths, trust, there = self.paths, self.trust, self.computing
        return {
            "trust": asdict(trust) | {"grade": trust.grade.name.lower()} if trust is not None else None,
            "run": str(self.root),
            "report": str(paths.page),
            "trials": asdict(self.tally),
            "computed": there and {"executor": there.executor, "workers": dict(there.workers)},
            "findings": [finding.as_dict() for finding in self.findings],
            "figures": [
                {"name": figure.name, "png": str(figure.png), "svg": str(figure.svg), "problem": figure.problem}
                for figure in paths.figures
            ],
            "warnings": [*self.all_warnings(), *(vars(one) | {"trials": 0} for one in diagnosis.broken_plugins())],
            "failures": self.failures(),
            "skips": self.skips(),
            "kept_files": self.kept_files(),
        }

    def kept_files(self) -> list[KeptFile]:
        """Files that the run made beside its folder and that stay; known only where it ran in this process."""
        return self._ended.kept_files() if self._ended is not None else []

    def all_warnings(self) -> list[dict[str, Any]]:
        """Warnings of the checks and of the trials, each once, with the number of trials it concerns."""
        found = self._ended.warnings if self._ended is not None else ()
        counted: dict[tuple[str, str, str], int] = {(one.code, one.text, one.remedy): 0 for one in found}
        announced = self.records.announced_skips()
        for row in self.records.warnings.iter_rows(named=True):
            key = (row["code"], row["text"], row["remedy"])
            if row["text"] in announced:
                counted.pop(key, None)
                continue
            counted[key] = counted.get(key, 0) + 1
        return [
            {"code": code, "text": text, "remedy": remedy, "trials": trials}
            for (code, text, remedy), trials in counted.items()
        ]

    def failures(self) -> list[dict[str, Any]]:
        """Why trials failed: each reason once, with the number of trials and the first of them."""
        return _reasons(self.records, "failed")

    def skips(self) -> list[dict[str, Any]]:
        """Why trials were skipped, in the same way."""
        return _reasons(self.records, "skipped")

    def __repr__(self) -> str:
        return f"<Run {self.root}: {self.tally}>"

    def _repr_html_(self) -> str:
        lines = [f"{self.root}: {self.trial_counts}"]
        if self.trust is not None:
            lines += [self.trust.conditions, self.trust.claims]
        told = answers(self.records.studies, self.findings)
        sections = [(answer.title, answer.sentences) for answer in told]
        return api.section(self.title, lines, sections)

    @property
    def trial_counts(self) -> str:
        """How many trials there are and how they ended, in words: `11 trials: 9 ok, 2 failed`."""
        return str(self.tally)


def of_store(store: RunStore, ended: Execution | None = None) -> Run:
    """The run of a folder: that of a search is a `Search`, where the pack of searches is there, and so on."""
    import ioassay

    kind: type[Run] = getattr(ioassay, store.api_name, Run)
    return kind(store, ended)


def open(folder: str | Path) -> Run:
    """The run in a folder, also one that is not complete. InputError where there is none."""
    from ioassay.store.run_folder import RunStore

    return of_store(RunStore.open(Path(folder)))


def _reasons(records: Dataset, status: str) -> list[dict[str, Any]]:
    factors = {study.name: study.levels for study in records.studies}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in _rows(records):
        if row["status"] == status:
            point = {name: row[name] for name in factors[row["study"]] if row.get(name) is not None}
            raw = str(records.root / "trials" / row["trial"] / "raw")
            first = {"study": row["study"], "reason": row["reason"], "trials": 0, "point": point, "raw": raw}
            found.setdefault((row["study"], row["reason"]), first)["trials"] += 1
    return list(found.values())


def _rows(records: Dataset) -> Iterator[Mapping[str, Any]]:
    """Every recorded trial, those too that only the witness's effect is judged by, or that count system calls."""
    for frame in (records.trials, records.traced, records.counting):
        if frame is not None:
            yield from frame.iter_rows(named=True)


# SQL over the frames of runs, answered by DuckDB, which reaches neither files nor the network.


class Stream:
    """A frame or an answer by Arrow's C interface alone: of a frame itself DuckDB asks for pyarrow, of 170 MB."""

    def __init__(self, frame: pl.DataFrame | duckdb.DuckDBPyRelation) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested: object | None = None) -> object:
        return self._frame.__arrow_c_stream__(requested)


def sql_rows(runs: Mapping[str, Dataset], query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and rows that a query gives; each table has a column `run` with the key of `runs`.

    UsageError for a query that fails; ToolError where this processor cannot run DuckDB.
    """
    require_duckdb()
    import duckdb
    import polars as pl

    # No query reaches files or the network, not even by changing these settings back.
    database = duckdb.connect(config={"enable_external_access": "false", "lock_configuration": "true"})
    for name in TABLES:
        pieces = [getattr(records, name).select(pl.lit(run).alias("run"), pl.all()) for run, records in runs.items()]
        database.register(name, Stream(pl.concat(pieces, how="diagonal_relaxed")))
    try:
        answer = database.execute(query)
        if answer is None or answer.description is None:
            raise UsageError("the query is empty; expected for example 'SELECT * FROM trials'")
        columns: list[str] = []  # a number added to those that were there before: a JSON object has each key once
        for name, *_ in answer.description:
            numbered = (f"{name}_{number}" if number > 1 else str(name) for number in itertools.count(1))
            columns.append(next(one for one in numbered if one not in columns))
        return columns, answer.fetchall()
    except duckdb.Error as error:
        if "pytz" in str(error):  # DuckDB wants it for times with a zone, which no table of ours has
            raise UsageError("the query asks for a time with a zone; cast it, for example now()::TIMESTAMP") from None
        raise UsageError(f"the query failed: {error}") from None


def require_duckdb() -> None:
    """Load DuckDB and polars; ToolError where this processor cannot run DuckDB.

    Where its build needs AVX2 and the processor has none, the process that imports it ends by SIGILL."""
    if system.lacks_avx2():
        tried = supervisor.capture([sys.executable, "-I", "-c", "import duckdb"], timeout_s=60)
        if (tried.exit_code or 0) < 0:
            raise ToolError(
                "this processor lacks AVX2, which the installed build of duckdb needs; query the run on another machine"
            )
    import duckdb  # noqa: F401
    import polars  # noqa: F401
