"""ioassay tune: the best parameters of a study, searched for with few trials and confirmed against the default."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from ioassay.cli import completion_values, console, options, session, syntax
from ioassay.errors import UsageError
from ioassay.packs.tuning.commands import tune_options
from ioassay.roles import Consent

_MARGIN = "5%"
_FULL = "full"


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("tune")(tune)


def tune(
    study: Annotated[
        str | None,
        syntax.Argument(
            metavar="STUDY", values=completion_values.studies, help="A built-in study, a .toml study, or a .fio file."
        ),
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
    resume: Annotated[
        Path | None, syntax.Option(metavar="RUN", values=completion_values.runs, help="Resume a stopped search.")
    ] = None,
    destroy_data: options.DestroyData = None,
    allow_exec: options.AllowExec = False,
    workers: options.Workers = None,
    executor: options.Executor = None,
    live: options.Live = False,
    json: options.Json = False,
) -> None:
    """Search for a study's best parameters in few trials, and confirm them against the default.

    Example: ioassay tune my.toml --maximize read.iops --subject-to 'read.lat.p99 < 5ms' --trials 40
    """
    from ioassay.api import computing
    from ioassay.packs.tuning import parameter_search
    from ioassay.packs.tuning.commands import tune_text
    from ioassay.packs.tuning.search import objective

    console.use_json(json)
    consent = Consent(tuple(destroy_data or ()), allow_exec)
    at_once = computing.at_once(executor, workers)
    if resume is not None:
        changes: list[object] = [study, maximize, minimize, subject_to, ranges, default, trials, confirm, budget, seed]
        changes += [setting, factor, output, listed or None, None if pruning else pruning]
        _refuse_changes(*changes, *(value for value in (scale, margin) if value not in (_FULL, _MARGIN)))
        execution = session.ready(partial(parameter_search.resume, resume, consent), live=live)
    else:
        words = tune_options.read(
            ranges, default, listed=listed, trials=trials, confirm=confirm, budget=budget, pruning=pruning,
            margin=options.share("--margin", margin),
        )  # fmt: skip
        goal = objective.make_goal(maximize, minimize, subject_to or ())
        chosen = options.study(study, scale, setting, factor)
        execution = session.ready(
            partial(parameter_search.begin, chosen, goal, words, consent, output, seed=seed, workers=at_once), live=live
        )
    found = session.measure(execution, workers, executor=executor, live=live)
    assert isinstance(found, parameter_search.Search)
    if json:
        console.emit(tune_text.result(found))
    else:
        tune_text.say(found)
    session.refuse_contradicted(found)
    if found.best is None:
        raise console.Exit(1)


def _refuse_changes(*changes: object) -> None:
    if any(change is not None for change in changes):
        raise UsageError("--resume goes on with a search as it was begun; wanted no study and no other change with it")
