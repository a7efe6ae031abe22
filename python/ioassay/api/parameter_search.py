"""The search for a study's best parameters: what begins and continues it, and what it came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay.api import computing, execution
from ioassay.api import study as studies
from ioassay.api.execution import Announce, Checks, Execution
from ioassay.api.progress import Progress
from ioassay.api.run_results import Run
from ioassay.api.study import Study
from ioassay.errors import StudyError, UsageError
from ioassay.roles import Consent

if TYPE_CHECKING:
    import polars as pl

    from ioassay.narrative.finding import Finding
    from ioassay.records.record import Scalar, Warning_
    from ioassay.runner.preflight import Bench
    from ioassay.store.run_folder import RunStore
    from ioassay.study import model
    from ioassay.tuning.axis import Axis
    from ioassay.tuning.objective import Goal
    from ioassay.tuning.request import Request

FEWEST_TRIALS = 2
MARGIN = 0.05


@dataclass(frozen=True)
class SearchSettings:
    """Where a search looks and how much it may try; UsageError names what is wrong."""

    trials: int | None
    ranges: Mapping[str, str] = field(default_factory=dict)
    """Parameter -> `LOW..HIGH`, `LOW..HIGH:STEP`, `LOW..HIGH:*2`, `log:LOW..HIGH` or `A,B,C`."""
    defaults: Mapping[str, Scalar] = field(default_factory=dict)
    """What the winner is compared with, where the study does not say it."""
    listed: bool = False
    """Use only levels that the study lists."""
    confirm: int | None = None
    """Fresh repetitions of winner and default; by default 5 or the study's own, and up to 20 by their noise."""
    budget_s: float | None = None
    pruning: bool = True
    """Abandon candidates that are bad after a quarter of their time."""
    margin: float = MARGIN
    """The relative difference below which two points count as the same."""

    def __post_init__(self) -> None:
        if self.trials is None or self.trials < FEWEST_TRIALS:
            seen = "none given" if self.trials is None else f"is {self.trials}"
            raise UsageError(f"--trials: {seen}; wanted {FEWEST_TRIALS} or more: one is the default itself")


class Search(Run):
    """The run of a search: its trials, and the best point that it confirmed."""

    @cached_property
    def finding(self) -> Finding:
        """What the search came to, in words and numbers."""
        return next(finding for finding in self.findings if finding.question == "tuned")

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """What the search measured, also where the finding is withheld."""
        from ioassay.analysis.optimum import tuning
        from ioassay.narrative import tuned_text

        return tuned_text.statistics(tuning.analyse(self.records, self.records.studies[0])[0])

    @property
    def best(self) -> dict[str, Scalar] | None:
        """The levels of the best point; None where no point keeps the constraints."""
        point = self.numbers["best"]
        return dict(point["point"]) if point is not None and self.feasible else None

    @property
    def default(self) -> dict[str, Scalar]:
        """The levels that the winner is compared with."""
        return dict(self.numbers["default"]["point"])

    @property
    def feasible(self) -> bool:
        """Whether the best point keeps the constraints."""
        return bool(self.numbers["feasible"])

    @property
    def confirmed(self) -> bool:
        """Whether fresh repetitions show that the best point is better than the default."""
        return bool(self.numbers["confirmed"])

    @cached_property
    def history(self) -> pl.DataFrame:
        """One row a point that was tried, in order, with what it gave."""
        import polars as pl

        rows = [
            {key: value for key, value in attempt.items() if key != "point"} | dict(attempt["point"])
            for attempt in self.numbers["history"]
        ]
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)

    @property
    def request(self) -> Request:
        """What the search was asked."""
        from ioassay.tuning import campaign

        return campaign.resumed(self._store)

    def resume(
        self,
        *,
        progress: Progress | None = None,
        executor: Executor | str | None = None,
        workers: int | None = None,
        destroy_data: Sequence[str] = (),
        allow_exec: bool = False,
        wait_quiet_s: float = 0.0,
        blocks: int | None = None,
    ) -> Search:
        """Continue the search where it stopped. Arguments and errors as of `tune`; a search has no `blocks`."""
        if blocks is not None:
            raise UsageError(f"blocks is {blocks}; wanted none, since the trials of a search follow from each other")
        progress = progress or Progress()
        computing.at_once(executor, workers)
        with execution.interruptible():
            ready = resume(self.root, Consent(tuple(destroy_data), allow_exec), progress.preparing)
        return _searched(ready, progress, executor, workers, wait_quiet_s)


