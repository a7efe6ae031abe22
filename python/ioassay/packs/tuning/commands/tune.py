"""ioassay tune: the best parameters of a study, searched for with few trials and confirmed against the default.

Every number that it says is the analysis's.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay import units
from ioassay.api.execution import RunOptions
from ioassay.cli import completion_values, console, options, session, syntax
from ioassay.cli.syntax import Row
from ioassay.errors import UsageError
from ioassay.factors import CASE, level_word

if TYPE_CHECKING:
    from ioassay.packs.tuning.parameter_search import Search
    from ioassay.packs.tuning.search.request import Request

_FEW = 12
"""Levels of an axis that are listed one by one."""
_Goal = partial(syntax.option, panel="Goal", values=completion_values.responses)
_Space = partial(syntax.option, panel="Where to search")
_Effort = partial(syntax.option, panel="Effort")
_CONFIRM = "Fresh repetitions of winner and default at the end. [5, or the study's own up to 10; up to 20 by noise]"
_RANGE = (
    "Values of one parameter to search: LOW..HIGH, LOW..HIGH:STEP, LOW..HIGH:*2 or A,B,C; log:LOW..HIGH is "
    "logarithmic; may be repeated. By default everything from a factor's lowest to its highest level."
)
_DEFAULT = "Value that the winner is compared with; by default the study's parameter or a factor's first level."
_Text = str | None
_Number = int | None
_Many = list[str] | None
_SEARCH = {
    "maximize": Row(_Text, None, _Goal("METRIC", "Metric to maximize, such as read.iops.")),
    "minimize": Row(_Text, None, _Goal("METRIC", "Metric to minimize, such as read.lat.p99.")),
    "subject_to": Row(_Many, None, _Goal("CONSTRAINT", "Constraint, such as 'write.lat.p99 < 5ms'; may be repeated.")),
    "ranges": Row(_Many, None, _Space("--range NAME=LOW..HIGH", _RANGE, completion_values.axes)),
    "listed": Row(bool, False, _Space("--listed", "Use only levels that the study lists, none between them.")),
    "default": Row(_Many, None, _Space("NAME=VALUE", _DEFAULT, completion_values.factors)),
    "trials": Row(_Number, None, _Effort("N", "Number of trials of the search; the confirmation adds its own.")),
    "confirm": Row(_Number, None, _Effort("K", _CONFIRM, min=2)),
    "budget": Row(
        _Text, None, _Effort("TIME", "Stop the search after this time, such as 10m; the confirmation still runs.")
    ),
    "pruning": Row(
        bool, True, _Effort("--pruning/--no-pruning", "Abandon candidates that are bad after a quarter of their time.")
    ),
    "margin": Row(str, "5%", _Effort("SHARE", "Relative differences below this count as the same, as for compare.")),
    "seed": Row(_Number, None, _Effort("N", "Seed of the search and of its trials.", min=0)),
    **options.CHANGES,
}


@syntax.takes({**_SEARCH, **options.CONSENT, **options.WORKERS, **options.EXECUTOR})
def tune(
    study: Annotated[
        _Text, syntax.argument("STUDY", "A built-in study, a .toml study, or a .fio file.", completion_values.studies)
    ] = None,
    *,
    output: options.Output = None,
    resume: Annotated[Path | None, syntax.option("RUN", "Resume a stopped search.", completion_values.runs)] = None,
    live: options.Live = False,
    json: options.Json = False,
    **given: Any,
) -> None:
    """Search for a study's best parameters in few trials, and confirm them against the default.

    Example: ioassay tune my.toml --maximize read.iops --subject-to 'read.lat.p99 < 5ms' --trials 40
    """
    from ioassay.packs.tuning import parameter_search
    from ioassay.packs.tuning.search import request, space

    chosen = RunOptions(**options.of_run(given))
    if resume is not None:
        if study or output or any(given[name] != row.default for name, row in _SEARCH.items()):
            raise UsageError(
                "--resume goes on with a search as it was begun; expected no study and no other change with it"
            )
        found = session.measure(lambda announce: parameter_search.resume(resume, chosen, announce), live=live)
    else:
        goal = request.make_goal(given["maximize"], given["minimize"], given["subject_to"] or ())
        defaults = _pairs("--default", given["default"], "1")
        settings = parameter_search.SearchSettings(
            goal,
            ranges=_pairs("--range", given["ranges"], "1..64"),
            defaults={name: space.scalar(value) for name, value in defaults.items()},
            budget_s=_budget_s(given["budget"]),
            margin=options.share("--margin", given["margin"]),
            **{name: given[name] for name in ("trials", "listed", "confirm", "pruning", "seed")},
        )
        tuned = options.study(study, given)
        found = session.measure(
            lambda announce: parameter_search.begin(tuned, settings, output, chosen, announce), live=live
        )
    assert isinstance(found, parameter_search.Search)
    if json:
        console.emit(_result(found))
    else:
        asked, use = found.request, []
        if found.confirmed and not found.finding.withheld:
            point = found.numbers["best"]["point"]
            use.append(" ".join(f"{axis.name}={level_word(point[axis.name])}" for axis in asked.axes))
            others = " (which runs the other cases too)" if any(axis.name == CASE for axis in asked.axes) else ""
            use.append(f"to use it: {_use(asked, found.numbers)}{others}")
        session.say(found, use)
    session.refuse_contradicted(found)
    if found.best is None:
        raise console.Exit(1)


def _pairs(option: str, assignments: Sequence[str] | None, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for assignment in assignments or ():
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if not (name and equals and value):
            raise UsageError(f"{option} {assignment}: expected NAME=VALUE, such as iodepth={example}")
        if name in found:
            raise UsageError(f"{option} {assignment}: '{name}' is named twice; expected one of them")
        found[name] = value
    return found


def _budget_s(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = units.parse_duration_s(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise UsageError(f"--budget {text}: expected a time above 0, such as 90s, 10m or 2h")
    return seconds


def _result(search: Search) -> dict[str, Any]:
    request, found = search.request, search.numbers
    goal, run = request.goal, search.as_dict()
    kept = ("ended", "trials", "best", "default", "feasible", "dropped", "confirmed", "confirmation")
    constraints = [constraint.text for constraint in goal.constraints]
    axes: list[dict[str, Any]] = []
    for axis in request.axes:
        few = len(axis.levels) <= _FEW
        ends = {"levels": list(axis.levels)} if few else {"from": axis.levels[0], "to": axis.levels[-1]}
        axes.append({"name": axis.name, "number": len(axis.levels), **ends})
    return {
        "goal": {"metric": goal.metric, "maximize": goal.maximize, "constraints": constraints},
        "space": {"axes": axes, **found["space"]},
        **{key: found[key] for key in kept},
        "statement": search.finding.statement,
        "use": _use(request, found) if search.confirmed and not search.finding.withheld else None,
        "history": found["history"],
        **{key: run[key] for key in ("run", "report", "figures", "warnings", "failures", "skips", "kept_files")},
    }


def _use(request: Request, found: Mapping[str, Any]) -> str:
    """The command that runs the study at the winner: `--factor` takes what a study varies and what it fixes alike.

    All cases run then, since no option of `run` picks one.
    """
    point = found["best"]["point"]
    named = [axis.name for axis in request.axes if axis.name != CASE]
    words = [f"--factor {shlex.quote(f'{name}={level_word(point[name])}')}" for name in named]
    return " ".join(["ioassay run", request.source, *words])
