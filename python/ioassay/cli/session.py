"""What the measuring commands have in common: check, run under progress, publish, say how it went."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import units
from ioassay.cli import console, progress
from ioassay.errors import Contradicted, InputError, Interrupted, IoassayError, RunError, ToolError, UsageError
from ioassay.roles import WRITE, Consent
from ioassay.runner import worker_pool
from ioassay.store.dataset import Dataset

if TYPE_CHECKING:
    from ioassay.narrative.conditions_text import Trust
    from ioassay.narrative.finding import Finding
    from ioassay.records.record import Warning_
    from ioassay.report import ReportPaths
    from ioassay.runner.preflight import Bench
    from ioassay.runner.run import Source, Tally
    from ioassay.store.run_folder import RunStore
    from ioassay.study.model import Suite


_TOLD = ("tuned", "peaks", "choices", "unclaimed", "conclude", "database", "verdict", "accountings")
"""Questions whose answers are told on the terminal; the page has all."""
_SHOWN = ("accountings", "choices")
"""Those that are answered by a table."""
_MOST_ROWS = 40
_MOST_KEPT = 20


@dataclass(frozen=True)
class Published:
    """What a run came to: its records, what they mean, where the page is."""

    records: Dataset
    findings: Sequence[Finding]
    report: ReportPaths
    trust: Trust | None = None
    kept: Sequence[Mapping[str, Any]] = ()
    """Files that the run made beside its folder and that stay: path, bytes, and the command that removes them."""


def begin(suite: Suite, root: Path, consent: Consent) -> tuple[RunStore, list[Bench], list[Warning_]]:
    """Check everything, then make the run's folder."""
    from ioassay.runner import preflight
    from ioassay.store.run_folder import RunStore

    benches, warnings = rehearsed_benches(suite, consent)
    preflight.require_record_room(benches, root)
    return RunStore.create(root, suite, facts(benches)), benches, warnings


def facts(benches: Sequence[Bench]) -> dict[str, Any]:
    """What a new run keeps of the host, and of where it was begun."""
    from ioassay import host
    from ioassay.store.run_folder import FOLDER

    tools = {tool.executable: bench.version.partition("\n")[0] for bench in benches if (tool := bench.driver.tool())}
    return {**host.facts(_measured_path(benches)), "tools": tools, FOLDER: str(Path().absolute())}


def resume(root: Path, consent: Consent) -> tuple[RunStore, list[Bench], list[Warning_]]:
    """An existing run, checked as a new one is; relative paths mean what they meant when it began."""
    from ioassay.store import bundle
    from ioassay.store.run_folder import RunStore

    store = RunStore.open(root)
    if store.is_search:
        raise UsageError(f"{root}: is a search, whose trials follow from each other; wanted: {store.resume_command}")
    bundle.require_resumable(root)
    suite = store.suite()
    if strange := store.planned().keys() - {study.name for study in suite.studies}:
        raise InputError(f"{root}: plan.jsonl has trials of '{min(strange)}', which study.toml has not; restore them")
    benches, warnings = rehearsed_benches(suite, consent, store.working_directory())
    return store, benches, warnings


def rehearsed_benches(
    suite: Suite, consent: Consent, folder: Path | None = None, *, without_tools: bool = False
) -> tuple[list[Bench], list[Warning_]]:
    """A suite's benches, everything about them examined; nothing has been touched.

    A missing tool is an error, or a warning `without_tools`: then less can be checked.
    """
    from ioassay.records.record import Warning_
    from ioassay.report import figures
    from ioassay.runner import preflight
    from ioassay.targets import occupancy

    figures.check_suite(suite)
    benches = preflight.assemble(suite, consent, folder)
    missing = []
    try:
        preflight.ready_tools(benches)
    except ToolError as error:
        if not without_tools:
            raise
        missing = [Warning_("tool-missing", f"names of parameters were not checked: {error}")]
    with progress.examining() as shown, occupancy.announced(shown):
        return benches, [*missing, *preflight.examine(benches)]


def say_devices(benches: Sequence[Bench]) -> None:
    """Which drives are loaded, and what is on them: the moment to notice that another one was meant."""
    from ioassay.runner import preflight

    for device in preflight.devices(benches):
        serial = f"serial {device.serial}" if device.serial else ""
        about = ", ".join(filter(None, (device.model, serial, units.format_size(device.size_bytes))))
        doing = "is written" if device.access == WRITE else "is read"
        named = "" if device.name == device.path else f" ({device.name})"
        console.note(f"{device.path}{named} {doing}: {about}")
        for found in device.content:
            console.note(f"    {found}")


def _measured_path(benches: Sequence[Bench]) -> Path:
    for bench in benches:
        for trial in bench.points():
            if path := trial.target.get("path"):
                return Path(path)
            for touch in bench.driver.touches(trial.params):
                return touch.path
    return Path()


