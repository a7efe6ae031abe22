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
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ioassay import debug_log, metrics
from ioassay.analysis import machine_conditions
from ioassay.analysis.machine_conditions import Grade
from ioassay.errors import InputError, RunError, StudyError
from ioassay.host import cgroup
from ioassay.host.settings import KEEP, HostSettings, this_process
from ioassay.process import supervisor
from ioassay.records.record import FAILED, OK, Record, Scalar, Warning_
from ioassay.roles import Parsed, Renewable, Trial
from ioassay.runner import conditions, worker, worker_pool
from ioassay.runner import trial as one
from ioassay.runner.delivery import UnfitWorker
from ioassay.runner.executors import Gate, Hosts, Measured
from ioassay.runner.preflight import PreparedStudy, rehearse
from ioassay.runner.progress import Progress
from ioassay.runner.sites import Ended, Flight, ForeignExecutor, HostSite, OwnWorkers, Site
from ioassay.store.run_folder import RunStore
from ioassay.study import plan, relative_levels
from ioassay.study.model import Study, Suite
from ioassay.targets.job_guard import Guard, Reserve, guarded
from ioassay.units import format_duration

if TYPE_CHECKING:
    from ioassay._core import Histogram
    from ioassay.study.model import Until


_MOST_REPEATED = 2
"""Times that a disturbed trial is measured again where a quiet machine is waited for."""
_ENDING_S = 2.0
"""What the guard of a run that was killed just now takes to end its processes and remove its groups."""


@dataclass
class Tally:
    """How the trials of a run ended. `unneeded`: left out, because adaptive repetition was satisfied."""

    planned: int = 0
    ok: int = 0
    failed: int = 0
    skipped: int = 0
    unneeded: int = 0

    def add(self, status: str) -> None:
        self.planned += 1
        setattr(self, status, getattr(self, status) + 1)

    @property
    def missing(self) -> int:
        return self.planned - self.ok - self.failed - self.skipped - self.unneeded

    def __str__(self) -> str:
        """`11 trials: 9 ok, 2 failed`."""
        numbers = {**vars(self), "without a record": self.missing}
        parts = [f"{number} {name}" for name, number in numbers.items() if number and name != "planned"]
        return f"{self.planned} trial{'' if self.planned == 1 else 's'}: {', '.join(parts) or 'none'}"


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
        owner = this_process()

        def abandon() -> None:
            """In the process that outlives a killed runner: its groups and files that were not to stay go."""
            cgroup.remove_of(owner)
            for bench in benches:
                bench.abandon()

        supervisor.end_orphans(one.tag(store))
        stack.enter_context(supervisor.kill_orphans_after(one.tag(store), abandon, lock))
        of_groups = _remove_groups()
        for bench in benches:
            stack.callback(bench.close)
            guards[bench.study.name] = stack.enter_context(guarded(bench.touches(), bench.consent))
        settings = stack.enter_context(HostSettings(_governor(benches)))
        by_name = {bench.study.name: bench for bench in benches}
        of_pool: list[Warning_] = []
        site: Site
        if executor is not None:
            site = ForeignExecutor(executor, lambda trial: by_name[trial.study].driver.portable(trial.params))
        else:  # the memory of this host bounds its own workers only
            pure = ((bench.driver, trial) for bench in benches if not bench.driver.measures for trial in bench.points())
            needs = [driver.estimate(trial.params, trial.target).memory_bytes for driver, trial in pure]
            number, of_pool = worker_pool.fitted(workers or worker_pool.processors(), needs)
            site = OwnWorkers(number, one.tag(store))
        about = f"up to {site.workers} trials that only compute at once, {len(benches)} studies"
        debug_log.info("run", f"{store.root}: {about}")
        follows = any(map(relative_levels.follows, store.suite().studies))
        flight = stack.enter_context(Flight(site, progress))
        return _RunLoop(
            store,
            source or (Following(store, by_name) if follows else Planned(store)),
            by_name,
            guards,
            progress,
            flight,
            stack.enter_context(Flight(HostSite(hosts), progress)) if hosts is not None else flight,
            {name: Patience(bench.study.until, bench.study.watch.twins) for name, bench in by_name.items()},
            [*settings.warnings, *of_groups],
            of_pool,
            wait_quiet_s,
            gate or Gate(),
        ).run()


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


