"""What `ioassay tune` says at its end: the JSON object, and the same for people. Every number is the analysis's."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ioassay.cli import closing
from ioassay.factors import CASE, level_word

if TYPE_CHECKING:
    from ioassay.packs.tuning.parameter_search import Search
    from ioassay.packs.tuning.search.request import Request
    from ioassay.packs.tuning.search.space import Axis

_FEW = 12
"""Levels of an axis that are listed one by one."""


def result(search: Search) -> dict[str, Any]:
    """The result as --json prints it."""
    request, found = search.request, search.numbers
    goal, run = request.goal, search.as_dict()
    kept = ("ended", "trials", "best", "default", "feasible", "dropped", "confirmed", "confirmation")
    return {
        "goal": {
            "metric": goal.metric,
            "maximize": goal.maximize,
            "constraints": [constraint.text for constraint in goal.constraints],
        },
        "space": {"axes": [_axis(axis) for axis in request.axes], **found["space"]},
        **{key: found[key] for key in kept},
        "statement": search.finding.statement,
        "use": _use(request, found) if search.confirmed and not search.finding.withheld else None,
        "history": found["history"],
        **{key: run[key] for key in ("run", "report", "figures", "warnings", "failures", "skips", "kept_files")},
    }


def _axis(axis: Axis) -> dict[str, Any]:
    few = len(axis.levels) <= _FEW
    ends = {"levels": list(axis.levels)} if few else {"from": axis.levels[0], "to": axis.levels[-1]}
    return {"name": axis.name, "number": len(axis.levels), **ends}


def _use(request: Request, found: Mapping[str, Any]) -> str:
    """The command that runs the study at the winner: `--factor` takes what a study varies and what it fixes alike.

    All cases run then, since no option of `run` picks one.
    """
    point = found["best"]["point"]
    named = [axis.name for axis in request.axes if axis.name != CASE]
    words = [f"--factor {shlex.quote(f'{name}={level_word(point[name])}')}" for name in named]
    return " ".join(["ioassay run", request.source, *words])


def say(search: Search) -> None:
    """The result for people."""
    request, found = search.request, search.numbers
    use = []
    if search.confirmed and not search.finding.withheld:
        use.append(" ".join(f"{axis.name}={level_word(found['best']['point'][axis.name])}" for axis in request.axes))
        others = " (which runs the other cases too)" if any(axis.name == CASE for axis in request.axes) else ""
        use.append(f"to use it: {_use(request, found)}{others}")
    closing.say(search, use)
