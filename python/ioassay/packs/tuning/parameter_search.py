"""The search for a study's best parameters: what begins and continues it, and what it came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ioassay import drivers
from ioassay.api import execution
from ioassay.api.execution import Announce, Execution, Inspection, RunKeys, RunOptions
from ioassay.api.run_results import Run
from ioassay.api.study import Study
from ioassay.errors import StudyError, UsageError
from ioassay.packs.tuning.search import campaign, request
from ioassay.packs.tuning.search.campaign import Campaign, Script
from ioassay.packs.tuning.search.request import Goal, Request, examined
from ioassay.records.record import Warning_
from ioassay.runner import worker_pool
from ioassay.runner.progress import Progress
from ioassay.store import bundle
from ioassay.store.run_folder import RunStore, new_folder
from ioassay.study.model import Suite

if TYPE_CHECKING:
    import polars as pl

    from ioassay.narrative.finding import Finding
    from ioassay.records.record import Scalar
    from ioassay.study import model

FEWEST_TRIALS = 2
MARGIN = 0.05


@dataclass(frozen=True)
class SearchSettings:
    """What is searched for, where, and with how many trials; UsageError names what is wrong."""

    goal: Goal
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
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.trials is None or self.trials < FEWEST_TRIALS:
            seen = "none given" if self.trials is None else f"is {self.trials}"
            raise UsageError(f"--trials: {seen}; expected {FEWEST_TRIALS} or more: one is the default itself")


class Search(Run):
    """The run of a search: its trials, and the best point that it confirmed."""

    @cached_property
    def finding(self) -> Finding:
        """What the search came to, in words and numbers."""
        return next(finding for finding in self.findings if finding.question == "tuned")

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """What the search measured, also where the finding is withheld."""
        from ioassay.packs.tuning.questions import tuned

        return tuned.statistics(tuned.measure(self.records, self.records.studies[0]))

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
        return campaign.resumed(self._store)


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
    **options: Unpack[RunKeys],
) -> Search:
    """Search for a study's best parameters in few `trials`, and confirm them against the default.

        tune(study, maximize="read.iops", subject_to=["read.lat.p99 < 5ms"], trials=40).best

    One of `maximize` and `minimize` names a metric. `budget_s` ends the search, in seconds; the confirmation still
    runs. Other arguments are those of `SearchSettings` and `Study.run`, and so are the errors; UsageError for a suite
    of several studies.
    """
    progress, chosen = progress or Progress(), RunOptions(**options)
    given = (ranges or {}).items()
    words = {name: levels if isinstance(levels, str) else ",".join(map(str, levels)) for name, levels in given}
    goal = request.make_goal(maximize, minimize, subject_to)
    settings = SearchSettings(goal, trials, words, default or {}, listed, confirm, budget_s, pruning, margin, seed)
    with execution.interruptible():
        chosen_study = study if isinstance(study, Study) else Study.read(study)
        ready = begin(chosen_study, settings, output, chosen, progress.preparing)
    found = ready.run(progress)
    assert isinstance(found, Search)
    return found


def begin(
    chosen: Study,
    settings: SearchSettings,
    output: str | Path | None,
    options: RunOptions,
    announce: Announce | None = None,
) -> Execution:
    """Check everything, then make the run's folder with its first trials planned."""
    from ioassay.analysis.threats import different_work
    from ioassay.narrative import stability_text

    first, *others = chosen.suite.studies
    if others:
        number, names = len(chosen.studies), ", ".join(chosen.studies)
        raise UsageError(
            f"{chosen.source}: is a suite of {number} studies; expected one study to tune, such as {names}"
        )
    assert settings.trials is not None
    goal = settings.goal
    odd = [Warning_("goal-direction", goal.warning)] if goal.warning else []
    with execution.named(chosen.source):
        if first.hosts:
            raise StudyError("names hosts, and a search measures this machine; expected none", key="run.hosts")
        study, ranges = request.with_cases(first, settings.ranges)
        driver = drivers.driver(study.driver)
        axes, default = request.space(
            study, ranges, settings.defaults, listed=settings.listed, stated=driver.stated_level
        )
        if differ := different_work([goal.metric], {axis.name: axis.levels for axis in axes}):
            remedy = f"--range {differ[0]}=NAME keeps to one"
            odd.append(Warning_("different-work", str(stability_text.different_work(differ)), remedy))
        at_once = options.at_once or worker_pool.processors()
        asked = Request(
            goal=goal,
            axes=axes,
            default=default,
            trials=settings.trials,
            seed=study.seed if settings.seed is None else settings.seed,
            confirm=settings.confirm or max(request.REPETITIONS, min(study.max_repetitions, request.MOST_REPETITIONS)),
            confirm_most=0 if settings.confirm else request.NOISY_REPETITIONS,
            batch=1 if driver.measures else min(at_once, settings.trials),
            pruning=settings.pruning,
            budget_s=settings.budget_s,
            margin=settings.margin,
            source=chosen.arguments,
        )
        searched = request.searched(study, asked)
        checked = execution.inspect(_alone(examined(searched, asked)), options, announce)
        root = Path(output) if output is not None else new_folder(Path("runs"), f"tune-{study.name}")
        opening = campaign.opening(searched, asked, checked.benches[0].driver)
        facts = execution.facts(checked.benches)
        store = RunStore.create(root, _alone(searched), facts, opening, asked.as_table())
    return _execution(store, asked, options, checked, [*chosen.left_out, *odd])


def resume(root: Path, options: RunOptions, announce: Announce | None = None) -> Execution:
    """A search that was stopped, checked as a new one is; UsageError for a run that is none."""
    if options.blocks is not None:
        why = "the trials of a search follow from each other"
        raise UsageError(f"blocks is {options.blocks}; expected none, since {why}")
    store = RunStore.open(root)
    bundle.require_resumable(root)
    asked = campaign.resumed(store)
    examinable = _alone(examined(store.suite().studies[0], asked))
    checked = execution.inspect(examinable, options, announce, store.working_directory())
    return _execution(store, asked, options, checked)


def _execution(
    store: RunStore, asked: Request, options: RunOptions, checked: Inspection, odd: Sequence[Warning_] = ()
) -> Execution:
    script = Script(store.suite().studies[0], asked, checked.benches[0].driver)
    return Execution(store, checked.benches, options, [*odd, *checked.warnings], Campaign(store, script))


def _alone(study: model.Study) -> Suite:
    return Suite(name=study.name, title=study.title, description=study.description, studies=[study])


Search._resumed = staticmethod(resume)
