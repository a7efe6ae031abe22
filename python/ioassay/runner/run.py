"""Runs the trials of a run that have no record yet, and makes each durable.

Trials that measure run one after the other, alone on the machine; those of studies that name hosts run there, one after
the other on each (`hosts`). Those of pure drivers run several at once, in the order of the plan, at a site (`sites`).
This process alone writes records, as trials end.
Gets the three roles as objects. Prints nothing: what happens is told to a Progress.
A failed trial is a record, not an exception; what ends a run is safety, a full disk, or the user.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ioassay import debug_log, metrics
from ioassay.analysis import machine_conditions
from ioassay.analysis.machine_conditions import Grade
from ioassay.errors import InputError, RunError
from ioassay.host.settings import KEEP, HostSettings
from ioassay.process import supervisor
from ioassay.records.record import FAILED, OK, Record, Warning_
from ioassay.roles import CurrentRates, Parsed, Trial
from ioassay.runner import conditions, worker, worker_pool
from ioassay.runner import trial as one
from ioassay.runner.best_levels import Following
from ioassay.runner.delivery import UnfitWorker
from ioassay.runner.flight import Flight, HostFlight
from ioassay.runner.hosts import Gate, Hosts, Measured
from ioassay.runner.preflight import PreparedStudy, rehearse
from ioassay.runner.sites import ForeignExecutor, OwnWorkers, Site
from ioassay.store.run_folder import RunStore
from ioassay.study import earlier_best, plan
from ioassay.targets.job_guard import Guard, Reserve, guarded
from ioassay.units import format_duration

if TYPE_CHECKING:
    from ioassay._core import Histogram
    from ioassay.study.model import Until


_MOST_REPEATED = 2
"""Times that a disturbed trial is measured again where a quiet machine is waited for."""
_ENDING_S = 2.0
"""What the guard of a run that was killed just now takes to end its processes and remove its groups."""


class Progress(Protocol):
    """Is told what happens."""

    def preparing(self, text: str, share: float) -> None:
        """A target is being made; `share` from 0 to 1."""

    def started(self, trial: Trial) -> None:
        """A trial begins; of pure drivers several at once."""

    def measuring(self, trial: Trial, rates: CurrentRates) -> None:
        """A trial's tool runs; about once a second."""

    def recorded(self, trial: Trial, record: Record) -> None:
        """A trial has its record, from now or from before; right after it `ended`."""

    def ended(self, trial: Trial, status: str) -> None:
        """A trial ended: ok, failed, skipped, `unneeded` (its point is precise enough) or `kept` (has a record)."""


class Source(Protocol):
    """Where the trials of a run come from: its plan, or a search that decides by what was recorded."""

    def trials(self) -> Iterator[Trial | None]:
        """One trial after another; None where all before must have their records before it can say more."""

    def told(self, trial: Trial, record: Record) -> None:
        """A trial has its record, from now or from before."""

    def notes(self, study: str) -> Sequence[Warning_]:
        """What each trial of a study bears, asked before its first one."""


class GrowingPlan(Source, Protocol):
    """A plan whose trials follow from the records before them, such as that of a search."""

    @property
    def most(self) -> int:
        """The number of trials that there can be at most."""

    def announce(self, said: Callable[[str], None]) -> None:
        """Call `said` from now on with lines about how it goes."""


@dataclass(frozen=True)
class Planned:
    """The trials of a run's plan, as they stand there."""

    store: RunStore

    def trials(self) -> Iterator[Trial | None]:
        """See Source."""
        return iter(self.store.trials())

    def told(self, trial: Trial, record: Record) -> None:
        """See Source; nothing depends on it."""

    def notes(self, study: str) -> Sequence[Warning_]:
        """See Source."""
        return ()


@dataclass(frozen=True)
class FirstBlocks(Planned):
    """The trials of the first randomised blocks of each study; the others stay for whoever resumes the run."""

    blocks: int

    def trials(self) -> Iterator[Trial | None]:
        """See Source."""
        planned = self.store.trials()
        return (trial for trial in planned if trial.repetition < self.blocks or self.store.has(trial.id))


@dataclass
class Tally:
    """How the trials of a run ended. `unneeded`: left out, because adaptive repetition was satisfied."""

    planned: int = 0
    ok: int = 0
    failed: int = 0
    skipped: int = 0
    unneeded: int = 0

    def add(self, status: str) -> None:
        """Count one trial."""
        self.planned += 1
        setattr(self, status, getattr(self, status) + 1)


