"""What the measuring commands have in common: check, run under progress, publish, say how it went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ioassay.cli import console, progress
from ioassay.errors import Interrupted
from ioassay.roles import Consent

if TYPE_CHECKING:
    from ioassay.analysis.finding import Finding
    from ioassay.preflight import Bench
    from ioassay.record import RecordSet, Warning_
    from ioassay.report import ReportPaths
    from ioassay.run import Tally
    from ioassay.store import RunStore
    from ioassay.study import Suite


FOLDER = "working_directory"
"""Key of host.json: where relative paths of the run's studies start from."""


@dataclass(frozen=True)
class Published:
    """What a run came to: its records, what they mean, where the page is."""

    records: RecordSet
    findings: Sequence[Finding]
    report: ReportPaths


def begin(suite: Suite, root: Path, consent: Consent) -> tuple[RunStore, list[Bench], list[Warning_]]:
    """Check everything, then make the run's folder."""
    from ioassay import host
    from ioassay.store import RunStore

    benches, warnings = checked(suite, consent)
    facts = {**host.facts(_measured_path(benches)), FOLDER: str(Path().absolute())}
    return RunStore.create(root, suite, facts), benches, warnings


def resume(root: Path, consent: Consent) -> tuple[RunStore, list[Bench], list[Warning_]]:
    """An existing run, checked as a new one is; relative paths mean what they meant when it began."""
    from ioassay.store import RunStore

    store = RunStore.open(root)
    folder = store.host().get(FOLDER)
    benches, warnings = checked(store.suite(), consent, Path(folder) if folder else None)
    return store, benches, warnings


def checked(suite: Suite, consent: Consent, folder: Path | None = None) -> tuple[list[Bench], list[Warning_]]:
    """A suite's benches, everything about them examined; nothing has been touched."""
    from ioassay import preflight
    from ioassay.report import figures

    for study in suite.studies:
        figures.check(study.model_dump())
    benches = preflight.assemble(suite, consent, folder)
    preflight.ready_tools(benches)
    return benches, preflight.examine(benches)


def _measured_path(benches: Sequence[Bench]) -> Path:
    for bench in benches:
        for trial in bench.points():
            if path := trial.target.get("path"):
                return Path(path)
            for touch in bench.driver.touches(trial.params):
                return touch.path
    return Path()


def execute(store: RunStore, benches: Sequence[Bench]) -> Tally:
    """Run what is left of a run; an interruption says how to go on."""
    from ioassay import preflight, run

    forecast_s = sum(preflight.forecast(bench).seconds for bench in benches)
    total = sum(store.planned().values())
    try:
        with progress.shown(total, forecast_s) as shown:
            return run.execute(store, benches, shown)
    except (KeyboardInterrupt, Interrupted):
        raise Interrupted(f"interrupted; go on with: ioassay run --resume {store.root}") from None


def publish(store: RunStore) -> Published:
    """Read the records back, analyse them, write the page and the figures."""
    from ioassay import frames, report
    from ioassay.analysis.everything import analyse_all

    records = frames.load(store)
    findings = analyse_all(records)
    paths = report.build(records, findings, store.root / "report", title=store.suite().title)
    return Published(records, findings, paths)


def result(store: RunStore, tally: Tally, published: Published, found: Sequence[Warning_]) -> dict[str, Any]:
    """The result as --json prints it."""
    return {
        "run": str(store.root),
        "report": str(published.report.page),
        "trials": asdict(tally),
        "findings": [finding.as_dict() for finding in published.findings],
        "figures": [
            {"name": figure.name, "png": str(figure.png), "svg": str(figure.svg), "problem": figure.problem}
            for figure in published.report.figures
        ],
        "warnings": all_warnings(published.records, found),
    }


def all_warnings(records: RecordSet, found: Sequence[Warning_]) -> list[dict[str, Any]]:
    """Warnings of the check and of the trials, each once, with the number of trials it concerns."""
    counted: dict[tuple[str, str, str], int] = {(item.code, item.text, item.remedy): 0 for item in found}
    for row in records.warnings.iter_rows(named=True):
        key = (row["code"], row["text"], row["remedy"])
        counted[key] = counted.get(key, 0) + 1
    return [
        {"code": code, "text": text, "remedy": remedy, "trials": trials}
        for (code, text, remedy), trials in counted.items()
    ]


def say_how_it_went(store: RunStore, tally: Tally, published: Published, found: Sequence[Warning_]) -> None:
    """The result for people."""
    console.warnings(all_warnings(published.records, found))
    for finding in published.findings:
        if finding.question == "conclude":
            console.line(f"{finding.title}\n  {finding.statement}")
    parts = [f"{number} {name}" for name, number in asdict(tally).items() if number and name != "planned"]
    console.line(f"\n{tally.planned} trials: {', '.join(parts)}")
    for record in _failed(published.records)[:5]:
        console.note(f"failed: {record['study']} {record['trial']}: {record['reason']}")
    console.line(f"run     {store.root}\nreport  {published.report.page}")


def _failed(records: RecordSet) -> list[Mapping[str, Any]]:
    return [row for row in records.trials.iter_rows(named=True) if row["status"] == "failed"]


def end(tally: Tally) -> None:
    """Exit 1 when trials failed: the report stands, but the question is not answered whole."""
    if tally.failed:
        raise typer.Exit(1)
