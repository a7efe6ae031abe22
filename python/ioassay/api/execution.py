"""A run from its checks to its last record: what begins one, resumes one, and runs the trials without one.

`begin` and `resume` make an `Execution`; nothing of it has run then, so that whoever shows it knows first which devices
are loaded and how long it takes. What the records mean is in `run_results`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay.errors import InputError, Interrupted, RunError, StudyError, UsageError
from ioassay.records.record import Warning_
from ioassay.roles import Consent
from ioassay.runner import executors, hosts
from ioassay.runner.executors import LOCAL
from ioassay.runner.progress import Progress

if TYPE_CHECKING:
    from ioassay.api.run_results import Run
    from ioassay.runner.hosts import Hosts, KeptFile
    from ioassay.runner.preflight import PreparedStudy, Storage
    from ioassay.runner.trial_sources import GrowingPlan, Planned
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
        return [*hosts.kept_files(self.benches), *(self.hosts.kept if self.hosts else ())]

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
        from ioassay.api import run_results
        from ioassay.runner import run

        progress = progress or Progress()
        number = at_once(executor, workers)
        progress.opened(self.store.root, self.store.suite(), self.store.trials())
        progress.planned(self.trials, self.forecast_s(number))
        if self.hosts is not None:
            self.hosts.wait_quiet_s = wait_quiet_s
        if self.plan is not None:
            self.plan.announce(progress.said)
        try:
            source = self.plan if blocks is None else self._first(blocks)
            with opened(executor, self.store, self.benches, progress) as there:
                tally = run.execute(
                    self.store, self.benches, progress, number, source, wait_quiet_s, there.executor, self.hosts
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

    def _first(self, blocks: int) -> Planned:
        """UsageError for a study that needs all repetitions of an earlier one."""
        from ioassay.runner.trial_sources import Planned
        from ioassay.study import relative_levels

        if blocks < 1:
            raise UsageError(f"blocks is {blocks}; expected a number of at least 1")
        if waiting := [bench.study.name for bench in self.benches if relative_levels.follows(bench.study)]:
            raise UsageError(
                f"{waiting[0]}: takes the best level of an earlier study, which all repetitions of that one decide; "
                "run it without --blocks"
            )
        return Planned(self.store, blocks)


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
        from ioassay.runner import preflight
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
        return Inspection(named, benches, [*warnings, *fleet.warnings()], fleet, self.executor)


@dataclass(frozen=True)
class Inspection:
    """A suite that passed every check. `suite` has the names of hosts in place of `all`."""

    suite: Suite
    benches: Sequence[PreparedStudy]
    warnings: Sequence[Warning_]
    hosts: Hosts | None = None
    executor: Executor | str | None = None
    """Where these are."""

    def execution(self, store: RunStore) -> Execution:
        """That of a run's folder."""
        if self.hosts is not None and isinstance(self.executor, str):
            store.resume_options = ("--executor", self.executor)
        return Execution(store, self.benches, self.warnings, hosts=self.hosts)

    def close(self) -> None:
        """Give up the hosts."""
        if self.hosts is not None:
            self.hosts.close()


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
        checked.close()
        raise
    return checked.execution(store)


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
    return checks.inspect(suite, announce).execution(store)


def facts(benches: Sequence[PreparedStudy], others: Hosts | None = None) -> dict[str, Any]:
    """What a new run keeps of this host, of others that measure it, and of where it was begun."""
    from ioassay.store.run_folder import FOLDER

    of_hosts = {"hosts": others.facts()} if others is not None else {}
    return {**hosts.gathered(benches), FOLDER: str(Path().absolute()), **of_hosts}


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


# Where trials are computed that measure nothing: by processes of the run, or by an executor


@dataclass(frozen=True)
class Computing:
    """Where the trials of a run were computed, if elsewhere. No record has it: they are the same anywhere."""

    executor: str
    workers: Mapping[str, int]
    """Worker -> trials that it computed."""
    refused: Sequence[Warning_]
    """A warning for each worker that is another program."""


def at_once(executor: Executor | str | None, workers: int | None) -> int | None:
    """How many trials are computed at once; None for the runner's default.

    UsageError where the two contradict, and for what is no executor.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"--workers is {workers}; expected at least 1")
    if isinstance(executor, str) and executor != LOCAL:
        places = executors.places(executor)
        if workers is not None:
            raise UsageError(
                f"--workers is {workers}, and is about executor local; "
                f"expected it in the name, such as --executor dask:local,workers={workers}"
            )
        return places
    if not isinstance(executor, Executor | str | None):
        raise UsageError(f"executor is {executor!r}; expected a name, a concurrent.futures.Executor, or None")
    return workers


@dataclass(frozen=True)
class Opened:
    """An executor for one run, by its name, and what can be said of it."""

    name: str
    executor: Executor | None = None
    unused: Sequence[Warning_] = ()

    @property
    def computing(self) -> Computing | None:
        """Where trials were computed so far; None where it was this host alone, or is unknown."""
        shares = getattr(self.executor, "shares", None)
        if shares is None:
            return None
        remedy = "install the same ioassay there"
        refused = [Warning_("worker-refused", f"{one.title}: {one.refusal}", remedy) for one in shares.refused]
        return Computing(self.name, shares.workers, refused)

    @property
    def warnings(self) -> Sequence[Warning_]:
        """That it was not used, and which workers were refused."""
        return [*self.unused, *(self.computing.refused if self.computing else ())]


@contextmanager
def opened(
    executor: Executor | str | None, store: RunStore, benches: Sequence[PreparedStudy], progress: Progress
) -> Iterator[Opened]:
    """What an executor is for this run. `progress` is told of workers that are waited for, and of those refused.

    A name cannot be opened (RunError) after the run was made, so that the message says how to continue it.
    """
    if executor is None or executor == LOCAL:
        yield Opened(LOCAL)
        return
    if all(bench.driver.measures for bench in benches):
        if any(bench.elsewhere for bench in benches):
            yield Opened(LOCAL)
            return
        name = executor if isinstance(executor, str) else type(executor).__name__
        text = f"--executor {name} is not used: the driver '{benches[0].driver.name}' measures this machine"
        yield Opened(LOCAL, unused=[Warning_("executor-unused", text)])
        return
    with ExitStack() as stack:
        if not isinstance(executor, str):
            yield Opened(type(executor).__name__, stack.enter_context(executors.adapted(executor, progress.said)))
            return
        store.resume_options = ("--executor", executor)
        progress.preparing(f"waiting for workers of {executor}", 0.0)
        try:
            found = stack.enter_context(executors.opened(executor, progress.said))
        except RunError as error:
            raise RunError(f"{error}. Continue with: {store.resume_command}") from None
        yield Opened(executor, found)