def tune(
    study: Study | str | Path,
    *,
    maximize: str | None = None,
    minimize: str | None = None,
    subject_to: Sequence[str] = (),
    trials: int,
    ranges: Mapping[str, str | Sequence[object]] | None = None,
    default: Mapping[str, Scalar] | None = None,
    listed: bool = False,
    confirm: int | None = None,
    budget_s: float | None = None,
    pruning: bool = True,
    margin: float = MARGIN,
    seed: int | None = None,
    output: str | Path | None = None,
    progress: Progress | None = None,
    executor: Executor | str | None = None,
    workers: int | None = None,
    destroy_data: Sequence[str] = (),
    allow_exec: bool = False,
    wait_quiet_s: float = 0.0,
) -> Search:
    """Search for a study's best parameters in few `trials`, and confirm them against the default.

        tune(study, maximize="read.iops", subject_to=["read.lat.p99 < 5ms"], trials=40).best

    One of `maximize` and `minimize` names a metric. `budget_s` ends the search, in seconds; the confirmation still
    runs. Other arguments are those of `SearchSettings` and `Study.run`, and so are the errors; UsageError for a suite
    of several studies.
    """
    from ioassay.tuning import objective

    progress = progress or Progress()
    words = {name: _words(levels) for name, levels in (ranges or {}).items()}
    settings = SearchSettings(trials, words, default or {}, listed, confirm, budget_s, pruning, margin)
    goal = objective.make_goal(maximize, minimize, subject_to)
    consent = Consent(tuple(destroy_data), allow_exec)
    at_once = computing.at_once(executor, workers)
    with execution.interruptible():
        chosen = studies.of(study)
        ready = begin(chosen, goal, settings, consent, output, progress.preparing, seed=seed, workers=at_once)
    return _searched(ready, progress, executor, workers, wait_quiet_s)


def _searched(
    ready: Execution, progress: Progress, executor: Executor | str | None, workers: int | None, wait_quiet_s: float
) -> Search:
    found = ready.run(progress, executor=executor, workers=workers, wait_quiet_s=wait_quiet_s)
    assert isinstance(found, Search)
    return found


def _words(levels: str | Sequence[object]) -> str:
    return levels if isinstance(levels, str) else ",".join(map(str, levels))


def begin(
    chosen: Study,
    goal: Goal,
    settings: SearchSettings,
    consent: Consent,
    output: str | Path | None = None,
    announce: Announce | None = None,
    *,
    seed: int | None = None,
    workers: int | None = None,
) -> Execution:
    """Check everything, then make the run's folder with its first trials planned."""
    one = _only(chosen)
    if seed is not None:
        one = one.model_copy(update={"seed": seed})
    with execution.named(chosen.source):
        ready = _new(one, chosen.arguments, goal, settings, consent, output, announce, workers)
    ready.warnings = [*chosen.left_out, *ready.warnings]
    return ready


def resume(root: Path, consent: Consent, announce: Announce | None = None) -> Execution:
    """A search that was stopped, checked as a new one is; UsageError for a run that is none."""
    from ioassay.store import bundle
    from ioassay.store.run_folder import RunStore
    from ioassay.tuning import campaign

    store = RunStore.open(root)
    bundle.require_resumable(root)
    request = campaign.resumed(store)
    checks = Checks(consent, store.working_directory())
    bench, warnings = _checked(store.suite().studies[0], request, checks, announce)
    return _execution(store, request, bench, warnings)


