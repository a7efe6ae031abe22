"""A run from its checks to its last record: what begins one, resumes one, and runs the trials without one.

`begin` and `resume` make an `Execution`; nothing of it has run then, so that whoever shows it knows first which devices
are loaded and how long it takes. What the records mean is in `run_results`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ioassay.errors import InputError, Interrupted, RunError, StudyError, UsageError
from ioassay.process import signals
from ioassay.records.record import Warning_
from ioassay.roles import Consent
from ioassay.runner import executors
from ioassay.runner.executors import LOCAL
from ioassay.runner.progress import Progress

if TYPE_CHECKING:
    from ioassay.api.run_results import Run
    from ioassay.runner.executors import Hosts, KeptFile
    from ioassay.runner.preflight import PreparedStudy, Storage
    from ioassay.runner.run import GrowingPlan, Planned, Tally
    from ioassay.store.run_folder import RunStore
    from ioassay.study.model import Suite


Announce = Callable[[str, float], None]
"""Called with what is examined before a run, and its share from 0 to 1."""


class RunKeys(TypedDict, total=False):
    """The options of `RunOptions`, as functions of the Python API take them: what an editor completes."""

    executor: Executor | str | None
    workers: int | None
    destroy_data: Sequence[str]
    allow_exec: bool
    wait_quiet_s: float
    blocks: int | None


@dataclass(frozen=True)
class RunOptions:
    """How a run is checked and carried out; `Study.run` says what each option means. UsageError for what cannot be."""

    executor: Executor | str | None = None
    workers: int | None = None
    destroy_data: Sequence[str] = ()
    allow_exec: bool = False
    wait_quiet_s: float = 0.0
    blocks: int | None = None

    def __post_init__(self) -> None:
        for name, number in (("--workers", self.workers), ("blocks", self.blocks)):
            if number is not None and number < 1:
                raise UsageError(f"{name} is {number}; expected at least 1")
        executor: object = self.executor
        if not isinstance(executor, Executor | str | None):
            raise UsageError(f"executor is {executor!r}; expected a name, a concurrent.futures.Executor, or None")
        _ = self.at_once  # refuses an unknown address
        if self.workers is not None and isinstance(self.executor, str) and self.executor != LOCAL:
            raise UsageError(
                f"--workers is {self.workers}, and is about executor local; "
                f"expected it in the name, such as --executor dask:local,workers={self.workers}"
            )

    @property
    def consent(self) -> Consent:
        """What the user allows."""
        return Consent(tuple(self.destroy_data), self.allow_exec)

    @cached_property
    def at_once(self) -> int | None:
        """How many trials are computed at once; None for the runner's default. UsageError for an unknown address."""
        if isinstance(self.executor, str) and self.executor != LOCAL:
            return executors.places(self.executor)
        return self.workers


USUAL = RunOptions()


@dataclass(frozen=True)
class Computing:
    """Where the trials of a run were computed, if elsewhere. No record has it: they are the same anywhere."""

    executor: str
    workers: Mapping[str, int]
    """Worker -> trials that it computed."""