@dataclass
class _RunLoop:
    store: RunStore
    source: Source
    benches: dict[str, PreparedStudy]
    guards: dict[str, Guard]
    progress: Progress
    flight: Flight
    abroad: Flight
    """Trials that are measured on other hosts; `flight` itself where all are measured here."""
    patience: dict[str, Patience]
    of_host: Sequence[Warning_]
    of_pool: Sequence[Warning_]
    wait_quiet_s: float = 0.0
    gate: Gate = field(default_factory=Gate)
    together: list[Trial] = field(default_factory=list)
    """Trials of several hosts, one after the other in the plan, that start at one instant."""
    tally: Tally = field(default_factory=Tally)
    reserve: Reserve = field(default_factory=Reserve)
    places: dict[str, list[Path]] = field(default_factory=dict)
    """Study -> the paths whose file systems its trials may fill."""
    prepared: dict[str, Sequence[Warning_]] = field(default_factory=dict)
    """Study -> the warnings that each of its trials bears; there once its targets are."""

    def run(self) -> Tally:
        for trial in self.source.trials():
            if self.together and (trial is None or plan.instant(trial) != plan.instant(self.together[0])):
                self._take_together()
            if trial is None:
                self._record(self.flight.rest())
                self._record(self.abroad.rest())
            elif plan.instant(trial) and self.benches[trial.study].elsewhere:
                self.together.append(trial)
            else:
                self._take(trial)
        if self.together:
            self._take_together()
        self._record(self.flight.land())
        self._record(self.abroad.rest())
        return self.tally

    def _take(self, trial: Trial) -> None:
        """Count a trial that has its record, leave out what is known well enough, run the others."""
        if trial.study not in self.benches:
            self._admit(self.source.bench(trial.study))
        bench, patience = self.benches[trial.study], self.patience[trial.study]
        flight = self.abroad if bench.elsewhere else self.flight
        while patience.decides(trial) and flight.holds(trial):
            self._record(flight.ended(block=True))
        if self.store.has(trial.id):
            self._keep(trial)
        elif patience.enough(trial):
            self._leave_out(trial)
        elif not bench.elsewhere and (bench.driver.measures or plan.point_key(trial.point) in bench.cannot):
            self._measure(trial)
        else:
            while flight.full:
                self._record(flight.ended(block=True))
            raw = Path()
            if not bench.elsewhere:
                self._ready(trial, self.of_pool)
                raw = self.store.begin(trial.id)
            flight.submit(trial, raw)
            self._record(flight.ended(block=False))

    def _admit(self, bench: PreparedStudy) -> None:
        """A study that came with the plan. Its targets are those of one that was there, and so is who closes them."""
        name = bench.study.name
        self.benches[name], self.guards[name] = bench, Guard({})
        self.patience[name] = Patience(bench.study.until, bench.study.watch.twins)

    def _keep(self, trial: Trial) -> None:
        debug_log.debug("run", f"{trial.id}: has its record")
        self._count(trial, self.store.record(trial.id), "kept")

    def _leave_out(self, trial: Trial) -> None:
        debug_log.debug("run", f"{trial.id}: not needed, the interval of {trial.point} is narrow enough")
        self.progress.ended(trial, "unneeded")
        self.tally.add("unneeded")

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
        else:
            self._record(self.abroad.rest())
            self.abroad.submit_together(lacking)
            self._record(iter(list(self.abroad.rest())))

    def _measure(self, trial: Trial) -> None:
        """Alone: nothing that this run computes goes on meanwhile, and no other run of this process measures."""
        self._record(self.flight.land())
        with supervisor.MEASUREMENT:
            warnings = self._ready(trial, self.of_host)
            lack = self._watch_room(self.benches[trial.study])
            self.progress.started(trial)
            debug_log.debug("run", f"{trial.id}: measured: {trial.study}, {trial.point}, repetition {trial.repetition}")
            with self.store.writing(self.store.folder(trial.id)):
                record = self._measure_quietly(trial, warnings, lambda: lack() or self.gate.withdrawn())
        self._count(trial, record, record.status)

    def _measure_quietly(self, trial: Trial, warnings: Sequence[Warning_], must_end: Callable[[], str]) -> Record:
        """One measurement; where a quiet machine is waited for, the first that had one, of a few."""
        bench = self.benches[trial.study]
        repeated = 0
        while True:
            noted = [*warnings]
            if repeated:
                text = f"measured again {'once' if repeated == 1 else 'twice'}, because other programs disturbed it"
                noted.append(Warning_("repeated", text))
            if self.wait_quiet_s and not self._await_quiet(bench):
                waited = format_duration(self.wait_quiet_s)
                text = f"the machine was still busy after {waited}; measured anyway"
                noted.append(Warning_("never-quiet", text, "stop what else runs: ioassay doctor names it"))
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

    def _ready(self, trial: Trial, known: Sequence[Warning_]) -> Sequence[Warning_]:
        """Make the study's targets right before its first trial. The warnings that each of its trials bears."""
        bench = self.benches[trial.study]
        if trial.study not in self.prepared:
            access = bench.access()
            if not any(self.store.has(one.id) for one in self.store.trials() if one.study == trial.study):
                for target in bench.all_targets():
                    if isinstance(target, Renewable):
                        target.renew()
            made = [one for target in bench.all_targets() for one in target.prepare(access, self.progress.preparing)]
            self.prepared[trial.study] = [*known, *self.source.notes(trial.study), *made]
        self.guards[trial.study].require_same(bench.driver.touches(trial.params))
        rehearse(bench, trial.params)
        return self.prepared[trial.study]

    def _record(self, ended: Ended) -> None:
        for trial, future in ended:
            record, warnings = None, self.prepared.get(trial.study, ())
            with self.store.writing(self.store.folder(trial.id)):
                try:
                    result = future.result()
                except worker_pool.WorkerLost as error:  # a failure of its trial alone
                    result = worker.Computed(Parsed(FAILED, str(error)), error.began_unix_s, error.lasted_s)
                except (worker_pool.NoWorker, UnfitWorker) as error:
                    go_on = f"everything recorded before is kept. Go on with: {self.store.resume_command}"
                    raise RunError(f"{error}; {go_on}") from None
                if isinstance(result, Measured):
                    try:
                        record = self.store.adopt(trial, result.files) if result.files else None
                    except InputError as error:
                        result = replace(result, reason=str(error))
                    if record is None:
                        self.store.begin(trial.id)
                    failed = Parsed(FAILED, result.reason)
                    result, warnings = worker.Computed(failed, result.began_unix_s, result.lasted_s), ()
                record = record or one.keep(self.store, trial, result, warnings)
            self._count(trial, record, record.status)

    def _count(self, trial: Trial, record: Record, told: str) -> None:
        self.progress.ended(trial, told)
        self.progress.recorded(trial, record)
        self.patience[trial.study].note(record, self.store.folder(trial.id))
        self.source.on_record(trial, record)
        self.tally.add(record.status)


