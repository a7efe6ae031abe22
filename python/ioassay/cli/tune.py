"""ioassay tune: the best parameters of a study, searched for with few trials and confirmed against the default."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.cli import console, options, session, study_choice, syntax, tune_options
from ioassay.errors import Contradicted, StudyError, UsageError
from ioassay.roles import Consent

if TYPE_CHECKING:
    from ioassay.cli.progress import Silent
    from ioassay.cli.session import Published
    from ioassay.cli.tune_options import Words
    from ioassay.records.record import Warning_
    from ioassay.runner.preflight import Bench
    from ioassay.store.run_folder import RunStore
    from ioassay.study.model import Study
    from ioassay.tuning.axis import Axis
    from ioassay.tuning.campaign import Campaign
    from ioassay.tuning.objective import Goal
    from ioassay.tuning.request import Request

    Begun = tuple[RunStore, Request, Bench, list[Warning_]]

_MARGIN = "5%"
_FULL = "full"


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("tune")(tune)


def tune(
    study: Annotated[
        str | None, syntax.Argument(metavar="STUDY", help="A built-in study, a .toml study, or a .fio file.")
    ] = None,
    maximize: tune_options.Maximize = None,
    minimize: tune_options.Minimize = None,
    subject_to: tune_options.SubjectTo = None,
    ranges: tune_options.Range = None,
    listed: tune_options.Listed = False,
    default: tune_options.Default = None,
    trials: tune_options.Trials = None,
    confirm: tune_options.Confirm = None,
    budget: tune_options.Budget = None,
    pruning: tune_options.Pruning = True,
    margin: tune_options.Margin = _MARGIN,
    seed: tune_options.Seed = None,
    setting: options.Set = None,
    factor: options.Factor = None,
    scale: options.Scale = _FULL,
    output: options.Output = None,
    resume: Annotated[Path | None, syntax.Option(metavar="RUN", help="Resume a stopped search.")] = None,
    destroy_data: options.DestroyData = None,
    allow_exec: options.AllowExec = False,
    workers: options.Workers = None,
    live: options.Live = False,
    json: options.Json = False,
) -> None:
    """Search for a study's best parameters in few trials, and confirm them against the default.

    Example: ioassay tune my.toml --maximize read.iops --subject-to 'read.lat.p99 < 5ms' --trials 40
    """
    from ioassay.cli import tune_text
    from ioassay.tuning import objective

    console.use_json(json)
    consent = Consent(tuple(destroy_data or ()), allow_exec)
    if resume is not None:
        changes: list[object] = [study, maximize, minimize, subject_to, ranges, default, trials, confirm, budget, seed]
        changes += [setting, factor, output, listed or None, None if pruning else pruning]
        _refuse_changes(*changes, *(value for value in (scale, margin) if value not in (_FULL, _MARGIN)))
        store, request, bench, warnings = _resumed(resume, consent)
    else:
        words = tune_options.read(
            ranges, default, listed=listed, trials=trials, confirm=confirm, budget=budget, pruning=pruning,
            margin=options.share("--margin", margin),
        )  # fmt: skip
        wanted = objective.make_goal(maximize, minimize, subject_to or ())
        seeds = [] if seed is None else [f"seed={seed}"]
        chosen, left_out = _one(study, scale, [*(setting or ()), *seeds], factor)
        with study_choice.named(str(study)):
            source = _source(str(study), scale, setting, factor)
            store, request, bench, warnings = _new(chosen, source, wanted, words, output, consent, workers)
        warnings = [*left_out, *warnings]
    campaign = _campaign(store, request, bench)
    tally, published = session.measure(
        store, [bench], workers, lambda shown: _watched(campaign, shown), campaign.most, live=live
    )
    found = tune_text.search_result(published)
    if json:
        console.emit(tune_text.result(store, request, published, found, warnings))
    else:
        tune_text.say(store, tally, request, published, found, warnings)
    _end(published, found)


def _one(study: str | None, scale: str, settings: list[str], factors: list[str] | None) -> tuple[Study, list[Warning_]]:
    """The one study that is meant; UsageError for a suite of several."""
    if study is None:
        raise UsageError("no study given; wanted a name from 'ioassay studies', a .toml study or a .fio job file")
    left_out: list[Warning_] = []
    suite = study_choice.chosen(study, scale, settings, factors, None, left_out)
    if len(suite.studies) > 1:
        names = ", ".join(one.name for one in suite.studies)
        raise UsageError(
            f"{study}: is a suite of {len(suite.studies)} studies; wanted one study to tune, such as {names}"
        )
    return suite.studies[0], left_out


def _source(study: str, scale: str, settings: list[str] | None, factors: list[str] | None) -> str:
    """The words that name the same study to `ioassay run`; factors of several levels are searched, and left out."""
    words = [study] if scale == _FULL else [study, "--scale", scale]
    words += [word for assignment in settings or () for word in ("--set", assignment)]
    fixed = [assignment for assignment in factors or () if "," not in assignment]
    return shlex.join([*words, *(word for assignment in fixed for word in ("--factor", assignment))])


def _new(
    study: Study, source: str, goal: Goal, words: Words, output: Path | None, consent: Consent, workers: int | None
) -> Begun:
    """Check everything, then make the run's folder with its first trials planned."""
    from ioassay.drivers import driver
    from ioassay.report.figures import FIGURES
    from ioassay.store.run_folder import RunStore, new_folder
    from ioassay.study.model import Suite
    from ioassay.tuning import campaign, request

    study, ranges = request.with_cases(study, words.ranges)
    axes, default = request.space(study, ranges, words.defaults, listed=words.listed, fixed=_fixed(study))
    asked = request.Request(
        goal=goal,
        axes=axes,
        default=default,
        trials=words.trials,
        seed=study.seed,
        confirm=words.confirm or request.repetitions(study),
        confirm_most=0 if words.confirm else request.NOISY_REPETITIONS,
        batch=1 if driver(study.driver).measures else min(_at_once(workers), words.trials),
        pruning=words.pruning,
        budget_s=words.budget_s,
        margin=words.margin,
        source=source,
    )
    figures = [{"kind": "search", "name": "search"}] if "search" in FIGURES else []
    searched = request.searched(study, goal, axes, figures)
    bench, warnings = _checked(searched, asked, consent)
    root = output or new_folder(Path("runs"), f"tune-{study.name}")
    suite = Suite(name=searched.name, title=searched.title, description=searched.description, studies=[searched])
    opening = campaign.opening(searched, asked, bench.driver)
    store = RunStore.create(root, suite, session.facts([bench]), opening, asked.as_table())
    return store, asked, bench, [*_odd(goal, axes), *warnings]