@dataclass
class Execution:
    """A run that has its folder and has passed every check."""

    store: RunStore
    benches: Sequence[PreparedStudy]
    options: RunOptions
    warnings: Sequence[Warning_] = ()
    """Of the checks and of the executor; those of trials are in their records."""
    plan: GrowingPlan | None = None
    """Where its trials come from; by default the plan that its folder has."""
    hosts: Hosts | None = None
    """Other hosts that measure it."""
    tally: Tally | None = None
    """How the trials ended, once they have."""
    computing: Computing | None = None

    def __post_init__(self) -> None:
        self._say_in_resuming(self.hosts is not None)

    def _say_in_resuming(self, with_executor: bool) -> None:
        """Consent is asked again when a run goes on, so the command that does so repeats what was given."""
        options = self.options
        words = [*(f"--destroy-data={name}" for name in options.destroy_data), *["--allow-exec"] * options.allow_exec]
        if with_executor and isinstance(options.executor, str):
            words += ["--executor", options.executor]
        self.store.resume_options = words

    @property
    def trials(self) -> int:
        """The number of trials, those with a record included; of a plan that grows the most that there can be."""
        from ioassay.study import plan

        if self.plan is not None:
            return self.plan.most
        return sum({**plan.count(self.store.suite()), **self.store.planned()}.values())

    @cached_property
    def forecast_s(self) -> float:
        """The time in seconds that all trials are expected to take."""
        from ioassay.runner import preflight

        each = [preflight.forecast(bench, self.options.at_once) for bench in self.benches]
        share = 1.0 if self.plan is None else self.trials / max(sum(one.trials for one in each), 1)
        return sum(one.seconds for one in each) * share

    def devices(self) -> list[Storage]:
        """The block devices that are loaded, with what is on them."""
        from ioassay.runner import preflight

        return [*preflight.devices(self.benches), *(self.hosts.devices() if self.hosts else ())]

    def kept_files(self) -> list[KeptFile]:
        """What studies made beside the run's folder and that is still there."""
        return [*executors.kept_files(self.benches), *(self.hosts.kept if self.hosts else ())]

    def run(self, progress: Progress | None = None) -> Run:
        """Run what has no record yet, see `runner.run.execute`, and give up the hosts.

        Interrupted, which says how to resume it, at Ctrl-C.
        """
        from ioassay.api import run_results
        from ioassay.runner import run

        progress, options = progress or Progress(), self.options
        progress.opened(self.store.root, self.store.suite(), self.store.trials())
        progress.planned(self.trials, self.forecast_s)
        if self.hosts is not None:
            self.hosts.wait_quiet_s = options.wait_quiet_s
        if self.plan is not None:
            self.plan.announce(progress)
        try:
            source = self.plan if options.blocks is None else self._first(options.blocks)
            with self._executor(progress) as executor:
                self.tally = run.execute(
                    self.store,
                    self.benches,
                    progress,
                    options.at_once,
                    source,
                    options.wait_quiet_s,
                    executor,
                    self.hosts,
                )
            if options.blocks is not None:
                self.tally.planned = self.trials
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt | Interrupted) and not signals.received():
                raise
            go_on = f"interrupted; what was recorded is kept. Go on with: {self.store.resume_command}"
            raise Interrupted(go_on) from None
        finally:
            if self.hosts is not None:
                self.hosts.close()
        if (shares := getattr(executor, "shares", None)) is not None:
            remedy = "install the same ioassay there"
            refused = [Warning_("worker-refused", f"{one.title}: {one.refusal}", remedy) for one in shares.refused]
            self.warnings = [*self.warnings, *refused]
            self.computing = Computing(self._executor_name, shares.workers)
        return run_results.of_store(self.store, self)

    def _first(self, blocks: int) -> Planned:
        """The first randomised blocks. UsageError for a study that needs all repetitions of an earlier one."""
        from ioassay.runner.run import Planned
        from ioassay.study import relative_levels

        if waiting := [bench.study.name for bench in self.benches if relative_levels.follows(bench.study)]:
            raise UsageError(
                f"{waiting[0]}: takes the best level of an earlier study, which all repetitions of that one decide; "
                "run it without --blocks"
            )
        return Planned(self.store, blocks)

    @property
    def _executor_name(self) -> str:
        executor = self.options.executor
        return executor if isinstance(executor, str) else type(executor).__name__

    @contextmanager
    def _executor(self, progress: Progress) -> Iterator[Executor | None]:
        """The executor of this run; None for its own workers. Those that are waited for, or refused, are announced.

        A name is opened after the run was made, so that its RunError says how to continue it.
        """
        asked = self.options.executor
        is_unused = all(bench.driver.measures for bench in self.benches)
        if asked is None or asked == LOCAL or is_unused:
            if asked not in (None, LOCAL) and not any(bench.elsewhere for bench in self.benches):
                measures = f"the driver '{self.benches[0].driver.name}' measures this machine"
                text = f"--executor {self._executor_name} is not used: {measures}"
                self.warnings = [*self.warnings, Warning_("executor-unused", text)]
            yield None
        elif not isinstance(asked, str):
            with executors.adapted(asked, progress.said) as executor:
                yield executor
        else:
            self._say_in_resuming(True)
            progress.preparing(f"waiting for workers of {asked}", 0.0)
            with ExitStack() as stack:
                try:
                    opened = stack.enter_context(executors.opened(asked, progress.said))
                except RunError as error:
                    raise RunError(f"{error}. Continue with: {self.store.resume_command}") from None
                yield opened


