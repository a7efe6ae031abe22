"""A run from its checks to its last record: what begins one, resumes one, and runs the trials that have none.

`begin` and `resume` make an `Execution`; nothing of it has run then, so that whoever shows it knows first which devices
are loaded and how long it takes. What the records mean is in `run_results`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay.api.progress import Progress
from ioassay.errors import InputError, Interrupted, StudyError, UsageError
from ioassay.roles import Consent
from ioassay.runner import hosts

if TYPE_CHECKING:
    from ioassay.api.run_results import Run
    from ioassay.records.record import Warning_
    from ioassay.runner.hosts import Hosts
    from ioassay.runner.preflight import PreparedStudy, Storage
    from ioassay.runner.run import FirstBlocks, GrowingPlan
    from ioassay.runner.run_facts import KeptFile
    from ioassay.store.run_folder import RunStore
    from ioassay.study.model import Suite

Announce = Callable[[str, float], None]
"""Called with what is examined before a run, and its share from 0 to 1."""


@dataclass
class Execution:
    """A run that has its folder and has passed every check."""

    store: RunStore
    benches: Sequence[PreparedStudy]
    warnings: Sequence[Warning_] = ()
    """Of the checks; those of trials are in their records."""
    plan: GrowingPlan | None = None
    """Where its trials come from; by default the plan that its folder has."""
    hosts: Hosts | None = None
    """Other hosts that measure it."""
    _forecasts: dict[int | None, float] = field(default_factory=dict, init=False, repr=False)

    @property
    def trials(self) -> int:
        """The number of trials, those with a record included; of a plan that grows the most that there can be."""
        from ioassay.study import plan

        if self.plan is not None:
            return self.plan.most
        return sum({**plan.count(self.store.suite()), **self.store.planned()}.values())

    def forecast_s(self, workers: int | None = None) -> float:
        """The time in seconds that all trials are expected to take."""
        if workers not in self._forecasts:
            from ioassay.runner import preflight

            each = [preflight.forecast(bench, workers) for bench in self.benches]
            share = 1.0 if self.plan is None else self.trials / max(sum(one.trials for one in each), 1)
            self._forecasts[workers] = sum(one.seconds for one in each) * share
        return self._forecasts[workers]

    def devices(self) -> list[Storage]:
        """The block devices that are loaded, with what is on them."""
        from ioassay.runner import preflight

        return [*preflight.devices(self.benches), *(self.hosts.devices() if self.hosts else ())]

    def kept_files(self) -> list[KeptFile]:
        """What studies made beside the run's folder and that is still there."""
        from ioassay.runner import run_facts

        return [*run_facts.kept_files(self.benches), *(self.hosts.kept if self.hosts else ())]

    def close(self) -> None:
        """Give up the hosts that measure it. `run` does so at its end."""
        if self.hosts is not None:
            self.hosts.close()

    def run(
        self,
        progress: Progress | None = None,
        *,
        executor: Executor | str | None = None,
        workers: int | None = None,
        wait_quiet_s: float = 0.0,
        blocks: int | None = None,
    ) -> Run:
        """Run what has no record yet, see `runner.run.execute`; Interrupted, which says how to resume it, at Ctrl-C.

        `executor` is where trials are computed that measure nothing: one of the caller's, or a name (docs/cluster.md).
        `blocks` is the number of randomised blocks, counted from the first, after which the run stops; by default none
        is left out.
        """
        from ioassay.api import computing, run_results
        from ioassay.runner import run

        progress = progress or Progress()
        at_once = computing.at_once(executor, workers)
        progress.opened(self.store.root, self.store.suite(), self.store.trials())
        progress.planned(self.trials, self.forecast_s(at_once))
        if self.hosts is not None:
            self.hosts.wait_quiet_s = wait_quiet_s
        if self.plan is not None:
            self.plan.announce(progress.said)
        try:
            source = self.plan if blocks is None else self._first(blocks)
            with computing.opened(executor, self.store, self.benches, progress) as there:
                tally = run.execute(
                    self.store, self.benches, progress, at_once, source, wait_quiet_s, there.executor, self.hosts
                )
            if blocks is not None:
                tally.planned = self.trials
        except (KeyboardInterrupt, Interrupted):
            go_on = f"interrupted; what was recorded is kept. Go on with: {self.store.resume_command}"
            raise Interrupted(go_on) from None
        finally:
            self.close()
        warnings = [*self.warnings, *there.warnings]
        kept = self.hosts.kept if self.hosts is not None else ()
        return run_results.of_store(self.store, self.benches, warnings, tally, there.computing, kept)

    def _first(self, blocks: int) -> FirstBlocks:
        """UsageError for a study that needs all repetitions of an earlier one."""
        from ioassay.runner import run
        from ioassay.study import earlier_best

        if blocks < 1:
            raise UsageError(f"blocks is {blocks}; expected a number of at least 1")
        if waiting := [bench.study.name for bench in self.benches if earlier_best.follows(bench.study)]:
            raise UsageError(
                f"{waiting[0]}: takes the best level of an earlier study, which all repetitions of that one decide; "
                "run it without --blocks"
            )
        return run.FirstBlocks(self.store, blocks)