# Where trials come from, and which of them are not needed


class Source(Protocol):
    """Where the trials of a run come from. What only some have to do, the others inherit."""

    def trials(self) -> Iterator[Trial | None]:
        """One trial after another; None where all before must have their records before it can say more."""

    def on_record(self, trial: Trial, record: Record) -> None:
        return

    def notes(self, study: str) -> Sequence[Warning_]:
        """What each trial of a study bears, asked before its first one."""
        return ()

    def bench(self, study: str) -> PreparedStudy:
        """A study of the plan that was not there when the run began."""
        raise RunError(f"the plan has trials of '{study}', which the run has no study for")


class GrowingPlan(Source, Protocol):
    """A plan whose trials follow from the records before them, such as that of a search."""

    @property
    def most(self) -> int:
        """The number of trials that there can be at most."""

    def announce(self, progress: Progress) -> None:
        """Tell `progress` from now on how it goes."""


@dataclass(frozen=True)
class Planned(Source):
    store: RunStore
    blocks: int | None = None
    """With a number only the trials of the first randomised blocks of each study, and those that have a record; the
    others stay for whoever resumes the run."""

    def trials(self) -> Iterator[Trial | None]:
        for trial in self.store.trials():
            if self.blocks is None or trial.repetition < self.blocks or self.store.has(trial.id):
                yield trial


@dataclass
class Following(Source):
    """The plan of a suite in which a study takes the best level of an earlier one."""

    store: RunStore
    benches: Mapping[str, PreparedStudy]
    _notes: dict[str, list[Warning_]] = field(default_factory=dict)

    def trials(self) -> Iterator[Trial | None]:
        """The trials of one study after another; what is new is in the plan before it is given."""
        suite, order = self.store.suite(), 0
        planned: dict[str, list[Trial]] = {}
        for trial in self.store.trials():
            planned.setdefault(trial.study, []).append(trial)
        numbers = plan.count(suite)
        for name in [study.name for study in suite.studies]:
            study = next(one for one in suite.studies if one.name == name)
            if relative_levels.references(study):
                yield None
                suite, study = self._settled(suite, study)
            if name not in planned and relative_levels.follows(study):
                made = plan.trials(suite.model_copy(update={"studies": [study]}))
                planned[name] = [replace(trial, order=order + trial.order) for trial in made]
                self.store.extend(planned[name])
            yield from planned.get(name, ())
            order += numbers[name]

    def notes(self, study: str) -> Sequence[Warning_]:
        """What each trial of a study bears: that the level it takes is not certainly the best."""
        return self._notes.get(study, [])

    def _settled(self, suite: Suite, study: Study) -> tuple[Suite, Study]:
        """With the levels that it waited for; as it was, and all its points skipped, where one is not known."""
        from ioassay.analysis import conclusion
        from ioassay.store import frames

        records, levels = frames.load(self.store), dict[str, Scalar]()
        for wanted in relative_levels.references(study):
            earlier = next(one for one in records.studies if one.name == wanted.study)
            found = conclusion.choose(records, earlier, wanted.factor, wanted.response, study.params)
            if found is None:
                why = "no trial of that study tells a best level"
                self._skip(study, f"{wanted.factor} = best of {wanted.study}: {why}")
                return suite, study
            levels[wanted.factor] = found.level
            if not found.certain:
                others = ", ".join(map(str, found.as_good))
                text = f"{wanted.factor} = {found.level} is the smallest of {others}, which are as good or may be"
                note = Warning_("best-level", f"{text}, for {found.response} in {wanted.study}")
                self._notes.setdefault(study.name, []).append(note)
        settled, found_study = relative_levels.settled(suite, study, levels)
        for trial in (plan.make_trial(found_study, point, 0, 0) for point in plan.points(found_study)):
            try:
                self.benches[study.name].driver.validate(trial.params, trial.target)
            except StudyError as error:
                self._skip(found_study, str(error))
        self.store.replace_suite(settled)
        return settled, found_study

    def _skip(self, study: Study, why: str) -> None:
        bench = self.benches[study.name]
        bench.cannot |= {plan.point_key(point): why for point in plan.points(study)}