@dataclass(frozen=True)
class Inspection:
    """A suite that passed every check. `suite` has the names of hosts in place of `all`; `hosts` are to be closed."""

    suite: Suite
    benches: Sequence[PreparedStudy]
    warnings: Sequence[Warning_]
    hosts: Hosts | None = None

    def close(self) -> None:
        """Give up the hosts."""
        if self.hosts is not None:
            self.hosts.close()


def inspect(
    suite: Suite,
    options: RunOptions,
    announce: Announce | None = None,
    folder: Path | None = None,
    *,
    is_plan: bool = False,
) -> Inspection:
    """Examine everything of this host and of those that a suite names; nothing has been touched.

    `announce` is told what is examined. Relative paths start from `folder`, by default the working directory. For a
    plan a missing tool is a warning, less can be checked then, and hosts are asked where an executor has them.

    ToolError for a missing tool, SafetyRefusal where data could be lost, StudyError for what cannot be run, RunError
    for a host that is not there; errors of hosts name them.
    """
    from ioassay.report import figures
    from ioassay.runner import preflight
    from ioassay.targets import occupancy

    figures.check_suite(suite)

    def examine(suite: Suite) -> tuple[list[PreparedStudy], list[Warning_]]:
        consent = executors.of_this_host(options.consent, suite)
        with occupancy.announced(announce or (lambda text, share: None)):
            return preflight.inspect(suite, consent, folder, without_tools=is_plan)

    benches, warnings = examine(suite)  # what is wrong with the study is said without hosts
    if not executors.with_hosts(suite) or (is_plan and options.executor is None):
        return Inspection(suite, benches, [*warnings, *(executors.unchecked(suite) if is_plan else ())])
    said = (lambda text: announce(text, 0.0)) if announce else (lambda text: None)
    named, fleet = executors.open_hosts(suite, options.executor, options.consent, said, without_tools=is_plan)
    try:
        if named is not suite:
            benches, warnings = examine(named)
    except BaseException:
        fleet.close()
        raise
    return Inspection(named, benches, [*warnings, *fleet.warnings()], fleet)


def begin(suite: Suite, root: Path, options: RunOptions, announce: Announce | None = None) -> Execution:
    """Check everything, then make the run's folder. ConditionError where each trial would be skipped here."""
    from ioassay.runner import preflight
    from ioassay.store.run_folder import RunStore

    checked = inspect(suite, options, announce)
    try:
        if checked.hosts is None:
            preflight.require_measurable(checked.benches, checked.warnings)
        preflight.require_record_room(checked.benches, root)
        store = RunStore.create(root, checked.suite, facts(checked.benches, checked.hosts))
    except BaseException:
        checked.close()
        raise
    return Execution(store, checked.benches, options, checked.warnings, hosts=checked.hosts)


def resume(root: Path, options: RunOptions, announce: Announce | None = None) -> Execution:
    """An existing run, checked as a new one is; relative paths mean what they meant when it began."""
    from ioassay.store import bundle
    from ioassay.store.run_folder import RunStore

    store = RunStore.open(root)
    if store.api_name != "Run":
        raise UsageError(f"{root}: its trials follow from each other; wanted: {store.resume_command}")
    bundle.require_resumable(root)
    suite = store.suite()
    if strange := store.planned().keys() - {study.name for study in suite.studies}:
        raise InputError(f"{root}: plan.jsonl has trials of '{min(strange)}', which study.toml has not; restore them")
    checked = inspect(suite, options, announce, store.working_directory())
    return Execution(store, checked.benches, options, checked.warnings, hosts=checked.hosts)


def facts(benches: Sequence[PreparedStudy], others: Hosts | None = None) -> dict[str, Any]:
    """What a new run keeps of this host, of others that measure it, and of where it was begun."""
    from ioassay.store.run_folder import FOLDER

    of_hosts = {"hosts": others.facts()} if others is not None else {}
    return {**executors.gathered(benches), FOLDER: str(Path().absolute()), **of_hosts}


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
