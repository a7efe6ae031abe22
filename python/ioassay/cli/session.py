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
from ioassay.cli import console, live_page, progress
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


def measure(
    store: RunStore,
    benches: Sequence[Bench],
    workers: int | None = None,
    source: Callable[[progress.Silent], Source] | None = None,
    most: int | None = None,
    wait_quiet_s: float = 0.0,
    live: bool = False,
) -> tuple[Tally, Published]:
    """Run what is left of a run, see run.execute, and publish it; an interruption says how to go on.

    A `source` that is not the plan is made for the progress that it tells, and gives `most` trials at most. With
    `live`, a local page follows all of it.
    """
    from ioassay.runner import preflight, run
    from ioassay.study import plan

    say_devices(benches)
    forecasts = [preflight.forecast(bench, workers) for bench in benches]
    total = most or sum({**plan.count(store.suite()), **store.planned()}.values())
    forecast_s = sum(each.seconds for each in forecasts)
    if most is not None:
        forecast_s *= most / max(sum(each.trials for each in forecasts), 1)
    with live_page.opened(live, store, total, forecast_s) as page:
        with _resumption(store, benches), progress.shown(total, forecast_s) as shown:
            views = live_page.Several([shown, page]) if page else shown
            tally = run.execute(store, benches, views, workers, source(views) if source else None, wait_quiet_s)
        if page:
            page.publishing()
        published = publish(store, benches)
        if page:
            page.end("complete", "The run has ended.", published.report.page.absolute())
    return tally, published


@contextmanager
def _resumption(store: RunStore, benches: Sequence[Bench]) -> Iterator[None]:
    """Say at an early end which files stay, and at an interruption how to go on."""
    try:
        yield
    except BaseException as error:
        with suppress(OSError, IoassayError):
            for line in kept_lines(kept_files(benches)):
                console.note(line)
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


def kept_lines(kept: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Files that stay are large, and lie where nobody looks for what a run left."""
    if not kept:
        return
    size = units.format_size(sum(file["bytes"] for file in kept))
    first, others = kept[0], f" and {len(kept) - 1} more" if len(kept) > 1 else ""
    yield f"kept    {first['path']}{others} ({size}), which the next run uses again"
    yield f"        to remove it: {first['remove']}" + ("; --json lists the others" if others else "")


@dataclass(frozen=True)
class FigureProcesses:
    """Where figures are declared, and where they are drawn. What both need to start takes half a second each."""

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


def publish(store: RunStore, benches: Sequence[Bench] = (), processes: FigureProcesses | None = None) -> Published:
    """Read the records back, analyse them, write the page and the figures; `benches` are those that ran."""
    if processes is None:
        with figure_processes() as processes:
            return publish(store, benches, processes)
    from ioassay import report
    from ioassay.narrative import conditions_text
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
    announced = records.announced_skips()
    for row in records.warnings.iter_rows(named=True):
        key = (row["code"], row["text"], row["remedy"])
        if row["text"] in announced:
            counted.pop(key, None)
            continue
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


def end(tally: Tally, published: Published) -> None:
    """Exit 4 when the kernel contradicts what a tool claimed; 1 when trials failed: the report stands all the same."""
    if contradicted := contradictions(published.findings):
        console.note(f"the kernel contradicts {console.count(contradicted, 'claim')}; the verdicts say why")
        raise console.Exit(Contradicted.exit_code)
    if tally.failed:
        raise console.Exit(1)