def _only(chosen: Study) -> model.Study:
    """The one study that is meant; UsageError for a suite of several."""
    first, *others = chosen.suite.studies
    if others:
        names = ", ".join(chosen.studies)
        raise UsageError(
            f"{chosen.source}: is a suite of {len(chosen.studies)} studies; wanted one study to tune, such as {names}"
        )
    return first


def _new(
    study: model.Study,
    source: str,
    goal: Goal,
    settings: SearchSettings,
    consent: Consent,
    output: str | Path | None,
    announce: Announce | None,
    workers: int | None,
) -> Execution:
    from ioassay.drivers import driver
    from ioassay.runner import worker_pool
    from ioassay.store.run_folder import RunStore, new_folder
    from ioassay.study.model import Suite
    from ioassay.tuning import campaign, request

    assert settings.trials is not None
    if study.hosts:
        raise StudyError("names hosts, and a search measures this machine; wanted none", key="run.hosts")
    study, ranges = request.with_cases(study, settings.ranges)
    axes, default = request.space(study, ranges, settings.defaults, listed=settings.listed, fixed=_fixed(study))
    at_once = workers or worker_pool.processors()
    asked = request.Request(
        goal=goal,
        axes=axes,
        default=default,
        trials=settings.trials,
        seed=study.seed,
        confirm=settings.confirm or request.repetitions(study),
        confirm_most=0 if settings.confirm else request.NOISY_REPETITIONS,
        batch=1 if driver(study.driver).measures else min(at_once, settings.trials),
        pruning=settings.pruning,
        budget_s=settings.budget_s,
        margin=settings.margin,
        source=source,
    )
    figures = [{"kind": "search", "name": "search"}]
    searched = request.searched(study, goal, axes, figures)
    bench, warnings = _checked(searched, asked, Checks(consent), announce)
    root = Path(output) if output is not None else new_folder(Path("runs"), f"tune-{study.name}")
    suite = Suite(name=searched.name, title=searched.title, description=searched.description, studies=[searched])
    opening = campaign.opening(searched, asked, bench.driver)
    store = RunStore.create(root, suite, execution.facts([bench]), opening, asked.as_table())
    return _execution(store, asked, bench, [*_odd(goal, axes), *warnings])


def _execution(store: RunStore, request: Request, bench: Bench, warnings: Sequence[Warning_]) -> Execution:
    from ioassay.tuning.campaign import Campaign
    from ioassay.tuning.schedule import Script

    campaign = Campaign(store, Script(store.suite().studies[0], request, bench.driver))
    return Execution(store, [bench], warnings, campaign)


def _odd(goal: Goal, axes: Sequence[Axis]) -> list[Warning_]:
    """What is odd about a goal over these axes."""
    from ioassay.analysis.threats.threat_checks import different_work
    from ioassay.narrative import threats_text
    from ioassay.records.record import Warning_

    found = [Warning_("goal-direction", goal.warning)] if goal.warning else []
    if differ := different_work([goal.metric], {axis.name: axis.levels for axis in axes}):
        remedy = f"--range {differ[0]}=NAME keeps to one"
        found.append(Warning_("different-work", str(threats_text.different_work(differ)), remedy))
    return found


def _fixed(study: model.Study) -> Callable[[str], str | None]:
    """What a job file says of an option, which the winner is compared with."""
    from ioassay.drivers import driver

    made = driver(study.driver)

    def fixed(name: str) -> str | None:
        try:
            return made.stated_in_file(study.params, name)
        except StudyError as error:
            raise UsageError(f"{error}; wanted one to compare the winner with: --default {name}=VALUE") from None

    return fixed


def _checked(
    searched: model.Study, request: Request, checks: Checks, announce: Announce | None
) -> tuple[Bench, list[Warning_]]:
    from ioassay.study.model import Suite
    from ioassay.tuning.request import examined

    study = examined(searched, request)
    suite = Suite(name=study.name, title=study.title, description=study.description, studies=[study])
    benches, warnings = checks.benches(suite, announce)
    return benches[0], warnings