def _odd(goal: Goal, axes: Sequence[Axis]) -> list[Warning_]:
    """What is odd about a goal over these axes."""
    from ioassay.analysis.threats.run_condition_threats import different_work
    from ioassay.narrative.threats_text import different_work_text
    from ioassay.records.record import Warning_

    found = [Warning_("goal-direction", goal.warning)] if goal.warning else []
    if differ := different_work([goal.metric], {axis.name: axis.levels for axis in axes}):
        remedy = f"--range {differ[0]}=NAME keeps to one"
        found.append(Warning_("different-work", different_work_text(differ), remedy))
    return found


def _fixed(study: Study) -> Callable[[str], str | None]:
    """What a job file says of an option, which the winner is compared with."""
    from ioassay.drivers.fio import jobfile

    def fixed(name: str) -> str | None:
        try:
            return jobfile.fixed(study.params, name)
        except StudyError as error:
            raise UsageError(f"{error}; wanted one to compare the winner with: --default {name}=VALUE") from None

    return fixed


def _at_once(workers: int | None) -> int:
    from ioassay.runner import worker_pool

    return workers or worker_pool.processors()


def _checked(
    searched: Study, request: Request, consent: Consent, folder: Path | None = None
) -> tuple[Bench, list[Warning_]]:
    from ioassay.study.model import Suite
    from ioassay.tuning.request import examined

    study = examined(searched, request)
    suite = Suite(name=study.name, title=study.title, description=study.description, studies=[study])
    benches, warnings = session.rehearsed_benches(suite, consent, folder)
    return benches[0], warnings


def _resumed(root: Path, consent: Consent) -> Begun:
    """A search that was stopped, checked as a new one is."""
    from ioassay.store import bundle
    from ioassay.store.run_folder import RunStore
    from ioassay.tuning import campaign

    store = RunStore.open(root)
    bundle.require_resumable(root)
    request = campaign.resumed(store)
    bench, warnings = _checked(store.suite().studies[0], request, consent, store.working_directory())
    return store, request, bench, warnings


def _refuse_changes(*changes: object) -> None:
    if any(change is not None for change in changes):
        raise UsageError("--resume goes on with a search as it was begun; wanted no study and no other change with it")


def _campaign(store: RunStore, request: Request, bench: Bench) -> Campaign:
    from ioassay.tuning.campaign import Campaign
    from ioassay.tuning.schedule import Script

    return Campaign(store, Script(store.suite().studies[0], request, bench.driver))


def _watched(campaign: Campaign, shown: Silent) -> Campaign:
    """The campaign, which tells the progress of each new best point."""
    from ioassay import metrics
    from ioassay.study import plan

    def told(best: object, asked: int) -> None:
        from ioassay.tuning.search import Best

        assert isinstance(best, Best)
        metric = campaign.script.request.goal.metric
        value = metrics.format_metric(metric, best.mean)
        rank, limits = ("best", "") if best.feasible else ("nearest", ", beyond the constraints")
        shown.said(f"{rank} after {asked}: {plan.describe(best.point)}: {value}{limits}")

    campaign.script.on_best = told
    return campaign


def _end(published: Published, found: dict[str, object]) -> None:
    """Exit 4 when the kernel contradicts what a tool claimed; 1 when there is no point to recommend."""
    if contradicted := session.contradictions(published.findings):
        console.note(f"the kernel contradicts {console.count(contradicted, 'claim')}; the verdicts say why")
        raise console.Exit(Contradicted.exit_code)
    if found["best"] is None or not found["feasible"]:
        raise console.Exit(1)