@dataclass
class Patience:
    """Adaptive repetition of one study: which points have been measured precisely enough, or whether rounds end.

    A decision about a repetition uses only earlier ones, so a resumed run and one with any number of workers decide
    alike. The interval is the one that the report shows: of a percentile that of all requests together, wherever all
    repetitions have kept their histograms.
    """

    until: Until | None
    twins: bool = False
    """Whether the trials that count are those without the witness."""
    known: dict[str, dict[int, tuple[float, Histogram | None]]] = field(default_factory=dict)
    """Point -> repetition -> value and, where the metric is a percentile of latencies, their distribution."""
    written: dict[int, float] = field(default_factory=dict)
    """Repetition -> bytes that its trials wrote."""

    def note(self, record: Record, folder: Path) -> None:
        if record.trial.get("twin", False) != self.twins or record.trial.get("calls"):
            return
        round_ = record.trial["repetition"]
        self.written[round_] = self.written.get(round_, 0.0) + record.metrics.get("write.bytes", 0.0)
        if self.until is None or record.status != OK or (value := record.metrics.get(self.until.metric)) is None:
            return
        point, repetition, histogram = plan.point_key(record.trial["point"]), record.trial["repetition"], None
        percentile, path = metrics.latency_percentile(self.until.metric), folder / "hist.parquet"
        if percentile is not None and path.exists():
            import polars as pl

            from ioassay.analysis.measurements import cells

            found = cells.histograms_of_rows(pl.read_parquet(path), percentile.direction, percentile.kind)
            histogram = next(iter(found.values()), None)
        self.known.setdefault(point, {})[repetition] = value, histogram

    def decides(self, trial: Trial) -> bool:
        """Whether earlier repetitions decide about this one, so that they must have been recorded."""
        return self.until is not None and trial.repetition >= self.until.min

    def enough(self, trial: Trial) -> bool:
        """Whether a repetition is not needed, as the earlier ones of its point are precise enough."""
        if self.until is None or not self.decides(trial):
            return False
        if self.until.of_rounds:
            return self._ended(self.until, trial.repetition)
        from ioassay.analysis.descriptive import relative_half_width
        from ioassay.stats.percentiles import pseudo_values

        known = self.known.get(plan.point_key(trial.point), {})
        earlier = [known[repetition] for repetition in sorted(known) if repetition < trial.repetition]
        if len(earlier) < 2:
            return False
        values: Sequence[float] = [value for value, _ in earlier]
        percentile = metrics.latency_percentile(self.until.metric)
        parts = [histogram for _, histogram in earlier if histogram is not None]
        if percentile is not None and len(parts) == len(earlier):
            values = pseudo_values(parts, [percentile.percent]).ravel().tolist()
        return relative_half_width(values) <= self.until.ci

    def _ended(self, until: Until, before: int) -> bool:
        """Whether the rounds before this one have written enough, or end in steady state at all points that have to."""
        from ioassay.analysis.descriptive import end_steady

        written = sum(number for round_, number in self.written.items() if round_ < before)
        if until.written is not None and written >= until.written:
            return True
        tracked = [rounds for point, rounds in self.known.items() if until.tracks(json.loads(point))]
        if len(tracked) < (1 if isinstance(until.steady, bool) else len(until.steady)):
            return False
        return end_steady([{one: rounds[one][0] for one in rounds if one < before} for rounds in tracked])