@dataclass
class _Patience:
    """Adaptive repetition of one study: which points have been measured precisely enough.

    A decision about a repetition uses only earlier ones, so a resumed run and one with any number of workers decide
    alike. The interval is the one that the report shows: of a percentile that of all requests together, wherever all
    repetitions have kept their histograms.
    """

    until: Until | None
    twins: bool = False
    """Whether the trials that count are those without the witness."""
    values: dict[str, dict[int, float]] = field(default_factory=dict)
    """Point -> repetition -> value."""
    histograms: dict[str, dict[int, Histogram]] = field(default_factory=dict)
    """The same of the latencies, where the metric is a percentile of them."""

    def note(self, record: Record, folder: Path) -> None:
        """Take in a record, whose distributions are in `folder`."""
        if record.trial.get("twin", False) != self.twins or record.trial.get("calls"):
            return
        if self.until is None or record.status != OK or (value := record.metrics.get(self.until.metric)) is None:
            return
        point, repetition = _key(record.trial["point"]), record.trial["repetition"]
        self.values.setdefault(point, {})[repetition] = value
        if histogram := _latencies(folder, self.until.metric):
            self.histograms.setdefault(point, {})[repetition] = histogram

    def decides(self, trial: Trial) -> bool:
        """Whether earlier repetitions decide about this one, so that they must have been recorded."""
        return self.until is not None and trial.repetition >= self.until.min

    def enough(self, trial: Trial) -> bool:
        if self.until is None or not self.decides(trial):
            return False
        from ioassay.analysis.descriptive import relative_half_width
        from ioassay.analysis.measurements import merged_histograms

        known, histograms = self.values.get(_key(trial.point), {}), self.histograms.get(_key(trial.point), {})
        earlier = [repetition for repetition in sorted(known) if repetition < trial.repetition]
        if len(earlier) < 2:
            return False
        percentile = metrics.latency_percentile(self.until.metric)
        if percentile is None or not all(repetition in histograms for repetition in earlier):
            return relative_half_width([known[repetition] for repetition in earlier]) <= self.until.ci
        parts = [histograms[repetition] for repetition in earlier]
        values = merged_histograms.pseudo_values(parts, [percentile.percent]).ravel()
        return relative_half_width(values) <= self.until.ci


def _latencies(folder: Path, metric: str) -> Histogram | None:
    """The latencies of a trial whose percentile `metric` is; None of other metrics, and where none were kept."""
    percentile, path = metrics.latency_percentile(metric), folder / "hist.parquet"
    if percentile is None or not path.exists():
        return None
    import polars as pl

    from ioassay.analysis.measurements import merged_histograms

    found = merged_histograms.of_rows(pl.read_parquet(path), percentile.direction, percentile.kind)
    return next(iter(found.values()), None)


def _key(point: object) -> str:
    return json.dumps(point, sort_keys=True)


def execute(
    store: RunStore,
    benches: Sequence[PreparedStudy],
    progress: Progress,
    workers: int | None = None,
    source: Source | None = None,
    wait_quiet_s: float = 0.0,
    executor: Executor | None = None,
    hosts: Hosts | None = None,
    gate: Gate | None = None,
) -> Tally:
    """Run what has no record yet; the tally counts every planned trial, earlier records included.

    The trials are those of the plan, unless another `source` gives them.

    `workers` trials of pure drivers run at once, by default as many as there are processors for this process; with 1
    they run in this process. Fewer are used where the memory has no room, and a warning of their trials says so.
    With an `executor` they run there, as many at once as it has workers, and it stays as it is: whoever made it shuts
    it down. It need not share a folder with this process (`delivery`). Trials that measure run here all the same.

    With `wait_quiet_s`, each trial that measures waits so long at most for a quiet machine, and is repeated up to twice
    when the machine did not stay fit for it. Trials of benches that are elsewhere are measured by `hosts`, which stay
    open. Trials that are measured here start when `gate` lets them.
    """
    if hosts is None and (lacking := [bench.study.name for bench in benches if bench.elsewhere]):
        raise RunError(f"{lacking[0]}: is measured on other hosts, and none of them was opened")
    guards: dict[str, Guard] = {}
    with ExitStack() as stack:
        lock = stack.enter_context(store.locked())
        supervisor.end_orphans(one.tag(store))
        stack.enter_context(supervisor.kill_orphans_after(one.tag(store), _abandon(benches), lock))
        of_groups = _remove_groups()
        for bench in benches:
            stack.callback(bench.close)
            guards[bench.study.name] = stack.enter_context(guarded(bench.touches(), bench.consent))
        settings = stack.enter_context(HostSettings(_governor(benches)))
        by_name = {bench.study.name: bench for bench in benches}
        site, of_pool = _site(store, by_name, workers or worker_pool.processors(), executor)
        about = f"up to {site.workers} trials that only compute at once, {len(benches)} studies"
        debug_log.info("run", f"{store.root}: {about}")
        flight = stack.enter_context(Flight(site, progress))
        abroad = stack.enter_context(HostFlight(hosts, progress)) if hosts is not None else None
        follows = any(map(earlier_best.follows, store.suite().studies))
        given = source or (Following(store, by_name) if follows else Planned(store))
        of_host = [*settings.warnings, *of_groups]
        return _Round(
            store, given, by_name, guards, progress, flight, of_host, of_pool, wait_quiet_s, abroad, gate or Gate()
        ).run()


