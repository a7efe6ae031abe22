"""What a run gives to its readers: the page with findings and figures, an archive to share, tables, a summary.

Figures are drawn in another process while this one analyses: its interpreter takes a third of a second to start.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import metrics, report
from ioassay.errors import Interrupted, RunError, UsageError
from ioassay.factors import factor, factor_label
from ioassay.narrative.finding import answers, premises
from ioassay.process import supervisor
from ioassay.report import page
from ioassay.runner import worker_pool
from ioassay.store import run_folder

if TYPE_CHECKING:
    import polars as pl

    from ioassay.api.run_results import Run
    from ioassay.host.privacy import Redaction
    from ioassay.narrative.finding import Finding
    from ioassay.report import ReportPaths
    from ioassay.store.bundle import Manifest
    from ioassay.store.dataset import Dataset
    from ioassay.store.run_folder import RunStore


@contextmanager
def figure_processes() -> Iterator[Sequence[Executor]]:
    """The processes for `publish`: one that loads what draws while the records are read, and one if there is much."""
    tag = f"report-{os.getpid()}"
    with worker_pool.Workers(1, tag, relief="") as drawing, worker_pool.Workers(1, tag, relief="") as second:
        drawing.submit(page.warm_up)
        yield drawing, second


def publish(store: RunStore, processes: Sequence[Executor] = ()) -> tuple[Dataset, list[Finding], ReportPaths]:
    """The records, what they mean, and the page with its figures, which are written into the run's folder `report`.

    RunError where the folder cannot be written or no figure can be drawn, InputError for records that are damaged.
    """
    if not processes:
        with figure_processes() as processes:
            return publish(store, processes)
    from ioassay.narrative.pipeline import analyse_all
    from ioassay.store import frames

    again = f"ioassay report {shlex.quote(str(store.root))}"
    out = store.root / "report"
    try:
        records = frames.load(store)
        drawn = report.declare(records)
        files = page.submit(drawn, out / report.FIGURES, processes)
        findings, title = analyse_all(records), store.suite().title
        paths = report.build(records, findings, out, title=title, drawn=drawn, files=files)
    except (KeyboardInterrupt, Interrupted):
        raise Interrupted(f"interrupted; all records are kept. Make their report with: {again}") from None
    except (worker_pool.WorkerLost, worker_pool.NoWorker) as error:
        raise RunError(
            f"the figures cannot be drawn: {error}; all records are kept. Try again with: {again}"
        ) from error
    except OSError as error:
        raise RunError(f"{out}: {error.strerror}; all records are kept. Fix that, then run: {again}") from error
    return records, findings, paths


@contextmanager
def new_page_folder(folder: str | Path | None, kind: str, option: str) -> Iterator[Path]:
    """A new or empty folder for a page of its own, by default runs/<time>-<kind>; without the page it is gone again.

    UsageError, which names the option, where it has something in it or cannot be written; RunError where no figure can
    be drawn.
    """
    out = Path(folder) if folder is not None else run_folder.new_folder(Path("runs"), kind)
    try:
        if out.exists() and not out.is_dir():
            raise UsageError(f"{out}: is a file; expected a new folder")
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise UsageError(f"{out}: exists already; expected a new or an empty folder")
        try:
            yield out
        except BaseException:
            shutil.rmtree(out, ignore_errors=True)  # it was empty a moment ago
            raise
    except (worker_pool.WorkerLost, worker_pool.NoWorker) as error:
        raise RunError(f"the figures cannot be drawn: {error}") from error
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror}; {option} names another place") from None


@dataclass(frozen=True)
class Bundle:
    """An archive of a run that `Run.export` wrote; unpacked, it is a run again (docs/sharing.md)."""

    path: Path
    manifest: Manifest
    """Its number of files, and how many places were replaced, by kind."""

    @property
    def bytes(self) -> int:
        """The size of the archive."""
        return self.path.stat().st_size

    def as_dict(self) -> dict[str, Any]:
        """What `ioassay export --json` prints."""
        return {"bundle": str(self.path), "bytes": self.bytes, **vars(self.manifest)}


def export(store: RunStore, output: Path | None, *, redact: bool, report: bool) -> Bundle:
    """Write a run into one archive: see `Run.export`."""
    from ioassay.store import bundle

    archive = output or Path(f"{store.root.resolve().name}{'-redacted' if redact else ''}.tar.gz")
    bundle.require_new(archive, store.root, bundle.SUFFIXES)
    with _copy(store, redact, report) as (inside, manifest, redaction):
        if redact and report:
            publish(inside)
        bundle.seal(inside.root, manifest, redaction)
        bundle.pack(inside.root, archive, bundle.time_of(store))
    return Bundle(archive, manifest)


@contextmanager
def _copy(store: RunStore, redact: bool, report: bool = False) -> Iterator[tuple[RunStore, Manifest, Redaction | None]]:
    """A copy of the run's files, for as long as the context lasts; redacted if asked."""
    from ioassay.host import privacy
    from ioassay.store import bundle
    from ioassay.store.run_folder import RunStore

    redaction = bundle.redaction_of(store, privacy.of_host()) if redact else None
    with supervisor.temporary_folder("ioassay-export-") as folder:
        manifest = bundle.copy(store, folder / "files", redaction, report=report)
        yield RunStore((folder / "files").rename(folder / manifest.run)), manifest, redaction