def execute(
    store: RunStore,
    benches: Sequence[Bench],
    workers: int | None = None,
    source: Callable[[progress.Silent], Source] | None = None,
    most: int | None = None,
    wait_quiet_s: float = 0.0,
) -> Tally:
    """Run what is left of a run, see run.execute; an interruption says how to go on.

    A `source` that is not the plan is made for the progress that it tells, and gives `most` trials at most.
    """
    from ioassay.runner import preflight, run

    say_devices(benches)
    forecasts = [preflight.forecast(bench, workers) for bench in benches]
    total = most or sum(store.planned().values())
    forecast_s = sum(one.seconds for one in forecasts)
    if most is not None:
        forecast_s *= most / max(sum(one.trials for one in forecasts), 1)
    try:
        with progress.shown(total, forecast_s) as shown:
            return run.execute(store, benches, shown, workers, source(shown) if source else None, wait_quiet_s)
    except BaseException as error:
        with suppress(OSError, IoassayError):
            _say_kept(kept_files(benches), console.note)
        if not isinstance(error, KeyboardInterrupt | Interrupted):
            raise
        raise Interrupted(f"interrupted; what was recorded is kept. Go on with: {store.resume_command}") from None


def kept_files(benches: Sequence[Bench]) -> list[dict[str, Any]]:
    """What studies made beside the run's folder and that is still there, each with its bytes on disk."""
    from ioassay.targets import ownership_mark

    files = {path: ownership_mark.files(path) for bench in benches for path in bench.kept()}
    return [
        {
            "path": str(path),
            "bytes": sum(part.stat().st_blocks * 512 for part in parts),
            "remove": shlex.join(["rm", "--", *map(str, parts)]),
        }
        for path, parts in files.items()
        if parts
    ]


@contextmanager
def drawing_process() -> Iterator[Executor]:
    """A process for `publish` to draw in. Start it early: loading the drawing libraries takes it a second."""
    with worker_pool.Workers(1, f"report-{os.getpid()}", relief="") as executor:
        executor.submit(_load_drawing)
        yield executor


def _load_drawing() -> None:
    from ioassay import report

    report.warm_up()


def publish(store: RunStore, benches: Sequence[Bench] = (), executor: Executor | None = None) -> Published:
    """Read the records back, analyse them, write the page and the figures; `benches` are those that ran."""
    if executor is None:
        with drawing_process() as executor:
            return publish(store, benches, executor)
    from ioassay import report
    from ioassay.narrative import conditions_text
    from ioassay.narrative.pipeline import analyse_all
    from ioassay.store import frames

    again = f"ioassay report {shlex.quote(str(store.root))}"
    out = store.root / "report"
    try:
        records = frames.load(store)
        declared = executor.submit(report.declare, records)
        findings, title = analyse_all(records), store.suite().title
        paths = report.build(records, findings, out, title=title, drawn=declared.result(), executor=executor)
    except (KeyboardInterrupt, Interrupted):
        raise Interrupted(f"interrupted; all records are kept. Make their report with: {again}") from None
    except (worker_pool.WorkerLost, worker_pool.NoWorker) as error:
        raise RunError(
            f"the figures cannot be drawn: {error}; all records are kept. Try again with: {again}"
        ) from error
    except OSError as error:
        raise RunError(f"{out}: {error.strerror}; all records are kept. Fix that, then run: {again}") from error
    return Published(records, findings, paths, conditions_text.trust(records), kept_files(benches))


def result(store: RunStore, tally: Tally, published: Published, found: Sequence[Warning_]) -> dict[str, Any]:
    """The result as --json prints it."""
    trust = published.trust
    return {
        "trust": asdict(trust) | {"grade": trust.grade.name.lower()} if trust is not None else None,
        "run": str(store.root),
        "report": str(published.report.page),
        "trials": asdict(tally),
        "findings": [finding.as_dict() for finding in published.findings],
        "figures": [
            {"name": figure.name, "png": str(figure.png), "svg": str(figure.svg), "problem": figure.problem}
            for figure in published.report.figures
        ],
        "warnings": all_warnings(published.records, found),
        "failures": failures(published.records),
        "skips": skips(published.records),
        "kept_files": list(published.kept),
    }


def all_warnings(records: Dataset, found: Sequence[Warning_]) -> list[dict[str, Any]]:
    """Warnings of the check and of the trials, each once, with the number of trials it concerns."""
    counted: dict[tuple[str, str, str], int] = {(item.code, item.text, item.remedy): 0 for item in found}
    for row in records.warnings.iter_rows(named=True):
        key = (row["code"], row["text"], row["remedy"])
        counted[key] = counted.get(key, 0) + 1
    return [
        {"code": code, "text": text, "remedy": remedy, "trials": trials}
        for (code, text, remedy), trials in counted.items()
    ]