def _abandon(benches: Sequence[PreparedStudy]) -> Callable[[], None]:
    """What is done in the process that outlives a killed runner: its groups and files that were not to stay go."""
    remove_groups = conditions.remover()

    def undo() -> None:
        remove_groups()
        for bench in benches:
            bench.abandon()

    return undo


def _remove_groups() -> list[Warning_]:
    """Remove the control groups of killed runs, whether or not this one needs any; a warning for each that stays."""
    give_up_s = time.monotonic() + _ENDING_S
    conditions.remove_leftovers()
    while (left := conditions.leftovers()) and time.monotonic() < give_up_s:
        time.sleep(0.05)
        conditions.remove_leftovers()
    text = "{}: the control group of a run that was killed stays, as there are processes in it"
    return [Warning_("group-left", text.format(folder), "ioassay doctor") for folder in left]


def _governor(benches: Sequence[PreparedStudy]) -> str:
    """The governor for the whole run: changing it between studies would change the machine between them."""
    here = (bench for bench in benches if bench.driver.measures and not bench.elsewhere)
    tools = (bench for bench in here if bench.driver.tool() is not None)
    return "performance" if any(bench.study.run.governor == "performance" for bench in tools) else KEEP


def _site(
    store: RunStore, benches: Mapping[str, PreparedStudy], workers: int, executor: Executor | None
) -> tuple[Site, list[Warning_]]:
    """Where trials are computed; the memory of this host bounds its own workers only."""
    if executor is not None:
        return ForeignExecutor(executor, lambda trial: benches[trial.study].driver.portable(trial.params)), []
    number, warnings = _workers(list(benches.values()), workers)
    return OwnWorkers(number, one.tag(store)), warnings


def _workers(benches: Sequence[PreparedStudy], wanted: int) -> tuple[int, list[Warning_]]:
    pure = (bench for bench in benches if not bench.driver.measures)
    points = ((bench, trial) for bench in pure for trial in bench.points())
    needs = [bench.driver.estimate(trial.params, trial.target).memory_bytes for bench, trial in points]
    return worker_pool.fitted(wanted, needs)


