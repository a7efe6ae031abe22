"""From records to a page: read them back, analyse them, write the findings, the figures and the page.

Figures are declared in one process and drawn in another, while this one analyses: what both need to start takes half a
second each.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ioassay.errors import Interrupted, RunError
from ioassay.runner import worker_pool

if TYPE_CHECKING:
    from ioassay.narrative.finding import Finding
    from ioassay.report import ReportPaths
    from ioassay.store.dataset import Dataset
    from ioassay.store.run_folder import RunStore


@dataclass(frozen=True)
class Publication:
    """A run's records, what they mean, and where the page is."""

    records: Dataset
    findings: Sequence[Finding]
    paths: ReportPaths


@dataclass(frozen=True)
class FigureProcesses:
    """Where figures are declared, and where they are drawn."""

    declaring: Executor
    drawing: Executor

    @property
    def for_files(self) -> tuple[Executor, ...]:
        """Those that may write files once all is declared, the one that is ready for it first."""
        return self.drawing, self.declaring


@contextmanager
def figure_processes() -> Iterator[FigureProcesses]:
    """The processes for `publish`. Start them early: they load their libraries while the records are read."""
    with (
        worker_pool.Workers(1, f"report-{os.getpid()}", relief="") as declaring,
        worker_pool.Workers(1, f"report-{os.getpid()}", relief="") as drawing,
    ):
        declaring.submit(_load_declaring)
        drawing.submit(_load_drawing)
        yield FigureProcesses(declaring, drawing)


def _load_declaring() -> None:
    from ioassay.report import figures

    figures.load()


def _load_drawing() -> None:
    from ioassay.report import render

    render.warm_up()


def publish(store: RunStore, processes: FigureProcesses | None = None) -> Publication:
    """Read the records, analyse them, write the page and the figures into the run's folder `report`.

    RunError where the folder cannot be written or no figure can be drawn, InputError for records that are damaged.
    """
    if processes is None:
        with figure_processes() as processes:
            return publish(store, processes)
    from ioassay import report
    from ioassay.narrative.pipeline import analyse_all
    from ioassay.store import frames

    again = f"ioassay report {shlex.quote(str(store.root))}"
    out = store.root / "report"
    try:
        records = frames.load(store)
        declared = processes.declaring.submit(report.declare, records)
        findings, title = analyse_all(records), store.suite().title
        drawn = declared.result()
        paths = report.build(records, findings, out, title=title, drawn=drawn, executors=processes.for_files)
    except (KeyboardInterrupt, Interrupted):
        raise Interrupted(f"interrupted; all records are kept. Make their report with: {again}") from None
    except (worker_pool.WorkerLost, worker_pool.NoWorker) as error:
        raise RunError(
            f"the figures cannot be drawn: {error}; all records are kept. Try again with: {again}"
        ) from error
    except OSError as error:
        raise RunError(f"{out}: {error.strerror}; all records are kept. Fix that, then run: {again}") from error
    return Publication(records, findings, paths)
