"""What a run gives to its readers: the page with findings and figures, or all of it in one archive to share.

Figures are drawn in another process while this one analyses: its interpreter takes a third of a second to start.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import report
from ioassay.errors import Interrupted, RunError
from ioassay.process import supervisor
from ioassay.report import page
from ioassay.runner import worker_pool

if TYPE_CHECKING:
    from ioassay.narrative.finding import Finding
    from ioassay.report import ReportPaths
    from ioassay.store.bundle import Manifest
    from ioassay.store.dataset import Dataset
    from ioassay.store.run_folder import RunStore


@dataclass(frozen=True)
class Publication:
    """A run's records, what they mean, and where the page is."""

    records: Dataset
    findings: Sequence[Finding]
    paths: ReportPaths


@contextmanager
def figure_processes() -> Iterator[Sequence[Executor]]:
    """The processes for `publish`: one that loads what draws while the records are read, and one if there is much."""
    tag = f"report-{os.getpid()}"
    with worker_pool.Workers(1, tag, relief="") as drawing, worker_pool.Workers(1, tag, relief="") as second:
        drawing.submit(_load_drawing)
        yield drawing, second


def _load_drawing() -> None:
    page.warm_up()


def publish(store: RunStore, processes: Sequence[Executor] = ()) -> Publication:
    """Read the records, analyse them, write the page and the figures into the run's folder `report`.

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
    return Publication(records, findings, paths)


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
        return {"bundle": str(self.path), "bytes": self.bytes, **self.manifest.as_dict()}


def export(store: RunStore, output: Path | None, *, redact: bool, report: bool) -> Bundle:
    """Write a run into one archive: see `Run.export`."""
    from ioassay.host import privacy
    from ioassay.store import bundle
    from ioassay.store.run_folder import RunStore

    archive = output or Path(f"{store.root.resolve().name}{'-redacted' if redact else ''}.tar.gz")
    bundle.require_free(archive, store.root)
    with supervisor.temporary_folder("ioassay-export-") as folder:
        redaction = bundle.redaction_of(store, privacy.of_host()) if redact else None
        manifest = bundle.copy(store, folder / "files", redaction, report=report)
        inside = (folder / "files").rename(folder / manifest.run)
        if redact and report:
            publish(RunStore(inside))
        bundle.seal(inside, manifest, redaction)
        bundle.pack(inside, archive, bundle.time_of(store))
    return Bundle(archive, manifest)