# For other programs and people: with `redact` made of a redacted copy, and searched before it is given out

TABLES = ("trials", "hist", "series", "samples", "warnings", "calls")
FORMATS = ("parquet", "csv")
SCHEMA_FILE = "schema.json"
_SCHEMA = 1
_UNITS = {"started_unix_s": "s", "duration_s": "s", "time_s": "s", "value_ns": "ns", "per_second": "1/s"}
"""Of columns that are neither factors nor metrics; all others have none."""


@dataclass(frozen=True)
class TableFiles:
    """Tables of a run that `Run.export_tables` wrote: a folder, or one CSV file of the trials."""

    path: Path
    format: str
    rows: Mapping[str, int]
    """Table -> its number of rows."""
    redacted: bool
    replaced: Mapping[str, int]
    """Kind of secret, in words, to the number of places."""

    def as_dict(self) -> dict[str, Any]:
        """What `ioassay export --json` prints."""
        return asdict(self) | {"path": str(self.path)}


def tables(store: RunStore, output: Path | None, format: str, *, redact: bool) -> TableFiles:
    """Write the tables of a run: see `Run.export_tables`."""
    from ioassay.host.privacy import KINDS
    from ioassay.store import bundle, frames

    if format not in FORMATS:
        raise UsageError(f"--format {format}: expected {', '.join(FORMATS)}")
    target = output or Path(f"{store.root.resolve().name}{'-redacted' if redact else ''}-{format}")
    bundle.require_new(target, store.root)
    with _copy(store, True) if redact else nullcontext((store, None, None)) as (source, _, redaction):
        records = frames.load(source)
        content = {name: getattr(records, name) for name in TABLES}
        try:
            with supervisor.temporary_folder(f".{target.name}.", target.absolute().parent) as made:
                folder = made / "tables"
                folder.mkdir()
                for name, frame in content.items():
                    path = folder / f"{name}.{format}"
                    if format == "parquet":
                        frame.write_parquet(path, compression="zstd")
                    else:  # with a head, and empty cells for missing values
                        frame.write_csv(path)
                schema = json.dumps(_schema(records, source.root.resolve().name, content), indent=1, ensure_ascii=False)
                (folder / SCHEMA_FILE).write_text(f"{schema}\n", encoding="utf-8")
                if redaction is not None:
                    bundle.require_clean(folder, redaction)
                one_file = format == "csv" and target.suffix == ".csv"
                shutil.move(folder / "trials.csv" if one_file else folder, target)
        except OSError as error:
            raise RunError(f"{target}: cannot be written: {error.strerror}; --output names another place") from None
        counts = {KINDS[kind]: count for kind, count in sorted(redaction.counts.items())} if redaction else {}
    rows = {name: frame.height for name, frame in content.items() if name == "trials" or not one_file}
    return TableFiles(target, format, rows, redact, counts)


def markdown(store: RunStore, kind: type[Run], *, redact: bool) -> str:
    """The summary of a run, which is read as a `kind`: see `Run.markdown`."""
    from ioassay.analysis.descriptive import headline
    from ioassay.host import privacy
    from ioassay.report import tables
    from ioassay.store import bundle

    with _copy(store, True) if redact else nullcontext((store, None, None)) as (source, _, redaction):
        run = kind(source)
        records, findings, trust = run.records, run.findings, run.trust
        first = [*premises(findings), *((trust.conditions, trust.claims) if trust is not None else ())]
        first.append(f"{run.tally}.")
        answered = answers(records.studies, findings)
        text = tables.markdown(run.title, first, answered, headline(records, records.studies))
        text = privacy.Redaction(privacy.of_host(), mild=True).text(text)  # as the page is
        if redaction is not None:
            with supervisor.temporary_folder("ioassay-export-") as folder:
                (folder / "summary.txt").write_text(text, encoding="utf-8")
                bundle.require_clean(folder, redaction)
    return text


def _schema(records: Dataset, run: str, tables: Mapping[str, pl.DataFrame]) -> dict[str, Any]:
    """Every column with its type and unit, and what metrics and factors are."""
    factors = list(dict.fromkeys(name for study in records.studies for name in study.levels))
    measured = [name for name in tables["trials"].columns if metrics.known(name) and name not in factors]
    measured += sorted(set(tables["series"]["metric"].to_list()) - {*measured})
    values = {"series": "of the metric", "samples": "of the monitor's field"}

    def unit(table: str, column: str) -> str:
        if column in factors:
            return factor(column).unit
        if table in values and column == "value":
            return values[table]
        return _UNITS.get(column) or (metrics.metric(column).unit if table == "trials" else "")

    described = {
        table: [{"name": name, "type": str(kind), "unit": unit(table, name)} for name, kind in frame.schema.items()]
        for table, frame in tables.items()
    }
    known = {name: metrics.metric(name) for name in measured}
    return {
        "schema": _SCHEMA,
        "run": run,
        "tables": {name: {"rows": frame.height, "columns": described[name]} for name, frame in tables.items()},
        "metrics": {name: {"label": one.label, "unit": one.unit, "better": one.better} for name, one in known.items()},
        "factors": {name: {"label": factor_label(name), "unit": factor(name).unit} for name in factors},
    }