def failures(records: Dataset) -> list[dict[str, Any]]:
    """Why trials failed: each reason once, with the number of trials and the first of them."""
    return _reasons(records, "failed")


def skips(records: Dataset) -> list[dict[str, Any]]:
    """Why trials were skipped, in the same way."""
    return _reasons(records, "skipped")


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


def _rows(records: Dataset) -> Iterator[dict[str, Any]]:
    """Every recorded trial, those too that only the witness's effect is judged by, or that count system calls."""
    for frame in (records.trials, records.traced, records.counting):
        if frame is not None:
            yield from frame.iter_rows(named=True)


def contradictions(findings: Sequence[Finding]) -> int:
    """How many claims the kernel contradicts."""
    return sum(finding.statistics.get("contradicted", 0) for finding in findings if finding.question == "verdict")


def tally_of(records: Dataset) -> Tally:
    """How the trials of a run ended, as far as they have."""
    from ioassay.runner.run import Tally

    tally = Tally()
    for row in _rows(records):
        tally.add(row["status"])
    tally.planned = sum(records.planned.values())
    return tally


def say_how_it_went(store: RunStore, tally: Tally, published: Published, found: Sequence[Warning_]) -> None:
    """The result for people."""
    console.warnings(all_warnings(published.records, found))
    say_findings(published)
    say_where(store, tally, published)


def say_findings(published: Published) -> None:
    """What the terminal tells of the findings; that a tool claims nothing is said once, not in each verdict."""
    say_trust(published)
    for finding in published.findings:
        if finding.question in _TOLD and finding.statistics.get("claims") != 0:
            console.line(finding.title)
            console.paragraph(finding.statement, "  ")
            _say_tables(finding if finding.question in _SHOWN else None)
            console.line()


def say_trust(published: Published) -> None:
    """Whether the numbers can be relied on, before any of them."""
    if (trust := published.trust) is not None:
        console.line("\n".join(filter(None, (trust.conditions, trust.claims))))
        console.line()


def say_where(store: RunStore, tally: Tally, published: Published) -> None:
    """How the trials went, and where everything is."""
    console.line(_counted(tally, store))
    _say_reasons("skipped", skips(published.records))
    _say_reasons("failed", failures(published.records))
    console.line(f"run     {store.root}\nreport  {published.report.page}")
    _say_kept(published.kept, console.line)


def _say_kept(kept: Sequence[Mapping[str, Any]], say: Callable[[str], None]) -> None:
    """Files that stay are large, and lie where nobody looks for what a run left."""
    from ioassay import units

    for file in kept[:_MOST_KEPT]:
        say(f"kept    {file['path']} ({units.format_size(file['bytes'])}), which the next run uses again")
        say(f"        to remove it: {file['remove']}")
    if len(kept) > _MOST_KEPT:
        rest = sum(file["bytes"] for file in kept[_MOST_KEPT:])
        say(f"kept    {len(kept) - _MOST_KEPT} more files ({units.format_size(rest)}), which --json lists")


def _say_tables(finding: Finding | None) -> None:
    from ioassay.report import tables

    for table in finding.tables if finding is not None else ():
        if len(table.rows) <= _MOST_ROWS:
            shown = tables.shown(table)
            console.line()
            console.table([cell.text for cell in shown.columns], [[cell.text for cell in row] for row in shown.rows])


def _counted(tally: Tally, store: RunStore) -> str:
    ended = [(number, name) for name, number in asdict(tally).items() if number and name != "planned"]
    missing = tally.planned - sum(number for number, _ in ended)
    parts = [f"{number} {name}" for number, name in ended] + ([f"{missing} without a record"] if missing else [])
    return f"{console.count(tally.planned, 'trial')}: {', '.join(parts)}" + (
        f"\nto run what is left: {store.resume_command}" if missing else ""
    )


def _say_reasons(ended: str, found: Sequence[Mapping[str, Any]], most: int = 5) -> None:
    from ioassay.study import plan

    for reason in found[:most]:
        first = f"{reason['study']} at {plan.describe(reason['point'])}" if reason["point"] else reason["study"]
        others = reason["trials"] - 1
        more = f" and {console.count(others, 'other')}" if others else ""
        left = f"\n    what it left: {reason['raw']}" if ended == "failed" else ""
        console.note(f"{ended}: {first}{more}: {reason['reason']}{left}")
    if len(found) > most:
        console.note(f"{ended}: {len(found) - most} more reasons are in the report")


def end(tally: Tally, published: Published) -> None:
    """Exit 4 when the kernel contradicts what a tool claimed; 1 when trials failed: the report stands all the same."""
    if contradicted := contradictions(published.findings):
        console.note(f"the kernel contradicts {console.count(contradicted, 'claim')}; the verdicts say why")
        raise console.Exit(Contradicted.exit_code)
    if tally.failed:
        raise console.Exit(1)