@dataclass(frozen=True)
class Checks:
    """What is examined before a run: by what consent, and from which folder."""

    consent: Consent = field(default_factory=Consent)
    folder: Path | None = None
    """Where relative paths start from; by default the working directory."""
    without_tools: bool = False
    """A missing tool is a warning, and less can be checked."""
    executor: Executor | str | None = None
    """Where the hosts are that a study names."""

    def benches(self, suite: Suite, announce: Announce | None = None) -> tuple[list[PreparedStudy], list[Warning_]]:
        """A suite's benches, everything of this host examined; nothing has been touched. `announce` is told what is.

        ToolError for a missing tool, SafetyRefusal where data could be lost, StudyError for what cannot be run.
        """
        from ioassay.report import figures
        from ioassay.runner import hosts, preflight
        from ioassay.targets import occupancy

        figures.check_suite(suite)
        consent = hosts.of_this_host(self.consent, suite)
        with occupancy.announced(announce or (lambda text, share: None)):
            return preflight.inspect(suite, consent, self.folder, without_tools=self.without_tools)

    def inspect(self, suite: Suite, announce: Announce | None = None) -> Inspection:
        """The same, with the hosts that the suite names, which examine everything there. Errors name the host.

        `Inspection.hosts` are to be closed. RunError for a host that is not there.
        """
        if not hosts.with_hosts(suite):
            return Inspection(suite, *self.benches(suite, announce))
        said = (lambda text: announce(text, 0.0)) if announce else (lambda text: None)
        here = self.benches(suite, announce)  # what is wrong with the study is said without hosts
        named, fleet = hosts.opened(suite, self.executor, self.consent, said, without_tools=self.without_tools)
        try:
            benches, warnings = here if named is suite else self.benches(named, announce)
        except BaseException:
            fleet.close()
            raise
        return Inspection(named, benches, [*warnings, *fleet.warnings()], fleet)


@dataclass(frozen=True)
class Inspection:
    """A suite that passed every check. `suite` has the names of hosts in place of `all`."""

    suite: Suite
    benches: Sequence[PreparedStudy]
    warnings: Sequence[Warning_]
    hosts: Hosts | None = None


def begin(suite: Suite, root: Path, checks: Checks, announce: Announce | None = None) -> Execution:
    """Check everything, then make the run's folder. ConditionError where each trial would be skipped here."""
    from ioassay.runner import preflight
    from ioassay.store.run_folder import RunStore

    checked = checks.inspect(suite, announce)
    try:
        if checked.hosts is None:
            preflight.require_measurable(checked.benches, checked.warnings)
        preflight.require_record_room(checked.benches, root)
        store = RunStore.create(root, checked.suite, facts(checked.benches, checked.hosts))
    except BaseException:
        if checked.hosts is not None:
            checked.hosts.close()
        raise
    return _execution(store, checked, checks)


def _execution(store: RunStore, checked: Inspection, checks: Checks) -> Execution:
    if checked.hosts is not None and isinstance(checks.executor, str):
        store.resume_options = ("--executor", checks.executor)
    return Execution(store, checked.benches, checked.warnings, hosts=checked.hosts)


def resume(root: Path, checks: Checks, announce: Announce | None = None) -> Execution:
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
    checks = replace(checks, folder=store.working_directory())
    return _execution(store, checks.inspect(suite, announce), checks)


def facts(benches: Sequence[PreparedStudy], hosts: Hosts | None = None) -> dict[str, Any]:
    """What a new run keeps of this host, of others that measure it, and of where it was begun."""
    from ioassay.runner import run_facts
    from ioassay.store.run_folder import FOLDER

    of_hosts = {"hosts": hosts.facts()} if hosts is not None else {}
    return {**run_facts.gathered(benches), FOLDER: str(Path().absolute()), **of_hosts}


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C before the first trial is Interrupted as well, not KeyboardInterrupt."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted before the first trial; nothing was measured") from None


@contextmanager
def named(source: str) -> Iterator[None]:
    """What is found wrong with a study after it was read says its file as well."""
    try:
        yield
    except StudyError as error:
        if source in str(error):
            raise
        raise StudyError(str(error), source=source) from None