@dataclass
class _Round:
    """One pass over the trials."""

    store: RunStore
    source: Source
    benches: dict[str, PreparedStudy]
    guards: dict[str, Guard]
    progress: Progress
    flight: Flight
    of_host: Sequence[Warning_]
    of_pool: Sequence[Warning_]
    wait_quiet_s: float = 0.0
    abroad: HostFlight | None = None
    """Trials that are measured on other hosts; None where all are measured here."""
    gate: Gate = field(default_factory=Gate)
    together: list[Trial] = field(default_factory=list)
    """Trials of several hosts, one after the other in the plan, that start at one instant."""
    tally: Tally = field(default_factory=Tally)
    patience: dict[str, _Patience] = field(default_factory=dict)
    reserve: Reserve = field(default_factory=Reserve)
    places: dict[str, list[Path]] = field(default_factory=dict)
    """Study -> the paths whose file systems its trials may fill."""
    prepared: dict[str, Sequence[Warning_]] = field(default_factory=dict)
    """Study -> the warnings that each of its trials bears; there once its targets are."""

    def run(self) -> Tally:
        self.patience = {
            name: _Patience(bench.study.until, bench.study.watch.twins) for name, bench in self.benches.items()
        }
        for trial in self.source.trials():
            if self.together and (trial is None or plan.instant(trial) != plan.instant(self.together[0])):
                self._take_together()
            if trial is None:
                self._record(self.flight.rest())
                self._adopt_rest()
            elif plan.instant(trial) and self.benches[trial.study].elsewhere:
                self.together.append(trial)
            else:
                self._take(trial)
        if self.together:
            self._take_together()
        self._record(self.flight.land())
        self._adopt_rest()
        return self.tally

    def _take(self, trial: Trial) -> None:
        """Count a trial that has its record, leave out what is known well enough, run the others."""
        patience = self.patience[trial.study]
        while patience.decides(trial) and self.flight.holds(trial):
            self._record(self.flight.ended(block=True))
        while patience.decides(trial) and self.abroad is not None and self.abroad.holds(trial):
            self._adopt(self.abroad.ended(block=True))
        if self.store.has(trial.id):
            self._keep(trial)
        elif patience.enough(trial):
            self._leave_out(trial)
        elif self.benches[trial.study].elsewhere and self.abroad is not None:
            self._send(self.abroad, trial)
        elif self.benches[trial.study].driver.measures or _key(trial.point) in self.benches[trial.study].cannot:
            self._measure(trial)
        else:
            self._compute(trial)

    def _keep(self, trial: Trial) -> None:
        debug_log.debug("run", f"{trial.id}: has its record")
        self._count(trial, self.store.record(trial.id), "kept")

    def _leave_out(self, trial: Trial) -> None:
        debug_log.debug("run", f"{trial.id}: not needed, the interval of {trial.point} is narrow enough")
        self.progress.ended(trial, "unneeded")
        self.tally.add("unneeded")

    def _send(self, abroad: HostFlight, trial: Trial) -> None:
        """Have another host measure a trial."""
        while abroad.full:
            self._adopt(abroad.ended(block=True))
        abroad.submit(trial)
        self._adopt(abroad.ended(block=False))

    def _take_together(self) -> None:
        """All that start at one instant, or none. Their records are written when all have ended, so that a run which
        is killed meanwhile measures them together again."""
        group, self.together = self.together, []
        lacking = [trial for trial in group if not self.store.has(trial.id)]
        for trial in group:
            if trial not in lacking:
                self._keep(trial)
        if all(self.patience[trial.study].enough(trial) for trial in lacking):
            for trial in lacking:
                self._leave_out(trial)
        elif self.abroad is not None:
            self._adopt_rest()
            self.abroad.submit_together(lacking)
            self._adopt(iter(list(self.abroad.rest())))

    def _adopt_rest(self) -> None:
        if self.abroad is not None:
            self._adopt(self.abroad.rest())

    def _adopt(self, ended: Iterator[tuple[Trial, Future[Measured]]]) -> None:
        """Make durable what other hosts answered."""
        for trial, future in ended:
            measured = future.result()
            try:
                record = self.store.adopt(trial, measured.files) if measured.files else None
            except InputError as error:
                record, measured = None, replace(measured, reason=str(error))
            if record is None:
                self.store.begin(trial.id)
                record = one.keep(self.store, trial, measured.failure())
            self._count(trial, record, record.status)

    def _measure(self, trial: Trial) -> None:
        """Alone: nothing that this run computes goes on meanwhile, and no other run of this process measures."""
        self._record(self.flight.land())
        with supervisor.MEASUREMENT:
            warnings = self._ready(trial, self.of_host)
            lack = self._watch_room(self.benches[trial.study])
            self.progress.started(trial)
            debug_log.debug("run", f"{trial.id}: measured: {trial.study}, {trial.point}, repetition {trial.repetition}")
            try:
                record = self._measure_quietly(trial, warnings, lambda: lack() or self.gate.withdrawn())
            except OSError as error:
                raise self.store.stopped(self.store.folder(trial.id), error) from error
        self._count(trial, record, record.status)

    def _measure_quietly(self, trial: Trial, warnings: Sequence[Warning_], must_end: Callable[[], str]) -> Record:
        """One measurement; where a quiet machine is waited for, the first that had one, of a few."""
        bench = self.benches[trial.study]
        repeated = 0
        while True:
            noted = [*warnings, *([_repeated(repeated)] if repeated else [])]
            if self.wait_quiet_s and not self._await_quiet(bench):
                noted.append(_never_quiet(self.wait_quiet_s))
            on_rates = partial(self.progress.measuring, trial)
            record = one.measure(self.store, bench, trial, noted, must_end, on_rates, self.gate)
            grade = machine_conditions.grade(record.environment) if record.environment is not None else Grade.FIT
            if not self.wait_quiet_s or grade < Grade.UNFIT or repeated == _MOST_REPEATED:
                return record
            repeated += 1

    def _await_quiet(self, bench: PreparedStudy) -> bool:
        """Wait until other programs leave the machine alone; False if they did not in time."""
        began_s = time.monotonic()
        while machine_conditions.grade(seen := bench.meter.observe()):
            waited = (time.monotonic() - began_s) / self.wait_quiet_s
            if waited >= 1:
                return False
            text = f"waiting for a quiet machine (others use {seen.others_share:.0%}), waited"
            debug_log.debug("run", f"{text} {waited:.0%}")
            self.progress.preparing(text, waited)
        return True

    def _watch_room(self, bench: PreparedStudy) -> Callable[[], str]:
        """The guard of the file systems that a trial may fill. RunError where there is no room to begin with."""
        name = bench.study.name
        if name not in self.places:
            named = [footprint.path for footprint in bench.footprints()]
            self.places[name] = [path for path in dict.fromkeys(named) if not path.is_block_device()]
        lack = self.reserve.watch([self.store.root / "trials", *self.places[name]])
        if bench.driver.tool() is not None and (why := lack()):
            kept = f"everything recorded before is kept. Go on with: {self.store.resume_command}"
            raise RunError(f"no trial is begun: {why}; {kept}")
        return lack

    def _compute(self, trial: Trial) -> None:
        """Hand a trial to the workers, once there is room."""
        while self.flight.full:
            self._record(self.flight.ended(block=True))
        self._ready(trial, self.of_pool)
        self.flight.submit(trial, self.store.begin(trial.id))
        self._record(self.flight.ended(block=False))

    def _ready(self, trial: Trial, known: Sequence[Warning_]) -> Sequence[Warning_]:
        bench = self.benches[trial.study]
        if trial.study not in self.prepared:
            notes = self.source.notes(trial.study)
            self.prepared[trial.study] = [*known, *notes, *_prepare(bench, self.progress)]
        self.guards[trial.study].require_same(bench.driver.touches(trial.params))
        rehearse(bench, trial.params)
        return self.prepared[trial.study]

    def _record(self, ended: Iterator[tuple[Trial, Future[worker.Computed]]]) -> None:
        for trial, future in ended:
            try:
                record = one.keep(self.store, trial, _computed(future), self.prepared[trial.study])
            except (worker_pool.NoWorker, UnfitWorker) as error:
                go_on = f"everything recorded before is kept. Go on with: {self.store.resume_command}"
                raise RunError(f"{error}; {go_on}") from None
            except OSError as error:
                raise self.store.stopped(self.store.folder(trial.id), error) from error
            self._count(trial, record, record.status)

    def _count(self, trial: Trial, record: Record, told: str) -> None:
        self.progress.ended(trial, told)
        self.progress.recorded(trial, record)
        self.patience[trial.study].note(record, self.store.folder(trial.id))
        self.source.told(trial, record)
        self.tally.add(record.status)


def _never_quiet(waited_s: float) -> Warning_:
    text = f"the machine did not become quiet in {format_duration(waited_s)}, and was measured nevertheless"
    return Warning_("never-quiet", text, "stop what else runs: ioassay doctor names it")


def _repeated(attempts: int) -> Warning_:
    times = "once" if attempts == 1 else "twice"
    return Warning_("repeated", f"measured again {times}, because other programs disturbed it")


def _computed(future: Future[worker.Computed]) -> worker.Computed:
    """What a worker answered; one that ended instead is a failure of its trial alone."""
    try:
        return future.result()
    except worker_pool.WorkerLost as error:
        return worker.Computed(Parsed(FAILED, str(error)), error.began_unix_s, error.lasted_s)


def _prepare(bench: PreparedStudy, progress: Progress) -> list[Warning_]:
    """Make and fill the study's targets, right before its first trial."""
    access = bench.access()
    targets = {id(target): target for target in map(bench.target, bench.points())}
    return [warning for target in targets.values() for warning in target.prepare(access, progress.preparing)]
