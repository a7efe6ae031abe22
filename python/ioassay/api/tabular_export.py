"""A run for other programs and people: its tables as Parquet or CSV files, and a summary in Markdown.

With `redact` both are made of a redacted copy of the run, as its archive is, and searched before they are given out.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay.api import run_results
from ioassay.errors import RunError, UsageError
from ioassay.narrative import answers
from ioassay.process import supervisor

if TYPE_CHECKING:
    from ioassay.host.privacy import Redaction
    from ioassay.store.run_folder import RunStore

_ONE_FILE = ".csv"


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
    from ioassay.host.privacy.secrets import KINDS
    from ioassay.store import bundle, frames, table_files

    if format not in table_files.FORMATS:
        raise UsageError(f"--format {format}: expected {', '.join(table_files.FORMATS)}")
    target = output or Path(f"{store.root.resolve().name}{'-redacted' if redact else ''}-{format}")
    bundle.require_new(target, store.root)
    with _copy(store, redact) as (source, redaction):
        records = frames.load(source)
        try:
            with supervisor.temporary_folder(f".{target.name}.", target.absolute().parent) as made:
                folder = made / "tables"
                rows = table_files.write(records, source.root.resolve().name, folder, format)
                if redaction is not None:
                    bundle.require_clean(folder, redaction)
                one_file = format == "csv" and target.suffix == _ONE_FILE
                shutil.move(folder / "trials.csv" if one_file else folder, target)
        except OSError as error:
            raise RunError(f"{target}: cannot be written: {error.strerror}; --output names another place") from None
        counts = {KINDS[kind]: count for kind, count in sorted(redaction.counts.items())} if redaction else {}
    return TableFiles(target, format, {"trials": rows["trials"]} if one_file else rows, redact, counts)


def markdown(store: RunStore, *, redact: bool) -> str:
    """The summary of a run: see `Run.markdown`."""
    from ioassay.analysis.descriptive import headline
    from ioassay.host import privacy
    from ioassay.report import ci_summaries
    from ioassay.store import bundle

    with _copy(store, redact) as (source, redaction):
        run = run_results.of_store(source)
        records, findings, trust = run.records, run.findings, run.trust
        premises = [*answers.premises(findings), *((trust.conditions, trust.claims) if trust is not None else ())]
        premises.append(f"{run.trial_counts}.")
        answered = answers.answers(records.studies, findings)
        text = ci_summaries.summary(run.title, premises, answered, headline(records, records.studies))
        text = privacy.Redaction(privacy.of_host(), mild=True).text(text)  # as the page is
        if redaction is not None:
            with supervisor.temporary_folder("ioassay-export-") as folder:
                (folder / "summary.txt").write_text(text, encoding="utf-8")
                bundle.require_clean(folder, redaction)
    return text


@contextmanager
def _copy(store: RunStore, redact: bool) -> Iterator[tuple[RunStore, Redaction | None]]:
    """The run itself, or a redacted copy of its files for as long as the context lasts."""
    if not redact:
        yield store, None
        return
    from ioassay.host import privacy
    from ioassay.store import bundle
    from ioassay.store.run_folder import RunStore

    redaction = bundle.redaction_of(store, privacy.of_host())
    with supervisor.temporary_folder("ioassay-export-") as folder:
        manifest = bundle.copy(store, folder / "files", redaction)
        yield RunStore((folder / "files").rename(folder / manifest.run)), redaction
